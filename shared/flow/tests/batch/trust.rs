//! Batches with messages that speak for a function that their queue does not belong to.

use aws_lambda_events::event::sqs::SqsMessage;
use comeback_core::claim::{Claim, State, Token};
use comeback_flow::{metrics, ports::Clock, report::Report};
use serde_json::Value;

use crate::world::{World, due, failed, handle, key_of, outcomes, start};

/// The same message, about another function.
fn about(function: &str, mut message: SqsMessage) -> SqsMessage {
    let body = message.body.take().unwrap_or_default();
    message.body = Some(body.replace("123456789012:function:orders", function));
    message
}

const OF_ANOTHER_ACCOUNT: &str = "999999999999:function:victim";

/// The dimensions of all metrics, and whether one of them is an age.
fn targets(report: &Report, world: &World) -> Vec<(String, bool)> {
    let lines = metrics::lines(report, world.now());
    let told = |line: &String| {
        let line: Value = serde_json::from_str(line).unwrap_or_default();
        (line["Target"].as_str().unwrap_or_default().to_owned(), line.get("EventAge").is_some())
    };
    lines.iter().map(told).collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_counts_for_no_function() {
    let world = World::with_probes("", &[]);
    let retried = |nth: usize| {
        let mut forged = about(OF_ANOTHER_ACCOUNT, failed(&nth.to_string(), 60));
        let envelope = r#"{"_retry_metadata":{"attempt":1,"initial_timestamp":5,"request_id":"e"},"_original_payload":1}"#;
        let payload = format!("\"payload of {nth}\"");
        forged.body = forged.body.map(|body| body.replace(&payload, envelope));
        forged.attributes.insert("ApproximateReceiveCount".to_owned(), "1".to_owned());
        forged
    };
    let mut without_payload = retried(5);
    without_payload.body =
        without_payload.body.map(|body| body.replace("requestPayload", "requestpayload"));
    for nth in 0..4 {
        let batch = vec![retried(0), retried(1), without_payload.clone(), retried(3)];
        let report = handle(&world, batch).await;
        let refused = "target_not_allowed";
        assert_eq!(outcomes(&report), [refused, refused, "payload_missing", refused], "{nth}");
        assert!(targets(&report, &world).iter().all(|it| *it == ("unknown".to_owned(), false)));
    }
    assert!(world.look_ups.borrow().is_empty() && world.ledger_calls.borrow().is_empty());
    assert!(world.turns.borrow().is_empty() && world.circuits.borrow().len() <= 1);
}

#[tokio::test(start_paused = true)]
async fn another_functions_record_with_the_same_request_id_claims_nothing() {
    let world = World::with_register(&[]);
    let forged = || about("123456789012:function:neighbour", due("a"));
    assert_eq!(outcomes(&handle(&world, vec![forged()]).await), ["invoked"]);
    assert_eq!(outcomes(&handle(&world, vec![due("a")]).await), ["invoked"]);
    assert_eq!(outcomes(&handle(&world, vec![forged(), due("a")]).await), ["duplicate"; 2]);
    let waits = about("123456789012:function:neighbour", failed("b", 0));
    handle(&world, vec![failed("b", 0)]).await;
    handle(&world, vec![waits]).await;
    assert_eq!(world.waits.borrow().len(), 2, "neither takes the other's place");
}

/// Until this version, the key of a claim was the request id alone. UPGRADE.md says what follows.
#[tokio::test(start_paused = true)]
async fn a_claim_of_an_older_version_does_not_count_and_stays_as_it_is() {
    let world = World::with_register(&[]);
    let token = Token { generation: 1, owner: "older".to_owned() };
    let expires_at = start() + std::time::Duration::from_hours(24);
    let older = Claim { token, state: State::Done, order: None, expires_at };
    world.claims().insert("request of a".to_owned(), older.clone());
    assert_eq!(outcomes(&handle(&world, vec![due("a")]).await), ["invoked"]);
    assert_eq!(outcomes(&handle(&world, vec![due("a")]).await), ["duplicate"]);
    let claims = world.claims();
    assert_eq!(claims.get("request of a"), Some(&older));
    assert_eq!(claims.get(&key_of("a")).map(|claim| claim.state), Some(State::Done));
}
