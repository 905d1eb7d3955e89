//! What events carry, and what a stranger puts into a retry queue.

use std::fmt::Write as _;

use crate::draw::Draw;

/// How many bytes a payload near the limit has at least: the most that a message carries, less what a
/// record is around it, and a little.
const LARGE: (u64, u64) = (1_047_600, 1_048_576);

/// A payload as it is first given to a target.
pub(crate) struct Payload {
    /// Its bytes.
    pub(crate) text: String,
    /// What it is where it is the envelope of another writer.
    pub(crate) envelope: Option<Foreign>,
}

/// The envelope of another writer, around the original bytes.
pub(crate) struct Foreign {
    pub(crate) attempt: u32,
    /// The second in which it says that the event failed first.
    pub(crate) initial: i64,
    pub(crate) request_id: Option<String>,
    /// Its further members, as JSON writes them between others.
    pub(crate) others: String,
    pub(crate) original: String,
}

/// The payload of event number `event`, sent in this second.
pub(crate) fn payload(event: usize, second: i64, draw: &mut Draw) -> Payload {
    let plain = |text: String| Payload { text, envelope: None };
    match draw.number(0..=11) {
        0 => plain(format!(r#"{{ "order" : {event} , "big":12345678901234567890{event} }}"#)),
        1 => plain(format!(r#"[{event}, 1.0, 1e3, 1E+3, -0.0, "ü\u00fc\ud83d\ude00"]"#)),
        2 => plain(format!(r#""_retry_metadata {event} _original_payload""#)),
        3 => plain(format!(
            r#"{{"_retry_metadata":{{"attempt":0,"initial_timestamp":1}},"_original_payload":{event}}}"#
        )),
        4 => plain(format!(r#"{{"b":1,"a":2,"b":{event}}}"#)),
        5 => plain((*draw.pick(&["null", "true", "7", "\"\"", "{}", "[]", "-1.50"])).to_owned()),
        6 => foreign(event, second, draw),
        _ => plain(format!(r#"{{"order":"{event}"}}"#)),
    }
}

/// A payload that is near the limit of what a message can carry.
pub(crate) fn large(event: usize, draw: &mut Draw) -> Payload {
    let bytes = usize::try_from(draw.number(LARGE.0..=LARGE.1)).unwrap_or_default();
    let mut text = format!(r#"{{"order":"{event}","fill":""#);
    let rest = bytes.saturating_sub(text.len() + 2);
    text.extend(std::iter::repeat_n('x', rest));
    text.push_str("\"}");
    Payload { text, envelope: None }
}

fn foreign(event: usize, second: i64, draw: &mut Draw) -> Payload {
    let foreign = Foreign {
        attempt: u32::try_from(draw.number(1..=3)).unwrap_or(1),
        initial: second - i64::try_from(draw.number(0..=60)).unwrap_or_default(),
        request_id: draw.happens(0.7).then(|| format!("foreign-{event}")),
        others: if draw.happens(0.5) { r#","note":[1.0 ,2]"#.to_owned() } else { String::new() },
        original: format!(r#"{{"order": {event}.0}}"#),
    };
    Payload { text: foreign.at_attempt(foreign.attempt), envelope: Some(foreign) }
}

impl Foreign {
    /// The envelope with another attempt.
    pub(crate) fn at_attempt(&self, attempt: u32) -> String {
        envelope(attempt, self.initial, self.request_id.as_deref(), &self.others, &self.original)
    }
}

/// The envelope of the contract.
pub(crate) fn envelope(
    attempt: u32,
    initial: i64,
    request_id: Option<&str>,
    others: &str,
    original: &str,
) -> String {
    let mut text =
        format!(r#"{{"_retry_metadata":{{"attempt":{attempt},"initial_timestamp":{initial}"#);
    if let Some(id) = request_id {
        // Writing to a string can't fail.
        let _ = write!(text, r#","request_id":"{id}""#);
    }
    text.push_str(others);
    text.push_str(r#"},"_original_payload":"#);
    text.push_str(original);
    text.push('}');
    text
}
