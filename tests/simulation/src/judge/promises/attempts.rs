//! Each attempt is the right one: of its event and its target, with its number, and neither too early nor too late.

use comeback_core::claim::Order;
use comeback_local_model::sqs::AttributeValue;
use wire::Invoke;

use super::{Check, Happens, Kept, Promise, broken};
use crate::{
    judge::known::{Known, Subject, came_back, content},
    payload::METADATA,
    policy::{Millis, Next},
};

#[derive(Default)]
pub struct Attempts;

impl Promise for Attempts {
    fn on(&mut self, happens: Happens<'_>, known: &Known) -> Kept {
        match happens {
            Happens::Given(request_id, payload) => is_given(known, request_id, payload),
            Happens::Invokes(run, None, _, invoke) => {
                let trace = invoke.message.trace_header.as_deref().unwrap_or_default();
                let event = known.case_with(trace).map(|case| known.event_of(case));
                let what =
                    format!("run {run} invokes with trace {trace:?}, which no message has left");
                broken(Check::RightTarget, event, what)
            }
            Happens::Invokes(_, Some(of), at, invoke) => {
                let is_outdated = known.message(of).is_some_and(|it| known.is_outdated(it));
                if is_outdated { Ok(()) } else { is_right(known, of, at, invoke) }
            }
            _ => Ok(()),
        }
    }
}

/// What a target is given is the payload in the envelope of its attempt.
fn is_given(known: &Known, request_id: &str, payload: &str) -> Kept {
    let Some(open) = known.open.get(request_id) else { return Ok(()) };
    let initial = open.initial.filter(|_| !open.is_unwrapped);
    let expected = known.expected(open, open.attempt, initial.map(std::num::NonZero::get)).body;
    if payload == &*expected {
        return Ok(());
    }
    broken(Check::Envelope, None, format!("a target was given {payload}, expected {expected}"))
}

fn is_right(known: &Known, of: Subject, at: Millis, invoke: &Invoke) -> Kept {
    let case = &known.cases[of.case];
    let next = match case.verdict() {
        Ok(next) => next,
        Err(reason) => {
            let what = format!("it is invoked, and to be given up as {reason}");
            return broken(Check::OverIsOver, None, what);
        }
    };
    if case.order == Some(Order::Cancel) {
        let what = "it is invoked after it was cancelled".to_owned();
        return broken(Check::OverIsOver, None, what);
    }
    let (earliest, _) = case.due_range(next);
    if at < earliest && !may_be_early(known, of, &invoke.target) {
        let what = format!("it is invoked at {at}, and due at {earliest} at the earliest");
        return broken(Check::NotBeforeDue, None, what);
    }
    if at > next.expiry {
        let what = format!("it is invoked at {at}, and its age was over at {}", next.expiry);
        return broken(Check::NotAfterAge, None, what);
    }
    is_sent(known, of, next, invoke)
}

/// Whether an attempt may be made before it is due: because of an order, or because its circuit lets it through, which
/// it never may if the target has asked for the time.
fn may_be_early(known: &Known, of: Subject, target: &str) -> bool {
    let case = &known.cases[of.case];
    let came_back = known.message(of).is_some_and(|message| came_back(message.record()));
    let limit = known.limit(of.run, target, case);
    let is_let_through = limit
        .is_some_and(|circuit| known.is_probe(circuit, case) || (circuit.has_permits && came_back));
    case.order == Some(Order::Retry) || (is_let_through && !case.asks_for_time())
}

/// Whether what a handler sends is the next attempt of what has failed.
fn is_sent(known: &Known, of: Subject, next: Next, invoke: &Invoke) -> Kept {
    let case = &known.cases[of.case];
    let arn = case.arn(&known.plan);
    let Invoke { target, message, .. } = invoke;
    if target != arn {
        let what = format!("{target} is retried, and {arn} failed");
        return broken(Check::RightTarget, None, what);
    }
    let ordinal = format!(r#"{{"attempt":{},"#, next.attempt);
    let metadata = match message.attributes.get(METADATA).map(|it| &it.value) {
        Some(AttributeValue::String(text)) => text,
        _ => message.body.strip_prefix(r#"{"_retry_metadata":"#).unwrap_or_default(),
    };
    let is_bare = case.is_transparent || case.is_undelivered();
    if !is_bare && !metadata.starts_with(&ordinal) {
        let head = &metadata[..metadata.floor_char_boundary(60)];
        let what = format!("expected attempt {}, got {head}", next.attempt);
        return broken(Check::AttemptsRise, None, what);
    }
    let expected = known.retry_of(case, next.attempt);
    if content(message) != content(&expected) || message.delay.is_some_and(|it| it > 0) {
        let what = format!("expected {expected:?}, got {message:?}");
        return broken(Check::Envelope, None, what);
    }
    Ok(())
}
