//! Tests functions under the layer, with events that are deserialized as the Lambda runtime does it.

use std::{convert::Infallible, time::Duration};

use comeback::{
    Failure, Received, Retried, Unwrap,
    idempotency::{Error, Idempotency, Memory, Request},
    idempotency_key,
    retry::{Deadline, Policy, Retry},
    testing,
};
use futures_util::future::join_all;
use lambda_runtime::{
    Context, LambdaEvent, service_fn,
    tower::{Layer, ServiceBuilder, ServiceExt},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::json;
use tokio::sync::Barrier;

const RETRIED: &str = r#"{"_retry_metadata":{"attempt":2,"initial_timestamp":1643667670,"request_id":"first","by":"x"},
    "_original_payload":{"id": 7}}"#;

#[derive(Debug, Deserialize)]
struct Order {
    id: u64,
}

fn context() -> Context {
    let mut context = Context::default();
    "second".clone_into(&mut context.request_id);
    context
}

/// Deserializes an event as the Lambda runtime does.
fn event<T: DeserializeOwned>(body: &str, context: Context) -> LambdaEvent<T> {
    let mut json = serde_json::Deserializer::from_slice(body.as_bytes());
    LambdaEvent::new(serde_path_to_error::deserialize(&mut json).unwrap(), context)
}

/// A function that does not handle envelopes, but reads the retry metadata from its context.
async fn tell(event: LambdaEvent<Order>) -> Result<String, Failure> {
    let (Order { id }, context) = event.into_parts();
    let key = idempotency_key(&context);
    Ok(match Retried::of(&context) {
        None => format!("order {id}, key {key}"),
        Some(retried) => {
            let first_failure = retried.first_failure().timestamp();
            format!("order {id}, key {key}, attempt {}, since {first_failure}", retried.attempt())
        }
    })
}

