//! Tests the DynamoDB store against moto, an independent implementation of DynamoDB.

mod placements;
mod store;
mod transaction;

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use aws_sdk_dynamodb::{
    Client,
    config::{
        self, ConfigBag, Intercept, RuntimeComponents,
        interceptors::BeforeTransmitInterceptorContextRef,
    },
    error::BoxError,
};
use comeback::idempotency::DynamoStore;
use moto::{Moto, create_table};

use self::placements::Placements;
use super::world::{Faults, every_order};

/// Counts the HTTP requests that a client sends.
#[derive(Clone, Debug, Default)]
struct Wire(Arc<AtomicUsize>);

impl Wire {
    fn sent(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Intercept for Wire {
    fn name(&self) -> &'static str {
        "Wire"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// A test's table, on the moto server that all tests share.
struct Table {
    client: Client,
    name: &'static str,
    wire: Wire,
    http: reqwest::Client,
}

impl Table {
    async fn new(name: &'static str) -> Self {
        static MOTO: OnceLock<Moto> = OnceLock::new();
        let wire = Wire::default();
        let config = moto::config(&MOTO.get_or_init(Moto::start).endpoint);
        let config = config::Builder::from(&config).interceptor(wire.clone());
        let client = Client::from_conf(config.build());
        create_table(&client, name, "id").await;
        wire.0.store(0, Ordering::SeqCst);
        Self { client, name, wire, http: reqwest::Client::new() }
    }

    fn store(&self) -> DynamoStore {
        DynamoStore::new(&self.client, self.name)
    }
}

const NONE: Faults = Faults { crashes: 0, leases_over: 0, calls: 0, operations: 0 };
const LATE_OR_DEAD: Faults = Faults { crashes: 1, leases_over: 1, operations: 1, ..NONE };

#[tokio::test]
async fn in_every_order_a_transaction_is_made_once() {
    let table = Table::new("transactions").await;
    for (executions, faults, expected) in [
        (2, LATE_OR_DEAD, 249),
        (2, Faults { calls: 1, crashes: 1, ..NONE }, 108),
        (1, Faults { calls: 2, ..NONE }, 22),
        (3, Faults { operations: 1, ..NONE }, 14),
    ] {
        let placements = |play| Placements { table: &table, key: format!("order {play}") };
        let plays = every_order(executions, faults, placements);
        assert_eq!(plays.await, expected, "{executions} with {faults:?}");
    }
}
