use serde_json::{Value, json};

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_timestamp(1_700_000_000 + seconds, 0).unwrap()
}

/// S3 with the bucket `records`.
fn s3() -> S3 {
    let mut s3 = S3::new(1);
    s3.create_bucket("records").unwrap();
    s3
}

fn put(s3: &mut S3, now: Timestamp, key: &str, text: &str) -> Result<Vec<Notice>, S3Error> {
    let ids = s3.request_ids();
    let put = Put {
        bucket: "records",
        key,
        bytes: text.as_bytes().into(),
        content_type: None,
        principal: "someone",
        trace_header: None,
    };
    s3.put(now, &put, &ids).map(|(_, notices)| notices)
}

fn configuration(queues: &Value) -> NotificationConfiguration {
    serde_json::from_value(json!({ "QueueConfiguration": queues })).unwrap()
}

/// One for the queue `q` with this event and these filter rules.
fn queue(event: &str, rules: &[(&str, &str)]) -> Value {
    let rules = rules.iter().map(|(name, value)| json!({ "Name": name, "Value": value }));
    json!({
        "Queue": "arn:aws:sqs:us-east-1:000000000000:q",
        "Event": [event],
        "Filter": { "S3Key": { "FilterRule": rules.collect::<Vec<_>>() } },
    })
}

fn notify(s3: &mut S3, queues: &Value) -> Result<Vec<Notice>, S3Error> {
    let ids = s3.request_ids();
    let is_queue = |arn: &str| arn.ends_with(":q");
    s3.set_notifications(at(0), "records", configuration(queues), &ids, is_queue)
}

#[test]
fn buckets_have_names_that_a_host_could_have() {
    let (longest, longer) = ("x".repeat(63), "x".repeat(64));
    for (name, good) in [
        ("abc", true),
        ("comeback-records.2026", true),
        (&longest, true),
        (&longer, false),
        ("ab", false),
        ("Abc", false),
        ("-bc", false),
        ("ab.", false),
        ("a_c", false),
        ("a/c", false),
        ("", false),
    ] {
        let created = S3::new(1).create_bucket(name).map_err(|error| error.code());
        assert_eq!(created, if good { Ok(()) } else { Err("InvalidBucketName") }, "{name}");
    }
}

#[test]
fn an_object_is_replaced_by_a_later_one_and_gone_when_it_is_deleted() {
    let mut s3 = s3();
    put(&mut s3, at(0), "k", "one").unwrap();
    put(&mut s3, at(5), "k", "two").unwrap();
    let object = s3.object("records", "k").unwrap();
    assert_eq!((&*object.bytes, object.last_modified), (&b"two"[..], at(5)));
    assert_eq!(&*object.etag, "b8a9f715dbb64fd5c56e7783c6820a61");
    assert_eq!(&*object.content_type, "binary/octet-stream");
    assert_eq!(s3.delete_bucket("records"), Err(S3Error::BucketNotEmpty("records".to_owned())));
    for _ in 0..2 {
        s3.delete("records", "k").unwrap();
        assert_eq!(s3.object("records", "k").unwrap_err(), S3Error::NoSuchKey("k".to_owned()));
    }
    let long = "é".repeat(513);
    assert_eq!(put(&mut s3, at(6), &long, "").unwrap_err().code(), "KeyTooLongError");
    s3.create_bucket("records").unwrap();
    s3.delete_bucket("records").unwrap();
    assert_eq!(put(&mut s3, at(6), "k", "").unwrap_err().code(), "NoSuchBucket");
    assert_eq!(s3.object("records", "k").unwrap_err().code(), "NoSuchBucket");
}

#[test]
fn a_list_has_the_keys_with_a_prefix_after_another_key_in_order() {
    let mut s3 = s3();
    for key in ["b/2", "a", "b/1", "b", "c", "b/3"] {
        put(&mut s3, at(0), key, "").unwrap();
    }
    for (prefix, after, expected) in [
        ("", "", &["a", "b", "b/1", "b/2", "b/3", "c"][..]),
        ("b/", "", &["b/1", "b/2", "b/3"]),
        ("b/", "a", &["b/1", "b/2", "b/3"]),
        ("b/", "b/1", &["b/2", "b/3"]),
        ("b/", "c", &[]),
        ("d", "", &[]),
    ] {
        let keys = s3.objects("records", prefix, after).unwrap();
        let keys: Vec<_> = keys.map(|(key, _)| &**key).collect();
        assert_eq!(keys, expected, "{prefix} after {after}");
    }
}

