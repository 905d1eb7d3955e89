//! Events that are given up, each with its reason.

use crate::retry_loop::{HANDLER, Plan, TARGET, TARGET_ARN};

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
async fn an_event_is_given_up_after_the_maximum_number_of_attempts() {
    let own = r#"{"orders":{"MAX_ATTEMPTS":2}}"#;
    let retry_loop = Plan::quick(&[("MAX_ATTEMPTS", "9"), ("POLICIES", own)]).deploy().await;
    retry_loop.invoke(r#"[1, 2.50]"#).await;
    let letter = retry_loop.dead_letter().await;
    assert_eq!(
        (letter.reason(), letter.attributes["Attempts"].as_str()),
        ("max_attempts_exceeded", "2")
    );
    assert_eq!(letter.body, "[1, 2.50]");
    let mut journal = retry_loop.cloud.journal();
    for _ in 0..3 {
        assert_eq!(journal.run(TARGET).await.ending, "Failed");
    }
    assert_eq!(retry_loop.settled(&mut journal).await, (0, 0));
}

#[tokio::test]
async fn an_event_with_a_permanent_error_is_given_up_at_once() {
    let retry_loop = Plan::quick(&[("NON_RETRYABLE_ERRORS", "Validation*")]).deploy().await;
    for error in ["PermanentFailure", "app.errors.ValidationError"] {
        retry_loop.invoke(&format!(r#"{{"fail":{{"error":"{error}"}}}}"#)).await;
        let letter = retry_loop.dead_letter().await;
        assert_eq!(
            (letter.reason(), letter.attributes["Attempts"].as_str()),
            ("not_retryable", "0")
        );
        assert_eq!(letter.attributes["ErrorType"], error);
    }
}

#[tokio::test]
async fn a_function_that_is_not_listed_is_never_invoked() {
    let retry_loop = Plan::quick(&[("TARGET_FUNCTIONS", "payments")]).deploy().await;
    retry_loop.invoke(r#"{"fail":{"attempts":1}}"#).await;
    assert_eq!(retry_loop.dead_letter().await.reason(), "target_not_allowed");
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
async fn a_dead_letter_that_cant_be_sent_is_an_error_and_a_metric_and_stays_in_the_retry_queue() {
    let missing = "http://127.0.0.1:1/000000000000/no-such-queue";
    let retry_loop = Plan::quick(&[("DEAD_LETTER_QUEUE_URL", missing)]).deploy().await;
    retry_loop.invoke(r#"{"fail":{"error":"PermanentFailure"}}"#).await;
    let mut journal = retry_loop.cloud.journal();
    let line = journal.log(HANDLER, "an error", |line| line["level"] == "ERROR").await;
    assert_eq!(line["dead_letter_queue_url"], missing);
    assert_eq!(line["reason"], "not_retryable");
    let error = line["error"].as_str().unwrap();
    assert!(error.contains("QueueDoesNotExist"), "{error}");
    let metric = journal.log(HANDLER, "a metric", |line| line["DeadLettersNotSent"] == 1).await;
    assert_eq!(metric["Target"], TARGET);
    assert_eq!(retry_loop.left().await, (1, 0));
}
