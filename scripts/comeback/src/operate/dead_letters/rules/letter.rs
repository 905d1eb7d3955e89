//! A letter, and what it says about its event.

use std::borrow::Cow;

use comeback_core::{
    Timestamp,
    arn::{FunctionArn, Home, QueueArn},
    attribute::{Attribute, Value},
    dead_letter::{ADVICE, ORIGINAL_BODY_SIZE},
    envelope::{Envelope, METADATA},
    notice::Location,
    queued::{ORIGINAL_ATTRIBUTES, read_attributes},
    reason::Reason,
    record::{
        self, CARRIED, Event, Message, MessageAttributes, NO_ENVELOPE, PAYLOAD_LOCATION,
        SOURCE_ARN, SOURCE_QUEUE_ARN,
    },
    settings::{Policies, policy::Policy},
    target::Target,
    time,
};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::{account::names::target_name, typed::NONE, untrusted};

/// Stands for the function of a message in a function's own dead-letter queue, because the message doesn't name it.
pub const ANY: &str = "any";

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Letter {
    pub id: String,
    pub receipt_handle: String,
    pub sent_at: Option<Timestamp>,
    pub attributes: Vec<Attribute<'static>>,
    /// Whether SQS itself moved it here, after `maxReceiveCount` receives. The handler sends letters.
    pub was_moved: bool,
    pub body: String,
    /// The failure record that has the payload, if that is not in the body, or why the record can't be read.
    pub record: Option<Result<String, String>>,
    /// The account and region of the queue.
    pub home: Option<Home>,
}

#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The retry handler gave the event up. The body is the payload, or the notice of the record that has it.
    GivenUp,
    /// SQS moved the message after `maxReceiveCount` receives. The body is the failure record.
    Moved,
    /// Lambda sent the event, because the queue is a function's own dead-letter queue.
    Lambda,
    /// EventBridge or its Scheduler sent the event, because the queue is the dead-letter queue of a target.
    Undelivered,
    /// None of these: something else sent the message, or its attributes were changed.
    #[default]
    Unknown,
}

#[derive(Clone, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Facts {
    pub origin: Origin,
    #[schemars(with = "Option<untrusted::Id>")]
    pub reason: Option<String>,
    /// The qualified ARN of the event's function, or that of the queue whose consumer failed.
    #[serde(rename = "function", serialize_with = "text")]
    #[schemars(with = "Option<untrusted::Id>")]
    pub target: Option<Target>,
    /// The ARN of the rule or the schedule that could not deliver the event. Its target has never had it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "untrusted::Text")]
    pub source: Option<String>,
    /// The request id of the first failed invocation.
    #[schemars(with = "Option<untrusted::Id>")]
    pub request_id: Option<String>,
    pub attempts: Option<u32>,
    pub first_failure_at: Option<Timestamp>,
    pub last_failure_at: Option<Timestamp>,
    #[schemars(with = "Option<untrusted::Text>")]
    pub error_type: Option<String>,
    #[schemars(with = "Option<untrusted::Text>")]
    pub error_message: Option<String>,
    /// What a person can do about the reason, where that follows from the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// The size of the message in bytes, if its body was cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original_bytes: Option<u64>,
    /// Where the failure record lies that has the payload, if it is too large for a letter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "untrusted::Text")]
    pub payload_location: Option<String>,
    /// Why the payload can't be read there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "untrusted::Text")]
    pub payload_fault: Option<String>,
    /// Whether the service that could not deliver the event has kept only a part of its payload.
    #[serde(skip)]
    pub is_truncated: bool,
    /// The original payload; `None` if it is unknown or cut, or not JSON although it is for a function.
    #[serde(skip)]
    pub payload: Option<String>,
}

#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Listed {
    pub message_id: String,
    /// The facts about the event, without the payload.
    #[serde(flatten)]
    pub facts: Facts,
    pub sent_at: Option<Timestamp>,
    /// The size of the payload in bytes; `None` if there is no JSON payload.
    pub payload_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "untrusted::Payload")]
    pub payload: Option<String>,
}

impl Listed {
    /// The name of the function, with its qualifier unless that is `$LATEST`, or of the queue.
    pub fn target_name(&self) -> Option<Cow<'_, str>> {
        self.facts.target.as_ref().map(|target| target_name(target.as_str()))
    }

    pub fn failed_at(&self) -> Option<Timestamp> {
        self.facts.last_failure_at.or(self.sent_at)
    }

    /// The id of the event, as logs and `comeback trace` have it or, if that is unknown, of the message.
    pub fn event_id(&self) -> &str {
        self.facts.request_id.as_ref().unwrap_or(&self.message_id)
    }
}

