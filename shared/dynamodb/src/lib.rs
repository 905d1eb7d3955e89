//! Claims in a DynamoDB table, one item each. The handler's ledger and the kit's idempotency share this code.
//!
//! The table has the string partition key `id`. That of the ledger also has the string sort key `run`, and its items
//! hold more than claims ([`runs`]). `expires_at` is the time-to-live attribute, by which DynamoDB deletes old items;
//! `comeback-core` decides whether a claim has expired. In addition to the claim, an item may have attributes of the
//! caller.
//!
//! Every write of a claim is conditional. If its condition fails, DynamoDB returns the current item, so no separate
//! read is needed.

mod item;
pub mod register;
mod runs;

use std::{
    collections::{BTreeSet, HashMap},
    error::Error,
    fmt,
    iter::successors,
    time::Duration,
};

use aws_sdk_dynamodb::{
    Client,
    config::{AsyncSleep, timeout::TimeoutConfig},
    error::{ProvideErrorMetadata, SdkError},
    operation::{
        delete_item::{DeleteItemError, builders::DeleteItemFluentBuilder},
        put_item::PutItemError,
        transact_write_items::TransactWriteItemsError,
        update_item::UpdateItemError,
    },
    types::{
        AttributeValue, CancellationReason, KeysAndAttributes, Put,
        ReturnValuesOnConditionCheckFailure::AllOld, TransactWriteItem,
    },
};
use comeback_core::{
    claim::Claim,
    fault::{self, StoreFault, store_fault_passes},
    lineage::Key,
    settings::contract::TABLE,
};
use futures_util::{StreamExt, TryStreamExt, stream};

use self::item::{Condition, number, text};
pub use self::{
    item::{ID, claim, key_of},
    runs::{NotWritten, known},
};

/// The sort key of the ledger's table.
pub const RUN: &str = TABLE.sort_key;

/// The timeout of one attempt. DynamoDB responds within milliseconds, and the action after the claim needs time, too.
pub const ATTEMPT_MAX: Duration = Duration::from_secs(1);

pub const CALL_MAX: Duration = Duration::from_secs(3);

/// DynamoDB reads at most this many items in one call.
pub const READ_MAX: usize = 100;

/// How many calls that read items run at the same time: enough for the largest batch of SQS, 10,000 messages.
const READS_AT_ONCE: usize = 10;

/// How often a call is made until DynamoDB has read all its items. It leaves some out if the table is throttled, or if
/// they are larger than 16 MB together.
const READ_ATTEMPTS: u32 = 4;

/// The pause before the second of these calls, which doubles before each further one.
const READ_PAUSE: Duration = Duration::from_millis(50);

/// How often [`ClaimTable::first`] calls. A call reads at most 1 MB.
const PAGES_MAX: u32 = 10;

pub type Item = HashMap<String, AttributeValue>;

#[derive(Clone, Debug)]
pub struct ClaimTable {
    client: Client,
    table: String,
}

#[derive(Clone, PartialEq)]
pub struct Found {
    pub claim: Claim,
    pub item: Item,
}

/// Omits the item, because the caller's attributes and the key may be confidential.
impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Found").field("claim", &self.claim).finish_non_exhaustive()
    }
}

/// Why a claim was not replaced. Contains the current claim, if there is one.
pub type NotReplaced = fault::NotReplaced<Option<Found>>;

const CONDITION_FAILED: &str = "ConditionalCheckFailed";

/// Why the transaction was not committed.
#[derive(Clone, Debug, PartialEq)]
pub enum NotCommitted {
    /// The claim could not be replaced.
    NotReplaced(NotReplaced),
    /// DynamoDB cancelled the transaction for another reason. Contains the reasons of the other writes in order, then
    /// that of the claim.
    Cancelled(Vec<CancellationReason>),
}

/// For failed calls. The writes may have been made nevertheless.
impl From<StoreFault> for NotCommitted {
    fn from(fault: StoreFault) -> Self {
        Self::NotReplaced(NotReplaced::Fault(fault))
    }
}

/// The first items of an index that have an attribute.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct First {
    pub items: Vec<Item>,
    /// Whether items without the attribute were read before or between them.
    pub has_passed_over: bool,
}

