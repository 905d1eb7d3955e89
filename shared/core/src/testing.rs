//! Messages, settings and times for this crate's tests.

use std::collections::BTreeMap;

use crate::{
    Timestamp,
    arn::{FunctionArn, Home},
    attribute::{Attribute, Value},
    failure::Failure,
    message::{Message, MessageAttributes},
    record,
    settings::{Policies, Rules, Settings},
};

/// AWS's own sample of a failure record.
pub(crate) const RECORD: &str = include_str!("../fixtures/failure_record.json");

pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(crate) fn record_of(payload: &str) -> String {
    let sample = crate::json::Object::read(RECORD).unwrap();
    RECORD.replace(sample.get("requestPayload").unwrap().get(), payload)
}

pub(crate) fn envelope(attempt: u32, initial: i64, request_id: &str, payload: &str) -> String {
    format!(
        r#"{{"_retry_metadata":{{"attempt":{attempt},"initial_timestamp":{initial},"request_id":"{request_id}"}},"_original_payload":{payload}}}"#
    )
}

/// A message on its first receive, sent half a second after the sample's failure.
pub(crate) fn message(body: &str) -> Message<'_> {
    Message {
        id: "19dd0b57-b21e-4ac1-bd88-01bbb068cb78",
        body,
        receive_count: 1,
        sent_at: Some(at("2019-11-14T18:16:06.068Z")),
        ..Message::default()
    }
}

/// What the handler reads of these attributes, but for the list of all.
pub(crate) fn attributes<'a>(all: &'a [Attribute<'a>]) -> MessageAttributes<'a> {
    MessageAttributes::named(all.iter().map(|it| match &it.value {
        Value::Text(text) => (&*it.name, Some(&**text)),
        Value::Binary(_) => (&*it.name, None),
    }))
}

/// The failure that the message describes, of a function without settings of its own.
pub(crate) fn read<'a>(message: &Message<'a>) -> Failure<'a> {
    record::read(message, None, &Policies::default()).unwrap().failure().unwrap()
}

/// The account and region of the sample.
pub(crate) fn home() -> Home {
    FunctionArn::parse("arn:aws:lambda:us-east-1:123456789012:function:retry-handler")
        .unwrap()
        .home()
}

pub(crate) fn rules(variables: &[(&str, &str)]) -> Rules {
    settings(variables).rules
}

/// The settings of a dead-letter queue and these variables.
pub(crate) fn settings(variables: &[(&str, &str)]) -> Settings {
    let mut all: BTreeMap<_, _> = variables.iter().copied().collect();
    all.insert("DEAD_LETTER_QUEUE_URL", "https://sqs.us-east-1.amazonaws.com/123456789012/dead");
    Settings::from_lookup(|name| all.get(name).map(|&value| value.to_owned())).unwrap()
}
