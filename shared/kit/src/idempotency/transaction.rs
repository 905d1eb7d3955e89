//! An operation's writes to DynamoDB and its mark, all or nothing.

use std::fmt;

use aws_sdk_dynamodb::types::{CancellationReason, TransactWriteItem};
use comeback_core::fault::{StoreFault, store_fault_passes};
use comeback_dynamodb::{NotCommitted, NotReplaced};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    Answer, DynamoStore, Error, Idempotency, Lease, Record, ReplaceError, Request,
    dynamo::{beside, not_replaced},
    log,
    once::{Begun, found_instead, read},
    record::Held,
};
use crate::PermanentFailure;

/// How many writes of its own an operation may have in its transaction: DynamoDB takes 100 in all, and one is the
/// mark.
///
/// ```
/// use comeback::idempotency::WRITES_MAX;
///
/// let lines = ["two lamps", "a table"];
/// assert!(lines.len() <= WRITES_MAX, "an order of more lines can't be placed at once");
/// ```
pub const WRITES_MAX: usize = 99;

/// DynamoDB's code where a write had no part in a cancellation.
const NO_REASON: &str = "None";

/// The status of every cancellation.
const CANCELLED_STATUS: u16 = 400;

impl Idempotency<DynamoStore> {
    /// Runs an operation that only prepares writes to DynamoDB, and makes them in one transaction with the mark
    /// that it is done: all of them once, or none. Two calls in all.
    ///
    /// What has no answer, such as a time-out, is found out about at once: the key is freed, which fails if the
    /// transaction was made, and after which it can't be made any more.
    ///
    /// The function needs the permissions for its writes beside those of [`DynamoStore`]. This needs the feature
    /// `dynamodb`.
    ///
    /// ```
    /// # use aws_sdk_dynamodb::{Client, Config, config::{BehaviorVersion, Region, retry::RetryConfig}};
    /// use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem};
    /// use comeback::idempotency::{DynamoStore, Error, Idempotency, Request};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let context = comeback::testing::context(std::time::Duration::from_secs(60));
    /// # let config = Config::builder()
    /// #     .behavior_version(BehaviorVersion::latest())
    /// #     .region(Region::new("us-east-1"))
    /// #     .allow_no_auth()
    /// #     .retry_config(RetryConfig::disabled())
    /// #     .endpoint_url("http://127.0.0.1:1");
    /// # let client = Client::from_conf(config.build());
    /// let orders = Idempotency::new("orders", DynamoStore::new(&client, "requests"))?;
    /// let request = Request::new("order 7", "two lamps", &context)?;
    /// let placed = orders.run_in_transaction(&request, |_lease| async {
    ///     let order = Put::builder()
    ///         .table_name("orders")
    ///         .item("id", AttributeValue::S("order 7".to_owned()))
    ///         .item("line", AttributeValue::S("two lamps".to_owned()))
    ///         .build()?;
    ///     let write = TransactWriteItem::builder().put(order).build();
    ///     Ok::<_, aws_sdk_dynamodb::error::BuildError>(("placed".to_owned(), vec![write]))
    /// });
    /// # assert!(matches!(placed.await, Err(Error::Store(fault)) if fault.passes));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Idempotency::run`]; and where there are more than [`WRITES_MAX`] writes, or DynamoDB refuses
    /// one. An answer that can't be kept is refused before anything is written.
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
            Ok(Prepared { value, done, writes }) => {
                self.commit(&held, &done, writes).await?;
                Ok(value)
            }
            Err(error) => {
                self.release(&held).await;
                Err(error)
            }
        }
    }

    /// Refuses before anything is written what could not be written, or not be answered to a repetition.
    fn checked<T: Serialize, E>(
        &self,
        held: &Held,
        value: T,
        writes: Vec<TransactWriteItem>,
    ) -> Result<Prepared<T>, Error<E>> {
        if writes.len() > WRITES_MAX {
            return Err(too_many(writes.len()));
        }
        let done = self.done(held, &value);
        if let Some(Answer::NotKept(why)) = done.answer {
            return Err(Error::BadAnswer(PermanentFailure::new(why)));
        }
        Ok(Prepared { value, done, writes })
    }

    /// Makes the writes and the mark.
    async fn commit<E>(
        &self,
        held: &Held,
        done: &Record,
        writes: Vec<TransactWriteItem>,
    ) -> Result<(), Error<E>> {
        let table = self.store.table();
        let (seen, next) = (&held.record.claim, &done.claim);
        let commit = table.put_with(&held.key, seen, next, beside(done), writes);
        let made = self.in_time(held.deadline, commit).await;
        let error = match made.unwrap_or_else(|fault| Err(NotCommitted::Fault(fault))) {
            Ok(()) => return Ok(()),
            Err(NotCommitted::Changed(there)) => {
                return match not_replaced(NotReplaced::Changed(there)) {
                    ReplaceError::Changed(there) => found_instead(there.as_deref(), done),
                    ReplaceError::Fault(fault) => Err(Error::Store(fault)),
                };
            }
            Err(NotCommitted::Cancelled(reasons)) => cancelled(reasons),
            Err(NotCommitted::Fault(fault)) => Error::Store(fault),
        };
        // What frees the key finds out whether the transaction was made, and bars it where it was not.
        match self.rewrite(held, None).await {
            Err(ReplaceError::Changed(Some(there))) if there.claim.is(&done.claim) => Ok(()),
            Err(ReplaceError::Fault(fault)) => {
                log::not_released(self.scope.name(), held, &fault);
                Err(error)
            }
            Ok(()) | Err(ReplaceError::Changed(_)) => Err(error),
        }
    }
}

