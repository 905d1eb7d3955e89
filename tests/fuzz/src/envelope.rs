//! The envelope.
//!
//! The input is the payload of an event, which may already be an envelope. The original payload keeps its bytes through
//! any number of failures, and is never wrapped twice.

use comeback_core::{
    Attempt, Timestamp,
    envelope::{Envelope, INVOCATION_MAX},
    record::{self, Event, Message},
    settings::Policies,
};
use serde_json::value::RawValue;

pub fn check(data: &[u8]) {
    let Ok(Ok(payload)) = str::from_utf8(data).map(serde_json::from_str::<&RawValue>) else {
        return;
    };
    let original = match Envelope::read(payload.get()) {
        Some(envelope) => {
            check_envelope(&envelope);
            assert!(payload.get().contains(envelope.payload.get()));
            envelope.payload.get().to_owned()
        }
        None => payload.get().to_owned(),
    };
    fail_again_and_again(payload.get(), &original);
}

/// An envelope that is written and read again is unchanged.
fn check_envelope(envelope: &Envelope) {
    let json = envelope.to_json();
    let again = Envelope::read(&json).unwrap();
    assert_eq!(again.to_json(), json);
    assert_eq!(again.payload.get(), envelope.payload.get());
    let facts = |of: &Envelope| {
        let metadata = &of.metadata;
        (metadata.attempt, metadata.initial_timestamp, metadata.request_id.clone())
    };
    assert_eq!(facts(&again), facts(envelope));
    assert_eq!(envelope.fits(), json.len() <= INVOCATION_MAX);
}

/// Lets an event with this payload fail, and fail again in its envelope. Only the attempt in the envelope may change.
fn fail_again_and_again(payload: &str, original: &str) {
    let mut given = payload.to_owned();
    for failures in 0..3 {
        let (is_fresh, envelope) = wrapped_after_failure(&given);
        assert_eq!(is_fresh, failures == 0 && payload == original);
        assert_eq!(envelope.payload.get(), original);
        check_envelope(&envelope);
        given = envelope.to_json();
    }
}

/// Returns whether a failure with this payload is the event's first, and the envelope of the next attempt.
fn wrapped_after_failure(payload: &str) -> (bool, Envelope<'static>) {
    let body = format!(
        r#"{{"timestamp":"2019-11-14T18:16:05.568Z","requestContext":{{"requestId":"r-1","functionArn":"arn:aws:lambda:us-east-1:123456789012:function:f"}},"requestPayload":{payload}}}"#
    );
    let sent_at = Timestamp::from_timestamp(1_573_755_366, 0);
    let message =
        Message { id: "m-1", body: &body, receive_count: 1, sent_at, ..Message::default() };
    let read = record::read(&message, None, &Policies::default()).unwrap();
    let failure = read.failure().unwrap();
    let is_fresh = matches!(failure.event, Some(Event::Fresh(_)));
    let attempt = failure.retried().map_or(Attempt::FIRST, |of| of.attempt.next());
    let envelope = failure.envelope(attempt).unwrap();
    assert_eq!(envelope.metadata.attempt, attempt);
    assert_eq!(envelope.metadata.initial_timestamp, failure.first_failure().timestamp());
    (is_fresh, envelope.into_owned())
}
