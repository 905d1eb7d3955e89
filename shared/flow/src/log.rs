//! One structured log line for each decision, and for each fault that prevented one. No line contains a payload, nor a
//! function's error message, which may quote one. External texts are cut.

use std::time::Duration;

use comeback_core::{
    Timestamp,
    circuit::{Circuit, Phase},
    dead_letter::beginning,
    fault::{FaultKind, InvokeFault, StoreFault},
    log_line::{LogLine, decision},
    record::{Condition, Failure},
    time::rfc3339,
    with_log_fields,
};
use tracing::Level;

use crate::{item::Item, ports::CallFault, report::Outcome};

type Line<'a> = LogLine<&'a str>;

macro_rules! event {
    ([$macro:ident, $line:ident] $($field:ident: $type:ty, $meaning:literal;)*) => {
        tracing::$macro!($($field = $line.$field,)* "{}", $line.message)
    };
}

fn write(level: Level, line: &Line<'_>) {
    match level {
        Level::ERROR => with_log_fields!(event![error, line]),
        Level::WARN => with_log_fields!(event![warn, line]),
        _ => with_log_fields!(event![info, line]),
    }
}

/// Writes a line about an item: the given fields, and those that every such line has.
fn write_about(item: &Item<'_>, level: Level, message: &str, line: Line<'_>) {
    let failure = item.failure();
    let schedule = item.judgement.schedule.as_ref();
    let record = item.judgement.location.as_ref().map(ToString::to_string);
    let due_time = schedule.map(|schedule| rfc3339(schedule.due));
    let line = Line {
        message,
        target: failure.map(|failure| failure.target.as_str()),
        request_id: failure.map(|failure| beginning(&failure.request_id)),
        event_id: failure.filter(|_| names_event(item, &line)).map(event_id).map(beginning),
        trace: item.trace_header().filter(|_| ends_failure(line.decision)).map(beginning),
        attempt: schedule.map(|schedule| schedule.attempt.get()),
        due_time: due_time.as_deref(),
        record: record.as_deref().map(beginning),
        error_type: failure.and_then(|it| it.error.error_type.as_deref()).map(beginning),
        source_arn: failure.and_then(|it| it.undelivered_by.as_deref()).map(beginning),
        condition: failure
            .filter(|it| it.condition == Condition::Paused)
            .map(|_| Condition::PAUSED),
        policy: item.error_policy().map(beginning),
        age_seconds: item.age().map(|age| age.as_secs()),
        message_id: Some(item.judgement.message.id),
        receive_count: Some(item.judgement.message.receive_count),
        ..line
    };
    write(level, &line);
}

/// Whether the line can say which event it is about. A recall finds that out, and as long as it doesn't, the failure
/// may be that of another event's retry. If the event is given up by then, its dead letter has the failure's own
/// request id.
fn names_event(item: &Item<'_>, line: &Line<'_>) -> bool {
    match line.decision {
        Some(decision::RECALL) => false,
        Some(decision::DEAD_LETTER) if line.error.is_none() => true,
        _ => !item.is_unknown(),
    }
}

/// The event's id, as its dead letter and its item have it.
fn event_id<'a>(failure: &'a Failure<'_>) -> &'a str {
    failure.first_request_id().unwrap_or(&failure.request_id)
}

/// Whether nothing more is logged about this failure. These lines alone have the event's trace: CloudWatch bills bytes.
fn ends_failure(decision: Option<&str>) -> bool {
    matches!(decision, Some(decision::INVOKE | decision::DEAD_LETTER))
}

fn decided(decision: &str) -> Line<'_> {
    Line { decision: Some(decision), ..Line::default() }
}