/// What one transaction is to write, and then to answer.
struct Prepared<T> {
    value: T,
    done: Record,
    writes: Vec<TransactWriteItem>,
}

/// Why DynamoDB has refused an operation's writes.
///
/// This needs the feature `dynamodb`.
///
/// ```
/// use aws_sdk_dynamodb::types::CancellationReason;
/// use comeback::idempotency::Error;
///
/// fn is_taken(error: &Error<std::fmt::Error>) -> bool {
///     let failed = |reason: &CancellationReason| reason.code() == Some("ConditionalCheckFailed");
///     matches!(error, Error::Cancelled(cancelled) if cancelled.reasons().iter().any(failed))
/// }
/// # assert!(!is_taken(&Error::Operation(std::fmt::Error)));
/// ```
#[derive(Clone, PartialEq, thiserror::Error)]
pub struct Cancelled(Vec<CancellationReason>);

/// Without the items that DynamoDB may have told in its reasons.
impl fmt::Debug for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(blamed(&self.0)).finish()
    }
}

impl Cancelled {
    /// DynamoDB's reason for each of the operation's writes, in their order, and last for the mark. The code is
    /// `None`, as a text, where a write had no part in it.
    pub fn reasons(&self) -> &[CancellationReason] {
        &self.0
    }
}

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, (write, code)) in blamed(&self.0).enumerate() {
            let separator = if nth == 0 { "" } else { ", " };
            write!(f, "{separator}write {write}: {code}")?;
        }
        Ok(())
    }
}

/// The writes that are to blame, counted from 1.
fn blamed(reasons: &[CancellationReason]) -> impl Iterator<Item = (usize, &str)> {
    let codes = reasons.iter().map(|reason| reason.code().unwrap_or(NO_REASON));
    codes.enumerate().map(|(nth, code)| (nth + 1, code)).filter(|(_, code)| *code != NO_REASON)
}

/// What throttles or is in each other's way passes; what a write is refused for by itself doesn't.
fn cancelled<E>(reasons: Vec<CancellationReason>) -> Error<E> {
    let passes =
        blamed(&reasons).all(|(_, code)| store_fault_passes(Some(code), Some(CANCELLED_STATUS)));
    let cancelled = Cancelled(reasons);
    if !passes {
        return Error::Cancelled(cancelled);
    }
    let code = Some("TransactionCanceledException".to_owned());
    Error::Store(StoreFault { passes, code, message: cancelled.to_string() })
}

fn too_many<E>(writes: usize) -> Error<E> {
    let what = format!("expected at most {WRITES_MAX} writes, got {writes}");
    Error::TooManyWrites(PermanentFailure::new(what))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use aws_sdk_dynamodb::types::AttributeValue;

    use super::*;

    #[test]
    fn a_cancellation_is_debugged_without_the_items_in_its_reasons() {
        let card = AttributeValue::S("4711".to_owned());
        let met = CancellationReason::builder().code(NO_REASON).build();
        let failed =
            CancellationReason::builder().code("ConditionalCheckFailed").item("card", card).build();
        let shown = format!("{:?}", cancelled::<Infallible>(vec![met, failed]));
        assert_eq!(shown, r#"Cancelled([(2, "ConditionalCheckFailed")])"#);
    }
}
