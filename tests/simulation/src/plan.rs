//! What is settled before a world begins: handlers, queues, targets, their policies, and the faults.

mod chosen;
mod draw;
mod plain;

use std::{cell::OnceCell, collections::BTreeMap, time::Duration};

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::plain::millis;
use crate::{
    faults::{Fault, Trouble},
    judge::Arns,
    policy::Policy,
};

/// The default of `IN_FLIGHT_MAX`.
const IN_FLIGHT_MAX: u32 = 100_000;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// A whole world.
#[derive(Clone, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    pub seed: u64,
    #[serde(skip)]
    pub handlers: Vec<HandlerPlan>,
    #[serde(skip)]
    pub queues: Vec<QueuePlan>,
    #[serde(skip)]
    pub targets: Vec<TargetPlan>,
    /// The number of events, and the time over which they are sent.
    pub events: u64,
    #[serde(with = "millis")]
    pub sending: Duration,
    /// The number of messages that strangers, not Lambda, send to the retry queues.
    pub strangers: u64,
    /// The account's limit on concurrent runs.
    pub concurrency: u32,
    #[serde(skip)]
    pub rates: BTreeMap<Fault, f64>,
    /// The share of events that never succeed, and the share of payloads near the limit.
    pub hopeless: f64,
    #[serde(skip)]
    pub large: f64,
    #[serde(skip)]
    pub spells: Vec<Spell>,
    /// When faults stop.
    #[serde(with = "millis")]
    pub calm_after: Duration,
    /// Whether only targets fail, and nothing else.
    pub flawless: bool,
    /// The first of a hundred kinds of failure that targets draw from. From 30 on they are plain errors, which heal.
    pub failures_from: u64,
    /// Whether to record the metrics that CloudWatch would have.
    #[serde(skip)]
    pub has_metrics: bool,
    /// The outage that is played, about which CloudWatch tells the truth.
    #[serde(skip)]
    pub outage: Option<Outage>,
    /// How often operators notice a waiting event and order something, and the share of orders that end with the item
    /// of the wait, as another program might write them.
    #[serde(skip)]
    pub ordering: f64,
    pub short_orders: f64,
    /// Whether a message that SQS moves is received for the first time in its new queue.
    pub moves_anew: bool,
    /// The target to which a caller sends envelopes that no handler has written, and whose runs fail.
    pub forging: Option<usize>,
    /// The share of events that EventBridge or its Scheduler could not deliver.
    pub undelivered: f64,
    /// The share of events, of functions with a bucket, that are batches which the mapping of a stream has given up.
    pub batches: f64,
    /// The share of events whose payload others have too, and the share of runs that end within milliseconds.
    pub equal: f64,
    #[serde(skip)]
    pub fast: f64,
    /// The share of events whose trace has no root, and of those that are sent in one trace with others.
    #[serde(skip)]
    pub rootless: f64,
    #[serde(skip)]
    pub shared: f64,
    /// How many runs a handler reads at once, if not as many as in production.
    pub page: Option<usize>,
    /// The share of events whose payload looks like an envelope once it is taken out of one.
    #[serde(skip)]
    pub nested: f64,
    /// When handlers are deployed again with other settings of `TRANSPARENT`.
    #[serde(with = "millis::maybe")]
    pub turns_at: Option<Duration>,
    /// Whose messages the strangers' are, if one function is compromised.
    pub attack: Option<Attack>,
}

/// One outage of a function, and another function beside it whose events fail once. Nothing else fails.
#[derive(Args, Clone, Copy, Debug)]
#[group(skip)]
pub struct Outage {
    /// How long the outage lasts.
    #[arg(long, default_value_t = 20)]
    pub minutes: u64,
    /// How many events are sent in a second.
    #[arg(long, default_value_t = 10)]
    pub rate: u64,
    /// For how many seconds events are sent, from the beginning of the outage.
    #[arg(long, default_value_t = 1_200)]
    pub arrivals: u64,
    /// How many invocations the function can take in a second.
    #[arg(long, default_value_t = u64::MAX)]
    pub capacity: u64,
    /// The handler's IN_FLIGHT_MAX.
    #[arg(long, default_value_t = IN_FLIGHT_MAX)]
    pub in_flight_max: u32,
    /// Probe the function while it is down.
    #[arg(long)]
    pub probe: bool,
    /// List waiting events, so that they can be brought forward.
    #[arg(long)]
    pub register: bool,
    /// How many events of the other function are sent in a second.
    #[arg(long, default_value_t = 1)]
    pub neighbour: u64,
    /// The maximum concurrency of the mapping of each retry queue; 10 is what is deployed.
    #[arg(long, default_value_t = 10)]
    pub batches: u32,
    /// How many runs the account may have at once; 1,000 is what AWS gives.
    #[arg(long, default_value_t = 1_000)]
    pub concurrency: u32,
    /// How many of these are reserved for the handler.
    #[arg(long)]
    pub reserved: Option<u32>,
}

impl Outage {
    pub fn lasts(self) -> Duration {
        Duration::from_mins(self.minutes)
    }
}

/// A function that an attacker has taken over: what it sends to its own retry queue is hostile. Each of the two
/// functions has a queue that is bound to it alone. One more queue accepts the dead letters of all, which SQS moves
/// back.
#[derive(Clone, Copy, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Attack {
    /// The target that is compromised, and the one that the attacker is after.
    pub by: usize,
    pub on: usize,
    pub open_queue: usize,
}

