//! The rules of the local cloud: queues, the asynchronous queue, retries, destinations, mappings, concurrency, buckets.
//!
//! They are pure: time and randomness are arguments, so that a simulation can drive them in virtual time.
//!
//! [`Cloud`] joins the services as AWS does: Lambda's destinations and dead-letter queues send to SQS, a destination
//! may be a bucket, buckets notify queues, event source mappings poll them and streams, and EventBridge's rules and
//! schedules send events to functions and queues. Its caller must call [`Cloud::advance`] after every request and at
//! the time of [`Cloud::next_wakeup`], carry out the runs that `advance` returns, and pass each outcome to
//! [`Cloud::finish`].

pub mod bridge;
mod delivery;
pub mod emf;
mod event;
mod invocation;
pub mod kinesis;
pub mod lambda;
pub mod log_filter;
mod notices;
pub mod polling;
pub mod s3;
pub mod sqs;
mod streaming;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use bridge::Bridge;
use comeback_core::Timestamp;
pub use event::{Ending, Event, What};
pub use invocation::{Invocation, InvocationType, Invoked};
use kinesis::Kinesis;
use lambda::{Lambda, run::Run};
use rand::{Rng as _, SeedableRng as _, rngs::Xoshiro256PlusPlus};
use s3::S3;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use sqs::Sqs;

pub const ACCOUNT: &str = "000000000000";

pub const REGION: &str = "us-east-1";

const BUCKET_PREFIX: &str = "arn:aws:s3:::";

pub fn queue_arn(name: &str) -> String {
    format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{name}")
}

/// The queue name in `arn`, or `None` if it is not the ARN of a queue in this account and region.
pub fn queue_name(arn: &str) -> Option<&str> {
    let rest = arn.strip_prefix("arn:aws:sqs:")?;
    let rest = rest.strip_prefix(REGION)?.strip_prefix(':')?;
    let name = rest.strip_prefix(ACCOUNT)?.strip_prefix(':')?;
    (!name.is_empty() && !name.contains(':')).then_some(name)
}

/// The ARN of a bucket. It names no account and no region, because all buckets share one namespace.
pub fn bucket_arn(name: &str) -> String {
    format!("{BUCKET_PREFIX}{name}")
}

/// The bucket name in `arn`, or `None` if it is not the ARN of a bucket.
pub fn bucket_name(arn: &str) -> Option<&str> {
    arn.strip_prefix(BUCKET_PREFIX).filter(|name| !name.is_empty() && !name.contains(['/', ':']))
}

/// Whether `name` consists of 1 to `max` letters, digits, hyphens and underscores, the syntax of most AWS names.
pub fn is_name(name: &str, max: usize) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=max).contains(&name.len()) && name.bytes().all(allowed)
}

/// A time as AWS writes it in JSON: seconds since 1970, with milliseconds.
#[allow(
    clippy::cast_precision_loss,
    reason = "milliseconds of our time are far below what a double holds exactly"
)]
pub fn epoch_seconds(at: Timestamp) -> f64 {
    at.timestamp_millis() as f64 / 1000.0
}

/// The pending invocations and messages, which are lost when the local cloud stops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Accepted asynchronous invocations: queued, running, or waiting for a retry.
    pub invocations: usize,
    /// The number of messages in each queue, delayed and in flight included. Empty queues are left out.
    pub messages: BTreeMap<String, usize>,
}

pub struct Cloud {
    pub sqs: Sqs,
    pub lambda: Lambda,
    pub s3: S3,
    pub bridge: Bridge,
    pub kinesis: Kinesis,
    happened: Vec<Event>,
}

impl Cloud {
    /// Creates an empty cloud with this concurrency of the account. With the same `seed`, the same calls have the same
    /// results.
    pub fn new(concurrency: u32, seed: u64) -> Self {
        Self {
            sqs: Sqs::new(seed),
            // Different seeds, so that the ids of the services differ.
            lambda: Lambda::new(concurrency, seed.wrapping_add(1)),
            s3: S3::new(seed.wrapping_add(2)),
            bridge: Bridge::new(seed.wrapping_add(3)),
            kinesis: Kinesis::default(),
            happened: Vec::new(),
        }
    }

    /// Does everything that is due, and returns the runs that the host must start.
    pub fn advance(&mut self, now: Timestamp) -> Vec<Run> {
        let mut runs = Vec::new();
        self.sqs.move_due(now);
        self.run_schedules(now);
        self.run_due_events(now, &mut runs);
        self.poll_queues(now, &mut runs);
        self.poll_streams(now, &mut runs);
        runs
    }

    /// When [`Cloud::advance`] must be called next, unless another step comes first.
    pub fn next_wakeup(&mut self, now: Timestamp) -> Option<Timestamp> {
        let event = self.lambda.queue.next_due();
        let poll = self.next_poll(now);
        let next_move = self.sqs.next_move_at();
        let schedule = self.bridge.schedules.next_due();
        let stream = self.next_stream_poll(now);
        [event, poll, next_move, schedule, stream].into_iter().flatten().min()
    }

    /// The pending invocations and messages, which are lost when the local cloud stops.
    pub fn waiting(&mut self, now: Timestamp) -> Waiting {
        Waiting { invocations: self.lambda.invocations(), messages: self.sqs.messages(now) }
    }

    /// Returns and clears the journal events since the last call.
    pub fn take_happened(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.happened)
    }
}

/// Identifiers from a seeded generator, so that the same seed gives the same sequence.
#[derive(Debug)]
pub struct Ids(Xoshiro256PlusPlus);

impl Ids {
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    pub fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A random UUID (RFC 9562, version 4), the form of request ids and of mappings.
    pub fn uuid(&mut self) -> String {
        let mut bytes = [0; 16];
        self.0.fill_bytes(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
    }
}

/// An event, or a function's response: any JSON value, never re-encoded. Copies share the bytes.
///
/// White space around the value is not part of it.
#[derive(Clone, Debug)]
pub struct Payload(Arc<RawValue>);

impl Payload {
    pub fn parse(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice::<Box<RawValue>>(bytes).map(|raw| Self(raw.into()))
    }

    /// A function's response. If it isn't JSON, it becomes a JSON string, because records must be JSON.
    pub fn of_response(bytes: &[u8]) -> Self {
        Self::parse(bytes).unwrap_or_else(|_| Self::of(&String::from_utf8_lossy(bytes)))
    }

    /// `value` as JSON, or `null` if it can't be serialized.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Self {
        let raw =
            serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned());
        Self(raw.into())
    }

    pub fn get(&self) -> &str {
        self.0.get()
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_ref().serialize(serializer)
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}
