//! The ledger's requests to DynamoDB, and how it interprets the answers.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use aws_config::{retry::RetryConfig, timeout::TimeoutConfig};
use aws_smithy_runtime_api::client::{
    http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn},
    orchestrator::{HttpRequest, HttpResponse},
};
use aws_smithy_types::body::SdkBody;
use comeback_core::{
    Attempt,
    claim::{Claim, State, Token},
    register::Waiting,
};
use comeback_flow::ports::{Ledger, NotReplaced};
use retry_handler::DynamoLedger;
use tokio::time::Instant;

use super::{answering, config, response};

const JSON: &str = "content-type: application/x-amz-json-1.0\r\n";

fn held() -> Claim {
    Claim {
        token: Token { generation: 2, owner: "handler/0".to_owned() },
        state: State::Held { until: "2026-02-01T12:00:40.568Z".parse().unwrap() },
        order: None,
        expires_at: "2026-02-15T12:00:00Z".parse().unwrap(),
    }
}

/// Makes a first write that DynamoDB answers with `answer`.
async fn replace(answer: String, next: Option<&Claim>) -> Result<(), NotReplaced> {
    let (endpoint, _asked) = answering(answer).await;
    let ledger = DynamoLedger::new(&config(&endpoint), "claims".to_owned());
    ledger.replace("failed-request", None, next).await
}

#[tokio::test]
async fn an_item_of_another_program_is_for_a_person_to_mend() {
    let item = r#"{"id":{"S":"failed-request"},"order":{"N":"7"}}"#;
    let body = format!(
        r#"{{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","Item":{item}}}"#
    );
    for next in [Some(held()), None] {
        let result = replace(response(400, JSON, &body), next.as_ref()).await;
        let Err(NotReplaced::Fault(fault)) = result else { panic!("{result:?}") };
        assert!(!fault.passes);
        assert_eq!(
            fault.message,
            r#"table claims: expected an item with the attributes of a claim, got one with {"id", "order"}"#
        );
    }
}

/// A table that throttles every call, or never answers. It counts its calls.
#[derive(Clone, Debug, Default)]
struct Table {
    is_silent: bool,
    calls: Arc<AtomicU32>,
}

impl HttpConnector for Table {
    fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.is_silent {
            return HttpConnectorFuture::new(pending());
        }
        let body = r#"{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException"}"#;
        let status = 400.try_into().unwrap();
        HttpConnectorFuture::ready(Ok(HttpResponse::new(status, SdkBody::from(body))))
    }
}

impl Table {
    fn ledger(&self, attempts: u32, timeouts: TimeoutConfig) -> DynamoLedger {
        let connector = SharedHttpConnector::new(self.clone());
        let aws = config("http://127.0.0.1:1")
            .to_builder()
            .timeout_config(timeouts)
            .retry_config(RetryConfig::standard().with_max_attempts(attempts))
            .http_client(http_client_fn(move |_, _| connector.clone()));
        DynamoLedger::new(&aws.build(), "claims".to_owned())
    }
}

#[tokio::test(start_paused = true)]
#[allow(clippy::disallowed_methods, reason = "the time is paused")]
async fn a_table_that_does_not_answer_is_given_up_sooner_than_other_services_are() {
    let others = TimeoutConfig::builder()
        .operation_attempt_timeout(Duration::from_secs(3))
        .operation_timeout(Duration::from_secs(6))
        .build();
    for (attempts, seconds) in [(1, 1), (9, 3)] {
        let silent = Table { is_silent: true, ..Table::default() };
        let ledger = silent.ledger(attempts, others.clone());
        let start = Instant::now();
        let claimed = ledger.replace("failed-request", None, Some(&held())).await;
        let Err(NotReplaced::Fault(fault)) = claimed else { panic!("{claimed:?}") };
        assert!(fault.passes, "{fault}");
        assert_eq!(start.elapsed().as_secs(), seconds, "{attempts} attempts");
    }
}

#[tokio::test(start_paused = true)]
#[allow(clippy::disallowed_methods, reason = "the time is paused")]
async fn a_throttled_table_delays_a_claim_and_never_an_event_that_only_has_to_be_listed() {
    let throttled = Table::default();
    let ledger = throttled.ledger(3, TimeoutConfig::disabled());
    let due = held().expires_at;
    let waiting = Waiting {
        target: "arn:aws:lambda:us-east-1:123456789012:function:orders:$LATEST",
        queue_url: "https://sqs/retry",
        event_id: "event",
        attempt: Attempt::FIRST,
        due,
        first_failure: due,
        error_type: None,
        error_message: None,
        receipt_handle: None,
    };
    let start = Instant::now();
    let listed = ledger.enter("failed-request", None, &held(), &waiting).await;
    assert!(matches!(listed, Err(NotReplaced::Fault(_))), "{listed:?}");
    assert_eq!((throttled.calls.swap(0, Ordering::Relaxed), start.elapsed()), (1, Duration::ZERO));
    let claimed = ledger.replace("failed-request", None, Some(&held())).await;
    assert!(matches!(claimed, Err(NotReplaced::Fault(_))), "{claimed:?}");
    assert_eq!(throttled.calls.load(Ordering::Relaxed), 3);
}
