//! Circuits of targets.

use aws_sdk_dynamodb::{Client, types::AttributeValue};
use comeback_core::{Attempt, Timestamp, claim::Claim, register::Waiting, time::at_millis};
use comeback_flow::ports::{Ledger, Listed, NotExchanged, Stored, Wanted};
use moto::{create_register, create_table};
use retry_handler::DynamoLedger;

use super::config;

const TARGET: &str = "arn:aws:lambda:us-east-1:123456789012:function:orders:$LATEST";
const QUEUE: &str = "https://sqs.us-east-1.amazonaws.com/123456789012/retry";

fn stored(version: u64, text: &str) -> Stored {
    Stored { version, text: Some(text.to_owned()) }
}

async fn ledger(table: &str) -> DynamoLedger {
    create_register(&Client::new(&config()), table).await;
    DynamoLedger::new(&config(), table.to_owned())
}

async fn read(ledger: &DynamoLedger) -> Option<Stored> {
    let wanted = Wanted { targets: [TARGET].into(), ..Wanted::default() };
    ledger.look_up(&wanted).await.unwrap().circuits.remove(TARGET)
}

#[tokio::test]
async fn a_circuit_is_replaced_only_in_the_version_that_was_seen() {
    let ledger = ledger("circuits").await;
    assert_eq!(read(&ledger).await, None);
    assert_eq!(ledger.exchange(TARGET, 0, "one").await, Ok(()));
    assert_eq!(read(&ledger).await, Some(stored(1, "one")));
    let changed = |version, text| Err(NotExchanged::Changed(stored(version, text)));
    assert_eq!(ledger.exchange(TARGET, 0, "late").await, changed(1, "one"));
    assert_eq!(ledger.exchange(TARGET, 1, "two").await, Ok(()));
    assert_eq!(ledger.exchange(TARGET, 1, "late").await, changed(2, "two"));
    assert_eq!(
        ledger.exchange("other", 3, "x").await,
        Err(NotExchanged::Changed(Stored::default()))
    );
}

#[tokio::test]
async fn a_pause_and_a_circuit_leave_each_other_alone() {
    let ledger = ledger("paused-circuits").await;
    let client = Client::new(&config());
    let pause = client
        .update_item()
        .table_name("paused-circuits")
        .key("id", AttributeValue::S(format!("target/{TARGET}")))
        .update_expression("SET paused_at = :at")
        .expression_attribute_values(":at", AttributeValue::N("1".to_owned()));
    pause.clone().send().await.unwrap();
    assert_eq!(read(&ledger).await, Some(Stored::default()), "paused, and without a circuit");
    assert_eq!(ledger.exchange(TARGET, 0, "one").await, Ok(()));
    pause.send().await.unwrap();
    assert_eq!(ledger.exchange(TARGET, 1, "two").await, Ok(()));
    let wanted = Wanted { targets: [TARGET].into(), ..Wanted::default() };
    let notes = ledger.look_up(&wanted).await.unwrap();
    assert!(notes.paused.contains(TARGET));
    assert_eq!(notes.circuits[TARGET], stored(2, "two"));
}

#[tokio::test]
async fn events_in_flight_are_listed_in_the_order_in_which_they_come_back() {
    let ledger = ledger("listed-in-flight").await;
    for (key, target, due, handle) in [
        ("late", TARGET, 9_000, Some("handle of late")),
        ("soon", TARGET, 5_000, Some("handle of soon")),
        ("delayed", TARGET, 6_000, None),
        ("past", TARGET, 4_000, Some("handle of past")),
        ("other", "other", 6_000, Some("handle of other")),
    ] {
        let waiting = Waiting {
            target,
            queue_url: QUEUE,
            event_id: "first-request",
            attempt: Attempt::FIRST,
            due: at_millis(due),
            first_failure: Timestamp::UNIX_EPOCH,
            error_type: None,
            error_message: None,
            receipt_handle: handle,
        };
        let claim = Claim::waiting("handler/0".to_owned(), None, at_millis(due));
        ledger.enter(key, None, &claim, &waiting).await.unwrap();
    }
    let listed = |handles: &[&str]| {
        let listed = handles.iter().map(|&handle| Listed {
            queue_url: QUEUE.to_owned(),
            receipt_handle: handle.to_owned(),
        });
        Ok(listed.collect::<Vec<_>>())
    };
    let after = at_millis(4_000);
    assert_eq!(ledger.list(TARGET, after, 10).await, listed(&["handle of soon", "handle of late"]));
    assert_eq!(ledger.list(TARGET, after, 1).await, listed(&["handle of soon"]));
}

#[tokio::test]
async fn a_table_without_the_index_or_no_table_is_for_a_person_to_mend() {
    create_table(&Client::new(&config()), "without-index", "id").await;
    for table in ["without-index", "missing-circuits"] {
        let ledger = DynamoLedger::new(&config(), table.to_owned());
        let fault = ledger.list(TARGET, at_millis(0), 1).await.unwrap_err();
        assert!(!fault.passes && fault.code.is_some(), "{table}: {fault:?}");
    }
    let missing = DynamoLedger::new(&config(), "missing-circuits".to_owned());
    let Err(NotExchanged::Fault(fault)) = missing.exchange(TARGET, 0, "one").await else {
        panic!()
    };
    assert!(!fault.passes);
}
