//! The facts about a retry system. A fact that could not be read is the fault of the call.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use comeback_core::Timestamp;
use serde_json::Value;

use crate::{
    account::{
        bucket::Bucket,
        fault::Answer,
        function::{Function, InvokeConfig, Running},
        mapping::Mapping,
        queue::Queue,
        sender::Sender,
        setup::RETENTION,
        stream::Stream,
    },
    operate::doctor::rules::metric::Metric,
};

#[derive(Clone, Debug)]
pub struct Facts {
    pub now: Timestamp,
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
    /// The streams that the targets process.
    pub streams: Vec<Stream>,
    /// The rules and schedules that deliver to the targets and the sources.
    pub deliveries: Answer<Vec<Delivery>>,
    /// The buckets with failure records: those of `RECORD_BUCKETS`, and those that tell a queue of this system.
    pub buckets: Vec<RecordBucket>,
    pub keys: Keys,
    /// Whether the destinations of all other functions could be read. If not, `targets` may be incomplete.
    pub others: Answer<()>,
    pub ledger: Option<Ledger>,
    /// The names of the policies of errors that have decided lately. Nobody asks for them where there is only one.
    pub errors_decided: Answer<BTreeSet<String>>,
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

    /// The bucket with this ARN, if the handler reads its records, or should.
    pub fn bucket(&self, arn: Option<&str>) -> Option<&RecordBucket> {
        self.buckets.iter().find(|it| Some(it.arn.as_str()) == arn)
    }

    /// The longest `MAX_AGE` of any target.
    pub fn age_max(&self) -> Duration {
        let Ok(settings) = self.handler.settings() else { return RETENTION };
        let policies = &settings.rules.policies;
        let names = self.targets.iter().map(|target| target.name.clone());
        let queues = self.sources.iter().map(|source| format!("sqs:{}", source.queue.name()));
        let ages = names.chain(queues).map(|name| policies.of(&name).longest_age());
        ages.max().unwrap_or(policies.of("").longest_age())
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

#[derive(Clone, Debug)]
pub struct RetryQueue {
    pub queue: Queue,
    /// The actions on the queue that the handler needs, but its role lacks.
    pub denied: Answer<Vec<String>>,
    pub other_consumers: Vec<String>,
    /// The names of the queues whose redrive policy names this queue.
    pub moved_from: Answer<Vec<String>>,
}

/// A bucket whose failure records the handler reads, or should.
#[derive(Clone, Debug)]
pub struct RecordBucket {
    pub bucket: Bucket,
    pub arn: String,
    /// Whether `RECORD_BUCKETS` names it.
    pub is_listed: bool,
    /// The actions that the handler needs, but its role lacks; each with its resource.
    pub denied: Answer<Vec<(String, String)>>,
}

/// A function whose failures are retried, or should be.
#[derive(Clone, Debug)]
pub struct Target {
    pub name: String,
    /// The function, and its state and limits; `None` if it doesn't exist.
    pub function: Option<(Function, Running)>,
    pub known_by: KnownBy,
    pub configs: Answer<Vec<InvokeConfig>>,
    /// Whether its role may send to a destination, by the ARN of the queue or the bucket.
    pub may_send: BTreeMap<String, Answer<bool>>,
    pub may_be_invoked: Answer<bool>,
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

/// A rule's target or a schedule that delivers to a function or a queue.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub sender: Sender,
    /// The ARN of the rule or the schedule.
    pub arn: String,
    /// The target, as AWS has it.
    pub target: Value,
    /// Whether the schedule's role may send to the dead-letter queue.
    pub may_send: Answer<bool>,
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
