//! Hashes the canonical form of a request's intent. Two documents have the same canonical form if and only if they
//! have the same meaning.
//!
//! Members are sorted by name, numbers are written by value, strings have no needless escapes, and there is no
//! white space. Numbers are not rounded: two amounts that differ in their last digit differ here, even though an
//! `f64` may not tell them apart.

use std::{collections::BTreeMap, fmt};

use comeback_core::json::{Object, bytes};
use serde::Serialize;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};
use sha2::{Digest, Sha256};

use crate::failure::AlwaysPermanent;

/// The SHA-256 of an intent's canonical JSON. The order of members and the notation of numbers do not matter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Computes the fingerprint of an intent.
    ///
    /// # Errors
    ///
    /// If the intent cannot be serialized as JSON, or nests too deep.
    pub fn of(intent: &(impl Serialize + ?Sized)) -> Result<Self, BadIntent> {
        let json = to_raw_value(intent).map_err(|error| BadIntent::of(&error))?;
        let json = canonical(&json).map_err(|error| BadIntent::of(&error))?;
        Ok(Self(Sha256::digest(json).into()))
    }

    /// Returns the bytes, for a store.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for Fingerprint {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

/// Shows the first eight digits, which are enough to tell two fingerprints apart.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// An intent that cannot be serialized as JSON. No retry can fix that, so a handler that returns this error fails
/// with a [`PermanentFailure`](crate::PermanentFailure).
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the intent must be JSON: {0}")]
pub struct BadIntent(String, #[source] AlwaysPermanent);

impl BadIntent {
    fn of(error: &impl fmt::Display) -> Self {
        Self(error.to_string(), AlwaysPermanent)
    }
}

/// The maximum nesting depth, as in `serde_json`. Deeper documents would exhaust the stack.
const DEPTH_MAX: usize = 128;

/// The document nests deeper than [`DEPTH_MAX`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("expected JSON of at most {DEPTH_MAX} levels, got more")]
struct TooDeep;

/// Returns a document's canonical form.
///
/// # Errors
///
/// If the document nests deeper than [`DEPTH_MAX`].
fn canonical(document: &RawValue) -> Result<String, TooDeep> {
    let mut written = String::with_capacity(document.get().len());
    write(document, DEPTH_MAX, &mut written)?;
    Ok(written)
}

fn write(value: &RawValue, depth_left: usize, written: &mut String) -> Result<(), TooDeep> {
    let source = value.get();
    // The first byte of a value determines its type.
    match source.as_bytes().first() {
        Some(b'{') => {
            let members = Object::read(source).into_iter().flat_map(Object::into_members);
            // If a name occurs twice, the last one counts, as in most parsers.
            let members: BTreeMap<_, _> = members.collect();
            let members = members.iter().map(|(name, value)| (Some(&**name), *value));
            list('{', members, '}', depth_left, written)?;
        }
        Some(b'[') => {
            let values: Vec<&RawValue> = serde_json::from_str(source).unwrap_or_default();
            list('[', values.into_iter().map(|value| (None, value)), ']', depth_left, written)?;
        }
        Some(b'"') => string(&bytes(value).unwrap_or_default(), written),
        Some(b'-' | b'0'..=b'9') => written.push_str(&number(source)),
        _ => written.push_str(source),
    }
    Ok(())
}

fn list<'a>(
    open: char,
    members: impl Iterator<Item = (Option<&'a [u8]>, &'a RawValue)>,
    close: char,
    depth_left: usize,
    written: &mut String,
) -> Result<(), TooDeep> {
    let depth_left = depth_left.checked_sub(1).ok_or(TooDeep)?;
    written.push(open);
    for (nth, (name, value)) in members.enumerate() {
        if nth > 0 {
            written.push(',');
        }
        if let Some(name) = name {
            string(name, written);
            written.push(':');
        }
        write(value, depth_left, written)?;
    }
    written.push(close);
    Ok(())
}

