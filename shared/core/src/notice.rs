//! The notices of S3 that a failure record lies in a bucket.
//!
//! A bucket is the one on-failure destination that takes records of any size. Lambda puts each record under a key of
//! its own, which names what has failed:
//!
//! | record | key |
//! |---|---|
//! | of an asynchronous invocation | `aws/lambda/async/FUNCTION/YYYY/MM/DD/…` |
//! | of a stream's batch | `aws/lambda/MAPPING/SHARD/YYYY/MM/DD/…`, where the mapping is a UUID |
//!
//! For Kafka, nobody documents what stands in place of the shard. So it may be any number of segments.
//!
//! The bucket sends a notice about the record to the retry queue:
//!
//! | notice | the object's key in it |
//! |---|---|
//! | S3's event notification | encoded like a form: `+` for a space, `%2B` for a plus sign |
//! | EventBridge's `Object Created` | as it is |
//!
//! When notifications are set up, S3 sends a test event, which is about no object.

use std::fmt;

use percent_encoding::percent_decode_str;
use serde_json::value::RawValue;

use crate::{arn::is_function_name, attribute::acceptable_json, json::Object};

/// What the keys of the records of asynchronous invocations begin with. The name of the function follows, and the date.
pub const PREFIX: &str = "aws/lambda/async/";

/// What the keys of all records begin with. Those of a stream's batches go on with the id of the event source mapping.
pub const STREAM_PREFIX: &str = "aws/lambda/";

/// How many objects a notice may be about. S3 has never been seen to name more than one, and whoever may send to the
/// queue could name half a million in a megabyte.
const OBJECTS_MAX: usize = 100;

/// Where a failure record lies.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Location {
    pub bucket: String,
    pub key: String,
    /// The version of the object, if the bucket keeps versions.
    pub version: Option<String>,
    /// Where the name of the function ends in the key, if the key names it.
    name_end: Option<usize>,
}

impl Location {
    /// The location of a failure record, or `None` if Lambda has not made this key.
    pub fn of(bucket: &str, key: &str, version: Option<&str>) -> Option<Self> {
        let name_end = match key.strip_prefix(PREFIX) {
            Some(named) => {
                let (name, dated) = named.split_once('/')?;
                let is_record = is_function_name(name) && is_dated(dated);
                is_record.then(|| Some(PREFIX.len() + name.len()))
            }
            None => is_of_stream(key).then_some(None),
        };
        Some(Self {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            version: version.map(str::to_owned),
            name_end: name_end?,
        })
    }

    /// The name of the function that the key names. That of a stream's batch names none.
    pub fn function(&self) -> Option<&str> {
        Some(&self.key[PREFIX.len()..self.name_end?])
    }
}

/// Whether this is a date, as `YYYY/MM/DD`, and something after it.
fn is_dated(key: &str) -> bool {
    let mut parts = key.splitn(4, '/');
    let is_date = [4, 2, 2].into_iter().all(|digits| {
        let is_number = |it: &str| it.len() == digits && it.bytes().all(|b| b.is_ascii_digit());
        parts.next().is_some_and(is_number)
    });
    is_date && parts.next().is_some_and(|rest| !rest.is_empty())
}

/// Whether an event source mapping has made this key: its UUID, any segments, a date.
fn is_of_stream(key: &str) -> bool {
    let Some((mapping, mut rest)) =
        key.strip_prefix(STREAM_PREFIX).and_then(|it| it.split_once('/'))
    else {
        return false;
    };
    let lengths = mapping.split('-').map(str::len);
    let is_hex = mapping.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit());
    if !is_hex || !lengths.eq([8, 4, 4, 4, 12]) {
        return false;
    }
    while let Some((segment, dated)) = rest.split_once('/') {
        if segment.is_empty() {
            return false;
        }
        if is_dated(dated) {
            return true;
        }
        rest = dated;
    }
    false
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bucket, key, version, .. } = self;
        write!(f, "s3://{bucket}/{key}")?;
        match version {
            Some(version) => write!(f, "?versionId={version}"),
            None => Ok(()),
        }
    }
}

