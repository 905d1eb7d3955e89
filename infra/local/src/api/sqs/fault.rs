//! Refusals as they go over the wire.
//!
//! AWS tells an error twice: by the type of its shape, in the body, and by the code that it had before SQS spoke
//! JSON, in a header. SDKs read either, so both are AWS's.

use crate::model::sqs::SqsError;

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum SqsFault {
    /// The model refuses it.
    #[error(transparent)]
    Refused(#[from] SqsError),

    #[error("The operation {0} is not known.")]
    UnknownOperation(String),

    /// The body isn't the operation's JSON.
    #[error("{0}")]
    Serialization(String),

    #[error("There should be at least one {entry} in the request.")]
    EmptyBatchRequest { entry: &'static str },

    #[error("Maximum number of entries per request are {max}. You have sent {sent}.")]
    TooManyEntriesInBatchRequest { max: usize, sent: usize },

    #[error("Id {id} repeated.")]
    BatchEntryIdsNotDistinct { id: String },

    #[error(
        "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters long."
    )]
    InvalidBatchEntryId,

    #[error("Batch requests cannot be longer than {max} bytes. You have sent {sent} bytes.")]
    BatchRequestTooLong { max: u32, sent: usize },
}

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

impl SqsFault {
    pub(crate) fn name(&self) -> Name {
        let (namespace, shape, code) = match self {
            Self::Refused(error) => names_of(error),
            Self::UnknownOperation(_) => (COMMON, "UnknownOperationException", "InvalidAction"),
            Self::Serialization(_) => (COMMON, "SerializationException", "MalformedInput"),
            Self::EmptyBatchRequest { .. } => (SQS, "EmptyBatchRequest", PREFIXED),
            Self::TooManyEntriesInBatchRequest { .. } => {
                (SQS, "TooManyEntriesInBatchRequest", PREFIXED)
            }
            Self::BatchEntryIdsNotDistinct { .. } => (SQS, "BatchEntryIdsNotDistinct", PREFIXED),
            Self::InvalidBatchEntryId => (SQS, "InvalidBatchEntryId", PREFIXED),
            Self::BatchRequestTooLong { .. } => (SQS, "BatchRequestTooLong", PREFIXED),
        };
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
    }
}
