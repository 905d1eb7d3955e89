//! The example functions of the kit as targets of the retry loop.

use serde_json::{Value, json};

use crate::{
    cloud::{command, example},
    once_per_failure::{TABLE, Tables},
    retry_loop::{HANDLER, Plan, RetryLoop, TARGET},
    servers::Upstream,
};

async fn deploy(program: &str, environment: &[(&str, &str)]) -> RetryLoop {
    let code = command([example(program).display().to_string()]);
    Plan::quick(&[]).with_target(code, environment).deploy().await
}

/// The payments API's answer to a charge.
const CHARGED: &str = "201 Created\ncontent-type: application/json\n\n{\"id\":\"charge-1\"}";

/// Deploys a loop with the example that charges cards, its tables, and a payments API that gives these answers.
async fn deploy_charges(answer: fn(&str, usize) -> &'static str) -> (RetryLoop, Tables, Upstream) {
    let (tables, payments) = (Tables::of_kit().await, Upstream::start(answer).await);
    let environment = [
        ("PAYMENTS_URL", payments.endpoint.as_str()),
        ("CHARGES_TABLE", TABLE),
        ("AWS_ENDPOINT_URL_DYNAMODB", &tables.endpoint),
    ];
    (deploy("charge_card", &environment).await, tables, payments)
}

async fn endings<const N: usize>(retry_loop: &RetryLoop) -> [String; N] {
    retry_loop.cloud.journal().runs(TARGET).await.map(|run| run.ending)
}

const ORDER: &str = r#"{"id":"order-7","address":"1 Main St","cents":1999}"#;

