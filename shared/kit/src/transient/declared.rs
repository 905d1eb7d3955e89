//! Errors that say of themselves whether they pass.

use std::error::Error;

use comeback_core::fault::StoreFault;

use super::{Kind, Verdict, standard::Opinion};

pub(super) fn opinion(error: &(dyn Error + 'static)) -> Option<Opinion> {
    let fault = error.downcast_ref::<StoreFault>()?;
    let verdict = if fault.passes { Verdict::retry(Kind::Unavailable) } else { Verdict::Never };
    Some(Opinion::Certain(verdict))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transient::judge;

    #[test]
    fn a_store_says_itself_whether_its_fault_passes() {
        for (passes, verdict) in
            [(true, Verdict::retry(Kind::Unavailable)), (false, Verdict::Never)]
        {
            let fault = StoreFault { passes, code: None, message: "connection reset".into() };
            assert_eq!(judge(&fault), verdict);
        }
    }
}
