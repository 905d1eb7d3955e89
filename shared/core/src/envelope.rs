//! The envelope around a re-invoked payload.
//!
//! ```json
//! {"_retry_metadata":{"attempt":2,"initial_timestamp":1643667670,"request_id":"e4b4…"},
//!  "_original_payload":{"s3_bucket":"my_bucket","s3_object_key":"demo.png"}}
//! ```
//!
//! Other programs write and read this format, so the members above are never renamed or retyped. New members may be
//! added to `_retry_metadata`; unknown ones are passed on. The payload keeps its exact bytes.

use std::borrow::Cow;

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::value::RawValue;

use crate::{Attempt, Timestamp, attribute::acceptable_json, json::Object};

pub const METADATA: &str = "_retry_metadata";
pub const PAYLOAD: &str = "_original_payload";
/// Members of [`METADATA`].
const ATTEMPT: &str = "attempt";
const INITIAL_TIMESTAMP: &str = "initial_timestamp";
const REQUEST_ID: &str = "request_id";

/// The name of the retry metadata among the custom values of the client context, for a function that receives the bare
/// payload. The value is a string that holds JSON, because the client contexts of most runtimes allow only strings.
pub const CONTEXT_FACTS: &str = "comeback";

/// The largest payload of an asynchronous invocation.
pub const INVOCATION_MAX: usize = 1_048_576;

/// The most bytes that retry metadata may have. The envelopes of this loop have about 100. Whoever may invoke a
/// function can also write metadata with a hundred thousand members, which would take many times its size in memory.
const METADATA_MAX: usize = 16 * 1024;

/// The longest request id, in bytes. AWS's ids are UUIDs of 36 bytes. Ids are copied into DynamoDB's keys and items,
/// the circuits of targets, and headers, so a longer one counts as absent.
pub const REQUEST_ID_MAX: usize = 256;

#[derive(Clone, Debug)]
pub struct Envelope<'a> {
    pub metadata: RetryMetadata,
    /// The original payload, byte for byte.
    pub payload: Cow<'a, RawValue>,
}

/// The retry metadata, which travels with the payload.
#[derive(Clone, Debug)]
pub struct RetryMetadata {
    /// Which re-invocation this is.
    pub attempt: Attempt,
    /// The time of the first failure, in whole seconds since 1970.
    pub initial_timestamp: i64,
    /// The request id of the first failed invocation, the same in all attempts. Envelopes that other programs wrote may
    /// lack it.
    pub request_id: Option<String>,
    /// Members that other programs added.
    others: Vec<(String, Box<RawValue>)>,
}

impl<'a> Envelope<'a> {
    /// Reads a payload that is an envelope. Anything else is an ordinary payload, even a string that contains
    /// an envelope.
    pub fn read(payload: &'a str) -> Option<Self> {
        let (metadata, payload) = Self::find(payload)?;
        Some(Self { metadata, payload: Cow::Borrowed(payload) })
    }

    /// Like [`read`](Self::read), but an object with any other member is an ordinary payload. Our envelopes have none.
    pub fn read_bare(payload: &'a str) -> Option<Self> {
        Self::read(payload).filter(|_| Object::read(payload).is_some_and(|it| it.len() == 2))
    }

    pub fn find(payload: &'a str) -> Option<(RetryMetadata, &'a RawValue)> {
        // Most payloads are ordinary, and searching for the name is faster than parsing them.
        if !payload.contains(METADATA) && !spells_name_with_escapes(payload) {
            return None;
        }
        let object = Object::with(payload, &[METADATA, PAYLOAD])?;
        Some((RetryMetadata::read(object.get(METADATA)?.get())?, object.get(PAYLOAD)?))
    }

