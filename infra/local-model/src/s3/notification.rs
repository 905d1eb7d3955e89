//! What a bucket tells queues: that an object was created, and, when this is configured, a test event.
//!
//! The configuration has the names of S3's XML, so the API reads and writes it as it is.

use std::collections::BTreeSet;

use chrono::SecondsFormat;
use comeback_core::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Notice, Object, Put, RequestIds, error::S3Error};
use crate::{ACCOUNT, Ids, REGION, bucket_arn, queue_name};

/// The version of a notification, as recorded on AWS. AWS documents later ones, up to 2.6, which only add members, so
/// readers should compare only the first number.
const EVENT_VERSION: &str = "2.1";

/// The events that happen here. Both are sent for each object that is put.
const EVENTS: [&str; 2] = ["s3:ObjectCreated:*", "s3:ObjectCreated:Put"];

const EVENT_NAME: &str = "ObjectCreated:Put";

/// The address of everybody who puts an object. The local cloud listens on loopback only.
const SOURCE_ADDRESS: &str = "127.0.0.1";

/// The namespace of S3's XML.
pub const XMLNS: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

const AMBIGUOUS: &str = "Configuration is ambiguously defined. Cannot have overlapping suffixes in two \
                         rules if the prefixes are overlapping for the same event type.";

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NotificationConfiguration {
    #[serde(rename = "@xmlns", default = "xmlns")]
    xmlns: String,
    #[serde(rename = "QueueConfiguration", default)]
    queues: Vec<QueueConfiguration>,
}

impl Default for NotificationConfiguration {
    fn default() -> Self {
        Self { xmlns: xmlns(), queues: Vec::new() }
    }
}

