//! An operation is claimed before it is run, and marked as done after.

use std::{
    any::type_name,
    panic::{AssertUnwindSafe, resume_unwind},
    pin::Pin,
    time::Duration,
};

use comeback_core::{
    Attempt, Timestamp,
    backoff::{Backoff, Draw, Jitter},
    claim::{Claimant, LOOKS_MAX, State, is_same},
    time::{between, later},
};
use futures_util::FutureExt;
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::timeout;

use super::{
    Answer, Error, Idempotency, Lease, MARGIN, Record, ReplaceError, Request, Store, StoreFault,
    decide::{Action, decide},
    log,
    record::Held,
};
use crate::RetryAfter;

/// How a completion is tried again: the effect has been made, and a store that is down for seconds is not
/// to have it made twice.
const COMPLETION: Backoff =
    Backoff { base: Duration::from_millis(100), max: Duration::from_secs(2), jitter: Jitter::Full };

/// How often a completion is written. A client of DynamoDB makes attempts of its own in each.
const COMPLETIONS_MAX: u32 = 5;

/// What is left to the function when a call to the store is given up, to return its answer.
const RETURN_TIME: Duration = Duration::from_secs(1);

/// How a request begins.
pub(super) enum Begun {
    /// With an operation to run.
    Held(Held),
    /// With the answer of the one that was run.
    Answered(Answer),
}

impl<S: Store> Idempotency<S> {
    /// Runs the operation, unless it was run under this request's key before: then it answers what was
    /// answered then.
    ///
    /// Every error of the operation means that it may be run again, and frees the key at once; so does a panic. Where
    /// it can't be known whether the effect was made, as after a time-out, the service that makes it has to know the
    /// repetition: give it the key, too. Or have the key [held](Self::holding) for a while. See [what a caller can
    /// rely on](super#what-a-caller-can-rely-on).
    ///
    /// An operation is not begun where less than the request's [minimum](Request::with_minimum) is left, 5 s where
    /// nothing else is said.
    ///
    /// A future that is dropped before its end leaves its record as a crash does: held until the lease is
    /// over. A store that does not answer is waited for until a second before the deadline, as tokio's time
    /// tells it, so that the function still returns.
    ///
    /// ```
    /// # use comeback::idempotency::{Idempotency, Memory, Request};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let context = comeback::testing::context(std::time::Duration::from_secs(60));
    /// let charges = Idempotency::new("charges", Memory::new())?;
    /// let request = Request::new("order 7", "charge 100", &context)?;
    ///
    /// // What failed may be tried again.
    /// let declined = || Err::<String, _>(std::io::Error::other("the card was declined"));
    /// assert!(charges.run(&request, |_| async { declined() }).await.is_err());
    /// let paid = || Ok::<_, std::io::Error>("ch_1".to_owned());
    /// assert_eq!(charges.run(&request, |_| async { paid() }).await?, "ch_1");
    ///
    /// // What was done is not done again.
    /// assert_eq!(charges.run(&request, |_| async { declined() }).await?, "ch_1");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The operation's own; else why it may not be run, or not be answered for.
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

