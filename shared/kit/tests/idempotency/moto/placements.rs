//! A play that places an order. All executions have one key, and make their effect in the transaction with the
//! mark.

use std::collections::HashMap;

use aws_sdk_dynamodb::{
    Client,
    config::{http::HttpResponse, timeout::TimeoutConfig},
    types::{AttributeValue, TransactWriteItem, Update},
};
use aws_smithy_runtime_api::client::{
    http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn},
    orchestrator::HttpRequest,
    result::ConnectorError,
};
use aws_smithy_types::body::SdkBody;
use comeback::idempotency::{Claim, DynamoStore, Request};

use super::Table;
use crate::{
    Clock, Declined, charges,
    world::{Gate, Play, Running, Step, claim},
};

/// The attribute that lists the executions that made the effect.
const MADE_BY: &str = "made_by";

/// The play: executions that place one order.
pub struct Placements<'t> {
    pub table: &'t Table,
    pub key: String,
}

/// The HTTP connection of one execution to DynamoDB. It waits at the execution's gate before each request.
#[derive(Clone, Debug)]
struct Gated {
    gate: Gate,
    http: reqwest::Client,
}

impl HttpConnector for Gated {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let Self { gate, http } = self.clone();
        HttpConnectorFuture::new(async move {
            let lost = Err(ConnectorError::io("no answer".into()));
            gate.call(lost, || async { Ok(sent(&http, &request).await) }).await
        })
    }
}

async fn sent(http: &reqwest::Client, request: &HttpRequest) -> HttpResponse {
    let body = request.body().bytes().unwrap().to_vec();
    let mut call = http.post(request.uri()).body(body);
    for (name, value) in request.headers() {
        call = call.header(name, value);
    }
    let answer = call.send().await.unwrap();
    let status = answer.status().as_u16().try_into().unwrap();
    HttpResponse::new(status, SdkBody::from(answer.bytes().await.unwrap()))
}

impl Play for Placements<'_> {
    const IS_ATOMIC: bool = true;

    fn begin(&self, nth: usize, gate: Gate, clock: &Clock) -> Running {
        let wire = Gated { gate: gate.clone(), http: self.table.http.clone() };
        let wire = SharedHttpConnector::new(wire);
        let config = self.table.client.config().to_builder();
        let config = config
            // An execution may wait at its gate for any length of time.
            .timeout_config(TimeoutConfig::disabled())
            .http_client(http_client_fn(move |_, _| wire.clone()));
        let store = DynamoStore::new(&Client::from_conf(config.build()), self.table.name);
        let once = charges(store, clock);
        let context = clock.context(&nth.to_string());
        let request = Request::new(&self.key, "place", &context).unwrap();
        let effect = self.effect(nth);
        Box::pin(async move {
            let place = async |_| {
                if gate.pass(Step::Effect).await.is_some() {
                    return Err(Declined);
                }
                Ok((nth, vec![effect]))
            };
            once.run_in_transaction(&request, place).await
        })
    }

    async fn end(self) -> (Claim, Vec<usize>) {
        let ended = (claim(&self.table.store(), &self.stored_key()).await, self.made_by().await);
        self.forget().await;
        ended
    }
}

impl Placements<'_> {
    /// The item with the list of executions.
    fn item(&self) -> HashMap<String, AttributeValue> {
        HashMap::from([("id".to_owned(), AttributeValue::S(format!("effect of {}", self.key)))])
    }

    /// A write that must not be repeated.
    fn effect(&self, nth: usize) -> TransactWriteItem {
        let number = AttributeValue::N(nth.to_string());
        let append = Update::builder()
            .table_name(self.table.name)
            .set_key(Some(self.item()))
            .update_expression("SET #made_by = list_append(if_not_exists(#made_by, :none), :nth)")
            .expression_attribute_names("#made_by", MADE_BY)
            .expression_attribute_values(":none", AttributeValue::L(Vec::new()))
            .expression_attribute_values(":nth", AttributeValue::L(vec![number]));
        TransactWriteItem::builder().update(append.build().unwrap()).build()
    }

    /// Deletes the items, because moto copies all items for each transaction.
    async fn forget(&self) {
        let record = HashMap::from([("id".to_owned(), AttributeValue::S(self.stored_key()))]);
        for item in [self.item(), record] {
            let delete = self.table.client.delete_item().table_name(self.table.name);
            delete.set_key(Some(item)).send().await.unwrap();
        }
    }

    async fn made_by(&self) -> Vec<usize> {
        let get = self.table.client.get_item().table_name(self.table.name);
        let got = get.set_key(Some(self.item())).send().await.unwrap();
        let numbers = got.item.unwrap()[MADE_BY].as_l().unwrap().clone();
        numbers.iter().map(|number| number.as_n().unwrap().parse().unwrap()).collect()
    }

    fn stored_key(&self) -> String {
        format!("charges#{}", self.key)
    }
}