#[tokio::test]
async fn the_function_retries_a_short_fault_and_the_loop_a_longer_one() {
    // The first four calls fail: three in the first run, and one in the second.
    let carrier = Upstream::start(|_, before| match before {
        0..4 => "503 Service Unavailable\nretry-after: 1",
        _ => "201 Created",
    })
    .await;
    let environment =
        [("CARRIER_URL", carrier.endpoint.as_str()), ("AWS_LAMBDA_LOG_FORMAT", "JSON")];
    let retry_loop = deploy("book_carrier", &environment).await;
    let id = retry_loop.invoke(ORDER).await;
    assert_eq!(endings(&retry_loop).await, ["Failed", "Succeeded"]);
    let retried = |line: &Value| line["fields"]["outcome"] == "retrying";
    let line = retry_loop.cloud.journal().log(TARGET, "a retry in the function", retried).await;
    assert_eq!(
        (&line["fields"]["operation"], &line["fields"]["attempt"]),
        (&json!("book"), &json!(1))
    );
    let asked = carrier.asked();
    assert_eq!(asked.len(), 5);
    for request in asked {
        assert_eq!(
            (request.what.as_str(), request.header("idempotency-key")),
            ("POST /bookings", id.as_str())
        );
        assert_eq!(request.body, r#"{"id":"order-7","address":"1 Main St"}"#);
    }
}

#[tokio::test]
async fn the_loop_waits_for_a_retry_hint_that_is_too_long_for_a_function() {
    let carrier = Upstream::start(|_, _| "429 Too Many Requests\nretry-after: 3600").await;
    let retry_loop = deploy("book_carrier", &[("CARRIER_URL", &carrier.endpoint)]).await;
    retry_loop.invoke(ORDER).await;
    let mut journal = retry_loop.cloud.journal();
    let wait = journal.log(HANDLER, "a wait", |line| line["decision"] == "wait").await;
    assert_eq!(
        carrier.times("POST /bookings"),
        1,
        "a wait that doesn't fit into the run is skipped"
    );
    assert!(wait["delay_seconds"].as_f64().unwrap() > 3590.0, "{wait}");
}

#[tokio::test]
async fn an_event_that_the_api_refuses_is_a_dead_letter_at_once() {
    let carrier =
        Upstream::start(|_, _| "422 Unprocessable Content\n\n{\"address\":\"unknown\"}").await;
    let retry_loop = deploy("book_carrier", &[("CARRIER_URL", &carrier.endpoint)]).await;
    retry_loop.invoke(ORDER).await;
    let letter = retry_loop.dead_letter().await;
    assert_eq!((letter.reason(), letter.body.as_str()), ("not_retryable", ORDER));
    assert_eq!(letter.attributes["ErrorType"], "PermanentFailure");
    assert!(letter.attributes["ErrorMessage"].contains("422"), "{letter:?}");
    assert_eq!(carrier.times("POST /bookings"), 1);
}

#[tokio::test]
async fn a_card_is_charged_once_however_often_its_order_comes() {
    let (retry_loop, _tables, payments) = deploy_charges(|what, before| match (what, before) {
        ("POST /charges", _) => CHARGED,
        (_, 0..3) => "500 Internal Server Error",
        _ => "200 OK",
    })
    .await;
    // The first run can't send the receipt, however often it retries.
    retry_loop.invoke(ORDER).await;
    assert_eq!(endings(&retry_loop).await, ["Failed", "Succeeded"]);
    // The client sends the same order again.
    retry_loop.invoke(ORDER).await;
    assert_eq!(endings(&retry_loop).await, ["Failed", "Succeeded", "Succeeded"]);
    assert_eq!(keys_of_charges(&payments), ["order-7"]);
    let receipts = payments.asked().into_iter().filter(|asked| asked.what == "POST /receipts");
    assert_eq!(receipts.map(|asked| asked.body).collect::<Vec<_>>(), [r#"{"id":"charge-1"}"#; 5]);
    // Another order with the same id.
    retry_loop.invoke(&ORDER.replace("1999", "2999")).await;
    let letter = retry_loop.dead_letter().await;
    assert_eq!((letter.reason(), payments.times("POST /charges")), ("not_retryable", 1));
}

#[tokio::test]
async fn a_charge_in_doubt_is_repeated_with_the_same_key() {
    // The same charge runs already, and then the answer is cut off.
    let (retry_loop, _tables, payments) = deploy_charges(|what, before| match (what, before) {
        ("POST /charges", 0) => "409 Conflict",
        ("POST /charges", 1) => "201 Created\ncontent-type: application/json\n\n{\"id\":\"cha",
        ("POST /charges", _) => CHARGED,
        _ => "200 OK",
    })
    .await;
    retry_loop.invoke(ORDER).await;
    assert_eq!(endings(&retry_loop).await, ["Succeeded"]);
    assert_eq!(keys_of_charges(&payments), ["order-7"; 3]);
    assert_eq!(payments.times("POST /receipts"), 1);
}

/// The idempotency keys of all charges, in order.
fn keys_of_charges(payments: &Upstream) -> Vec<String> {
    let charges = payments.asked().into_iter().filter(|asked| asked.what == "POST /charges");
    charges.map(|charge| charge.header("idempotency-key").to_owned()).collect()
}

#[tokio::test]
async fn bytes_are_counted_once_or_not_at_all() {
    let tables = Tables::of_kit().await;
    let environment = [
        ("USAGE_TABLE", "usage"),
        ("IDEMPOTENCY_TABLE", TABLE),
        ("AWS_ENDPOINT_URL_DYNAMODB", &tables.endpoint),
    ];
    let retry_loop = deploy("count_uploads", &environment).await;
    let mut journal = retry_loop.cloud.journal();
    // The table of sums is missing. So the record that this object was counted must not be written either.
    retry_loop.invoke(&uploaded("cat.png", 300)).await;
    assert_eq!(journal.run(TARGET).await.ending, "Failed");
    tables.create("usage", "bucket").await;
    while journal.run(TARGET).await.ending != "Succeeded" {}
    // S3 repeats the event, and sends one for another object.
    for event in [uploaded("cat.png", 300), uploaded("dog.png", 20)] {
        retry_loop.invoke(&event).await;
        assert_eq!(journal.run(TARGET).await.ending, "Succeeded");
    }
    let sums = tables.items("usage").await;
    assert_eq!(sums.len(), 1);
    assert_eq!(sums[0]["bytes"].as_n().unwrap(), "320");
}

/// S3's event for an upload.
fn uploaded(key: &str, size: u64) -> String {
    let mut record: Value =
        serde_json::from_str(include_str!("../../../kit-bench/upload.json")).unwrap();
    let object = &mut record["s3"]["object"];
    (object["key"], object["size"]) = (json!(key), json!(size));
    object["sequencer"] = json!(format!("0A1B2C{size}"));
    json!({ "Records": [record] }).to_string()
}
