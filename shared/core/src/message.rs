//! The parts of an SQS message that decisions need, and the attributes that we add to messages.

use crate::{
    Timestamp,
    arn::QueueArn,
    attribute::{ATTRIBUTES_MAX, Attribute, SIZE_MAX, message_size},
    reason::Reason,
};

/// SQS's message ids are UUIDs; SQS promises at most this many bytes.
const MESSAGE_ID_MAX: usize = 100;

/// The parts of an SQS message that a decision needs.
#[derive(Clone, Debug, Default)]
pub struct Message<'a> {
    /// SQS's id of the message, the same on every receive.
    pub id: &'a str,
    pub queue: Option<&'a str>,
    pub body: &'a str,
    /// How often the message was received, including this time. Approximate: it counts throttles and crashes.
    pub receive_count: u32,
    pub sent_at: Option<Timestamp>,
    /// When the message was received first. It is unknown whether SQS counts receives before a move, but each message
    /// has one such time for ever.
    pub first_received_at: Option<Timestamp>,
    /// The ARN of the queue from which SQS moved the message, by that queue's redrive policy.
    pub moved_from: Option<&'a str>,
    pub attributes: MessageAttributes<'a>,
}

/// The message attributes that describe a failure in addition to the body. Lambda writes some for a function's own
/// dead-letter queue, and EventBridge for that of a target. Our dead letters, and messages that were sent again to wait
/// as a delay, have others.
#[derive(Clone, Debug, Default)]
pub struct MessageAttributes<'a> {
    /// `RequestID`, written by Lambda; it marks a message of the bare form.
    pub lambda_request_id: Option<&'a str>,
    /// `ErrorMessage`, written by Lambda and by us.
    pub error_message: Option<&'a str>,
    /// `Reason`, ours; it marks a message of the redriven form.
    pub reason: Option<&'a str>,
    pub function_arn: Option<&'a str>,
    pub request_id: Option<&'a str>,
    pub error_type: Option<&'a str>,
    /// [`FAILED_AT`], ours, of a message that was sent again.
    pub failed_at: Option<&'a str>,
    /// [`MESSAGE_ID`], ours, of a message that was sent again.
    pub message_id: Option<&'a str>,
    /// [`SOURCE_QUEUE_ARN`], ours, of a queue's message that was sent again or given up.
    pub source_queue_arn: Option<&'a str>,
    /// [`PAYLOAD_LOCATION`], ours, of a dead letter whose payload lies in a bucket.
    pub payload_location: Option<&'a str>,
    /// [`NO_ENVELOPE`], ours, of a dead letter.
    pub no_envelope: Option<&'a str>,
    /// [`SOURCE_ARN`], ours, of a dead letter.
    pub source_arn: Option<&'a str>,
    /// [`BATCH_PART`], ours, of a notice of a record with a batch.
    pub batch_part: Option<&'a str>,
    /// Those of EventBridge.
    pub delivery: DeliveryAttributes<'a>,
    /// All attributes, if the message may be that of a queue's consumer, or if EventBridge could not deliver its event.
    pub all: Vec<Attribute<'a>>,
}

/// The attributes with which EventBridge and EventBridge Scheduler describe an event that they could not deliver.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeliveryAttributes<'a> {
    /// `RULE_ARN`, if the event is a rule's.
    pub rule_arn: Option<&'a str>,
    /// `SCHEDULE_ARN`, if it is a schedule's.
    pub schedule_arn: Option<&'a str>,
    /// `SUBSCRIBER_ARN`, if it is about events of a custom bus, which the message doesn't have.
    pub subscriber_arn: Option<&'a str>,
    pub target_arn: Option<&'a str>,
    pub error_code: Option<&'a str>,
    pub error_message: Option<&'a str>,
    /// `IS_PAYLOAD_TRUNCATED`, of a schedule: `true` or `false`.
    pub is_payload_truncated: Option<&'a str>,
}

impl DeliveryAttributes<'_> {
    /// Whether the message only names the events, as that of a custom bus.
    pub(crate) fn is_without_event(&self) -> bool {
        self.rule_arn.or(self.schedule_arn).is_none()
    }
}

impl<'a> MessageAttributes<'a> {
    /// The attributes with these names and texts. A value that is no text counts as absent.
    pub fn named(attributes: impl IntoIterator<Item = (&'a str, Option<&'a str>)>) -> Self {
        let mut named = Self::default();
        for (name, text) in attributes {
            let place = match name {
                "RequestID" => &mut named.lambda_request_id,
                "ErrorMessage" => &mut named.error_message,
                REASON => &mut named.reason,
                "FunctionArn" => &mut named.function_arn,
                "RequestId" => &mut named.request_id,
                "ErrorType" => &mut named.error_type,
                FAILED_AT => &mut named.failed_at,
                MESSAGE_ID => &mut named.message_id,
                SOURCE_QUEUE_ARN => &mut named.source_queue_arn,
                PAYLOAD_LOCATION => &mut named.payload_location,
                NO_ENVELOPE => &mut named.no_envelope,
                SOURCE_ARN => &mut named.source_arn,
                BATCH_PART => &mut named.batch_part,
                "RULE_ARN" => &mut named.delivery.rule_arn,
                "SCHEDULE_ARN" => &mut named.delivery.schedule_arn,
                "SUBSCRIBER_ARN" => &mut named.delivery.subscriber_arn,
                "TARGET_ARN" => &mut named.delivery.target_arn,
                "ERROR_CODE" => &mut named.delivery.error_code,
                "ERROR_MESSAGE" => &mut named.delivery.error_message,
                "IS_PAYLOAD_TRUNCATED" => &mut named.delivery.is_payload_truncated,
                _ => continue,
            };
            *place = text;
        }
        named
    }
}

