//! A queue's attributes: their limits and defaults, and the redrive policy, by which a message that was received too
//! often moves to a dead-letter queue.

use std::{collections::BTreeMap, ops::RangeInclusive};

use serde::Serialize;
use serde_json::Value;

use super::{
    error::SqsError,
    message::{DELAY_SECONDS_MAX, MESSAGE_BYTES_MAX},
};

/// A queue's attributes by name, all as text, as in SQS's API.
pub type Attributes = BTreeMap<String, String>;

/// The longest visibility timeout, in seconds: twelve hours.
pub const VISIBILITY_SECONDS_MAX: u32 = 43_200;

pub const WAIT_SECONDS_MAX: u32 = 20;

/// How a numeric attribute is stored.
type Number = fn(&mut QueueAttributes) -> &mut u32;

/// The numeric attributes with AWS's bounds. Times are in seconds, sizes in bytes.
const NUMBERS: [(&str, Number, RangeInclusive<u32>); 5] = [
    ("DelaySeconds", |it| &mut it.delay, 0..=DELAY_SECONDS_MAX),
    ("MaximumMessageSize", |it| &mut it.message_bytes_max, 1024..=MESSAGE_BYTES_MAX),
    ("MessageRetentionPeriod", |it| &mut it.retention, 60..=1_209_600),
    ("ReceiveMessageWaitTimeSeconds", |it| &mut it.wait, 0..=WAIT_SECONDS_MAX),
    ("VisibilityTimeout", |it| &mut it.visibility, 0..=VISIBILITY_SECONDS_MAX),
];

/// Attributes that are stored but have no effect here, because callers aren't distinguished and nothing is encrypted.
pub const STORED: [&str; 5] = [
    "KmsDataKeyReusePeriodSeconds",
    "KmsMasterKeyId",
    "Policy",
    "RedriveAllowPolicy",
    "SqsManagedSseEnabled",
];

#[derive(Clone, Debug)]
pub struct QueueAttributes {
    pub(super) delay: u32,
    pub(super) message_bytes_max: u32,
    pub(super) retention: u32,
    pub wait: u32,
    pub visibility: u32,
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
        if let Some((_, field, bounds)) = NUMBERS.iter().find(|(number, ..)| *number == name) {
            let number = value.parse().ok().filter(|number| bounds.contains(number));
            let invalid = || SqsError::InvalidAttributeValue { name: name.to_owned() };
            *field(self) = number.ok_or_else(invalid)?;
            return Ok(());
        }
        match name {
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
        let mut own = self.clone();
        let mut attributes: Attributes = NUMBERS
            .iter()
            .map(|(name, field, _)| ((*name).to_owned(), field(&mut own).to_string()))
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

pub fn bad_visibility(seconds: impl ToString) -> SqsError {
    let reason = format!("Must be between 0 and {VISIBILITY_SECONDS_MAX}, if provided.");
    SqsError::invalid("VisibilityTimeout", seconds, reason)
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

impl RedrivePolicy {
    /// Parses a policy. An empty text means no policy. The caller must check that the dead-letter queue exists.
    pub(super) fn parse(json: &str) -> Result<Option<Self>, SqsError> {
        if json.is_empty() {
            return Ok(None);
        }
        let Ok(Value::Object(policy)) = serde_json::from_str(json) else {
            return Err(bad_policy(json, "Redrive policy is not a valid JSON map."));
        };
        // Callers write the count as a number or as a string.
        let text = |name| match policy.get(name) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(value) if !value.is_null() => Ok(value.to_string()),
            Some(_) | None => {
                let reason =
                    format!("Redrive policy does not contain mandatory attribute: {name}.");
                Err(bad_policy(json, reason))
            }
        };
        let dead_letter_target_arn = text("deadLetterTargetArn")?;
        let count = text("maxReceiveCount")?;
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
