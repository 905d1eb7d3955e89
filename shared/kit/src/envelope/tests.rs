//! Tests that payloads are read correctly, bare and in envelopes.

use std::fmt::Debug;

use serde_json::Value;

use super::*;

const METADATA: &str =
    r#""_retry_metadata":{"attempt":3,"initial_timestamp":5,"request_id":"e4b4"}"#;

/// Reads an event with another of `serde_json`'s readers than the Lambda runtime, which reads slices.
fn read<T: DeserializeOwned>(text: &str) -> Result<Enveloped<T>, serde_json::Error> {
    serde_json::from_reader(text.as_bytes())
}

/// Asserts that a payload, bare and in several envelopes, is read as `T`, or fails with the error of `T`.
#[track_caller]
fn assert_read_as<T: DeserializeOwned + PartialEq + Debug>(payload: &str) {
    let expected = serde_json::from_str::<T>(payload);
    for (event, attempt) in [
        (payload.to_owned(), None),
        (format!("\n{{ {METADATA} ,\n \"_original_payload\" : {payload} }} "), Some(3)),
        (format!(r#"{{"a":1,"id":"x","_original_payload":{payload},{METADATA}}}"#), Some(3)),
        (format!(r#"{{{METADATA},"\u005foriginal_payload":{payload}}}"#), Some(3)),
        (format!(r#"{{"_retry_metadata":0,{METADATA},"_original_payload":{payload}}}"#), Some(3)),
    ] {
        match (&expected, read::<T>(&event)) {
            (Ok(expected), Ok(enveloped)) => {
                assert_eq!(&enveloped.payload, expected, "{event}");
                assert_eq!(enveloped.retried.map(|it| it.attempt()), attempt, "{event}");
            }
            (Err(expected), Err(error)) => {
                assert!(error.to_string().ends_with(&expected.to_string()), "{error}");
            }
            (_, read) => panic!("expected {expected:?} of {event}, got {read:?}"),
        }
    }
}

#[derive(Debug, Deserialize, PartialEq)]
struct Order {
    id: u64,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(untagged)]
enum OrderOrIds {
    Order(Order),
    Ids(Vec<u64>),
}

#[test]
fn a_payload_of_any_type_is_read_as_without_an_envelope() {
    for payload in
        [r#"{"id":7}"#, r#"{"id":-1}"#, "{}", "null", "7", "7.0", "300", "[1,2]", r#""\u00e9""#]
    {
        assert_read_as::<Order>(payload);
        assert_read_as::<Option<Order>>(payload);
        assert_read_as::<OrderOrIds>(payload);
        assert_read_as::<u8>(payload);
        assert_read_as::<i128>(payload);
        assert_read_as::<String>(payload);
        assert_read_as::<Vec<u8>>(payload);
        assert_read_as::<()>(payload);
        assert_read_as::<Value>(payload);
    }
}

#[test]
fn an_envelope_in_a_json_value_is_read_too() {
    let event = serde_json::json!({
        "_retry_metadata": {"attempt": 3, "initial_timestamp": 5}, "_original_payload": {"id": 7},
    });
    let read: Enveloped<Order> = serde_json::from_value(event).unwrap();
    assert_eq!((read.payload.id, read.retried.unwrap().attempt()), (7, 3));
}

#[test]
fn a_payload_may_nest_as_deep_in_an_envelope_as_bare() {
    let deepest = format!("{}{}", "[".repeat(127), "]".repeat(127));
    assert_read_as::<Value>(&deepest);
}

#[test]
fn the_last_of_two_metadata_members_decides() {
    let event =
        format!(r#"{{{METADATA},"_original_payload":7,"_retry_metadata":{{"attempt":0}}}}"#);
    assert!(read::<Value>(&event).unwrap().retried.is_none());
}

#[test]
fn raw_json_keeps_its_bytes() {
    let payload = r#"{ "a":1.50,"a":12345678901234567890123, "b":"\u00e9\ud800" }"#;
    for event in
        [format!(" {payload}\n"), format!(r#"{{{METADATA},"_original_payload": {payload} }}"#)]
    {
        assert_eq!(read::<Box<RawValue>>(&event).unwrap().payload.get(), payload);
    }
}

#[test]
fn an_error_has_its_path_in_the_payload() {
    #[derive(Debug, Deserialize)]
    struct Lines {
        #[serde(rename = "lines")]
        _lines: Vec<Order>,
    }
    let payload = r#"{"lines":[{"id":7},{"id":"x"}]}"#;
    let retried = format!(r#"{{{METADATA},"_original_payload":{payload}}}"#);
    for event in [payload, &retried] {
        let error = read::<Lines>(event).unwrap_err().to_string();
        let expected = r#"lines[1].id: invalid type: string "x", expected u64"#;
        assert!(error.starts_with(expected), "{error}");
    }
}

/// An event of the list with which the code for each language is tested.
#[derive(Deserialize)]
struct Case<'a> {
    is_envelope: bool,
    request_id: Option<String>,
    #[serde(borrow)]
    event: &'a RawValue,
}

#[test]
fn events_are_recognized_and_have_the_same_key_as_in_every_language() {
    let cases = include_str!("../../../core/fixtures/envelopes.json");
    for Case { is_envelope, request_id, event } in serde_json::from_str::<Vec<_>>(cases).unwrap() {
        let read = read::<Box<RawValue>>(event.get()).unwrap();
        assert_eq!(read.retried.is_some(), is_envelope, "{event}");
        let mut context = Context::default();
        context.request_id = "own".to_owned();
        let event = Enveloped::open(LambdaEvent::new(read, context));
        let expected = request_id.as_deref().unwrap_or("own");
        assert_eq!(idempotency_key(&event.context), expected, "{}", event.payload);
    }
}
