//! Why a message describes no failure.

use crate::reason::Reason;

/// Why a message describes no failure.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// The body is not a JSON object.
    #[error("expected a failure record, got a body that is not a JSON object")]
    NoObject,
    /// The body is an object that names no function.
    #[error(
        "expected a failure record, got JSON without a function ARN in requestContext.functionArn"
    )]
    NoFunction,
    #[error("expected a failure record in a bucket, got the record of a success")]
    Success,
    /// Neither the record nor SQS says when the invocation failed.
    #[error("expected a time of failure, got neither `timestamp` nor SentTimestamp")]
    NoTime,
    /// A bare event, and no setting says which function it belongs to.
    #[error(
        "expected DLQ_TARGET to be set, as a message of a function's own dead-letter queue names no function"
    )]
    NoTarget,
    /// A bare or redriven event that is not JSON.
    #[error("expected an event, got a dead-letter-queue message whose body is not JSON")]
    NoEvent,
    /// A dead letter of ours whose `FunctionArn` is not the ARN of a function.
    #[error("expected the ARN of a function in the attribute FunctionArn of a dead letter")]
    NoLetterFunction,
    /// A dead letter of ours whose `OriginalAttributes` are not a message's attributes.
    #[error(
        "expected message attributes as JSON in the attribute OriginalAttributes of a dead letter"
    )]
    NoLetterAttributes,
    /// An event that could not be delivered to something else.
    #[error(
        "expected a function or a standard queue in the attribute TARGET_ARN of an event that could not be delivered"
    )]
    OtherTarget,
    /// A schedule's request that has no payload, or more than one.
    #[error(
        "expected a schedule's request with FunctionName and Payload, or with QueueUrl and MessageBody alone"
    )]
    OtherRequest,
    /// Only a part of a schedule's request was kept, which need not name the target.
    #[error("expected a schedule's whole request, got only a part of it")]
    RequestTruncated,
    /// A notice of several objects, unless the notice of each is sent instead of it.
    #[error("expected S3's notice of one failure record, got a notice of several objects")]
    SeveralRecords,
    #[error(
        "expected S3's notice of a new failure record, with the key aws/lambda/async/FUNCTION/YYYY/MM/DD/… or aws/lambda/MAPPING/SHARD/YYYY/MM/DD/…, got another notice"
    )]
    OtherNotice,
    /// The record in the bucket, or the dead letter about it, names another function than its key.
    #[error("expected a failure record of the function that its key names, got one of another")]
    OtherFunction,
    /// A record where those of event source mappings lie, which is none of theirs, or whose batch is no JSON.
    #[error(
        "expected an event source mapping's record with a batch as JSON in `payload`, got another record"
    )]
    NoBatch,
    /// The batch doesn't have the records that the message is about.
    #[error(
        "expected a batch that has the records in the attribute BatchPart, got one without them"
    )]
    NoPart,
    #[error(
        "expected the failure record that S3 has announced, got no such object, or no such bucket"
    )]
    RecordGone,
    #[error("expected a failure record of at most 8 MiB in its bucket, got a larger object")]
    RecordTooLarge,
    /// Its bucket could not be read for as long as SQS keeps the message.
    #[error(
        "expected to read the failure record in its bucket, got faults until SQS would delete its notice"
    )]
    NotFetched,
}

impl Unreadable {
    /// Why the message is given up.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::RecordGone => Reason::RecordGone,
            Self::OtherTarget => Reason::TargetNotAllowed,
            Self::RequestTruncated => Reason::PayloadTruncated,
            Self::NoObject
            | Self::NoFunction
            | Self::Success
            | Self::NoTime
            | Self::NoTarget
            | Self::NoEvent
            | Self::NoLetterFunction
            | Self::NoLetterAttributes
            | Self::OtherRequest
            | Self::SeveralRecords
            | Self::OtherNotice
            | Self::OtherFunction
            | Self::NoBatch
            | Self::NoPart
            | Self::RecordTooLarge
            | Self::NotFetched => Reason::Unreadable,
        }
    }
}
