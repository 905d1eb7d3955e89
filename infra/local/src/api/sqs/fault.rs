//! Refusals as they go over the wire.
//!
//! AWS tells an error twice: by the type of its shape, in the body, and by the code that it had
//! before SQS spoke JSON, in a header. SDKs read either, so both are AWS's.

use crate::model::sqs::SqsError;

/// Where the error types that SQS defines live.
macro_rules! sqs {
    ($shape:literal) => {
        concat!("com.amazonaws.sqs#", $shape)
    };
}

/// Where the error types that all of AWS's services share live.
macro_rules! common {
    ($shape:literal) => {
        concat!("com.amazon.coral.service#", $shape)
    };
}

/// Why a request is not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum SqsFault {
    /// The model refuses it.
    #[error(transparent)]
    Refused(#[from] SqsError),

    #[error("The operation {0} is not known.")]
    UnknownOperation(String),

    /// The body isn't the JSON that the operation takes.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    /// The shape's type: member `__type` of the body.
    pub(crate) shape: &'static str,
    /// The code of earlier protocols: header `x-amzn-query-error`, and the code of a batch's entry.
    pub(crate) code: &'static str,
    /// The HTTP status.
    pub(crate) status: u16,
}

const fn name(shape: &'static str, code: &'static str, status: u16) -> Name {
    Name { shape, code, status }
}

impl SqsFault {
    pub(crate) fn name(&self) -> Name {
        match self {
            Self::Refused(error) => name_of(error),
            Self::UnknownOperation(_) => {
                name(common!("UnknownOperationException"), "InvalidAction", 400)
            }
            Self::Serialization(_) => {
                name(common!("SerializationException"), "MalformedInput", 400)
            }
            Self::EmptyBatchRequest { .. } => {
                name(sqs!("EmptyBatchRequest"), "AWS.SimpleQueueService.EmptyBatchRequest", 400)
            }
            Self::TooManyEntriesInBatchRequest { .. } => name(
                sqs!("TooManyEntriesInBatchRequest"),
                "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
                400,
            ),
            Self::BatchEntryIdsNotDistinct { .. } => name(
                sqs!("BatchEntryIdsNotDistinct"),
                "AWS.SimpleQueueService.BatchEntryIdsNotDistinct",
                400,
            ),
            Self::InvalidBatchEntryId => {
                name(sqs!("InvalidBatchEntryId"), "AWS.SimpleQueueService.InvalidBatchEntryId", 400)
            }
            Self::BatchRequestTooLong { .. } => {
                name(sqs!("BatchRequestTooLong"), "AWS.SimpleQueueService.BatchRequestTooLong", 400)
            }
        }
    }
}

fn name_of(error: &SqsError) -> Name {
    match error {
        SqsError::QueueDoesNotExist => {
            name(sqs!("QueueDoesNotExist"), "AWS.SimpleQueueService.NonExistentQueue", 400)
        }
        SqsError::QueueNameExists { .. } => {
            name(sqs!("QueueNameExists"), "QueueAlreadyExists", 400)
        }
        SqsError::QueueDeletedRecently => {
            name(sqs!("QueueDeletedRecently"), "AWS.SimpleQueueService.QueueDeletedRecently", 400)
        }
        SqsError::PurgeQueueInProgress { .. } => {
            name(sqs!("PurgeQueueInProgress"), "AWS.SimpleQueueService.PurgeQueueInProgress", 403)
        }
        SqsError::InvalidAttributeName { .. } | SqsError::TwoEncryptions => {
            name(sqs!("InvalidAttributeName"), "InvalidAttributeName", 400)
        }
        SqsError::InvalidAttributeValue { .. } => {
            name(sqs!("InvalidAttributeValue"), "InvalidAttributeValue", 400)
        }
        SqsError::InvalidParameterValue { .. }
        | SqsError::InvalidMessage(_)
        | SqsError::InvalidRequest(_) => {
            name(common!("InvalidParameterValueException"), "InvalidParameterValue", 400)
        }
        SqsError::ResourceNotFound { .. } | SqsError::TaskDoesNotExist => {
            name(sqs!("ResourceNotFoundException"), "ResourceNotFoundException", 404)
        }
        SqsError::InvalidMessageContents => {
            name(sqs!("InvalidMessageContents"), "InvalidMessageContents", 400)
        }
        SqsError::MissingParameter(_) => {
            name(common!("MissingRequiredParameterException"), "MissingParameter", 400)
        }
        SqsError::ReceiptHandleIsInvalid { .. } => {
            name(sqs!("ReceiptHandleIsInvalid"), "ReceiptHandleIsInvalid", 400)
        }
        SqsError::UnsupportedOperation(_) => {
            name(sqs!("UnsupportedOperation"), "AWS.SimpleQueueService.UnsupportedOperation", 400)
        }
    }
}
