//! A target that is down is probed, and its events come back when it is up.

use std::{collections::BTreeSet, time::Duration};

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use serde_json::Value;

use crate::{
    ledger::{Tables, plan_with_ledger},
    retry_loop::TARGET,
};

/// Two events a second arrive for two and a half minutes.
const EVENTS: usize = 300;
const INTERVAL: Duration = Duration::from_millis(500);

/// How long the target is down.
const OUTAGE: TimeDelta = TimeDelta::minutes(3);

/// How long after the outage the first event succeeds: probes are at most a minute apart, and at most ten seconds late.
const SEEN_WITHIN: TimeDelta = TimeDelta::seconds(70);

/// Without probes, there are 2,384 retries.
const RETRIES_MAX: usize = 2 * EVENTS;

/// After the first half of the outage nothing but waiting events is there to take the circuit's steps.
#[tokio::test]
async fn recovery_is_seen_within_seventy_seconds_and_all_events_come_back() {
    let tables = Tables::with_register().await;
    let settings = [("MAX_BACKOFF", "12h"), ("REGISTER", "true"), ("PROBE", "true")];
    let retry_loop = plan_with_ledger(&tables.endpoint, &settings).deploy().await;
    #[allow(clippy::disallowed_methods, reason = "the target fails until a time")]
    let up_at = Utc::now() + OUTAGE;
    let until = up_at.to_rfc3339_opts(SecondsFormat::Millis, true);
    let send = async {
        let mut ticks = tokio::time::interval(INTERVAL);
        for event in 0..EVENTS {
            ticks.tick().await;
            retry_loop.invoke(&format!(r#"{{"id":{event},"fail":{{"until":"{until}"}}}}"#)).await;
        }
    };
    let follow = async {
        let mut journal = retry_loop.cloud.journal();
        let mut retried = 0;
        let mut first_success: Option<DateTime<Utc>> = None;
        let mut succeeded = BTreeSet::new();
        while succeeded.len() < EVENTS {
            let run = journal.run(TARGET).await;
            let payload: Value = serde_json::from_str(&run.payload).unwrap();
            let event = payload.get("_original_payload").unwrap_or(&payload);
            if run.ending == "Succeeded" {
                first_success.get_or_insert(run.ended_at);
                succeeded.insert(event["id"].as_u64().unwrap());
            } else if event != &payload {
                retried += 1;
            }
        }
        (retried, first_success.unwrap() - up_at)
    };
    let ((), (retried, seen_after)) = tokio::join!(send, follow);
    assert!(retried < RETRIES_MAX, "{retried} retries while it was down");
    assert!(seen_after <= SEEN_WITHIN, "the first success came {seen_after} after the outage");
}
