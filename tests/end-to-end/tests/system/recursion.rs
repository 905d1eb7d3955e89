//! Lambda's detection of recursive loops, which this design is one of.

use aws_sdk_lambda::types::RecursiveLoop;

use crate::retry_loop::{Plan, TARGET};

#[tokio::test]
async fn where_it_is_allowed_an_event_comes_back_more_than_sixteen_times() {
    let retry_loop = Plan::quick(&[]).deploy().await;
    retry_loop.invoke(r#"{"fail":{"attempts":18}}"#).await;
    let mut journal = retry_loop.cloud.journal();
    for _ in 0..18 {
        assert_eq!(journal.run(TARGET).await.ending, "Failed");
    }
    assert_eq!(journal.run(TARGET).await.ending, "Succeeded");
}

#[tokio::test]
async fn where_it_is_not_the_event_is_kept_with_a_plain_reason() {
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
