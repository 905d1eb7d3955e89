//! Why SQS refuses a request.

/// A refusal. Its text is AWS's, with its capitals and full stops, because programs match on it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SqsError {
    /// No queue has this name.
    #[error("The specified queue does not exist.")]
    QueueDoesNotExist,

    /// The name is taken by a queue that differs in this attribute.
    #[error(
        "A queue already exists with the same name and a different value for attribute {attribute}"
    )]
    QueueNameExists {
        /// The first attribute that differs.
        attribute: String,
    },

    /// A queue of this name was deleted less than a minute ago.
    #[error(
        "You must wait 60 seconds after deleting a queue before you can create another with the same name."
    )]
    QueueDeletedRecently,

    /// This queue was purged less than a minute ago.
    #[error("Only one PurgeQueue operation on {queue} is allowed every 60 seconds.")]
    PurgeQueueInProgress {
        /// The queue's name.
        queue: String,
    },

    /// No attribute has this name, or callers can't set it.
    #[error("Unknown Attribute {name}.")]
    InvalidAttributeName {
        /// The name.
        name: String,
    },

    /// A queue can't use two kinds of encryption.
    #[error(
        "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE."
    )]
    TwoEncryptions,

    /// A queue's attribute has an invalid value.
    #[error("Invalid value for the parameter {name}.")]
    InvalidAttributeValue {
        /// The attribute's name.
        name: String,
    },

    /// A parameter has an invalid value.
    #[error("Value {value} for parameter {name} is invalid. Reason: {reason}")]
    InvalidParameterValue {
        /// The parameter's name.
        name: &'static str,
        /// The value.
        value: String,
        /// What AWS says about it.
        reason: String,
    },

    /// A message is refused because of its size or one of its attributes.
    #[error("{0}")]
    InvalidMessage(String),

    /// A request is refused for a reason that names no value.
    #[error("{0}")]
    InvalidRequest(String),

    /// A parameter names something that doesn't exist.
    #[error("The resource that you specified for the {parameter} parameter doesn't exist.")]
    ResourceNotFound {
        /// The parameter's name.
        parameter: &'static str,
    },

    /// No message move task has this handle.
    #[error("Task does not exist.")]
    TaskDoesNotExist,

    /// A message's body has a character that SQS refuses.
    #[error(
        "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF"
    )]
    InvalidMessageContents,

    /// A required parameter is missing or empty.
    #[error("The request must contain the parameter {0}.")]
    MissingParameter(&'static str),

    /// The handle isn't one of this queue.
    #[error("The input receipt handle \"{handle}\" is not a valid receipt handle.")]
    ReceiptHandleIsInvalid {
        /// The handle.
        handle: String,
    },

    /// Only AWS can do this, or the task is in the wrong state.
    #[error("{0}")]
    UnsupportedOperation(String),
}

impl SqsError {
    /// A parameter whose value is refused for `reason`.
    pub fn invalid(name: &'static str, value: impl ToString, reason: impl Into<String>) -> Self {
        Self::InvalidParameterValue { name, value: value.to_string(), reason: reason.into() }
    }
}
