//! Through the AWS SDK.

use std::time::Duration;

use aws_config::{BehaviorVersion, Region, retry::RetryConfig, timeout::TimeoutConfig};
use aws_sdk_dynamodb::{
    Client,
    config::{Credentials, SharedCredentialsProvider},
    error::SdkError,
    operation::put_item::PutItemError,
    types::AttributeValue,
};
use comeback::transient::{Aws, Kind, Rule, Standard, Transient, Verdict, Wish};

use crate::server::{answering, nowhere, response, silent_after, untrusted};

const UNAVAILABLE: Verdict = Verdict::retry(Kind::Unavailable);

fn client(endpoint: &str) -> Client {
    let credentials = Credentials::new("key", "secret", None, None, "test");
    let config = aws_config::SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .retry_config(RetryConfig::disabled())
        .timeout_config(TimeoutConfig::builder().operation_timeout(Duration::from_secs(9)).build())
        .endpoint_url(endpoint);
    Client::new(&config.build())
}

async fn put(endpoint: &str) -> SdkError<PutItemError> {
    let id = AttributeValue::S("1".into());
    client(endpoint).put_item().table_name("orders").item("id", id).send().await.unwrap_err()
}

/// What DynamoDB answers with this code.
async fn told(status: u16, headers: &str, code: &str) -> SdkError<PutItemError> {
    let body = format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{code}","message":"m"}}"#);
    put(&format!("http://{}", answering(response(status, headers, &body)).await)).await
}

#[tokio::test]
async fn a_code_counts_before_the_status() {
    let throttled = Verdict::retry(Kind::Throttled);
    for (status, code, expected) in [
        (400, "ProvisionedThroughputExceededException", throttled),
        (400, "ThrottlingException", throttled),
        (400, "RequestLimitExceeded", throttled),
        (400, "TooManyRequestsException", throttled),
        (400, "ReplicatedWriteConflictException", UNAVAILABLE),
        (400, "TransactionConflictException", UNAVAILABLE),
        (500, "InternalServerError", UNAVAILABLE),
        (400, "ValidationException", Verdict::Never),
        (400, "ResourceNotFoundException", Verdict::Never),
        (400, "ConditionalCheckFailedException", Verdict::Never),
        (403, "AccessDeniedException", Verdict::Never),
    ] {
        let error = told(status, "", code).await;
        assert!(matches!(error, SdkError::ServiceError(_)), "{error:?}");
        assert_eq!(Aws.judge(&error), expected, "{code}");
    }
}

#[tokio::test]
async fn when_the_service_wants_to_be_asked_again_is_kept() {
    let error = told(400, "x-amz-retry-after: 1500\r\n", "ThrottlingException").await;
    let wish = Wish::In(Duration::from_millis(1500));
    let expected = Transient::new(Kind::Throttled).with_wish(wish);
    assert_eq!(Aws.judge(&error), Verdict::Retry(expected));
}

#[tokio::test]
async fn a_connection_that_fails_is_transient() {
    for endpoint in [nowhere().await, "no..name".to_owned(), answering(String::new()).await] {
        let error = put(&format!("http://{endpoint}")).await;
        assert!(matches!(error, SdkError::DispatchFailure(_)), "{error:?}");
        assert_eq!(Aws.judge(&error), UNAVAILABLE, "{error:?}");
        assert_eq!(Standard.judge(&error), UNAVAILABLE, "{error:?}");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_transient() {
    let whole = response(400, "", r#"{"__type":"ValidationException"}"#);
    let server = answering(whole[..whole.len() - 9].to_owned()).await;
    let error = put(&format!("http://{server}")).await;
    assert_eq!(Aws.judge(&error), UNAVAILABLE, "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_come_in_time_is_a_time_out() {
    let error = put(&format!("http://{}", silent_after("").await)).await;
    assert_eq!(Aws.judge(&error), Verdict::retry(Kind::TimedOut), "{error:?}");
}

#[tokio::test]
async fn a_certificate_that_is_refused_is_never_accepted_later() {
    let error = put(&format!("https://{}", untrusted().await)).await;
    let text = format!("{error:?}");
    assert!(text.contains("InvalidCertificate"), "{text}");
    assert_eq!(Aws.judge(&error), Verdict::Never, "{text}");
    assert_eq!(Standard.judge(&error), Verdict::Never, "{text}");
}

#[tokio::test]
async fn a_request_that_can_not_be_built_is_never_built_later() {
    let error = client("http://127.0.0.1:9").put_item().send().await.unwrap_err();
    assert!(matches!(error, SdkError::ConstructionFailure(_)), "{error:?}");
    assert_eq!(Aws.judge(&error), Verdict::Never);
}
