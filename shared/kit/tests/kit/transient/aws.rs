//! Tests errors of the AWS SDK.

use std::time::Duration;

use aws_config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::{
    Client,
    error::{ErrorMetadata, SdkError},
    operation::put_item::PutItemError,
    types::AttributeValue,
};
use comeback::{
    retry::{Policy, Retry, StopReason},
    transient::{Aws, Kind, Rule, Standard, Verdict},
};
use tokio::time::Instant;

use super::{answering, nowhere, response, silent_after, untrusted};

const IN_DOUBT: Verdict = Verdict::retry(Kind::InDoubt);
const UNAVAILABLE: Verdict = Verdict::retry(Kind::Unavailable);

fn client(endpoint: &str) -> Client {
    let timeouts = TimeoutConfig::builder().operation_timeout(Duration::from_secs(9)).build();
    let config = moto::config(endpoint).into_builder().timeout_config(timeouts);
    Client::new(&config.build())
}

async fn put(endpoint: &str) -> SdkError<PutItemError> {
    let id = AttributeValue::S("1".into());
    client(endpoint).put_item().table_name("orders").item("id", id).send().await.unwrap_err()
}

/// The SDK's error for a response with this status and code.
async fn told(status: u16, code: &str) -> SdkError<PutItemError> {
    let body = format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{code}","message":"m"}}"#);
    put(&format!("http://{}", answering(response(status, "", &body)).await)).await
}

/// The transient errors of DynamoDB's model. Each has its own type in the SDK's crate.
const MODELLED: [(u16, &str, Kind); 6] = [
    (400, "ProvisionedThroughputExceededException", Kind::Throttled),
    (400, "ThrottlingException", Kind::Throttled),
    (400, "RequestLimitExceeded", Kind::Throttled),
    (400, "ReplicatedWriteConflictException", Kind::Unavailable),
    (400, "TransactionConflictException", Kind::Unavailable),
    (500, "InternalServerError", Kind::InDoubt),
];

#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "the time is paused")]
async fn the_code_of_a_modelled_error_counts_before_the_status_and_throttling_slows_down() {
    #[derive(Debug, thiserror::Error)]
    #[error("the order is not kept")]
    struct NotKept(#[from] SdkError<PutItemError>);

    for code in ["ConditionalCheckFailedException", "ResourceNotFoundException"] {
        let error = told(400, code).await;
        assert_eq!(Aws.judge(&error), Verdict::Never, "{code}");
        assert_eq!(Standard.judge(&NotKept(error)), Verdict::NoOpinion, "{code}");
    }
    for (status, code, kind) in MODELLED {
        let error = told(status, code).await;
        assert!(!is_unhandled(&error), "{error:?}");
        assert_eq!(Aws.judge(&error), Verdict::retry(kind), "{code}");
        assert_eq!(Standard.judge(&NotKept(error)), Verdict::retry(kind), "{code}");

        let mut errors = Vec::new();
        for _ in 0..5 {
            errors.push(told(status, code).await);
        }
        // All connections are closed, so pausing the clock doesn't make them time out.
        tokio::time::pause();
        let start = Instant::now();
        let retry = Retry::new(Policy::DYNAMODB).adaptive();
        let attempt = || {
            let error = errors.pop().unwrap();
            async { Err::<(), _>(error) }
        };
        let stopped = retry.operation("put").run(attempt).await.unwrap_err();
        assert_eq!((stopped.attempts(), stopped.reason()), (5, StopReason::Attempts), "{code}");
        let slowed_down = start.elapsed() >= Duration::from_secs(8);
        assert_eq!(slowed_down, kind == Kind::Throttled, "{code}: half a call a second");
        tokio::time::resume();
    }
}

/// Whether the service's model has no type for the error's code.
fn is_unhandled(error: &SdkError<PutItemError>) -> bool {
    let cause = error.as_service_error().and_then(std::error::Error::source);
    cause.is_none_or(|cause| cause.is::<ErrorMetadata>())
}

#[tokio::test]
async fn each_failure_without_a_whole_response_has_its_verdict() {
    let whole = response(400, "", r#"{"__type":"ValidationException"}"#);
    let truncated = answering(whole[..whole.len() - 9].to_owned()).await;
    let unbuilt = client("http://127.0.0.1:9").put_item().send().await.unwrap_err();
    assert!(matches!(unbuilt, SdkError::ConstructionFailure(_)), "{unbuilt:?}");
    let certificate = put(&format!("https://{}", untrusted().await)).await;
    assert!(format!("{certificate:?}").contains("InvalidCertificate"), "{certificate:?}");
    for (error, expected) in [
        (put(&format!("http://{}", nowhere())).await, UNAVAILABLE),
        (put("http://no..name").await, UNAVAILABLE),
        (put(&format!("http://{}", answering(String::new()).await)).await, IN_DOUBT),
        (put(&format!("http://{truncated}")).await, IN_DOUBT),
        (certificate, Verdict::Never),
        (unbuilt, Verdict::Never),
    ] {
        assert_eq!(Aws.judge(&error), expected, "{error:?}");
        if matches!(error, SdkError::DispatchFailure(_)) {
            assert_eq!(Standard.judge(&error), expected, "{error:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_that_does_not_arrive_is_a_timeout() {
    let error = put(&format!("http://{}", silent_after("").await)).await;
    assert_eq!(Aws.judge(&error), Verdict::retry(Kind::TimedOut), "{error:?}");
}
