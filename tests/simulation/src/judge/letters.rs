//! The rules for a dead letter: its bytes, its reason and its attributes.

use std::{borrow::Cow, cmp::Reverse};

use comeback_core::{
    Timestamp, claim::Order, dead_letter::DeadLetter, fault::FaultKind, time::rfc3339,
};

use comeback_local_model::sqs::{MessageAttribute, Outgoing};
use serde_json::{Value, json};

use super::{
    Judge, Open, Subject,
    cases::{Case, Condition},
    deliveries::Delivery,
};
use crate::{notes::Check, rules::Millis};

/// A body is only cut if the letter then takes as much as SQS accepts, up to the last character.
const CUT_SIZE_MIN: usize = 1_048_576 - 4;

/// How many bytes of each text of an error a dead letter carries.
const TEXT_MAX: usize = 1024;

/// A dead letter of at least this size may have no room for every attribute.
const LARGE: usize = 1_040_000;

/// The attributes for which there is always room, unless a payload takes it.
const IDENTITY: [&str; 2] = ["FunctionArn", "RequestId"];

impl Judge {
    /// Finds the message of a dead letter and checks the dead letter.
    pub fn judge_letter(&mut self, run: u64, at: Millis, letter: &DeadLetter) -> Option<Subject> {
        let batch = self.runs.get(&run)?;
        let has_facts = |message: &Delivery| self.wrong_facts(message, letter).is_none();
        let body_of = |message: &Delivery| self.body_of(message, letter).into_owned();
        let has_bytes = |message: &Delivery| {
            has_body(letter, &self.cases[message.case], &self.body_of(message, letter))
        };
        let named = |index: usize| attribute(letter, "RequestId") == Some(&self.request_of(index));
        let reason = attribute(letter, "Reason").unwrap_or_default();
        let wrong_reason = |message: &Delivery| match self.reason_unread(message, at) {
            Some(right) => {
                (reason != right).then(|| format!("given up as {reason}, expected {right}"))
            }
            None => wrong_reason(&self.cases[message.case], at, message.fault, reason),
        };
        let has_reason = |message: &Delivery| wrong_reason(message).is_none();
        let find = |is: &dyn Fn(&Delivery) -> bool| {
            let free = batch.iter().enumerate();
            let free = free.filter(|(_, message)| !message.dead_letter_sent && is(message));
            // A handler sends a dead letter as soon as it has the answer that leads to it.
            let order = |(_, message): &(usize, &Delivery)| Reverse(message.told);
            free.min_by_key(order).map(|(place, _)| place)
        };
        let whole = |message: &Delivery| has_bytes(message) && has_facts(message);
        // Copies of one message may be in one batch: the best match comes first.
        let place = find(&|message| whole(message) && has_reason(message))
            .or_else(|| find(&whole))
            .or_else(|| find(&|message| named(message.case)))
            .or_else(|| find(&has_bytes));
        let Some(place) = place else {
            let body = &letter.body[..letter.body.floor_char_boundary(200)];
            let what =
                format!("run {run} sends a dead letter of no message that it was given: {body}");
            self.violated(Check::OriginalBytes, None, what);
            return None;
        };
        let message = &batch[place];
        let index = message.case;
        let case = &self.cases[index];
        let wrong = if !has_bytes(message) {
            let (expected, got) = (body_of(message), &letter.body);
            let what = format!("a dead letter has the bytes {got}, expected {expected}");
            Some((Check::OriginalBytes, what))
        } else {
            let wrong = wrong_reason(message).map(|what| (Check::RightReason, what));
            wrong.or_else(|| Some((Check::LetterTells, self.wrong_facts(message, letter)?)))
        };
        let event = case.of.event;
        let is_outdated = self.is_outdated(message);
        if let Some((check, what)) = wrong.filter(|_| !is_outdated) {
            self.violated(check, event, what);
        }
        self.runs.get_mut(&run)?[place].dead_letter_sent = true;
        Some(Subject { run, place, case: index, call: None, part: None })
    }

    /// The request id of the event in its dead letter.
    pub fn request_of(&self, index: usize) -> String {
        let case = &self.cases[index];
        self.event_id(&case.of).unwrap_or_else(|| case.request_id.to_string())
    }

    /// The request id by which an event is known in all its attempts. Another writer's envelope may have none.
    pub fn event_id(&self, of: &Open) -> Option<String> {
        match self.events[of.event].foreign().filter(|_| of.is_foreign) {
            Some(foreign) => foreign.request_id.clone(),
            None => Some(of.first_request.to_string()),
        }
    }

    /// The body of this dead letter, as it must be: the payload, or the message if that has none or leaves it
    /// elsewhere.
    fn body_of<'a>(&'a self, message: &'a Delivery, letter: &DeadLetter) -> Cow<'a, str> {
        let case = &self.cases[message.case];
        let has_payload =
            message.is_read() && !matches!(case.verdict(), Err("unreadable" | "payload_missing"));
        let is_there = || has_payload && self.place_of_payload(message, letter).is_none();
        match case.place().is_none() || is_there() {
            true => self.payload(case.of.event),
            false => message.record().body.as_deref().unwrap_or_default().into(),
        }
    }

