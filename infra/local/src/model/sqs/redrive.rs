//! Redrive policies: after how many receives a message moves to which dead-letter queue.

use serde::{Deserialize, Deserializer, Serialize};

use super::error::SqsError;

const MAX_RECEIVE_COUNT_MAX: u32 = 1000;

/// A queue's redrive policy. Its JSON is the queue's attribute `RedrivePolicy`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RedrivePolicy {
    pub(super) dead_letter_target_arn: String,
    /// After this many receives, the next one moves the message to the dead-letter queue.
    pub(super) max_receive_count: u32,
}

/// The policy as callers write it: the count may be a string, and members may be missing.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    dead_letter_target_arn: Option<String>,
    #[serde(default, deserialize_with = "number_or_text")]
    max_receive_count: Option<String>,
}

fn number_or_text<'de, D: Deserializer<'de>>(source: D) -> Result<Option<String>, D::Error> {
    let value = Option::<serde_json::Value>::deserialize(source)?;
    Ok(value.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
}

impl RedrivePolicy {
    /// Parses a policy. An empty text means no policy. The caller must check that the dead-letter queue exists.
    pub(super) fn parse(json: &str) -> Result<Option<Self>, SqsError> {
        if json.is_empty() {
            return Ok(None);
        }
        let missing = |name| {
            invalid(json, format!("Redrive policy does not contain mandatory attribute: {name}."))
        };
        let written: Written = serde_json::from_str(json)
            .map_err(|_| invalid(json, "Redrive policy is not a valid JSON map."))?;
        let dead_letter_target_arn =
            written.dead_letter_target_arn.ok_or_else(|| missing("deadLetterTargetArn"))?;
        let count = written.max_receive_count.ok_or_else(|| missing("maxReceiveCount"))?;
        let in_range = |count: &u32| (1..=MAX_RECEIVE_COUNT_MAX).contains(count);
        let max_receive_count = count.parse().ok().filter(in_range).ok_or_else(|| {
            let reason = format!(
                "Invalid value for maxReceiveCount: {count}, valid values are from 1 to {MAX_RECEIVE_COUNT_MAX} both inclusive."
            );
            invalid(json, reason)
        })?;
        Ok(Some(Self { dead_letter_target_arn, max_receive_count }))
    }

    pub(super) fn target_missing(&self) -> SqsError {
        invalid(&self.to_json(), "Dead letter target does not exist.")
    }

    pub(super) fn to_json(&self) -> String {
        // A struct of text and a number always serializes.
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn invalid(json: &str, reason: impl Into<String>) -> SqsError {
    SqsError::invalid("RedrivePolicy", json, reason)
}
