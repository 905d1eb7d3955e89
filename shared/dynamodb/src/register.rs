//! Converts waiting events to and from attributes, which are stored with the event's claim, in a table with an index
//! of them.

use aws_sdk_dynamodb::{
    Client,
    error::BuildError,
    operation::{
        create_table::builders::CreateTableFluentBuilder,
        update_item::builders::UpdateItemFluentBuilder,
    },
    types::{
        AttributeDefinition, AttributeValue, BillingMode, GlobalSecondaryIndex, KeySchemaElement,
        KeyType, Projection, ProjectionType, ScalarAttributeType,
    },
};
use comeback_core::{
    Timestamp,
    claim::{Order, State},
    lineage::Key,
    register::{Entry, Waiting},
    settings::contract::TABLE,
};

use crate::{
    Item,
    item::{self, claim, key_of, number, text},
    primary,
};

/// The index of waiting events, with the partition key [`TARGET`] and the sort key [`DUE_AT`].
pub const INDEX: &str = TABLE.index;
/// The function that an event is waiting for, as named in its failure record.
pub const TARGET: &str = TABLE.index_key;
/// When an event's wait ends, in milliseconds since 1970.
pub const DUE_AT: &str = TABLE.index_sort_key;
/// SQS's receipt handle of a message in flight.
pub const RECEIPT_HANDLE: &str = "receipt_handle";
/// When an operator paused a target, in milliseconds since 1970.
pub const PAUSED_AT: &str = "paused_at";
/// The value of [`TARGET`] in the items of paused targets, so that the index lists them, too. It is no ARN.
pub const PAUSES: &str = "paused";

/// The URL of the queue that has an event's message.
pub const QUEUE: &str = "queue";
const EVENT_ID: &str = "event_id";
const ATTEMPT: &str = "attempt";
const FIRST_FAILED_AT: &str = "first_failed_at";
const ERROR_TYPE: &str = "error_type";
const ERROR_MESSAGE: &str = "error_message";
const POLICY: &str = "policy";

/// The request that creates a ledger's table with its register, as a deployment does.
pub fn create_table(client: &Client, name: &str) -> Result<CreateTableFluentBuilder, BuildError> {
    let attribute = |name: &str, kind| {
        AttributeDefinition::builder().attribute_name(name).attribute_type(kind).build()
    };
    let key =
        |name: &str, kind| KeySchemaElement::builder().attribute_name(name).key_type(kind).build();
    let index = GlobalSecondaryIndex::builder()
        .index_name(TABLE.index)
        .key_schema(key(TABLE.index_key, KeyType::Hash)?)
        .key_schema(key(TABLE.index_sort_key, KeyType::Range)?)
        .projection(Projection::builder().projection_type(ProjectionType::All).build())
        .build()?;
    let request = client
        .create_table()
        .table_name(name)
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(attribute(TABLE.key, ScalarAttributeType::S)?)
        .attribute_definitions(attribute(TABLE.sort_key, ScalarAttributeType::S)?)
        .attribute_definitions(attribute(TABLE.index_key, ScalarAttributeType::S)?)
        .attribute_definitions(attribute(TABLE.index_sort_key, ScalarAttributeType::N)?)
        .key_schema(key(TABLE.key, KeyType::Hash)?)
        .key_schema(key(TABLE.sort_key, KeyType::Range)?)
        .global_secondary_indexes(index);
    Ok(request)
}

