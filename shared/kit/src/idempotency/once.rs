//! Claims an operation before it runs, and marks it as done afterwards.

use std::{
    any::type_name,
    panic::{AssertUnwindSafe, resume_unwind},
    pin::Pin,
    time::Duration,
};

use comeback_core::{
    Attempt, Timestamp,
    backoff::{Backoff, Draw, Jitter},
    claim::{Claimant, LOOKS_MAX, State, Verdict, is_same},
    time::{between, later},
};
use futures_util::FutureExt;
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::timeout;

use super::{
    Answer, Error, Idempotency, Lease, MARGIN, Record, ReplaceError, Request, Store, StoreFault,
    request::hash, store::Held,
};
use crate::RetryAfter;

/// The backoff for the write that marks an operation as done. The operation must not run twice because the store
/// is down for a few seconds.
const COMPLETION: Backoff =
    Backoff { base: Duration::from_millis(100), max: Duration::from_secs(2), jitter: Jitter::Full };

/// The maximum number of these writes. For each of them, a DynamoDB client also makes its own retries.
const COMPLETIONS_MAX: u32 = 5;

/// The time that a function needs to return its answer after a call to the store has timed out.
const RETURN_TIME: Duration = Duration::from_secs(1);

/// Logs a failed write of a record. A key may be a card number or an address, so only its hash is logged. To find the
/// log lines of a key, compare `key_hash` with the start of `printf %s 'scope#key' | sha256sum`.
macro_rules! not_written {
    ($level:ident, $once:expr, $held:expr, $fault:expr, $outcome:literal) => {
        tracing::$level!(
            target: "comeback::idempotency",
            scope = $once.scope,
            key_hash = &hash(&$held.key)[..16],
            owner = $held.record.claim.token.owner,
            fault = %$fault,
            $outcome
        )
    };
}

/// The result of [`Idempotency::begin`].
pub(super) enum Begun {
    /// The key is claimed, and the operation can run.
    Held(Held),
    /// The operation was run before, with this answer.
    Answered(Answer),
}

impl<S: Store> Idempotency<S> {
    /// Runs the operation, or returns the earlier answer if it was run with this key before.
    ///
    /// If the operation returns an error or panics, its key is free at once, and the operation may run again. See
    /// [what a caller can rely on](super#what-a-caller-can-rely-on).
    ///
    /// The operation does not start if less than the request's [minimum](Request::with_minimum) is left, 5 s by
    /// default.
    ///
    /// If you drop the future early, the key stays claimed until its lease ends, as after a crash. A call to a
    /// store that does not respond times out one second before the deadline, by tokio's clock, so that the
    /// function can still return.
    ///
    /// # Errors
    ///
    /// The operation's error, or the reason why it was not run or its answer is missing.
    pub async fn run<T, E, F>(
        &self,
        request: &Request,
        operation: impl FnOnce(Lease) -> F,
    ) -> Result<T, Error<E>>
    where
        T: Serialize + DeserializeOwned,
        F: Future<Output = Result<T, E>>,
    {
        self.run_or_hold(request, operation, |_| None).await
    }

    /// Like [`Self::run`]. After an error, holds the key if `hold` returns a time, and what tells the retry loop.
    pub(super) async fn run_or_hold<T, E, F>(
        &self,
        request: &Request,
        operation: impl FnOnce(Lease) -> F,
        hold: impl FnOnce(&E) -> Option<(Duration, RetryAfter)>,
    ) -> Result<T, Error<E>>
    where
        T: Serialize + DeserializeOwned,
        F: Future<Output = Result<T, E>>,
    {
        let held = match self.begin(request).await? {
            Begun::Held(held) => held,
            Begun::Answered(answer) => return read(answer),
        };
        let error = match self.end(&held, operation).await {
            Ok(value) => {
                let done = self.done(&held, &value);
                self.complete(&held, &done).await?;
                // The first request must not get an answer that repetitions don't get.
                return match done.answer {
                    Some(Answer::NotKept(why)) => Err(Error::answer_not_kept(why)),
                    Some(Answer::Kept(_)) | None => Ok(value),
                };
            }
            Err(error) => error,
        };
        match hold(&error) {
            Some((time, come_back)) => {
                self.hold(&held, time).await;
                Err(Error::InDoubt { error, come_back })
            }
            None => {
                self.release(&held).await;
                Err(Error::Operation(error))
            }
        }
    }

