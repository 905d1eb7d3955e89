//! Writes a claim and its holder's own writes in one transaction.

use aws_sdk_dynamodb::{
    operation::transact_write_items::TransactWriteItemsError,
    types::{
        CancellationReason, Put, ReturnValuesOnConditionCheckFailure::AllOld, TransactWriteItem,
    },
};
use comeback_core::{claim::Claim, fault::StoreFault};

use crate::{
    ClaimTable, Item, NotReplaced,
    item::{self, Condition},
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
}
