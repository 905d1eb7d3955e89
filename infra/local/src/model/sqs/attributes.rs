//! A queue's attributes: their limits and defaults.

use std::collections::BTreeMap;

use super::{
    error::SqsError,
    message::{DELAY_SECONDS_MAX, MESSAGE_BYTES_MAX},
    redrive::RedrivePolicy,
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
