//! Events that are given up, each with its reason.

use aws_sdk_lambda::types::RecursiveLoop;

use crate::retry_loop::{Plan, TARGET, TARGET_ARN};

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
