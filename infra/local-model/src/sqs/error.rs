//! SQS's errors, and their names in HTTP responses.
//!
//! AWS names an error twice: by its shape in the body, and in a header by its code in the older query protocol. SDKs
//! read either, so both are AWS's names.

/// Why SQS refuses a request. The text is AWS's, with its capitals and full stops, because programs match on it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SqsError {
    #[error("The specified queue does not exist.")]
    QueueDoesNotExist,

    /// A queue with this name exists, and differs in this attribute.
    #[error(
        "A queue already exists with the same name and a different value for attribute {attribute}"
    )]
    QueueNameExists { attribute: String },

    #[error(
        "You must wait 60 seconds after deleting a queue before you can create another with the same name."
    )]
    QueueDeletedRecently,

    #[error("Only one PurgeQueue operation on {queue} is allowed every 60 seconds.")]
    PurgeQueueInProgress { queue: String },

    /// No attribute has this name, or callers can't set it.
    #[error("Unknown Attribute {name}.")]
    InvalidAttributeName { name: String },

    #[error(
        "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE."
    )]
    TwoEncryptions,

    #[error("Invalid value for the parameter {name}.")]
    InvalidAttributeValue { name: String },

    #[error("Value {value} for parameter {name} is invalid. Reason: {reason}")]
    InvalidParameterValue { name: &'static str, value: String, reason: String },

    /// Any other invalid request, such as a message that is too long.
    #[error("{0}")]
    InvalidRequest(String),

    #[error("The resource that you specified for the {parameter} parameter doesn't exist.")]
    ResourceNotFound { parameter: &'static str },

    #[error("Task does not exist.")]
    TaskDoesNotExist,

    #[error(
        "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF"
    )]
    InvalidMessageContents,

    #[error("The request must contain the parameter {0}.")]
    MissingParameter(&'static str),

    #[error("The input receipt handle \"{handle}\" is not a valid receipt handle.")]
    ReceiptHandleIsInvalid { handle: String },

    /// The local cloud does not support this, or the task is in the wrong state.
    #[error("{0}")]
    UnsupportedOperation(String),

    #[error("The operation {0} is not known.")]
    UnknownOperation(String),

    #[error("{0}")]
    Serialization(String),

    #[error("There should be at least one {action}RequestEntry in the request.")]
    EmptyBatchRequest { action: String },

    #[error("Maximum number of entries per request are {max}. You have sent {sent}.")]
    TooManyEntriesInBatchRequest { max: usize, sent: usize },

    #[error("Id {id} repeated.")]
    BatchEntryIdsNotDistinct { id: String },

    /// An entry of a batch has no id, or one that AWS refuses.
    #[error(
        "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters long."
    )]
    InvalidBatchEntryId,

    #[error("Batch requests cannot be longer than {max} bytes. You have sent {sent} bytes.")]
    BatchRequestTooLong { max: u32, sent: usize },
}

/// AWS's names and status of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name of the shape: member `__type` of the body.
    pub shape: String,
    /// The code in the query protocol: header `x-amzn-query-error`, and the code of a batch entry.
    pub code: String,
    pub status: u16,
}

const SQS: &str = "com.amazonaws.sqs";

/// The namespace of error types that all of AWS's services share.
const COMMON: &str = "com.amazon.coral.service";

impl SqsError {
    pub fn invalid(name: &'static str, value: impl ToString, reason: impl Into<String>) -> Self {
        Self::InvalidParameterValue { name, value: value.to_string(), reason: reason.into() }
    }

    pub fn name(&self) -> Name {
        let of = |namespace, shape, code: &str| (namespace, shape, code.to_owned());
        let plain = |shape| of(SQS, shape, shape);
        let prefixed = |shape| (SQS, shape, format!("AWS.SimpleQueueService.{shape}"));
        let (namespace, shape, code) = match self {
            Self::QueueDoesNotExist => {
                of(SQS, "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue")
            }
            Self::QueueNameExists { .. } => of(SQS, "QueueNameExists", "QueueAlreadyExists"),
            Self::QueueDeletedRecently => prefixed("QueueDeletedRecently"),
            Self::PurgeQueueInProgress { .. } => prefixed("PurgeQueueInProgress"),
            Self::InvalidAttributeName { .. } | Self::TwoEncryptions => {
                plain("InvalidAttributeName")
            }
            Self::InvalidAttributeValue { .. } => plain("InvalidAttributeValue"),
            Self::InvalidParameterValue { .. } | Self::InvalidRequest(_) => {
                of(COMMON, "InvalidParameterValueException", "InvalidParameterValue")
            }
            Self::ResourceNotFound { .. } | Self::TaskDoesNotExist => {
                plain("ResourceNotFoundException")
            }
            Self::InvalidMessageContents => plain("InvalidMessageContents"),
            Self::MissingParameter(_) => {
                of(COMMON, "MissingRequiredParameterException", "MissingParameter")
            }
            Self::ReceiptHandleIsInvalid { .. } => plain("ReceiptHandleIsInvalid"),
            Self::UnsupportedOperation(_) => prefixed("UnsupportedOperation"),
            Self::UnknownOperation(_) => of(COMMON, "UnknownOperationException", "InvalidAction"),
            Self::Serialization(_) => of(COMMON, "SerializationException", "MalformedInput"),
            Self::EmptyBatchRequest { .. } => prefixed("EmptyBatchRequest"),
            Self::TooManyEntriesInBatchRequest { .. } => prefixed("TooManyEntriesInBatchRequest"),
            Self::BatchEntryIdsNotDistinct { .. } => prefixed("BatchEntryIdsNotDistinct"),
            Self::InvalidBatchEntryId => prefixed("InvalidBatchEntryId"),
            Self::BatchRequestTooLong { .. } => prefixed("BatchRequestTooLong"),
        };
        let status = match shape {
            "PurgeQueueInProgress" => 403,
            "ResourceNotFoundException" => 404,
            _ => 400,
        };
        Name { shape: format!("{namespace}#{shape}"), code, status }
    }
}
