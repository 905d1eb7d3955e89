//! The tenant of an event. Lambda runs the events of each tenant apart if a function has tenant isolation.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::{
    fault::{FaultKind, InvokeFault},
    json,
    policy::Policy,
};

/// Lambda accepts no longer tenant id.
const BYTES_MAX: usize = 256;

impl Policy {
    /// The tenant id in an event's payload, if the function has tenants. A payload without one that Lambda accepts is a
    /// fault that a person has to fix, of the event's sender or of the setting.
    pub fn tenant<'a>(&self, payload: &'a RawValue) -> Result<Option<Cow<'a, str>>, InvokeFault> {
        let Some(pointer) = &self.tenant_id else { return Ok(None) };
        let fault = |got: &str| {
            let message = format!("TENANT_ID is {pointer}, and the payload has {got} there");
            Err(InvokeFault { kind: FaultKind::Configuration, code: None, message })
        };
        let Some(found) = pointer.find(payload.get()) else { return fault("nothing") };
        let is_number = found.get().starts_with(|c: char| c == '-' || c.is_ascii_digit());
        let id = json::text(found).or_else(|| is_number.then(|| found.get().into()));
        match id {
            None => fault("neither a text nor a number"),
            Some(id) if id.is_empty() => fault("an empty text"),
            Some(id) if id.len() > BYTES_MAX => fault("a text of more than 256 bytes"),
            Some(id) if !id.chars().all(is_accepted) => fault("characters that Lambda refuses"),
            Some(id) => Ok(Some(id)),
        }
    }
}

/// Lambda's own rule for a tenant id, as its API's model has it.
fn is_accepted(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._:/=+-@ ".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pointer::Pointer;

    #[test]
    fn the_tenant_is_a_text_or_a_number_that_lambda_accepts() {
        let policy = Policy { tenant_id: Pointer::parse("/tenant/id"), ..Policy::default() };
        let long = format!(r#""{}""#, "x".repeat(BYTES_MAX));
        let too_long = format!(r#""{}""#, "x".repeat(BYTES_MAX + 1));
        for (id, expected) in [
            (r#""blue""#, Ok("blue")),
            (r#""b\u006cue @-=""#, Ok("blue @-=")),
            ("17", Ok("17")),
            ("-1.50", Ok("-1.50")),
            (&*long, Ok(&long[1..=BYTES_MAX])),
            (&*too_long, Err("a text of more than 256 bytes")),
            (r#""""#, Err("an empty text")),
            (r#""blü""#, Err("characters that Lambda refuses")),
            (r#""a\nb""#, Err("characters that Lambda refuses")),
            ("null", Err("neither a text nor a number")),
            ("true", Err("neither a text nor a number")),
            (r#"["blue"]"#, Err("neither a text nor a number")),
        ] {
            let payload = format!(r#"{{"tenant":{{"id":{id}}}}}"#);
            let payload: &RawValue = serde_json::from_str(&payload).unwrap();
            let got = policy.tenant(payload).map_err(|fault| (fault.kind, fault.message));
            let said = |got| format!("TENANT_ID is /tenant/id, and the payload has {got} there");
            let expected = expected.map(|id| Some(id.into()));
            assert_eq!(got, expected.map_err(|got| (FaultKind::Configuration, said(got))), "{id}");
        }
        let other: &RawValue = serde_json::from_str(r#"{"tenant":"blue"}"#).unwrap();
        assert!(policy.tenant(other).unwrap_err().message.ends_with("has nothing there"));
        assert_eq!(Policy::default().tenant(other), Ok(None));
    }
}
