//! Tests the log lines about failed writes of records, and that no log contains secrets.

use std::{
    io::{self, Read},
    sync::{Arc, LazyLock},
};

use comeback::idempotency::{Memory, ReplaceError};
use serde_json::Value;
use tracing::{Dispatch, subscriber::NoSubscriber};

use super::{Call, Declined, Scene, Shaky, fault};

/// While there is only one dispatcher, tracing caches whether the thread that first reaches an event has a
/// subscriber. That may be the thread of another test. With a second dispatcher, tracing asks both.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

/// The log of an operation that returns `ends`, and whose second write to the store fails permanently.
async fn logged(ends: Result<String, Declined>) -> String {
    let (mut log, writer) = io::pipe().unwrap();
    let subscriber = tracing_subscriber::fmt().json().with_writer(Arc::new(writer)).finish();
    LazyLock::force(&SECOND);
    let logging = tracing::subscriber::set_default(subscriber);
    let store = Shaky::scripted([Call::Made, Call::Unmade(fault(false))]);
    let scene = Scene::new(store);
    drop(scene.once.run(&scene.request("charge 100"), async |_| ends).await);
    drop(logging);
    let mut lines = String::new();
    log.read_to_string(&mut lines).unwrap();
    lines
}

#[tokio::test]
async fn a_record_that_could_not_be_written_is_logged_with_the_hash_of_its_key() {
    for (ends, level, begins) in [
        (Ok("receipt 1".to_owned()), "ERROR", "the operation was run but not marked as done"),
        (Err(Declined), "WARN", "the key could not be freed"),
    ] {
        let log = logged(ends).await;
        let line: Value = serde_json::from_str(&log).unwrap();
        assert_eq!(
            (&line["level"], &line["target"]),
            (&level.into(), &"comeback::idempotency".into())
        );
        let fields = &line["fields"];
        assert!(fields["message"].as_str().unwrap().starts_with(begins), "{log}");
        assert_eq!((&fields["scope"], &fields["fault"]), (&"charges".into(), &"no answer".into()));
        // printf %s 'charges#card 4711' | sha256sum
        assert_eq!(fields["key_hash"], "dd90a21bdea83fa8");
        for secret in ["4711", "charge 100", "receipt"] {
            assert!(!log.contains(secret), "{log}");
        }
    }
}

#[tokio::test]
async fn debug_output_contains_neither_keys_nor_answers() {
    let store = Shaky::default();
    let scene = Scene::new(store.clone());
    scene.charge("receipt 1").await.unwrap();
    let record = store.written.lock().unwrap()[1].clone().unwrap();
    let charged = Scene::new(Memory::new());
    charged.charge("receipt 1").await.unwrap();
    let changed = ReplaceError::Changed(Some(Box::new(record.clone())));
    for shown in [
        format!("{:?}", scene.request("charge 100")),
        format!("{:?}", charged.once),
        format!("{record:?}"),
        format!("{:?}", record.answer),
        format!("{changed:?}"),
    ] {
        for secret in ["4711", "charge 100", "receipt"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
}
