//! The store in DynamoDB, on moto: an implementation that nobody here wrote.

mod orders;
mod placements;
mod store;
mod transaction;

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use aws_sdk_dynamodb::{
    Client, Config,
    config::{
        BehaviorVersion, ConfigBag, Credentials, Intercept, Region, RuntimeComponents,
        interceptors::{
            BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
        },
        retry::RetryConfig,
    },
    error::BoxError,
};
use comeback::idempotency::{DynamoStore, Idempotency};
use moto::{Moto, create_table};

use super::Clock;

/// What goes over the wire: requests are counted, and answers can be lost.
#[derive(Clone, Default)]
struct Wire {
    sent: Arc<AtomicUsize>,
    losing: Arc<AtomicUsize>,
}

impl Wire {
    fn sent(&self) -> usize {
        self.sent.load(Ordering::SeqCst)
    }

    /// Loses the answers of the next requests, which are carried out all the same.
    fn lose(&self, answers: usize) {
        self.losing.store(answers, Ordering::SeqCst);
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wire")
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
        self.sent.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn read_after_transmit(
        &self,
        _: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let less = |left: usize| left.checked_sub(1);
        match self.losing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less) {
            Ok(_) => Err("the answer was lost".into()),
            Err(_) => Ok(()),
        }
    }
}

/// A table of its own on the one server of all tests.
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
        let config = Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new("us-east-1"))
            .credentials_provider(Credentials::new("key", "secret", None, None, "test"))
            .retry_config(RetryConfig::disabled())
            .endpoint_url(&MOTO.get_or_init(Moto::start).endpoint)
            .interceptor(wire.clone());
        let client = Client::from_conf(config.build());
        create_table(&client, name, "id").await;
        wire.sent.store(0, Ordering::SeqCst);
        Self { client, name, wire, http: reqwest::Client::new() }
    }

    fn store(&self) -> DynamoStore {
        DynamoStore::new(&self.client, self.name)
    }

    fn idempotency(&self, clock: &Clock) -> Idempotency<DynamoStore> {
        let clock = clock.clone();
        Idempotency::new("charges", self.store()).unwrap().with_clock(move || clock.now())
    }
}