/// The attribute that carries an event's failure time into a message that is sent again.
pub const FAILED_AT: &str = "FailedAt";

/// The attribute that carries the id of the first message into a message that is sent again. It identifies a failure
/// that has no request id of its own.
pub const MESSAGE_ID: &str = "MessageId";

/// The attribute that names the queue of a message whose consumer failed, once SQS doesn't name it: of a message that
/// is sent again, and of a dead letter.
pub const SOURCE_QUEUE_ARN: &str = "SourceQueueArn";

/// The attribute of a dead letter whose payload is too large for it: where the failure record lies that has it. The
/// body is the notice of that record.
pub const PAYLOAD_LOCATION: &str = "PayloadLocation";

/// The attribute of a dead letter whose payload looks like an envelope, and is none.
pub const NO_ENVELOPE: &str = "NoEnvelope";

/// The attribute of a dead letter whose event was never delivered: the ARN of the rule or the schedule.
pub const SOURCE_ARN: &str = "SourceArn";

/// The attribute of a notice that is about some records of a batch only: the places of the first and the last, such as
/// `0-499`. A batch that is too large for one invocation has a message for each part.
pub const BATCH_PART: &str = "BatchPart";

/// The attribute that says why a dead letter was given up.
const REASON: &str = "Reason";

/// The attributes of EventBridge that nothing reads. They are dropped if a message that is sent again has too many.
pub const DELIVERY_HISTORY: [&str; 4] =
    ["EXECUTION_ID", "EXHAUSTED_RETRY_CONDITION", "RETRY_ATTEMPTS", "SCHEDULED_TIME"];

/// The attributes that are added to a queue's message that is sent again.
pub const CARRIED: [&str; 3] = [SOURCE_QUEUE_ARN, FAILED_AT, MESSAGE_ID];

impl<'a> Message<'a> {
    pub(crate) fn was_sent_again(&self) -> bool {
        self.attributes.failed_at.is_some() && self.moved_from.is_none()
    }

    /// The queue whose consumer failed to process this message: SQS says so, or we did when we sent it again.
    pub(crate) fn source_queue(&self) -> Option<QueueArn> {
        let MessageAttributes { source_queue_arn, reason, .. } = self.attributes;
        let carried = source_queue_arn.filter(|_| self.was_sent_again() && reason.is_none());
        QueueArn::parse(self.moved_from.or(carried)?)
    }

    /// Whether a queue's message can be sent again with these attributes beside its own. It can't if one of its own has
    /// the name of one of ours, or marks a dead letter: the next receive would take it for ours.
    pub(crate) fn has_room(&self, carried: &[(&'static str, String)]) -> bool {
        let all = &self.attributes.all;
        let is_taken = |it: &Attribute<'_>| it.name == REASON || CARRIED.contains(&&*it.name);
        let added = carried.iter().map(|(name, value)| Attribute::text(name, value).size());
        all.len() + carried.len() <= ATTRIBUTES_MAX
            && !all.iter().any(is_taken)
            && message_size(self.body, all) + added.sum::<usize>() <= SIZE_MAX
    }

    /// Whether an event of EventBridge can be sent again with these attributes, once those are dropped that nothing
    /// reads.
    pub(crate) fn has_room_beside_history(&self, carried: &[(&'static str, String)]) -> bool {
        let is_replaced = |name: &str| carried.iter().any(|(carried, _)| *carried == name);
        let is_kept =
            |it: &&Attribute<'_>| !is_replaced(&it.name) && !DELIVERY_HISTORY.contains(&&*it.name);
        self.attributes.all.iter().filter(is_kept).count() + carried.len() <= ATTRIBUTES_MAX
    }

    /// The reason of a dead letter of ours that may name a function falsely: its queue was not bound to that function,
    /// or the handler could not read the message.
    pub(crate) fn unverified_reason(&self) -> Option<Reason> {
        let reason = self.attributes.reason?;
        let unknown = [
            Reason::TargetNotAllowed,
            Reason::Unreadable,
            Reason::PayloadMissing,
            Reason::RecordGone,
        ];
        unknown.into_iter().find(|it| it.as_str() == reason)
    }

    /// Whether it was received before, or was sent again.
    pub fn came_back(&self) -> bool {
        self.receive_count > 1 || self.was_sent_again()
    }

    /// SQS's id of the first message about this failure.
    pub(crate) fn first_id(&self) -> &'a str {
        let sent_again = self.attributes.message_id;
        sent_again.filter(|id| is_id(id, MESSAGE_ID_MAX)).unwrap_or(self.id)
    }
}

/// Whether an id is usable as a key.
pub(crate) fn is_id(id: &str, len_max: usize) -> bool {
    (1..=len_max).contains(&id.len())
}