    /// Runs the operation to its end. If it panics, frees the key and then resumes the panic.
    pub(super) async fn end<T, F: Future<Output = T>>(
        &self,
        held: &Held,
        operation: impl FnOnce(Lease) -> F,
    ) -> T {
        // Unwind safe, because the panic is resumed: callers see the same state as without this crate.
        let operation = AssertUnwindSafe(async { operation(held.lease()).await });
        match operation.catch_unwind().await {
            Ok(ended) => ended,
            Err(panic) => {
                self.release(held).await;
                resume_unwind(panic)
            }
        }
    }

    /// Claims the request's key, or returns the answer of an earlier run.
    pub(super) async fn begin<E>(&self, request: &Request) -> Result<Begun, Error<E>> {
        let Request { fingerprint, deadline, minimum, .. } = *request;
        // Lambda may deliver an event twice at the same time, so the request id alone is not unique.
        let owner = format!("{}/{:016x}", request.request_id, fastrand::u64(..));
        let claimant =
            Claimant { owner: &owner, deadline, retention: self.retention.saturating_add(MARGIN) };
        let key = request.stored_key(&self.scope);
        let mut found: Option<Box<Record>> = None;
        for _ in 0..LOOKS_MAX {
            let now = self.now();
            if is_late(now, deadline, minimum) {
                return Err(Error::Late { deadline, minimum });
            }
            // A key belongs to one intent, whether its operation is running, is done, or was abandoned.
            let valid = found.as_deref().filter(|record| !record.claim.is_expired(now));
            if let Some(other) = valid.filter(|record| record.fingerprint != fingerprint) {
                return Err(Error::mismatch(other.fingerprint, fingerprint));
            }
            let record = |claim| Record { claim, fingerprint, answer: None };
            let record = match claimant.judge(found.as_ref().map(|it| &it.claim), now) {
                Verdict::Take(claim) => record(claim),
                // The response to this owner's own write was lost.
                Verdict::Own(claim) => {
                    return Ok(Begun::Held(Held { key, record: record(claim), deadline }));
                }
                Verdict::Held { until } => {
                    let why = "another execution holds the key";
                    let come_back = RetryAfter::new(between(now, until), why);
                    return Err(Error::InProgress { until, come_back });
                }
                Verdict::Done => {
                    let none = || Answer::NotKept("none is stored".to_owned());
                    let answer = valid.and_then(|record| record.answer.clone());
                    return Ok(Begun::Answered(answer.unwrap_or_else(none)));
                }
            };
            match self.replace(&key, found.as_deref(), Some(&record), deadline).await {
                Ok(()) => {
                    let held = Held { key, record, deadline };
                    // The claim may have taken too long.
                    if is_late(self.now(), deadline, minimum) {
                        self.release(&held).await;
                        return Err(Error::Late { deadline, minimum });
                    }
                    return Ok(Begun::Held(held));
                }
                Err(ReplaceError::Changed(there)) => found = there,
                Err(ReplaceError::Fault(fault)) => {
                    // The write may have succeeded although its response was lost.
                    if fault.is_transient {
                        self.release(&Held { key, record, deadline }).await;
                    }
                    return Err(Error::Store(fault));
                }
            }
        }
        let message = "the record changed at every attempt to claim it".to_owned();
        Err(Error::Store(StoreFault { is_transient: true, code: None, message }))
    }

    /// Marks an operation as done. If the store fails, this is only logged, because the operation has been done.
    async fn complete<E>(&self, held: &Held, done: &Record) -> Result<(), Error<E>> {
        for nth in (1..=COMPLETIONS_MAX).filter_map(Attempt::new) {
            let fault = match self.rewrite(held, Some(done)).await {
                Ok(()) => return Ok(()),
                Err(ReplaceError::Changed(there)) => return check_done(there.as_deref(), done),
                Err(ReplaceError::Fault(fault)) => fault,
            };
            let pause = COMPLETION.delay_from(Duration::ZERO, nth, Draw::of(fastrand::u64(..)));
            let in_time = later(self.now(), pause + RETURN_TIME) < held.deadline;
            if nth.get() == COMPLETIONS_MAX || !fault.is_transient || !in_time {
                not_written!(
                    error,
                    self,
                    held,
                    fault,
                    "the operation was run but not marked as done: once its lease is over, a repetition runs it again"
                );
                return Ok(());
            }
            tokio::time::sleep(pause).await;
        }
        Ok(())
    }

