//! S3 as a client sees it, and the records that Lambda puts into a bucket.

use serde_json::{Value, json};

use crate::client::{Answer, Cloud, SIGNATURE};

const SIGNED_FOR_S3: (&str, &str) = (
    "authorization",
    "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0",
);

const QUEUE_ARN: &str = "arn:aws:sqs:us-east-1:000000000000:retry";

fn s3(cloud: &Cloud, method: &str, path: &str, body: &[u8]) -> Answer {
    cloud.raw(method, path, &[SIGNED_FOR_S3], body)
}

fn sqs(cloud: &Cloud, action: &str, request: Value) -> Value {
    let target = format!("AmazonSQS.{action}");
    let headers = [("x-amz-target", target.as_str()), SIGNATURE];
    let answer = cloud.raw("POST", "/", &headers, request.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// Waits for a message and returns its body.
fn received(cloud: &Cloud) -> Value {
    let messages =
        sqs(cloud, "ReceiveMessage", json!({ "QueueUrl": "retry", "WaitTimeSeconds": 20 }));
    let body = messages["Messages"][0]["Body"].as_str().expect("no message comes");
    serde_json::from_str(body).unwrap()
}

/// A bucket that notifies the queue `retry` of objects with this prefix.
fn bucket(cloud: &Cloud, prefix: &str) {
    sqs(cloud, "CreateQueue", json!({ "QueueName": "retry" }));
    assert_eq!(s3(cloud, "PUT", "/records", b"").status, 200);
    let configuration = format!(
        r#"<NotificationConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
             <QueueConfiguration>
               <Queue>{QUEUE_ARN}</Queue>
               <Event>s3:ObjectCreated:*</Event>
               <Filter><S3Key><FilterRule><Name>prefix</Name><Value>{prefix}</Value></FilterRule></S3Key></Filter>
             </QueueConfiguration>
           </NotificationConfiguration>"#
    );
    let set = s3(cloud, "PUT", "/records?notification", configuration.as_bytes());
    assert_eq!(set.status, 200, "{}", set.text());
    assert_eq!(received(cloud)["Event"], "s3:TestEvent");
}

#[test]
fn an_object_is_put_read_listed_and_deleted_under_a_key_of_any_characters() {
    let cloud = Cloud::start();
    bucket(&cloud, "k/");
    for (path, key, told) in [
        ("/records/k/red%20flower.jpg", "k/red flower.jpg", "k/red+flower.jpg"),
        ("/records/k/a+b", "k/a+b", "k/a%2Bb"),
        ("/records/k/%C3%A9%E2%98%83%26%3C", "k/é☃&<", "k/%C3%A9%E2%98%83%26%3C"),
        ("/records/k//../x", "k//../x", "k//../x"),
    ] {
        let bytes = [0, 255, b'<', b'\r', b'\n'];
        let put = s3(&cloud, "PUT", &format!("{path}?x-id=PutObject"), &bytes);
        assert_eq!(put.status, 200, "{}", put.text());
        let notice = received(&cloud);
        let record = &notice["Records"][0];
        assert_eq!(record["s3"]["object"]["key"], told);
        assert_eq!(record["s3"]["object"]["size"], 5);
        let request_id = put.header("x-amz-request-id").unwrap();
        assert_eq!(record["responseElements"]["x-amz-request-id"], request_id);

        let got = s3(&cloud, "GET", path, b"");
        assert_eq!((got.status, got.body.as_slice()), (200, &bytes[..]));
        assert_eq!(got.header("etag"), put.header("etag"));
        assert!(got.header("last-modified").unwrap().ends_with(" GMT"));
        let head = s3(&cloud, "HEAD", path, b"");
        assert_eq!((head.status, head.header("content-length")), (200, Some("5")));
        assert!(head.body.is_empty());
        let listed = s3(&cloud, "GET", "/records?list-type=2&prefix=k/", b"");
        let escaped = key.replace('&', "&amp;").replace('<', "&lt;");
        assert!(listed.text().contains(&format!("<Key>{escaped}</Key>")), "{}", listed.text());
        assert_eq!(s3(&cloud, "DELETE", path, b"").status, 204);
        assert_eq!(s3(&cloud, "HEAD", path, b"").status, 404);
    }
    let kept = s3(&cloud, "GET", "/records?notification", b"");
    assert!(kept.text().contains(&format!("<Queue>{QUEUE_ARN}</Queue>")), "{}", kept.text());
    assert!(kept.text().contains("<Name>Prefix</Name><Value>k/</Value>"), "{}", kept.text());
    assert_eq!(s3(&cloud, "DELETE", "/records", b"").status, 204);
}

#[test]
fn a_configuration_is_kept_and_a_new_bucket_is_encrypted_and_blocks_public_access() {
    let cloud = Cloud::start();
    assert_eq!(s3(&cloud, "PUT", "/records", b"").status, 200);
    let get = |part: &str| s3(&cloud, "GET", &format!("/records?{part}"), b"");
    assert!(get("encryption").text().contains("<SSEAlgorithm>AES256</SSEAlgorithm>"));
    assert_eq!(get("publicAccessBlock").text().matches(">true<").count(), 4);
    let rules =
        "<LifecycleConfiguration><Rule><Status>Enabled</Status></Rule></LifecycleConfiguration>";
    for (part, code, body, bad, status, deleted) in [
        ("lifecycle", "NoSuchLifecycleConfiguration", rules, "<A/>", 200, 404),
        ("policy", "NoSuchBucketPolicy", "{\"Statement\":[]}", "[]", 204, 404),
        (
            "publicAccessBlock",
            "NoSuchPublicAccessBlockConfiguration",
            "<PublicAccessBlockConfiguration/>",
            "<PublicAccessBlockConfiguration>",
            200,
            404,
        ),
        ("encryption", "", "<ServerSideEncryptionConfiguration/>", "", 200, 200),
    ] {
        let path = format!("/records?{part}");
        assert_eq!(s3(&cloud, "PUT", &path, bad.as_bytes()).status, 400, "{part}");
        assert_eq!(s3(&cloud, "PUT", &path, body.as_bytes()).status, status, "{part}");
        assert_eq!(get(part).text(), body);
        assert_eq!(s3(&cloud, "DELETE", &path, b"").status, 204, "{part}");
        let gone = get(part);
        assert_eq!(gone.status, deleted, "{part}");
        assert!(deleted == 200 || gone.text().contains(code), "{}", gone.text());
    }
    assert_eq!(s3(&cloud, "GET", "/absent?policy", b"").status, 404);
}

#[test]
fn errors_are_s3s_xml() {
    let cloud = Cloud::start();
    assert_eq!(s3(&cloud, "PUT", "/records", b"").status, 200);
    let too_large = vec![b'x'; 16 * 1024 * 1024 + 1];
    let topic = b"<NotificationConfiguration><TopicConfiguration/></NotificationConfiguration>";
    let no_event = b"<NotificationConfiguration><QueueConfiguration><Queue>q</Queue></QueueConfiguration></NotificationConfiguration>";
    for (method, path, body, status, code, detail) in [
        ("GET", "/records/gone", &b""[..], 404, "NoSuchKey", "<Key>gone</Key>"),
        ("GET", "/absent/k", b"", 404, "NoSuchBucket", "<BucketName>absent</BucketName>"),
        ("PUT", "/absent/k", b"", 404, "NoSuchBucket", ""),
        ("PUT", "/AB", b"", 400, "InvalidBucketName", ""),
        ("PUT", "/records/%ff", b"", 400, "InvalidURI", ""),
        ("PUT", "/records/k", &too_large, 400, "EntityTooLarge", ""),
        ("PUT", "/records?notification", b"{}", 400, "MalformedXML", ""),
        ("PUT", "/records?notification", topic, 400, "MalformedXML", "TopicConfiguration"),
        ("PUT", "/records?notification", no_event, 400, "MalformedXML", "Event"),
        ("GET", "/records?list-type=2&max-keys=x", b"", 400, "InvalidArgument", "<ArgumentValue>x"),
        ("GET", "/records?list-type=2&delimiter=/", b"", 501, "NotImplemented", ""),
        ("POST", "/records/k?uploads", b"", 501, "NotImplemented", "uploads"),
        ("GET", "/", b"", 501, "NotImplemented", ""),
    ] {
        let answer = s3(&cloud, method, path, body);
        let text = answer.text();
        assert_eq!(answer.status, status, "{method} {path}: {text}");
        assert!(text.starts_with("<?xml "), "{method} {path}: {text}");
        assert!(text.contains(&format!("<Error><Code>{code}</Code>")), "{method} {path}: {text}");
        assert!(text.contains(detail), "{method} {path}: {text}");
        let request_id = answer.header("x-amz-request-id").unwrap();
        assert!(text.contains(&format!("<RequestId>{request_id}</RequestId>")), "{text}");
    }
}

#[test]
fn a_request_that_expects_another_owner_of_the_bucket_is_denied() {
    let cloud = Cloud::start();
    assert_eq!(s3(&cloud, "PUT", "/records", b"").status, 200);
    assert_eq!(s3(&cloud, "PUT", "/records/k", b"text").status, 200);
    for (owner, status) in [("000000000000", 200), ("111111111111", 403)] {
        let owner = ("x-amz-expected-bucket-owner", owner);
        let got = cloud.raw("GET", "/records/k", &[SIGNED_FOR_S3, owner], b"");
        assert_eq!(got.status, status, "{}", got.text());
        assert_eq!(got.text().contains("<Code>AccessDenied</Code>"), status == 403);
    }
}

#[test]
fn a_list_continues_where_the_last_one_ended() {
    let cloud = Cloud::start();
    assert_eq!(s3(&cloud, "PUT", "/records", b"").status, 200);
    for n in 1..=3 {
        assert_eq!(s3(&cloud, "PUT", &format!("/records/a%20{n}"), b"").status, 200);
    }
    let list = |more: &str| {
        let path = format!("/records?list-type=2&max-keys=2&encoding-type=url{more}");
        s3(&cloud, "GET", &path, b"").text().to_owned()
    };
    let first = list("");
    assert!(first.contains("<Key>a+1</Key>") && first.contains("<Key>a+2</Key>"), "{first}");
    assert!(first.contains("<IsTruncated>true</IsTruncated>"), "{first}");
    let (_, token) = first.split_once("<NextContinuationToken>").unwrap();
    let (token, _) = token.split_once('<').unwrap();
    let second = list(&format!("&continuation-token={token}"));
    assert!(second.contains("<KeyCount>1</KeyCount>"), "{second}");
    assert!(second.contains("<Key>a+3</Key>"), "{second}");
    assert!(second.contains("<IsTruncated>false</IsTruncated>"), "{second}");
}

#[test]
fn an_object_in_chunks_is_kept_without_them() {
    let cloud = Cloud::start();
    assert_eq!(s3(&cloud, "PUT", "/records", b"").status, 200);
    let chunked = ("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER");
    for (body, status) in
        [(&b"3\r\nabc\r\n0\r\nx-amz-checksum-crc32:x\r\n\r\n"[..], 200), (b"3\r\nab", 400)]
    {
        let answer = cloud.raw("PUT", "/records/k", &[SIGNED_FOR_S3, chunked], body);
        assert_eq!(answer.status, status, "{}", answer.text());
    }
    assert_eq!(s3(&cloud, "GET", "/records/k", b"").text(), "abc");
}

/// The largest event of an asynchronous invocation, which with its record around it fits into no message.
const EVENT_BYTES_MAX: usize = 1_048_576;

#[test]
fn the_largest_event_that_fails_is_whole_in_a_bucket_which_tells_its_queue_where() {
    let cloud = Cloud::start();
    bucket(&cloud, "aws/lambda/async/");
    let f = cloud.function("f", json!({}));
    let config = json!({
        "MaximumRetryAttempts": 0,
        "DestinationConfig": { "OnFailure": { "Destination": "arn:aws:s3:::records" } },
    });
    let set = cloud.ask("PUT", "/2019-09-25/functions/f/event-invoke-config", &config);
    assert_eq!(set.status, 200, "{}", set.text());
    assert_eq!(
        set.json()["DestinationConfig"]["OnFailure"],
        config["DestinationConfig"]["OnFailure"]
    );
    let mut event = json!({ "do": "raise", "pad": "" });
    event["pad"] = "x".repeat(EVENT_BYTES_MAX - event.to_string().len()).into();
    assert_eq!(event.to_string().len(), EVENT_BYTES_MAX);
    let request_id = f.send(&event);

    let notice = received(&cloud);
    let told = &notice["Records"][0]["s3"]["object"];
    let key = told["key"].as_str().unwrap();
    assert!(key.starts_with("aws/lambda/async/f/"), "{key}");
    let got = s3(&cloud, "GET", &format!("/records/{key}"), b"");
    assert_eq!(got.status, 200, "{}", got.text());
    assert_eq!(told["size"], got.body.len());
    let record = got.json();
    assert_eq!(record["requestContext"]["requestId"], request_id);
    assert_eq!(record["requestPayload"], event);
    assert_eq!(record["responsePayload"]["errorMessage"], "no luck");
    cloud.journal_until(|event| event["type"] == "DestinationSent");
}
