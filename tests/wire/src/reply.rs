//! What a world answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use comeback_core::{
    circuit::Minute,
    fault::{FaultKind, InvokeFault, StoreFault, classify_send, store_fault_passes},
    lineage::{Key, Known, Siblings},
};
use comeback_flow::ports::{CallFault, Entered, Listing, Stored};

/// The answer to one entry of a call. Invocations and writes to the ledger have one entry.
pub type Answer = Result<(), Refusal>;

/// The answers to all entries of a call, and what it has read.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    pub entries: Vec<Answer>,
    pub found: Found,
}

#[derive(Clone, Debug, Default)]
pub enum Found {
    #[default]
    Nothing,
    /// A failure record, as it lies in its bucket.
    Record(Arc<[u8]>),
    Count(u64),
    /// [`LookedUp`], in order.
    LookedUp {
        runs: BTreeMap<Key, Entered>,
        paused: BTreeSet<String>,
        circuits: BTreeMap<String, Stored>,
    },
    /// The circuit that is there instead of the expected one.
    Circuit(Stored),
    Listed(Listing),
    Minutes(Vec<Minute>),
    Siblings(Siblings),
    /// The request id of the run, and how many earlier calls for it Lambda may have accepted, too: the SDK repeats a
    /// call by itself.
    Accepted {
        request_id: String,
        unanswered: u32,
    },
    /// The last call was refused, and Lambda may have accepted so many earlier ones.
    Unanswered(u32),
    /// Whether the call is taken by this run.
    Taken(bool),
}

impl From<Result<Found, Refusal>> for Reply {
    fn from(read: Result<Found, Refusal>) -> Self {
        match read {
            Ok(found) => Self { entries: vec![Ok(())], found },
            Err(refusal) => Self::from(vec![Err(refusal)]),
        }
    }
}

impl From<Vec<Answer>> for Reply {
    fn from(entries: Vec<Answer>) -> Self {
        Self { entries, found: Found::Nothing }
    }
}

/// The answer of a service that refuses a call. Without a code, there was no answer at all.
#[derive(Clone, Debug, Default)]
pub struct Refusal {
    pub code: Option<&'static str>,
    pub status: Option<u16>,
    /// What the service says of it, if that makes a difference.
    pub message: Option<String>,
    pub retry_after: Option<Duration>,
    /// How the contract classifies the fault, if that makes a difference for this call.
    pub kind: Option<FaultKind>,
    /// The item that the ledger has instead of the expected claim.
    pub found: Option<Option<Box<Known>>>,
}

impl Refusal {
    pub fn of(code: &'static str, status: u16, kind: FaultKind) -> Self {
        Self { code: Some(code), status: Some(status), kind: Some(kind), ..Self::default() }
    }

    pub(crate) fn message(&self) -> &str {
        self.message.as_deref().unwrap_or("the world says no")
    }
}

impl From<Refusal> for CallFault {
    fn from(refusal: Refusal) -> Self {
        Self(refusal.message().to_owned())
    }
}

impl From<Refusal> for StoreFault {
    fn from(refusal: Refusal) -> Self {
        Self {
            is_transient: store_fault_passes(refusal.code, refusal.status),
            code: refusal.code.map(str::to_owned),
            message: refusal.message().to_owned(),
        }
    }
}

/// A message that could not be sent.
impl From<Refusal> for InvokeFault {
    fn from(refusal: Refusal) -> Self {
        let message = refusal.message().to_owned();
        let kind = classify_send(refusal.code, refusal.status, &message);
        Self { kind, code: refusal.code.map(str::to_owned), message }
    }
}
