//! JSON in one spelling: documents that mean the same become the same text, others become another.
//!
//! Members are sorted by their names, numbers are written by their value, strings with as few escapes as
//! can be, and there is no white space. No number is rounded on the way: two amounts that differ in their
//! last digit differ here too, though a reader that works with `f64` would not tell them apart.

use std::collections::BTreeMap;

use serde_json::{Value, value::RawValue};

use crate::json::{Object, bytes};

/// How deep a document may nest: as `serde_json` reads one. Deeper ones would exhaust the stack.
pub const DEPTH_MAX: usize = 128;

/// A document that nests deeper than [`DEPTH_MAX`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("expected JSON of at most {DEPTH_MAX} levels, got more")]
pub struct TooDeep;

/// Writes a document in its one spelling.
///
/// ```
/// # use comeback_core::canonical::canonical;
/// # use serde_json::value::RawValue;
/// let read = |text: &str| RawValue::from_string(text.to_owned());
/// let written = canonical(&*read(r#"{"b": [1.50, 20], "a": "\u0041"}"#)?);
/// assert_eq!(written.as_deref(), Ok(r#"{"a":"A","b":[15e-1,2e1]}"#));
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// # Errors
///
/// Where it nests too deep.
pub fn canonical(document: &RawValue) -> Result<String, TooDeep> {
    let mut written = String::with_capacity(document.get().len());
    write(document, DEPTH_MAX, &mut written)?;
    Ok(written)
}

fn write(value: &RawValue, depth_left: usize, written: &mut String) -> Result<(), TooDeep> {
    let source = value.get();
    // What a value begins with says what it is, and then it reads as that.
    match source.as_bytes().first() {
        Some(b'{') => {
            let members = Object::read(source).into_iter().flat_map(Object::into_members);
            // Where a name stands twice the last one counts, as in most readers.
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

/// A string, or a name. Half of a surrogate pair, which JSON can write and no text can hold, is told by its
/// bytes, in an escape that JSON does not have: so it is like no other string.
fn string(bytes: &[u8], written: &mut String) {
    written.push('"');
    for chunk in bytes.utf8_chunks() {
        let quoted = Value::from(chunk.valid()).to_string();
        written.push_str(&quoted[1..quoted.len() - 1]);
        written.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    written.push('"');
}

/// A number as a whole one without zeros at its end, and a power of ten.
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
        // No reader knows such a number's value: it is as it was written.
        (_, None) => source.to_owned(),
        (significant, Some(0)) => format!("{sign}{significant}"),
        (significant, Some(exponent)) => format!("{sign}{significant}e{exponent}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spelled(text: &str) -> Result<String, TooDeep> {
        canonical(&RawValue::from_string(text.to_owned()).unwrap())
    }

    #[test]
    fn what_means_the_same_is_spelled_the_same() {
        for (spelling, others) in [
            ("1", &["1.0", "1e0", "10e-1", "0.1E+1", "1.000"][..]),
            ("-12e2", &["-1200", "-1.2e3", "-1200.0"]),
            ("0", &["-0", "0.0", "0e99", "-0.00E5"]),
            ("12345678901234567890123", &["12345678901234567890123.0"]),
            ("1e-400", &["0.1e-399"]),
            ("\"A/\\n\u{20ac}\"", &[r#""\u0041\/\u000a\u20AC""#]),
            (r#"{"a":1,"b":[true,null]}"#, &[r#" { "b" : [ true , null ] , "\u0061" : 1.0 } "#]),
            (r#"{"a":2}"#, &[r#"{"a":1,"a":2}"#]),
            ("[]", &["[ ]"]),
            ("{}", &["{ }"]),
        ] {
            for other in others.iter().chain([&spelling]) {
                assert_eq!(spelled(other).as_deref(), Ok(spelling), "{other}");
            }
        }
    }

    #[test]
    fn what_means_something_else_is_spelled_otherwise() {
        let documents = r#"1 10 -1 0.1 12345678901234567890123 12345678901234567890124 1e400 1e401
            1e99999999999999999999 1e99999999999999999998 true false null "" "1" "null" "\ud800"
            "\udfff" "\\xed\\xa0\\x80" "\ufffd" [] [[]] [1,2] [2,1] [12] {} {"":{}} {"a":1} {"A":1}
            {"a":"1"} {"\ud800":1} ["a",1]"#;
        let documents: Vec<&str> = documents.split_whitespace().collect();
        for (nth, one) in documents.iter().enumerate() {
            for other in &documents[nth + 1..] {
                assert_ne!(spelled(one), spelled(other), "{one} {other}");
            }
        }
    }

    #[test]
    fn a_document_nests_as_deep_as_a_reader_allows() {
        let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(spelled(&nested(DEPTH_MAX)), Ok(nested(DEPTH_MAX)));
        for depth in [DEPTH_MAX + 1, 100_000] {
            assert_eq!(spelled(&nested(depth)), Err(TooDeep));
        }
    }

    /// A document, and the same in another spelling: other order, white space, escapes and numbers.
    fn spellings() -> impl Strategy<Value = (String, String)> {
        let word = prop_oneof![Just("null"), Just("true"), Just("false")]
            .prop_map(|word| (word.to_owned(), format!(" {word} ")));
        let number = (1i32..20, 0usize..5).prop_map(|(number, zeros)| {
            (number.to_string(), format!("{number}{}e-{zeros}", "0".repeat(zeros)))
        });
        let string = ".{0,2}".prop_map(|text| {
            let escaped: String =
                text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            (serde_json::Value::from(text).to_string(), format!("\"{escaped}\""))
        });
        prop_oneof![word, number, string].prop_recursive(4, 32, 5, |inner| {
            let values = proptest::collection::vec(inner.clone(), 0..4);
            let array = values.prop_map(|values| {
                let (one, other): (Vec<_>, Vec<_>) = values.into_iter().unzip();
                (format!("[{}]", one.join(",")), format!("[{}]", other.join(" , ")))
            });
            let members = proptest::collection::btree_map("[ab]{0,2}", inner, 0..4);
            let object = members.prop_map(|members| {
                let named = members.into_iter().map(|(name, (one, other))| {
                    (format!("\"{name}\":{one}"), format!(" \"{name}\" : {other}"))
                });
                let (one, mut other): (Vec<_>, Vec<_>) = named.unzip();
                other.reverse();
                (format!("{{{}}}", one.join(",")), format!("{{{}}}", other.join(",")))
            });
            prop_oneof![array, object]
        })
    }

    proptest! {
        #[test]
        fn the_spelling_counts_for_nothing_and_the_meaning_for_all(
            (one, respelled) in spellings(),
            (other, _) in spellings(),
        ) {
            let written = spelled(&one).unwrap();
            prop_assert_eq!(&written, &spelled(&respelled).unwrap());
            prop_assert_eq!(&written, &spelled(&written).unwrap(), "it is its own spelling");
            let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            prop_assert_eq!(read(&one) == read(&other), written == spelled(&other).unwrap());
        }
    }
}
