//! Refusals as they go over the wire.
//!
//! AWS tells an error twice: by the type of its shape, in the body, and by the code that it had before SQS spoke
//! JSON, in a header. SDKs read either, so both are AWS's.

use crate::model::sqs::SqsError;

/// What AWS calls a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    /// The shape's type: member `__type` of the body.
    pub(crate) shape: String,
    /// The code of earlier protocols: header `x-amzn-query-error`, and the code of a batch's entry.
    pub(crate) code: String,
    /// The HTTP status.
    pub(crate) status: u16,
}

/// What AWS calls `error`.
pub(crate) fn name(error: &SqsError) -> Name {
    let (namespace, shape, code) = names_of(error);
    let code = match code {
        PREFIXED => format!("AWS.SimpleQueueService.{shape}"),
        code => code.to_owned(),
    };
    let status = match shape {
        "PurgeQueueInProgress" => 403,
        "ResourceNotFoundException" => 404,
        _ => 400,
    };
    Name { shape: format!("{namespace}#{shape}"), code, status }
}

/// The namespace of SQS's own error types.
const SQS: &str = "com.amazonaws.sqs";

/// The namespace of error types that all of AWS's services share.
const COMMON: &str = "com.amazon.coral.service";

/// Stands for the shape's name behind `AWS.SimpleQueueService.`, which is most errors' code.
const PREFIXED: &str = "";

/// An error's namespace, shape and code.
fn names_of(error: &SqsError) -> (&'static str, &'static str, &'static str) {
    match error {
        SqsError::QueueDoesNotExist => {
            (SQS, "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue")
        }
        SqsError::QueueNameExists { .. } => (SQS, "QueueNameExists", "QueueAlreadyExists"),
        SqsError::QueueDeletedRecently => (SQS, "QueueDeletedRecently", PREFIXED),
        SqsError::PurgeQueueInProgress { .. } => (SQS, "PurgeQueueInProgress", PREFIXED),
        SqsError::InvalidAttributeName { .. } | SqsError::TwoEncryptions => {
            (SQS, "InvalidAttributeName", "InvalidAttributeName")
        }
        SqsError::InvalidAttributeValue { .. } => {
            (SQS, "InvalidAttributeValue", "InvalidAttributeValue")
        }
        SqsError::InvalidParameterValue { .. }
        | SqsError::InvalidMessage(_)
        | SqsError::InvalidRequest(_) => {
            (COMMON, "InvalidParameterValueException", "InvalidParameterValue")
        }
        SqsError::ResourceNotFound { .. } | SqsError::TaskDoesNotExist => {
            (SQS, "ResourceNotFoundException", "ResourceNotFoundException")
        }
        SqsError::InvalidMessageContents => {
            (SQS, "InvalidMessageContents", "InvalidMessageContents")
        }
        SqsError::MissingParameter(_) => {
            (COMMON, "MissingRequiredParameterException", "MissingParameter")
        }
        SqsError::ReceiptHandleIsInvalid { .. } => {
            (SQS, "ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid")
        }
        SqsError::UnsupportedOperation(_) => (SQS, "UnsupportedOperation", PREFIXED),
        SqsError::UnknownOperation(_) => (COMMON, "UnknownOperationException", "InvalidAction"),
        SqsError::Serialization(_) => (COMMON, "SerializationException", "MalformedInput"),
        SqsError::EmptyBatchRequest { .. } => (SQS, "EmptyBatchRequest", PREFIXED),
        SqsError::TooManyEntriesInBatchRequest { .. } => {
            (SQS, "TooManyEntriesInBatchRequest", PREFIXED)
        }
        SqsError::BatchEntryIdsNotDistinct { .. } => (SQS, "BatchEntryIdsNotDistinct", PREFIXED),
        SqsError::InvalidBatchEntryId => (SQS, "InvalidBatchEntryId", PREFIXED),
        SqsError::BatchRequestTooLong { .. } => (SQS, "BatchRequestTooLong", PREFIXED),
    }
}
