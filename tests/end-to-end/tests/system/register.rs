//! Waiting events are listed, and an operator acts on them with the calls that `docs/design/register.md` documents.

use std::collections::{BTreeSet, HashMap};

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sqs::types::ChangeMessageVisibilityBatchRequestEntry as Change;
use serde_json::Value;

use crate::{
    ledger::{Tables, plan_with_ledger},
    retry_loop::{HANDLER, RetryLoop, TARGET, TARGET_ARN, failure_record},
};

const EVENTS: usize = 500;

type Item = HashMap<String, AttributeValue>;

/// A loop with a register in which events wait for half a day.
async fn waiting_long() -> (Tables, RetryLoop) {
    let tables = Tables::with_register().await;
    let waits = [("BASE_BACKOFF", "11h"), ("MAX_BACKOFF", "11h"), ("JITTER", "none")];
    let settings = [&waits[..], &[("REGISTER", "true")]].concat();
    let retry_loop = plan_with_ledger(&tables.endpoint, &settings).deploy().await;
    (tables, retry_loop)
}

/// Sends the failure records of this many events, and returns their items as soon as all are listed.
async fn fail(tables: &Tables, retry_loop: &RetryLoop, events: usize) -> Vec<Item> {
    let record =
        |event: usize| failure_record(&format!("failed-{event}"), &format!(r#"{{"id":{event}}}"#));
    let mut journal = retry_loop.cloud.journal();
    // moto is slow, and a handler leaves out the items that it has no time to write.
    for from in (0..events).step_by(50) {
        let last = (from + 50).min(events);
        retry_loop.enqueue(&(from..last).map(record).collect::<Vec<_>>()).await;
        while tables.waiting(TARGET_ARN).await.len() < last {
            journal.run(HANDLER).await;
        }
    }
    tables.waiting(TARGET_ARN).await
}

/// Makes the messages of these items visible, as an operator does after an order.
async fn make_visible(retry_loop: &RetryLoop, items: &[Item]) {
    for items in items.chunks(10) {
        let change = |(nth, item): (usize, &Item)| {
            let handle = item["receipt_handle"].as_s().unwrap();
            let change = Change::builder().id(nth.to_string()).receipt_handle(handle);
            change.visibility_timeout(0).build().unwrap()
        };
        let queue = items[0]["queue"].as_s().unwrap();
        let call = retry_loop.cloud.sqs.change_message_visibility_batch().queue_url(queue);
        let changes = items.iter().enumerate().map(change).collect();
        let changed = call.set_entries(Some(changes)).send().await.unwrap();
        assert!(changed.failed().is_empty(), "{changed:?}");
    }
}

#[tokio::test]
async fn events_are_retried_or_given_up_at_once_as_an_operator_orders() {
    let (tables, retry_loop) = waiting_long().await;
    let items = fail(&tables, &retry_loop, EVENTS).await;
    assert_eq!(items[0]["error_type"].as_s().unwrap(), "Down");
    assert_eq!(items[0]["error_message"].as_s().unwrap(), "no route to host");
    assert_eq!(items[0]["attempt"].as_n().unwrap(), "1");
    for (nth, item) in items.iter().enumerate() {
        assert!(tables.order(item, ["retry", "cancel"][nth % 2]).await);
    }
    make_visible(&retry_loop, &items).await;
    let id = |payload: &Value| payload["id"].as_u64().unwrap();
    let mut journal = retry_loop.cloud.journal();
    let (mut retried, mut cancelled) = (BTreeSet::new(), BTreeSet::new());
    while retried.len() < EVENTS / 2 {
        let run = journal.run(TARGET).await;
        assert_eq!(run.ending, "Succeeded");
        let payload: Value = serde_json::from_str(&run.payload).unwrap();
        assert_eq!(payload["_retry_metadata"]["attempt"], 1);
        retried.insert(id(&payload["_original_payload"]));
    }
    while cancelled.len() < EVENTS / 2 {
        let letter = retry_loop.dead_letter().await;
        assert_eq!((letter.reason(), &*letter.attributes["Attempts"]), ("cancelled", "0"));
        cancelled.insert(id(&serde_json::from_str(&letter.body).unwrap()));
    }
    assert!(retried.is_disjoint(&cancelled));
    retry_loop.settled(&mut journal).await;
    assert!(tables.waiting(TARGET_ARN).await.is_empty());
    assert!(!tables.order(&items[0], "cancel").await, "the handler has acted on it");
}

#[tokio::test]
async fn a_paused_function_is_not_invoked_until_it_is_resumed() {
    let (tables, retry_loop) = waiting_long().await;
    let items = fail(&tables, &retry_loop, 2).await;
    tables.pause(TARGET_ARN).await;
    // One is retried nevertheless, on an operator's order.
    assert!(tables.order(&items[0], "retry").await);
    make_visible(&retry_loop, &items).await;
    let mut journal = retry_loop.cloud.journal();
    let run = journal.run(TARGET).await;
    let (_, chosen) = items[0]["id"].as_s().unwrap().rsplit_once("/failed-").unwrap();
    assert!(run.payload.contains(&format!(r#"{{"id":{chosen}}}"#)), "{}", run.payload);
    assert_eq!(tables.waiting(TARGET_ARN).await.len(), 1);
    tables.resume(TARGET_ARN).await;
    let rest = tables.waiting(TARGET_ARN).await;
    assert!(tables.order(&rest[0], "retry").await);
    make_visible(&retry_loop, &rest).await;
    assert_eq!(journal.run(TARGET).await.ending, "Succeeded");
}