    /// Frees the key. If another execution has taken it over, its record is kept and returned.
    pub(super) async fn release(&self, held: &Held) -> Option<Box<Record>> {
        match self.rewrite(held, None).await {
            Ok(()) => None,
            Err(ReplaceError::Changed(there)) => there,
            Err(ReplaceError::Fault(fault)) => {
                not_written!(
                    warn,
                    self,
                    held,
                    fault,
                    "the key could not be freed: a repetition waits until the lease is over"
                );
                None
            }
        }
    }

    /// Replaces the lease with one that ends after this time.
    async fn hold(&self, held: &Held, time: Duration) {
        let mut record = held.record.clone();
        record.claim.state = State::Held { until: later(self.now(), time) };
        if let Err(ReplaceError::Fault(fault)) = self.rewrite(held, Some(&record)).await {
            not_written!(
                warn,
                self,
                held,
                fault,
                "the key could not be held: once its lease is over, a repetition runs the operation"
            );
        }
    }

    /// Replaces this execution's record, or removes it if there is no `next`.
    async fn rewrite(&self, held: &Held, next: Option<&Record>) -> Result<(), ReplaceError> {
        self.replace(&held.key, Some(&held.record), next, held.deadline).await
    }

    async fn replace(
        &self,
        key: &str,
        seen: Option<&Record>,
        next: Option<&Record>,
        deadline: Timestamp,
    ) -> Result<(), ReplaceError> {
        // Boxed to keep the store's types out of the futures around it. Otherwise, in builds that are not incremental,
        // rustc rejects a handler that is generic over its store, such as that of `examples/charge_card.rs` ("queries
        // overflow the depth limit").
        let call: Pin<Box<dyn Future<Output = _> + Send + '_>> =
            Box::pin(self.store.replace(key, seen, next));
        let written = self.in_time(deadline, call).await;
        written.unwrap_or_else(|fault| Err(ReplaceError::Fault(fault)))
    }

    /// Waits for a call to the store, with a timeout that leaves the function enough time to return.
    pub(super) async fn in_time<T>(
        &self,
        deadline: Timestamp,
        call: impl Future<Output = T>,
    ) -> Result<T, StoreFault> {
        let Some(limit) = time_limit(between(self.now(), deadline)) else { return Ok(call.await) };
        timeout(limit, call).await.map_err(|_| {
            let message = format!("expected an answer within {limit:.1?}, got none");
            StoreFault { is_transient: true, code: None, message }
        })
    }

    /// Creates the record of an operation that is done, with this answer.
    pub(super) fn done(&self, held: &Held, value: &impl Serialize) -> Record {
        let expires_at = later(self.now(), self.retention.saturating_add(MARGIN));
        held.record.done(answer(value, self.store.answer_max()), expires_at)
    }
}

/// Whether too little time is left to start an operation.
fn is_late(now: Timestamp, deadline: Timestamp, minimum: Duration) -> bool {
    let left = between(now, deadline);
    left.is_zero() || left < minimum
}

/// The timeout of a call that starts with this much time left. In the last two seconds, it is half of that time.
///
/// If the function runs after its deadline, the deadline can't be correct, so there is no timeout.
fn time_limit(left: Duration) -> Option<Duration> {
    (!left.is_zero()).then(|| left - RETURN_TIME.min(left / 2))
}

/// Handles a failed write of the `done` record. If the store already has this record, an earlier write succeeded
/// although its response was lost. Otherwise another execution has taken over.
pub(super) fn check_done<E>(there: Option<&Record>, done: &Record) -> Result<(), Error<E>> {
    if is_same(there.map(|record| &record.claim), Some(&done.claim)) {
        return Ok(());
    }
    Err(Error::LostLease { there: there.map(|record| record.claim.token.clone()) })
}

fn answer<T: Serialize>(value: &T, max: usize) -> Answer {
    match serde_json::to_string(value) {
        Ok(json) if json.len() <= max => Answer::Kept(json),
        Ok(json) => {
            let size = json.len();
            Answer::NotKept(format!("expected at most {max} bytes of JSON, got {size}"))
        }
        Err(_) => Answer::NotKept(format!("{} can't be written as JSON", type_name::<T>())),
    }
}

/// Deserializes the answer for a repetition.
pub(super) fn read<T: DeserializeOwned, E>(answer: Answer) -> Result<T, Error<E>> {
    match answer {
        Answer::Kept(json) => {
            serde_json::from_str(&json).map_err(|error| Error::UnreadableAnswer {
                expected: type_name::<T>(),
                line: error.line(),
                column: error.column(),
            })
        }
        Answer::NotKept(why) => Err(Error::answer_not_kept(why)),
    }
}
