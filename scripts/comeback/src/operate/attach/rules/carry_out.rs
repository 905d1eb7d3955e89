//! Carries out the steps of a plan, one after the other.

use std::time::Duration;

use crate::{
    account::fault::{Answer, Clock, Fault},
    operate::attach::rules::steps::{Planned, Step},
};

/// A step that failed. The steps before it are not undone.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{what}: {fault}")]
pub struct Stopped {
    pub done: usize,
    pub what: String,
    pub fault: Fault,
}

/// IAM is eventually consistent: new permissions usually take effect within seconds.
const SETTLE_MAX: Duration = Duration::from_mins(1);

const SETTLE_WAIT: Duration = Duration::from_secs(3);

/// Carries out the steps in order with `change`, until one fails or `goes_on` returns false. `goes_on` is called after
/// each step.
pub async fn carry_out<F: Future<Output = Answer<()>>>(
    plan: &[Planned],
    clock: &impl Clock,
    change: impl Fn(Step) -> F,
    mut goes_on: impl FnMut(&Planned) -> bool,
) -> Result<(), Stopped> {
    for (index, planned) in plan.iter().enumerate() {
        let mut waited = Duration::ZERO;
        loop {
            match change(planned.step.clone()).await {
                Ok(()) => break,
                Err(fault) if waited < SETTLE_MAX && settles(&fault) => {
                    clock.sleep(SETTLE_WAIT).await;
                    waited += SETTLE_WAIT;
                }
                Err(fault) => {
                    return Err(Stopped { done: index, what: planned.what.clone(), fault });
                }
            }
        }
        if !goes_on(planned) {
            return Ok(());
        }
    }
    Ok(())
}

/// Whether a fault passes when an earlier change takes effect: a new permission, or an update of the function or a
/// mapping that is still in progress.
fn settles(fault: &Fault) -> bool {
    let code = fault.code.as_deref().unwrap_or_default();
    let is_permission =
        code == "InvalidParameterValueException" && fault.message.contains("permission");
    // S3 tries the queue, whose new policy takes up to a minute.
    let is_untold = code == "InvalidArgument" && fault.message.contains("Unable to validate");
    let is_changing = ["ResourceConflictException", "ResourceInUseException"].contains(&code);
    is_permission || is_untold || is_changing
}
