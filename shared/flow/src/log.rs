//! One structured log line for each decision, and for each fault that prevented one. No line contains a payload, nor a
//! function's error message, which may quote one. External texts are cut.

use comeback_core::{
    Timestamp,
    circuit::{Circuit, Phase},
    dead_letter::beginning,
    fault::{FaultKind, InvokeFault, StoreFault},
    reason::Reason,
    time::rfc3339,
};

use crate::{item::Item, ports::CallFault, report::Outcome};

/// A log line about one item: the given fields, and those that every line has.
macro_rules! line {
    ($level:ident, $item:expr, $said:literal, $($field:ident = $value:expr),* $(,)?) => {{
        let item: &Item<'_> = $item;
        let failure = item.failure();
        let schedule = item.judgement.schedule.as_ref();
        tracing::$level!(
            $($field = $value,)*
            target = failure.map(|failure| failure.target.as_str()),
            request_id = failure.map(|failure| beginning(&failure.request_id)),
            event_id = failure.and_then(|failure| failure.first_request_id()).map(beginning),
            attempt = schedule.map(|schedule| schedule.attempt.get()),
            due_time = schedule.map(|schedule| rfc3339(schedule.due)),
            error_type = failure.and_then(|it| it.error.error_type.as_deref()).map(beginning),
            age_seconds = item.age().map(|age| age.as_secs()),
            message_id = item.judgement.message.id,
            receive_count = item.judgement.message.receive_count,
            $said
        );
    }};
}

/// The outcome of a message.
pub(crate) fn ended(item: &Item<'_>, outcome: &Outcome) {
    match outcome {
        Outcome::Invoked { lateness } => {
            let lateness_ms = u64::try_from(lateness.as_millis()).unwrap_or(u64::MAX);
            line!(info, item, "invoked", decision = "invoke", lateness_ms = lateness_ms);
        }
        Outcome::Waits { delay } => {
            let delay_seconds = delay.as_secs_f64();
            line!(info, item, "waits", decision = "wait", delay_seconds = delay_seconds);
        }
        Outcome::Delayed { delay } => {
            let delay_seconds = delay.as_secs_f64();
            line!(info, item, "waits as a delay", decision = "wait", delay_seconds = delay_seconds);
        }
        Outcome::Duplicate => {
            line!(info, item, "dropped: its failure was already acted on", decision = "drop");
        }
        Outcome::DeadLettered(reason) => dead_lettered(item, *reason),
        Outcome::DeadLetterNotSent { reason, queue_url, fault } => {
            let error = fault.to_string();
            line!(
                error,
                item,
                "the dead letter can't be sent to DEAD_LETTER_QUEUE_URL; its message stays in the retry queue and comes back",
                decision = "dead_letter",
                reason = reason.as_str(),
                dead_letter_queue_url = queue_url,
                error = beginning(&error),
            );
        }
        Outcome::LeftToQueue(fault) => {
            let error = fault.to_string();
            line!(
                error,
                item,
                "the visibility timeout can't be changed; the message comes back after the queue's own",
                decision = "wait",
                error = beginning(&error),
            );
        }
        Outcome::NotReached => line!(
            warn,
            item,
            "the handler ran out of time for this message; it comes back after the queue's own visibility timeout",
        ),
    }
}

fn dead_lettered(item: &Item<'_>, reason: Reason) {
    let why = item.judgement.failure.as_ref().err().map(ToString::to_string);
    line!(warn, item, "given up", decision = "dead_letter", reason = reason.as_str(), why = why,);
}

/// The invocation was not accepted. Another line has the outcome of the message.
pub(crate) fn not_accepted(item: &Item<'_>, fault: &InvokeFault) {
    let said = fault.to_string();
    let said = beginning(&said);
    match fault.kind {
        FaultKind::Transient { .. } => {
            line!(warn, item, "the invocation was not accepted", decision = "invoke", error = said);
        }
        FaultKind::Configuration => line!(
            error,
            item,
            "the invocation was not accepted, and will not be until somebody fixes the cause",
            decision = "invoke",
            error = said,
        ),
        // AWS's message may quote a part of the payload that it refuses.
        FaultKind::Refused(_) => line!(
            warn,
            item,
            "the invocation is refused for good",
            decision = "invoke",
            error = fault.code,
        ),
    }
}

/// The queue's messages in flight can't be counted.
pub(crate) fn not_counted(queue_url: &str, fault: &CallFault) {
    let error = fault.to_string();
    tracing::error!(
        queue_url,
        error = beginning(&error),
        "the messages in flight can't be counted; waits may become delays too early"
    );
}

/// The message can't be sent again. Another line has its outcome.
pub(crate) fn not_sent_again(item: &Item<'_>, fault: &CallFault) {
    let error = fault.to_string();
    line!(
        error,
        item,
        "the message can't be sent to its own queue again; it waits in flight",
        decision = "wait",
        error = beginning(&error),
    );
}

