//! The store in DynamoDB, on moto: an implementation that nobody here wrote.

mod orders;
mod placements;
mod store;
mod transaction;

use std::{
    fmt,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
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
    types::{AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType},
};
use comeback::idempotency::{DynamoStore, Idempotency};

use super::Clock;

/// moto's server, which ends with the tests: they hold its standard input.
struct Moto {
    endpoint: String,
    _process: Child,
}

impl Moto {
    fn start() -> Self {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let made = Command::new(root.join("scripts/python"))
            .arg("tests/conformance/requirements.txt")
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let python = String::from_utf8(made.stdout).unwrap();
        let mut process = Command::new(python.trim())
            .arg(root.join("tests/conformance/moto_server.py"))
            .env_remove("PYTHONPATH")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut endpoint = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut endpoint).unwrap();
        assert!(endpoint.starts_with("http://127.0.0.1:"), "moto said {endpoint:?}");
        Self { endpoint: endpoint.trim().to_owned(), _process: process }
    }
}

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
        let attribute = AttributeDefinition::builder()
            .attribute_name("id")
            .attribute_type(ScalarAttributeType::S);
        let schema = KeySchemaElement::builder().attribute_name("id").key_type(KeyType::Hash);
        client
            .create_table()
            .table_name(name)
            .billing_mode(BillingMode::PayPerRequest)
            .attribute_definitions(attribute.build().unwrap())
            .key_schema(schema.build().unwrap())
            .send()
            .await
            .unwrap();
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
