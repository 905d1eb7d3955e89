//! Conditional writes of versioned attributes, and queries of an index.

use aws_sdk_dynamodb::{
    operation::update_item::UpdateItemError, types::ReturnValuesOnConditionCheckFailure::AllOld,
};
use comeback_core::fault::StoreFault;

use crate::{
    ClaimTable, Item,
    item::{ID, number, text},
};

/// Why an attribute was not replaced.
#[derive(Clone, Debug, PartialEq)]
pub enum NotExchanged {
    /// The version is not the `seen` one. Contains the current item, if there is one.
    Changed(Option<Item>),
    /// The call failed. The write may have succeeded nevertheless.
    Fault(StoreFault),
}

impl ClaimTable {
    /// Replaces an attribute of an item and increments its version, if the version is the `seen` one; 0 means that
    /// there is none. The item's other attributes are kept. This takes one call.
    pub async fn exchange(
        &self,
        key: &str,
        version: &str,
        seen: u64,
        name: &str,
        value: &str,
    ) -> Result<(), NotExchanged> {
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
                NotExchanged::Changed(changed.item().cloned())
            }
            _ => NotExchanged::Fault(self.fault(&error)),
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
