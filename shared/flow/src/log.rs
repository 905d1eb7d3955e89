//! One structured line for each decision, and for what kept one from being carried out. No line has a
//! payload, nor an error's message, which may quote one; a text from outside is cut to a length that fits.

use comeback_core::{
    Timestamp,
    dead_letter::{Reason, beginning},
    fault::{FaultKind, InvokeFault, StoreFault},
    time::rfc3339,
};

use crate::{item::Item, report::Outcome};

/// The line of one item: what is known of its event, after the fields of the occasion.
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
            age_seconds = item.age().map(|age| age.as_secs()),
            message_id = item.judgement.message.id,
            receive_count = item.judgement.message.receive_count,
            $said
        );
    }};
}

/// What became of a message.
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
            "the time was up before there was an answer; the message comes back after the queue's own visibility timeout",
        ),
    }
}

fn dead_lettered(item: &Item<'_>, reason: Reason) {
    let why = item.judgement.failure.as_ref().err().map(ToString::to_string);
    let error_type = item.failure().and_then(|failure| failure.error.error_type.as_deref());
    line!(
        warn,
        item,
        "given up",
        decision = "dead_letter",
        reason = reason.as_str(),
        error_type = error_type.map(beginning),
        why = why,
    );
}

/// The invocation was not accepted. Another line says what became of the message.
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
            "the invocation was not accepted, and will not be until somebody mends the cause",
            decision = "invoke",
            error = said,
        ),
        // Of a payload that it refuses, AWS's message may quote a part.
        FaultKind::Refused(_) => line!(
            warn,
            item,
            "the invocation is refused for good",
            decision = "invoke",
            error = fault.code,
        ),
    }
}

/// Another invocation of the handler acts on the same failure at this moment.
pub(crate) fn held(item: &Item<'_>, until: Timestamp) {
    let until = rfc3339(until);
    line!(info, item, "another invocation is at work on the same failure", held_until = until);
}

/// A call to the ledger failed, in a way that passes or that a person must mend.
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

/// Nobody can tell whether it was acted on; another line says what has become of the message.
pub(crate) fn not_claimed(item: &Item<'_>, fault: &StoreFault) {
    ledger_line!(
        item,
        fault,
        "the failure can't be claimed in LEDGER_TABLE; its event waits until it can be",
        "claim"
    );
}

/// It was acted on, and the ledger does not know.
pub(crate) fn not_marked(item: &Item<'_>, fault: &StoreFault) {
    ledger_line!(
        item,
        fault,
        "what was done can't be noted in LEDGER_TABLE; if its failure is delivered again, it is done again",
        "mark"
    );
}

/// It was not acted on, and the ledger takes it for being acted on until the lease is over.
pub(crate) fn not_released(item: &Item<'_>, fault: &StoreFault) {
    ledger_line!(
        item,
        fault,
        "the claim in LEDGER_TABLE can't be released; its event waits until the lease is over",
        "release"
    );
}

/// It was acted on, and the time was up before the ledger had noted it.
pub(crate) fn unmarked(item: &Item<'_>) {
    line!(
        warn,
        item,
        "the time was up before the ledger had noted what was done; if its failure is delivered again, it is done again",
        decision = "mark",
    );
}

/// It was acted on after its lease was over.
pub(crate) fn claim_lost(item: &Item<'_>) {
    line!(warn, item, "another invocation has taken the claim over; the event may come twice",);
}
