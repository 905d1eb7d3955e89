//! Bad messages on the queue, and bad settings.

use std::{collections::BTreeMap, process::Command};

use crate::{
    cloud::binary,
    retry_loop::{Plan, TARGET},
};

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

#[tokio::test]
async fn a_message_from_a_functions_own_dead_letter_queue_is_retried() {
    let retry_loop = Plan::quick(&[("DLQ_TARGET", TARGET)]).deploy().await;
    let event = r#"{ "id": "bare", "fail": {"attempts": 1} }"#;
    retry_loop.send(event, &[("RequestID", "first-id"), ("ErrorMessage", "boom")]).await;
    let run = retry_loop.cloud.journal().run(TARGET).await;
    assert_eq!(run.ending, "Succeeded");
    assert!(
        run.payload
            .ends_with(&format!(r#""request_id":"first-id"}},"_original_payload":{event}}}"#)),
        "{}",
        run.payload
    );
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
