//! The notes of retries without an envelope, in DynamoDB's table.

use std::time::Duration;

use aws_sdk_dynamodb::{Client, types::AttributeValue};
use comeback_core::{
    Timestamp,
    claim::{Claim, State, Token},
    envelope::RetryMetadata,
    note::{Found, KEPT, Keys, Progress, Sending, Unwrapped, sendings_key},
    register::Waiting,
};
use comeback_flow::ports::{Ledger, NotReplaced};
use moto::create_register;
use retry_handler::DynamoLedger;

use super::of_moto;

const FUNCTION: &str = "arn:aws:lambda:us-east-1:123456789012:function:orders";
const PAYLOAD: &str = r#"{"order":1.0}"#;

fn at(seconds: u64) -> Timestamp {
    let began: Timestamp = "2026-02-01T12:00:00Z".parse().unwrap();
    began + Duration::from_secs(seconds)
}

fn held(owner: &str) -> Claim {
    Claim {
        token: Token { generation: 1, owner: owner.to_owned() },
        state: State::Held { until: at(40) },
        order: None,
        expires_at: at(1_000_000),
    }
}

fn unwrapped(sender: &str, over: &[&str]) -> Unwrapped {
    let metadata = RetryMetadata::first(at(0), "first-request");
    Unwrapped {
        function: FUNCTION.to_owned(),
        sendings: sendings_key(FUNCTION, PAYLOAD),
        sending: Sending { sender: sender.to_owned(), metadata, since: at(1), until: at(40) },
        over: over.iter().map(|&sender| sender.to_owned()).collect(),
        progress: Progress::NotAccepted,
    }
}

fn accepted(unwrapped: Unwrapped, request_id: &str, is_repeated: bool) -> Unwrapped {
    let progress = Progress::Accepted { request_id: request_id.to_owned(), is_repeated };
    Unwrapped { progress, ..unwrapped }
}

fn keys(request_id: &str) -> Keys {
    Keys::of(FUNCTION, request_id, PAYLOAD)
}

async fn table(name: &str) -> (Client, DynamoLedger) {
    let client = Client::new(&of_moto());
    create_register(&client, name).await;
    (client, DynamoLedger::new(&of_moto(), name.to_owned()))
}

/// The request id that the note has, and the senders of this payload.
fn seen(found: &Found) -> (Option<&str>, Vec<&str>) {
    let note = found.note.as_ref().and_then(|it| it.request_id.as_deref());
    let mut senders: Vec<_> = found.sendings.iter().map(|it| &*it.sender).collect();
    senders.sort_unstable();
    (note, senders)
}

async fn recall(ledger: &DynamoLedger, request_id: &str) -> Found {
    ledger.recall(&[keys(request_id)]).await.unwrap().remove(0)
}

#[tokio::test]
async fn what_is_sent_stands_beside_the_claim_until_its_note_stands_under_lambdas_request_id() {
    let (client, ledger) = table("notes").await;
    let (a, b) = (unwrapped("a/0", &[]), unwrapped("b/0", &["gone/0", "gone/1"]));
    ledger.replace("A", None, Some(&held("a/0")), Some(&a.begin())).await.unwrap();
    ledger.replace("B", None, Some(&held("b/0")), Some(&b.begin())).await.unwrap();
    let found = recall(&ledger, "r-2").await;
    assert_eq!(seen(&found), (None, vec!["a/0", "b/0"]));
    assert_eq!(
        format!("{:?}", found.sendings.iter().find(|it| it.sender == "a/0").unwrap()),
        format!("{:?}", a.sending)
    );

    let a = accepted(a, "r-2", false);
    let done = held("a/0").done();
    ledger.replace("A", Some(&held("a/0")), Some(&done), Some(&a.end(at(2)))).await.unwrap();
    let found = ledger.recall(&[keys("r-2"), keys("r-1"), keys("r-2")]).await.unwrap();
    let found: Vec<_> = found.iter().map(seen).collect();
    let noted = (Some("first-request"), vec!["b/0"]);
    assert_eq!(found, [noted.clone(), (None, vec!["b/0"]), noted], "one answer for each key");

    // Lambda may have accepted a call twice.
    let b = accepted(b, "r-3", true);
    ledger.replace("B", Some(&held("b/0")), None, Some(&b.end(at(3)))).await.unwrap();
    let found = recall(&ledger, "r-3").await;
    assert_eq!(seen(&found), (Some("first-request"), vec!["b/0"]));
    assert_eq!(found.sendings[0].until, at(3));
    for id in [keys("r-3").note, keys("r-3").sendings] {
        let item = client.get_item().table_name("notes").key("id", AttributeValue::S(id));
        let item = item.send().await.unwrap().item.unwrap();
        let expires_at = (at(1) + KEPT).timestamp().to_string();
        assert_eq!(item["expires_at"], AttributeValue::N(expires_at));
    }
    let other = Keys::of(FUNCTION, "r-2", "{}");
    assert_eq!(seen(&ledger.recall(&[other]).await.unwrap()[0]), (Some("first-request"), vec![]));
}

