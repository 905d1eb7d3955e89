//! Amazon S3 as a pure model: buckets without versions, whole objects, and notifications to queues.
//!
//! This is what failure records in a bucket need: Lambda puts a record, the bucket notifies a queue, and its reader
//! gets the object. A policy, an encryption, a lifecycle and a block of public access are kept, and have no effect.
//! Parts of objects and copies are left out.

mod configuration;
mod error;
mod notification;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use comeback_core::Timestamp;
pub use configuration::Part;
pub use error::S3Error;
use md5::{Digest as _, Md5};
pub use notification::{NotificationConfiguration, XMLNS, encoded};

use super::Ids;

/// The longest key, in bytes.
const KEY_BYTES_MAX: usize = 1024;

/// The content type of an object that is put without one.
const CONTENT_TYPE_DEFAULT: &str = "binary/octet-stream";

#[derive(Debug)]
pub struct S3 {
    ids: Ids,
    buckets: BTreeMap<Arc<str>, Bucket>,
    /// The number of objects put so far: the order of the events.
    sequence: u64,
}

#[derive(Debug)]
struct Bucket {
    objects: BTreeMap<Arc<str>, Object>,
    notifications: NotificationConfiguration,
    configuration: BTreeMap<Part, Arc<str>>,
}

impl Default for Bucket {
    fn default() -> Self {
        let configured = |part: Part| Some((part, part.of_new_bucket()?.into()));
        Self {
            objects: BTreeMap::new(),
            notifications: NotificationConfiguration::default(),
            configuration: Part::ALL.into_iter().filter_map(configured).collect(),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Object {
    pub bytes: Arc<[u8]>,
    /// The digest of the bytes, without quotation marks.
    pub etag: Arc<str>,
    pub content_type: Arc<str>,
    pub last_modified: Timestamp,
}

/// The ids of a request: the headers `x-amz-request-id` and `x-amz-id-2` of its response.
#[derive(Clone, Debug)]
pub struct RequestIds {
    pub request: String,
    pub host: String,
}

/// An object to put.
#[derive(Clone, Debug)]
pub struct Put<'a> {
    pub bucket: &'a str,
    pub key: &'a str,
    pub bytes: Arc<[u8]>,
    pub content_type: Option<&'a str>,
    /// The id of whoever puts it. The account, if nothing else is known.
    pub principal: &'a str,
    /// `X-Amzn-Trace-Id`, which S3 passes on with a notification.
    pub trace_header: Option<&'a str>,
}

/// What S3 tells a queue: the queue's name and the body of the message.
#[derive(Debug)]
pub(crate) struct Notice {
    pub(crate) queue: Arc<str>,
    pub(crate) body: String,
}

impl S3 {
    pub fn new(seed: u64) -> Self {
        Self { ids: Ids::new(seed), buckets: BTreeMap::new(), sequence: 0 }
    }

    pub fn request_ids(&mut self) -> RequestIds {
        let host: Vec<u8> = (0..4).flat_map(|_| self.ids.number().to_be_bytes()).collect();
        RequestIds { request: format!("{:016X}", self.ids.number()), host: STANDARD.encode(host) }
    }

    /// Creates a bucket. As in the region us-east-1, it is no error if the caller has it already.
    pub fn create_bucket(&mut self, name: &str) -> Result<(), S3Error> {
        if !is_bucket_name(name) {
            return Err(S3Error::InvalidBucketName(name.to_owned()));
        }
        self.buckets.entry(name.into()).or_default();
        Ok(())
    }

    pub fn delete_bucket(&mut self, name: &str) -> Result<(), S3Error> {
        if !self.bucket(name)?.objects.is_empty() {
            return Err(S3Error::BucketNotEmpty(name.to_owned()));
        }
        self.buckets.remove(name);
        Ok(())
    }

    /// Whether the bucket exists, as an error if it doesn't.
    pub fn check_bucket(&self, name: &str) -> Result<(), S3Error> {
        self.bucket(name).map(drop)
    }

    pub fn object(&self, bucket: &str, key: &str) -> Result<&Object, S3Error> {
        let object = self.bucket(bucket)?.objects.get(key);
        object.ok_or_else(|| S3Error::NoSuchKey(key.to_owned()))
    }

    /// The objects whose keys begin with `prefix` and come after `after`, sorted by key.
    pub fn objects(
        &self,
        bucket: &str,
        prefix: &str,
        after: &str,
    ) -> Result<impl Iterator<Item = (&Arc<str>, &Object)>, S3Error> {
        let from = if after < prefix { Bound::Included(prefix) } else { Bound::Excluded(after) };
        let objects = self.bucket(bucket)?.objects.range::<str, _>((from, Bound::Unbounded));
        Ok(objects.take_while(move |(key, _)| key.starts_with(prefix)))
    }

    /// Puts an object, instead of an older one with the same key. The result includes what the bucket tells queues.
    pub(crate) fn put(
        &mut self,
        now: Timestamp,
        put: &Put<'_>,
        ids: &RequestIds,
    ) -> Result<(Object, Vec<Notice>), S3Error> {
        if put.key.len() > KEY_BYTES_MAX {
            return Err(S3Error::KeyTooLong { bytes: put.key.len(), max: KEY_BYTES_MAX });
        }
        let bucket = self.buckets.get_mut(put.bucket).ok_or_else(|| no_bucket(put.bucket))?;
        let object = Object {
            bytes: Arc::clone(&put.bytes),
            etag: format!("{:x}", Md5::digest(&put.bytes)).into(),
            content_type: put.content_type.unwrap_or(CONTENT_TYPE_DEFAULT).into(),
            last_modified: now,
        };
        bucket.objects.insert(put.key.into(), object.clone());
        self.sequence += 1;
        let notices = bucket.notifications.notices(put, &object, ids, self.sequence);
        Ok((object, notices))
    }

    /// Deletes an object. It is no error if there is none.
    pub fn delete(&mut self, bucket: &str, key: &str) -> Result<(), S3Error> {
        self.bucket_mut(bucket)?.objects.remove(key);
        Ok(())
    }

    pub fn configuration(&self, bucket: &str, part: Part) -> Result<&Arc<str>, S3Error> {
        self.bucket(bucket)?.configuration.get(&part).ok_or_else(|| part.missing())
    }

    /// Replaces a part of a bucket's configuration, or deletes it.
    pub fn configure(&mut self, bucket: &str, part: Part, to: Option<&str>) -> Result<(), S3Error> {
        let configuration = &mut self.bucket_mut(bucket)?.configuration;
        match to.or_else(|| part.after_deletion()) {
            Some(to) => configuration.insert(part, to.into()),
            None => configuration.remove(&part),
        };
        Ok(())
    }

    pub fn notifications(&self, bucket: &str) -> Result<&NotificationConfiguration, S3Error> {
        self.bucket(bucket).map(|bucket| &bucket.notifications)
    }

    /// Replaces a bucket's notifications. The result is the test event for each of their queues. `is_queue` says
    /// whether the queue with an ARN exists.
    pub(crate) fn set_notifications(
        &mut self,
        now: Timestamp,
        bucket: &str,
        mut notifications: NotificationConfiguration,
        ids: &RequestIds,
        is_queue: impl Fn(&str) -> bool,
    ) -> Result<Vec<Notice>, S3Error> {
        self.check_bucket(bucket)?;
        notifications.check(&mut self.ids, is_queue)?;
        let notices = notifications.test_events(now, bucket, ids);
        self.bucket_mut(bucket)?.notifications = notifications;
        Ok(notices)
    }

    fn bucket(&self, name: &str) -> Result<&Bucket, S3Error> {
        self.buckets.get(name).ok_or_else(|| no_bucket(name))
    }

    fn bucket_mut(&mut self, name: &str) -> Result<&mut Bucket, S3Error> {
        self.buckets.get_mut(name).ok_or_else(|| no_bucket(name))
    }
}

fn no_bucket(name: &str) -> S3Error {
    S3Error::NoSuchBucket(name.to_owned())
}

/// Whether a bucket may have this name: 3 to 63 lower-case letters, digits, dots and hyphens, at both ends a letter or
/// digit.
fn is_bucket_name(name: &str) -> bool {
    let is_alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    (3..=63).contains(&bytes.len())
        && bytes.iter().all(|byte| is_alphanumeric(byte) || matches!(byte, b'.' | b'-'))
        && [bytes.first(), bytes.last()].into_iter().flatten().all(is_alphanumeric)
}
