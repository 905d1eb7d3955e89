//! Reads a failed event from a message of the retry queue.
//!
//! | form | source | content |
//! |---|---|---|
//! | moved | a queue whose consumer failed, by its redrive policy | the message as it was in that queue |
//! | undelivered | EventBridge, into a target's dead-letter queue | the event, attributes name its target |
//! | record | on-failure destination SQS | the body is the failure record |
//! | notification | on-failure destination SNS | the record is the `Message` of an SNS notification |
//! | event | on-failure destination EventBridge | the record is the `detail` of an event |
//! | bare | the function's own dead-letter queue | the body is the event, attributes describe the failure |
//! | redriven | our own dead-letter queue, by SQS's redrive | one of our dead letters, unchanged |
//! | notice | on-failure destination S3 | the record lies in a bucket, and S3 says [where](crate::notice) |
//! | batch | on-failure destination S3 of a stream's mapping | the same, and the record has a [batch](crate::batch) |
//!
//! A moved message is what its producer sent: its body and attributes may be those of another form. So if the retry
//! queue is bound to a queue, this form is looked for first.
//!
//! Lambda's records have every member that is read here. Emulators omit some, so the message's own id and
//! sent time stand in for a missing request id and failure time. A member of the wrong type counts as absent.
//!
//! Payloads are borrowed from the message's body, so nothing is copied for a message that only waits.
//!
//! A record in a bucket is read in two steps: [`read`] says where it lies, and [`fetched`] reads it. In between,
//! [`unread`] is what the message alone says.

mod letter;
mod stream;
mod undelivered;
mod unreadable;

use std::borrow::Cow;

use serde_json::value::RawValue;

use self::letter::{has_no_envelope, is_redriven, redriven, restarted};
pub use self::{letter::body_is_message, unreadable::Unreadable};
use crate::{
    Timestamp,
    arn::{FunctionArn, Home},
    dead_letter::beginning,
    envelope::{Envelope, INVOCATION_MAX, REQUEST_ID_MAX},
    error_type::ErrorReport,
    json::Object,
    message::is_id,
    notice::{Location, Notice},
    queued::Queued,
    settings::{Policies, policy::Policy},
    target::Target,
    time,
};
pub use crate::{
    failure::{Condition, Event, Failure, Wrapping},
    message::{
        BATCH_PART, CARRIED, DELIVERY_HISTORY, DeliveryAttributes, FAILED_AT, MESSAGE_ID, Message,
        MessageAttributes, NO_ENVELOPE, PAYLOAD_LOCATION, SOURCE_ARN, SOURCE_QUEUE_ARN,
    },
};

/// The members of a failure record that are read. Whoever writes a record of 8 MiB may give it a million others.
const MEMBERS: [&str; 8] = [
    "requestContext",
    "timestamp",
    "requestPayload",
    "responsePayload",
    "payload",
    "KinesisBatchInfo",
    "DDBStreamBatchInfo",
    "KafkaBatchInfo",
];

const CONTEXT: [&str; 3] = ["functionArn", "requestId", "condition"];

/// Reads an event that EventBridge or its Scheduler could not deliver, for a handler that lives at `home`, or returns
/// `None` if the message is none. One that was given up and moved back is a dead letter of ours.
pub fn undelivered<'a>(
    message: &Message<'a>,
    home: &Home,
) -> Option<Result<Failure<'a>, Unreadable>> {
    if is_redriven(message) { None } else { undelivered::undelivered(message, home) }
}

/// Reads a message that a queue's redrive policy moved here, or returns `None` if it was not moved. The retry queue
/// must be bound to a queue: only then is the body that of a consumer's message, whatever it looks like.
pub fn moved<'a>(message: &Message<'a>) -> Option<Result<Failure<'a>, Unreadable>> {
    let source = message.source_queue()?;
    let is_first = message.moved_from.is_some();
    let MessageAttributes { failed_at, all, .. } = &message.attributes;
    // As long as SQS names the source, attributes of our names are the message's own.
    let carried = failed_at.filter(|_| !is_first).and_then(time::parse);
    let own = all.iter().filter(|it| is_first || !CARRIED.contains(&&*it.name)).cloned();
    let received_at = message.first_received_at.or(message.sent_at);
    let enqueued_at = message.sent_at.filter(|_| is_first);
    let queued = Queued::read(message.body, own.collect(), enqueued_at);
    let failed_at = carried.into_iter().chain(received_at).min().ok_or(Unreadable::NoTime);
    Some(failed_at.map(|failed_at| Failure {
        target: Target::Queue(source),
        request_id: if is_first { message.id } else { message.first_id() }.to_owned(),
        failed_at,
        condition: Condition::Failed,
        error: ErrorReport::default(),
        event: Some(Event::Queued(queued)),
        is_transparent: false,
        undelivered_by: None,
        wrapping: Wrapping::default(),
    }))
}

