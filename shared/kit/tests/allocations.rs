//! What is allocated: nothing by a call that succeeds at once, and no second copy of raw JSON.
#![allow(clippy::unwrap_used, reason = "a test's expectation")]

use std::{
    convert::Infallible,
    hint::black_box,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use allocation_counter::measure;
use comeback::{
    Enveloped,
    retry::{Deadline, Policy, Quota, Retry},
};
use serde_json::value::RawValue;

/// What a future comes to that never waits.
fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

#[test]
fn a_call_that_succeeds_at_once_allocates_nothing() {
    let deadline = Deadline::in_(Duration::from_secs(30)).unwrap();
    let plain = Retry::new(Policy::default());
    for retry in [plain.clone(), plain.clone().quota(Quota::unlimited()), plain.adaptive()] {
        let call = || {
            let call = retry.operation("answer").until(deadline);
            let answer = at_once(call.run(async || Ok::<_, Infallible>(black_box(42))));
            assert!(matches!(answer, Some(Ok(42))));
        };
        assert_eq!(measure(call).count_total, 0);
    }
}

#[test]
fn raw_json_is_copied_once_out_of_its_envelope_or_bare() {
    let payload = format!("[{}1.50]", "1.50,".repeat(50_000));
    let metadata = r#"{"attempt":2,"initial_timestamp":5,"request_id":"e4b4"}"#;
    let retried =
        format!(r#"{{"_retry_metadata":{metadata},"_original_payload":{payload},"more":1}}"#);
    for event in [&payload, &retried] {
        let allocated = measure(|| {
            let read: Enveloped<Box<RawValue>> = serde_json::from_slice(event.as_bytes()).unwrap();
            assert_eq!(read.payload.get().len(), payload.len());
        });
        assert!(allocated.bytes_total < payload.len() as u64 + 1_000, "{allocated:?}");
    }
}

#[test]
fn what_is_allocated_is_counted() {
    assert_eq!(measure(|| drop(black_box(Box::new(42)))).count_total, 1);
}
