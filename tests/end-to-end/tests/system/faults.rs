//! Bad messages on the queue, bad settings, and faults of the handler itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
    time::Duration,
};

use serde_json::Value;

use crate::{
    cloud::binary,
    retry_loop::{HANDLER, Plan, RetryLoop, TARGET},
    servers::Proxy,
};

pub const EVENTS: usize = 6;

/// A loop whose handler hangs in its first batch, because Lambda doesn't answer.
pub async fn stuck_in_a_batch(mut plan: Plan) -> (RetryLoop, Proxy) {
    let mut proxy = Proxy::hanging().await;
    plan.settings.push(("AWS_ENDPOINT_URL_LAMBDA", proxy.endpoint.clone()));
    let retry_loop = plan.deploy().await;
    for n in 0..EVENTS {
        retry_loop.invoke(&format!(r#"{{"id":{n},"fail":{{"attempts":1}}}}"#)).await;
    }
    proxy.asked().await;
    (retry_loop, proxy)
}

async fn stuck_for_three_seconds() -> (RetryLoop, Proxy) {
    stuck_in_a_batch(Plan { handler_timeout: Duration::from_secs(3), ..Plan::quick(&[]) }).await
}

/// Expects every event to succeed and the queues to be empty.
pub async fn all_come_back(retry_loop: &RetryLoop) {
    let mut journal = retry_loop.cloud.journal();
    let mut succeeded = BTreeSet::new();
    while succeeded.len() < EVENTS {
        let run = journal.run(TARGET).await;
        if run.ending == "Succeeded" {
            let payload: Value = serde_json::from_str(&run.payload).unwrap();
            succeeded.insert(payload["_original_payload"]["id"].as_u64().unwrap());
        }
    }
    assert_eq!(retry_loop.settled(&mut retry_loop.cloud.journal()).await, (0, 0));
}

#[tokio::test]
async fn an_invocation_has_the_trace_of_its_own_message_only() {
    let mut proxy = Proxy::hanging().await;
    let endpoint = ("AWS_ENDPOINT_URL_LAMBDA", proxy.endpoint.as_str());
    let retry_loop = Plan::quick(&[("DLQ_TARGET", TARGET), endpoint]).deploy().await;
    // This message was not sent by a function, so it has no trace header. The handler's own run has one.
    retry_loop.send("{}", &[("RequestID", "first-id")]).await;
    proxy.asked().await;
    let asked = proxy.requests().to_lowercase();
    assert!(
        asked.starts_with("post /2015-03-31/functions/") && asked.contains("\r\n\r\n"),
        "{asked}"
    );
    assert!(!asked.contains("x-amzn-trace-id"), "{asked}");
}

#[tokio::test]
async fn the_handler_answers_before_its_time_out_although_no_endpoint_answers() {
    let (retry_loop, proxy) = stuck_for_three_seconds().await;
    let mut journal = retry_loop.cloud.journal();
    journal.log(HANDLER, "the time is up", |line| line["level"] == "WARN").await;
    assert_eq!(journal.run(HANDLER).await.ending, "Succeeded");
    proxy.release(&retry_loop.cloud.endpoint);
    all_come_back(&retry_loop).await;
}

#[tokio::test]
async fn nothing_is_lost_when_the_handler_runs_out_of_time() {
    let (retry_loop, proxy) = stuck_for_three_seconds().await;
    for handler in retry_loop.handlers() {
        rustix::process::kill_process(handler, rustix::process::Signal::STOP).unwrap();
    }
    proxy.release(&retry_loop.cloud.endpoint);
    let mut journal = retry_loop.cloud.journal();
    while journal.run(HANDLER).await.ending != "TimedOut" {}
    all_come_back(&retry_loop).await;
}

#[tokio::test]
async fn an_unreadable_message_is_dead_lettered_unchanged_and_the_rest_of_its_batch_is_retried() {
    let retry_loop = Plan::quick(&[]).deploy().await;
    let huge = format!("no JSON {}", "x".repeat(1_048_000));
    let wrong = r#"{"requestContext":{"functionArn":["orders"]},"requestPayload":{}}"#;
    let foreign = r#"{"timestamp":"2019-11-14T18:16:05.568Z","requestContext":{"requestId":"r","functionArn":"arn:aws:lambda:us-east-1:999999999999:function:orders:$LATEST","condition":"RetriesExhausted"},"requestPayload":{"a":1.0}}"#;
    let without_payload =
        foreign.replace("999999999999", "000000000000").replace("requestPayload", "payload");
    let foreign_payload = r#"{"a":1.0}"#;
    let endless = foreign.replace("orders", &"n".repeat(70_000));
    let table = [
        ("no JSON", "no JSON", "unreadable"),
        ("[]", "[]", "unreadable"),
        (r#""{}""#, r#""{}""#, "unreadable"),
        (wrong, wrong, "unreadable"),
        (&huge, &huge, "unreadable"),
        (&endless, &endless, "unreadable"),
        (foreign, foreign_payload, "target_not_allowed"),
        (&without_payload, &without_payload, "payload_missing"),
    ];
    retry_loop.invoke(r#"{"id":"neighbour","fail":{"attempts":1}}"#).await;
    for (body, _, _) in table {
        retry_loop.send(body, &[]).await;
    }
    let mut expected: BTreeMap<&str, &str> =
        table.iter().map(|&(_, body, reason)| (body, reason)).collect();
    while !expected.is_empty() {
        let letter = retry_loop.dead_letter().await;
        let reason = expected.remove(letter.body.as_str());
        assert_eq!(reason, Some(letter.reason()), "{:.80}", letter.body);
    }
    let mut journal = retry_loop.cloud.journal();
    assert_eq!(journal.run(TARGET).await.ending, "Failed");
    assert_eq!(journal.run(TARGET).await.ending, "Succeeded");
}

#[test]
fn the_start_fails_with_one_message_for_all_bad_settings_and_warns_of_misspelt_ones() {
    let started = Command::new(binary("retry-handler"))
        .env_clear()
        .envs([
            ("MAX_AGE", "soon"),
            ("JITTER", "some"),
            ("BASE_BACKOFF", "13h"),
            ("MAX_ATTEMPT", "3"),
        ])
        .output()
        .unwrap();
    assert_eq!(started.status.code(), Some(1));
    let said = String::from_utf8(started.stdout).unwrap();
    let [warning, error] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    assert!(warning.contains("WARN") && warning.contains("did you mean MAX_ATTEMPTS?"), "{said}");
    for name in ["DEAD_LETTER_QUEUE_URL", "MAX_AGE", "JITTER", "BASE_BACKOFF"] {
        assert!(error.contains(name), "{name} is not named in {error}");
    }
}
