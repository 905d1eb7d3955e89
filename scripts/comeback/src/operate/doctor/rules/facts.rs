//! The facts about a retry system. A fact that could not be read is the fault of the call.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use comeback_core::{emf::NAMESPACE, metric};
use serde_json::{Value, json};

use crate::operate::rules::{
    Answer, Function, last,
    policies::{Effect, ask},
};

#[derive(Clone, Debug)]
pub struct Facts {
    pub handler: Function,
    pub running: Running,
    /// The names of all functions of the account and region.
    pub functions: BTreeSet<String>,
    /// The mappings of the handler.
    pub mappings: Answer<Vec<Mapping>>,
    /// The queues that the handler receives from, and those that `QUEUE_TARGETS` names.
    pub queues: Vec<RetryQueue>,
    /// The retry queues of other handlers: the name of the handler by the ARN of the queue.
    pub queues_of_others: BTreeMap<String, String>,
    pub dead_letters: Queue,
    /// The actions on the dead-letter queue that the handler needs, but its role lacks.
    pub dead_letters_denied: Answer<Vec<String>>,
    pub targets: Vec<Target>,
    pub sources: Vec<Source>,
    pub keys: Keys,
    /// Whether the destinations of all other functions could be read. If not, `targets` may be incomplete.
    pub others: Answer<()>,
    pub ledger: Option<Ledger>,
    /// CloudWatch's values for [`Metric::PERIOD`], by metric and function or queue. Missing values are zero.
    pub metrics: Answer<BTreeMap<(Metric, String), f64>>,
}

impl Facts {
    /// A command of this program, which names the handler if there are several.
    pub fn command(&self, command: &str) -> String {
        let handler = (!self.queues_of_others.is_empty()).then(|| self.handler.name());
        let handler = handler.map(|name| format!(" --handler {name}")).unwrap_or_default();
        format!("comeback {command}{handler}")
    }

    /// Whether an ARN is that of a queue that the handler receives from, or should.
    pub fn has_queue(&self, arn: Option<&str>) -> bool {
        arn.is_some_and(|arn| self.queues.iter().any(|it| it.queue.arn == arn))
    }

    /// Whether CloudWatch has values of a metric for a function or queue, which may be zero.
    pub fn has_metric(&self, metric: Metric, of: &str) -> bool {
        self.metrics.as_ref().is_ok_and(|all| all.contains_key(&(metric, of.to_owned())))
    }

    /// The sum of a metric, if it is not zero.
    pub fn counted(&self, metric: Metric, of: &str) -> Option<u64> {
        Some(self.metric(metric, of) as u64).filter(|value| *value > 0)
    }

    pub fn metric(&self, metric: Metric, of: &str) -> f64 {
        let metrics = self.metrics.as_ref().ok();
        metrics.and_then(|all| all.get(&(metric, of.to_owned()))).copied().unwrap_or(0.0)
    }
}

