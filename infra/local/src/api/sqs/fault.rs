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
    pub(crate) status: u16,
}

/// The namespace of SQS's own error types.
const SQS: &str = "com.amazonaws.sqs";

/// The namespace of error types that all of AWS's services share.
const COMMON: &str = "com.amazon.coral.service";

/// What AWS calls `error`.
pub(crate) fn name(error: &SqsError) -> Name {
    let of = |namespace, shape, code: &str| (namespace, shape, code.to_owned());
    let plain = |shape| of(SQS, shape, shape);
    let prefixed = |shape| (SQS, shape, format!("AWS.SimpleQueueService.{shape}"));
    let (namespace, shape, code) = match error {
        SqsError::QueueDoesNotExist => {
            of(SQS, "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue")
        }
        SqsError::QueueNameExists { .. } => of(SQS, "QueueNameExists", "QueueAlreadyExists"),
        SqsError::QueueDeletedRecently => prefixed("QueueDeletedRecently"),
        SqsError::PurgeQueueInProgress { .. } => prefixed("PurgeQueueInProgress"),
        SqsError::InvalidAttributeName { .. } | SqsError::TwoEncryptions => {
            plain("InvalidAttributeName")
        }
        SqsError::InvalidAttributeValue { .. } => plain("InvalidAttributeValue"),
        SqsError::InvalidParameterValue { .. } | SqsError::InvalidRequest(_) => {
            of(COMMON, "InvalidParameterValueException", "InvalidParameterValue")
        }
        SqsError::ResourceNotFound { .. } | SqsError::TaskDoesNotExist => {
            plain("ResourceNotFoundException")
        }
        SqsError::InvalidMessageContents => plain("InvalidMessageContents"),
        SqsError::MissingParameter(_) => {
            of(COMMON, "MissingRequiredParameterException", "MissingParameter")
        }
        SqsError::ReceiptHandleIsInvalid { .. } => plain("ReceiptHandleIsInvalid"),
        SqsError::UnsupportedOperation(_) => prefixed("UnsupportedOperation"),
        SqsError::UnknownOperation(_) => of(COMMON, "UnknownOperationException", "InvalidAction"),
        SqsError::Serialization(_) => of(COMMON, "SerializationException", "MalformedInput"),
        SqsError::EmptyBatchRequest { .. } => prefixed("EmptyBatchRequest"),
        SqsError::TooManyEntriesInBatchRequest { .. } => prefixed("TooManyEntriesInBatchRequest"),
        SqsError::BatchEntryIdsNotDistinct { .. } => prefixed("BatchEntryIdsNotDistinct"),
        SqsError::InvalidBatchEntryId => prefixed("InvalidBatchEntryId"),
        SqsError::BatchRequestTooLong { .. } => prefixed("BatchRequestTooLong"),
    };
    let status = match shape {
        "PurgeQueueInProgress" => 403,
        "ResourceNotFoundException" => 404,
        _ => 400,
    };
    Name { shape: format!("{namespace}#{shape}"), code, status }
}