/// What a message says.
#[allow(clippy::large_enum_variant, reason = "nearly all messages are failures")]
#[derive(Debug)]
pub enum Read<'a> {
    Failure(Failure<'a>),
    /// The failure record lies in a bucket, and has to be fetched.
    InBucket(Location),
    /// S3 has announced several objects: the notice of each. They are sent instead of the message, so that each is
    /// judged by itself.
    Several(Vec<String>),
    NoFailure(NoFailure),
}

/// What a message is about, if it is about no failure. There is nothing to do about it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NoFailure {
    /// S3 has tested whether it may send notices to the queue.
    Test,
    /// A function has succeeded, and its answer names no record of a batch that it has not processed.
    Success,
}

impl<'a> Read<'a> {
    /// The failure, unless the message is about none, or is a notice.
    pub fn failure(self) -> Option<Failure<'a>> {
        match self {
            Self::Failure(failure) => Some(failure),
            Self::InBucket(_) | Self::Several(_) | Self::NoFailure(_) => None,
        }
    }

    /// The same, independent of the text of a notification.
    fn of_notification<'b>(self) -> Read<'b> {
        match self {
            Self::Failure(failure) => Read::Failure(of_notification(failure)),
            Self::InBucket(location) => Read::InBucket(location),
            Self::Several(notices) => Read::Several(notices),
            Self::NoFailure(why) => Read::NoFailure(why),
        }
    }
}

/// Reads a message of any of the other forms. `bare_target` is the function that bare events belong to. Which payloads
/// are envelopes depends on the policy of their function.
pub fn read<'a>(
    message: &Message<'a>,
    bare_target: Option<&FunctionArn>,
    policies: &Policies,
) -> Result<Read<'a>, Unreadable> {
    let &MessageAttributes { lambda_request_id, error_message, payload_location, .. } =
        &message.attributes;
    if is_redriven(message) {
        return match payload_location.and_then(|_| notice_in(message.body)) {
            Some(notice) => announced(notice),
            None => redriven(message, policies).map(Read::Failure),
        };
    }
    let bare_target = bare_target.map(|target| (target, policies));
    if let Some(request_id) = lambda_request_id {
        let error_message = error_message.map(str::to_owned);
        let failure = bare(message, message.body, request_id, error_message, bare_target);
        return failure.map(Read::Failure);
    }
    let body = Object::read(message.body).ok_or(Unreadable::NoObject)?;
    if let Some(notification) = Notification::read(&body) {
        let Notification { text, bare_request_id, bare_error_message } = notification;
        let read = match &bare_request_id {
            Some(id) => {
                bare(message, &text, id, bare_error_message, bare_target).map(Read::Failure)
            }
            None => {
                let body = Object::read(&text).ok_or(Unreadable::NoObject)?;
                match Notice::read(&body) {
                    Some(notice) => return announced(notice),
                    None => record(message, &body, policies),
                }
            }
        };
        return read.map(Read::of_notification);
    }
    if body.text("detail-type").is_some_and(|kind| is_of_destination(&kind)) {
        let detail = body.object("detail").ok_or(Unreadable::NoFunction)?;
        return record(message, &detail, policies);
    }
    match Notice::read(&body) {
        Some(notice) => announced(notice),
        None => record(message, &body, policies),
    }
}

/// Whether an event of this `detail-type` has a record of Lambda in it.
fn is_of_destination(kind: &str) -> bool {
    ["Failure", "Success"].iter().any(|end| kind.ends_with(end))
}

/// Where the record lies that has the payload of a dead letter with [`PAYLOAD_LOCATION`] and this body.
pub fn location_in(body: &str) -> Option<Location> {
    match notice_in(body)? {
        Notice::Record(location) => Some(location),
        Notice::Test | Notice::Several(_) | Notice::Other => None,
    }
}

/// The notice in the body of a message, or in its SNS notification.
fn notice_in(body: &str) -> Option<Notice> {
    let body = Object::read(body)?;
    match Notification::read(&body) {
        Some(Notification { text, .. }) => Notice::read(&Object::read(&text)?),
        None => Notice::read(&body),
    }
}

/// What a message with this notice says.
fn announced<'a>(notice: Notice) -> Result<Read<'a>, Unreadable> {
    match notice {
        Notice::Record(location) => Ok(Read::InBucket(location)),
        Notice::Test => Ok(Read::NoFailure(NoFailure::Test)),
        Notice::Several(notices) => Ok(Read::Several(notices)),
        Notice::Other => Err(Unreadable::OtherNotice),
    }
}

