//! The payloads of events.

use crate::dice::Dice;

/// The size of a payload near the limit, in bytes: at least what a message can carry, less the record around it.
const LARGE: (u64, u64) = (1_047_600, 1_048_576);

pub struct Payload {
    pub text: String,
    /// Its parts, if it is the envelope of another writer.
    pub envelope: Option<Foreign>,
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
}

/// The payload of event number `event`, sent in this second.
pub fn payload(event: usize, second: i64, dice: &mut Dice) -> Payload {
    let text = match dice.number(0..=11) {
        0 => format!(r#"{{ "order" : {event} , "big":12345678901234567890{event} }}"#),
        1 => format!(r#"[{event}, 1.0, 1e3, 1E+3, -0.0, "ü\u00fc\ud83d\ude00"]"#),
        2 => format!(r#""_retry_metadata {event} _original_payload""#),
        3 => format!(
            r#"{{"_retry_metadata":{{"attempt":0,"initial_timestamp":1}},"_original_payload":{event}}}"#
        ),
        4 => format!(r#"{{"b":1,"a":2,"b":{event}}}"#),
        5 => dice.pick(&["null", "true", "7", "\"\"", "{}", "[]", "-1.50"]).to_owned(),
        6 => return foreign(event, second, dice),
        _ => format!(r#"{{"order":"{event}"}}"#),
    };
    Payload { text, envelope: None }
}

/// A payload near the limit of what a message can carry.
pub fn large(event: usize, dice: &mut Dice) -> Payload {
    let bytes = dice.number(LARGE.0..=LARGE.1) as usize;
    let start = format!(r#"{{"order":"{event}","fill":""#);
    let fill = "x".repeat(bytes - start.len() - 2);
    Payload { text: format!("{start}{fill}\"}}"), envelope: None }
}

fn foreign(event: usize, second: i64, dice: &mut Dice) -> Payload {
    let foreign = Foreign {
        attempt: dice.number(1..=3) as u32,
        initial: second - dice.number(0..=60) as i64,
        request_id: dice.happens(0.7).then(|| format!("foreign-{event}")),
        others: if dice.happens(0.5) { r#","note":[1.0 ,2]"#.to_owned() } else { String::new() },
        original: format!(r#"{{"order": {event}.0}}"#),
    };
    Payload { text: foreign.at_attempt(foreign.attempt), envelope: Some(foreign) }
}

impl Foreign {
    pub fn at_attempt(&self, attempt: u32) -> String {
        envelope(attempt, self.initial, self.request_id.as_deref(), &self.others, &self.original)
    }
}

pub fn envelope(
    attempt: u32,
    initial: i64,
    request_id: Option<&str>,
    others: &str,
    original: &str,
) -> String {
    let id = request_id.map(|id| format!(r#","request_id":"{id}""#)).unwrap_or_default();
    format!(
        r#"{{"_retry_metadata":{{"attempt":{attempt},"initial_timestamp":{initial}{id}{others}}},"_original_payload":{original}}}"#
    )
}