/// Writes a string or a name. A lone surrogate is valid in JSON but not in UTF-8. Its bytes are written with an
/// escape that JSON does not have, so that no other string has the same canonical form.
fn string(bytes: &[u8], written: &mut String) {
    written.push('"');
    for chunk in bytes.utf8_chunks() {
        let quoted = Value::from(chunk.valid()).to_string();
        written.push_str(&quoted[1..quoted.len() - 1]);
        written.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    written.push('"');
}

/// Returns a number as an integer without trailing zeros and a power of ten.
fn number(source: &str) -> String {
    let (mantissa, exponent) = source.split_once(['e', 'E']).unwrap_or((source, "0"));
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_end_matches('0');
    let zeros = digits.len() - significant.len();
    let exponent = exponent
        .parse::<i64>()
        .ok()
        .and_then(|exponent| exponent.checked_add_unsigned(zeros as u64))
        .and_then(|exponent| exponent.checked_sub_unsigned(fraction.len() as u64));
    match (significant.trim_start_matches('0'), exponent) {
        ("", _) => "0".to_owned(),
        // The exponent is out of range, so the number stays as it is.
        (_, None) => source.to_owned(),
        (significant, Some(0)) => format!("{sign}{significant}"),
        (significant, Some(exponent)) => format!("{sign}{significant}e{exponent}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn canonical_form(text: &str) -> Result<String, TooDeep> {
        canonical(&RawValue::from_string(text.to_owned()).unwrap())
    }

    #[test]
    fn documents_with_the_same_meaning_have_the_same_canonical_form() {
        for (spelling, others) in [
            ("1", &["1.0", "1e0", "10e-1", "0.1E+1", "1.000"][..]),
            ("-12e2", &["-1200", "-1.2e3", "-1200.0"]),
            ("0", &["-0", "0.0", "0e99", "-0.00E5"]),
            ("12345678901234567890123", &["12345678901234567890123.0"]),
            ("1e-400", &["0.1e-399"]),
            ("\"A/\\n\u{20ac}\"", &[r#""\u0041\/\u000a\u20AC""#]),
            (r#"{"a":1,"b":[true,null]}"#, &[r#" { "b" : [ true , null ] , "\u0061" : 1.0 } "#]),
            (r#"{"a":2}"#, &[r#"{"a":1,"a":2}"#]),
            (r#"[{"a":[1,2e1],"b":"é"},0]"#, &[r#"[{"b":"\u00e9","a":[1.0,20]},-0]"#]),
            ("[]", &["[ ]"]),
            ("{}", &["{ }"]),
        ] {
            for other in others.iter().chain([&spelling]) {
                assert_eq!(canonical_form(other).as_deref(), Ok(spelling), "{other}");
            }
        }
    }

    #[test]
    fn documents_with_different_meanings_have_different_canonical_forms() {
        let documents = r#"1 10 -1 0.1 12345678901234567890123 12345678901234567890124 1e400 1e401
            9007199254740992.1 9007199254740992.2
            1e99999999999999999999 1e99999999999999999998 true false null "" "1" "null" "\ud800"
            "\udfff" "\\xed\\xa0\\x80" "\ufffd" [] [[]] [1,2] [2,1] [12] {} {"":{}} {"a":1} {"A":1}
            {"a":"1"} {"\ud800":1} ["a",1]"#;
        let documents: Vec<&str> = documents.split_whitespace().collect();
        for (nth, one) in documents.iter().enumerate() {
            for other in &documents[nth + 1..] {
                assert_ne!(canonical_form(one), canonical_form(other), "{one} {other}");
            }
        }
    }

    #[test]
    fn a_document_may_nest_up_to_the_maximum_depth() {
        let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(canonical_form(&nested(DEPTH_MAX)), Ok(nested(DEPTH_MAX)));
        for depth in [DEPTH_MAX + 1, 100_000] {
            assert_eq!(canonical_form(&nested(depth)), Err(TooDeep));
        }
    }

    #[test]
    fn a_fingerprint_is_the_hash_of_the_canonical_json() {
        // printf '{"amount":1e2,"card":"tok_7"}' | sha256sum
        let hex = |print: Fingerprint| {
            print.0.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let print = Fingerprint::of(&json!({"card": "tok_7", "amount": 100})).unwrap();
        assert_eq!(hex(print), "071de1dcdc74afdcfed64e9d31dfc54b84da127c0d9e468aee15f00b48f8504f");
        assert!(hex(print).starts_with(&print.to_string()));
    }
}