fn text<S: Serializer>(target: &Option<Target>, serializer: S) -> Result<S::Ok, S::Error> {
    target.as_ref().map(Target::as_str).serialize(serializer)
}

impl Letter {
    /// When the event last failed or, if that is unknown, when the letter was sent.
    pub fn failed_at(&self, facts: &Facts) -> Option<Timestamp> {
        facts.last_failure_at.or(self.sent_at)
    }

    pub fn listed(&self, with_payload: bool) -> Listed {
        self.listed_by(&Policies::default(), with_payload)
    }

    /// The same as a handler with these policies reads it.
    pub fn listed_by(&self, policies: &Policies, with_payload: bool) -> Listed {
        let mut facts = self.facts_by(policies, ANY);
        let payload = facts.payload.take();
        Listed {
            message_id: self.id.clone(),
            facts,
            sent_at: self.sent_at,
            payload_bytes: payload.as_ref().map(String::len),
            payload: payload.filter(|_| with_payload),
        }
    }

    /// The value of a message attribute, unless it is missing or empty.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.texts().find(|(own, value)| *own == name && !value.is_empty()).map(|(_, value)| value)
    }

    /// Its attributes that are text.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.attributes.iter().filter_map(|it| match &it.value {
            Value::Text(text) => Some((&*it.name, &**text)),
            Value::Binary(_) => None,
        })
    }

    /// The function or the queue that its attributes name.
    fn target(&self) -> Option<Target> {
        match self.attribute("FunctionArn") {
            Some(arn) => FunctionArn::parse(arn).map(Target::Function),
            None => QueueArn::parse(self.attribute(SOURCE_QUEUE_ARN)?).map(Target::Queue),
        }
    }

    pub fn facts(&self) -> Facts {
        self.facts_by(&Policies::default(), ANY)
    }

    /// The facts as a handler with these policies reads them: which payloads are envelopes depends on the policy of
    /// their function. A message of a function's own dead-letter queue belongs to the `function` with this name.
    pub fn facts_by(&self, policies: &Policies, function: &str) -> Facts {
        let read = self.read(policies, function);
        let payload = || {
            let target = self.target();
            self.payload(policies.of(target.as_ref().map_or(function, Target::name)))
        };
        let Some(reason) = self.attribute("Reason") else {
            return read.unwrap_or_else(|| self.unknown(payload()));
        };
        let text = |name: &str| self.attribute(name).map(str::to_owned);
        let moment = |name: &str| self.attribute(name).and_then(time::parse);
        // The body may be the message that the handler received, and may have become readable since.
        let body_is_message = record::body_is_message(reason);
        let payload_location = text(PAYLOAD_LOCATION).filter(|_| !body_is_message);
        let size = self.attribute(ORIGINAL_BODY_SIZE);
        let original_bytes = size.map(|text| text.parse().unwrap_or_default());
        let is_truncated = reason == Reason::PayloadTruncated.as_str();
        let payload = match body_is_message {
            _ if original_bytes.is_some() || is_truncated => None,
            true => read.and_then(|it| it.payload),
            false if payload_location.is_some() => self.payload_of_record(policies),
            false => payload(),
        };
        Facts {
            origin: if self.was_moved { Origin::Moved } else { Origin::GivenUp },
            reason: Some(reason.to_owned()),
            target: self.target(),
            source: text(SOURCE_ARN),
            request_id: text("RequestId"),
            attempts: self.attribute("Attempts").and_then(|text| text.parse().ok()),
            first_failure_at: moment("FirstFailureAt"),
            last_failure_at: moment("LastFailureAt"),
            error_type: text("ErrorType"),
            error_message: text("ErrorMessage"),
            advice: text(ADVICE),
            original_bytes,
            payload_location,
            payload_fault: self.record.as_ref().and_then(|record| record.as_ref().err().cloned()),
            is_truncated,
            payload,
        }
    }

    /// Where the failure record lies that has the payload, if it is too large for a letter.
    pub fn location(&self) -> Option<Location> {
        self.attribute(PAYLOAD_LOCATION)?;
        record::location_in(&self.body)
    }

    /// The payload in the failure record in a bucket, which must be that of the letter's function.
    fn payload_of_record(&self, policies: &Policies) -> Option<String> {
        let text = self.record.as_ref()?.as_ref().ok()?;
        let failure = record::fetched(&self.message(), &self.location()?, text, policies).ok()?;
        let payload = failure.event.map(|event| event.payload().to_owned());
        // What no invocation can carry is not kept, and an empty text would be sent as another event.
        payload.filter(|payload| !payload.is_empty())
    }

    /// The message as the handler would receive it, had SQS moved it back.
    fn message(&self) -> Message<'_> {
        let texts = self.texts().filter(|(_, text)| !text.is_empty());
        let attributes = MessageAttributes {
            all: self.attributes.iter().filter(|it| it.name == METADATA).cloned().collect(),
            ..MessageAttributes::named(texts.map(|(name, text)| (name, Some(text))))
        };
        let (id, body, sent_at) = (&self.id, &self.body, self.sent_at);
        Message { id, body, receive_count: 1, sent_at, attributes, ..Message::default() }
    }

    /// The attributes of a queue's message, as its producer sent it; `None` if they can't be read.
    pub fn original_attributes(&self) -> Option<Vec<Attribute<'static>>> {
        if self.attribute("Reason").is_some() {
            return self.attribute(ORIGINAL_ATTRIBUTES).map_or(Some(Vec::new()), read_attributes);
        }
        // SQS moved the message as it was.
        let is_ours = |it: &Attribute<'_>| it.name == METADATA || CARRIED.contains(&&*it.name);
        Some(self.attributes.iter().filter(|it| !is_ours(it)).cloned().collect())
    }

    /// The body without its envelope, if it is JSON. The body of a queue's message may be anything.
    fn payload(&self, policy: &Policy) -> Option<String> {
        if self.target().is_some_and(|target| target.is_queue()) {
            return Some(self.body.clone());
        }
        let envelope = match policy.tenant_id {
            _ if [NO_ENVELOPE, SOURCE_ARN].iter().any(|it| self.attribute(it).is_some()) => None,
            Some(_) => Envelope::read_bare(&self.body),
            None => Envelope::read(&self.body),
        };
        if let Some(Envelope { payload, .. }) = envelope {
            return Some(payload.get().to_owned());
        }
        let is_json = serde_json::from_str::<&RawValue>(&self.body).is_ok();
        is_json.then(|| self.body.clone())
    }

    fn unknown(&self, payload: Option<String>) -> Facts {
        Facts {
            target: self.target(),
            request_id: self.attribute("RequestId").map(str::to_owned),
            payload,
            ..Facts::default()
        }
    }

    /// The facts in the body, read as the handler reads a message; `None` if it can't be read.
    fn read(&self, policies: &Policies, function: &str) -> Option<Facts> {
        let mut message = self.message();
        message.attributes.reason = None;
        // A function's own dead-letter queue doesn't say which function it belongs to.
        let any = format!("arn:aws:lambda:us-east-1:000000000000:function:{function}");
        let any = FunctionArn::parse(&any);
        let undelivered = || record::undelivered(&message, self.home.as_ref()?);
        let failure = match record::moved(&message).or_else(undelivered) {
            Some(failure) => failure.ok()?,
            None => record::read(&message, any.as_ref(), policies).ok()?.failure()?,
        };
        let is_truncated = matches!(failure.event, Some(Event::Truncated(_)));
        let is_lambdas =
            matches!(&failure.target, Target::Function(it) if any.as_ref() == Some(it));
        Some(Facts {
            origin: match failure.is_undelivered() {
                true => Origin::Undelivered,
                false if is_lambdas => Origin::Lambda,
                false => Origin::Moved,
            },
            reason: None,
            target: Some(failure.target.clone()).filter(|_| !is_lambdas),
            source: failure.undelivered_by.clone(),
            request_id: failure.first_request_id().map(str::to_owned),
            attempts: Some(failure.attempts_made()),
            first_failure_at: Some(failure.first_failure()),
            last_failure_at: Some(failure.failed_at),
            error_type: failure.error.error_type.clone(),
            error_message: failure.error.message.clone(),
            advice: None,
            original_bytes: None,
            payload_location: None,
            payload_fault: None,
            is_truncated,
            payload: failure
                .event
                .as_ref()
                .filter(|_| !is_truncated)
                .map(|event| event.payload().to_owned()),
        })
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum GroupBy {
    Reason,
    Function,
    Error,
    Attempts,
    Day,
}

impl GroupBy {
    pub const ALL: [(&str, Self); 5] = [
        ("reason", Self::Reason),
        ("function", Self::Function),
        ("error", Self::Error),
        ("attempts", Self::Attempts),
        ("day", Self::Day),
    ];

    pub fn key(self, letter: &Letter, facts: &Facts) -> String {
        let key = match self {
            Self::Reason => facts.reason.clone(),
            Self::Function => facts.target.as_ref().map(|it| it.name().to_owned()),
            Self::Error => facts.error_type.clone(),
            Self::Attempts => facts.attempts.map(|attempts| attempts.to_string()),
            Self::Day => letter.failed_at(facts).map(|at| time::rfc3339(at)[..10].to_owned()),
        };
        key.unwrap_or_else(|| NONE.to_owned())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use comeback_core::record::BATCH_PART;

    use super::*;

    pub(crate) const RECORD: &str =
        include_str!("../../../../../../shared/core/fixtures/failure_record.json");

    pub(crate) const ORDERS: &str = "arn:aws:lambda:us-east-1:123456789012:function:orders:$LATEST";

    fn texts(attributes: &[(&str, &str)]) -> Vec<Attribute<'static>> {
        let text = |(name, value): &(&str, &str)| Attribute {
            name: (*name).to_owned().into(),
            ..Attribute::text("", (*value).to_owned())
        };
        attributes.iter().map(text).collect()
    }

    /// A letter of the retry handler. The other attributes replace the usual ones.
    pub(crate) fn given_up(body: &str, others: &[(&str, &str)]) -> Letter {
        let usual = [
            ("Reason", "max_age_exceeded"),
            ("FunctionArn", ORDERS),
            ("RequestId", "first-id"),
            ("Attempts", "7"),
            ("FirstFailureAt", "2026-01-01T00:00:00.000Z"),
            ("LastFailureAt", "2026-01-01T10:00:00.000Z"),
            ("ErrorType", "app.PaymentError"),
            ("ErrorMessage", "card declined"),
        ];
        let all: BTreeMap<_, _> = usual.iter().chain(others).copied().collect();
        Letter {
            id: "message".to_owned(),
            receipt_handle: "handle".to_owned(),
            sent_at: time::parse("2026-01-01T10:00:01.000Z"),
            attributes: texts(&Vec::from_iter(all)),
            was_moved: false,
            body: body.to_owned(),
            record: None,
            home: QueueArn::parse(IMPORTS).and_then(|queue| queue.home()),
        }
    }

    pub(crate) const IMPORTS: &str = "arn:aws:sqs:us-east-1:123456789012:imports";

    pub(crate) fn of_queue(body: &str, others: &[(&str, &str)]) -> Letter {
        given_up(body, &[&[("FunctionArn", ""), (SOURCE_QUEUE_ARN, IMPORTS)], others].concat())
    }

    pub(crate) fn bare(body: &str, attributes: &[(&str, &str)]) -> Letter {
        Letter { attributes: texts(attributes), ..given_up(body, &[]) }
    }

    #[test]
    fn a_record_that_sqs_moved_is_read_as_the_handler_would_read_it() {
        let letter = bare(RECORD, &[]);
        let facts = letter.facts();
        assert_eq!((facts.origin, facts.reason), (Origin::Moved, None));
        assert_eq!(facts.target.unwrap().name(), "my-function");
        assert_eq!(facts.attempts, Some(0));
        assert!(facts.payload.unwrap().starts_with("{"));
        assert!(facts.error_message.unwrap().ends_with("before completing request"));

        let retried = RECORD.replace(
            "\"requestPayload\"",
            r#""requestPayload":{"_retry_metadata":{"attempt":3,"initial_timestamp":1,"request_id":"first"},"_original_payload":{"x": 1}},"was""#,
        );
        let letter = bare(&retried, &[]);
        let facts = letter.facts();
        assert_eq!((facts.attempts, facts.request_id.as_deref()), (Some(3), Some("first")));
        assert_eq!(facts.payload.as_deref(), Some(r#"{"x": 1}"#));
    }

    #[test]
    fn a_letter_of_a_queue_has_its_name_and_its_body_may_be_anything() {
        let letter = of_queue("no JSON", &[]);
        let listed = letter.listed(true);
        assert_eq!(listed.target_name().as_deref(), Some("sqs:imports"));
        assert_eq!(listed.payload.as_deref(), Some("no JSON"));
        assert_eq!(serde_json::to_value(&listed).unwrap()["function"], IMPORTS);
        assert_eq!(GroupBy::Function.key(&letter, &letter.facts()), "sqs:imports");
        let envelope =
            r#"{"_retry_metadata":{"attempt":1,"initial_timestamp":1},"_original_payload":7}"#;
        assert_eq!(of_queue(envelope, &[]).facts().payload.as_deref(), Some(envelope));
        assert_eq!(given_up(envelope, &[]).facts().payload.as_deref(), Some("7"));
        let bare = given_up(envelope, &[(NO_ENVELOPE, "true")]);
        assert_eq!(bare.facts().payload.as_deref(), Some(envelope), "it is the function's own");
        assert_eq!(of_queue("1", &[(SOURCE_QUEUE_ARN, ORDERS)]).facts().target, None);
    }

    #[test]
    fn a_queues_message_that_sqs_moved_twice_is_recognized_by_the_attributes_of_its_delay() {
        let carried = [
            (SOURCE_QUEUE_ARN, IMPORTS),
            ("FailedAt", "2026-01-01T00:00:00Z"),
            ("MessageId", "first"),
        ];
        let metadata = r#"{"attempt":2,"initial_timestamp":1767225000,"request_id":"r"}"#;
        let own = [("tenant", "blue"), (METADATA, metadata)];
        let letter = bare("no JSON", &[&carried[..], &own].concat());
        let facts = letter.facts();
        assert_eq!((facts.origin, facts.attempts), (Origin::Moved, Some(2)));
        assert_eq!(facts.target.unwrap().name(), "sqs:imports");
        assert_eq!(
            (facts.request_id.as_deref(), facts.payload.as_deref()),
            (Some("r"), Some("no JSON"))
        );
        let original = letter.original_attributes().unwrap();
        assert_eq!(original, [Attribute::text("tenant", "blue")]);
    }

    #[test]
    fn a_message_of_a_functions_own_dead_letter_queue_names_no_function() {
        let letter = bare("[1 ,2]", &[("RequestID", "r-1"), ("ErrorMessage", "boom")]);
        let facts = letter.facts();
        assert_eq!((facts.origin, facts.target), (Origin::Lambda, None));
        assert_eq!((facts.request_id.as_deref(), facts.attempts), (Some("r-1"), Some(0)));
        assert_eq!(facts.payload.as_deref(), Some("[1 ,2]"));
    }

    pub(crate) const RULE: &str = "arn:aws:events:us-east-1:123456789012:rule/links";

    /// The message of a rule that could not deliver this event.
    pub(crate) fn undelivered(body: &str, target: &str) -> Letter {
        bare(body, &[("RULE_ARN", RULE), ("TARGET_ARN", target), ("ERROR_CODE", "NO_PERMISSIONS")])
    }

    #[test]
    fn a_letter_names_what_could_not_deliver_its_event() {
        let letter = given_up("{}", &[(SOURCE_ARN, RULE)]);
        assert_eq!(letter.facts().source.as_deref(), Some(RULE));
        assert_eq!(given_up("{}", &[]).facts().source, None);
        for (target, name) in [(ORDERS, "orders"), (IMPORTS, "sqs:imports")] {
            let facts = undelivered("[1 ,2]", target).facts();
            assert_eq!((facts.origin, facts.reason), (Origin::Undelivered, None));
            assert_eq!(facts.target.unwrap().name(), name);
            assert_eq!((facts.source.as_deref(), facts.attempts), (Some(RULE), Some(0)));
            assert_eq!(facts.error_type.as_deref(), Some("NO_PERMISSIONS"));
            assert_eq!(facts.payload.as_deref(), Some("[1 ,2]"));
        }
    }

    #[test]
    fn the_body_of_an_unreadable_letter_is_no_payload_unless_it_can_be_read_by_now() {
        let unreadable = [("Reason", "unreadable"), ("FunctionArn", "")];
        assert_eq!(given_up("{\"a\":1}", &unreadable).facts().payload, None);
        let payload = given_up(RECORD, &unreadable).facts().payload;
        assert!(payload.unwrap().contains("ORDER_IDS"));
    }

    #[test]
    fn every_letter_has_a_group() {
        let letters = [given_up("1", &[]), bare("4", &[])];
        let keys = GroupBy::ALL
            .map(|(_, by)| letters.each_ref().map(|letter| by.key(letter, &letter.facts())));
        let expected = [
            ["max_age_exceeded", NONE],
            ["orders", NONE],
            ["app.PaymentError", NONE],
            ["7", NONE],
            ["2026-01-01", "2026-01-01"],
        ];
        assert_eq!(keys, expected);
    }

    #[test]
    fn a_payload_that_is_too_large_for_a_letter_is_read_from_the_record_in_its_bucket() {
        let notice = r#"{"Records":[{"eventVersion":"2.1","eventSource":"aws:s3","eventName":"ObjectCreated:Put","s3":{"bucket":{"name":"records"},"object":{"key":"aws/lambda/async/orders/2026/01/01/x"}}}]}"#;
        let place = "s3://records/aws/lambda/async/orders/2026/01/01/x";
        let letter = given_up(notice, &[(PAYLOAD_LOCATION, place)]);
        assert_eq!(letter.location().unwrap().to_string(), place);
        assert_eq!(given_up(notice, &[]).location(), None, "the body is the payload");
        let fetched = |record: Result<&str, &str>| {
            let record = record.map(str::to_owned).map_err(str::to_owned);
            Letter { record: Some(record), ..letter.clone() }.facts()
        };
        let record = |function: &str, payload: &str| {
            format!(
                r#"{{"timestamp":"2026-01-01T10:00:00Z","requestContext":{{"requestId":"r","functionArn":"{function}"}},"requestPayload":{payload}}}"#
            )
        };
        let wrapped = r#"{"_retry_metadata":{"attempt":7,"initial_timestamp":1767225600},"_original_payload":[1.0]}"#;
        for (payload, expected) in [("{\"a\": 1.0}", "{\"a\": 1.0}"), (wrapped, "[1.0]")] {
            let facts = fetched(Ok(&record(ORDERS, payload)));
            assert_eq!(facts.payload.as_deref(), Some(expected));
            assert_eq!(facts.payload_location.as_deref(), Some(place));
            assert_eq!(facts.request_id.as_deref(), Some("first-id"));
        }
        let bare = given_up(notice, &[(PAYLOAD_LOCATION, place), (NO_ENVELOPE, "true")]);
        let bare = Letter { record: Some(Ok(record(ORDERS, wrapped))), ..bare };
        assert_eq!(bare.facts().payload.as_deref(), Some(wrapped));
        let other = ORDERS.replace("orders", "other");
        assert_eq!(fetched(Ok(&record(&other, "1"))).payload, None);
        let large = format!("\"{}\"", "x".repeat(1 << 20));
        assert_eq!(
            fetched(Ok(&record(ORDERS, &large))).payload,
            None,
            "no invocation can carry it"
        );
        let denied = fetched(Err("AccessDenied: no"));
        assert_eq!(denied.payload, None);
        assert_eq!(denied.payload_fault.as_deref(), Some("AccessDenied: no"));
        assert_eq!(letter.facts().payload, None, "the notice is not the payload");
    }

    #[test]
    fn a_letter_about_a_part_of_a_batch_has_the_payload_of_that_part() {
        let key = "aws/lambda/4aa76e6b-7b23-4e8d-8b4d-0d6f9c3f7f0e/shard/2026/01/01/x";
        let notice = format!(
            r#"{{"Records":[{{"eventVersion":"2.1","eventSource":"aws:s3","eventName":"ObjectCreated:Put","s3":{{"bucket":{{"name":"records"}},"object":{{"key":"{key}"}}}}}}]}}"#
        );
        let record = format!(
            r#"{{"timestamp":"2026-01-01T10:00:00Z","requestContext":{{"requestId":"r","functionArn":"{ORDERS}"}},"KinesisBatchInfo":{{}},"payload":{{"Records":[{{"a":1.0}},{{"b":2}}]}}}}"#
        );
        let letter =
            given_up(&notice, &[(PAYLOAD_LOCATION, "s3://records/x"), (BATCH_PART, "1-1")]);
        let letter = Letter { record: Some(Ok(record)), ..letter };
        assert_eq!(letter.facts().payload.as_deref(), Some(r#"{"Records":[{"b":2}]}"#));
    }
}