    pub fn into_owned(self) -> Envelope<'static> {
        Envelope { metadata: self.metadata, payload: Cow::Owned(self.payload.into_owned()) }
    }

    /// Whether an asynchronous invocation can carry it.
    pub fn fits(&self) -> bool {
        let around = METADATA.len() + PAYLOAD.len() + r#"{"":,"":}"#.len();
        around + self.metadata.to_json().len() + self.payload.get().len() <= INVOCATION_MAX
    }

    /// The JSON that the target is invoked with.
    pub fn to_json(&self) -> String {
        // Writing strings and raw JSON to memory cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Whether a character of [`METADATA`] is escaped somewhere, so that the name may occur in another spelling. No
/// encoder escapes these characters by itself.
fn spells_name_with_escapes(json: &str) -> bool {
    let character = |at: usize| {
        let digits = json.get(at + ESCAPE.len()..at + ESCAPE.len() + 2)?;
        u8::from_str_radix(digits, 16).ok()
    };
    let is_of_name = |at: usize| character(at).is_some_and(|it| METADATA.as_bytes().contains(&it));
    // A plain search first is many times faster, and most payloads have no escapes.
    json.contains(ESCAPE) && json.match_indices(ESCAPE).any(|(at, _)| is_of_name(at))
}

/// Lambda accepts no longer name of an execution.
const EXECUTION_NAME_MAX: usize = 64;

/// The start of a JSON escape of an ASCII character; two digits follow.
const ESCAPE: &str = "\\u00";

impl RetryMetadata {
    pub fn first(first_failure: Timestamp, request_id: &str) -> Self {
        Self {
            attempt: Attempt::FIRST,
            initial_timestamp: first_failure.timestamp(),
            request_id: Some(request_id.to_owned()),
            others: Vec::new(),
        }
    }

    /// The same metadata for another attempt. `first_failure` replaces an implausible timestamp. Unknown members are
    /// dropped if the next reader would find the metadata too large because of them.
    #[must_use]
    pub fn next(&self, attempt: Attempt, first_failure: Timestamp) -> Self {
        let next = Self { attempt, initial_timestamp: first_failure.timestamp(), ..self.clone() };
        if next.to_attribute().len() > METADATA_MAX { next.known() } else { next }
    }

    /// The name of a durable function's execution for this attempt. Lambda starts an execution of one name and payload
    /// once, for ever. So it is named after the `run` that failed and not after its event, which comes again with the
    /// same attempts and bytes when its dead letter is redriven. What Lambda refuses in a name becomes a hyphen.
    pub fn execution_name(&self, run: &str) -> String {
        let is_accepted = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let attempt = format!("-{}", self.attempt);
        let run = run.chars().map(|c| if is_accepted(c) { c } else { '-' });
        run.take(EXECUTION_NAME_MAX - attempt.len()).chain(attempt.chars()).collect()
    }

    /// The JSON that an envelope has as [`METADATA`].
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The same JSON, as a queue's message has it in the attribute of that name. A producer may have escaped
    /// characters that SQS refuses.
    pub fn to_attribute(&self) -> String {
        acceptable_json(self.to_json().into()).into_owned()
    }

    /// The same metadata without unknown members.
    #[must_use]
    pub fn known(&self) -> Self {
        Self { others: Vec::new(), ..self.clone() }
    }

    /// When the first invocation failed; `None` if the timestamp is out of range.
    pub fn first_failure(&self) -> Option<Timestamp> {
        Timestamp::from_timestamp(self.initial_timestamp, 0)
    }

    /// Reads the value of [`METADATA`], or returns `None` if it is not valid retry metadata. A request id that is too
    /// long is passed on like an unknown member.
    pub fn read(value: &str) -> Option<Self> {
        if value.len() > METADATA_MAX {
            return None;
        }
        let object = Object::read(value)?;
        let request_id = object.text(REQUEST_ID).map(Cow::into_owned);
        let request_id = request_id.filter(|id| id.len() <= REQUEST_ID_MAX);
        let known = |name: &str| match name {
            ATTEMPT | INITIAL_TIMESTAMP => true,
            REQUEST_ID => request_id.is_some(),
            _ => false,
        };
        Some(Self {
            attempt: attempt(number(object.get(ATTEMPT)?)?)?,
            initial_timestamp: whole_seconds(number(object.get(INITIAL_TIMESTAMP)?)?),
            others: object
                .members()
                .filter(|(name, _)| !known(name))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            request_id,
        })
    }
}

fn number(value: &RawValue) -> Option<f64> {
    // A JSON value that parses as f64 is a number.
    value.get().parse().ok().filter(|number: &f64| number.is_finite())
}

/// A whole number from 1. Saturates.
fn attempt(number: f64) -> Option<Attempt> {
    let ordinal = (number.fract() == 0.0 && number >= 1.0).then_some(number)?;
    // A cast from a float saturates.
    Attempt::new(ordinal as u32)
}

fn whole_seconds(number: f64) -> i64 {
    number.floor() as i64
}

impl Serialize for Envelope<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry(METADATA, &self.metadata)?;
        map.serialize_entry(PAYLOAD, &self.payload)?;
        map.end()
    }
}

