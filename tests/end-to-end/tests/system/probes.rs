//! A target that is down is probed, and its events come back when it is up.

use std::collections::BTreeSet;

use chrono::{SecondsFormat, TimeDelta, Utc};
use serde_json::Value;

use crate::{
    ledger::{Tables, plan_with_ledger},
    retry_loop::TARGET,
};

const EVENTS: usize = 300;

/// How long the target is down.
const OUTAGE: TimeDelta = TimeDelta::seconds(60);

/// Without probes, each event would be retried about twelve times. The first retry of each is made before the handlers
/// can know that the target is down.
const RETRIES_MAX: usize = 3 * EVENTS;

#[tokio::test]
async fn a_target_that_is_down_is_probed_and_all_events_come_back() {
    let tables = Tables::with_register().await;
    let settings =
        [("MAX_BACKOFF", "5s"), ("JITTER", "none"), ("REGISTER", "true"), ("PROBE", "true")];
    let retry_loop = plan_with_ledger(&tables.endpoint, &settings).deploy().await;
    #[allow(clippy::disallowed_methods, reason = "the target fails until a time")]
    let up_at = Utc::now() + OUTAGE;
    let until = up_at.to_rfc3339_opts(SecondsFormat::Millis, true);
    for event in 0..EVENTS {
        retry_loop.invoke(&format!(r#"{{"id":{event},"fail":{{"until":"{until}"}}}}"#)).await;
    }
    let mut journal = retry_loop.cloud.journal();
    let (mut retried, mut succeeded) = (0, BTreeSet::new());
    while succeeded.len() < EVENTS {
        let run = journal.run(TARGET).await;
        let payload: Value = serde_json::from_str(&run.payload).unwrap();
        let is_retry = payload.get("_retry_metadata").is_some();
        if run.ending == "Succeeded" {
            let event = payload.get("_original_payload").unwrap_or(&payload);
            succeeded.insert(event["id"].as_u64().unwrap());
        } else if is_retry {
            retried += 1;
        }
    }
    assert!(retried < RETRIES_MAX, "{retried} retries while it was down");
}