/// What a notice of S3 says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Notice {
    /// A failure record was put here.
    Record(Location),
    /// S3 has tested whether it may send notices to the queue.
    Test,
    /// Several objects were put, which are several events: the notice of each. S3 has never been seen to send this.
    Several(Vec<String>),
    /// Anything else has happened, or to another object.
    Other,
}

impl Notice {
    /// Reads a body that is a notice of S3, or returns `None`.
    pub(crate) fn read(body: &Object) -> Option<Self> {
        if body.text("Event").is_some_and(|event| event == "s3:TestEvent") {
            return Some(Self::Test);
        }
        if body.text("source").is_some_and(|source| source == "aws.s3") {
            let is_put = body.text("detail-type").is_some_and(|kind| kind == "Object Created");
            let location = || of_event(&body.object("detail")?);
            return Some(is_put.then(location).flatten().map_or(Self::Other, Self::Record));
        }
        let records: Vec<&RawValue> = serde_json::from_str(body.get("Records")?.get()).ok()?;
        let of_s3 = |record: &Object| record.text("eventSource").is_some_and(|it| it == "aws:s3");
        let mut read = records.iter().map(|record| Object::read(record.get()).filter(of_s3));
        if let [_] = records[..] {
            return Some(of_notification(&read.next()??).map_or(Self::Other, Self::Record));
        }
        let is_of_s3 = read.any(|record| record.is_some());
        is_of_s3.then(|| match records.len() {
            ..=OBJECTS_MAX => Self::Several(records.into_iter().map(alone).collect()),
            _ => Self::Other,
        })
    }
}

