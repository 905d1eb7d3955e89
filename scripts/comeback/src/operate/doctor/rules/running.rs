//! What keeps any function of a retry system from running.

use crate::{
    account::function::Running,
    operate::doctor::rules::{facts::Facts, finding::Examined, metric::Metric},
    text::counted,
};

/// Reports a function that can't run, or whose last update failed.
pub fn state(it: &mut Examined, running: &Running, name: &'static str) {
    let Some(state) = it.known(&running.state) else { return };
    let reason = state.reason.as_deref().unwrap_or("no reason given");
    match state.state.as_str() {
        "Active" | "" => {}
        "Failed" => {
            it.bad(name, format!("its state is Failed: {reason}")).why("Lambda does not run it.");
        }
        other => {
            it.warn(name, format!("its state is {other}: {reason}"))
                .why("Its first invocations fail until Lambda has prepared it.");
        }
    }
    if let Some(reason) = &state.failed_update {
        it.bad("update_failed", format!("its last change failed: {reason}"))
            .why("It still runs as it was before that change.");
    }
}

/// Reports invocations that Lambda's recursive-loop detection stopped.
pub fn recursion(it: &mut Examined, facts: &Facts, name: &str) {
    if let Some(stopped) = facts.counted(Metric::LOOPS_STOPPED, name) {
        let stopped = counted(stopped, "invocation");
        let says = format!("Lambda stopped {stopped} as a loop in the last day");
        it.warn("loops_stopped", says)
            .why("The events are in the dead-letter queue, or on their way to it.");
    }
}