/// What a message says about the failure whose record lies in a bucket, as long as that was not read. The record may
/// name the function in another account or region. Of a stream's batch nothing is known before.
pub(crate) fn unread(
    message: &Message,
    location: &Location,
    home: &Home,
) -> Result<Failure<'static>, Unreadable> {
    let function = location.function().ok_or(Unreadable::NotFetched)?;
    let function = home.function(function).ok_or(Unreadable::NoFunction)?;
    Ok(Failure {
        target: Target::Function(function),
        request_id: message.first_id().to_owned(),
        failed_at: failed_at(message, None)?,
        condition: Condition::Failed,
        error: ErrorReport::default(),
        event: None,
        is_transparent: false,
        undelivered_by: None,
        wrapping: Wrapping::default(),
    })
}

/// Reads the record that lay at `location`. A dead letter about it starts its event over. Of a batch, this is what the
/// message is about, which may be a part of it.
pub fn fetched(
    message: &Message,
    location: &Location,
    text: &str,
    policies: &Policies,
) -> Result<Failure<'static>, Unreadable> {
    let text = Object::with(text, &MEMBERS).ok_or(Unreadable::NoObject)?;
    let failure = record(message, &text, policies)?.failure().ok_or(Unreadable::Success)?;
    let is_of_batch = failure.condition == Condition::OfBatch;
    match location.function() {
        Some(function) if failure.target.name() != function => {
            return Err(Unreadable::OtherFunction);
        }
        None if !is_of_batch => return Err(Unreadable::NoBatch),
        Some(_) | None => {}
    }
    let failure = if is_of_batch { stream::divided(failure, message)? } else { failure };
    let failure = if is_redriven(message) { restarted(failure, message)? } else { failure };
    Ok(of_notification(failure))
}

/// An SNS notification, which wraps the message of an on-failure destination or of a function's own dead-letter topic.
struct Notification {
    text: String,
    bare_request_id: Option<String>,
    bare_error_message: Option<String>,
}

impl Notification {
    fn read(body: &Object) -> Option<Self> {
        if body.text("Type")? != "Notification" {
            return None;
        }
        let attribute = |name| {
            let value = body.object("MessageAttributes")?.object(name)?.text("Value")?;
            Some(value.into_owned())
        };
        Some(Self {
            text: body.text("Message")?.into_owned(),
            bare_request_id: attribute("RequestID"),
            bare_error_message: attribute("ErrorMessage"),
        })
    }
}

fn record<'a>(
    message: &Message,
    record: &Object<'a>,
    policies: &Policies,
) -> Result<Read<'a>, Unreadable> {
    let context = record.get("requestContext");
    let context = context.and_then(|it| Object::with(it.get(), &CONTEXT));
    let context = context.ok_or(Unreadable::NoFunction)?;
    let target = context
        .text("functionArn")
        .and_then(|arn| FunctionArn::parse(&arn))
        .ok_or(Unreadable::NoFunction)?;
    if stream::is_of_mapping(record) {
        let id = context.text("requestId");
        return stream::read(message, record, (target, id.as_deref()), policies).map(Read::Failure);
    }
    let condition = context.text("condition");
    let recorded_at = record.text("timestamp").and_then(|text| time::parse(&text));
    let policy = policies.of(target.name());
    let payload = record.get("requestPayload");
    let unwrapped = payload.map(|payload| match has_no_envelope(message) {
        true => (Event::Fresh(Cow::Borrowed(payload)), Wrapping::Own),
        false => unwrapped(payload, policy),
    });
    let is_success = condition.as_deref() == Some("Success");
    let event = if is_success {
        let answer = payload.zip(record.get("responsePayload")).zip(unwrapped);
        let unprocessed = answer.and_then(|((payload, answer), unwrapped)| {
            stream::unprocessed(payload, unwrapped, answer, policy)
        });
        if unprocessed.is_none() {
            // Invoked again, it would succeed again, and come back for ever.
            return Ok(Read::NoFailure(NoFailure::Success));
        }
        unprocessed
    } else {
        unwrapped
    };
    let (event, wrapping) = event.map_or_else(Default::default, |(event, it)| (Some(event), it));
    let response = record.get("responsePayload").filter(|_| !is_success);
    let response = response.and_then(|it| Object::with(it.get(), &["errorType", "errorMessage"]));
    let reported = |name| response.as_ref()?.text(name);
    // A record in a bucket may have megabytes of it, and nothing reads more than its beginning.
    let error = ErrorReport {
        error_type: reported("errorType").map(Cow::into_owned),
        message: reported("errorMessage").map(|text| beginning(&text).to_owned()),
    };
    Ok(Read::Failure(Failure {
        is_transparent: policy.transparent,
        undelivered_by: None,
        event,
        wrapping,
        target: Target::Function(target),
        request_id: request_id(message, context.text("requestId").as_deref()),
        failed_at: failed_at(message, recorded_at)?,
        condition: Condition::read(condition.as_deref()),
        error,
    }))
}