/// A retry handler: one function, its settings and its dead-letter queue.
#[derive(Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct HandlerPlan {
    pub name: String,
    pub dead_letter_queue: String,
    /// In seconds.
    pub timeout: u32,
    /// How much of the account's concurrency is its own.
    pub reserved: Option<u32>,
    /// The most by which the clocks of its environments may be off.
    #[serde(with = "millis")]
    pub skew: Duration,
    pub general: Policy,
    /// Whether it lists its targets, or may invoke every function of its account.
    pub lists_targets: bool,
    pub binds_queues: bool,
    /// Whether it claims each failure before it acts.
    pub has_ledger: bool,
    /// Whether it lists waiting events in the ledger.
    pub has_register: bool,
    pub probes: bool,
    /// Whether its targets are retried without an envelope, unless their own policies say otherwise, before and after
    /// the handlers are deployed again.
    pub transparent: [bool; 2],
    /// Values of `IN_FLIGHT_MAX`. Each of its processes was deployed with one of them.
    pub in_flight_max: [u32; 2],
}

#[derive(Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueuePlan {
    pub name: String,
    pub handler: usize,
    pub batch: u32,
    pub concurrency: Option<u32>,
}

/// How a target's failures reach the retry queue.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum Form {
    #[default]
    Record,
    Notification,
    EventBridge,
    /// By its own dead-letter queue.
    Bare,
    /// It is a queue, and SQS moves what its consumer has failed to process this often. Between two tries, a message is
    /// hidden for some seconds.
    Queue {
        tries: u32,
        hidden: u32,
    },
    /// They lie in a bucket, and this is how its notices come.
    Bucket(Notices),
}

/// How the notices of a bucket reach the retry queue.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Notices {
    Directly,
    /// Through EventBridge, which writes them in another way.
    EventBridge,
    /// Through SNS.
    Topic,
}

#[derive(Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct TargetPlan {
    pub name: String,
    pub queue: usize,
    pub form: Form,
    /// Its own policy, if it differs from its handler's.
    pub own: Option<Policy>,
    /// How often it fails while it has no trouble.
    #[serde(skip)]
    pub failing: f64,
    /// Whether its handler lists it, or lists no targets.
    pub listed: bool,
    /// Whether its queue is bound to it, or to no target.
    pub bound: bool,
    pub stopped_in_loops: bool,
    /// Whether it is retried without an envelope, before and after the handlers are deployed again.
    pub transparent: [bool; 2],
    /// Whether its handler does not list its bucket, and so reads nothing from it.
    pub is_bucket_unlisted: bool,
    /// The target that gets this name when it is renamed.
    pub successor_of: Option<usize>,
    /// Its circuit when the world begins.
    pub circuit: Option<Value>,
    /// Its names in failure records, once they are known.
    #[serde(skip)]
    pub arns: OnceCell<Arns>,
}

impl TargetPlan {
    /// Whether its handler may retry it.
    pub fn is_allowed(&self) -> bool {
        self.listed && self.bound
    }

    pub fn is_queue(&self) -> bool {
        matches!(self.form, Form::Queue { .. })
    }

    /// The bucket for its failure records, if they go to one.
    pub fn bucket(&self) -> Option<String> {
        matches!(self.form, Form::Bucket(_)).then(|| format!("records-of-{}", self.name))
    }
}

/// A trouble, the target, handler or queue that it concerns, and its time from the beginning of the world.
#[derive(Clone, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Spell {
    pub trouble: Trouble,
    pub number: usize,
    #[serde(with = "millis")]
    pub from: Duration,
    /// None if it never ends.
    #[serde(with = "millis::maybe")]
    pub until: Option<Duration>,
}

impl Plan {
    /// Whether a target is retried without an envelope, by a handler that was or was not deployed again.
    pub fn is_transparent(&self, target: usize, is_turned: bool) -> bool {
        self.targets[target].transparent[usize::from(is_turned)]
    }

    /// The handler that retries a target's events.
    pub fn handler_of(&self, target: usize) -> &HandlerPlan {
        &self.handlers[self.queues[self.targets[target].queue].handler]
    }

    /// The policy for an event of a target that failed last with this error.
    pub fn policy_after(&self, target: usize, error_type: Option<&str>) -> Policy {
        self.policy(target).after(error_type, &self.handler_of(target).general)
    }

    pub fn policy(&self, target: usize) -> &Policy {
        self.targets[target].own.as_ref().unwrap_or(&self.handler_of(target).general)
    }

    /// The target that is this queue, if it is one.
    pub fn source(&self, queue: &str) -> Option<usize> {
        self.targets.iter().position(|target| target.is_queue() && target.name == queue)
    }

    /// How long SQS keeps the notice of a record that nobody may read.
    pub fn stays(&self) -> Duration {
        let days = if self.targets.iter().any(|it| it.is_bucket_unlisted) { 14 } else { 0 };
        Duration::from_secs(days * DAY)
    }

    /// The longest time for which an event of this world may be retried.
    pub fn age_max(&self) -> Duration {
        let of_all = |target| self.handler_of(target).general.age_max();
        let ages = (0..self.targets.len()).map(|it| self.policy(it).age_max().max(of_all(it)));
        Duration::from_secs(ages.max().unwrap_or_default())
    }
}
