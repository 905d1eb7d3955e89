//! Lambda's detection of recursive loops. The retry loop is one.

use aws_sdk_lambda::types::RecursiveLoop;

use crate::retry_loop::{Plan, TARGET};

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

#[tokio::test]
async fn without_it_the_event_is_dead_lettered_as_recursion_stopped() {
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