fn bare<'a>(
    message: &Message,
    event: &'a str,
    lambda_request_id: &str,
    error_message: Option<String>,
    target: Option<(&FunctionArn, &Policies)>,
) -> Result<Failure<'a>, Unreadable> {
    let event: &RawValue = serde_json::from_str(event).map_err(|_| Unreadable::NoEvent)?;
    let (target, policies) = target.ok_or(Unreadable::NoTarget)?;
    let policy = policies.of(target.name());
    let (event, wrapping) = unwrapped(event, policy);
    Ok(Failure {
        target: Target::Function(target.clone()),
        request_id: request_id(message, Some(lambda_request_id)),
        failed_at: failed_at(message, None)?,
        condition: Condition::Failed,
        error: ErrorReport { error_type: None, message: error_message },
        is_transparent: policy.transparent,
        undelivered_by: None,
        event: Some(event),
        wrapping,
    })
}

/// The event in a payload. Of a function that is retried without an envelope, the payload may be the function's own.
fn unwrapped<'a>(payload: &'a RawValue, policy: &Policy) -> (Event<'a>, Wrapping<'a>) {
    let event = Event::read(payload, policy);
    let wrapping = match policy.transparent && matches!(event, Event::Retried(_)) {
        true => Wrapping::Unknown(Cow::Borrowed(payload)),
        false => Wrapping::AsItLooks,
    };
    (event, wrapping)
}

/// The `given` request id, or the first message's id if it is missing or too long.
fn request_id(message: &Message, given: Option<&str>) -> String {
    let usable = given.filter(|id| is_id(id, REQUEST_ID_MAX));
    usable.unwrap_or(message.first_id()).to_owned()
}

/// The earliest of the times in the message. A record is written before it is sent, so a time after the send is wrong,
/// and could keep the message waiting for years. The same holds for `FailedAt`.
fn failed_at(message: &Message, recorded: Option<Timestamp>) -> Result<Timestamp, Unreadable> {
    let carried = message.attributes.failed_at.and_then(time::parse);
    let times = [recorded, carried, message.sent_at];
    times.into_iter().flatten().min().ok_or(Unreadable::NoTime)
}

impl<'a> Event<'a> {
    /// Whether a payload is an envelope decides what the function is given and, if it has tenants, on whose behalf. The
    /// first run of the event was that of the tenant which the whole payload names. So for such a function an object
    /// is an envelope only if it has no room for a tenant beside the two members of an envelope.
    fn read(payload: &'a RawValue, policy: &Policy) -> Self {
        let envelope = match policy.tenant_id {
            Some(_) => Envelope::read_bare(payload.get()),
            None => Envelope::read(payload.get()),
        };
        envelope.map_or(Self::Fresh(Cow::Borrowed(payload)), Self::Retried)
    }

    /// The same event before its first retry.
    fn started_over(self) -> Self {
        match self {
            Self::Retried(envelope) => Self::Fresh(envelope.payload),
            Self::Fresh(_)
            | Self::Queued(_)
            | Self::Truncated(_)
            | Self::TooLarge
            | Self::InParts(_) => self,
        }
    }
}

impl Condition {
    /// AWS documents that a stopped loop's event goes to the on-failure destination, but not what its record
    /// says, so any condition that mentions recursion counts. The error type does not: a target whose own
    /// call was stopped reports `RecursiveInvocationException`, and it did run.
    fn read(condition: Option<&str>) -> Self {
        match condition.unwrap_or_default() {
            Self::PAUSED => Self::Paused,
            stopped if stopped.contains("Recursi") => Self::RecursionStopped,
            _ => Self::Failed,
        }
    }
}

