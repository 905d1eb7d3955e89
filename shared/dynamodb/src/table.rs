//! The ledger's table.

use aws_sdk_dynamodb::{
    Client,
    error::BuildError,
    operation::create_table::builders::CreateTableFluentBuilder,
    types::{
        AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType,
        Projection, ProjectionType, ScalarAttributeType,
    },
};
use comeback_core::contract::TABLE;

/// The request that creates a ledger's table with its register, as a deployment does.
pub fn create(client: &Client, name: &str) -> Result<CreateTableFluentBuilder, BuildError> {
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
        .attribute_definitions(attribute(TABLE.index_key, ScalarAttributeType::S)?)
        .attribute_definitions(attribute(TABLE.index_sort_key, ScalarAttributeType::N)?)
        .key_schema(key(TABLE.key, KeyType::Hash)?)
        .global_secondary_indexes(index);
    Ok(request)
}