/// Another invocation of the handler is acting on the same failure.
pub(crate) fn held(item: &Item<'_>, until: Timestamp) {
    let until = rfc3339(until);
    line!(info, item, "another invocation is acting on the same failure", held_until = until);
}

/// A call to the ledger failed: a warning if it will pass, an error if a person has to fix it.
macro_rules! ledger_line {
    ($item:expr, $fault:expr, $said:literal, $decision:literal) => {{
        let said = $fault.to_string();
        let said = beginning(&said);
        if $fault.passes {
            line!(warn, $item, $said, decision = $decision, error = said);
        } else {
            line!(error, $item, $said, decision = $decision, error = said);
        }
    }};
}

/// The failure could not be claimed. Another line has the outcome of the message.
pub(crate) fn not_claimed(item: &Item<'_>, fault: &StoreFault) {
    ledger_line!(
        item,
        fault,
        "the failure can't be claimed in LEDGER_TABLE; its event waits until it can",
        "claim"
    );
}

/// The failure was acted on, and the mark could not be written.
pub(crate) fn not_marked(item: &Item<'_>, fault: &StoreFault) {
    ledger_line!(
        item,
        fault,
        "the claim in LEDGER_TABLE can't be marked as done; if the failure is delivered again, it is acted on again",
        "mark"
    );
}

/// The failure was not acted on, and its claim could not be released.
pub(crate) fn not_released(item: &Item<'_>, fault: &StoreFault) {
    ledger_line!(
        item,
        fault,
        "the claim in LEDGER_TABLE can't be released; its event waits until the lease ends",
        "release"
    );
}

/// Orders and circuits can't be read. The batch is handled without them.
pub(crate) fn not_looked_up(fault: &StoreFault) {
    let said = fault.to_string();
    let said = beginning(&said);
    let what =
        "orders and circuits can't be read from LEDGER_TABLE; what is due is retried without them";
    if fault.passes {
        tracing::warn!(error = said, "{what}");
    } else {
        tracing::error!(error = said, "{what}");
    }
}

/// The event waits, but can't be listed in the register. Another line says how it waits.
pub(crate) fn not_entered(item: &Item<'_>, fault: &StoreFault) {
    ledger_line!(
        item,
        fault,
        "the waiting event can't be written to LEDGER_TABLE; it waits, but is not listed",
        "register"
    );
}

/// The failure was acted on, and the handler ran out of time before the mark was written.
pub(crate) fn unmarked(item: &Item<'_>) {
    line!(
        warn,
        item,
        "the handler ran out of time before the claim was marked as done; if the failure is delivered again, it is acted on again",
        decision = "mark",
    );
}

/// The failure was acted on, but its lease had ended by then.
pub(crate) fn claim_lost(item: &Item<'_>) {
    line!(
        warn,
        item,
        "another invocation has taken over the claim; the event may be retried twice",
    );
}

/// Logs a circuit that has changed its state.
pub(crate) fn turned(target: &str, from: &Circuit, to: &Circuit) {
    if from.name() == to.name() {
        return;
    }
    let down_since = to.down_since().map(rfc3339);
    let (was, circuit) = (from.name(), to.name());
    match to.phase {
        Phase::Suspected { .. } | Phase::Open { .. } => {
            tracing::warn!(
                target,
                circuit,
                was,
                down_since,
                "the circuit of the target changed state"
            );
        }
        Phase::Closed { .. } | Phase::Probing { .. } | Phase::Ramping { .. } => {
            tracing::info!(
                target,
                circuit,
                was,
                down_since,
                "the circuit of the target changed state"
            );
        }
    }
}

/// The circuit of a target was written by another program or version.
pub(crate) fn circuit_unreadable(target: &str) {
    tracing::error!(
        target,
        "the circuit in LEDGER_TABLE has an unknown format; it is replaced by a closed one"
    );
}

pub(crate) fn circuit_not_written(target: &str, fault: &StoreFault) {
    let error = fault.to_string();
    tracing::error!(
        target,
        error = beginning(&error),
        "the circuit can't be written to LEDGER_TABLE; unless it is closed, its events wait"
    );
}

/// CloudWatch did not answer.
pub(crate) fn not_witnessed(target: &str, fault: &CallFault) {
    let error = fault.to_string();
    tracing::error!(
        target,
        error = beginning(&error),
        "CloudWatch can't be asked whether the target is down; without an answer its circuit doesn't open"
    );
}

/// The waiting events of a target can't be listed.
pub(crate) fn not_listed(target: &str, fault: &StoreFault) {
    let error = fault.to_string();
    tracing::error!(
        target,
        error = beginning(&error),
        "the index of LEDGER_TABLE can't be read; no event is brought forward"
    );
}
