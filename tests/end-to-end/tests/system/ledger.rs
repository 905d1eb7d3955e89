//! DynamoDB for the ledger and for functions. It is moto, which is independent of this project.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use moto::{Moto, create_register, create_table};

use crate::retry_loop::Plan;

pub const TABLE: &str = "ledger";

pub fn plan_with_ledger(endpoint: &str, settings: &[(&'static str, &str)]) -> Plan {
    let mut plan = Plan::quick(settings);
    plan.settings.push(("LEDGER_TABLE", TABLE.to_owned()));
    plan.settings.push(("AWS_ENDPOINT_URL_DYNAMODB", endpoint.to_owned()));
    plan
}

/// moto's server on a free port. Dropping it stops the server.
pub struct Tables {
    pub endpoint: String,
    client: aws_sdk_dynamodb::Client,
    _moto: Moto,
}

impl Tables {
    pub fn start() -> Self {
        let moto = Moto::start();
        let client = aws_sdk_dynamodb::Client::new(&moto::config(&moto.endpoint));
        Self { endpoint: moto.endpoint.clone(), client, _moto: moto }
    }

    pub async fn with_claims() -> Self {
        let tables = Self::start();
        tables.create(TABLE, "id").await;
        tables
    }

    /// A server with the table of claims and the index of the register.
    pub async fn with_register() -> Self {
        let tables = Self::start();
        create_register(&tables.client, TABLE).await;
        tables
    }

    /// The items of this function's events that wait for a retry, in the order of their due times.
    pub async fn waiting(&self, target: &str) -> Vec<HashMap<String, AttributeValue>> {
        let query = self
            .client
            .query()
            .table_name(TABLE)
            .index_name("waiting")
            .key_condition_expression("#target = :target")
            .expression_attribute_names("#target", "target")
            .expression_attribute_values(":target", text(target));
        let items = query.into_paginator().items().send();
        items.collect::<Result<_, _>>().await.unwrap()
    }

    /// Writes an operator's order for the event of this item. Returns whether the event still waited.
    pub async fn order(&self, item: &HashMap<String, AttributeValue>, order: &str) -> bool {
        let ordered = self
            .client
            .update_item()
            .table_name(TABLE)
            .key("id", item["id"].clone())
            .update_expression("SET #order = :order, #owner = :operator ADD #generation :one")
            .condition_expression("#state = :waiting")
            .expression_attribute_names("#order", "order")
            .expression_attribute_names("#owner", "owner")
            .expression_attribute_names("#generation", "generation")
            .expression_attribute_names("#state", "state")
            .expression_attribute_values(":order", text(order))
            .expression_attribute_values(":operator", text("operator"))
            .expression_attribute_values(":one", AttributeValue::N("1".to_owned()))
            .expression_attribute_values(":waiting", text("waiting"))
            .send()
            .await;
        match ordered {
            Ok(_) => true,
            Err(error) => {
                let error = error.into_service_error();
                assert!(error.is_conditional_check_failed_exception(), "{error}");
                false
            }
        }
    }

    /// Pauses a function's retries.
    pub async fn pause(&self, target: &str) {
        let put = self.client.put_item().table_name(TABLE);
        let put = put.item("id", text(&format!("target/{target}")));
        put.item("paused_at", AttributeValue::N("1".to_owned())).send().await.unwrap();
    }

    pub async fn resume(&self, target: &str) {
        let delete = self.client.delete_item().table_name(TABLE);
        delete.key("id", text(&format!("target/{target}"))).send().await.unwrap();
    }

    pub async fn create(&self, name: &str, key: &str) {
        create_table(&self.client, name, key).await;
    }

    /// The key and the state of every claim.
    pub async fn claims(&self) -> Vec<(String, String)> {
        let items = self.items(TABLE).await;
        let read =
            |item: &HashMap<String, AttributeValue>, name: &str| item[name].as_s().unwrap().clone();
        items.iter().map(|item| (read(item, "id"), read(item, "state"))).collect()
    }

    pub async fn items(&self, name: &str) -> Vec<HashMap<String, AttributeValue>> {
        self.client.scan().table_name(name).send().await.unwrap().items.unwrap()
    }
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}
