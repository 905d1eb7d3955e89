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

/// The longest long poll, in seconds.
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

/// The attributes that callers can set.
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
    /// These attributes with `changes` made to them.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(name: &str, value: &str) -> Result<Attributes, SqsError> {
        let changes = [(name.to_owned(), value.to_owned())].into();
        QueueAttributes::default().with(&changes).map(|attributes| attributes.to_map())
    }

    #[test]
    fn every_attribute_has_awss_default() {
        let attributes = QueueAttributes::default().to_map();
        for (name, value) in [
            ("DelaySeconds", "0"),
            ("MaximumMessageSize", "1048576"),
            ("MessageRetentionPeriod", "345600"),
            ("ReceiveMessageWaitTimeSeconds", "0"),
            ("SqsManagedSseEnabled", "true"),
            ("VisibilityTimeout", "30"),
        ] {
            assert_eq!(attributes.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert_eq!(attributes.len(), 6);
    }

    #[test]
    fn numbers_outside_awss_bounds_are_refused() {
        for (name, least, most) in [
            ("DelaySeconds", 0, 900),
            ("MaximumMessageSize", 1024, 1_048_576),
            ("MessageRetentionPeriod", 60, 1_209_600),
            ("ReceiveMessageWaitTimeSeconds", 0, 20),
            ("VisibilityTimeout", 0, 43_200),
        ] {
            for value in [least, most] {
                let attributes = changed(name, &value.to_string()).unwrap();
                assert_eq!(attributes.get(name), Some(&value.to_string()), "{name}");
            }
            let refusal = SqsError::InvalidAttributeValue { name: name.to_owned() };
            for value in [(least - 1).to_string(), (most + 1).to_string(), "x".into(), "".into()] {
                assert_eq!(changed(name, &value).unwrap_err(), refusal, "{name} {value}");
            }
        }
    }

    #[test]
    fn attributes_without_effect_are_stored_and_an_empty_value_removes_them() {
        let attributes = changed("Policy", "{}").unwrap();
        assert_eq!(attributes.get("Policy").map(String::as_str), Some("{}"));
        assert_eq!(changed("Policy", "").unwrap().get("Policy"), None);
        assert_eq!(changed("SqsManagedSseEnabled", "").unwrap().len(), 5);
    }

    #[test]
    fn a_name_that_cannot_be_set_is_unknown() {
        for name in ["All", "CreatedTimestamp", "QueueArn", "FifoQueue", "x"] {
            let refusal = SqsError::InvalidAttributeName { name: name.to_owned() };
            assert_eq!(changed(name, "1").unwrap_err(), refusal);
        }
    }

    #[test]
    fn a_kms_key_replaces_sqss_own_and_both_together_are_refused() {
        let set = |attributes: &QueueAttributes, given: &[(&str, &str)]| {
            let given = given.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            attributes.with(&given.collect())
        };
        let key = ("KmsMasterKeyId", "key");
        let with_key =
            set(&QueueAttributes::default(), &[key, ("KmsDataKeyReusePeriodSeconds", "600")])
                .unwrap();
        let attributes = with_key.to_map();
        assert_eq!(attributes.get("SqsManagedSseEnabled").map(String::as_str), Some("false"));
        assert_eq!(attributes.get("KmsDataKeyReusePeriodSeconds").map(String::as_str), Some("600"));
        let attributes =
            set(&with_key, &[("KmsMasterKeyId", ""), ("KmsDataKeyReusePeriodSeconds", "300")]);
        let attributes = attributes.unwrap().to_map();
        assert_eq!(attributes.get("SqsManagedSseEnabled").map(String::as_str), Some("false"));
        assert!(!attributes.keys().any(|name| name.starts_with("Kms")), "{attributes:?}");
        let both = set(&with_key, &[key, ("SqsManagedSseEnabled", "true")]);
        assert_eq!(both.unwrap_err(), SqsError::TwoEncryptions);
    }
}
