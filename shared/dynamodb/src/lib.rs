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

use std::collections::{BTreeSet, HashMap};

use aws_sdk_dynamodb::{
    Client,
    error::{BuildError, DisplayErrorContext, ProvideErrorMetadata, SdkError},
    operation::{delete_item::DeleteItemError, put_item::PutItemError},
    types::{AttributeValue, Put, ReturnValuesOnConditionCheckFailure::AllOld},
};
use comeback_core::{
    claim::Claim,
    fault::{StoreFault, store_fault_passes},
};

use crate::item::{Condition, ID};

/// The attributes of an item.
pub type Item = HashMap<String, AttributeValue>;

/// A table of claims.
#[derive(Clone, Debug)]
pub struct ClaimTable {
    client: Client,
    table: String,
}

/// A claim that is in the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The claim.
    pub claim: Claim,
    /// The whole item.
    pub item: Item,
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
    /// The table of this name or ARN.
    pub fn new(client: Client, table: String) -> Self {
        Self { client, table }
    }

    /// The client that the table is asked by.
    pub fn client(&self) -> &Client {
        &self.client
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

    /// What [`ClaimTable::put`] writes, as a part of a transaction of the caller's.
    ///
    /// # Errors
    ///
    /// None that is known: the parts that the SDK asks for are all there.
    pub fn put_in_transaction(
        &self,
        key: &str,
        seen: &Claim,
        next: &Claim,
        beside: Item,
    ) -> Result<Put, BuildError> {
        let condition = Condition::of(Some(seen));
        Put::builder()
            .table_name(&self.table)
            .set_item(Some(item::write(key, next, beside)))
            .condition_expression(condition.expression)
            .set_expression_attribute_names(Some(condition.names))
            .set_expression_attribute_values(condition.values)
            .return_values_on_condition_check_failure(AllOld)
            .build()
    }

    /// What is there instead of what was seen.
    pub fn changed(&self, there: Option<&Item>) -> NotReplaced {
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
    pub fn fault<E>(&self, error: &SdkError<E>) -> StoreFault
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let code = error.code();
        let status = error.raw_response().map(|response| response.status().as_u16());
        let said =
            error.message().map_or_else(|| DisplayErrorContext(error).to_string(), str::to_owned);
        StoreFault {
            passes: store_fault_passes(code, status),
            code: code.map(str::to_owned),
            message: format!("table {}: {said}", self.table),
        }
    }
}