    /// Where the payload of this dead letter must lie, if there is no room for it.
    fn place_of_payload(&self, message: &Delivery, letter: &DeadLetter) -> Option<String> {
        let case = &self.cases[message.case];
        let reason = ("Reason", attribute(letter, "Reason").map(str::to_owned));
        let facts = self.facts(message.case);
        let facts = facts.iter().chain([&reason]).filter_map(|(name, value)| {
            // SQS counts the type, too.
            Some(name.len() + "String".len() + value.as_ref()?.len())
        });
        let size = self.payload(case.of.event).len() + facts.sum::<usize>();
        let has_payload = case.verdict().err() != Some("payload_missing");
        self.points_to(message, size, letter).filter(|_| has_payload)
    }

    /// The attributes of a dead letter, beside its reason.
    fn facts(&self, index: usize) -> [(&'static str, Option<String>); 8] {
        let case = &self.cases[index];
        let made = case.of.attempt.saturating_sub(u32::from(case.condition == Condition::Paused));
        let message = self.events[case.of.event].message();
        let is_queue = message.is_some();
        let own = message.filter(|it| !it.attributes.is_empty()).map(as_json);
        let text =
            |text: &Option<String>| text.as_deref().map(kept).filter(|text| !text.is_empty());
        [
            (
                if is_queue { "SourceQueueArn" } else { "FunctionArn" },
                Some(case.arn(&self.plan).to_owned()),
            ),
            ("OriginalAttributes", own.map(|own| own.to_string())),
            ("RequestId", Some(self.request_of(index))),
            ("Attempts", Some(made.to_string())),
            ("FirstFailureAt", Some(written(case.first))),
            ("LastFailureAt", Some(written(case.at))),
            ("ErrorType", text(&case.error.error_type)),
            ("ErrorMessage", text(&case.error.message)),
        ]
    }

    /// The first attribute that is wrong.
    fn wrong_facts(&self, message: &Delivery, letter: &DeadLetter) -> Option<String> {
        let case = &self.cases[message.case];
        if matches!(case.verdict(), Err("unreadable")) || !message.is_read() {
            return None;
        }
        let abroad = case.strange && case.is_refused;
        let is_queue = self.events[case.of.event].message().is_some();
        let place = [("PayloadLocation", self.place_of_payload(message, letter))];
        self.facts(message.case).into_iter().chain(place).find_map(|(name, expected)| {
            let got = attribute(letter, name);
            let may_be_dropped = is_queue || !(IDENTITY.contains(&name) && may_cut(case));
            let no_room = got.is_none() && letter.body.len() > LARGE && may_be_dropped;
            // A stranger's record may name any function, and then the reason says so.
            let unknown = name == "FunctionArn" && abroad;
            let is_same = got == expected.as_deref()
                || name == "OriginalAttributes"
                    && got.map(parsed) == expected.as_deref().map(parsed);
            let is_right = is_same || no_room || unknown;
            (!is_right).then(|| format!("{name} is {got:?}, expected {expected:?}"))
        })
    }
}

/// A message's own attributes, as its dead letter has them.
fn as_json(message: &Outgoing) -> Value {
    let attribute = |(name, it): (&String, &MessageAttribute)| {
        // In SQS's API, binary values are in base64 too.
        let it = json!(it);
        let value = it.get("StringValue").or(it.get("BinaryValue"));
        (name.clone(), json!({ "type": it["DataType"], "value": value }))
    };
    message.attributes.iter().map(attribute).collect()
}

fn parsed(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

/// Whether nobody vouches for the body of its dead letter, so that it may be cut.
fn may_cut(case: &Case) -> bool {
    case.is_refused || matches!(case.verdict(), Err("unreadable" | "payload_missing"))
}

fn has_body(letter: &DeadLetter, case: &Case, expected: &str) -> bool {
    match attribute(letter, "OriginalBodySize") {
        None => letter.body == *expected,
        Some(size) => {
            let is_full = letter.size() > CUT_SIZE_MIN;
            let is_cut = letter.body.len() < expected.len() && is_full && may_cut(case);
            is_cut && *size == expected.len().to_string() && expected.starts_with(&*letter.body)
        }
    }
}

pub fn attribute<'a>(letter: &'a DeadLetter, name: &str) -> Option<&'a str> {
    letter.attributes.iter().find(|(of, _)| *of == name).map(|(_, value)| value.as_str())
}

/// Returns what is wrong with a reason, or None.
fn wrong_reason(case: &Case, at: Millis, fault: Option<FaultKind>, reason: &str) -> Option<String> {
    let right = match (case.verdict(), fault) {
        _ if case.order == Some(Order::Cancel) => "cancelled",
        (Err(right), _) => right,
        (Ok(_), Some(FaultKind::Refused(right))) => right.as_str(),
        (Ok(next), fault) => {
            let is_over = at > next.expiry || (fault.is_some() && at >= next.last_chance);
            return (reason != "max_age_exceeded" || !is_over).then(|| {
                let (chance, expiry) = (next.last_chance, next.expiry);
                format!(
                    "given up as {reason} at {at}, with a last chance at {chance} and an age until {expiry}"
                )
            });
        }
    };
    (reason != right).then(|| format!("given up as {reason}, expected {right}"))
}

pub fn written(at: Millis) -> String {
    Timestamp::from_timestamp_millis(at).map(rfc3339).unwrap_or_default()
}

/// The first kilobyte of a text, without the characters that SQS rejects.
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
