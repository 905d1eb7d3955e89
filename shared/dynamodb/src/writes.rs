//! Conditional writes beside that of a claim alone: with the holder's own writes in one transaction, and of versioned
//! attributes. Also queries of an index.

use aws_sdk_dynamodb::{
    operation::{transact_write_items::TransactWriteItemsError, update_item::UpdateItemError},
    types::{
        CancellationReason, Put, ReturnValuesOnConditionCheckFailure::AllOld, TransactWriteItem,
    },
};
use comeback_core::{
    claim::Claim,
    fault::{self, StoreFault},
};

use crate::{
    ClaimTable, Item, NotReplaced,
    item::{self, Condition, ID, number, text},
};

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

impl ClaimTable {
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
            .return_values_on_condition_check_failure(AllOld)
            .build()
            .map_err(|error| self.unreadable(&error.to_string()))?;
        let call = self
            .client
            .transact_write_items()
            .set_transact_items(Some(others))
            .transact_items(TransactWriteItem::builder().put(put).build());
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
        key: &str,
        version: &str,
        seen: u64,
        name: &str,
        value: &str,
    ) -> Result<(), fault::NotReplaced<Option<Item>>> {
        let mut call = self
            .client
            .update_item()
            .table_name(&self.table)
            .key(ID, text(key))
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

    /// Queries the first items of an index under a partition key, with a sort key greater than `after`. Returns as
    /// many as one call does, at most `count`.
    pub async fn first(
        &self,
        index: &str,
        (partition, key): (&str, &str),
        (sort, after): (&str, i64),
        count: u32,
    ) -> Result<Vec<Item>, StoreFault> {
        let call = self
            .client
            .query()
            .table_name(&self.table)
            .index_name(index)
            .key_condition_expression("#partition = :key AND #sort > :after")
            .expression_attribute_names("#partition", partition)
            .expression_attribute_names("#sort", sort)
            .expression_attribute_values(":key", text(key))
            .expression_attribute_values(":after", number(after))
            .limit(i32::try_from(count).unwrap_or(i32::MAX));
        let answer = call.send().await.map_err(|error| self.fault(&error))?;
        Ok(answer.items.unwrap_or_default())
    }
}
