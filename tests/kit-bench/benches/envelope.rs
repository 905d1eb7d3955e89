//! What reading a payload as `Enveloped<T>`, or under the layer `Unwrap`, costs in comparison with reading `T`. An
//! envelope is compared with a struct that always expects one, too.
//!
//! The readings take turns of a few microseconds, and the shortest turn of each counts: other load on the machine
//! only makes a turn longer, and it lasts longer than one turn.
#![allow(dead_code, reason = "reading the members is what is measured")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![allow(clippy::unwrap_used, reason = "the fixture can be read")]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use aws_lambda_events::s3::S3Event;
use comeback::{Enveloped, Received};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};

/// An event that is always an envelope.
#[derive(Deserialize)]
struct ByHand<T> {
    _retry_metadata: Retried,
    _original_payload: T,
}

#[derive(Deserialize)]
struct Retried {
    attempt: u32,
    initial_timestamp: i64,
    request_id: String,
}

/// An event of S3 whose JSON has about this many bytes.
fn uploads_of(bytes: usize) -> String {
    let record: Value = serde_json::from_str(include_str!("../upload.json")).unwrap();
    let records = vec![record.clone(); bytes / record.to_string().len()];
    json!({ "Records": records }).to_string()
}

fn read<T: DeserializeOwned>(event: &str) -> Option<T> {
    serde_json::from_slice(black_box(event.as_bytes())).ok()
}

fn turn(run: &dyn Fn() -> bool) -> Duration {
    let start = Instant::now();
    for _ in 0..RUNS_IN_TURN {
        assert!(run(), "the event is misread");
    }
    start.elapsed() / RUNS_IN_TURN
}

const RUNS_IN_TURN: u32 = 8;

const COMPARISON: Duration = Duration::from_secs(10);

fn compare<T: DeserializeOwned>(name: &str, kilobytes: usize) {
    let payload = uploads_of(kilobytes * 1024);
    let enveloped = format!(
        r#"{{"_retry_metadata":{{"attempt":2,"initial_timestamp":1643667670,"request_id":"e4b46cbf-b738-4a1b-8880-a18cdf61200e"}},"_original_payload":{payload}}}"#
    );
    let itself = || read::<T>(&payload).is_some();
    let bare = || read::<Enveloped<T>>(&payload).is_some_and(|event| event.retried.is_none());
    let layer = || read::<Received<T>>(&payload).is_some();
    let by_hand = || read::<ByHand<T>>(&enveloped).is_some();
    let retried = || read::<Enveloped<T>>(&enveloped).is_some_and(|event| event.retried.is_some());
    let runs: [&dyn Fn() -> bool; 5] = [&itself, &bare, &layer, &by_hand, &retried];
    let mut shortest = [Duration::MAX; 5];
    let start = Instant::now();
    while start.elapsed() < COMPARISON {
        for (run, shortest) in runs.iter().zip(&mut shortest) {
            *shortest = turn(run).min(*shortest);
        }
    }
    let [itself, others @ ..] = shortest;
    let longer = |took: Duration| (took.as_secs_f64() / itself.as_secs_f64() - 1.0) * 100.0;
    let [bare, layer, by_hand, retried] = others.map(longer);
    println!(
        "{name}, {kilobytes} KB: T {itself:.2?}, Enveloped<T> {bare:+.0} %, Unwrap {layer:+.0} %; \
         retried: by hand {by_hand:+.0} %, Enveloped<T> {retried:+.0} %"
    );
}

fn main() {
    for kilobytes in [1, 256] {
        compare::<S3Event>("typed", kilobytes);
        compare::<Box<RawValue>>("raw", kilobytes);
    }
}
