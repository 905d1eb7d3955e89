//! Marks an operation as done in one DynamoDB transaction with its writes.

use std::fmt;

use aws_sdk_dynamodb::types::{CancellationReason, TransactWriteItem};
use comeback_core::fault::store_fault_passes;
use comeback_dynamodb::NotCommitted;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    Answer, Error, Idempotency, Lease, Record, ReplaceError, Request, StoreFault,
    dynamo::{DynamoStore, extra_attributes, not_replaced},
    once::{Begun, check_done, read},
    store::Held,
};
use crate::PermanentFailure;

/// The maximum number of an operation's writes in one transaction. DynamoDB allows 100, of which one marks the
/// operation as done.
pub const WRITES_MAX: usize = 99;

/// The HTTP status of a cancellation.
const CANCELLED_STATUS: u16 = 400;

impl Idempotency<DynamoStore> {
    /// Runs an operation that returns writes to DynamoDB, then makes these writes and marks the operation as done
    /// in one transaction: all of the writes are made, exactly once, or none. This takes two calls to DynamoDB.
    ///
    /// If the transaction gets no response, for example after a timeout, the key is freed. If the transaction was
    /// committed, that fails. If not, it prevents a later commit.
    ///
    /// The function needs the permissions for its writes in addition to those for [`DynamoStore`]. Requires the
    /// feature `dynamodb`.
    ///
    /// # Errors
    ///
    /// The errors of [`Idempotency::run`]. Also if there are more than [`WRITES_MAX`] writes, if DynamoDB cancels
    /// the transaction, or if the answer can't be stored, which is checked before anything is written.
    pub async fn run_in_transaction<T, E, F>(
        &self,
        request: &Request,
        operation: impl FnOnce(Lease) -> F,
    ) -> Result<T, Error<E>>
    where
        T: Serialize + DeserializeOwned,
        F: Future<Output = Result<(T, Vec<TransactWriteItem>), E>>,
    {
        let held = match self.begin(request).await? {
            Begun::Held(held) => held,
            Begun::Answered(answer) => return read(answer),
        };
        let prepared = self.end(&held, operation).await.map_err(Error::Operation);
        match prepared.and_then(|(value, writes)| self.checked(&held, value, writes)) {
            Ok((value, done, writes)) => {
                self.commit(&held, &done, writes).await?;
                Ok(value)
            }
            Err(error) => {
                self.release(&held).await;
                Err(error)
            }
        }
    }

    /// Refuses too many writes, and an answer that can't be stored.
    fn checked<T: Serialize, E>(
        &self,
        held: &Held,
        value: T,
        writes: Vec<TransactWriteItem>,
    ) -> Result<(T, Record, Vec<TransactWriteItem>), Error<E>> {
        if writes.len() > WRITES_MAX {
            let fault = format!("expected at most {WRITES_MAX} writes, got {}", writes.len());
            return Err(Error::TooManyWrites(PermanentFailure::new(fault)));
        }
        let done = self.done(held, &value);
        if let Some(Answer::NotKept(why)) = done.answer {
            return Err(Error::BadAnswer(PermanentFailure::new(why)));
        }
        Ok((value, done, writes))
    }

    async fn commit<E>(
        &self,
        held: &Held,
        done: &Record,
        writes: Vec<TransactWriteItem>,
    ) -> Result<(), Error<E>> {
        let table = &self.store.0;
        let (seen, next) = (&held.record.claim, &done.claim);
        let commit = table.put_with(&held.key, seen, next, extra_attributes(done), writes);
        let made = self.in_time(held.deadline, commit).await;
        let error = match made.unwrap_or_else(|fault| Err(fault.into())) {
            Ok(()) => return Ok(()),
            Err(NotCommitted::Cancelled(reasons)) => cancelled(reasons),
            Err(NotCommitted::NotReplaced(why)) => match not_replaced(why) {
                ReplaceError::Changed(there) => return check_done(there.as_deref(), done),
                ReplaceError::Fault(fault) => Error::Store(fault),
            },
        };
        // Freeing the key fails if the transaction was committed, and otherwise prevents a later commit.
        match self.release(held).await {
            Some(there) if there.claim.is(&done.claim) => Ok(()),
            Some(_) | None => Err(error),
        }
    }
}

/// Converts a cancellation. Throttling and conflicts are transient; a refused write is not.
fn cancelled<E>(reasons: Vec<CancellationReason>) -> Error<E> {
    let cancelled = Cancelled(reasons);
    let is_transient =
        cancelled.causes().all(|(_, code)| store_fault_passes(Some(code), Some(CANCELLED_STATUS)));
    if !is_transient {
        return Error::Cancelled(cancelled);
    }
    let code = Some("TransactionCanceledException".to_owned());
    Error::Store(StoreFault { is_transient, code, message: cancelled.to_string() })
}

/// DynamoDB's code for a write that did not cause the cancellation.
const NO_REASON: &str = "None";

/// The reasons why DynamoDB cancelled the transaction of an operation.
///
/// Requires the feature `dynamodb`.
#[derive(Clone, PartialEq, thiserror::Error)]
#[error("{}", self.summary())]
pub struct Cancelled(Vec<CancellationReason>);

/// Omits the items that the reasons may contain.
impl fmt::Debug for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.causes()).finish()
    }
}

impl Cancelled {
    /// DynamoDB's reason for each write of the operation, in order, and then for the write that marks it as done.
    /// If a write did not cause the cancellation, its code is the text `None`.
    pub fn reasons(&self) -> &[CancellationReason] {
        &self.0
    }

    /// The writes that caused the cancellation, counted from 1.
    fn causes(&self) -> impl Iterator<Item = (usize, &str)> {
        let codes = (1..).zip(self.0.iter().map(|reason| reason.code().unwrap_or(NO_REASON)));
        codes.filter(|(_, code)| *code != NO_REASON)
    }

    fn summary(&self) -> String {
        let causes = self.causes().map(|(write, code)| format!("write {write}: {code}"));
        causes.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::AttributeValue;

    use super::*;

    #[test]
    fn debug_output_omits_the_items_in_the_reasons() {
        let card = AttributeValue::S("4711".to_owned());
        let met = CancellationReason::builder().code(NO_REASON).build();
        let failed =
            CancellationReason::builder().code("ConditionalCheckFailed").item("card", card).build();
        let shown = format!("{:?}", Cancelled(vec![met, failed]));
        assert_eq!(shown, r#"[(2, "ConditionalCheckFailed")]"#);
    }
}
