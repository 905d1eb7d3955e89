//! A queue, as SQS describes it.

use std::{collections::BTreeMap, time::Duration};

use comeback_core::Timestamp;
use serde_json::{Value, json};

use crate::account::{
    fault::Answer,
    names::{key_arn, last},
    policy::{Effect, ask},
};

#[derive(Clone, Debug)]
pub struct Queue {
    pub arn: String,
    pub url: String,
    /// Its attributes; `None` if the queue doesn't exist.
    pub attributes: Answer<Option<QueueAttributes>>,
}

impl Queue {
    pub fn name(&self) -> &str {
        last(&self.arn)
    }
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct QueueAttributes {
    pub visibility: Duration,
    pub retention: Duration,
    pub delay: Duration,
    pub visible: u64,
    pub in_flight: u64,
    pub delayed: u64,
    pub redrive: Option<Redrive>,
    /// Which queues may have messages moved here, as JSON.
    pub redrive_allow: Option<String>,
    pub policy: Option<String>,
    pub key: Option<String>,
    pub size_max: Option<u64>,
    pub created_at: Option<Timestamp>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Redrive {
    pub queue: String,
    pub receives_max: u64,
}

impl QueueAttributes {
    pub fn read(attributes: &BTreeMap<String, String>) -> Self {
        let text = |name: &str| attributes.get(name).filter(|text| !text.is_empty()).cloned();
        let number = |name: &str| text(name).and_then(|text| text.parse().ok()).unwrap_or(0);
        let seconds = |name: &str| Duration::from_secs(number(name));
        let redrive = text("RedrivePolicy").and_then(|text| serde_json::from_str(&text).ok());
        Self {
            visibility: seconds("VisibilityTimeout"),
            retention: seconds("MessageRetentionPeriod"),
            delay: seconds("DelaySeconds"),
            visible: number("ApproximateNumberOfMessages"),
            in_flight: number("ApproximateNumberOfMessagesNotVisible"),
            delayed: number("ApproximateNumberOfMessagesDelayed"),
            redrive: redrive.as_ref().and_then(Redrive::read),
            redrive_allow: text("RedriveAllowPolicy"),
            policy: text("Policy"),
            key: text("KmsMasterKeyId"),
            size_max: text("MaximumMessageSize").and_then(|text| text.parse().ok()),
            created_at: text("CreatedTimestamp")
                .and_then(|text| Timestamp::from_timestamp(text.parse().ok()?, 0)),
        }
    }

    /// The redrive-allow policy that only lets SQS move messages of these queues.
    pub fn allowing(sources: &[String]) -> String {
        json!({ "redrivePermission": "byQueue", "sourceQueueArns": sources }).to_string()
    }

    /// The ARNs of the queues that may have messages moved here; `None` if any may.
    pub fn sources(&self) -> Option<Vec<String>> {
        let allow: Value = serde_json::from_str(self.redrive_allow.as_deref()?).ok()?;
        if allow["redrivePermission"] == "allowAll" {
            return None;
        }
        let sources = allow["sourceQueueArns"].as_array().into_iter().flatten();
        Some(sources.filter_map(|it| it.as_str().map(str::to_owned)).collect())
    }

    /// The ARN of its key, in the function's region and account, unless that is an alias.
    pub fn key_arn(&self, function_arn: &str) -> Option<String> {
        key_arn(self.key.as_deref()?, function_arn)
    }

    /// What its policy says about this action of a role.
    pub fn effect(&self, role: &str, action: &str) -> Effect {
        ask(self.policy.as_deref().unwrap_or_default(), role, action)
    }

    pub fn messages(&self) -> u64 {
        self.visible + self.in_flight + self.delayed
    }
}

impl Redrive {
    pub fn policy(&self) -> String {
        json!({ "deadLetterTargetArn": self.queue, "maxReceiveCount": self.receives_max })
            .to_string()
    }

    /// Parses a redrive policy, in which the number of receives may be a string.
    fn read(policy: &Value) -> Option<Self> {
        let receives = policy.get("maxReceiveCount")?;
        let receives_max = receives.as_u64().or_else(|| receives.as_str()?.parse().ok())?;
        let queue = policy.get("deadLetterTargetArn")?.as_str()?.to_owned();
        Some(Self { queue, receives_max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redrive_policy_may_have_its_number_as_a_text_and_an_empty_policy_is_none() {
        let redrive = r#"{"deadLetterTargetArn":"arn:aws:sqs:x:1:dead","maxReceiveCount":"5"}"#;
        let answer = [("RedrivePolicy", redrive), ("Policy", "")];
        let answer = answer.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let read = QueueAttributes::read(&answer.into());
        let redrive = Redrive { queue: "arn:aws:sqs:x:1:dead".into(), receives_max: 5 };
        assert_eq!((read.redrive, read.policy), (Some(redrive), None));
    }
}
