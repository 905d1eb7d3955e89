//! What a function answered of a batch: which messages are done.
//!
//! Without `ReportBatchItemFailures` a success means them all. With it, the response may name those that failed;
//! and a response that can't be trusted to name them rightly fails the whole batch, so that no message is lost.

use serde_json::Value;

/// Which messages of a batch are done, and so are deleted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// All of them.
    All,
    /// All but those with these ids.
    AllBut(Vec<String>),
    /// None: the response is not to be trusted.
    None,
}

/// Reads the response to a batch with the message ids that `has` knows.
pub(crate) fn read(response: &[u8], has: impl Fn(&str) -> bool) -> Done {
    // Runtimes differ in what they answer for "nothing": an empty body is as good as `null`, and on AWS so is an
    // empty list.
    if response.is_empty() {
        return Done::All;
    }
    let failures = match serde_json::from_slice(response) {
        Ok(Value::Null) => return Done::All,
        Ok(Value::String(text)) if text.is_empty() => return Done::All,
        Ok(Value::Array(items)) if items.is_empty() => return Done::All,
        Ok(Value::Object(mut members)) => members.remove("batchItemFailures"),
        Ok(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) | Err(_) => {
            return Done::None;
        }
    };
    let Some(failures) = failures.filter(|failures| !failures.is_null()) else {
        return Done::All;
    };
    let items = failures.as_array().map(|items| items.iter().map(identifier));
    match items.and_then(Iterator::collect::<Option<Vec<String>>>) {
        Some(ids) if ids.is_empty() => Done::All,
        Some(ids) if ids.iter().all(|id| has(id)) => Done::AllBut(ids),
        Some(_) | None => Done::None,
    }
}

/// The message that an item of the report names, if it is an object that names one.
fn identifier(item: &Value) -> Option<String> {
    item.get("itemIdentifier")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(response: &str) -> Done {
        super::read(response.as_bytes(), |id| ["a", "b"].contains(&id))
    }

    #[test]
    fn no_failures_mean_that_all_are_done() {
        for response in [
            "",
            "null",
            "\"\"",
            "[]",
            "{}",
            r#"{"other":1}"#,
            r#"{"batchItemFailures":null}"#,
            r#"{"batchItemFailures":[]}"#,
        ] {
            assert_eq!(read(response), Done::All, "{response}");
        }
    }

    #[test]
    fn named_failures_are_kept() {
        let one = r#"{"batchItemFailures":[{"itemIdentifier":"b"}]}"#;
        assert_eq!(read(one), Done::AllBut(vec!["b".to_owned()]));
        let both = r#"{"batchItemFailures":[{"itemIdentifier":"b"},{"itemIdentifier":"a"}]}"#;
        assert_eq!(read(both), Done::AllBut(vec!["b".to_owned(), "a".to_owned()]));
    }

    #[test]
    fn a_response_that_is_not_to_be_trusted_fails_the_whole_batch() {
        for response in [
            "{",
            "true",
            "7",
            "\"done\"",
            "[1]",
            r#"{"batchItemFailures":"a"}"#,
            r#"{"batchItemFailures":{}}"#,
            r#"{"batchItemFailures":["a"]}"#,
            r#"{"batchItemFailures":[["a"]]}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":"c"}]}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":"a"},{"itemIdentifier":"c"}]}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":""}]}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":null}]}"#,
            r#"{"batchItemFailures":[{"ItemIdentifier":"a"}]}"#,
            r#"{"batchItemFailures":[{}]}"#,
            r#"{"batchItemFailures":[null]}"#,
        ] {
            assert_eq!(read(response), Done::None, "{response}");
        }
    }
}
