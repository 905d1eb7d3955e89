//! More events wait than SQS can have messages in flight.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    processes::kill_all,
    retry_loop::{Plan, TARGET, failure_record},
};

const EVENTS: usize = 5_000;

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
    let mut most = [0; 3];
    for part in 0..10 {
        let events = part * EVENTS / 10..(part + 1) * EVENTS / 10;
        retry_loop.enqueue(&events.map(record).collect::<Vec<_>>()).await;
        let counts = retry_loop.counts(&retry_loop.retry_queue).await;
        most = std::array::from_fn(|place| most[place].max(counts[place]));
        if part % 4 == 3 {
            kill_all(&retry_loop.handlers()).await;
        }
    }
    let mut journal = retry_loop.cloud.journal();
    let mut succeeded = BTreeSet::new();
    while succeeded.len() < EVENTS {
        let run = journal.run(TARGET).await;
        assert_eq!(run.ending, "Succeeded");
        assert!(run.payload.contains(r#""_original_payload":{"id":"#), "{}", run.payload);
        assert!(run.payload.contains(r#", "price":10.10}"#), "{}", run.payload);
        let payload: Value = serde_json::from_str(&run.payload).unwrap();
        succeeded.insert(payload["_original_payload"]["id"].as_u64().unwrap());
        if succeeded.len() % 50 == 0 {
            let counts = retry_loop.counts(&retry_loop.retry_queue).await;
            most = std::array::from_fn(|place| most[place].max(counts[place]));
        }
    }
    let [_, in_flight, delayed] = most;
    assert!(in_flight <= IN_FLIGHT_MAX && delayed > IN_FLIGHT_MAX, "{most:?}");
    assert_eq!(retry_loop.settled(&mut journal).await, (0, 0));
}
