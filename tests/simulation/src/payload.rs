//! The payloads of events, and the messages of queues.

use comeback_local_model::sqs::{AttributeValue, MessageAttribute, Outgoing};

use crate::choices::{Choices, Of};

/// The size of a payload near the limit, in bytes: at least what a message can carry, less the record around it.
const LARGE: (u64, u64) = (1_047_600, 1_048_576);

/// The attribute of a queue's message that holds its metadata.
pub const METADATA: &str = "_retry_metadata";

/// The names of a message's attributes. Most of them mean something in messages of other forms.
const NAMES: [&str; 10] = [
    "tenant",
    "size.of",
    "Reason",
    "RequestID",
    "FailedAt",
    "SourceQueueArn",
    "MessageId",
    "FunctionArn",
    "OriginalAttributes",
    "_original_payload",
];

/// The room that the largest message leaves, for the reason of its dead letter.
const ROOM: usize = 40;

pub struct Payload {
    pub text: String,
    /// Its parts, if it is the envelope of another writer, or a queue's message with metadata of another writer.
    pub envelope: Option<Foreign>,
    /// The message without metadata, if its target is a queue.
    pub message: Option<Box<Outgoing>>,
}

/// The parts of another writer's envelope, around the original bytes.
#[derive(Clone)]
pub struct Foreign {
    pub attempt: u32,
    /// The second of the first failure, according to the envelope.
    pub initial: i64,
    pub request_id: Option<String>,
    /// More members of the envelope, as JSON after a comma.
    pub others: String,
    pub original: String,
    /// The parts of what the original bytes look like, if that is another envelope.
    pub inner: Option<Box<Foreign>>,
}