impl ClaimTable {
    /// Accesses the table with this name or ARN. If the client sets no timeouts, an attempt has 1 s and a call 3 s.
    pub fn new(client: &Client, table: String) -> Self {
        let config = client.config();
        let own = config.timeout_config().map(TimeoutConfig::to_builder).unwrap_or_default();
        let timeouts = own.take_unset_from(
            TimeoutConfig::builder()
                .operation_attempt_timeout(ATTEMPT_MAX)
                .operation_timeout(CALL_MAX),
        );
        let config = config.to_builder().timeout_config(timeouts.build()).build();
        Self { client: Client::from_conf(config), table }
    }

    /// Writes the `next` claim under this key, with the caller's attributes `extra`, if the current claim is the
    /// `seen` one. If `seen` is `None`, the key must have no claim. This takes one call.
    pub async fn put(
        &self,
        key: &str,
        seen: Option<&Claim>,
        next: &Claim,
        extra: Item,
    ) -> Result<(), NotReplaced> {
        let condition = Condition::of(seen);
        let call = self
            .client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(item::write(key, next, extra)))
            .condition_expression(condition.expression)
            .set_expression_attribute_names(Some(condition.names))
            .set_expression_attribute_values(condition.values)
            .return_values_on_condition_check_failure(AllOld);
        call.send().await.map(drop).map_err(|error| match error.as_service_error() {
            Some(PutItemError::ConditionalCheckFailedException(changed)) => {
                self.changed(changed.item())
            }
            _ => NotReplaced::Fault(self.fault(&error)),
        })
    }

    /// Removes the claim under this key, if it is the `seen` one. This takes one call.
    pub async fn delete(&self, key: &str, seen: Option<&Claim>) -> Result<(), NotReplaced> {
        let call = self.deletion(HashMap::from([(ID.to_owned(), text(key))]), seen);
        call.send().await.map(drop).map_err(|error| match error.as_service_error() {
            Some(DeleteItemError::ConditionalCheckFailedException(changed)) => {
                self.changed(changed.item())
            }
            _ => NotReplaced::Fault(self.fault(&error)),
        })
    }

    /// The call that removes the item with this key, if its claim is the `seen` one.
    fn deletion(&self, key: Item, seen: Option<&Claim>) -> DeleteItemFluentBuilder {
        let condition = Condition::of(seen);
        self.client
            .delete_item()
            .table_name(&self.table)
            .set_key(Some(key))
            .condition_expression(condition.expression)
            .set_expression_attribute_names(Some(condition.names))
            .set_expression_attribute_values(condition.values)
            .return_values_on_condition_check_failure(AllOld)
    }

    /// Like [`ClaimTable::put`], with other writes in the same transaction. This takes one call.
    pub async fn put_with(
        &self,
        key: &str,
        seen: &Claim,
        next: &Claim,
        extra: Item,
        others: Vec<TransactWriteItem>,
    ) -> Result<(), NotCommitted> {
        let condition = Condition::of(Some(seen));
        let put = Put::builder()
            .table_name(&self.table)
            .set_item(Some(item::write(key, next, extra)))
            .condition_expression(condition.expression)
            .set_expression_attribute_names(Some(condition.names))
            .set_expression_attribute_values(condition.values)
            .return_values_on_condition_check_failure(AllOld);
        let put = put.build().map_err(|error| self.unreadable(&error.to_string()))?;
        let own = TransactWriteItem::builder().put(put).build();
        let writes = others.into_iter().chain([own]).collect();
        let call = self.client.transact_write_items().set_transact_items(Some(writes));
        let Err(error) = call.send().await else { return Ok(()) };
        let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) =
            error.as_service_error()
        else {
            return Err(self.fault(&error).into());
        };
        let reasons = cancelled.cancellation_reasons();
        let own = reasons.last().filter(|own| own.code() == Some(CONDITION_FAILED));
        Err(match own.map(|own| self.changed(own.item())) {
            Some(why) => NotCommitted::NotReplaced(why),
            None => NotCommitted::Cancelled(reasons.to_vec()),
        })
    }

    /// Replaces an attribute of an item and increments its version, if the version is the `seen` one; 0 means that
    /// there is none. The item's other attributes are kept. This takes one call. If the version is another one, the
    /// error contains the current item, if there is one.
    pub async fn exchange(
        &self,
        key: &Key,
        version: &str,
        seen: u64,
        name: &str,
        value: &str,
    ) -> Result<(), fault::NotReplaced<Option<Item>>> {
        let mut call = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(primary(key)))
            .update_expression("SET #name = :value, #version = :next")
            .expression_attribute_names("#name", name)
            .expression_attribute_names("#version", version)
            .expression_attribute_values(":value", text(value))
            .expression_attribute_values(":next", number(seen.saturating_add(1)))
            .return_values_on_condition_check_failure(AllOld);
        call = match seen {
            0 => call.condition_expression("attribute_not_exists(#version)"),
            seen => call
                .condition_expression("#version = :seen")
                .expression_attribute_values(":seen", number(seen)),
        };
        call.send().await.map(drop).map_err(|error| match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(changed)) => {
                fault::NotReplaced::Changed(changed.item().cloned())
            }
            _ => fault::NotReplaced::Fault(self.fault(&error)),
        })
    }

    /// Queries the first `count` items of an index that have an attribute `with`, under a partition key and with a sort
    /// key greater than `after`. The first call reads `count` items, and each further one more, if some lack the
    /// attribute. Items behind many thousands without it are not found.
    pub async fn first(
        &self,
        index: &str,
        (partition, key): (&str, &str),
        (sort, after): (&str, i64),
        with: &str,
        count: u32,
    ) -> Result<First, StoreFault> {
        let mut limit = i32::try_from(count).unwrap_or(i32::MAX);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let mut first = First::default();
        let mut next = None;
        for _ in 0..PAGES_MAX {
            let call = self
                .client
                .query()
                .table_name(&self.table)
                .index_name(index)
                .key_condition_expression("#partition = :key AND #sort > :after")
                .filter_expression("attribute_exists(#with)")
                .expression_attribute_names("#partition", partition)
                .expression_attribute_names("#sort", sort)
                .expression_attribute_names("#with", with)
                .expression_attribute_values(":key", text(key))
                .expression_attribute_values(":after", number(after))
                .set_exclusive_start_key(next)
                .limit(limit);
            limit = limit.saturating_mul(4);
            let answer = call.send().await.map_err(|error| self.fault(&error))?;
            first.has_passed_over |= answer.scanned_count > answer.count;
            first.items.extend(answer.items.unwrap_or_default());
            next = answer.last_evaluated_key.filter(|key| !key.is_empty());
            if next.is_none() || first.items.len() >= count {
                break;
            }
        }
        first.items.truncate(count);
        Ok(first)
    }

    /// Reads the items under these keys, with as many eventually consistent calls as they need.
    pub async fn read(&self, keys: impl Iterator<Item = &Key>) -> Result<Vec<Item>, StoreFault> {
        let keys: Vec<_> = keys.map(primary).collect();
        let parts = keys.chunks(READ_MAX).map(|part| self.read_part(part.to_vec(), false));
        let parts = stream::iter(parts).buffer_unordered(READS_AT_ONCE);
        Ok(parts.try_collect::<Vec<_>>().await?.into_iter().flatten().collect())
    }

    /// Reads at most [`READ_MAX`] items.
    async fn read_part(
        &self,
        mut keys: Vec<Item>,
        is_consistent: bool,
    ) -> Result<Vec<Item>, StoreFault> {
        let mut items = Vec::new();
        for attempt in 0..READ_ATTEMPTS {
            let sleep = self.client.config().sleep_impl().filter(|_| attempt > 0);
            if let Some(sleep) = sleep {
                sleep.sleep(READ_PAUSE * (1 << (attempt - 1))).await;
            }
            let wanted = KeysAndAttributes::builder()
                .set_keys(Some(keys))
                .consistent_read(is_consistent)
                .build();
            let wanted = wanted.map_err(|error| self.unreadable(&error.to_string()))?;
            let call = self.client.batch_get_item().request_items(&self.table, wanted);
            let answer = call.send().await.map_err(|error| self.fault(&error))?;
            let left = answer.unprocessed_keys.unwrap_or_default().into_values();
            keys = left.flat_map(|left| left.keys).collect();
            // DynamoDB names the table even if it has found nothing.
            let read = answer.responses.filter(|read| !read.is_empty() || !keys.is_empty());
            let read = read.ok_or_else(|| self.unanswered("Responses"))?;
            items.extend(read.into_values().flatten());
            if keys.is_empty() {
                return Ok(items);
            }
        }
        let message =
            format!("table {}: throttled, {} items were not read", self.table, keys.len());
        Err(StoreFault { is_transient: true, code: None, message })
    }

    /// The error if the item in the table differs from the `seen` one.
    fn changed(&self, there: Option<&Item>) -> NotReplaced {
        let Some(there) = there.filter(|item| !item.is_empty()) else {
            return NotReplaced::Changed(None);
        };
        match item::claim(there) {
            Some(claim) => NotReplaced::Changed(Some(Found { claim, item: there.clone() })),
            None => NotReplaced::Fault(self.no_claim(there)),
        }
    }

    fn no_claim(&self, there: &Item) -> StoreFault {
        self.unreadable(&format!(
            "expected an item with the attributes of a claim, got one with {:?}",
            there.keys().collect::<BTreeSet<_>>()
        ))
    }

    /// The fault of an answer that says less than was asked. Nothing can be concluded from it.
    fn unanswered(&self, member: &str) -> StoreFault {
        let message = format!("table {}: expected an answer with {member}, got none", self.table);
        StoreFault { is_transient: true, code: None, message }
    }

    fn unreadable(&self, why: &str) -> StoreFault {
        StoreFault {
            is_transient: false,
            code: None,
            message: format!("table {}: {why}", self.table),
        }
    }

    /// Converts the error of a call, and classifies it as transient or permanent.
    fn fault<E>(&self, error: &SdkError<E>) -> StoreFault
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        let code = error.code();
        let status = error.raw_response().map(|response| response.status().as_u16());
        let said = error.message().map_or_else(|| words(error), str::to_owned);
        let said = if is_of_other_key(&said) { format!("{said}; {OTHER_KEY}") } else { said };
        StoreFault {
            is_transient: store_fault_passes(code, status),
            code: code.map(str::to_owned),
            message: format!("table {}: {said}", self.table),
        }
    }
}