#[test]
fn a_configuration_must_name_a_queue_an_event_and_filters_that_s3_has() {
    let created = "s3:ObjectCreated:*";
    let good = queue(created, &[("prefix", "aws/"), ("SUFFIX", ".json")]);
    let with = |name: &str, value: Value| {
        let mut changed = queue(created, &[]);
        changed[name] = value;
        changed
    };
    let absent = with("Queue", json!("arn:aws:sqs:us-east-1:000000000000:other"));
    for (queues, expected) in [
        (json!([]), Ok(0)),
        (json!([good]), Ok(1)),
        (json!([with("Id", json!("mine"))]), Ok(1)),
        // The queue is tried once.
        (json!([queue(created, &[("prefix", "a")]), queue(created, &[("prefix", "b")])]), Ok(1)),
        (json!([queue(created, &[("prefix", "a")]), queue(created, &[])]), Err(AMBIGUOUS)),
        (
            json!([
                queue(created, &[("prefix", "a"), ("suffix", "x")]),
                queue(created, &[("prefix", "ab"), ("suffix", "y")])
            ]),
            Ok(1),
        ),
        (
            json!([
                queue(created, &[("prefix", "a"), ("suffix", "x")]),
                queue("s3:ObjectCreated:Put", &[("prefix", "ab"), ("suffix", "yx")])
            ]),
            Err(AMBIGUOUS),
        ),
        (json!([queue("s3:ObjectRemoved:*", &[])]), Err("The event is not supported")),
        (json!([queue(created, &[("infix", "a")])]), Err("filter rule name must be either")),
        (json!([with("Queue", json!("q"))]), Err("The ARN could not be parsed")),
        (json!([absent]), Err("Unable to validate")),
        (json!([absent, with("Queue", json!("q"))]), Err("The ARN could not be parsed")),
    ] {
        let mut s3 = s3();
        let set = notify(&mut s3, &queues);
        match (set, expected) {
            (Ok(notices), Ok(count)) => assert_eq!(notices.len(), count, "{queues}"),
            (Err(error), Err(start)) => {
                assert_eq!(error.code(), "InvalidArgument", "{queues}");
                assert!(error.to_string().starts_with(start), "{queues}: {error}");
                let unchanged = NotificationConfiguration::default();
                assert_eq!(*s3.notifications("records").unwrap(), unchanged);
            }
            (set, _) => panic!("{queues}: {set:?}"),
        }
    }
    let mut s3 = s3();
    notify(&mut s3, &json!([good])).unwrap();
    let kept = serde_json::to_value(s3.notifications("records").unwrap()).unwrap();
    let kept = &kept["QueueConfiguration"][0];
    assert!(!kept["Id"].as_str().unwrap().is_empty());
    let rules = json!([
        { "Name": "Prefix", "Value": "aws/" },
        { "Name": "Suffix", "Value": ".json" },
    ]);
    assert_eq!(kept["Filter"]["S3Key"]["FilterRule"], rules);
}

const AMBIGUOUS: &str = "Configuration is ambiguously defined";

/// The recorded notification of AWS is in LocalStack's snapshot `test_object_created_put`. From the test
/// `test_key_encoding` is that an at sign is encoded, from AWS's documentation that a space is a plus sign.
#[test]
fn a_notification_has_s3s_members_and_the_key_encoded_like_a_form() {
    let mut s3 = s3();
    notify(&mut s3, &json!([queue("s3:ObjectCreated:Put", &[("prefix", "r/")])])).unwrap();
    let mut sequencers = Vec::new();
    for (key, encoded) in [
        ("r/f/2026/11/26/2026-11-26T01.02.03-id", "r/f/2026/11/26/2026-11-26T01.02.03-id"),
        ("r/red flower.jpg", "r/red+flower.jpg"),
        ("r/a+b", "r/a%2Bb"),
        ("r/a@b", "r/a%40b"),
        ("r/100%", "r/100%25"),
        ("r/é☃", "r/%C3%A9%E2%98%83"),
    ] {
        let notice = put(&mut s3, at(0), key, "text").unwrap().remove(0);
        assert_eq!(&*notice.queue, "q");
        let body: Value = serde_json::from_str(&notice.body).unwrap();
        let [record] = body["Records"].as_array().unwrap().as_slice() else { panic!("{body}") };
        let told = &record["s3"]["object"];
        assert_eq!(told["key"], encoded);
        assert_eq!(told["size"], 4);
        assert_eq!(told["eTag"], "1cb251ec0d568de6a929b520c4aed8d1");
        sequencers.push(told["sequencer"].as_str().unwrap().to_owned());
        for (member, expected) in [
            ("eventVersion", "2.1"),
            ("eventSource", "aws:s3"),
            ("awsRegion", "us-east-1"),
            ("eventTime", "2023-11-14T22:13:20.000Z"),
            ("eventName", "ObjectCreated:Put"),
        ] {
            assert_eq!(record[member], expected, "{member}");
        }
        assert_eq!(record["userIdentity"]["principalId"], "AWS:someone");
        let bucket = &record["s3"]["bucket"];
        assert_eq!(bucket["name"], "records");
        assert_eq!(bucket["arn"], "arn:aws:s3:::records");
    }
    assert!(sequencers.is_sorted_by(|a, b| a < b), "{sequencers:?}");
    assert!(put(&mut s3, at(0), "other/k", "").unwrap().is_empty(), "another prefix");
    notify(&mut s3, &json!([])).unwrap();
    assert!(put(&mut s3, at(0), "r/k", "").unwrap().is_empty(), "no configuration any more");
}

#[test]
fn a_new_configuration_is_tried_with_a_test_event() {
    let notice = notify(&mut s3(), &json!([queue("s3:ObjectCreated:*", &[])])).unwrap().remove(0);
    let event: Value = serde_json::from_str(&notice.body).unwrap();
    for (member, expected) in [
        ("Service", "Amazon S3"),
        ("Event", "s3:TestEvent"),
        ("Time", "2023-11-14T22:13:20.000Z"),
        ("Bucket", "records"),
    ] {
        assert_eq!(event[member], expected, "{member}");
    }
    assert!(event.get("Records").is_none());
}