/// The same failure, independent of the text that was decoded from a notification or fetched from a bucket, which is
/// never a queue's message. Ten records of 8 MiB may be in a batch, so what can't be invoked is not kept.
fn of_notification(failure: Failure<'_>) -> Failure<'static> {
    let is_large = |payload: &str| payload.len() > INVOCATION_MAX;
    if failure.event.as_ref().is_some_and(|event| is_large(event.payload())) {
        let wrapping = failure.wrapping.without_payload();
        return Failure { event: Some(Event::TooLarge), wrapping, ..failure };
    }
    let owned = |payload: Cow<'_, RawValue>| Cow::Owned(payload.into_owned());
    let event = failure.event.and_then(|event| match event {
        Event::Fresh(payload) => Some(Event::Fresh(owned(payload))),
        Event::Retried(envelope) => Some(Event::Retried(envelope.into_owned())),
        Event::TooLarge => Some(Event::TooLarge),
        Event::InParts(parts) => Some(Event::InParts(parts)),
        Event::Queued(_) | Event::Truncated(_) => None,
    });
    let wrapping = match failure.wrapping {
        Wrapping::Unknown(whole) if !is_large(whole.get()) => Wrapping::Unknown(owned(whole)),
        Wrapping::Cut(whole) if !is_large(whole.get()) => Wrapping::Cut(owned(whole)),
        Wrapping::Unknown(_) | Wrapping::Cut(_) | Wrapping::AsItLooks => Wrapping::AsItLooks,
        Wrapping::Own => Wrapping::Own,
    };
    Failure { event, wrapping, ..failure }
}

#[cfg(test)]
mod samples;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Attempt,
        testing::{self, RECORD, at, message},
    };

    /// Reads a message of a function without tenants.
    pub(super) fn read<'a>(
        message: &Message<'a>,
        bare_target: Option<&FunctionArn>,
    ) -> Result<Failure<'a>, Unreadable> {
        read_by(&Policies::default(), message, bare_target)
    }

    fn read_by<'a>(
        policies: &Policies,
        message: &Message<'a>,
        bare_target: Option<&FunctionArn>,
    ) -> Result<Failure<'a>, Unreadable> {
        Ok(super::read(message, bare_target, policies)?.failure().unwrap())
    }

    /// Reads a message that is a notice of a record.
    pub(super) fn read_location(message: &Message<'_>) -> Location {
        match super::read(message, None, &Policies::default()) {
            Ok(Read::InBucket(location)) => location,
            other => panic!("{other:?}"),
        }
    }

    const BODIES: [&str; 3] = [
        RECORD,
        include_str!("../fixtures/sns_notification.json"),
        include_str!("../fixtures/eventbridge_event.json"),
    ];

    #[test]
    fn of_a_long_error_only_the_beginning_is_kept() {
        let long = format!("120s: {}", "é".repeat(1 << 20));
        let failure = serde_json::json!({ "errorType": "RetryAfter", "errorMessage": long });
        let body =
            RECORD.replace("\"responsePayload\"", &format!(r#""responsePayload":{failure},"was""#));
        let error = read(&message(&body), None).unwrap().error;
        assert_eq!(error.retry_after(), Some(std::time::Duration::from_mins(2)));
        assert_eq!(error.message.as_deref(), Some(&long[..1024]));
    }

    #[test]
    fn a_record_is_the_same_in_an_sns_notification_and_in_an_eventbridge_event() {
        for body in BODIES {
            let failure = read(&message(body), None).unwrap();
            assert_eq!(failure.target.name(), "my-function");
            assert!(failure.target.as_str().ends_with(":my-function:$LATEST"));
            assert_eq!(failure.request_id, "e4b46cbf-b738-xmpl-8880-a18cdf61200e");
            assert_eq!(failure.failed_at, at("2019-11-14T18:16:05.568Z"));
            assert_eq!(failure.condition, Condition::Failed);
            assert_eq!(failure.error.error_type, None);
            assert!(
                failure.error.message.as_deref().unwrap().ends_with("before completing request")
            );
            assert!(failure.event.as_ref().unwrap().payload().starts_with('{'));
            assert_eq!(failure.attempts_made(), 0);
        }
    }

    #[test]
    fn a_message_of_a_functions_own_dead_letter_queue_is_read_by_its_attributes() {
        let target =
            FunctionArn::parse("arn:aws:lambda:us-east-1:123456789012:function:legacy").unwrap();
        // Even an event that is itself a failure record is an event here.
        for body in ["{\"order\": 1.0}", "null", "[1 ,2]", RECORD] {
            let attributes = MessageAttributes {
                lambda_request_id: Some("r-1"),
                error_message: Some("boom"),
                ..Default::default()
            };
            let message = Message { attributes, ..message(body) };
            let failure = read(&message, Some(&target)).unwrap();
            assert_eq!(failure.target, Target::Function(target.clone()));
            assert_eq!(failure.request_id, "r-1");
            assert_eq!(failure.failed_at, message.sent_at.unwrap());
            assert_eq!(failure.error.message.as_deref(), Some("boom"));
            assert_eq!(failure.event.as_ref().unwrap().payload(), body.trim());
            assert_eq!(read(&message, None).unwrap_err(), Unreadable::NoTarget);
        }
        // SNS has the attributes inside.
        let body = include_str!("../fixtures/sns_dead_letter.json");
        let failure = read(&message(body), Some(&target)).unwrap();
        assert_eq!(failure.request_id, "e4b46cbf-b738-xmpl-8880-a18cdf61200e");
        assert_eq!(failure.event.as_ref().unwrap().payload(), r#"{"order": 1.0}"#);
    }

    /// A dead letter that was moved back to the retry queue.
    fn letter(body: &str) -> Message<'_> {
        let attributes = MessageAttributes {
            reason: Some("max_attempts_exceeded"),
            function_arn: Some("arn:aws:lambda:us-east-1:123456789012:function:orders:live"),
            request_id: Some("first-id"),
            error_type: Some("PermanentFailure"),
            error_message: Some("no account 7"),
            ..Default::default()
        };
        Message { attributes, ..message(body) }
    }

    #[test]
    fn a_redriven_dead_letter_starts_its_event_over_under_its_first_request_id() {
        let bodies = ["{\"order\": 1.0}", "null", "12345678901234567890123", RECORD];
        for body in bodies.into_iter().chain([&*testing::envelope(7, 1, "other", "1.0")]) {
            let message = letter(body);
            let failure = read(&message, None).unwrap();
            assert!(failure.target.as_str().ends_with(":function:orders:live"));
            assert_eq!(failure.first_request_id(), Some("first-id"));
            assert_eq!(failure.key().run, message.id, "no duplicate of the failure before");
            assert_eq!(failure.first_failure(), message.sent_at.unwrap(), "its age begins anew");
            assert_eq!(failure.attempts_made(), 0);
            let event = failure.event.as_ref().unwrap();
            let payload = if body.contains("_original_payload") { "1.0" } else { body.trim() };
            assert_eq!(event.payload(), payload);
            let first = failure.envelope(Attempt::FIRST).unwrap().metadata;
            assert_eq!(first.request_id.as_deref(), Some("first-id"));
            assert_eq!(first.initial_timestamp, failure.failed_at.timestamp());
        }
    }

    #[test]
    fn an_event_that_looks_like_an_envelope_of_another_tenants_event_stays_its_own_tenants() {
        let ours = testing::envelope(1, 1_573_755_000, "first", r#"{"tenant":{"id":"B"}}"#);
        let forged = ours.replacen('{', r#"{"tenant":{"id":"A"},"#, 1);
        let repeated = ours.replacen('{', r#"{"_original_payload":{"tenant":{"id":"A"}},"#, 1);
        let target = testing::home().function("legacy").unwrap();
        let own = r#"{"TENANT_ID":"/tenant/id"}"#;
        let own = format!(r#"{{"my-function":{own},"orders":{own},"legacy":{own}}}"#);
        for setting in [("TENANT_ID", "/tenant/id"), ("POLICIES", &*own)] {
            let policies = &testing::rules(&[setting]).policies;
            let tenants = |payload: &str| {
                let body = testing::record_of(payload);
                let quoted = serde_json::to_string(&body).unwrap();
                let notification = format!(r#"{{"Type":"Notification","Message":{quoted}}}"#);
                let event = format!(r#"{{"detail-type":"a Failure","detail":{body}}}"#);
                let bare = MessageAttributes { lambda_request_id: Some("r"), ..Default::default() };
                let bare = Message { attributes: bare, ..message(payload) };
                let records = [message(&body), message(&notification), message(&event)];
                records
                    .into_iter()
                    .chain([bare, letter(payload)])
                    .map(|message| {
                        let failure = read_by(policies, &message, Some(&target)).unwrap();
                        let payload = failure.envelope(Attempt::FIRST).unwrap().payload;
                        let tenant = policies.of(failure.target.name()).tenant(&payload).unwrap();
                        tenant.unwrap().into_owned()
                    })
                    .collect::<Vec<_>>()
            };
            assert_eq!(tenants(r#"{"tenant":{"id":"A"}}"#), ["A"; 5]);
            assert_eq!(tenants(&forged), ["A"; 5], "as in its first run");
            assert_eq!(tenants(&ours), ["B"; 5]);
            let body = testing::record_of(&repeated);
            let failure = read_by(policies, &message(&body), None).unwrap();
            assert!(failure.retried().is_none(), "our envelopes repeat no member");
        }
        let body = testing::record_of(&forged);
        let failure = read(&message(&body), None).unwrap();
        assert!(failure.retried().is_some(), "without tenants it is an envelope as before");
    }

    #[test]
    fn a_dead_letter_whose_body_is_a_message_is_read_as_that_message() {
        let body = testing::record_of("1").replace("requestPayload", "requestpayload");
        for reason in ["unreadable", "payload_missing"] {
            let attributes = MessageAttributes { reason: Some(reason), ..letter(&body).attributes };
            let failure = read(&Message { attributes, ..letter(&body) }, None).unwrap();
            assert_eq!(failure.target.name(), "my-function", "{reason}");
            assert!(failure.event.is_none(), "{reason}");
        }
    }

    #[test]
    fn what_sqs_says_stands_in_for_what_a_record_lacks() {
        let body = r#"{"requestContext":{"functionArn":"arn:aws:lambda:us-east-1:123456789012:function:f"},"requestPayload":1}"#;
        let failure = read(&message(body), None).unwrap();
        assert_eq!(failure.request_id, message(body).id);
        assert_eq!(Some(failure.failed_at), message(body).sent_at);
        assert_eq!(failure.condition, Condition::Failed);

        for odd in [String::new(), "x".repeat(257)] {
            let body = RECORD.replace("e4b46cbf-b738-xmpl-8880-a18cdf61200e", &odd);
            assert_eq!(read(&message(&body), None).unwrap().request_id, message(&body).id);
        }

        let undated = Message { sent_at: None, ..message(body) };
        assert_eq!(read(&undated, None).unwrap_err(), Unreadable::NoTime);
    }

    #[test]
    fn conditions_are_an_open_set() {
        for (condition, expected) in [
            ("RetriesExhausted", Condition::Failed),
            ("EventAgeExceeded", Condition::Failed),
            ("SomethingNew", Condition::Failed),
            ("ZeroReservedConcurrency", Condition::Paused),
            ("RecursiveInvocation", Condition::RecursionStopped),
            ("RecursionDetected", Condition::RecursionStopped),
        ] {
            let body = RECORD.replace("RetriesExhausted", condition);
            assert_eq!(read(&message(&body), None).unwrap().condition, expected, "{condition}");
        }
        let body = RECORD.replace(
            "\"errorMessage\"",
            r#""errorType":"RecursiveInvocationException","errorMessage""#,
        );
        let condition = read(&message(&body), None).unwrap().condition;
        assert_eq!(condition, Condition::Failed, "the target's own call was stopped");
    }

    #[test]
    fn what_is_of_no_form_says_what_it_lacks() {
        let table = [
            ("", Unreadable::NoObject),
            ("no JSON", Unreadable::NoObject),
            ("null", Unreadable::NoObject),
            ("[]", Unreadable::NoObject),
            ("7", Unreadable::NoObject),
            ("{}", Unreadable::NoFunction),
            (r#"{"requestContext":7}"#, Unreadable::NoFunction),
            (r#"{"requestContext":{"functionArn":7}}"#, Unreadable::NoFunction),
            (r#"{"requestContext":{"functionArn":"my-function"}}"#, Unreadable::NoFunction),
            (r#"{"Type":"Notification","Message":"no JSON"}"#, Unreadable::NoObject),
            (r#"{"Type":"Notification","Message":{}}"#, Unreadable::NoFunction),
            (
                r#"{"detail-type":"Lambda Function Invocation Result - Failure","detail":7}"#,
                Unreadable::NoFunction,
            ),
            (
                r#"{"detail-type":"Lambda Function Invocation Result - Success","detail":{}}"#,
                Unreadable::NoFunction,
            ),
        ];
        for (body, expected) in table {
            assert_eq!(read(&message(body), None).unwrap_err(), expected, "{body}");
        }
        let attributes = MessageAttributes { lambda_request_id: Some("r"), ..Default::default() };
        let bare = Message { attributes, ..message("no JSON") };
        assert_eq!(read(&bare, None).unwrap_err(), Unreadable::NoEvent);
        assert_eq!(read(&letter("no JSON"), None).unwrap_err(), Unreadable::NoEvent);
        for function_arn in [Some("f"), None] {
            let attributes = MessageAttributes { function_arn, ..letter("1").attributes };
            let nameless = Message { attributes, ..letter(RECORD) };
            assert_eq!(read(&nameless, None).unwrap_err(), Unreadable::NoLetterFunction);
        }
    }

    #[test]
    fn a_member_of_another_type_is_as_good_as_absent() {
        for wrong in ["null", "7", "[]", "{}", "true"] {
            let body = format!(
                r#"{{"timestamp":{wrong},"requestContext":{{"requestId":{wrong},"condition":{wrong},"functionArn":"arn:aws:lambda:us-east-1:123456789012:function:f"}},"requestPayload":{wrong},"responsePayload":{{"errorType":{wrong},"errorMessage":{wrong}}}}}"#
            );
            let failure = read(&message(&body), None).unwrap();
            assert_eq!(failure.error, ErrorReport::default());
            assert_eq!(failure.request_id, message(&body).id);
            assert_eq!(failure.event.as_ref().unwrap().payload(), wrong);
        }
    }
    const KEY: &str = "aws/lambda/async/my-function/2019/11/14/2019-11-14T18.16.05-ac1e49f4-7d3b-4d0c-9a55-6b0ce3c3d1f0";

    fn location() -> Location {
        Location::of("failure-records", KEY, None).unwrap()
    }

    pub(super) fn in_sns(text: &str) -> String {
        let text = serde_json::to_string(text).unwrap();
        format!(r#"{{"Type":"Notification","Message":{text}}}"#)
    }

    #[test]
    fn a_notice_of_s3_or_eventbridge_even_through_sns_says_where_the_record_lies() {
        let notices = [
            include_str!("../fixtures/s3_notification.json"),
            include_str!("../fixtures/s3_eventbridge_event.json"),
        ];
        for notice in notices {
            for body in [notice.to_owned(), in_sns(notice)] {
                assert_eq!(read_location(&message(&body)), location(), "{body}");
            }
        }
        let test = include_str!("../fixtures/s3_test_event.json");
        for body in [test.to_owned(), in_sns(test)] {
            let read = super::read(&message(&body), None, &Policies::default());
            assert!(matches!(read, Ok(Read::NoFailure(NoFailure::Test))), "{read:?}");
        }
    }

    #[test]
    fn an_event_that_is_a_notice_of_s3_stays_an_event_of_its_function() {
        let notice = include_str!("../fixtures/s3_notification.json").trim();
        let body = testing::record_of(notice);
        let failure = testing::read(&message(&body));
        assert_eq!(failure.event.unwrap().payload(), notice);
        let bare = MessageAttributes { lambda_request_id: Some("r-1"), ..Default::default() };
        let bare = Message { attributes: bare, ..message(notice) };
        let target = testing::home().function("legacy").unwrap();
        assert_eq!(read(&bare, Some(&target)).unwrap().event.unwrap().payload(), notice);
        let letter = letter(notice);
        assert_eq!(read(&letter, None).unwrap().event.unwrap().payload(), notice);
    }

    #[test]
    fn a_fetched_record_is_what_it_would_be_as_a_message() {
        let notice = include_str!("../fixtures/s3_notification.json");
        let message = message(notice);
        let fetched =
            |text: &str| super::fetched(&message, &location(), text, &Policies::default());
        for payload in ["1.0", "null", &*testing::envelope(3, 1_573_755_000, "first", "[1 ,2]")] {
            let text = testing::record_of(payload);
            let (there, sent) = (fetched(&text).unwrap(), testing::message(&text));
            let sent = testing::read(&sent);
            assert_eq!(there.key(), sent.key());
            assert_eq!((there.failed_at, &there.error), (sent.failed_at, &sent.error));
            assert_eq!(there.attempts_made(), sent.attempts_made());
            assert_eq!(there.event.unwrap().payload(), sent.event.unwrap().payload());
        }
        let other = RECORD.replace("my-function", "their-function");
        assert_eq!(fetched(&other).unwrap_err(), Unreadable::OtherFunction);
        assert_eq!(fetched("no JSON").unwrap_err(), Unreadable::NoObject);
        assert_eq!(fetched("{}").unwrap_err(), Unreadable::NoFunction);
    }

    #[test]
    fn a_dead_letter_that_leaves_its_payload_in_the_bucket_starts_its_event_over() {
        let notice = include_str!("../fixtures/s3_notification.json");
        let arn = "arn:aws:lambda:us-east-1:123456789012:function:my-function:$LATEST";
        for body in [notice.to_owned(), in_sns(notice)] {
            let attributes = MessageAttributes {
                function_arn: Some(arn),
                payload_location: Some("s3://failure-records/…"),
                ..letter(&body).attributes
            };
            let letter = Message { attributes, ..message(&body) };
            assert_eq!(read_location(&letter), location());
            let text = testing::record_of(&testing::envelope(7, 1, "other", "1.0"));
            let policies = Policies::default();
            let failure = super::fetched(&letter, &location(), &text, &policies).unwrap();
            assert_eq!(failure.first_request_id(), Some("first-id"));
            assert_eq!(failure.key().run, letter.id);
            assert_eq!(failure.first_failure(), letter.sent_at.unwrap(), "its age begins anew");
            assert_eq!(failure.attempts_made(), 0);
            assert_eq!(failure.event.unwrap().payload(), "1.0");
            let other = MessageAttributes {
                function_arn: Some("arn:aws:lambda:us-east-1:123456789012:function:orders"),
                ..letter.attributes.clone()
            };
            let other = Message { attributes: other, ..letter };
            let why = super::fetched(&other, &location(), &text, &policies).unwrap_err();
            assert_eq!(why, Unreadable::OtherFunction);
        }
    }
}
