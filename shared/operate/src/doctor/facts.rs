//! What is known about a retry system. A fact that could not be found out is the fault of the call.

use std::{collections::BTreeMap, num::NonZeroU32, time::Duration};

use comeback_core::settings::{BadSettings, Settings};
use serde_json::Value;

use crate::{
    ports::Fault,
    systems::{Function, last},
};

/// Something that a call to AWS says, or why it doesn't.
pub type Fact<T> = Result<T, Fault>;

/// A retry system.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The retry handler.
    pub handler: Function,
    /// How it runs.
    pub running: Running,
    /// The handler's mappings of queues.
    pub mappings: Fact<Vec<Mapping>>,
    /// The retry queues: those that the handler receives from, and those that `QUEUE_TARGETS` names.
    pub queues: Vec<RetryQueue>,
    /// The dead-letter queue.
    pub dead_letters: Queue,
    /// Which of the actions that the handler needs on the dead-letter queue its role doesn't have.
    pub dead_letters_denied: Fact<Vec<String>>,
    /// The functions whose failures are retried, or are meant to be.
    pub targets: Vec<Target>,
    /// Whether the destinations of all other functions are known. Some of them may be meant to be retried.
    pub others: Fact<()>,
    /// The ledger, if the handler has one.
    pub ledger: Option<Ledger>,
    /// What CloudWatch has counted in [`Metric::PERIOD`], by metric and function or queue. What is not there is zero.
    pub metrics: Fact<BTreeMap<(Metric, String), f64>>,
}

impl Facts {
    /// The handler's settings, by the handler's own rules.
    ///
    /// # Errors
    ///
    /// If the handler would not start with them.
    pub fn settings(&self) -> Result<Settings, BadSettings> {
        Settings::from_lookup(|name| self.handler.environment.get(name).cloned())
    }

    /// What CloudWatch has counted.
    pub fn metric(&self, metric: Metric, of: &str) -> f64 {
        let metrics = self.metrics.as_ref().ok();
        metrics.and_then(|all| all.get(&(metric, of.to_owned()))).copied().unwrap_or(0.0)
    }
}

/// What takes calls of its own to find out about a function.
#[derive(Clone, Debug)]
pub struct Running {
    /// Whether it can run.
    pub state: Fact<State>,
    /// Whether Lambda lets it be part of a loop.
    pub may_loop: Fact<bool>,
    /// Its reserved concurrency.
    pub reserved: Fact<Option<u32>>,
}

/// What Lambda says about a function's state.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct State {
    /// `Active`, `Pending`, `Inactive` or `Failed`.
    pub state: String,
    /// Why, if it is not active.
    pub reason: Option<String>,
    /// Whether its last change failed, and why.
    pub failed_update: Option<String>,
}

/// A mapping of a queue to a function.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mapping {
    /// Its id.
    pub uuid: String,
    /// The ARN of the queue.
    pub queue: String,
    /// The ARN of the function, which may be qualified.
    pub function: String,
    /// `Enabled`, `Disabled`, or on the way to one of them.
    pub state: String,
    /// What Lambda says about its last batch.
    pub last_result: Option<String>,
    /// How many messages a batch has at most.
    pub batch_size: u32,
    /// How long Lambda collects messages for a batch.
    pub window: Duration,
    /// Whether the function reports failed messages one by one.
    pub reports_failures: bool,
    /// Whether it has filters.
    pub is_filtered: bool,
}

/// A queue.
#[derive(Clone, Debug)]
pub struct Queue {
    /// Its ARN.
    pub arn: String,
    /// Its URL.
    pub url: String,
    /// Its attributes; none if there is no such queue.
    pub attributes: Fact<Option<QueueAttributes>>,
}

impl Queue {
    /// Its name.
    pub fn name(&self) -> &str {
        last(&self.arn)
    }
}

/// The attributes of a queue.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct QueueAttributes {
    /// The visibility timeout of messages that are received.
    pub visibility: Duration,
    /// How long messages are kept.
    pub retention: Duration,
    /// How long each message is delayed.
    pub delay: Duration,
    /// How many messages are visible, roughly.
    pub visible: u64,
    /// How many messages are in flight, roughly.
    pub in_flight: u64,
    /// How many messages are delayed, roughly.
    pub delayed: u64,
    /// Where SQS moves messages that were received too often.
    pub redrive: Option<Redrive>,
    /// Its policy, as JSON.
    pub policy: Option<String>,
    /// The KMS key that encrypts it.
    pub key: Option<String>,
}

/// A redrive policy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Redrive {
    /// The ARN of the queue that messages are moved to.
    pub queue: String,
    /// After how many receives.
    pub receives_max: u64,
}

impl QueueAttributes {
    /// Reads what SQS answers.
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
            policy: text("Policy"),
            key: text("KmsMasterKeyId"),
        }
    }

    /// How many messages it has in all.
    pub fn messages(&self) -> u64 {
        self.visible + self.in_flight + self.delayed
    }
}

