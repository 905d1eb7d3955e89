//! Where records are kept.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use comeback_core::{claim::is_same, fault::StoreFault};

use super::Record;

/// Where records are kept: it knows one operation, to replace a record if it is still the one that was
/// seen.
///
/// Two records are the same if their claims are ([`Claim::is`](super::Claim::is)): the same token, and as
/// far. [`Memory`] is the shortest example of a store that does it right.
///
/// ```
/// use comeback::idempotency::{Memory, ReplaceError, Record, Store};
///
/// /// A store that keeps only short answers.
/// struct Short(Memory);
///
/// impl Store for Short {
///     async fn replace(
///         &self,
///         key: &str,
///         seen: Option<&Record>,
///         next: Option<&Record>,
///     ) -> Result<(), ReplaceError> {
///         self.0.replace(key, seen, next).await
///     }
///
///     fn answer_max(&self) -> usize {
///         100
///     }
/// }
/// assert_eq!(Short(Memory::new()).answer_max(), 100);
/// ```
pub trait Store {
    /// Writes the `next` record in place of the one that was `seen` under the key, or removes that one
    /// where there is no next. If none was seen, none must be there. Nothing may come between the comparison
    /// and the write.
    ///
    /// # Errors
    ///
    /// Where something else is there, and where the store can't be asked.
    fn replace(
        &self,
        key: &str,
        seen: Option<&Record>,
        next: Option<&Record>,
    ) -> impl Future<Output = Result<(), ReplaceError>> + Send;

    /// How many bytes of JSON an answer may have.
    fn answer_max(&self) -> usize;
}

/// Why a record is as it was.
///
/// ```
/// # use comeback::idempotency::{Claim, Fingerprint, Record, State, Token};
/// use comeback::idempotency::{Memory, ReplaceError, Store};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let at = "2026-02-01T12:00:40Z".parse().unwrap();
/// # let token = Token { generation: 1, owner: "request/4711".to_owned() };
/// # let claim = Claim { token, state: State::Held { until: at }, expires_at: at };
/// # let record = Record { claim, fingerprint: Fingerprint::of("charge 7").unwrap(), answer: None };
/// let store = Memory::new();
/// assert_eq!(store.replace("key", None, Some(&record)).await, Ok(()));
/// let there = ReplaceError::Changed(Some(Box::new(record.clone())));
/// assert_eq!(store.replace("key", None, Some(&record)).await, Err(there));
/// # }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ReplaceError {
    /// Another was there than the one that was seen: this one, or none.
    Changed(Option<Box<Record>>),
    /// The store can't be asked. The write may still have been made.
    Fault(StoreFault),
}

/// A store in the memory of one process: for tests, and for what is only ever repeated within one
/// execution environment.
///
/// It forgets all when the process ends, other processes see nothing of it, and until the process ends it
/// keeps every record, expired ones too. Clones share their records.
///
/// ```
/// use comeback::idempotency::{Idempotency, Memory};
///
/// let store = Memory::new();
/// let charges = Idempotency::new("charges", store.clone())?;
/// let refunds = Idempotency::new("refunds", store)?;
/// # Ok::<(), comeback::idempotency::BadRequest>(())
/// ```
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<HashMap<String, Record>>>);

/// Without what is in it: its keys may be confidential.
impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

impl Memory {
    /// An empty store.
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
        // Nobody leaves the map half written, so that one who panicked spoils nothing.
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