/// The payload of event number `event`, sent in this second.
pub fn payload(event: usize, second: i64, of: Of, choices: &mut Choices) -> Payload {
    let text = match choices.kind(of, "payload", 0..=11, 11) {
        0 => format!(r#"{{ "order" : {event} , "big":12345678901234567890{event} }}"#),
        1 => format!(r#"[{event}, 1.0, 1e3, 1E+3, -0.0, "ü\u00fc\ud83d\ude00"]"#),
        2 => format!(r#""_retry_metadata {event} _original_payload""#),
        3 => format!(
            r#"{{"_retry_metadata":{{"attempt":0,"initial_timestamp":1}},"_original_payload":{event}}}"#
        ),
        4 => format!(r#"{{"b":1,"a":2,"b":{event}}}"#),
        5 => choices
            .pick(of, "short payload", &["null", "true", "7", "\"\"", "{}", "[]", "-1.50"])
            .to_owned(),
        6 => return forgery(event, second, of, choices),
        _ => return plain(event),
    };
    Payload { text, envelope: None, message: None }
}

/// An envelope that no handler has written.
pub fn forgery(event: usize, second: i64, of: Of, choices: &mut Choices) -> Payload {
    let foreign = foreign(event, second, of, choices);
    let text = envelope(&foreign.metadata(), &foreign.original);
    Payload { text, envelope: Some(foreign), message: None }
}

pub fn plain(event: usize) -> Payload {
    Payload { text: plain_text(event), envelope: None, message: None }
}

pub fn plain_text(event: usize) -> String {
    format!(r#"{{"order":"{event}"}}"#)
}

/// A payload that several events have. One of them looks like an envelope, and is none.
pub fn equal(of: Of, choices: &mut Choices) -> Payload {
    let equal = [
        "{}",
        r#"{"tick": 1.0}"#,
        r#"{"_retry_metadata":{"attempt":0,"initial_timestamp":1},"_original_payload":{}}"#,
    ];
    let text = choices.pick(of, "equal payload", &equal);
    Payload { text: text.to_owned(), envelope: None, message: None }
}

/// An envelope that no handler has written, around what looks like another one. That one is the event's payload.
pub fn nested(event: usize, second: i64, of: Of, choices: &mut Choices) -> Payload {
    let inner = foreign(event, second, of, choices);
    let original = envelope(&inner.metadata(), &inner.original);
    let outer = foreign(event, second, of, choices);
    let foreign = Foreign { original, inner: Some(inner.into()), ..outer };
    let text = envelope(&foreign.metadata(), &foreign.original);
    Payload { text, envelope: Some(foreign), message: None }
}

/// A payload near the limit of what a message can carry.
pub fn large(event: usize, of: Of, choices: &mut Choices) -> Payload {
    let bytes = choices.number(of, "bytes", LARGE.0..=LARGE.1) as usize;
    let start = format!(r#"{{"order":"{event}","fill":""#);
    let fill = "x".repeat(bytes - start.len() - 2);
    Payload { text: format!("{start}{fill}\"}}"), envelope: None, message: None }
}

/// A message of a queue, and the metadata in it that no handler has written.
pub fn message(
    event: usize,
    second: i64,
    is_large: bool,
    of: Of,
    choices: &mut Choices,
) -> (Payload, Option<MessageAttribute>) {
    let group_id = choices.happens(of, "has a group", 0.3).then(|| "blue".to_owned());
    let mut message = Outgoing { group_id, ..Outgoing::default() };
    let counts = [0, 0, 1, 2, 3, 6, 7, 8, 9, 10];
    let count = if is_large { 1 } else { choices.pick(of, "attributes", &counts) };
    let first = choices.index(of, "first attribute", NAMES.len());
    for name in NAMES.iter().cycle().skip(first).take(count) {
        let attribute = match (*name, choices.number(of, "attribute", 0..=2)) {
            ("FailedAt", 0) => MessageAttribute::string("2020-01-01T00:00:00Z"),
            ("Reason", 0) => MessageAttribute::string("target_not_allowed"),
            (_, 0) => MessageAttribute::string(format!("\"\u{fc}{event}\"")),
            (_, 1) => MessageAttribute::number(event),
            _ => MessageAttribute {
                data_type: "Binary.png".to_owned(),
                value: AttributeValue::Binary(choices.seed().to_be_bytes().to_vec()),
            },
        };
        message.attributes.insert((*name).to_owned(), attribute);
    }
    let mut text = match choices.kind(of, "body", 0..=3, 3) {
        _ if is_large => large(event, of, choices).text,
        0 => format!("no JSON, {event}"),
        _ => payload(event, second, of, choices).text,
    };
    text.truncate(LARGE.1 as usize - ROOM - message.size());
    message.body = text.as_str().into();
    let is_forged = count < NAMES.len() && choices.happens(of, "forged metadata", 0.3);
    let forged = is_forged.then(|| forged(event, second, of, choices));
    let (forged, envelope) = forged.unzip();
    (Payload { text, envelope: envelope.flatten(), message: Some(message.into()) }, forged)
}

/// Metadata of another writer, and its parts. Without parts, it counts as none.
fn forged(
    event: usize,
    second: i64,
    of: Of,
    choices: &mut Choices,
) -> (MessageAttribute, Option<Foreign>) {
    let foreign = foreign(event, second, of, choices);
    let attempt =
        |attempt: &str| format!(r#"{{"attempt":{attempt},"initial_timestamp":{second}}}"#);
    let (text, foreign) = match choices.kind(of, "metadata", 0..=5, 5) {
        0 => ("no JSON".to_owned(), None),
        1 => (attempt("0"), None),
        2 => (attempt("\"1\""), None),
        3 => {
            let (request_id, others) = (None, String::new());
            let most =
                Foreign { attempt: u32::MAX, initial: second, request_id, others, ..foreign };
            (attempt("4294967296"), Some(most))
        }
        4 => {
            let future = Foreign { initial: 4_102_444_800, ..foreign };
            (future.metadata(), Some(future))
        }
        _ => (foreign.metadata(), Some(foreign)),
    };
    (MessageAttribute::string(text), foreign)
}

fn foreign(event: usize, second: i64, of: Of, choices: &mut Choices) -> Foreign {
    Foreign {
        attempt: choices.number(of, "foreign attempt", 1..=3) as u32,
        initial: second - choices.number(of, "foreign age", 0..=60) as i64,
        request_id: choices.happens(of, "foreign id", 0.7).then(|| format!("foreign-{event}")),
        others: if choices.happens(of, "more members", 0.5) {
            r#","note":[1.0 ,2]"#.to_owned()
        } else {
            String::new()
        },
        original: format!(r#"{{"order": {event}.0}}"#),
        inner: None,
    }
}

impl Foreign {
    pub fn metadata(&self) -> String {
        metadata(self.attempt, self.initial, self.request_id.as_deref(), &self.others)
    }
}

pub fn metadata(attempt: u32, initial: i64, request_id: Option<&str>, others: &str) -> String {
    let id = request_id.map(|id| format!(r#","request_id":"{id}""#)).unwrap_or_default();
    format!(r#"{{"attempt":{attempt},"initial_timestamp":{initial}{id}{others}}}"#)
}

pub fn envelope(metadata: &str, original: &str) -> String {
    format!(r#"{{"_retry_metadata":{metadata},"_original_payload":{original}}}"#)
}