/// The facts about a function that take separate calls.
#[derive(Clone, Debug)]
pub struct Running {
    pub state: Answer<State>,
    pub may_loop: Answer<bool>,
    pub reserved: Answer<Option<u32>>,
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct State {
    /// `Active`, `Pending`, `Inactive` or `Failed`.
    pub state: String,
    pub reason: Option<String>,
    pub failed_update: Option<String>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mapping {
    pub uuid: String,
    pub queue: String,
    /// The ARN of the function, which may be qualified.
    pub function: String,
    /// `Enabled`, `Disabled`, or on the way to one of them.
    pub state: String,
    pub last_result: Option<String>,
    pub batch_size: u32,
    /// The batching window: how long Lambda collects messages for a batch.
    pub window: Duration,
    pub reports_failures: bool,
    pub is_filtered: bool,
}

impl Mapping {
    pub fn is_enabled(&self) -> bool {
        !matches!(self.state.as_str(), "Disabled" | "Disabling" | "Deleting")
    }

    /// The name of the function that receives from the queue.
    pub fn consumer(&self) -> &str {
        self.function.split(':').nth(6).unwrap_or(&self.function)
    }
}

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
        let key = self.key.as_deref().filter(|key| !key.starts_with("alias/"))?;
        let home = function_arn.split(":function:").next().unwrap_or_default();
        let home = home.replacen(":lambda:", ":kms:", 1);
        let arn = || format!("{home}:key/{key}");
        Some(if key.starts_with("arn:") { key.to_owned() } else { arn() })
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

#[derive(Clone, Debug)]
pub struct RetryQueue {
    pub queue: Queue,
    /// The actions on the queue that the handler needs, but its role lacks.
    pub denied: Answer<Vec<String>>,
    pub other_consumers: Vec<String>,
    /// The names of the queues whose redrive policy names this queue.
    pub moved_from: Answer<Vec<String>>,
}

/// A function whose failures are retried, or should be.
#[derive(Clone, Debug)]
pub struct Target {
    pub name: String,
    /// The function, and its state and limits; `None` if it doesn't exist.
    pub function: Option<(Function, Running)>,
    pub known_by: KnownBy,
    pub configs: Answer<Vec<InvokeConfig>>,
    /// Whether its role may send to a destination, by the ARN of the queue.
    pub may_send: BTreeMap<String, Answer<bool>>,
    pub may_be_invoked: Answer<bool>,
    /// Comeback's layer, if the function has that.
    pub layer: Option<Answer<Layer>>,
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Layer {
    /// The architectures that it says it is for; none if it doesn't say.
    pub architectures: Vec<String>,
    /// The ARN of the version of the signing profile that has signed it.
    pub signer: Option<String>,
}

impl Layer {
    /// The architectures of this layer if a function can't run it. Lambda itself doesn't compare them.
    pub fn unfit(&self, function: &Function) -> Option<String> {
        let fits =
            self.architectures.is_empty() || self.architectures.contains(&function.architecture);
        (!fits).then(|| self.architectures.join(" and "))
    }
}

/// Keys of queues, each with a role that uses it, and the actions that the role needs, but IAM doesn't allow it.
pub type Keys = Vec<(String, String, Answer<Vec<String>>)>;

/// A queue whose messages are retried if its consumer fails.
#[derive(Clone, Debug)]
pub struct Source {
    pub queue: Queue,
    /// The ARNs of the retry queues that are bound to it; none if only `TARGET_FUNCTIONS` names it.
    pub bound: BTreeSet<String>,
    pub consumers: Vec<Consumer>,
    /// The actions, on the queue and on its key, that the handler needs, but its role lacks; each with its resource.
    pub denied: Answer<Vec<(String, String)>>,
}

/// A function that receives from a queue.
#[derive(Clone, Debug)]
pub struct Consumer {
    pub mapping: Mapping,
    /// The function, and its state and limits; `None` if it doesn't exist.
    pub function: Option<(Function, Running)>,
}

/// What shows that the failures of a function should be retried.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum KnownBy {
    Setting,
    /// It sends its failures to a retry queue, or the command names it.
    Destination,
    /// It has the tag of `comeback attach`.
    Tag,
    /// The handler has counted failures of it in [`EARLIER`].
    Metrics,
    /// The command names it, and it receives from a queue that no setting names.
    Consumes,
}

/// How far back a function is known by its metrics.
pub const EARLIER: Duration = Duration::from_hours(7 * 24);

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct InvokeConfig {
    /// The alias or version that it applies to; `None` is the function itself.
    pub qualifier: Option<String>,
    pub retries: Option<u32>,
    /// The age at which Lambda drops an event.
    pub age_max: Option<Duration>,
    pub on_failure: Option<String>,
    pub on_success: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Ledger {
    /// The name or ARN of the table, from the setting.
    pub name: String,
    pub table: Answer<Option<Table>>,
    pub expiry: Answer<Option<String>>,
    /// The actions on the table that the handler needs, but its role lacks.
    pub denied: Answer<Vec<String>>,
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Table {
    pub status: String,
    /// The attributes of the key with their types: `id S`.
    pub key: Vec<String>,
    /// The status and the key of the index `waiting`, if it exists.
    pub waiting: Option<(String, Vec<String>)>,
}

/// A metric of Lambda or of the handler, both of a function, or of SQS, of a queue.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Metric {
    Lambda(&'static str),
    Handler(metric::Metric),
    Sqs(&'static str),
}

impl Metric {
    /// The period that values cover: the last day.
    pub const PERIOD: Duration = Duration::from_hours(24);
    pub const DELIVERY_FAILURES: Self = Self::Lambda("DestinationDeliveryFailures");
    pub const LOOPS_STOPPED: Self = Self::Lambda("RecursiveInvocationsDropped");
    pub const THROTTLES: Self = Self::Lambda("Throttles");
    pub const ERRORS: Self = Self::Lambda("Errors");
    pub const ASYNC_EVENTS: Self = Self::Lambda("AsyncEventsReceived");
    pub const CONFIGURATION_FAULTS: Self = Self::Handler(metric::Metric::ConfigurationFaults);
    pub const LETTERS_NOT_SENT: Self = Self::Handler(metric::Metric::DeadLettersNotSent);
    pub const INVOKED: Self = Self::Handler(metric::Metric::Invoked);
    /// Each failure that the handler reads has an age, whatever becomes of it.
    pub const EVENT_AGES: Self = Self::Handler(metric::Metric::EventAge);
    pub const OF_TARGET: [Self; 9] = [
        Self::ERRORS,
        Self::ASYNC_EVENTS,
        Self::EVENT_AGES,
        Self::INVOKED,
        Self::DELIVERY_FAILURES,
        Self::LOOPS_STOPPED,
        Self::THROTTLES,
        Self::CONFIGURATION_FAULTS,
        Self::LETTERS_NOT_SENT,
    ];
    pub const OLDEST_MESSAGE: Self = Self::Sqs("ApproximateAgeOfOldestMessage");
    pub const OF_SOURCE: [Self; 2] =
        [Self::Sqs("NumberOfMessagesReceived"), Self::Sqs("NumberOfEmptyReceives")];
    pub const OF_HANDLER: [Self; 3] = [Self::LOOPS_STOPPED, Self::THROTTLES, Self::ERRORS];

    /// The namespace, the name, and the dimension whose value is the function or the queue.
    pub fn place(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Lambda(name) => ("AWS/Lambda", name, "FunctionName"),
            Self::Handler(it) => (NAMESPACE, it.name(), "Target"),
            Self::Sqs(name) => ("AWS/SQS", name, "QueueName"),
        }
    }

    pub fn statistic(self) -> &'static str {
        if self == Self::OLDEST_MESSAGE { "Maximum" } else { "Sum" }
    }
}
