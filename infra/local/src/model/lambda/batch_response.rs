//! Partial batch responses: which messages of a batch succeeded.
//!
//! Without `ReportBatchItemFailures`, a successful run means that all messages succeeded. With it, the response
//! may list the messages that failed. An invalid response fails the whole batch, so that no message is lost.

use serde_json::Value;

/// The ids of the messages that failed, according to the response for a batch. `None` if the response is invalid, so
/// that all messages failed. `has` tells whether a message id belongs to the batch.
pub(crate) fn failed(response: &[u8], has: impl Fn(&str) -> bool) -> Option<Vec<String>> {
    // Runtimes encode "no return value" in different ways. An empty body counts as `null`, and on AWS an empty
    // list does too.
    if response.is_empty() {
        return Some(Vec::new());
    }
    let failures = match serde_json::from_slice(response).ok()? {
        Value::Null => return Some(Vec::new()),
        Value::String(text) if text.is_empty() => return Some(Vec::new()),
        Value::Array(items) if items.is_empty() => return Some(Vec::new()),
        Value::Object(mut members) => members.remove("batchItemFailures").unwrap_or_default(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => return None,
    };
    if failures.is_null() {
        return Some(Vec::new());
    }
    let ids: Option<Vec<String>> = failures.as_array()?.iter().map(identifier).collect();
    ids.filter(|ids| ids.iter().all(|id| has(id)))
}

/// The message id in an item of the response, or `None` if the item is malformed.
fn identifier(item: &Value) -> Option<String> {
    item.get("itemIdentifier")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    fn failed(response: &str) -> Option<Vec<String>> {
        super::failed(response.as_bytes(), |id| ["a", "b"].contains(&id))
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
            assert_eq!(failed(response), None, "{response}");
        }
    }
}
