//! Partial batch responses: which messages of a batch succeeded.
//!
//! Without `ReportBatchItemFailures`, a successful run means that all messages succeeded. With it, the response
//! may list the messages that failed. An invalid response fails the whole batch, so that no message is lost.

use serde_json::Value;

/// The messages of a batch that succeeded and are deleted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// All messages.
    All,
    /// All messages except those with these ids.
    AllBut(Vec<String>),
    /// No message, because the response is invalid.
    None,
}

/// Parses the response for a batch. `has` tells whether a message id belongs to the batch.
pub(crate) fn read(response: &[u8], has: impl Fn(&str) -> bool) -> Done {
    // Runtimes encode "no return value" in different ways. An empty body counts as `null`, and on AWS an empty
    // list does too.
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

/// The message id in an item of the response, or `None` if the item is malformed.
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
    fn a_response_without_failures_means_that_all_messages_succeeded() {
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
    fn messages_that_the_response_names_are_not_deleted() {
        let one = r#"{"batchItemFailures":[{"itemIdentifier":"b"}]}"#;
        assert_eq!(read(one), Done::AllBut(vec!["b".to_owned()]));
        let both = r#"{"batchItemFailures":[{"itemIdentifier":"b"},{"itemIdentifier":"a"}]}"#;
        assert_eq!(read(both), Done::AllBut(vec!["b".to_owned(), "a".to_owned()]));
    }

    #[test]
    fn an_invalid_response_fails_the_whole_batch() {
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
