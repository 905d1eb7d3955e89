//! A target that is down for long, and more events than SQS can have messages in flight.

use std::{collections::BTreeSet, time::Duration};

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use serde_json::Value;

use crate::{
    once_per_failure::beside_tables,
    processes::kill_all,
    retry_loop::{Plan, TARGET, failure_record},
};

/// How many events wait at once: more than SQS can have messages in flight.
const OVERFLOW: usize = 5_000;

/// The limit on a queue's messages in flight, and the number from which the handler keeps waits as delays.
const IN_FLIGHT_MAX: u32 = 200;
const DELAYS_FROM: u32 = 150;

fn record(event: usize) -> String {
    let payload = format!(r#"{{"id":{event}, "price":10.10}}"#);
    failure_record(&format!("failed-{event}"), &payload)
}

#[tokio::test]
async fn all_events_of_an_overflow_come_back_though_handlers_are_killed() {
    let delays_from = DELAYS_FROM.to_string();
    let settings =
        [("BASE_BACKOFF", "10s"), ("MAX_BACKOFF", "10s"), ("IN_FLIGHT_MAX", &*delays_from)];
    let plan = Plan { in_flight_max: Some(IN_FLIGHT_MAX), ..Plan::quick(&settings) };
    let retry_loop = plan.deploy().await;
    // Of each count of the queue's messages, the larger one.
    let larger = |most: [u32; 3], counts: [u32; 3]| {
        std::array::from_fn(|place| most[place].max(counts[place]))
    };
    let enqueue = async {
        let mut most = [0; 3];
        for part in 0..10 {
            let events = part * OVERFLOW / 10..(part + 1) * OVERFLOW / 10;
            retry_loop.enqueue(&events.map(record).collect::<Vec<_>>()).await;
            most = larger(most, retry_loop.counts(&retry_loop.retry_queue).await);
            if part % 4 == 3 {
                kill_all(&retry_loop.handlers()).await;
            }
        }
        most
    };
    let mut journal = retry_loop.cloud.journal();
    // Beside the sending, because the journal keeps only its last entries.
    let read = async {
        let mut most = [0; 3];
        let mut succeeded = BTreeSet::new();
        while succeeded.len() < OVERFLOW {
            let run = journal.run(TARGET).await;
            assert_eq!(run.ending, "Succeeded");
            assert!(run.payload.contains(r#""_original_payload":{"id":"#), "{}", run.payload);
            assert!(run.payload.contains(r#", "price":10.10}"#), "{}", run.payload);
            let payload: Value = serde_json::from_str(&run.payload).unwrap();
            succeeded.insert(payload["_original_payload"]["id"].as_u64().unwrap());
            if succeeded.len() % 50 == 0 {
                most = larger(most, retry_loop.counts(&retry_loop.retry_queue).await);
            }
        }
        most
    };
    let (sending, reading) = tokio::join!(enqueue, read);
    let most = larger(sending, reading);
    let [_, in_flight, delayed] = most;
    assert!(in_flight <= IN_FLIGHT_MAX && delayed > IN_FLIGHT_MAX, "{most:?}");
    assert_eq!(retry_loop.settled(&mut journal).await, (0, 0));
}

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
    let settings = [("MAX_BACKOFF", "12h"), ("REGISTER", "true"), ("PROBE", "true")];
    let retry_loop = beside_tables(&settings).await;
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