/// What to do about a table with other keys than the ledger's. No table can be given other keys.
const OTHER_KEY: &str = "its keys are not those of a ledger: create a new table, with the string keys `id` and `run`, \
                         and set LEDGER_TABLE to its name (docs/ledger.md)";

/// Whether DynamoDB has refused a call because the table has other keys.
fn is_of_other_key(message: &str) -> bool {
    message.contains("match the schema") || message.contains("missed key schema element")
}

/// The primary key of a run's item.
pub fn primary(key: &Key) -> Item {
    Item::from([(ID.to_owned(), text(&key.id)), (RUN.to_owned(), text(&key.run))])
}

/// Joins the messages of an error and its sources. The SDK's own `DisplayErrorContext` includes the whole response,
/// which may contain confidential data of the caller.
fn words(error: &(dyn Error + 'static)) -> String {
    let mut said = error.to_string();
    for source in successors(error.source(), |&link| link.source()) {
        said = format!("{said}: {source}");
    }
    said
}

#[cfg(test)]
mod tests {
    use comeback_core::claim::{State, Token};

    use super::*;

    #[test]
    fn debug_output_omits_the_item_that_was_found() {
        let token = Token { generation: 1, owner: "request/1".to_owned() };
        let expires_at = "2026-02-15T12:00:00Z".parse().unwrap();
        let claim = Claim { token, state: State::Done, order: None, expires_at };
        let item = Item::from([
            (ID.to_owned(), text("card 4711")),
            ("answer".to_owned(), text("receipt 1")),
        ]);
        let shown = format!("{:?}", NotReplaced::Changed(Some(Found { claim, item })));
        assert!(shown.contains("request/1"), "{shown}");
        assert!(!shown.contains("4711") && !shown.contains("receipt"), "{shown}");
    }
}
