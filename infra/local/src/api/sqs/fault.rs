//! SQS's errors in HTTP responses.
//!
//! AWS names an error twice: by its shape in the body, and in a header by its code in the older query protocol. SDKs
//! read either, so both are AWS's names.

use crate::model::sqs::SqsError;

/// AWS's names and status of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    /// The name of the shape: member `__type` of the body.
    pub(crate) shape: String,
    /// The code in the query protocol: header `x-amzn-query-error`, and the code of a batch entry.
    pub(crate) code: String,
    pub(crate) status: u16,
}

const SQS: &str = "com.amazonaws.sqs";

/// The namespace of error types that all of AWS's services share.
const COMMON: &str = "com.amazon.coral.service";

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
