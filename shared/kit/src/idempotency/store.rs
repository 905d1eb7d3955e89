//! Where records are kept.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use comeback_core::{claim::is_same, fault::StoreFault};

use super::Record;

/// Keeps records. Its only operation is compare-and-swap: it replaces a record if it is still the one that was
/// seen.
///
/// Two records are the same if their claims are the same ([`Claim::is`](super::Claim::is)). [`Memory`] is the
/// shortest correct example.
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
    /// Replaces the `seen` record of a key with the `next` one, or removes it if there is no `next`. If none was
    /// seen, none must be there. The comparison and the write must be atomic.
    ///
    /// # Errors
    ///
    /// If another record is there, or the store fails.
    fn replace(
        &self,
        key: &str,
        seen: Option<&Record>,
        next: Option<&Record>,
    ) -> impl Future<Output = Result<(), ReplaceError>> + Send;

    /// How many bytes of JSON an answer may have.
    fn answer_max(&self) -> usize;
}

/// Why a record was not replaced.
///
/// ```
/// # use comeback::idempotency::{Claim, Fingerprint, Record, State, Token};
/// use comeback::idempotency::{Memory, ReplaceError, Store};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let at = "2026-02-01T12:00:40Z".parse().unwrap();
/// # let token = Token { generation: 1, owner: "request/4711".to_owned() };
/// # let claim = Claim { token, state: State::Held { until: at }, order: None, expires_at: at };
/// # let record = Record { claim, fingerprint: Fingerprint::of("charge 7").unwrap(), answer: None };
/// let store = Memory::new();
/// assert_eq!(store.replace("key", None, Some(&record)).await, Ok(()));
/// let there = ReplaceError::Changed(Some(Box::new(record.clone())));
/// assert_eq!(store.replace("key", None, Some(&record)).await, Err(there));
/// # }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ReplaceError {
    /// Another record than the seen one was there: this one, or none.
    Changed(Option<Box<Record>>),
    /// The store failed. The write may have been made all the same.
    Fault(StoreFault),
}

/// A store in memory, for tests and for operations that are repeated only within one execution environment.
///
/// Its records are lost when the process ends, and other processes do not see them. It keeps expired records, too.
/// Clones share their records.
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

/// Without its content, because keys may be confidential.
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
        // Every write to the map is a single call, so a panic cannot leave it half written.
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
