//! `Enveloped<T>` beside `T` itself and beside the core's reading of envelopes.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    fmt::{self, Debug},
    iter,
};

use comeback_core::envelope::Envelope;
use proptest::prelude::*;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

use super::*;

const METADATA: &str =
    r#""_retry_metadata":{"attempt":3,"initial_timestamp":5,"request_id":"e4b4"}"#;

/// Reads a text in each way that a function may be given one.
fn read<T: DeserializeOwned>(text: &str) -> [Result<Enveloped<T>, serde_json::Error>; 4] {
    let traced = {
        let mut json = serde_json::Deserializer::from_slice(text.as_bytes());
        let read = serde_path_to_error::deserialize(&mut json).map_err(|error| error.into_inner());
        read.and_then(|event| json.end().map(|()| event))
    };
    [
        serde_json::from_str(text),
        serde_json::from_slice(text.as_bytes()),
        serde_json::from_reader(text.as_bytes()),
        traced,
    ]
}

/// The error without its position.
fn said(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

/// That a payload is read as `T`, or refused with `T`'s error, bare and in any envelope.
#[track_caller]
fn reads_as_itself<T: DeserializeOwned + PartialEq + Debug>(payload: &str) {
    let expected = serde_json::from_str::<T>(payload);
    for (text, attempt) in [
        (payload.to_owned(), None),
        (format!(r#"{{{METADATA},"_original_payload":{payload}}}"#), Some(3)),
        (format!("\n{{ {METADATA} ,\n \"_original_payload\" : {payload} }} "), Some(3)),
        (format!(r#"{{"_original_payload":{payload},{METADATA}}}"#), Some(3)),
        (format!(r#"{{{METADATA},"x":[1],"_original_payload":{payload},"y":{{}}}}"#), Some(3)),
        (format!(r#"{{{METADATA},"\u005foriginal_payload":{payload}}}"#), Some(3)),
        (format!(r#"{{{METADATA},"_original_payload":{payload},{METADATA}}}"#), Some(3)),
        (format!(r#"{{"_retry_metadata":0,{METADATA},"_original_payload":{payload}}}"#), Some(3)),
    ] {
        for read in read::<T>(&text) {
            match (&expected, read) {
                (Ok(expected), Ok(enveloped)) => {
                    assert_eq!(&enveloped.payload, expected, "{text}");
                    assert_eq!(enveloped.retried.map(|facts| facts.attempt()), attempt, "{text}");
                }
                (Err(error), Err(got)) if error.is_data() => {
                    assert_eq!(said(&got), said(error), "{text}");
                }
                // Where a number is no number of this type, or a key none, what comes after it is
                // unexpected, which is told in the words of what is around it.
                (Err(_), Err(_)) => {}
                (expected, read) => assert_eq!(read.is_ok(), expected.is_ok(), "{text}"),
            }
        }
    }
}

#[derive(Debug, Deserialize, PartialEq)]
struct Order {
    id: u64,
    #[serde(default)]
    note: Option<String>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Strict {
    id: u64,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Flat {
    id: u64,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(untagged)]
enum Either {
    Order(Strict),
    Ids(Vec<u64>),
    Name(String),
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(tag = "kind")]
enum Tagged {
    Made { id: u64 },
    Gone,
}

#[derive(Debug, Deserialize, PartialEq)]
enum Event {
    Ping,
    Made(Order),
    Moved(u8, u8),
    Gone { id: u64 },
}

#[derive(Debug, Deserialize, PartialEq)]
struct Named<T>(T);

#[derive(Debug, Deserialize, PartialEq)]
struct Pair(u8, String);

#[derive(Debug, Deserialize, PartialEq)]
struct Nothing;

#[derive(Debug, Deserialize, Eq, Hash, PartialEq)]
enum Colour {
    Red,
}

#[test]
fn objects_of_any_shape_are_read_as_themselves() {
    for payload in
        [r#"{"id":7}"#, r#"{"note":"\u00e9","id":7,"more":[{}]}"#, "{}", r#"{"id":-1}"#, "7", "[7]"]
    {
        reads_as_itself::<Order>(payload);
        reads_as_itself::<Option<Order>>(payload);
        reads_as_itself::<Box<Order>>(payload);
        reads_as_itself::<Named<Order>>(payload);
        reads_as_itself::<Named<Option<Named<Order>>>>(payload);
        reads_as_itself::<Strict>(payload);
        reads_as_itself::<Flat>(payload);
        reads_as_itself::<Either>(payload);
        reads_as_itself::<HashMap<String, Value>>(payload);
        reads_as_itself::<HashMap<Cow<'static, str>, Option<i32>>>(payload);
        reads_as_itself::<Value>(payload);
    }
    reads_as_itself::<Option<Order>>("null");
    reads_as_itself::<Tagged>(r#"{"id":7,"kind":"Made"}"#);
    reads_as_itself::<Tagged>(r#"{"kind":"Gone"}"#);
    reads_as_itself::<Tagged>(r#"{"kind":"Lost"}"#);
}

#[test]
fn keys_of_any_type_are_read_as_themselves() {
    for payload in
        [r#"{"7":1,"-8":2}"#, r#"{"7.5":1}"#, r#"{"7x":1}"#, r#"{"true":1}"#, r#"{"Red":1}"#]
    {
        reads_as_itself::<HashMap<u64, u8>>(payload);
        reads_as_itself::<HashMap<i128, u8>>(payload);
        reads_as_itself::<HashMap<Colour, u8>>(payload);
        reads_as_itself::<HashMap<Option<String>, u8>>(payload);
        reads_as_itself::<BTreeMap<String, u8>>(payload);
    }
}

#[test]
fn enums_are_read_as_themselves() {
    for payload in [
        r#""Ping""#,
        r#"{"Ping":null}"#,
        r#"{"Made":{"id":7}}"#,
        r#"{"Moved":[1,2]}"#,
        r#"{"Gone":{"id":7}}"#,
        r#"{"Made":{}}"#,
        r#""Pong""#,
        r#"{"Pong":1}"#,
    ] {
        reads_as_itself::<Event>(payload);
        reads_as_itself::<Option<Event>>(payload);
        reads_as_itself::<Named<Event>>(payload);
    }
    for payload in ["{}", "7", r#"{"Ping":null,"Made":{"id":7}}"#] {
        assert!(read::<Event>(payload).iter().all(Result::is_err), "{payload}");
    }
}

#[test]
fn what_is_no_object_is_read_as_itself() {
    for payload in [
        "null",
        "true",
        "0",
        "-1",
        "300",
        "7.0",
        "1e2",
        "18446744073709551616",
        "\"\"",
        "\"\\u00e9\\n\"",
        "\"x\"",
        "[]",
        "[1,\"x\"]",
        "[1,2]",
        "{}",
    ] {
        reads_as_itself::<()>(payload);
        reads_as_itself::<Nothing>(payload);
        reads_as_itself::<bool>(payload);
        reads_as_itself::<u8>(payload);
        reads_as_itself::<Named<u64>>(payload);
        reads_as_itself::<Option<i64>>(payload);
        reads_as_itself::<i128>(payload);
        reads_as_itself::<f32>(payload);
        reads_as_itself::<f64>(payload);
        reads_as_itself::<char>(payload);
        reads_as_itself::<String>(payload);
        reads_as_itself::<Named<Cow<'static, str>>>(payload);
        reads_as_itself::<Vec<u8>>(payload);
        reads_as_itself::<(u8, String)>(payload);
        reads_as_itself::<[u8; 2]>(payload);
        reads_as_itself::<Pair>(payload);
        reads_as_itself::<Value>(payload);
    }
}

/// Counts members, and makes do with what it gets.
#[derive(Debug, PartialEq)]
struct Count(usize);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Count;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Count, A::Error> {
                let members = || map.next_entry::<IgnoredAny, IgnoredAny>().ok().flatten();
                Ok(Count(iter::from_fn(members).count()))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

#[test]
fn an_envelope_is_opened_however_late_it_is_known_and_whatever_was_begun() {
    let text = format!(r#"{{"a":1,"id":0,{METADATA},"_original_payload":{{"id":7}}}}"#);
    for read in read::<Count>(&text) {
        let read = read.unwrap();
        assert_eq!((read.payload, read.retried.is_some()), (Count(1), true));
    }
    for read in read::<Flat>(&text) {
        let read = read.unwrap();
        assert_eq!((read.payload.others.len(), read.retried.is_some()), (0, true));
    }
}

#[test]
fn what_was_read_is_not_read_again() {
    let before = format!(r#"{{"id":"x",{METADATA},"_original_payload":{{"id":7}}}}"#);
    let twice = format!(
        r#"{{{METADATA},"_original_payload":{{"id":7}},"_retry_metadata":{{"attempt":0}}}}"#
    );
    let deepest = format!(r#"{{"id":7,"x":{}{}}}"#, "[".repeat(126), "]".repeat(126));
    assert!(read::<Flat>(&deepest).iter().all(Result::is_ok));
    let deeper = format!(r#"{{{METADATA},"_original_payload":{deepest}}}"#);
    for (text, expected) in [
        (&before, r#"invalid type: string "x", expected u64"#),
        (&twice, "`_retry_metadata` stands twice, and the second can't be read"),
        (&deeper, "recursion limit exceeded"),
    ] {
        for read in read::<Flat>(text) {
            assert_eq!(said(&read.unwrap_err()), expected);
        }
        assert!(read::<Box<RawValue>>(text).iter().all(Result::is_ok), "of raw JSON none is one");
    }
}

#[test]
fn an_error_tells_where_in_the_event_it_is() {
    let payload = r#"{"lines":[{"id":7},{"id":"x"}]}"#;
    let retried = format!(r#"{{{METADATA},"_original_payload":{payload}}}"#);
    for (text, path) in
        [(payload, "lines[1].id"), (retried.as_str(), "_original_payload.lines[1].id")]
    {
        let mut json = serde_json::Deserializer::from_slice(text.as_bytes());
        let event = serde_path_to_error::deserialize::<_, Enveloped<Lines>>(&mut json);
        assert_eq!(event.unwrap_err().path().to_string(), path);
    }
}

#[derive(Debug, Deserialize)]
struct Lines {
    #[serde(rename = "lines")]
    _lines: Vec<Order>,
}

/// One event of the list that all languages are held against.
#[derive(Deserialize)]
struct Case<'a> {
    is_envelope: bool,
    request_id: Option<String>,
    #[serde(borrow)]
    event: &'a RawValue,
}

#[test]
fn an_event_is_an_envelope_and_has_its_key_as_in_every_language() {
    let cases = include_str!("../../../core/fixtures/envelopes.json");
    for Case { is_envelope, request_id, event } in serde_json::from_str::<Vec<_>>(cases).unwrap() {
        for read in read::<Box<RawValue>>(event.get()) {
            let read = read.unwrap();
            assert_eq!(read.retried.is_some(), is_envelope, "{event}");
            let mut context = Context::default();
            context.request_id = "own".to_owned();
            let event = Enveloped::open(LambdaEvent::new(read, context));
            let expected = request_id.as_deref().unwrap_or("own");
            assert_eq!(idempotency_key(&event.context), expected, "{}", event.payload);
        }
    }
}

/// As the core reads it, without regard to cost: the payload's text and the facts of its retry.
fn by_the_contract(text: &str) -> (String, Option<String>) {
    match Envelope::read(text) {
        Some(envelope) => (envelope.payload.get().to_owned(), Some(written(&envelope.metadata))),
        None => (text.trim().to_owned(), None),
    }
}

fn written(metadata: &RetryMetadata) -> String {
    serde_json::to_string(metadata).unwrap()
}

fn retried<T>(enveloped: &Enveloped<T>) -> Option<String> {
    enveloped.retried.as_ref().map(|facts| written(&facts.0))
}

/// A JSON value in spellings that a decoder would not write again.
fn any_value() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "null",
        "true",
        "-0",
        "1.50",
        "1e2",
        "12345678901234567890123456789",
        r#""\u00e9 \/""#,
        "\"é\"",
        r#""{\"_retry_metadata\":{\"attempt\":1,\"initial_timestamp\":5},\"_original_payload\":1}""#,
    ]);
    let leaf = leaf.prop_map(str::to_owned);
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|items| format!("[ {}]", items.join(" ,"))),
            prop::collection::vec((any_name(), prop_oneof![inner, any_metadata()]), 0..4)
                .prop_map(|members| object(&members)),
        ]
    })
}

fn any_name() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "_retry_metadata",
        "_original_payload",
        r"_retry\u005fmetadata",
        r"_original\u005fpayload",
        "a",
        "",
        "_retry_metadatum",
        "_ORIGINAL_PAYLOAD",
        r"\u00e9",
        "é",
    ])
    .prop_map(str::to_owned)
}

/// What stands in an envelope, or nearly.
fn any_metadata() -> impl Strategy<Value = String> {
    let good = prop::sample::select(vec![
        r#"{"attempt":2,"initial_timestamp":1643667670,"request_id":"e4b4"}"#,
        r#"{ "initial_timestamp":5.5 , "attempt":3.0}"#,
        r#"{"attempt":1e300,"initial_timestamp":-1e300,"request_id":7}"#,
        r#"{"attempt":0,"attempt":1,"initial_timestamp":5,"by":[1.50]}"#,
    ]);
    let bad = prop::sample::select(vec![
        r#"{"attempt":0,"initial_timestamp":5}"#,
        r#"{"attempt":1.5,"initial_timestamp":5}"#,
        r#"{"attempt":"1","initial_timestamp":5}"#,
        r#"{"attempt":1}"#,
        r#"{"initial_timestamp":5}"#,
        r#"[{"attempt":1,"initial_timestamp":5}]"#,
    ]);
    prop_oneof![3 => good, 1 => bad].prop_map(str::to_owned)
}

fn object(members: &[(String, String)]) -> String {
    let members: Vec<_> =
        members.iter().map(|(name, value)| format!("\"{name}\" :{value}")).collect();
    format!("{{{} }}", members.join(", "))
}

/// Objects of mostly the two names, in any order and number.
fn any_object() -> impl Strategy<Value = String> {
    let metadata = (
        prop::sample::select(vec!["_retry_metadata", r"\u005fretry_metadata"])
            .prop_map(str::to_owned),
        any_metadata(),
    );
    let payload = (
        prop::sample::select(vec!["_original_payload", r"_original_p\u0061yload"])
            .prop_map(str::to_owned),
        any_value(),
    );
    let other = (any_name(), prop_oneof![any_value(), any_metadata()]);
    let member = prop_oneof![3 => metadata, 3 => payload, 2 => other];
    prop::collection::vec(member, 0..6).prop_map(|members| object(&members))
}

fn any_event() -> impl Strategy<Value = String> {
    let event = prop_oneof![3 => any_object(), 1 => any_value()];
    (event, prop::sample::select(vec!["", " ", "\n\t"]))
        .prop_map(|(event, around)| format!("{around}{event}{around}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_event_is_read_as_the_contract_says_and_raw_json_byte_for_byte(text in any_event()) {
        let (payload, facts) = by_the_contract(&text);
        for read in read::<Box<RawValue>>(&text) {
            let read = read.unwrap();
            prop_assert_eq!(read.payload.get(), &payload);
            prop_assert_eq!(retried(&read), facts.clone());
        }
        for read in read::<Option<Named<Box<RawValue>>>>(&text) {
            let read = read.unwrap();
            let expected = (payload != "null").then_some(&*payload);
            prop_assert_eq!(read.payload.as_ref().map(|payload| payload.0.get()), expected);
            prop_assert_eq!(retried(&read), facts.clone());
        }
        let value: Value = serde_json::from_str(&payload).unwrap();
        for read in read::<Value>(&text) {
            match read {
                Ok(read) => {
                    prop_assert_eq!(&read.payload, &value);
                    prop_assert_eq!(retried(&read), facts.clone());
                }
                // The payload was read already, when its metadata came again and was none.
                Err(error) => {
                    prop_assert!(error.to_string().contains("stands twice"), "{}", error);
                    prop_assert_eq!(&facts, &None);
                }
            }
        }
    }

    #[test]
    fn a_damaged_event_is_an_error_and_no_panic(
        text in any_event(), cut in any::<prop::sample::Index>(), instead in "[\\]\\[{}\",:0\\\\]{0,2}",
    ) {
        let at = text.char_indices().map(|(at, _)| at).nth(cut.index(text.chars().count())).unwrap();
        let (before, after) = text.split_at(at);
        for damaged in [before.to_owned(), format!("{before}{instead}{after}")] {
            let sound = serde_json::from_str::<&RawValue>(&damaged).is_ok();
            for read in read::<Value>(&damaged) {
                prop_assert!(sound || read.is_err(), "{}", damaged);
            }
            for read in read::<Box<RawValue>>(&damaged) {
                prop_assert!(sound || read.is_err(), "{}", damaged);
            }
            for read in read::<Event>(&damaged) {
                prop_assert!(sound || read.is_err(), "{}", damaged);
            }
        }
    }
}
