//! What keeps any function of a retry system from running.

use crate::{
    account::function::Running,
    operate::doctor::rules::{
        facts::Facts,
        finding::Examined,
        kinds::{self, Kind},
        metric::Metric,
    },
    text::counted,
};

/// Reports a function that can't run, or whose last update failed.
pub fn state(it: &mut Examined, running: &Running, kind: Kind) {
    let Some(state) = it.known(&running.state) else { return };
    let reason = state.reason.as_deref().unwrap_or("no reason given");
    match state.state.as_str() {
        "Active" | "" => {}
        "Failed" => {
            it.found(kind, format!("its state is Failed: {reason}"));
        }
        other => {
            it.found(kind, format!("its state is {other}: {reason}"))
                .only_warns()
                .why("Its first invocations fail until Lambda has prepared it.");
        }
    }
    if let Some(reason) = &state.failed_update {
        it.found(kinds::UPDATE_FAILED, format!("its last change failed: {reason}"));
    }
}

/// Reports invocations that Lambda's recursive-loop detection stopped.
pub fn recursion(it: &mut Examined, facts: &Facts, name: &str) {
    if let Some(stopped) = facts.counted(Metric::LOOPS_STOPPED, name) {
        let stopped = counted(stopped, "invocation");
        let says = format!("Lambda stopped {stopped} as a loop in the last day");
        it.found(kinds::LOOPS_STOPPED, says);
    }
}
