//! Errors of EventBridge and of Scheduler, with AWS's names.

/// Why an operation was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BridgeError {
    #[error("{0}")]
    Validation(String),
    #[error("{0}")]
    ResourceNotFound(String),
    /// A schedule of this name exists.
    #[error("{0}")]
    Conflict(String),
    /// The detail of an event is no JSON object.
    #[error("Detail is malformed.")]
    MalformedDetail,
    #[error("The operation {0} is not one that this local cloud knows.")]
    UnknownOperation(String),
}

impl BridgeError {
    pub fn code(&self) -> &'static str {
        match self {
            Self::Validation(_) => "ValidationException",
            Self::ResourceNotFound(_) => "ResourceNotFoundException",
            Self::Conflict(_) => "ConflictException",
            Self::MalformedDetail => "MalformedDetail",
            Self::UnknownOperation(_) => "UnknownOperationException",
        }
    }

    pub fn status(&self) -> u16 {
        match self {
            Self::ResourceNotFound(_) | Self::UnknownOperation(_) => 404,
            Self::Conflict(_) => 409,
            Self::Validation(_) | Self::MalformedDetail => 400,
        }
    }
}