#[tokio::test]
async fn nothing_is_noted_if_the_claim_was_taken_by_another() {
    let (_, ledger) = table("notes-lost").await;
    let a = unwrapped("a/0", &[]);
    ledger.replace("A", None, Some(&held("b/0")), None).await.unwrap();
    let taken = ledger.replace("A", None, Some(&held("a/0")), Some(&a.begin())).await;
    let Err(NotReplaced::Changed(Some(there))) = taken else { panic!("{taken:?}") };
    assert_eq!(there, held("b/0"));
    let a = accepted(a, "r-2", false);
    let late = ledger.replace("A", Some(&held("a/0")), None, Some(&a.end(at(2)))).await;
    assert!(matches!(late, Err(NotReplaced::Changed(Some(_)))), "{late:?}");
    assert_eq!(seen(&recall(&ledger, "r-2").await), (None, vec![]));
}

#[tokio::test]
async fn a_sending_is_adopted_once() {
    let (_, ledger) = table("notes-adopted").await;
    let a = unwrapped("a/0", &[]);
    ledger.replace("A", None, Some(&held("a/0")), Some(&a.begin())).await.unwrap();
    let (first, second) = (keys("r-2"), keys("r-3"));
    assert_eq!(ledger.adopt(&first.adopt(&a.sending, at(2))).await, Ok(true));
    assert_eq!(ledger.adopt(&second.adopt(&a.sending, at(2))).await, Ok(false));
    assert_eq!(seen(&recall(&ledger, "r-2").await), (Some("first-request"), vec![]));
    assert_eq!(seen(&recall(&ledger, "r-3").await), (None, vec![]));
}

#[tokio::test]
async fn an_event_that_waits_again_is_listed_and_its_sending_is_gone_with_one_write() {
    let (_, ledger) = table("notes-listed").await;
    let a = unwrapped("a/0", &[]);
    ledger.replace("A", None, Some(&held("a/0")), Some(&a.begin())).await.unwrap();
    let waiting = Waiting {
        target: FUNCTION,
        queue_url: "https://sqs.us-east-1.amazonaws.com/123456789012/retry",
        event_id: "first-request",
        attempt: comeback_core::Attempt::FIRST,
        due: at(100),
        first_failure: at(0),
        error_type: None,
        error_message: None,
        policy: None,
        receipt_handle: Some("handle"),
    };
    let next = Claim::waiting("a/0".to_owned(), Some(&held("a/0")), at(90_000));
    let end = a.end(at(2));
    ledger.enter("A", Some(&held("a/0")), &next, &waiting, Some(&end)).await.unwrap();
    assert_eq!(seen(&recall(&ledger, "r-2").await), (None, vec![]));
    let listed = ledger.list(FUNCTION, at(50), 10).await.unwrap();
    assert_eq!(listed.len(), 1);
}

#[tokio::test]
async fn a_table_that_is_gone_is_a_fault_that_does_not_pass() {
    let ledger = DynamoLedger::new(&of_moto(), "no-notes".to_owned());
    assert!(!ledger.recall(&[keys("r-2")]).await.unwrap_err().passes);
    let a = unwrapped("a/0", &[]);
    let begun = ledger.replace("A", None, Some(&held("a/0")), Some(&a.begin())).await;
    let Err(NotReplaced::Fault(fault)) = begun else { panic!("{begun:?}") };
    assert!(!fault.passes, "{fault}");
    assert!(!ledger.adopt(&keys("r-2").adopt(&a.sending, at(9))).await.unwrap_err().passes);
}
