//! The record that a store keeps of an operation.

use std::fmt;

use comeback_core::{
    Timestamp,
    claim::{Claim, State},
};

use super::Fingerprint;

/// The record of a key: the owner and state of its operation, its intent, and its answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Record {
    /// The owner and the state of the operation. Once it is done, the owner is the one that marked it as done.
    pub claim: Claim,
    /// The fingerprint of the intent.
    pub fingerprint: Fingerprint,
    /// The answer; `None` while the operation runs.
    pub answer: Option<Answer>,
}

impl Record {
    /// Returns this record, marked as done, with this answer and expiry time.
    #[must_use]
    pub fn done(&self, answer: Answer, expires_at: Timestamp) -> Self {
        let claim = Claim { expires_at, ..self.claim.done() };
        Self { claim, fingerprint: self.fingerprint, answer: Some(answer) }
    }
}

/// The answer to every repetition of an operation.
#[derive(Clone, Eq, PartialEq)]
pub enum Answer {
    /// The answer as JSON.
    Kept(String),
    /// The answer could not be stored, for this reason.
    NotKept(String),
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept(json) => write!(f, "Kept({} bytes)", json.len()),
            Self::NotKept(why) => f.debug_tuple("NotKept").field(why).finish(),
        }
    }
}

/// The exclusive right of an execution to run the operation until a given time.
///
/// No other execution runs the operation before the lease ends. It is not a fencing token for other systems: the
/// record is removed after a failure, so no number in it grows from one holder to the next.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Lease {
    owner: String,
    until: Timestamp,
}

impl Lease {
    /// The unique name of this execution. Log lines and [`Error::LostLease`](super::Error::LostLease) contain it,
    /// too.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// When the lease ends and another execution may take over. By then, Lambda has ended this invocation.
    pub fn until(&self) -> Timestamp {
        self.until
    }
}

/// A record that this execution has claimed.
pub(super) struct Held {
    pub(super) key: String,
    pub(super) record: Record,
    /// When Lambda ends this invocation.
    pub(super) deadline: Timestamp,
}

impl Held {
    pub(super) fn lease(&self) -> Lease {
        let claim = &self.record.claim;
        let until = match claim.state {
            State::Held { until } => until,
            State::Waiting | State::Done => claim.expires_at,
        };
        Lease { owner: claim.token.owner.clone(), until }
    }
}
