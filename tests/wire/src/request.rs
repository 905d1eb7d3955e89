//! The calls of a handler.

use std::time::Duration;

use comeback_core::{
    Timestamp,
    claim::Claim,
    dead_letter::DeadLetter,
    envelope::RetryMetadata,
    lineage::{Call, Key, Known},
    notice::Location,
};
use comeback_local_model::sqs::Outgoing;

#[derive(Clone, Debug)]
pub enum Request {
    Sleep(Duration),
    /// Read the failure record that lies there.
    Read(Location),
    /// Change the visibility of messages: receipt handles and seconds.
    Hide {
        queue_url: String,
        changes: Vec<(String, u32)>,
    },
    Count {
        queue_url: String,
    },
    /// Send messages to their own queue again, or to the queue whose consumer failed.
    Again {
        queue_url: String,
        messages: Vec<Outgoing>,
        /// Of which message of the batch each is.
        origins: Vec<Origin>,
    },
    Letters(Vec<DeadLetter<'static>>),
    Invoke(Invoke),
    Write(Box<Write>),
    /// Note what is known of a run that was accepted.
    Note {
        key: Key,
        known: Box<Known>,
    },
    /// Take a call, which is in the item with this key, for the one that has started the `run`.
    Take {
        key: Key,
        call: String,
        run: String,
    },
    /// Read the runs with the target and the payload of this one, consistently.
    Siblings {
        key: Key,
        only_children: bool,
    },
    /// Read items of the ledger.
    LookUp {
        runs: Vec<Key>,
        targets: Vec<String>,
    },
    Exchange(Exchange),
    /// List the events of a target that wait in flight.
    List {
        target: String,
        after: Timestamp,
        count: u32,
    },
    Minutes {
        function: String,
        from: Timestamp,
    },
}

impl Request {
    /// What it asks for, in a word or two.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sleep(_) => "sleep",
            Self::Read(_) => "read",
            Self::Hide { .. } => "hide",
            Self::Count { .. } => "count",
            Self::Again { .. } => "send again",
            Self::Letters(_) => "dead letter",
            Self::Invoke(_) => "invoke",
            Self::Write(_) => "claim",
            Self::Note { .. } => "note",
            Self::Take { .. } => "take",
            Self::Siblings { .. } => "recall",
            Self::LookUp { .. } => "look up",
            Self::Exchange(_) => "circuit",
            Self::List { .. } => "list",
            Self::Minutes { .. } => "minutes",
        }
    }
}

/// A write of a target's circuit.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub target: String,
    pub seen: u64,
    pub next: String,
}

/// A retry: a function and its payload, or a queue and its message.
#[derive(Clone, Debug, Default)]
pub struct Invoke {
    pub target: String,
    pub message: Outgoing,
    pub tenant_id: Option<String>,
    /// The name of a durable function's execution.
    pub execution_name: Option<String>,
    /// Of which message of the batch it is.
    pub origin: Origin,
}

/// The message of a batch that a call is about. Copies of one message look the same, so it is known by the place in
/// memory of its trace header, which handlers pass on as they have received it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Origin(Option<usize>);

impl Origin {
    pub fn of(trace_header: Option<&str>) -> Self {
        Self(trace_header.map(|text| text.as_ptr().addr()))
    }
}

/// A conditional write to the item of a run. It leaves the note as it is, and all calls that it doesn't name.
#[derive(Clone, Debug)]
pub struct Write {
    pub key: Key,
    pub seen: Option<Claim>,
    /// `None` removes the item.
    pub next: Option<Claim>,
    /// What is written beside the claim of an event that waits.
    pub waiting: Option<Entry>,
    /// What is noted of the run itself.
    pub metadata: Option<RetryMetadata>,
    pub calls: Vec<Call>,
    pub removed: Vec<String>,
}

/// An entry of the register. Its receipt handle is the one of its message in flight.
#[derive(Clone, Debug)]
pub struct Entry {
    pub target: String,
    pub queue_url: String,
    pub event_id: String,
    pub attempt: u32,
    pub due: Timestamp,
    /// The name of the policy of its error.
    pub policy: Option<String>,
    pub receipt_handle: Option<String>,
}
