//! S3's errors, with its codes and messages.

/// Why S3 refuses a request. `Display` writes S3's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum S3Error {
    #[error("The specified bucket does not exist")]
    NoSuchBucket(String),
    #[error("The specified key does not exist.")]
    NoSuchKey(String),
    /// A part of a bucket's configuration that was never put.
    #[error("{message}")]
    NoSuchConfiguration { code: &'static str, message: &'static str },
    #[error("Policies must be valid JSON and the first byte must be '{{'")]
    MalformedPolicy,
    #[error("The bucket you tried to delete is not empty")]
    BucketNotEmpty(String),
    /// The bucket belongs to another account than the request expects.
    #[error("Access Denied")]
    AccessDenied,
    #[error("The specified bucket is not valid.")]
    InvalidBucketName(String),
    #[error("Your key is too long")]
    KeyTooLong { bytes: usize, max: usize },
    #[error("{message}")]
    InvalidArgument { name: &'static str, value: String, message: String },
    #[error("Couldn't parse the specified URI.")]
    InvalidUri,
    /// The body is not XML, or not of the operation's shape.
    #[error("{0}")]
    MalformedXml(String),
    /// The body ended early, or is not in the chunks that its headers announce.
    #[error("{0}")]
    IncompleteBody(String),
    #[error("Your proposed upload exceeds the maximum allowed size, {max} bytes here.")]
    EntityTooLarge { max: usize },
    /// The local cloud does not have this.
    #[error("{0}")]
    NotImplemented(String),
}

impl S3Error {
    pub fn argument(name: &'static str, value: &str, message: impl Into<String>) -> Self {
        Self::InvalidArgument { name, value: value.to_owned(), message: message.into() }
    }

    pub fn code(&self) -> &'static str {
        self.wire().0
    }

    pub fn status(&self) -> u16 {
        self.wire().1
    }

    fn wire(&self) -> (&'static str, u16) {
        match self {
            Self::NoSuchBucket(_) => ("NoSuchBucket", 404),
            Self::NoSuchKey(_) => ("NoSuchKey", 404),
            Self::NoSuchConfiguration { code, .. } => (code, 404),
            Self::MalformedPolicy => ("MalformedPolicy", 400),
            Self::BucketNotEmpty(_) => ("BucketNotEmpty", 409),
            Self::AccessDenied => ("AccessDenied", 403),
            Self::InvalidBucketName(_) => ("InvalidBucketName", 400),
            Self::KeyTooLong { .. } => ("KeyTooLongError", 400),
            Self::InvalidArgument { .. } => ("InvalidArgument", 400),
            Self::InvalidUri => ("InvalidURI", 400),
            Self::MalformedXml(_) => ("MalformedXML", 400),
            Self::IncompleteBody(_) => ("IncompleteBody", 400),
            Self::EntityTooLarge { .. } => ("EntityTooLarge", 400),
            Self::NotImplemented(_) => ("NotImplemented", 501),
        }
    }
}