    /// Runs the operation, and where it fails holds the key for as long as is asked for.
    pub(super) async fn run_or_hold<T, E, F>(
        &self,
        request: &Request,
        operation: impl FnOnce(Lease) -> F,
        hold: impl FnOnce(&E) -> Option<Hold>,
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
                return answered(done, value);
            }
            Err(error) => error,
        };
        match hold(&error) {
            Some(Hold { time, come_back }) => {
                self.hold(&held, time).await;
                Err(Error::InDoubt { error, come_back })
            }
            None => {
                self.release(&held).await;
                Err(Error::Operation(error))
            }
        }
    }

    /// How the operation ends. One that panics frees its key before the panic goes on.
    pub(super) async fn end<T, F: Future<Output = T>>(
        &self,
        held: &Held,
        operation: impl FnOnce(Lease) -> F,
    ) -> T {
        // What it leaves behind half done is its author's to know, as without us: the panic goes on.
        let operation = AssertUnwindSafe(async { operation(held.lease()).await });
        match operation.catch_unwind().await {
            Ok(ended) => ended,
            Err(panic) => {
                self.release(held).await;
                resume_unwind(panic)
            }
        }
    }

    /// Claims the request's key, or finds what was answered.
    pub(super) async fn begin<E>(&self, request: &Request) -> Result<Begun, Error<E>> {
        let Request { fingerprint, deadline, minimum, .. } = *request;
        // The same event may be delivered twice, and at the same time: its request id alone is no name.
        let owner = format!("{}/{:016x}", request.request_id, fastrand::u64(..));
        let claimant = Claimant { owner: &owner, deadline, kept: self.kept.saturating_add(MARGIN) };
        let key = request.stored_key(&self.scope);
        let mut found = None;
        for _ in 0..LOOKS_MAX {
            let now = self.now();
            if is_late(now, deadline, minimum) {
                return Err(Error::Late { deadline, minimum });
            }
            let record = match decide(&claimant, fingerprint, found.as_deref(), now) {
                Action::Claim(record) => record,
                Action::Run(record) => return Ok(Begun::Held(Held { key, record, deadline })),
                Action::Answer(answer) => return Ok(Begun::Answered(answer)),
                Action::InProgress { until } => return Err(Error::in_progress(until, now)),
                Action::Mismatch(kept) => return Err(Error::mismatch(kept, fingerprint)),
            };
            match self.replace(&key, found.as_deref(), Some(&record), deadline).await {
                Ok(()) => {
                    let held = Held { key, record, deadline };
                    // The claim has taken its time.
                    if is_late(self.now(), deadline, minimum) {
                        self.release(&held).await;
                        return Err(Error::Late { deadline, minimum });
                    }
                    return Ok(Begun::Held(held));
                }
                Err(ReplaceError::Changed(there)) => found = there,
                Err(ReplaceError::Fault(fault)) => {
                    // The write may have been made, though its answer was lost.
                    if fault.passes {
                        self.release(&Held { key, record, deadline }).await;
                    }
                    return Err(Error::Store(fault));
                }
            }
        }
        let message = "the record changed each time it was looked at".to_owned();
        Err(Error::Store(StoreFault { passes: true, code: None, message }))
    }

    /// Marks an operation as done. A store that can't be asked does not undo what was done.
    async fn complete<E>(&self, held: &Held, done: &Record) -> Result<(), Error<E>> {
        for nth in (1..=COMPLETIONS_MAX).filter_map(Attempt::new) {
            let fault = match self.rewrite(held, Some(done)).await {
                Ok(()) => return Ok(()),
                Err(ReplaceError::Changed(there)) => return found_instead(there.as_deref(), done),
                Err(ReplaceError::Fault(fault)) => fault,
            };
            let pause = COMPLETION.delay_from(Duration::ZERO, nth, Draw::of(fastrand::u64(..)));
            let in_time = later(self.now(), pause + RETURN_TIME) < held.deadline;
            if nth.get() == COMPLETIONS_MAX || !fault.passes || !in_time {
                log::not_completed(self.scope.name(), held, &fault);
                return Ok(());
            }
            tokio::time::sleep(pause).await;
        }
        Ok(())
    }

    /// Frees the key for whoever comes next. What another has taken over by now is that one's affair.
    pub(super) async fn release(&self, held: &Held) {
        if let Err(ReplaceError::Fault(fault)) = self.rewrite(held, None).await {
            log::not_released(self.scope.name(), held, &fault);
        }
    }

    /// Keeps the key for so long from now on, whoever comes next.
    async fn hold(&self, held: &Held, time: Duration) {
        let mut record = held.record.clone();
        record.claim.state = State::Held { until: later(self.now(), time) };
        if let Err(ReplaceError::Fault(fault)) = self.rewrite(held, Some(&record)).await {
            log::not_held(self.scope.name(), held, &fault);
        }
    }

    /// Writes what becomes of a record that is held.
    pub(super) async fn rewrite(
        &self,
        held: &Held,
        next: Option<&Record>,
    ) -> Result<(), ReplaceError> {
        self.replace(&held.key, Some(&held.record), next, held.deadline).await
    }

    async fn replace(
        &self,
        key: &str,
        seen: Option<&Record>,
        next: Option<&Record>,
        deadline: Timestamp,
    ) -> Result<(), ReplaceError> {
        // Boxed, so that what the store's client is made of is not part of every future around it: rustc gives up
        // on the layout of a handler that is generic over its store ("queries overflow the depth limit").
        let call: Pin<Box<dyn Future<Output = _> + Send + '_>> =
            Box::pin(self.store.replace(key, seen, next));
        let written = self.in_time(deadline, call).await;
        written.unwrap_or_else(|fault| Err(ReplaceError::Fault(fault)))
    }

    /// Waits for a call to the store, but not for so long that Lambda kills the function before it has
    /// returned.
    pub(super) async fn in_time<T>(
        &self,
        deadline: Timestamp,
        call: impl Future<Output = T>,
    ) -> Result<T, StoreFault> {
        let Some(patience) = patience(between(self.now(), deadline)) else { return Ok(call.await) };
        timeout(patience, call).await.map_err(|_| {
            let message = format!("expected an answer within {patience:.1?}, got none");
            StoreFault { passes: true, code: None, message }
        })
    }

    /// The record of an operation that has answered this.
    pub(super) fn done(&self, held: &Held, value: &impl Serialize) -> Record {
        let expires_at = later(self.now(), self.kept.saturating_add(MARGIN));
        held.record.done(answer(value, self.store.answer_max()), expires_at)
    }
}

/// How long a key is held after an error, and the error that says so to the retry loop.
pub(super) struct Hold {
    pub(super) time: Duration,
    pub(super) come_back: RetryAfter,
}

/// Whether too little time is left to begin.
fn is_late(now: Timestamp, deadline: Timestamp, minimum: Duration) -> bool {
    let left = between(now, deadline);
    left.is_zero() || left < minimum
}

/// How long a call may be waited for that begins when so much time is left. What begins in the last seconds,
/// such as the release after a claim without an answer, has half of them.
///
/// One that is still there after its end was not killed: its deadline tells it nothing.
fn patience(left: Duration) -> Option<Duration> {
    (!left.is_zero()).then(|| left - RETURN_TIME.min(left / 2))
}

/// A write whose answer was lost, and that was made again, finds what it has written; another finds what
/// the next owner has written.
pub(super) fn found_instead<E>(there: Option<&Record>, done: &Record) -> Result<(), Error<E>> {
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

/// What is answered at first: the value itself, if repetitions will get it too.
fn answered<T, E>(done: Record, value: T) -> Result<T, Error<E>> {
    match done.answer {
        Some(Answer::NotKept(why)) => Err(Error::answer_not_kept(why)),
        Some(Answer::Kept(_)) | None => Ok(value),
    }
}

/// What is answered to a repetition.
pub(super) fn read<T: DeserializeOwned, E>(answer: Answer) -> Result<T, Error<E>> {
    match answer {
        Answer::Kept(json) => {
            serde_json::from_str(&json).map_err(|error| Error::unreadable::<T>(&error))
        }
        Answer::NotKept(why) => Err(Error::answer_not_kept(why)),
    }
}
