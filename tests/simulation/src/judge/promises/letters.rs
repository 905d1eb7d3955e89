//! A dead letter has the original bytes, the right reason, and attributes that state the facts.

use std::{borrow::Cow, cmp::Reverse};

use comeback_core::{
    Timestamp, claim::Order, dead_letter::DeadLetter, fault::FaultKind, time::rfc3339,
};

use comeback_local_model::sqs::{MessageAttribute, Outgoing};
use serde_json::{Value, json};

use super::{Check, Happens, Kept, Promise, broken};
use crate::{
    judge::known::{Case, Condition, Delivery, Fetch, Known, Subject},
    policy::Millis,
};

/// The largest message, and by how much the judge may be wrong about the size of a dead letter, in bytes.
const SIZE_MAX: usize = 1_048_576;
const SIZE_UNSURE: usize = 64;

/// A body is only cut if the letter then takes as much as SQS accepts, up to the last character.
const CUT_SIZE_MIN: usize = 1_048_576 - 4;

/// How many bytes of each text of an error a dead letter carries.
const TEXT_MAX: usize = 1024;

/// A dead letter of at least this size may have no room for every attribute.
const LARGE: usize = 1_040_000;

/// The attributes for which there is always room, unless a payload takes it.
const IDENTITY: [&str; 2] = ["FunctionArn", "RequestId"];

#[derive(Default)]
pub struct Letters;

impl Promise for Letters {
    fn on(&mut self, happens: Happens<'_>, known: &Known) -> Kept {
        let Happens::GivesUp(run, of, at, letter) = happens else { return Ok(()) };
        let Some(message) = of.and_then(|of| known.message(of)) else {
            let body = &letter.body[..letter.body.floor_char_boundary(200)];
            let what =
                format!("run {run} sends a dead letter of no message that it was given: {body}");
            return broken(Check::OriginalBytes, None, what);
        };
        if known.is_outdated(message) {
            return Ok(());
        }
        let expected = body_of(known, message, letter);
        if !has_body(letter, &known.cases[message.case], &expected) {
            let got = &letter.body;
            let what = format!("a dead letter has the bytes {got}, expected {expected}");
            return broken(Check::OriginalBytes, None, what);
        }
        if let Some(what) = wrong_reason(known, message, at, letter) {
            return broken(Check::RightReason, None, what);
        }
        match wrong_facts(known, message, letter) {
            Some(what) => broken(Check::LetterTells, None, what),
            None => Ok(()),
        }
    }
}

/// The message of a dead letter. Copies of one message may be in one batch: the best match comes first.
pub fn addressee(known: &Known, run: u64, at: Millis, letter: &DeadLetter) -> Option<Subject> {
    let batch = known.batch(run);
    let has_bytes = |message: &Delivery| {
        has_body(letter, &known.cases[message.case], &body_of(known, message, letter))
    };
    let is_named =
        |it: &Delivery| attribute(letter, "RequestId") == Some(&known.request_of(it.case));
    let find = |is: &dyn Fn(&Delivery) -> bool| {
        let free = batch.iter().enumerate();
        let free = free.filter(|(_, message)| !message.dead_letter_sent && is(message));
        // A handler sends a dead letter as soon as it has the answer that leads to it.
        let order = |(_, message): &(usize, &Delivery)| Reverse(message.told);
        free.min_by_key(order).map(|(place, _)| place)
    };
    let is_whole = |it: &Delivery| has_bytes(it) && wrong_facts(known, it, letter).is_none();
    let place = find(&|it| is_whole(it) && wrong_reason(known, it, at, letter).is_none())
        .or_else(|| find(&is_whole))
        .or_else(|| find(&is_named))
        .or_else(|| find(&has_bytes))?;
    Some(Subject { run, place, case: batch[place].case, call: None, part: None })
}

/// The body of this dead letter, as it must be: the payload, or the message if that has none or leaves it
/// elsewhere.
fn body_of<'a>(known: &'a Known, message: &'a Delivery, letter: &DeadLetter) -> Cow<'a, str> {
    let case = &known.cases[message.case];
    let has_payload =
        message.is_read() && !matches!(case.verdict(), Err("unreadable" | "payload_missing"));
    let is_there = || has_payload && place_of_payload(known, message, letter).is_none();
    match case.place().is_none() || is_there() {
        true => known.original(case),
        false => message.record().body.as_deref().unwrap_or_default().into(),
    }
}

/// Where the payload of this dead letter must lie, if there is no room for it.
fn place_of_payload(known: &Known, message: &Delivery, letter: &DeadLetter) -> Option<String> {
    let case = &known.cases[message.case];
    let reason = ("Reason", attribute(letter, "Reason").map(str::to_owned));
    let facts = facts(known, message.case);
    let facts = facts.iter().chain([&reason]).filter_map(|(name, value)| {
        // SQS counts the type, too.
        Some(name.len() + "String".len() + value.as_ref()?.len())
    });
    let size = known.payload(case.of.event).len() + facts.sum::<usize>();
    let has_payload = case.verdict().err() != Some("payload_missing");
    points_to(known, message, size, letter).filter(|_| has_payload)
}