fn xmlns() -> String {
    XMLNS.to_owned()
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct QueueConfiguration {
    #[serde(default)]
    id: String,
    /// The queue's ARN.
    queue: String,
    #[serde(rename = "Event")]
    events: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<Filter>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
struct Filter {
    #[serde(rename = "S3Key")]
    key: KeyFilter,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
struct KeyFilter {
    #[serde(rename = "FilterRule", default)]
    rules: Vec<FilterRule>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
struct FilterRule {
    name: String,
    #[serde(default)]
    value: String,
}

const PREFIX: &str = "Prefix";
const SUFFIX: &str = "Suffix";

impl NotificationConfiguration {
    /// One that notifies a queue of each object whose key begins with `prefix`.
    pub fn of_queue(queue_arn: &str, prefix: &str) -> Self {
        let rule = FilterRule { name: PREFIX.to_owned(), value: prefix.to_owned() };
        let queue = QueueConfiguration {
            id: String::new(),
            queue: queue_arn.to_owned(),
            events: vec![EVENTS[0].to_owned()],
            filter: Some(Filter { key: KeyFilter { rules: vec![rule] } }),
        };
        Self { queues: vec![queue], ..Self::default() }
    }

    /// Checks the rules of S3, and gives ids to the configurations that have none. `is_queue` says whether the queue
    /// with an ARN exists.
    pub(super) fn check(
        &mut self,
        ids: &mut Ids,
        is_queue: impl Fn(&str) -> bool,
    ) -> Result<(), S3Error> {
        for queue in &mut self.queues {
            queue.check()?;
            if queue.id.is_empty() {
                queue.id = ids.uuid();
            }
        }
        for (n, queue) in self.queues.iter().enumerate() {
            if self.queues.iter().skip(n + 1).any(|other| queue.overlaps(other)) {
                return Err(S3Error::argument("QueueConfiguration", &queue.id, AMBIGUOUS));
            }
        }
        // S3 looks for the queues only when it finds no other fault.
        if let Some(absent) = self.queues.iter().find(|queue| !is_queue(&queue.queue)) {
            let message = "Unable to validate the following destination configurations";
            return Err(S3Error::argument("Queue", &absent.queue, message));
        }
        Ok(())
    }

    /// The notifications that an object was created.
    pub(super) fn notices(
        &self,
        put: &Put<'_>,
        object: &Object,
        ids: &RequestIds,
        sequence: u64,
    ) -> Vec<Notice> {
        let of_key = self.queues.iter().filter(|queue| queue.is_for(put.key));
        let notice = |queue: &QueueConfiguration| {
            let record = json!({
                "eventVersion": EVENT_VERSION,
                "eventSource": "aws:s3",
                "awsRegion": REGION,
                "eventTime": time(object.last_modified),
                "eventName": EVENT_NAME,
                "userIdentity": { "principalId": format!("AWS:{}", put.principal) },
                "requestParameters": { "sourceIPAddress": SOURCE_ADDRESS },
                "responseElements": { "x-amz-request-id": ids.request, "x-amz-id-2": ids.host },
                "s3": {
                    "s3SchemaVersion": "1.0",
                    "configurationId": queue.id,
                    "bucket": {
                        "name": put.bucket,
                        "ownerIdentity": { "principalId": ACCOUNT },
                        "arn": bucket_arn(put.bucket),
                    },
                    "object": {
                        "key": encoded(put.key),
                        "size": object.bytes.len(),
                        "eTag": object.etag,
                        "sequencer": format!("{sequence:018X}"),
                    },
                },
            });
            queue.notice(json!({ "Records": [record] }).to_string())
        };
        of_key.filter_map(notice).collect()
    }

    /// The event by which S3 tries each queue.
    pub(super) fn test_events(
        &self,
        now: Timestamp,
        bucket: &str,
        ids: &RequestIds,
    ) -> Vec<Notice> {
        let event = json!({
            "Service": "Amazon S3",
            "Event": "s3:TestEvent",
            "Time": time(now),
            "Bucket": bucket,
            "RequestId": ids.request,
            "HostId": ids.host,
        });
        let mut tried = BTreeSet::new();
        let untried = self.queues.iter().filter(|queue| tried.insert(&queue.queue));
        untried.filter_map(|queue| queue.notice(event.to_string())).collect()
    }
}

impl QueueConfiguration {
    fn check(&mut self) -> Result<(), S3Error> {
        if !self.queue.starts_with("arn:aws:sqs:") {
            let message = "The ARN could not be parsed";
            return Err(S3Error::argument("Queue", &self.queue, message));
        }
        let is_sent = |event: &String| EVENTS.contains(&event.as_str());
        if !self.events.iter().all(is_sent) {
            let message = format!(
                "The event is not supported for notifications: this local cloud sends only {} and {}",
                EVENTS[0], EVENTS[1]
            );
            return Err(S3Error::argument("Event", &self.events.join(", "), message));
        }
        for rule in self.filter.iter_mut().flat_map(|filter| &mut filter.key.rules) {
            let names = [PREFIX, SUFFIX];
            let known = names.into_iter().find(|name| name.eq_ignore_ascii_case(&rule.name));
            let Some(known) = known else {
                let message = "filter rule name must be either prefix or suffix";
                return Err(S3Error::argument("FilterRule.Name", &rule.name, message));
            };
            known.clone_into(&mut rule.name);
        }
        Ok(())
    }

    fn is_for(&self, key: &str) -> bool {
        key.starts_with(self.filter(PREFIX)) && key.ends_with(self.filter(SUFFIX))
    }

    /// Whether a key may be for both.
    fn overlaps(&self, other: &Self) -> bool {
        let [prefixes, suffixes] =
            [PREFIX, SUFFIX].map(|name| (self.filter(name), other.filter(name)));
        (prefixes.0.starts_with(prefixes.1) || prefixes.1.starts_with(prefixes.0))
            && (suffixes.0.ends_with(suffixes.1) || suffixes.1.ends_with(suffixes.0))
    }

    /// The value of a filter rule. Without the rule, it is empty, which every key begins and ends with.
    fn filter(&self, name: &str) -> &str {
        let mut rules = self.filter.iter().flat_map(|filter| &filter.key.rules);
        rules.find(|rule| rule.name == name).map_or("", |rule| &rule.value)
    }

    fn notice(&self, body: String) -> Option<Notice> {
        Some(Notice { queue: queue_name(&self.queue)?.into(), body })
    }
}

fn time(at: Timestamp) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// A key as S3 writes it in notifications and in lists: URL-encoded like a form, so that a space is `+`, except for
/// slashes.
pub fn encoded(key: &str) -> String {
    let encode = |part: &str| form_urlencoded::byte_serialize(part.as_bytes()).collect::<String>();
    key.split('/').map(encode).collect::<Vec<_>>().join("/")
}