/// All attributes of a waiting event, to be written with its claim. Of an event that doesn't wait, none has a value.
pub(crate) fn attributes(
    waiting: Option<&Waiting<'_>>,
) -> [(&'static str, Option<AttributeValue>); 10] {
    let Some(waiting) = waiting else { return NAMES.map(|name| (name, None)) };
    [
        (TARGET, Some(text(waiting.target))),
        (DUE_AT, Some(number(waiting.due.timestamp_millis()))),
        (QUEUE, Some(text(waiting.queue_url))),
        (EVENT_ID, Some(text(waiting.event_id))),
        (ATTEMPT, Some(number(waiting.attempt))),
        (FIRST_FAILED_AT, Some(number(waiting.first_failure.timestamp_millis()))),
        (ERROR_TYPE, waiting.error_type.map(text)),
        (ERROR_MESSAGE, waiting.error_message.map(text)),
        (POLICY, waiting.policy.map(text)),
        (RECEIPT_HANDLE, waiting.receipt_handle.map(text)),
    ]
}

/// The names of these attributes.
const NAMES: [&str; 10] = [
    TARGET,
    DUE_AT,
    QUEUE,
    EVENT_ID,
    ATTEMPT,
    FIRST_FAILED_AT,
    ERROR_TYPE,
    ERROR_MESSAGE,
    POLICY,
    RECEIPT_HANDLE,
];

/// Reads when the wait of an item's event ends.
pub fn due(item: &Item) -> Option<Timestamp> {
    time(item, DUE_AT)
}

fn time(item: &Item, name: &str) -> Option<Timestamp> {
    let millis = item.get(name)?.as_n().ok()?.parse().ok()?;
    Timestamp::from_timestamp_millis(millis)
}

/// Reads the event of an item. Returns `None` if the event is not waiting, or if the item is incomplete.
pub fn entry(item: &Item) -> Option<Entry> {
    let claim = claim(item).filter(|claim| claim.state == State::Waiting)?;
    let text = |name: &str| item.get(name)?.as_s().ok().cloned();
    Some(Entry {
        key: key_of(item)?,
        target: text(TARGET)?,
        queue_url: text(QUEUE)?,
        event_id: text(EVENT_ID)?,
        attempt: item.get(ATTEMPT)?.as_n().ok()?.parse().ok()?,
        due: due(item)?,
        first_failure: time(item, FIRST_FAILED_AT)?,
        error_type: text(ERROR_TYPE),
        error_message: text(ERROR_MESSAGE),
        policy: text(POLICY),
        receipt_handle: text(RECEIPT_HANDLE),
        order: claim.order,
    })
}

/// Builds the write of an operator's order for this item, and keeps the item until `keep_until`. It fails if the
/// event is no longer waiting. If a handler read the item before, the handler's write fails and returns the order.
pub fn order(
    call: UpdateItemFluentBuilder,
    key: &Key,
    order: Order,
    operator: &str,
    keep_until: Timestamp,
) -> UpdateItemFluentBuilder {
    let set = "SET #order = :order, #owner = :operator, #expires_at = :keep_until";
    call.set_key(Some(primary(key)))
        .update_expression(format!("{set} ADD #generation :one"))
        .condition_expression("#state = :waiting")
        .expression_attribute_names("#order", item::ORDER)
        .expression_attribute_names("#owner", item::OWNER)
        .expression_attribute_names("#expires_at", item::EXPIRES_AT)
        .expression_attribute_names("#generation", item::GENERATION)
        .expression_attribute_names("#state", item::STATE)
        .expression_attribute_values(":order", text(item::order_name(order)))
        .expression_attribute_values(":operator", text(operator))
        .expression_attribute_values(":keep_until", number(keep_until.timestamp()))
        .expression_attribute_values(":one", number(1))
        .expression_attribute_values(":waiting", text(item::WAITING))
}

#[cfg(test)]
mod tests {
    use comeback_core::{Attempt, claim::Claim, target::Target};

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_timestamp_millis(millis).unwrap()
    }

    #[test]
    fn an_event_is_read_back_as_it_was_written() {
        let attempt = Attempt::new(3).unwrap();
        let waiting = |error_type, receipt_handle| Waiting {
            target: "arn:aws:lambda:us-east-1:123456789012:function:orders:$LATEST",
            queue_url: "https://sqs/1/retry",
            event_id: "first",
            attempt,
            due: at(2_000),
            first_failure: at(1_000),
            error_type,
            error_message: None,
            policy: error_type.map(|_| "Down of orders"),
            receipt_handle,
        };
        let mut claim = Claim::waiting("me".to_owned(), None, at(9_000_000));
        for (waiting, order) in [
            (waiting(Some("Down"), Some("handle")), None),
            (waiting(None, None), Some(Order::Cancel)),
        ] {
            claim.order = order;
            let target = Target::parse(waiting.target).unwrap();
            let key = Key::of(&target, "{}", "failed");
            let present = |all: &[(&str, Option<AttributeValue>)]| -> Item {
                let all = all.iter().cloned();
                all.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
            };
            let listed: Item =
                primary(&key).into_iter().chain(present(&attributes(Some(&waiting)))).collect();
            let with = |claim: &Claim, item: &Item| -> Item {
                item.clone().into_iter().chain(present(&item::attributes(claim))).collect()
            };
            assert_eq!(entry(&with(&claim.done(), &listed)), None);
            assert_eq!(entry(&with(&claim, &primary(&key))), None);
            let read = entry(&with(&claim, &listed)).unwrap();
            assert_eq!((&read.key, read.request_id()), (&key, "failed"));
            assert_eq!(read.target, waiting.target);
            assert_eq!((&*read.queue_url, &*read.event_id), (waiting.queue_url, "first"));
            assert_eq!((read.attempt, read.due, read.first_failure), (3, at(2_000), at(1_000)));
            assert_eq!(read.error_type.as_deref(), waiting.error_type);
            assert_eq!((read.error_message, read.order), (None, order));
            assert_eq!(read.policy.as_deref(), waiting.policy);
            assert_eq!(read.receipt_handle.as_deref(), waiting.receipt_handle);
        }
    }
}
