//! A queue's attributes: their limits and defaults, and the redrive policy, by which a message that was received too
//! often moves to a dead-letter queue.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use super::{
    error::SqsError,
    message::{DELAY_SECONDS_MAX, MESSAGE_BYTES_MAX},
};

/// A queue's attributes by name, all as text, as in SQS's API.
pub type Attributes = BTreeMap<String, String>;

/// The longest visibility timeout, in seconds: twelve hours.
pub const VISIBILITY_SECONDS_MAX: u32 = 43_200;

pub const WAIT_SECONDS_MAX: u32 = 20;

/// The smallest limit that a queue may set for the size of its messages.
const MESSAGE_BYTES_MIN: u32 = 1024;

/// The bounds of the retention period, in seconds: a minute and fourteen days.
const RETENTION_SECONDS: (u32, u32) = (60, 1_209_600);

/// Attributes that are stored but have no effect here, because callers aren't distinguished and nothing is encrypted.
pub(crate) const STORED: [&str; 5] = [
    "KmsDataKeyReusePeriodSeconds",
    "KmsMasterKeyId",
    "Policy",
    "RedriveAllowPolicy",
    "SqsManagedSseEnabled",
];

#[derive(Clone, Debug)]
pub(crate) struct QueueAttributes {
    pub(super) delay: u32,
    pub(super) message_bytes_max: u32,
    pub(super) retention: u32,
    pub(crate) wait: u32,
    pub(crate) visibility: u32,
    pub(super) redrive: Option<RedrivePolicy>,
    stored: BTreeMap<&'static str, String>,
}

impl Default for QueueAttributes {
    fn default() -> Self {
        Self {
            delay: 0,
            message_bytes_max: MESSAGE_BYTES_MAX,
            retention: 345_600,
            wait: 0,
            visibility: 30,
            redrive: None,
            stored: [("SqsManagedSseEnabled", "true".to_owned())].into(),
        }
    }
}

impl QueueAttributes {
    pub(super) fn with(&self, changes: &Attributes) -> Result<Self, SqsError> {
        let mut changed = self.clone();
        let given = |name| changes.get(name).map(String::as_str);
        if given("KmsMasterKeyId").is_some_and(|key| !key.is_empty())
            && given("SqsManagedSseEnabled") == Some("true")
        {
            return Err(SqsError::TwoEncryptions);
        }
        changes.iter().try_for_each(|(name, value)| changed.set(name, value))?;
        Ok(changed)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), SqsError> {
        match name {
            "DelaySeconds" => self.delay = number(name, value, (0, DELAY_SECONDS_MAX))?,
            "MaximumMessageSize" => {
                self.message_bytes_max =
                    number(name, value, (MESSAGE_BYTES_MIN, MESSAGE_BYTES_MAX))?;
            }
            "MessageRetentionPeriod" => self.retention = number(name, value, RETENTION_SECONDS)?,
            "ReceiveMessageWaitTimeSeconds" => {
                self.wait = number(name, value, (0, WAIT_SECONDS_MAX))?;
            }
            "VisibilityTimeout" => {
                self.visibility = number(name, value, (0, VISIBILITY_SECONDS_MAX))?;
            }
            "RedrivePolicy" => self.redrive = RedrivePolicy::parse(value)?,
            "KmsMasterKeyId" if !value.is_empty() => {
                self.store(name, value)?;
                self.store("SqsManagedSseEnabled", "false")?;
            }
            _ => self.store(name, value)?,
        }
        Ok(())
    }

    fn store(&mut self, name: &str, value: &str) -> Result<(), SqsError> {
        let name = STORED
            .into_iter()
            .find(|stored| *stored == name)
            .ok_or_else(|| SqsError::InvalidAttributeName { name: name.to_owned() })?;
        if value.is_empty() {
            self.stored.remove(name);
        } else {
            self.stored.insert(name, value.to_owned());
        }
        Ok(())
    }

    pub(super) fn to_map(&self) -> Attributes {
        let mut attributes: Attributes = [
            ("DelaySeconds", self.delay),
            ("MaximumMessageSize", self.message_bytes_max),
            ("MessageRetentionPeriod", self.retention),
            ("ReceiveMessageWaitTimeSeconds", self.wait),
            ("VisibilityTimeout", self.visibility),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_string()))
        .collect();
        attributes
            .extend(self.stored.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        if !self.stored.contains_key("KmsMasterKeyId") {
            attributes.remove("KmsDataKeyReusePeriodSeconds");
        }
        if let Some(policy) = &self.redrive {
            attributes.insert("RedrivePolicy".to_owned(), policy.to_json());
        }
        attributes
    }
}

pub(crate) fn bad_visibility(seconds: impl ToString) -> SqsError {
    let reason = format!("Must be between 0 and {VISIBILITY_SECONDS_MAX}, if provided.");
    SqsError::invalid("VisibilityTimeout", seconds, reason)
}

fn number(name: &str, value: &str, (least, most): (u32, u32)) -> Result<u32, SqsError> {
    value
        .parse()
        .ok()
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| SqsError::InvalidAttributeValue { name: name.to_owned() })
}

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
            bad_policy(
                json,
                format!("Redrive policy does not contain mandatory attribute: {name}."),
            )
        };
        let written: Written = serde_json::from_str(json)
            .map_err(|_| bad_policy(json, "Redrive policy is not a valid JSON map."))?;
        let dead_letter_target_arn =
            written.dead_letter_target_arn.ok_or_else(|| missing("deadLetterTargetArn"))?;
        let count = written.max_receive_count.ok_or_else(|| missing("maxReceiveCount"))?;
        let in_range = |count: &u32| (1..=MAX_RECEIVE_COUNT_MAX).contains(count);
        let max_receive_count = count.parse().ok().filter(in_range).ok_or_else(|| {
            let reason = format!(
                "Invalid value for maxReceiveCount: {count}, valid values are from 1 to {MAX_RECEIVE_COUNT_MAX} both inclusive."
            );
            bad_policy(json, reason)
        })?;
        Ok(Some(Self { dead_letter_target_arn, max_receive_count }))
    }

    pub(super) fn target_missing(&self) -> SqsError {
        bad_policy(&self.to_json(), "Dead letter target does not exist.")
    }

    pub(super) fn to_json(&self) -> String {
        // A struct of text and a number always serializes.
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn bad_policy(json: &str, reason: impl Into<String>) -> SqsError {
    SqsError::invalid("RedrivePolicy", json, reason)
}