#[tokio::test]
async fn a_function_gets_its_payload_and_can_ask_for_the_retry_metadata() {
    let noted = r#"{"attempt":3,"initial_timestamp":5,"request_id":"earlier"}"#;
    let (bare, other_order) = (
        r#"{"id":7}"#,
        r#"{"_original_payload":{"id":8},"_retry_metadata":{"attempt":1,"initial_timestamp":5}}"#,
    );
    for (body, in_context, told) in [
        (bare, None, "order 7, key second"),
        (RETRIED, None, "order 7, key first, attempt 2, since 1643667670"),
        (other_order, None, "order 8, key second, attempt 1, since 5"),
        (bare, Some(noted), "order 7, key earlier, attempt 3, since 5"),
        (bare, Some(r#"{"attempt":0,"initial_timestamp":5}"#), "order 7, key second"),
        (bare, Some("no JSON"), "order 7, key second"),
    ] {
        let mut context = context();
        context.client_context = in_context
            .map(|facts| serde_json::from_value(json!({"custom": {"comeback": facts}})).unwrap());
        let service = ServiceBuilder::new().layer(Unwrap::new()).service(service_fn(tell));
        assert_eq!(service.oneshot(event(body, context)).await.unwrap(), told);
    }
}

#[tokio::test]
async fn the_client_context_is_kept() {
    async fn custom(event: LambdaEvent<Order>) -> Result<serde_json::Value, Infallible> {
        Ok(json!(event.context.client_context))
    }
    let there = json!({
        "client": {
            "installationId": "i", "appTitle": "shop", "appVersionName": "1", "appVersionCode": "1",
            "appPackageName": "com.example",
        },
        "custom": { "tenant": "42" },
        "environment": { "locale": "de" },
    });
    let mut context = context();
    context.client_context = serde_json::from_value(there.clone()).unwrap();

    let service = ServiceBuilder::new().layer(Unwrap::new()).service(service_fn(custom));
    let bare = service.clone().oneshot(event(r#"{"id":7}"#, context.clone())).await.unwrap();
    assert_eq!(bare, there);

    let mut retried = service.oneshot(event(RETRIED, context)).await.unwrap();
    let facts = retried["custom"].as_object_mut().unwrap().remove("comeback").unwrap();
    assert_eq!(
        facts,
        r#"{"attempt":2,"initial_timestamp":1643667670,"request_id":"first","by":"x"}"#
    );
    assert_eq!(retried, there);
}

#[tokio::test]
async fn an_unreadable_payload_is_given_up_at_once_unless_the_layer_retries_it() {
    let service = |layer: Unwrap| ServiceBuilder::new().layer(layer).service(service_fn(tell));
    let enveloped = RETRIED.replace(r#"{"id": 7}"#, r#"{"id": "seven"}"#);
    for (body, why) in [
        (
            r#"{"id":"seven"}"#,
            r#"id: invalid type: string "seven", expected u64 at line 1 column 13"#,
        ),
        (&enveloped, r#"id: invalid type: string "seven", expected u64 at line 1 column 14"#),
        ("{}", "missing field `id` at line 1 column 2"),
        ("7", "invalid type: integer `7`, expected struct Order at line 1 column 1"),
    ] {
        for (layer, error_type) in [
            (Unwrap::new(), "PermanentFailure"),
            (Unwrap::new().retry_unreadable(), "UnreadablePayload"),
        ] {
            let failure = service(layer).oneshot(event(body, context())).await.unwrap_err();
            assert_eq!(failure.error_type(), error_type);
            assert!(failure.message().starts_with("the payload can't be read: "), "{failure}");
            assert!(failure.message().contains(why), "{failure}");
        }
    }
}

#[test]
fn the_readme_names_the_feature_that_its_first_example_needs() {
    let manifest = include_str!("../../Cargo.toml").split_once("name = \"smallest\"\n").unwrap().1;
    let features = manifest.trim_end().strip_prefix("required-features = ").unwrap();
    let readme =
        include_str!("../../README.md").split_once("[dependencies]\ncomeback = ").unwrap().1;
    let expected = format!("{{ path = \"../comeback/shared/kit\", features = {features} }}\n");
    assert!(readme.starts_with(&expected), "{readme}");
}

/// The invocations of a Managed Instance that run at the same time.
const AT_ONCE: usize = 16;

/// What invocations that run at the same time share.
struct Shared {
    once: Idempotency<Memory>,
    retry: Retry,
    all_run: Barrier,
}

/// Charges an order, and answers with what the invocation knows while all others run.
async fn charge(event: LambdaEvent<Order>, shared: &Shared) -> Result<String, Failure> {
    let LambdaEvent { payload: Order { id }, context } = event;
    let deadline = Deadline::of(&context)?;
    let request = Request::of_event(&id, &context)?;
    let charge = shared.once.run(&request, async |_| {
        let knows = async || {
            shared.all_run.wait().await;
            let attempt = Retried::of(&context).map_or(0, |retried| retried.attempt());
            Ok::<_, Infallible>(format!("{id}: {}, attempt {attempt}", idempotency_key(&context)))
        };
        shared.retry.operation("charge").until(deadline).run(knows).await
    });
    charge.await.map_err(Error::into_failure)
}

#[tokio::test]
async fn invocations_at_the_same_time_share_a_store_and_nothing_else() {
    let shared = Shared {
        once: Idempotency::new("charge", Memory::new()).unwrap(),
        retry: Retry::new(Policy::default()).adaptive(),
        all_run: Barrier::new(AT_ONCE),
    };
    let function = Unwrap::new().layer(service_fn(|event| charge(event, &shared)));
    let invoke = |nth: usize| {
        let metadata =
            format!(r#"{{"attempt":{nth},"initial_timestamp":5,"request_id":"first-{nth}"}}"#);
        let body =
            format!(r#"{{"_retry_metadata":{metadata},"_original_payload":{{"id":{nth}}}}}"#);
        let context = testing::context(Duration::from_mins(10));
        function.clone().oneshot(event::<Received<Order>>(&body, context))
    };
    let expected = |nth| Ok(format!("{nth}: first-{nth}, attempt {nth}"));
    let answers = join_all((1..=AT_ONCE).map(invoke)).await;
    assert_eq!(answers, (1..=AT_ONCE).map(expected).collect::<Vec<_>>());
    // The next attempt of an event gets the answer of its own first charge.
    assert_eq!(invoke(7).await, expected(7));
}
