//! The parts of a bucket's configuration that are kept as they are put, and have no effect here.

use super::S3Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Lifecycle,
    Policy,
    PublicAccessBlock,
    Encryption,
}

/// The two that S3 gives each new bucket since 2023.
const BLOCKED: &str = "<PublicAccessBlockConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
<BlockPublicAcls>true</BlockPublicAcls><IgnorePublicAcls>true</IgnorePublicAcls><BlockPublicPolicy>true\
</BlockPublicPolicy><RestrictPublicBuckets>true</RestrictPublicBuckets></PublicAccessBlockConfiguration>";
const ENCRYPTED: &str = "<ServerSideEncryptionConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Rule>\
<ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault>\
<BucketKeyEnabled>false</BucketKeyEnabled></Rule></ServerSideEncryptionConfiguration>";

impl Part {
    pub const ALL: [Self; 4] =
        [Self::Lifecycle, Self::Policy, Self::PublicAccessBlock, Self::Encryption];

    /// Its parameter in the query of a request.
    pub fn parameter(self) -> &'static str {
        match self {
            Self::Lifecycle => "lifecycle",
            Self::Policy => "policy",
            Self::PublicAccessBlock => "publicAccessBlock",
            Self::Encryption => "encryption",
        }
    }

    /// The element that its XML consists of. A policy is JSON.
    pub fn element(self) -> Option<&'static str> {
        match self {
            Self::Lifecycle => Some("LifecycleConfiguration"),
            Self::Policy => None,
            Self::PublicAccessBlock => Some("PublicAccessBlockConfiguration"),
            Self::Encryption => Some("ServerSideEncryptionConfiguration"),
        }
    }

    /// What a new bucket has.
    pub(super) fn of_new_bucket(self) -> Option<&'static str> {
        match self {
            Self::Lifecycle | Self::Policy => None,
            Self::PublicAccessBlock => Some(BLOCKED),
            Self::Encryption => Some(ENCRYPTED),
        }
    }

    /// What a bucket has after it was deleted: objects are always encrypted.
    pub(super) fn after_deletion(self) -> Option<&'static str> {
        self.of_new_bucket().filter(|_| self == Self::Encryption)
    }

    pub(super) fn missing(self) -> S3Error {
        let (code, message) = match self {
            Self::Lifecycle => {
                ("NoSuchLifecycleConfiguration", "The lifecycle configuration does not exist")
            }
            Self::Policy => ("NoSuchBucketPolicy", "The bucket policy does not exist"),
            Self::PublicAccessBlock => (
                "NoSuchPublicAccessBlockConfiguration",
                "The public access block configuration was not found",
            ),
            Self::Encryption => (
                "ServerSideEncryptionConfigurationNotFoundError",
                "The server side encryption configuration was not found",
            ),
        };
        S3Error::NoSuchConfiguration { code, message }
    }
}
