//! `comeback status` and `comeback trace` as an operator runs them, against the local cloud.
#![cfg(feature = "operate")]
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use aws_sdk_lambda::{operation::RequestId, primitives::Blob, types::InvocationType};
use serde_json::{Value, json};
use support::{Cloud, TARGET, text};

/// Events fail twice, two seconds after each other, and are then given up.
const QUICK: [&str; 6] =
    ["--set", "BASE_BACKOFF=1s", "--set", "MAX_BACKOFF=1s", "--set", "MAX_ATTEMPTS=1"];

fn json_of(cloud: &Cloud, arguments: &[&str]) -> Value {
    let output = cloud.command(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Invokes the target asynchronously, and returns the request id that its sender gets.
async fn invoke(cloud: &Cloud, payload: &str) -> String {
    let call = cloud.client.lambda.invoke().function_name("example-target");
    let call = call.invocation_type(InvocationType::Event).payload(Blob::new(payload));
    call.send().await.unwrap().request_id().unwrap().to_owned()
}

#[tokio::test]
async fn the_life_of_an_event_is_told_by_the_id_that_its_sender_got() {
    let cloud = Cloud::start(&QUICK);
    let id = invoke(&cloud, r#"{"id":"secret","fail":{"error":"app.Down"}}"#).await;
    while cloud.letters().await[0] < 1 {}
    let life = loop {
        let life = json_of(&cloud, &["trace", &id, "--json"]);
        if life["next"]["state"] == "given_up" {
            break life;
        }
    };
    assert_eq!((&life["event_id"], &life["function"]), (&json!(id), &json!(TARGET)));
    let steps: Vec<_> = life["steps"].as_array().unwrap().iter().collect();
    let whats: Vec<_> = steps.iter().map(|step| step["what"].as_str().unwrap()).collect();
    assert_eq!(whats, ["failed", "waits", "retried", "failed", "given_up"]);
    assert_eq!((&steps[0]["error_type"], &steps[0]["attempt"]), (&json!("app.Down"), &json!(1)));
    assert_eq!(life["next"], json!({ "state": "given_up", "reason": "max_attempts_exceeded" }));

    // By the id of its retry it is the same event.
    let retry = steps[3]["request_id"].as_str().unwrap();
    assert_eq!(json_of(&cloud, &["trace", retry, "--json"]), life);
    let told = cloud.command(&["trace", &id[..13]]).output().unwrap();
    let told = text(&told.stdout);
    assert!(told.starts_with(&format!("event {id} of example-target\n")), "{told}");
    assert!(told.contains("now: given up: max_attempts_exceeded"), "{told}");
    assert!(!told.contains("secret"), "no payload: {told}");

    let unknown = cloud.command(&["trace", "00000000-unknown"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text(&unknown.stderr).contains("expected lines about 00000000-unknown"), "{unknown:?}");
}

#[tokio::test]
async fn the_status_counts_runs_waiting_events_and_dead_letters() {
    let cloud = Cloud::start(&QUICK);
    let before = json_of(&cloud, &["status", "--json"]);
    assert_eq!(before["handler"], "retry-handler");
    let [target] = before["functions"].as_array().unwrap().as_slice() else { panic!("{before}") };
    assert_eq!((&target["function"], &target["state"]), (&json!(TARGET), &json!("well")));

    invoke(&cloud, r#"{"id":"1","fail":{}}"#).await;
    invoke(&cloud, r#"{"id":"2"}"#).await;
    // The handler writes its metrics after everything else.
    let target = loop {
        let mut status = json_of(&cloud, &["status", "--json", "example-*"]);
        let target = status["functions"][0].take();
        if target["dead_letters"] != json!({}) {
            break target;
        }
    };
    assert_eq!(target["hour"], json!({ "invocations": 3, "errors": 2 }));
    assert_eq!((&target["retried"], &target["state"]), (&json!(1), &json!("some_fail")));
    assert_eq!(target["dead_letters"], json!({ "max_attempts_exceeded": 1 }));
    assert!(target["oldest_seconds"].as_f64().unwrap() > 0.0, "{target}");
    let told = cloud.command(&["status"]).output().unwrap();
    assert!(text(&told.stdout).contains("1 max_attempts_exceeded"), "{told:?}");

    let none = cloud.command(&["status", "orders"]).output().unwrap();
    assert_eq!(none.status.code(), Some(1));
    assert!(text(&none.stderr).contains("expected functions that send their failures"), "{none:?}");
    let refused = cloud.command(&["status", "--every", "1m"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}