/// The notice that has only this record of one that has several. SNS may have encoded what SQS refuses.
fn alone(record: &RawValue) -> String {
    acceptable_json(format!(r#"{{"Records":[{}]}}"#, record.get()).into()).into_owned()
}

/// The location in EventBridge's `Object Created`.
fn of_event(detail: &Object) -> Option<Location> {
    let object = detail.object("object")?;
    let bucket = detail.object("bucket")?.text("name")?;
    Location::of(&bucket, &object.text("key")?, object.text("version-id").as_deref())
}

/// The location in a record of S3's event notification. A later minor version only adds members.
fn of_notification(record: &Object) -> Option<Location> {
    let is_put = record.text("eventName")?.starts_with("ObjectCreated:");
    let is_known = record.text("eventVersion")?.starts_with("2.");
    let s3 = record.object("s3").filter(|_| is_put && is_known)?;
    let (bucket, object) = (s3.object("bucket")?.text("name")?, s3.object("object")?);
    let key = object.text("key")?.replace('+', " ");
    let key = percent_decode_str(&key).decode_utf8().ok()?;
    Location::of(&bucket, &key, object.text("versionId").as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "aws/lambda/async/orders/2026/02/01/2026-02-01T12.00.00-3f1c";

    fn notification(name: &str, version: &str, key: &str) -> String {
        include_str!("../fixtures/s3_notification.json")
            .replace("ObjectCreated:Put", name)
            .replace("\"2.1\"", &format!("\"{version}\""))
            .replace("aws/lambda/async/my-function", "aws/lambda/async/orders")
            .replace("aws/lambda/async/orders/2019/11/14/2019-11-14T18.16.05-ac1e49f4-7d3b-4d0c-9a55-6b0ce3c3d1f0", key)
    }

    fn read(body: &str) -> Option<Notice> {
        Notice::read(&Object::read(body).unwrap())
    }

    #[test]
    fn the_key_of_a_record_names_its_function_and_a_date() {
        for (key, function) in [
            (KEY, Some("orders")),
            ("aws/lambda/async/a-b_C9/2026/12/31/é +", Some("a-b_C9")),
            ("aws/lambda/async/orders/2026/02/01/a/b", Some("orders")),
            ("aws/lambda/async/orders/2026/02/01/", None),
            ("aws/lambda/async/orders/2026/02/01", None),
            ("aws/lambda/async/orders/2026/2/01/x", None),
            ("aws/lambda/async/orders/2026/02/x1/x", None),
            ("aws/lambda/async//2026/02/01/x", None),
            ("aws/lambda/async/orders:live/2026/02/01/x", None),
            ("aws/lambda/async/../2026/02/01/x", None),
            ("/aws/lambda/async/orders/2026/02/01/x", None),
            ("aws/lambda/sync/orders/2026/02/01/x", None),
            ("", None),
        ] {
            let location = Location::of("records", key, None);
            assert_eq!(location.as_ref().and_then(Location::function), function, "{key}");
            assert_eq!(location.is_some(), function.is_some(), "{key}");
            if let Some(location) = location {
                assert_eq!(location.to_string(), format!("s3://records/{key}"));
            }
        }
        let versioned = Location::of("records", KEY, Some("v1")).unwrap();
        assert_eq!(versioned.to_string(), format!("s3://records/{KEY}?versionId=v1"));
    }

    #[test]
    fn the_key_of_a_streams_batch_names_its_mapping_and_no_function() {
        const MAPPING: &str = "aws/lambda/4aa76e6b-7b23-4e8d-8b4d-0d6f9c3f7f0e";
        for (rest, expected) in [
            ("shardId-000000000001/2026/02/01/2026-02-01T12.00.00-3f1c", true),
            ("shardId-00000001573689847184-864758bb/2026/02/01/x", true),
            ("topic/0/2026/02/01/x", true),
            ("a/b/c/d/2026/02/01/x", true),
            ("2026/02/01/2026/02/01/x", true),
            ("2026/02/01/x", false),
            ("shard/2026/02/01/", false),
            ("shard/2026/2/01/x", false),
            ("shard//2026/02/01/x", false),
            ("shard", false),
        ] {
            let location = Location::of("records", &format!("{MAPPING}/{rest}"), Some("v1"));
            assert_eq!(location.is_some(), expected, "{rest}");
            assert_eq!(location.as_ref().and_then(Location::function), None, "{rest}");
        }
        for prefix in
            ["aws/lambda/mapping", "aws/lambda/4aa76e6b7b234e8d8b4d0d6f9c3f7f0e", &MAPPING[1..]]
        {
            let key = format!("{prefix}/shard/2026/02/01/x");
            assert_eq!(Location::of("records", &key, None), None, "{key}");
        }
    }

    #[test]
    fn s3_encodes_a_key_in_its_notifications_and_eventbridge_does_not() {
        let prefix = "aws/lambda/async/orders/2026/02/01/";
        for (encoded, plain) in [
            ("a+b", "a b"),
            ("a%2Bb", "a+b"),
            ("%C3%A9%E2%98%83", "é☃"),
            ("100%25", "100%"),
            ("a%40b", "a@b"),
        ] {
            let body = notification("ObjectCreated:Put", "2.1", &format!("{prefix}{encoded}"));
            let Some(Notice::Record(location)) = read(&body) else { panic!("{body}") };
            assert_eq!(location.key, format!("{prefix}{plain}"));
            let event = include_str!("../fixtures/s3_eventbridge_event.json");
            let there = Object::read(event).unwrap().object("detail").unwrap();
            let there = there.object("object").unwrap().text("key").unwrap().into_owned();
            let event = event.replace(&there, &format!("{prefix}{encoded}"));
            let Some(Notice::Record(location)) = read(&event) else { panic!("{event}") };
            assert_eq!(location.key, format!("{prefix}{encoded}"));
        }
        let bad = notification("ObjectCreated:Put", "2.1", &format!("{prefix}%FF"));
        assert_eq!(read(&bad), Some(Notice::Other), "no key of S3 is anything but UTF-8");
    }

    #[test]
    fn only_the_notice_of_one_new_record_in_a_known_version_is_one_of_a_record() {
        let is_record = |body: &str| matches!(read(body), Some(Notice::Record(_)));
        for (name, version, key, expected) in [
            ("ObjectCreated:Put", "2.0", KEY, true),
            ("ObjectCreated:CompleteMultipartUpload", "2.9", KEY, true),
            ("ObjectCreated:Put", "3.0", KEY, false),
            ("ObjectCreated:Put", "20.1", KEY, false),
            ("ObjectRemoved:Delete", "2.1", KEY, false),
            ("LifecycleExpiration:Delete", "2.1", KEY, false),
            ("ObjectCreated:Put", "2.1", "pictures/cat.jpg", false),
        ] {
            let body = notification(name, version, key);
            assert_eq!(is_record(&body), expected, "{name} {version} {key}");
            assert_eq!(read(&body) == Some(Notice::Other), !expected, "{name} {version} {key}");
        }
        let deleted = include_str!("../fixtures/s3_eventbridge_event.json")
            .replace("Object Created", "Object Deleted");
        assert_eq!(read(&deleted), Some(Notice::Other));
        for body in [
            r#"{"Records":[]}"#,
            r#"{"Records":[7,{"eventSource":"aws:sqs"}]}"#,
            r#"{"Records":[{"eventSource":"aws:sqs"}]}"#,
            r#"{"Records":{"eventSource":"aws:s3"}}"#,
            r#"{"Event":"other"}"#,
            "{}",
        ] {
            assert_eq!(read(body), None, "{body}");
        }
    }

    #[test]
    fn a_notice_of_several_objects_is_one_notice_for_each_whatever_the_others_are() {
        let one = notification("ObjectCreated:Put", "2.1", KEY);
        let record = Object::read(&one).unwrap().get("Records").unwrap().get();
        let good = record.trim_start_matches('[').trim_end_matches(']');
        let removed = good.replace("ObjectCreated:Put", "ObjectRemoved:Delete");
        let noncharacter = good.replace("sequencer\"", "sequencer\u{ffff}\"");
        let stranger = r#"{"eventSource": "aws:sqs"}"#;
        let entries = ["7", stranger, good, good, &removed, &noncharacter];
        let body = format!(r#"{{"Records": [{}]}}"#, entries.join(" , "));
        let Some(Notice::Several(notices)) = read(&body) else { panic!("{body}") };
        let escaped = noncharacter.replace('\u{ffff}', "\\uffff");
        let expected = ["7", stranger, good, good, &removed, &escaped];
        assert_eq!(notices, expected.map(|entry| format!(r#"{{"Records":[{entry}]}}"#)));
        let record = || Location::of("failure-records", KEY, None).map(Notice::Record);
        let other = || Some(Notice::Other);
        let each = [None, None, record(), record(), other(), record()];
        assert_eq!(Vec::from_iter(notices.iter().map(|notice| read(notice))), each);
    }

    #[test]
    fn a_notice_of_more_than_100_objects_is_not_split() {
        let entry = r#"{"eventSource":"aws:s3"}"#;
        for (count, is_split) in [(2, true), (100, true), (101, false), (40_000, false)] {
            let body = format!(r#"{{"Records":[{}]}}"#, vec![entry; count].join(","));
            let notice = read(&body);
            assert_eq!(matches!(notice, Some(Notice::Several(_))), is_split, "{count}");
            assert_eq!(notice == Some(Notice::Other), !is_split, "{count}");
        }
    }

    #[test]
    fn s3_says_which_event_is_its_test() {
        assert_eq!(read(include_str!("../fixtures/s3_test_event.json")), Some(Notice::Test));
    }

    #[test]
    fn deployments_give_permissions_for_the_keys_that_records_have() {
        let contract = include_str!("../../../infra/cdk/contract/records.json");
        let contract = Object::read(contract).unwrap();
        for (name, prefix) in [("prefix", PREFIX), ("prefix_with_streams", STREAM_PREFIX)] {
            assert_eq!(contract.text(name).as_deref(), Some(prefix), "{name}");
        }
    }

    proptest::proptest! {
        #[test]
        fn every_key_of_a_record_survives_s3s_encoding(rest in "\\PC{1,40}", version in "[a-zA-Z0-9._]{0,8}") {
            let key = format!("aws/lambda/async/orders/2026/02/01/{rest}");
            let form = percent_encoding::utf8_percent_encode(&key, percent_encoding::NON_ALPHANUMERIC);
            let form = form.to_string().replace("%20", "+").replace("%2F", "/");
            let body = notification("ObjectCreated:Put", "2.1", &form);
            let body = body.replace("\"sequencer\"", &format!("\"versionId\":\"{version}\",\"sequencer\""));
            let Some(Notice::Record(location)) = read(&body) else { panic!("{body}") };
            proptest::prop_assert_eq!(location.key, key);
            proptest::prop_assert_eq!(location.version, Some(version));
        }
    }
}
