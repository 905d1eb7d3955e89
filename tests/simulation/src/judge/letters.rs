//! What the judge holds a dead letter to: the bytes, the reason, the facts.

use std::cmp::Reverse;

use comeback_core::{Timestamp, dead_letter::DeadLetter, time::rfc3339};

use super::{Check, Failure, FaultSeen, Judge, Subject, Verdict, Why, deliveries::Watched};
use crate::{plan::Plan, rules::Millis};

/// How much of an error's texts a dead letter has.
const TEXT_MAX: usize = 1024;

/// From this size on there may be no room for every attribute.
const LARGE: usize = 1_040_000;

impl Judge {
    /// Finds the message of a dead letter and judges it.
    pub(super) fn judge_letter(
        &mut self,
        plan: &Plan,
        now: Timestamp,
        at: Millis,
        run: u64,
        letter: &DeadLetter,
    ) -> Option<Subject> {
        let watched = self.runs.get(&run)?;
        let has_facts = |index: usize| wrong_facts(plan, self, index, letter).is_none();
        let has_bytes =
            |index: usize| letter.body == self.events[self.failures[index].event].payload;
        let named = |index: usize| attribute(letter, "RequestId") == Some(&*self.request_of(index));
        let reason = attribute(letter, "Reason").unwrap_or_default();
        let has_reason = |message: &Watched| {
            wrong_reason(&self.failures[message.failure], at, message.fault, reason).is_none()
        };
        let find = |is: &dyn Fn(&Watched) -> bool| {
            let free = watched.iter().enumerate();
            let free = free.filter(|(_, message)| !message.lettered && is(message));
            // A handler writes as soon as it has the answer that leads to it.
            let order = |(_, message): &(usize, &Watched)| Reverse(message.told);
            free.min_by_key(order).map(|(place, _)| place)
        };
        let whole = |message: &Watched| has_bytes(message.failure) && has_facts(message.failure);
        // Copies of one message may be in one batch: the best fit first.
        let place = find(&|message| whole(message) && has_reason(message))
            .or_else(|| find(&whole))
            .or_else(|| find(&|message| named(message.failure)))
            .or_else(|| find(&|message| has_bytes(message.failure)));
        let Some(place) = place else {
            let body = &letter.body[..letter.body.floor_char_boundary(200)];
            let what =
                format!("run {run} sends a dead letter of no message that it was given: {body}");
            self.violated(Check::OriginalBytes, now, None, what);
            return None;
        };
        let message = &watched[place];
        let (index, fault) = (message.failure, message.fault);
        // What concerns the handler and not the failure is not claimed.
        let unclaimed = message.claim.is_none() && reason != "target_not_allowed";
        let event = Some(self.failures[index].event);
        if self.failures[index].claimed && unclaimed {
            let what = format!("run {run} gives up without a claim, as {reason}");
            self.violated(Check::ClaimsFirst, now, event, what);
        } else if !has_bytes(index) {
            let (expected, got) = (&self.events[self.failures[index].event].payload, &letter.body);
            let what = format!("a dead letter has the bytes {got}, expected {expected}");
            self.violated(Check::OriginalBytes, now, event, what);
        } else if let Some(what) = wrong_reason(&self.failures[index], at, fault, reason) {
            self.violated(Check::RightReason, now, event, what);
        } else if let Some(what) = wrong_facts(plan, self, index, letter) {
            self.violated(Check::LetterTells, now, event, what);
        }
        if let Some(message) = self.runs.get_mut(&run).and_then(|run| run.get_mut(place)) {
            message.lettered = true;
        }
        Some(Subject { run, place, failure: index })
    }

    /// The request id by which a dead letter names its event.
    fn request_of(&self, index: usize) -> String {
        let failure = &self.failures[index];
        match &self.events[failure.event].foreign {
            Some(foreign) => {
                foreign.request_id.clone().unwrap_or_else(|| failure.request_id.to_string())
            }
            None => failure.first_request.to_string(),
        }
    }
}

fn attribute<'a>(letter: &'a DeadLetter, name: &str) -> Option<&'a str> {
    letter.attributes.iter().find(|(of, _)| *of == name).map(|(_, value)| value.as_str())
}

/// What is wrong with a reason, if anything is.
fn wrong_reason(
    failure: &Failure,
    at: Millis,
    fault: Option<FaultSeen>,
    reason: &str,
) -> Option<String> {
    let next = match failure.verdict {
        Verdict::Over(right) => {
            return (reason != right).then(|| format!("given up as {reason}, expected {right}"));
        }
        Verdict::Next(next) => next,
    };
    if let Some(FaultSeen::Refused(right)) = fault {
        return (reason != right).then(|| format!("given up as {reason}, refused as {right}"));
    }
    let is_over = at > next.expiry || (fault.is_some() && at >= next.last_chance);
    (reason != "max_age_exceeded" || !is_over).then(|| {
        format!(
            "given up as {reason} at {at}, with a last chance at {} and an age until {}",
            next.last_chance, next.expiry
        )
    })
}

/// Which attribute does not tell the facts, if one doesn't.
fn wrong_facts(plan: &Plan, judge: &Judge, index: usize, letter: &DeadLetter) -> Option<String> {
    let failure = &judge.failures[index];
    if matches!(failure.verdict, Verdict::Over("unreadable")) {
        return None;
    }
    let abroad = failure.strange && matches!(failure.verdict, Verdict::Over("target_not_allowed"));
    let made = failure.attempt.saturating_sub(u32::from(failure.why == Why::Paused));
    let text = |text: &Option<String>| text.as_deref().map(kept).filter(|text| !text.is_empty());
    let facts = [
        ("FunctionArn", Some(failure.arn(plan))),
        ("RequestId", Some(judge.request_of(index))),
        ("Attempts", Some(made.to_string())),
        ("FirstFailureAt", Some(written(failure.first))),
        ("LastFailureAt", Some(written(failure.at))),
        ("ErrorType", text(&failure.said.error_type)),
        ("ErrorMessage", text(&failure.said.message)),
    ];
    facts.into_iter().find_map(|(name, expected)| {
        let got = attribute(letter, name);
        let no_room = got.is_none() && letter.body.len() > LARGE;
        // A stranger's record may name any function: the reason tells that it did.
        let is_right = got == expected.as_deref() || no_room;
        let unknown = name == "FunctionArn" && abroad;
        (!is_right && !unknown).then(|| format!("{name} is {got:?}, expected {expected:?}"))
    })
}

fn written(at: Millis) -> String {
    Timestamp::from_timestamp_millis(at).map(rfc3339).unwrap_or_default()
}

/// The first kilobyte of a text, without what SQS does not carry.
fn kept(text: &str) -> String {
    let start = &text[..text.floor_char_boundary(TEXT_MAX)];
    let carried = |c: char| match c {
        '\t' | '\n' | '\r' => c,
        c if c.is_ascii_control() && c != '\u{7f}' => '\u{fffd}',
        '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        c => c,
    };
    start.chars().map(carried).collect()
}
