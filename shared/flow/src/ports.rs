//! The services that are needed to handle a batch.
//!
//! A call with several entries returns an answer for each of them, in order, because SQS may refuse one and accept
//! the others. If the call itself fails, every entry gets its error. If there are fewer or more answers than entries,
//! none of them counts (`answers`).

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    time::Duration,
};

pub use comeback_core::attribute::{Attribute, Value};
use comeback_core::{
    Timestamp,
    arn::Home,
    attribute::message_size,
    circuit::Minute,
    dead_letter::DeadLetter,
    fault::{self, InvokeFault, RecordFault, StoreFault},
    lineage::{Key, Known, Siblings, Write},
    notice::Location,
};

/// SQS accepts this many entries in one call.
pub const ENTRIES_MAX: usize = 10;

/// The retry queues, the dead-letter queue, and the queues whose consumers failed.
pub trait Queues {
    /// Sets when these messages of a queue come back: at most [`ENTRIES_MAX`].
    fn change_visibility(
        &self,
        queue_url: &str,
        changes: &[VisibilityChange<'_>],
    ) -> impl Future<Output = Vec<Result<(), CallFault>>>;

    /// How many messages of this queue are in flight, as SQS counts them.
    fn in_flight(&self, queue_url: &str) -> impl Future<Output = Result<u64, CallFault>>;

    /// Sends at most [`ENTRIES_MAX`] messages to a queue, together no larger than one message may be.
    fn send_again(
        &self,
        queue_url: &str,
        messages: &[&Resent<'_>],
    ) -> impl Future<Output = Vec<Result<(), InvokeFault>>>;

    /// Sends at most [`ENTRIES_MAX`] dead letters, which together are no larger than one message may be.
    fn send_dead_letters(
        &self,
        letters: &[&DeadLetter<'_>],
    ) -> impl Future<Output = Vec<Result<(), InvokeFault>>>;
}

pub trait Functions {
    /// Invokes a function asynchronously. Once Lambda has accepted the invocation, it keeps the event.
    fn invoke(&self, invocation: Invocation<'_>) -> impl Future<Output = Invoked>;

    /// The counts of all invocations of a function, whoever has made them: the minutes between these times for which
    /// there are counts. Only probes need them.
    fn minutes(
        &self,
        function: &str,
        from: Timestamp,
        until: Timestamp,
    ) -> impl Future<Output = Result<Vec<Minute>, CallFault>>;
}

/// The buckets with failure records.
pub trait Records {
    /// Reads the object at this location, if it has at most [`RECORD_MAX`] bytes. The bucket must belong to the account
    /// in which the handler is at `home`.
    fn read(
        &self,
        location: &Location,
        home: &Home,
    ) -> impl Future<Output = Result<Vec<u8>, RecordFault>>;
}

/// The largest record that is read. It has a payload of at most 1 MiB, and the function's answer of at most 6 MB.
pub const RECORD_MAX: usize = 8 << 20;

/// The ledger's table, shared by all handlers: what is known of runs, the register of waiting events, and the circuits
/// of targets.
pub trait Ledger {
    /// Makes this write to the item of a run if its claim is the one that was seen. This is one conditional write.
    fn write(&self, key: &Key, write: &Write<'_>) -> impl Future<Output = Result<(), NotReplaced>>;

    /// Notes what is known of a run that was accepted. A claim that the item has by then stays.
    fn note(&self, key: &Key, known: &Known) -> impl Future<Output = Result<(), StoreFault>>;

    /// Takes a call for the one that has started the `run`, unless another run has taken it. The call is in the item
    /// with this key. Returns whether it is this run's.
    fn take(
        &self,
        key: &Key,
        call: &str,
        run: &str,
    ) -> impl Future<Output = Result<bool, StoreFault>>;

    /// Reads the runs with the same target and payload consistently: the first hundred, and in any case the run itself;
    /// or only those that retry the failure of this run, however many others there are.
    fn siblings(
        &self,
        key: &Key,
        only_children: bool,
    ) -> impl Future<Output = Result<Siblings, StoreFault>>;

    /// Reads the items of these runs and targets, however many there are, with as few calls as possible. What was
    /// written just before may be missing.
    fn look_up(&self, wanted: &Wanted<'_>) -> impl Future<Output = Result<LookedUp, StoreFault>>;

    /// Replaces the circuit of a target and increments its version, if that is still the one that was `seen`. A target
    /// without a circuit has version 0. This is one conditional write.
    fn exchange(
        &self,
        target: &str,
        seen: u64,
        next: &str,
    ) -> impl Future<Output = Result<(), NotExchanged>>;

    /// Lists the first `count` events of this target that are in flight until after this time, or all if there are
    /// fewer. Those that wait as delays are passed over, because nothing can bring them forward.
    fn list(
        &self,
        target: &str,
        after: Timestamp,
        count: u32,
    ) -> impl Future<Output = Result<Listing, StoreFault>>;
}

pub trait Clock {
    fn now(&self) -> Timestamp;

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()>;
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Wanted<'a> {
    pub runs: HashSet<Key>,
    /// The ARNs of its targets, as records name them.
    pub targets: HashSet<&'a str>,
}

#[derive(Clone, Debug, Default)]
pub struct LookedUp {
    /// The runs that have an item.
    pub runs: HashMap<Key, Entered>,
    pub paused: HashSet<String>,
    pub circuits: HashMap<String, Stored>,
}

#[derive(Clone, Debug)]
pub struct Entered {
    pub known: Known,
    /// When the event comes back, if its message is delayed. Then it has no receipt handle.
    pub delayed_until: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Stored {
    /// How often the circuit was written.
    pub version: u64,
    pub text: Option<String>,
}

/// The first events of a target that are in flight.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Listing {
    pub in_flight: Vec<Listed>,
    /// Whether delays were passed over.
    pub has_delays: bool,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Listed {
    pub queue_url: String,
    pub receipt_handle: String,
}

/// Why a circuit was not replaced. Contains the current one, if another handler has replaced it.
pub type NotExchanged = fault::NotReplaced<Stored>;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct VisibilityChange<'a> {
    pub receipt_handle: &'a str,
    /// The visibility timeout in seconds from now.
    pub timeout: u32,
}

/// A message that is sent again: to its own queue as a delay, or back to the queue whose consumer failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Resent<'a> {
    pub body: &'a str,
    pub attributes: Vec<Attribute<'a>>,
    pub trace_header: Option<&'a str>,
    /// The tenant of the message, if its queue is a fair queue.
    pub group_id: Option<&'a str>,
    pub delay: u32,
}

impl Resent<'_> {
    pub fn size(&self) -> usize {
        message_size(self.body, &self.attributes)
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Invocation<'a> {
    /// The qualified ARN of the function, as the failure record names it.
    pub function: &'a str,
    pub payload: String,
    /// The event's tenant, if `TENANT_ID` finds one. Only Lambda knows which functions run each tenant's events apart.
    pub tenant_id: Option<Cow<'a, str>>,
    /// The name of the execution, if the function is durable.
    pub execution_name: Option<String>,
    /// The event's trace. Lambda's recursive-loop detection uses it.
    pub trace_header: Option<&'a str>,
}

/// How an invocation ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Invoked {
    /// The request id that Lambda's answer names, which is that of the invocation.
    pub answer: Result<Option<String>, InvokeFault>,
    /// How many calls Lambda may have accepted although no answer says so. The SDK repeats a call by itself, and each
    /// of them is judged by its own answer.
    pub unanswered: u32,
}

/// Why the item of a run was not written. Contains what is known of the run now, if there is an item.
pub type NotReplaced = fault::NotReplaced<Option<Box<Known>>>;

/// A call to SQS, or one entry of it, that failed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct CallFault(pub String);