impl Serialize for RetryMetadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(ATTEMPT, &self.attempt)?;
        map.serialize_entry(INITIAL_TIMESTAMP, &self.initial_timestamp)?;
        if let Some(request_id) = &self.request_id {
            map.serialize_entry(REQUEST_ID, request_id)?;
        }
        for (name, value) in &self.others {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_is_named_by_the_run_that_failed_and_the_attempt_and_lambda_accepts_the_name() {
        let named = |run: &str, attempt: u32| {
            let attempt = Attempt::new(attempt).unwrap();
            let first = RetryMetadata::first(Timestamp::UNIX_EPOCH, "the event");
            RetryMetadata { attempt, ..first }.execution_name(run)
        };
        assert_eq!(named("3b72eb0b-0000_7", 1), "3b72eb0b-0000_7-1");
        assert_eq!(named("a b/\u{e4}", 12), "a-b---12");
        let longest = named(&"x".repeat(256), u32::MAX);
        assert_eq!((longest.len(), longest.ends_with("x-4294967295")), (64, true));
    }

    #[test]
    fn an_envelope_is_known_however_its_names_are_spelt() {
        let spelt = r#"{"\u005Fretry_metadat\u0061":{"attempt":1,"initial_timestamp":5},"_original\u005fpayload":7}"#;
        assert_eq!(Envelope::read(spelt).unwrap().payload.get(), "7");
    }

    #[test]
    fn unknown_facts_are_kept_and_a_request_id_of_another_type_is_one_of_them() {
        let text = r#"{"_retry_metadata":{"attempt":1,"initial_timestamp":5,"request_id":7,"by":{"b":1.50,"a":[ ]}},"_original_payload":null}"#;
        let envelope = Envelope::read(text).unwrap();
        assert_eq!(envelope.metadata.request_id, None);
        assert_eq!(envelope.to_json(), text);
    }

    #[test]
    fn metadata_over_16_kib_is_no_envelope_and_stays_one_at_the_next_attempt_below() {
        let sized = |size: usize| {
            let start = r#"{"attempt":9,"initial_timestamp":5,"request_id":"first","note":""#;
            let note = "x".repeat(size - start.len() - 2);
            format!(r#"{{"_retry_metadata":{start}{note}"}},"_original_payload":1}}"#)
        };
        assert!(Envelope::read(&sized(METADATA_MAX + 1)).is_none());
        let text = sized(METADATA_MAX);
        let largest = Envelope::read(&text).unwrap();
        let next = |attempt| {
            let first_failure = Timestamp::from_timestamp(5, 0).unwrap();
            let metadata = largest.metadata.next(Attempt::new(attempt).unwrap(), first_failure);
            let text = Envelope { metadata, payload: largest.payload.clone() }.to_json();
            (Envelope::read(&text).unwrap().metadata.request_id, text.contains("note"))
        };
        let first = Some("first".to_owned());
        assert_eq!(next(9), (first.clone(), true));
        assert_eq!(next(10), (first, false), "the unknown member leaves no room for a digit");
    }

    #[test]
    fn numbers_out_of_range_are_clamped() {
        let table = [
            ("1e300", "5", u32::MAX, 5),
            ("4294967296", "5", u32::MAX, 5),
            ("3.0", "5.9", 3, 5),
            ("1", "-1.5", 1, -2),
            ("1", "1e300", 1, i64::MAX),
        ];
        for (attempt, initial, counted, second) in table {
            let text = format!(
                r#"{{"_retry_metadata":{{"attempt":{attempt},"initial_timestamp":{initial}}},"_original_payload":1}}"#
            );
            let metadata = Envelope::read(&text).unwrap().metadata;
            assert_eq!((metadata.attempt.get(), metadata.initial_timestamp), (counted, second));
        }
        assert_eq!(
            Envelope::read(r#"{"_retry_metadata":{"attempt":1,"initial_timestamp":1e300},"_original_payload":1}"#)
                .unwrap().metadata.first_failure(),
            None
        );
    }

    #[test]
    fn an_envelope_fits_up_to_the_last_byte() {
        let first = Timestamp::from_timestamp(1_643_667_670, 0).unwrap();
        let of_length = |length: usize| {
            let payload = format!("\"{}\"", "x".repeat(length - 2));
            let payload = Cow::Owned(RawValue::from_string(payload).unwrap());
            Envelope { metadata: RetryMetadata::first(first, "e4b46cbf"), payload }
        };
        let around = of_length(2).to_json().len() - 2;
        let largest = of_length(INVOCATION_MAX - around);
        assert_eq!(largest.to_json().len(), INVOCATION_MAX);
        assert!(largest.fits());
        assert!(!of_length(INVOCATION_MAX - around + 1).fits());
    }
}