/// A message has ended with this outcome.
pub(crate) fn ended(item: &Item<'_>, outcome: &Outcome) {
    let waits = |delay: &Duration| Line {
        delay_seconds: Some(delay.as_secs_f64()),
        ..decided(decision::WAIT)
    };
    match outcome {
        Outcome::Invoked { lateness, run } => {
            let lateness_ms = Some(u64::try_from(lateness.as_millis()).unwrap_or(u64::MAX));
            let retry_request_id = run.as_deref().map(beginning);
            let line = Line { lateness_ms, retry_request_id, ..decided(decision::INVOKE) };
            let message = match item.failure() {
                Some(failure) if failure.is_undelivered() => "delivered",
                _ if is_of_queue(item) => "sent back to its queue",
                _ => "invoked",
            };
            write_about(item, Level::INFO, message, line);
        }
        Outcome::Waits { delay } => write_about(item, Level::INFO, "waits", waits(delay)),
        Outcome::Delayed { delay } => {
            write_about(item, Level::INFO, "waits as a delay", waits(delay));
        }
        Outcome::Duplicate => {
            let message = "dropped: its failure was already acted on";
            write_about(item, Level::INFO, message, decided(decision::DROP));
        }
        Outcome::Tested => {
            let message = "dropped: S3 has tested whether it may send notices to the queue";
            write_about(item, Level::INFO, message, decided(decision::DROP));
        }
        // A function that succeeds may do so a thousand times a second, and each line has a price.
        Outcome::Succeeded => {}
        Outcome::Split => {
            let message = if item.judgement.parts().is_empty() {
                "split: S3 has announced several objects in one notice, and each has its own now"
            } else {
                "split: the batch is too large for one invocation, and each part has a message now"
            };
            write_about(item, Level::INFO, message, decided(decision::SPLIT));
        }
        Outcome::DeadLettered(reason) => {
            let why = item.judgement.failure.as_ref().err().map(ToString::to_string);
            let reason = Some(reason.as_str());
            let line = Line { reason, why: why.as_deref(), ..decided(decision::DEAD_LETTER) };
            write_about(item, Level::WARN, "given up", line);
        }
        Outcome::DeadLetterNotSent { reason, queue_url, fault } => {
            let message = "the dead letter can't be sent to DEAD_LETTER_QUEUE_URL; its message stays in the retry queue and comes back";
            let line = Line {
                reason: Some(reason.as_str()),
                dead_letter_queue_url: Some(queue_url),
                ..decided(decision::DEAD_LETTER)
            };
            failed(item, Level::ERROR, message, line, fault);
        }
        Outcome::LeftToQueue(fault) => {
            let message = "the visibility timeout can't be changed; the message comes back after the queue's own";
            failed(item, Level::ERROR, message, decided(decision::WAIT), fault);
        }
        Outcome::NotReached => {
            let message = "the handler ran out of time for this message; it comes back after the queue's own visibility timeout";
            write_about(item, Level::WARN, message, Line::default());
        }
    }
}

fn failed(item: &Item<'_>, level: Level, message: &str, line: Line<'_>, error: &impl ToString) {
    let error = error.to_string();
    write_about(item, level, message, Line { error: Some(beginning(&error)), ..line });
}

fn is_of_queue(item: &Item<'_>) -> bool {
    item.failure().is_some_and(|failure| failure.target.is_queue())
}

/// The retry was not accepted. Another line has the outcome of the message.
pub(crate) fn not_accepted(item: &Item<'_>, fault: &InvokeFault) {
    let line = decided(decision::INVOKE);
    let (for_now, until_fixed, for_good) = if is_of_queue(item) {
        (
            "the message was not accepted by its queue",
            "the message was not accepted by its queue, and will not be until somebody fixes the cause",
            "the message is refused by its queue for good",
        )
    } else {
        (
            "the invocation was not accepted",
            "the invocation was not accepted, and will not be until somebody fixes the cause",
            "the invocation is refused for good",
        )
    };
    match fault.kind {
        FaultKind::Transient { .. } => failed(item, Level::WARN, for_now, line, fault),
        FaultKind::Configuration => failed(item, Level::ERROR, until_fixed, line, fault),
        // AWS's message may quote a part of the payload that it refuses.
        FaultKind::Refused(_) => {
            let line = Line { error: fault.code.as_deref(), ..line };
            write_about(item, Level::WARN, for_good, line);
        }
    }
}

pub(crate) fn not_sent_again(item: &Item<'_>, fault: &InvokeFault) {
    let message = "the message can't be sent to its own queue again; it waits in flight";
    failed(item, Level::ERROR, message, decided(decision::WAIT), fault);
}

pub(crate) fn held(item: &Item<'_>, until: Timestamp) {
    let until = rfc3339(until);
    let line = Line { held_until: Some(&until), ..Line::default() };
    write_about(item, Level::INFO, "another invocation is acting on the same failure", line);
}

pub(crate) fn not_yet_recalled(item: &Item<'_>, again_at: Timestamp) {
    let until = rfc3339(again_at);
    let line = Line { held_until: Some(&until), ..decided(decision::RECALL) };
    let message = "another invocation may be about to note that this was a retry; the event waits for the note";
    write_about(item, Level::INFO, message, line);
}

/// A warning if the fault will pass, an error if a person has to fix it.
fn level(fault: &StoreFault) -> Level {
    if fault.is_transient { Level::WARN } else { Level::ERROR }
}

