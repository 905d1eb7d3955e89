//! Samples of every form that AWS publishes, and messages that others have recorded on AWS.
//!
//! Recorded ones have their masked parts (ids, times, addresses) filled in. They come from LocalStack's repository: the
//! test is named below `tests/aws/services`, with the date on which its answers were recorded.

use super::{
    tests::{in_sns, read, read_location},
    *,
};
use crate::testing::{RECORD, message};

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../../fixtures/", $name, ".json"))
    };
}

/// A key of a failure record. S3 writes it in the same way everywhere, because it has no special character.
const KEY: &str = "aws/lambda/async/my-function/2019/11/14/2019-11-14T18.16.05-ac1e49f4";

/// A notice that an object was created: its source, its body, and the bucket, the key and the version that it names.
type Created = (&'static str, &'static str, &'static str, &'static str, Option<&'static str>);

const CREATED: [Created; 6] = [
    (
        "Amazon S3 User Guide, \"Event message structure\", version 2.1",
        fixture!("samples/s3_put_with_version"),
        "mybucket",
        "HappyFace.jpg",
        Some("096fKKXTRTtl3on89fVO.nfljtsv6qko"),
    ),
    (
        "aws-sam-cli 1.170.0, `sam local generate-event s3 put`",
        fixture!("samples/s3_put_of_sam_cli"),
        "example-bucket",
        "test%2Fkey",
        None,
    ),
    (
        "s3/test_s3_notifications_sqs.py test_object_created_complete_multipart_upload, 2025-01-21",
        fixture!("samples/s3_multipart_recorded"),
        "recorded-bucket",
        "test-key",
        None,
    ),
    (
        "s3/test_s3_notifications_sns.py test_object_created_put, 2025-01-21",
        fixture!("samples/s3_over_sns_recorded"),
        "recorded-bucket",
        "bucket-key",
        None,
    ),
    (
        "Amazon S3 User Guide, \"EventBridge event message structure\", Object created",
        fixture!("samples/eventbridge_object_created"),
        "amzn-s3-demo-bucket1",
        "example-key",
        Some("IYV3p45BT0ac8hjHg1houSdS1a.Mro8e"),
    ),
    (
        "s3/test_s3_notifications_eventbridge.py test_object_created_put, 2025-01-21",
        fixture!("samples/eventbridge_object_created_recorded"),
        "recorded-bucket",
        "recorded-key",
        None,
    ),
];

/// Notices of S3 that are about no new object, and whether it is the test event.
const OTHERS: [(&str, &str, bool); 5] = [
    (
        "Amazon S3 User Guide, test event of a new notification configuration",
        fixture!("s3_test_event"),
        true,
    ),
    (
        "aws-sam-cli 1.170.0, `sam local generate-event s3 delete`",
        fixture!("samples/s3_delete_of_sam_cli"),
        false,
    ),
    (
        "s3/test_s3_notifications_sqs.py test_object_created_put_versioned, 2025-01-21",
        fixture!("samples/s3_delete_marker_recorded"),
        false,
    ),
    (
        "s3/test_s3_notifications_eventbridge.py test_object_created_put, 2025-01-21",
        fixture!("samples/eventbridge_object_deleted_recorded"),
        false,
    ),
    (
        "s3/test_s3_notifications_eventbridge.py test_object_put_acl, 2025-01-21",
        fixture!("samples/eventbridge_object_acl_recorded"),
        false,
    ),
];

const RECORDED_ID: &str = "6f1b2a52-9c1e-4d0a-8a55-0c5c1c1f3b77";

/// Records of invocations: the source, the body, and the request id, the condition and the error type of the failure.
type Record = (&'static str, &'static str, Said);
type Said = (&'static str, Condition, Option<&'static str>);

const RECORDS: [Record; 5] = [
    (
        "AWS Lambda Developer Guide, \"Capturing records of Lambda asynchronous invocations\"",
        RECORD,
        ("e4b46cbf-b738-xmpl-8880-a18cdf61200e", Condition::Failed, None),
    ),
    (
        "lambda_/test_lambda_destinations.py test_retries, 2025-11-25",
        fixture!("samples/record_recorded"),
        (RECORDED_ID, Condition::Failed, Some("Exception")),
    ),
    (
        "lambda_/test_lambda_destinations.py test_maxeventage, 2025-11-27",
        fixture!("samples/record_too_old_recorded"),
        (RECORDED_ID, Condition::Failed, Some("Exception")),
    ),
    (
        "lambda_/test_lambda.py test_reserved_concurrency, 2025-11-25",
        fixture!("samples/record_without_concurrency_recorded"),
        (RECORDED_ID, Condition::Paused, None),
    ),
    (
        "lambda_/test_lambda_destinations.py test_invoke_lambda_eventbridge, 2025-11-24",
        fixture!("samples/record_over_eventbridge_recorded"),
        (RECORDED_ID, Condition::Failed, Some("Exception")),
    ),
];

/// Records of successes, which are no failures.
const SUCCESSES: [(&str, &str); 2] = [
    (
        "lambda_/test_lambda_destinations.py test_assess_lambda_destination_invocation, 2025-11-24",
        fixture!("samples/record_of_success_recorded"),
    ),
    (
        "lambda_/test_lambda_destinations.py test_invoke_lambda_eventbridge, 2025-11-24",
        fixture!("samples/success_over_eventbridge_recorded"),
    ),
];

/// Records of batches of streams as a queue or a topic gets them. They lack the payload, which only a bucket gets.
const OF_STREAMS: [(&str, &str); 4] = [
    (
        "AWS Lambda Developer Guide, \"Retain discarded batch records for a Kinesis Data Streams event source\"",
        fixture!("samples/stream_kinesis"),
    ),
    (
        "AWS Lambda Developer Guide, \"Retain discarded records for a DynamoDB event source\"",
        fixture!("samples/stream_dynamodb"),
    ),
    (
        "AWS Lambda Developer Guide, \"Capturing discarded batches for Amazon MSK and self-managed Apache Kafka\"",
        fixture!("samples/stream_kafka"),
    ),
    (
        "lambda_/event_source_mapping/test_lambda_integration_kinesis.py \
         test_kinesis_event_source_mapping_with_sns_on_failure_destination_config, 2025-11-25",
        fixture!("samples/stream_kinesis_recorded"),
    ),
];

#[test]
fn a_record_of_a_streams_batch_names_its_function_and_has_no_payload() {
    for (source, body) in OF_STREAMS {
        for body in [body.to_owned(), in_sns(body)] {
            let failure = read(&message(&body), None).unwrap();
            assert_eq!(failure.condition, Condition::OfBatch, "{source}");
            assert!(failure.event.is_none(), "{source}");
        }
    }
}

#[test]
fn each_notice_of_a_new_object_that_aws_shows_says_where_a_failure_record_lies() {
    for (source, body, bucket, key, version) in CREATED {
        let why = read(&message(body), None).unwrap_err();
        assert_eq!(why, Unreadable::OtherNotice, "no record has such a key: {source}");
        let location = Location::of(bucket, KEY, version).unwrap();
        let record = body.replace(key, KEY);
        assert_eq!(read_location(&message(&record)), location, "{source}");
        if !record.contains("TopicArn") {
            assert_eq!(read_location(&message(&in_sns(&record))), location, "{source}");
        }
    }
}

#[test]
fn other_notices_that_aws_shows_are_no_failures_and_the_test_event_is_told_from_them() {
    for (source, body, is_test) in OTHERS {
        for body in [body.to_owned(), in_sns(body)] {
            let read = super::read(&message(&body), None, &Policies::default());
            let is_as_expected = match &read {
                Ok(Read::NoFailure(NoFailure::Test)) => is_test,
                Err(Unreadable::OtherNotice) => !is_test,
                Ok(_) | Err(_) => false,
            };
            assert!(is_as_expected, "{source}: {read:?}");
        }
    }
}

#[test]
fn each_record_that_aws_shows_is_read_as_it_is_and_in_an_sns_notification() {
    for (source, body, (request_id, condition, error_type)) in RECORDS {
        let expected = (request_id.to_owned(), condition, error_type.map(str::to_owned));
        let read = |body: &str| {
            let failure = read(&message(body), None).unwrap();
            (failure.request_id, failure.condition, failure.error.error_type)
        };
        assert_eq!(read(body), expected, "{source}");
        // A function sends its records to a bus or to a topic.
        if !body.contains("detail-type") {
            assert_eq!(read(&in_sns(body)), expected, "{source}");
        }
    }
}

#[test]
fn a_success_that_aws_shows_is_no_failure() {
    for (source, body) in SUCCESSES {
        // A function sends its records to a bus or to a topic.
        let over_topic = if body.contains("detail-type") { body.to_owned() } else { in_sns(body) };
        for body in [body.to_owned(), over_topic] {
            let read = super::read(&message(&body), None, &Policies::default());
            let is_success = matches!(read, Ok(Read::NoFailure(NoFailure::Success)));
            assert!(is_success, "{source}: {read:?}");
        }
    }
}
