//! Events that are retried and succeed.

use std::time::Duration;

use aws_sdk_lambda::error::ProvideErrorMetadata;
use serde_json::{Value, json};

use crate::{
    journal::Journal,
    retry_loop::{Plan, TARGET},
};

/// The attempts of an event in order, up to its success. Attempt 0 is Lambda's own invocation.
async fn attempts_until_success(journal: &mut Journal) -> Vec<u64> {
    let mut attempts = Vec::new();
    loop {
        let run = journal.run(TARGET).await;
        let payload: Value = serde_json::from_str(&run.payload).unwrap();
        attempts.push(payload["_retry_metadata"]["attempt"].as_u64().unwrap_or(0));
        if run.ending == "Succeeded" {
            return attempts;
        }
    }
}

#[tokio::test]
async fn events_that_fail_in_an_outage_succeed_after_it() {
    let retry_loop = Plan::quick(&[]).deploy().await;
    let mut journal = retry_loop.cloud.journal();
    let mut first_ids = Vec::new();
    for n in 0..5 {
        let payload = format!(r#"{{"id":{n},"fail":{{"attempts":3}},"price":10.10}}"#);
        first_ids.push(retry_loop.invoke(&payload).await);
    }
    let mut runs_of = vec![Vec::new(); 5];
    while !runs_of.iter().all(|runs: &Vec<Value>| runs.len() == 4) {
        let run = journal.run(TARGET).await;
        let payload: Value = serde_json::from_str(&run.payload).unwrap();
        let original = payload.get("_original_payload").unwrap_or(&payload);
        assert!(run.payload.contains("10.10"), "a decoded number would be 10.1: {}", run.payload);
        let runs = &mut runs_of[original["id"].as_u64().unwrap() as usize];
        assert_eq!(run.ending, if runs.len() < 3 { "Failed" } else { "Succeeded" });
        runs.push(payload.get("_retry_metadata").cloned().unwrap_or_default());
    }
    for (runs, first_id) in runs_of.iter().zip(&first_ids) {
        assert_eq!(runs[0], Value::Null, "the first invocation is bare");
        for (run, attempt) in runs[1..].iter().zip(1..) {
            assert_eq!((&run["attempt"], &run["request_id"]), (&json!(attempt), &json!(first_id)));
            assert_eq!(run["initial_timestamp"], runs[1]["initial_timestamp"]);
        }
    }
    assert_eq!(retry_loop.settled(&mut retry_loop.cloud.journal()).await, (0, 0));
}

#[tokio::test]
async fn events_are_retried_after_a_crash_and_after_a_time_out() {
    let mut plan = Plan::quick(&[]);
    plan.target.timeout = Duration::from_secs(1);
    let retry_loop = plan.deploy().await;
    for (by, ending) in [("crash", "Crashed"), ("hang", "TimedOut")] {
        let id = retry_loop.invoke(&format!(r#"{{"fail":{{"attempts":2,"by":"{by}"}}}}"#)).await;
        let mut journal = retry_loop.cloud.journal();
        let mut endings = Vec::new();
        while endings.len() < 3 {
            let run = journal.run(TARGET).await;
            if run.request_id == id || run.payload.contains(&id) {
                endings.push(run.ending);
            }
        }
        assert_eq!(endings, [ending, ending, "Succeeded"]);
    }
}

#[tokio::test]
async fn a_pause_of_the_target_is_no_attempt_and_its_events_succeed_after_it() {
    let retry_loop = Plan::quick(&[("MAX_BACKOFF", "2s"), ("MAX_ATTEMPTS", "1")]).deploy().await;
    let pause = retry_loop.cloud.lambda.put_function_concurrency().function_name(TARGET);
    pause.reserved_concurrent_executions(0).send().await.unwrap();
    let refused = retry_loop.cloud.lambda.invoke().function_name(TARGET).send().await.unwrap_err();
    assert_eq!(refused.code(), Some("TooManyRequestsException"));

    retry_loop.invoke(r#"{"id":"paused"}"#).await;
    let mut journal = retry_loop.cloud.journal();
    for _ in 0..2 {
        let line =
            journal.log("retry-handler", "a pause", |line| line["decision"] == "invoke").await;
        assert_eq!(line["attempt"], 1, "{line}");
    }
    retry_loop
        .cloud
        .lambda
        .delete_function_concurrency()
        .function_name(TARGET)
        .send()
        .await
        .unwrap();
    assert_eq!(attempts_until_success(&mut retry_loop.cloud.journal()).await, [1]);
    assert_eq!(retry_loop.settled(&mut retry_loop.cloud.journal()).await, (0, 0));
}

#[tokio::test]
async fn a_payload_of_almost_a_mebibyte_comes_back_unchanged() {
    let retry_loop = Plan::quick(&[]).deploy().await;
    // A failure record and an envelope add less than a kilobyte to a payload.
    let payload = format!(r#"{{"fail":{{"attempts":1}},"filler":"{}"}}"#, "x".repeat(1_047_000));
    retry_loop.invoke(&payload).await;
    let mut journal = retry_loop.cloud.journal();
    assert_eq!(journal.run(TARGET).await.payload, payload);
    let again = journal.run(TARGET).await;
    assert_eq!(again.ending, "Succeeded");
    assert!(again.payload.ends_with(&format!(r#","_original_payload":{payload}}}"#)));
}

#[tokio::test]
async fn with_recursion_allowed_an_event_is_retried_more_than_sixteen_times() {
    let retry_loop = Plan::quick(&[]).deploy().await;
    retry_loop.invoke(r#"{"fail":{"attempts":18}}"#).await;
    let mut journal = retry_loop.cloud.journal();
    for _ in 0..18 {
        assert_eq!(journal.run(TARGET).await.ending, "Failed");
    }
    assert_eq!(journal.run(TARGET).await.ending, "Succeeded");
}