/// The attributes of a dead letter, beside its reason.
fn facts(known: &Known, index: usize) -> [(&'static str, Option<String>); 9] {
    let case = &known.cases[index];
    let made = case.of.attempt.saturating_sub(u32::from(case.condition == Condition::Paused));
    let message = known.events[case.of.event].message();
    let is_queue = message.is_some();
    let own = message.filter(|it| !it.attributes.is_empty()).map(as_json);
    let text = |text: &Option<String>| text.as_deref().map(kept).filter(|text| !text.is_empty());
    [
        (
            if is_queue { "SourceQueueArn" } else { "FunctionArn" },
            Some(case.arn(&known.plan).to_owned()),
        ),
        ("OriginalAttributes", own.map(|own| own.to_string())),
        ("SourceArn", case.undelivered().map(|it| it.source.clone())),
        ("RequestId", Some(known.request_of(index))),
        ("Attempts", Some(made.to_string())),
        ("FirstFailureAt", Some(written(case.first))),
        ("LastFailureAt", Some(written(case.at))),
        ("ErrorType", text(&case.error.error_type)),
        ("ErrorMessage", text(&case.error.message)),
    ]
}

/// The first attribute that is wrong.
fn wrong_facts(known: &Known, message: &Delivery, letter: &DeadLetter) -> Option<String> {
    let case = &known.cases[message.case];
    let says_nothing = case.undelivered().is_some_and(|it| it.says_nothing);
    let is_unread = matches!(case.verdict(), Err("unreadable")) || !message.is_read();
    let points = attribute(letter, "PayloadLocation").is_some();
    let part = case.part().filter(|_| is_unread || points);
    if attribute(letter, "BatchPart") != part {
        let got = attribute(letter, "BatchPart");
        return Some(format!("BatchPart is {got:?}, expected {part:?}"));
    }
    if is_unread || says_nothing {
        return None;
    }
    let abroad = case.strange && case.is_refused;
    let is_queue = known.events[case.of.event].message().is_some();
    let place = [("PayloadLocation", place_of_payload(known, message, letter))];
    facts(known, message.case).into_iter().chain(place).find_map(|(name, expected)| {
        let got = attribute(letter, name);
        let may_be_dropped = is_queue || !(IDENTITY.contains(&name) && may_cut(case));
        let no_room = got.is_none() && letter.body.len() > LARGE && may_be_dropped;
        // A stranger's record may name any target, and then the reason says so.
        let unknown = matches!(name, "FunctionArn" | "SourceQueueArn") && abroad;
        let is_same = got == expected.as_deref()
            || name == "OriginalAttributes" && got.map(parsed) == expected.as_deref().map(parsed);
        let is_right = is_same || no_room || unknown;
        (!is_right).then(|| format!("{name} is {got:?}, expected {expected:?}"))
    })
}

/// The reason of a dead letter at `at`, if the message's record is the cause.
fn reason_unread(message: &Delivery, at: Millis) -> Option<&'static str> {
    match message.fetch {
        Fetch::Read => None,
        Fetch::Gone => Some("record_gone"),
        Fetch::Failed(_) if at > message.kept_until() => Some("unreadable"),
        Fetch::Failed(_) | Fetch::Unread | Fetch::Asked => Some("nothing, as its record is unread"),
    }
}

/// Where the payload of a dead letter of this size must lie, if its record is in a bucket. A letter whose size the
/// judge can't tell to the byte may have it there.
fn points_to(
    known: &Known,
    message: &Delivery,
    size: usize,
    letter: &DeadLetter,
) -> Option<String> {
    let place = known.cases[message.case].place()?;
    let is_pointer = attribute(letter, "PayloadLocation").is_some();
    let is_unsure = size.abs_diff(SIZE_MAX) <= SIZE_UNSURE;
    let lacks_room = if is_unsure { is_pointer } else { size > SIZE_MAX };
    (lacks_room && message.is_read()).then(|| place.to_string())
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

/// Returns what is wrong with the reason of a dead letter at `at`, or None.
fn wrong_reason(
    known: &Known,
    message: &Delivery,
    at: Millis,
    letter: &DeadLetter,
) -> Option<String> {
    let reason = attribute(letter, "Reason").unwrap_or_default();
    let unlike =
        |right: &str| (reason != right).then(|| format!("given up as {reason}, expected {right}"));
    if let Some(right) = reason_unread(message, at) {
        return unlike(right);
    }
    let case = &known.cases[message.case];
    let next = match (case.verdict(), message.fault) {
        _ if case.order == Some(Order::Cancel) => return unlike("cancelled"),
        (Err(right), _) => return unlike(right),
        (Ok(_), Some(FaultKind::Refused(right))) => return unlike(right.as_str()),
        (Ok(next), _) => next,
    };
    let is_over = at > next.expiry || (message.fault.is_some() && at >= next.last_chance);
    (reason != "max_age_exceeded" || !is_over).then(|| {
        let (chance, expiry) = (next.last_chance, next.expiry);
        format!(
            "given up as {reason} at {at}, with a last chance at {chance} and an age until {expiry}"
        )
    })
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
