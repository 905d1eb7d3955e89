//! Tests the log lines about failed writes of records, and that no log contains secrets.

use comeback::idempotency::{Memory, ReplaceError};
use serde_json::Value;

use super::{Call, Declined, Scene, Shaky, fault};
use crate::Log;

const SECRETS: [&str; 3] = ["4711", "charge 100", "receipt"];

/// The log line of an operation that returns `ends`, and whose second write to the store fails permanently.
async fn logged(ends: Result<String, Declined>) -> Value {
    let log = Log::begin();
    let store = Shaky::scripted([Call::Made, Call::Unmade(fault(false))]);
    let scene = Scene::new(store);
    drop(scene.once.run(&scene.request("charge 100"), async |_| ends).await);
    let [line] = log.end_without(&SECRETS).try_into().unwrap();
    line
}

#[tokio::test]
async fn a_record_that_could_not_be_written_is_logged_with_the_hash_of_its_key() {
    for (ends, level, begins) in [
        (Ok("receipt 1".to_owned()), "ERROR", "the operation was run but not marked as done"),
        (Err(Declined), "WARN", "the key could not be freed"),
    ] {
        let line = logged(ends).await;
        let told = ["level", "target", "scope", "fault"].map(|name| &line[name]);
        assert_eq!(told, [level, "comeback::idempotency", "charges", "no answer"]);
        assert!(line["message"].as_str().unwrap().starts_with(begins), "{line}");
        // printf %s 'charges#card 4711' | sha256sum
        assert_eq!(line["key_hash"], "dd90a21bdea83fa8");
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
        assert!(SECRETS.iter().all(|secret| !shown.contains(secret)), "{shown}");
    }
}
