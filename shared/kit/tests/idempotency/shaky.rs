//! A store that fails on demand.

use std::{
    collections::VecDeque,
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};

use comeback::idempotency::{Memory, Record, ReplaceError, State, Store, StoreFault, Token};

use super::Clock;

/// The outcome of a call.
pub enum Call {
    /// The call succeeds or fails like a call to the memory store.
    Made,
    /// The call never arrives.
    Unmade(StoreFault),
    /// The call is made, but its response is lost.
    Unanswered(StoreFault),
    /// The call never returns.
    Silent,
    /// The call is made, and takes this long.
    Slow(Clock, Duration),
    /// The call fails, because another owner has just written a record.
    Overtaken,
}

/// The fault of a call that gets no response.
pub fn fault(passes: bool) -> StoreFault {
    StoreFault { passes, code: None, message: "no answer".to_owned() }
}

/// A store with scripted outcomes for its first calls. It counts its calls.
#[derive(Clone, Default)]
pub struct Shaky {
    memory: Memory,
    answer_max: Option<usize>,
    script: Arc<Mutex<VecDeque<Call>>>,
    /// The record of each write; `None` for a removal.
    pub written: Arc<Mutex<Vec<Option<Record>>>>,
}

impl Shaky {
    pub fn scripted(calls: impl IntoIterator<Item = Call>) -> Self {
        let script = Mutex::new(calls.into_iter().collect());
        Self { script: Arc::new(script), ..Self::default() }
    }

    pub fn of_answers_up_to(answer_max: usize) -> Self {
        Self { answer_max: Some(answer_max), ..Self::default() }
    }

    pub fn calls(&self) -> usize {
        self.written.lock().unwrap().len()
    }
}

impl Store for Shaky {
    async fn replace(
        &self,
        key: &str,
        seen: Option<&Record>,
        next: Option<&Record>,
    ) -> Result<(), ReplaceError> {
        self.written.lock().unwrap().push(next.cloned());
        let call = self.script.lock().unwrap().pop_front().unwrap_or(Call::Made);
        match call {
            Call::Made => self.memory.replace(key, seen, next).await,
            Call::Unmade(fault) => Err(ReplaceError::Fault(fault)),
            Call::Unanswered(fault) => {
                self.memory.replace(key, seen, next).await?;
                Err(ReplaceError::Fault(fault))
            }
            Call::Silent => pending().await,
            Call::Slow(clock, takes) => {
                clock.advance(takes);
                self.memory.replace(key, seen, next).await
            }
            Call::Overtaken => {
                let mut other = seen.or(next).unwrap().clone();
                other.claim.token = Token { generation: 1, owner: "another".to_owned() };
                other.claim.state = State::Held { until: other.claim.expires_at };
                Err(ReplaceError::Changed(Some(Box::new(other))))
            }
        }
    }

    fn answer_max(&self) -> usize {
        self.answer_max.unwrap_or_else(|| self.memory.answer_max())
    }
}
