//! The store in DynamoDB, against moto, which is an independent implementation.

mod orders;
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

/// Counts the requests on the wire.
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

/// A table on the server that all tests share.
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
