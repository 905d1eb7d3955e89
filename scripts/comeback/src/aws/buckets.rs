//! The configurations of buckets: single signed requests, because `aws-sdk-s3` would be the largest client of all.

use comeback_core::arn::{FunctionArn, Home, QueueArn};
use retry_handler::{Failed, S3};

use crate::{
    account::{
        bucket::{self, Bucket, bucket_arn},
        fault::{Answer, Fault, with_backoff},
        notifications::Notifications,
    },
    aws::{Aws, connector, signed},
};

/// What S3 answers if there is no such bucket.
pub const NO_BUCKET: &str = "NoSuchBucket";

/// What S3 answers if a part of a bucket's configuration was never set.
const UNSET: [&str; 4] = [
    "NoSuchLifecycleConfiguration",
    "NoSuchBucketPolicy",
    "NoSuchPublicAccessBlockConfiguration",
    "ServerSideEncryptionConfigurationNotFoundError",
];

/// The buckets of an account and region. A bucket of another account is refused.
pub struct Buckets<'a> {
    aws: &'a Aws,
    s3: S3,
    home: Home,
    /// An ARN in the same partition.
    near: &'a str,
}

/// A part of a bucket's configuration: its name in a request, and the permission to read it.
type Part = (&'static str, &'static str);

const NOTIFICATIONS: Part = ("notification", "s3:GetBucketNotification");
const LIFECYCLE: Part = ("lifecycle", "s3:GetLifecycleConfiguration");
const PUBLIC_ACCESS: Part = ("publicAccessBlock", "s3:GetBucketPublicAccessBlock");
const POLICY: Part = ("policy", "s3:GetBucketPolicy");
const ENCRYPTION: Part = ("encryption", "s3:GetEncryptionConfiguration");

impl<'a> Buckets<'a> {
    /// The buckets in the account and region of a function or a queue.
    pub fn beside(aws: &'a Aws, arn: &'a str) -> Option<Self> {
        let of_queue = || QueueArn::parse(arn)?.home();
        let home = FunctionArn::parse(arn).map(|arn| arn.home()).or_else(of_queue)?;
        Some(Self { aws, s3: S3::over(connector(), &aws.config), home, near: arn })
    }

    pub async fn bucket(&self, name: &str) -> Bucket {
        let (notifications, rules, blocks_public, policy, key) = tokio::join!(
            self.notifications(name),
            self.part(name, LIFECYCLE),
            self.part(name, PUBLIC_ACCESS),
            self.part(name, POLICY),
            self.key(name),
        );
        let notifications = match notifications {
            Err(fault) if fault.code.as_deref() == Some(NO_BUCKET) => Ok(None),
            notifications => notifications.map(Some),
        };
        let rules = rules.and_then(|xml| {
            let rules = xml.as_deref().map_or(Ok(Vec::new()), bucket::rules);
            rules.map_err(self.unreadable(LIFECYCLE.1, name))
        });
        let blocks_public = blocks_public.and_then(|xml| {
            let blocks = xml.as_deref().map_or(Ok(false), bucket::blocks_public);
            blocks.map_err(self.unreadable(PUBLIC_ACCESS.1, name))
        });
        Bucket { name: name.to_owned(), notifications, rules, blocks_public, policy, key }
    }

    pub async fn notifications(&self, bucket: &str) -> Answer<Notifications> {
        let xml = self.part(bucket, NOTIFICATIONS).await?.unwrap_or_default();
        Notifications::read(&xml).map_err(self.unreadable(NOTIFICATIONS.1, bucket))
    }

    /// The KMS key that encrypts new objects of a bucket.
    pub async fn key(&self, bucket: &str) -> Answer<Option<String>> {
        let xml = self.part(bucket, ENCRYPTION).await?;
        let key = xml.as_deref().map_or(Ok(None), bucket::key);
        key.map_err(self.unreadable(ENCRYPTION.1, bucket))
    }

    /// Changes a bucket's notifications. S3 has no conditional write of them: they are read just before.
    pub async fn change_notifications(
        &self,
        bucket: &str,
        change: impl Fn(&Notifications) -> Notifications,
    ) -> Answer<()> {
        const ACTION: &str = "s3:PutBucketNotification";
        let is = self.notifications(bucket).await?;
        let becomes = change(&is);
        if becomes == is {
            return Ok(());
        }
        let xml = becomes.xml();
        let put = || {
            let put = self.s3.set_configuration(bucket, NOTIFICATIONS.0, &xml, &self.home);
            self.within(ACTION, bucket, put)
        };
        with_backoff(self.aws, put).await
    }

    /// A part of a bucket's configuration, or `None` if it was never set.
    async fn part(&self, bucket: &str, (part, action): Part) -> Answer<Option<String>> {
        let get = || {
            let get = self.s3.configuration(bucket, part, &self.home);
            self.aws.call(self.within(action, bucket, get))
        };
        match with_backoff(self.aws, get).await {
            Err(fault) if fault.code.as_deref().is_some_and(|it| UNSET.contains(&it)) => Ok(None),
            answer => answer.map(Some),
        }
    }

    fn unreadable(
        &self,
        action: &'static str,
        bucket: &str,
    ) -> impl FnOnce(String) -> Fault + use<> {
        let resource = bucket_arn(bucket, self.near);
        move |error| {
            let message = format!("the answer of S3 can't be read: {error}");
            signed::fault(action, &resource, Failed::Broken(message))
        }
    }

    async fn within<T>(
        &self,
        action: &'static str,
        bucket: &str,
        call: impl Future<Output = Result<T, Failed>>,
    ) -> Answer<T> {
        signed::within(self.aws, action, &bucket_arn(bucket, self.near), call).await
    }
}