/// The failure record can't be read. Another line has the outcome of the message.
pub(crate) fn not_read(item: &Item<'_>, fault: &StoreFault) {
    let message = if fault.is_transient {
        "the failure record can't be read in its bucket; its event waits until it can"
    } else {
        "the failure record can't be read in its bucket, and will not be until somebody fixes the cause"
    };
    failed(item, level(fault), message, decided(decision::READ), fault);
}

/// Not all notices that replace the message were sent. Another line has the outcome of the message.
pub(crate) fn not_split(item: &Item<'_>, fault: &StoreFault) {
    let message = "the notice of several objects or parts can't be sent to its own queue as one for each; it waits until it can";
    failed(item, level(fault), message, decided(decision::SPLIT), fault);
}

/// A call to the ledger failed: what it was for. Another line has the outcome of the message.
pub(crate) fn ledger_failed(item: &Item<'_>, purpose: &'static str, fault: &StoreFault) {
    let message = match purpose {
        decision::RECALL => {
            "LEDGER_TABLE can't say whether this was a retry; its event waits until it can"
        }
        decision::CLAIM => {
            "the failure can't be claimed in LEDGER_TABLE; its event waits until it can"
        }
        decision::MARK => {
            "the claim in LEDGER_TABLE can't be marked as done; if the failure is delivered again, it is acted on again"
        }
        decision::RELEASE => {
            "the claim in LEDGER_TABLE can't be released; its event waits until the lease ends"
        }
        _ => "the waiting event can't be written to LEDGER_TABLE; it waits, but is not listed",
    };
    failed(item, level(fault), message, decided(purpose), fault);
}

pub(crate) fn unmarked(item: &Item<'_>) {
    let message = "the handler ran out of time before the claim was marked as done; if the failure is delivered again, it is acted on again";
    write_about(item, Level::WARN, message, decided(decision::MARK));
}

pub(crate) fn claim_lost(item: &Item<'_>) {
    let message = "another invocation has taken over the claim; the event may be retried twice";
    write_about(item, Level::WARN, message, Line::default());
}

/// A call for a whole batch, or for a target, failed.
fn call_failed(level: Level, line: Line<'_>, error: &impl ToString) {
    let error = error.to_string();
    write(level, &Line { error: Some(beginning(&error)), ..line });
}

pub(crate) fn not_counted(queue_url: &str, fault: &CallFault) {
    let message = "the messages in flight can't be counted; waits may become delays too early";
    let line = Line { message, queue_url: Some(queue_url), ..Line::default() };
    call_failed(Level::ERROR, line, fault);
}

pub(crate) fn not_looked_up(fault: &StoreFault) {
    let message =
        "orders and circuits can't be read from LEDGER_TABLE; what is due is retried without them";
    call_failed(level(fault), Line { message, ..Line::default() }, fault);
}

fn about<'a>(target: &'a str, message: &'a str) -> Line<'a> {
    Line { message, target: Some(target), ..Line::default() }
}

pub(crate) fn turned(target: &str, from: &Circuit, to: &Circuit) {
    if from.name() == to.name() {
        return;
    }
    let down_since = to.down_since().map(rfc3339);
    let line = Line {
        circuit: Some(to.name()),
        was: Some(from.name()),
        down_since: down_since.as_deref(),
        ..about(target, "the circuit of the target changed state")
    };
    let level = match to.phase {
        Phase::Suspected { .. } | Phase::Open { .. } => Level::WARN,
        Phase::Closed { .. } | Phase::Probing { .. } | Phase::Ramping { .. } => Level::INFO,
    };
    write(level, &line);
}

pub(crate) fn circuit_unreadable(target: &str) {
    let message =
        "the circuit in LEDGER_TABLE has an unknown format; it is replaced by a closed one";
    write(Level::ERROR, &about(target, message));
}

pub(crate) fn circuit_not_written(target: &str, fault: &StoreFault) {
    let message =
        "the circuit can't be written to LEDGER_TABLE; unless it is closed, its events wait";
    call_failed(Level::ERROR, about(target, message), fault);
}

pub(crate) fn not_witnessed(target: &str, fault: &CallFault) {
    let message = "CloudWatch can't be asked whether the target is down; without an answer its circuit doesn't open";
    call_failed(Level::ERROR, about(target, message), fault);
}

pub(crate) fn not_listed(target: &str, fault: &StoreFault) {
    let message = "the index of LEDGER_TABLE can't be read; no event is brought forward";
    call_failed(Level::ERROR, about(target, message), fault);
}
