//! Events that are retried, and succeed or are given up.

use std::time::Duration;

use aws_sdk_lambda::types::RecursiveLoop;
use serde_json::{Value, json};

use crate::retry_loop::{Plan, TARGET, TARGET_ARN};

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
async fn an_event_that_always_fails_is_retried_until_its_maximum_age() {
    let retry_loop = Plan::quick(&[("MAX_AGE", "8s")]).deploy().await;
    let payload = r#"{"id": "old", "fail": {"error": "app.Down", "message": "down\u0000"}}"#;
    let first_id = retry_loop.invoke(payload).await;
    let letter = retry_loop.dead_letter().await;
    assert_eq!(letter.reason(), "max_age_exceeded");
    assert_eq!(letter.body, payload);
    assert_eq!(letter.attributes["RequestId"], first_id);
    assert_eq!(letter.attributes["FunctionArn"], TARGET_ARN);
    assert_eq!(letter.attributes["ErrorType"], "app.Down");
    assert_eq!(letter.attributes["ErrorMessage"], "down\u{fffd}");
    let attempts: u32 = letter.attributes["Attempts"].parse().unwrap();
    assert!(attempts >= 2, "{attempts}");
    assert!(letter.attributes["FirstFailureAt"] < letter.attributes["LastFailureAt"]);
    let mut journal = retry_loop.cloud.journal();
    for attempt in 0..=attempts {
        let payload = journal.run(TARGET).await.payload;
        assert_eq!(payload.contains(&format!(r#""attempt":{attempt},"#)), attempt > 0, "{payload}");
    }
}

#[tokio::test]
async fn an_event_of_a_deleted_target_waits_until_its_maximum_age() {
    let retry_loop = Plan::quick(&[("MAX_AGE", "15s")]).deploy().await;
    let mut journal = retry_loop.cloud.journal();
    retry_loop.invoke(r#"{"id":"orphan","fail":{}}"#).await;
    journal.log("retry-handler", "the first wait", |line| line["decision"] == "wait").await;
    retry_loop.cloud.lambda.delete_function().function_name(TARGET).send().await.unwrap();
    let fault = journal
        .log("retry-handler", "a configuration fault", |line| line["level"] == "ERROR")
        .await;
    assert!(fault["error"].as_str().unwrap().starts_with("ResourceNotFoundException"), "{fault}");
    let letter = retry_loop.dead_letter().await;
    assert_eq!(
        (letter.reason(), letter.body.as_str()),
        ("max_age_exceeded", r#"{"id":"orphan","fail":{}}"#)
    );
}

#[tokio::test]
async fn without_allowed_recursion_an_event_is_dead_lettered_as_recursion_stopped() {
    let retry_loop = Plan::quick(&[]).deploy().await;
    let call = retry_loop.cloud.lambda.put_function_recursion_config().function_name(TARGET);
    call.recursive_loop(RecursiveLoop::Terminate).send().await.unwrap();
    let payload = r#"{"fail":{"attempts":18}}"#;
    retry_loop.invoke(payload).await;
    let letter = retry_loop.dead_letter().await;
    assert_eq!((letter.reason(), letter.body.as_str()), ("recursion_stopped", payload));
    let attempts: u32 = letter.attributes["Attempts"].parse().unwrap();
    assert!((14..=17).contains(&attempts), "{attempts}");
}
