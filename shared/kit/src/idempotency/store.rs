//! The record of an operation, and the stores that keep it.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use comeback_core::{
    Timestamp,
    claim::{Claim, State, is_same},
    fault::NotReplaced,
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
            State::Noted | State::Waiting | State::Done => claim.expires_at,
        };
        Lease { owner: claim.token.owner.clone(), until }
    }
}

/// Stores records. The only operation is compare-and-swap: it replaces a record if it is still the expected one.
///
/// Two records are the same if their claims are ([`Claim::is`]). See [`Memory`] for a short
/// implementation.
pub trait Store {
    /// Replaces the record of a key with `next`, or removes it if `next` is `None`, provided that the current
    /// record is `seen`. If `seen` is `None`, the key must have no record. The comparison and the write must be
    /// atomic.
    ///
    /// # Errors
    ///
    /// If the current record is not the `seen` one, or if the store fails.
    fn replace(
        &self,
        key: &str,
        seen: Option<&Record>,
        next: Option<&Record>,
    ) -> impl Future<Output = Result<(), ReplaceError>> + Send;

    /// The maximum size of an answer, in bytes of JSON.
    fn answer_max(&self) -> usize;
}

/// Why a record was not replaced: `Changed` with the current record, if there is one, or the `Fault` of the store.
pub type ReplaceError = NotReplaced<Option<Box<Record>>>;

/// An in-memory store, for tests and for operations that are only repeated within one execution environment.
///
/// Records are lost when the process ends, and other processes do not see them. Expired records are never deleted.
/// Clones share their records.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<HashMap<String, Record>>>);

/// Omits the content, because keys may be confidential.
impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

impl Memory {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Store for Memory {
    async fn replace(
        &self,
        key: &str,
        seen: Option<&Record>,
        next: Option<&Record>,
    ) -> Result<(), ReplaceError> {
        // Every write to the map is a single call, so the map is consistent even if the lock is poisoned.
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let there = records.get(key);
        if !is_same(there.map(|record| &record.claim), seen.map(|record| &record.claim)) {
            return Err(ReplaceError::Changed(there.cloned().map(Box::new)));
        }
        match next {
            Some(next) => records.insert(key.to_owned(), next.clone()),
            None => records.remove(key),
        };
        Ok(())
    }

    fn answer_max(&self) -> usize {
        usize::MAX
    }
}
