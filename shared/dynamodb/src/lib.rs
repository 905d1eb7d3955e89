//! Claims in a DynamoDB table, one item each: what the handler's ledger and the idempotency of functions
//! have in common.
//!
//! The table has the partition key `id`, a string, and no sort key. `expires_at` is meant for its time to
//! live, which only cleans up: that a claim has expired is judged by `comeback-core`. Beside a claim an item
//! may have attributes of the caller.
//!
//! Every write is conditional on what was seen, and a condition that fails brings along what is there: so
//! nothing is ever read by a call of its own.

mod item;
mod transaction;

use std::{
    collections::{BTreeSet, HashMap},
    error::Error,
    fmt,
    iter::successors,
    time::Duration,
};

use aws_sdk_dynamodb::{
    Client,
    config::timeout::TimeoutConfig,
    error::{ProvideErrorMetadata, SdkError},
    operation::{delete_item::DeleteItemError, put_item::PutItemError},
    types::{AttributeValue, ReturnValuesOnConditionCheckFailure::AllOld},
};
use comeback_core::{
    claim::Claim,
    fault::{StoreFault, store_fault_passes},
};

pub use self::transaction::NotCommitted;
use crate::item::{Condition, ID};

/// One attempt of a call: DynamoDB answers within milliseconds, and what comes after a claim needs time too.
pub const ATTEMPT_MAX: Duration = Duration::from_secs(1);

/// A call with all its attempts.
pub const CALL_MAX: Duration = Duration::from_secs(3);

/// The attributes of an item.
pub type Item = HashMap<String, AttributeValue>;

/// A table of claims.
#[derive(Clone, Debug)]
pub struct ClaimTable {
    client: Client,
    table: String,
}

/// A claim that is in the table.
#[derive(Clone, PartialEq)]
pub struct Found {
    /// The claim.
    pub claim: Claim,
    /// The whole item.
    pub item: Item,
}

/// Without the item: what the caller keeps beside a claim may be confidential, and so may its key.
impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Found").field("claim", &self.claim).finish_non_exhaustive()
    }
}

/// Why an item is as it was.
#[derive(Clone, Debug, PartialEq)]
pub enum NotReplaced {
    /// Another was there than the one that was seen: this one, or none.
    Changed(Option<Found>),
    /// The table can't be asked. The write may still have been made.
    Fault(StoreFault),
}

impl ClaimTable {
    /// The table of this name or ARN, asked by this client. Where it has no time-outs of its own, a call has
    /// 3 s.
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

    /// Writes a claim and the attributes beside it in place of the claim that was `seen` under this key; if
    /// none was seen, where there is none. One call.
    ///
    /// # Errors
    ///
    /// Where another claim is there, and where the table can't be asked.
    pub async fn put(
        &self,
        key: &str,
        seen: Option<&Claim>,
        next: &Claim,
        beside: Item,
    ) -> Result<(), NotReplaced> {
        let condition = Condition::of(seen);
        let call = self
            .client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(item::write(key, next, beside)))
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

    /// Removes the claim that was `seen` under this key; if none was seen, makes sure that there is none.
    /// One call.
    ///
    /// # Errors
    ///
    /// Where another claim is there, and where the table can't be asked.
    pub async fn delete(&self, key: &str, seen: Option<&Claim>) -> Result<(), NotReplaced> {
        let condition = Condition::of(seen);
        let call = self
            .client
            .delete_item()
            .table_name(&self.table)
            .key(ID, AttributeValue::S(key.to_owned()))
            .condition_expression(condition.expression)
            .set_expression_attribute_names(Some(condition.names))
            .set_expression_attribute_values(condition.values)
            .return_values_on_condition_check_failure(AllOld);
        call.send().await.map(drop).map_err(|error| match error.as_service_error() {
            Some(DeleteItemError::ConditionalCheckFailedException(changed)) => {
                self.changed(changed.item())
            }
            _ => NotReplaced::Fault(self.fault(&error)),
        })
    }

    /// What is there instead of what was seen.
    fn changed(&self, there: Option<&Item>) -> NotReplaced {
        let Some(there) = there.filter(|item| !item.is_empty()) else {
            return NotReplaced::Changed(None);
        };
        match item::claim(there) {
            Some(claim) => NotReplaced::Changed(Some(Found { claim, item: there.clone() })),
            None => NotReplaced::Fault(StoreFault {
                passes: false,
                code: None,
                message: format!(
                    "table {}: expected an item with the attributes of a claim, got one with {:?}",
                    self.table,
                    there.keys().collect::<BTreeSet<_>>()
                ),
            }),
        }
    }

    /// What it means that a call failed.
    fn fault<E>(&self, error: &SdkError<E>) -> StoreFault
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        let code = error.code();
        let status = error.raw_response().map(|response| response.status().as_u16());
        let said = error.message().map_or_else(|| words(error), str::to_owned);
        StoreFault {
            passes: store_fault_passes(code, status),
            code: code.map(str::to_owned),
            message: format!("table {}: {said}", self.table),
        }
    }
}

/// What an error and its sources say. The SDK's own way to tell it has the whole response in it: an answer of
/// the caller's may be there, which is not to be logged.
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
    fn what_was_found_is_debugged_without_its_item() {
        let token = Token { generation: 1, owner: "request/1".to_owned() };
        let expires_at = "2026-02-15T12:00:00Z".parse().unwrap();
        let claim = Claim { token, state: State::Done, expires_at };
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let item = Item::from([
            (ID.to_owned(), text("card 4711")),
            ("answer".to_owned(), text("receipt 1")),
        ]);
        let shown = format!("{:?}", NotReplaced::Changed(Some(Found { claim, item })));
        assert!(shown.contains("request/1"), "{shown}");
        assert!(!shown.contains("4711") && !shown.contains("receipt"), "{shown}");
    }
}