impl Redrive {
    /// The number of receives may be written as a text.
    fn read(policy: &Value) -> Option<Self> {
        let receives = policy.get("maxReceiveCount")?;
        let receives_max = receives.as_u64().or_else(|| receives.as_str()?.parse().ok())?;
        let queue = policy.get("deadLetterTargetArn")?.as_str()?.to_owned();
        Some(Self { queue, receives_max })
    }
}

/// A queue that failed events wait in.
#[derive(Clone, Debug)]
pub struct RetryQueue {
    /// The queue.
    pub queue: Queue,
    /// Which of the actions that the handler needs on it its role doesn't have.
    pub denied: Fact<Vec<String>>,
    /// The ARNs of other functions that receive from it.
    pub other_consumers: Vec<String>,
}

/// A function whose failures are retried, or are meant to be.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// The function, and how it runs; none if it doesn't exist.
    pub function: Option<(Function, Running)>,
    /// Whether a setting of the handler names it.
    pub is_named: bool,
    /// Its event invoke configs: one of its own, and one of each alias and version that has one.
    pub configs: Fact<Vec<InvokeConfig>>,
    /// Whether its role may send to the queue of each destination.
    pub may_send: BTreeMap<String, Fact<bool>>,
    /// Whether the handler's role may invoke it.
    pub may_be_invoked: Fact<bool>,
}

/// An event invoke config.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct InvokeConfig {
    /// The alias or version, if it is not the function itself.
    pub qualifier: Option<String>,
    /// How often Lambda retries.
    pub retries: Option<u32>,
    /// How old an event may become before Lambda gives it up.
    pub age_max: Option<Duration>,
    /// The ARN of the on-failure destination.
    pub on_failure: Option<String>,
    /// The ARN of the on-success destination.
    pub on_success: Option<String>,
}

/// The table of the ledger.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// Its name or ARN, as the setting has it.
    pub name: String,
    /// The table; none if it doesn't exist.
    pub table: Fact<Option<Table>>,
    /// The attribute by which items expire, if they do.
    pub expiry: Fact<Option<String>>,
    /// Which of the actions that the handler needs on it its role doesn't have.
    pub denied: Fact<Vec<String>>,
}

/// A table of DynamoDB.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Table {
    /// `ACTIVE`, or something else.
    pub status: String,
    /// The attributes of its key, and their types: `id S`.
    pub key: Vec<String>,
    /// The state and the key of the index of waiting events, if there is one.
    pub waiting: Option<(String, Vec<String>)>,
}

/// A metric of CloudWatch.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[allow(missing_docs, reason = "the names are CloudWatch's")]
pub enum Metric {
    DestinationDeliveryFailures,
    RecursiveInvocationsDropped,
    Throttles,
    Errors,
    OldestMessage,
    ConfigurationFaults,
    DeadLettersNotSent,
}

impl Metric {
    /// What a metric counts or shows is that of the last day.
    pub const PERIOD: Duration = Duration::from_hours(24);
    /// What a target has.
    pub const OF_TARGET: [Self; 5] = [
        Self::DestinationDeliveryFailures,
        Self::RecursiveInvocationsDropped,
        Self::Throttles,
        Self::ConfigurationFaults,
        Self::DeadLettersNotSent,
    ];
    /// What the handler has.
    pub const OF_HANDLER: [Self; 3] =
        [Self::RecursiveInvocationsDropped, Self::Throttles, Self::Errors];

    /// Its namespace, its name, and the dimension that names the function or the queue.
    pub fn place(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::DestinationDeliveryFailures => {
                ("AWS/Lambda", "DestinationDeliveryFailures", "FunctionName")
            }
            Self::RecursiveInvocationsDropped => {
                ("AWS/Lambda", "RecursiveInvocationsDropped", "FunctionName")
            }
            Self::Throttles => ("AWS/Lambda", "Throttles", "FunctionName"),
            Self::Errors => ("AWS/Lambda", "Errors", "FunctionName"),
            Self::OldestMessage => ("AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueName"),
            Self::ConfigurationFaults => ("Comeback", "ConfigurationFaults", "Target"),
            Self::DeadLettersNotSent => ("Comeback", "DeadLettersNotSent", "Target"),
        }
    }

    /// Its statistic.
    pub fn statistic(self) -> &'static str {
        if self == Self::OldestMessage { "Maximum" } else { "Sum" }
    }
}

/// How many messages of a queue may wait in flight. If the settings are bad, the default.
pub(super) fn in_flight_max(settings: Option<&Settings>) -> NonZeroU32 {
    settings.map_or(comeback_core::in_flight::IN_FLIGHT_MAX, |settings| settings.in_flight_max)
}

/// The ARN of a queue, from its name or its URL. It is in the region of this function, and in its account unless the
/// URL names another one.
pub fn queue_arn(name_or_url: &str, function_arn: &str) -> String {
    let mut path = name_or_url.rsplit('/');
    let name = path.next().unwrap_or_default();
    let own = function_arn.split(':').collect::<Vec<_>>();
    let part = |index: usize| own.get(index).copied().unwrap_or_default();
    let is_account = |it: &&str| it.len() == 12 && it.bytes().all(|byte| byte.is_ascii_digit());
    let account = path.next().filter(is_account).unwrap_or(part(4));
    format!("arn:{}:sqs:{}:{account}:{name}", part(1), part(3))
}
