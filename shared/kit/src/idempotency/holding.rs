//! Holds the key of an operation that failed but may have been done.

use std::{fmt, time::Duration};

use comeback_core::{claim::LIFE_MAX, duration};
use serde::{Serialize, de::DeserializeOwned};

use super::{BadRequest, Error, Idempotency, Lease, Request, Store};
use crate::{
    RetryAfter,
    retry::{Cause, Words},
};

/// Runs operations once, and holds the key after an error if the operation may have been done; see
/// [`Idempotency::holding`].
#[derive(Clone, Copy)]
pub struct Holding<'a, S, R> {
    once: &'a Idempotency<S>,
    time: Duration,
    may_be_done: R,
}

impl<S: fmt::Debug, R> fmt::Debug for Holding<'_, S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { once, time, may_be_done: _ } = self;
        f.debug_struct("Holding").field("once", once).field("time", time).finish_non_exhaustive()
    }
}

impl<S> Idempotency<S> {
    /// Holds the key for this time, at most 15 minutes, after an error for which `may_be_done` returns true. No
    /// repetition runs in the meantime, and the retry loop brings the event back afterwards. This gives the
    /// service time to finish the operation, or you time to check its outcome.
    ///
    /// [`transient::may_be_done`](crate::transient::may_be_done) is such a function. It returns true for timeouts,
    /// broken connections, unreadable responses, and statuses such as 500 and 409.
    ///
    /// ```
    /// use std::{io, time::Duration};
    /// use comeback::{
    ///     Failure,
    ///     idempotency::{Error, Idempotency, Memory, Request},
    ///     testing,
    ///     transient::may_be_done,
    /// };
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let charges = Idempotency::new("charges", Memory::new())?;
    /// let charges = charges.holding(Duration::from_secs(120), may_be_done)?;
    /// let request = Request::new("order 7", "charge 100", &testing::context(Duration::from_secs(30)))?;
    ///
    /// let timed_out = || Err::<String, _>(io::Error::from(io::ErrorKind::TimedOut));
    /// let error = charges.run(&request, |_| async { timed_out() }).await.unwrap_err();
    /// assert_eq!(Failure::from(error).to_string(), "RetryAfter: 120s: timed out");
    ///
    /// let charge = || Ok::<_, io::Error>("ch_1".to_owned());
    /// let error = charges.run(&request, |_| async { charge() }).await.unwrap_err();
    /// assert!(matches!(error, Error::InProgress { .. }));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the time is longer than 15 minutes.
    pub fn holding<R>(
        &self,
        time: Duration,
        may_be_done: R,
    ) -> Result<Holding<'_, S, R>, BadRequest> {
        // Other executions ignore a lease that is longer than any invocation.
        if time > LIFE_MAX {
            let [most, time] = [LIFE_MAX, time].map(duration::format);
            let fault = format!("a key may be held for at most {most}, got {time}");
            return Err(BadRequest::one(fault));
        }
        Ok(Holding { once: self, time, may_be_done })
    }
}

impl<S: Store, R> Holding<'_, S, R> {
    /// Runs the operation like [`Idempotency::run`], but holds the key if the operation may have been done despite
    /// an error.
    ///
    /// # Errors
    ///
    /// The errors of [`Idempotency::run`], and [`Error::InDoubt`].
    pub async fn run<T, E, Form, F>(
        &self,
        request: &Request,
        operation: impl FnOnce(Lease) -> F,
    ) -> Result<T, Error<E>>
    where
        T: Serialize + DeserializeOwned,
        E: Cause<Form>,
        R: Fn(&E) -> bool,
        F: Future<Output = Result<T, E>>,
    {
        let Self { once, time, may_be_done } = self;
        let hold = |error: &E| {
            let come_back = || RetryAfter::new(*time, Words::of(error.as_error()));
            may_be_done(error).then(|| (*time, come_back()))
        };
        once.run_or_hold(request, operation, hold).await
    }
}
