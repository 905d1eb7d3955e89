//! The key of a run's item in the ledger.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::target::Target;

/// How many bytes of a payload's digest are part of the key: enough that no two payloads have the same by chance.
const DIGEST_LEN: usize = 16;

/// The key of a run's item.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Key {
    /// The target and a digest of the payload. All runs of an event have this in common.
    pub id: String,
    /// The request id of the run, or the message id that takes its place.
    pub run: String,
}

impl Key {
    /// The key of a run of this target with this payload. Ids are no secret, so the key also holds the target. White
    /// space between the tokens of a payload does not count, because AWS doesn't promise to keep it.
    pub fn of(target: &Target, payload: &str, run: &str) -> Self {
        let target = match target {
            Target::Function(function) => function.unqualified(),
            Target::Queue(queue) => queue.as_str(),
        };
        Self { id: format!("{target}/{}", digest(payload)), run: run.to_owned() }
    }

    /// The key of another run with the same target and payload.
    #[must_use]
    pub fn sibling(&self, run: &str) -> Self {
        Self { id: self.id.clone(), run: run.to_owned() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.id, self.run)
    }
}

fn digest(payload: &str) -> String {
    let mut digest = Sha256::new();
    let bytes = payload.as_bytes();
    let (mut begun, mut is_text, mut is_escaped) = (0, false, false);
    for (at, &byte) in bytes.iter().enumerate() {
        if is_text {
            is_text = byte != b'"' || is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
        } else if byte.is_ascii_whitespace() {
            digest.update(&bytes[begun..at]);
            begun = at + 1;
        } else {
            is_text = byte == b'"';
        }
    }
    digest.update(&bytes[begun..]);
    digest.finalize()[..DIGEST_LEN].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arn::{FunctionArn, QueueArn};

    #[test]
    fn the_key_holds_target_payload_and_run_but_no_white_space_between_tokens() {
        let function = |arn: &str| {
            Target::Function(
                FunctionArn::parse(&format!(
                    "arn:aws:lambda:us-east-1:123456789012:function:{arn}"
                ))
                .unwrap(),
            )
        };
        let key = |target, payload| Key::of(&function(target), payload, "run");
        let plain = key("orders", r#"{"a b":[1,"\"c d"]}"#);
        assert_eq!(plain, key("orders:live", "{ \"a b\" :\n[1, \"\\\"c d\"]\t}"));
        for (target, payload) in [
            ("mails", r#"{"a b":[1,"\"c d"]}"#),
            ("orders", r#"{"ab":[1,"\"c d"]}"#),
            ("orders", r#"{"a b":[1,"\"cd"]}"#),
            ("orders", r#"{"a b":[1,"\\" ,"c d"]}"#),
        ] {
            assert_ne!(plain, key(target, payload), "{target} {payload}");
        }
        assert_eq!(
            plain.id.len(),
            "arn:aws:lambda:us-east-1:123456789012:function:orders/".len() + 32
        );
        let queue = QueueArn::parse("arn:aws:sqs:us-east-1:123456789012:imports").unwrap();
        assert_ne!(Key::of(&Target::Queue(queue), r#"{"a b":[1,"\"c d"]}"#, "run").id, plain.id);
        assert_eq!((plain.sibling("next").id, &*plain.run), (plain.id.clone(), "run"));
    }
}
