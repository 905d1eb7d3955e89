//! The items of runs in DynamoDB's table, of retries without an envelope.

use std::time::Duration;

use aws_sdk_dynamodb::{Client, types::AttributeValue};
use comeback_core::{
    Attempt, Timestamp,
    claim::{Claim, State, Token},
    envelope::RetryMetadata,
    lineage::{Call, Key, Known, Note, Parent, RETENTION, Write},
    register::Waiting,
    target::Target,
};
use comeback_dynamodb::primary;
use comeback_flow::ports::{Ledger, NotReplaced, Wanted};
use moto::create_register;
use retry_handler::DynamoLedger;

use super::{ledger_of_moto, of_moto};

const FUNCTION: &str = "arn:aws:lambda:us-east-1:123456789012:function:orders";

fn at(seconds: u64) -> Timestamp {
    let began: Timestamp = "2026-02-01T12:00:00Z".parse().unwrap();
    began + Duration::from_secs(seconds)
}

fn key(run: &str) -> Key {
    Key::of(&Target::parse(FUNCTION).unwrap(), r#"{"order":1.0}"#, run)
}

fn held(owner: &str) -> Claim {
    Claim {
        token: Token { generation: 1, owner: owner.to_owned() },
        state: State::Held { until: at(40) },
        order: None,
        expires_at: at(1_000_000),
    }
}

fn call(name: &str) -> Call {
    Call {
        name: name.to_owned(),
        metadata: RetryMetadata::first(at(0), "r-1"),
        since: at(1),
        until: at(40),
        root: Some("1-aaaa".to_owned()),
        is_repeated: false,
        taken_by: None,
    }
}

/// What is known of the run that was started by this call for the failure of the run `r-1`.
fn noted(call: &Call, repeats: u32) -> Known {
    let parent = Parent { run: "r-1".to_owned(), call: call.name.clone() };
    let note = Note { metadata: call.metadata.clone(), parent: Some(parent) };
    Known::noted(note, call, call.repeats(repeats, at(2)))
}

async fn table(name: &str) -> (Client, DynamoLedger) {
    let client = Client::new(&of_moto());
    create_register(&client, name).await;
    (client, ledger_of_moto(name))
}

/// Claims the failure of the run `r-1`, with this call.
async fn claim(ledger: &DynamoLedger, call: &Call) {
    let claim = held(&call.name);
    let calls = std::slice::from_ref(call);
    let write = Write { next: Some(&claim), calls, ..Write::default() };
    ledger.write(&key("r-1"), &write).await.unwrap();
}

async fn known(ledger: &DynamoLedger, run: &str) -> Option<Known> {
    let wanted = Wanted { runs: [key(run)].into(), ..Wanted::default() };
    ledger.look_up(&wanted).await.unwrap().runs.remove(&key(run)).map(|entered| entered.known)
}

fn names(known: &Known) -> Vec<&str> {
    let mut names: Vec<_> = known.calls.iter().map(|call| &*call.name).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn a_call_stands_beside_its_claim_and_the_note_of_its_run_under_lambdas_request_id() {
    let (client, ledger) = table("runs").await;
    let call = call("a/0");
    claim(&ledger, &call).await;
    let there = known(&ledger, "r-1").await.unwrap();
    assert_eq!((there.claim.clone(), there.note.is_none()), (held("a/0"), true));
    assert_eq!(format!("{:?}", there.calls), format!("{:?}", [&call]));

    // Lambda may have accepted an earlier call, too.
    ledger.note(&key("r-2"), &noted(&call, 1)).await.unwrap();
    let there = known(&ledger, "r-2").await.unwrap();
    assert_eq!(there.claim.state, State::Noted);
    assert_eq!(names(&there), ["a/0#1"]);
    let note = there.note.unwrap();
    assert_eq!(note.metadata.request_id.as_deref(), Some("r-1"));
    assert_eq!(note.parent, Some(Parent { run: "r-1".to_owned(), call: "a/0".to_owned() }));
    let item = client.get_item().table_name("runs").set_key(Some(primary(&key("r-2"))));
    let item = item.send().await.unwrap().item.unwrap();
    let expires_at = (at(1) + RETENTION).timestamp().to_string();
    assert_eq!(item["expires_at"], AttributeValue::N(expires_at));

    let siblings = ledger.siblings(&key("r-3"), false).await.unwrap();
    let mut runs: Vec<_> = siblings.runs.iter().map(|(run, _)| &**run).collect();
    runs.sort_unstable();
    assert_eq!((runs, siblings.are_all), (vec!["r-1", "r-2"], true));
    assert!(siblings.answers("r-1", &[call]));
}

#[tokio::test]
async fn a_note_leaves_the_claim_that_its_run_has_by_then() {
    let (_, ledger) = table("late-note").await;
    claim(&ledger, &call("b/0")).await;
    ledger.note(&key("r-1"), &noted(&call("a/0"), 0)).await.unwrap();
    let there = known(&ledger, "r-1").await.unwrap();
    assert_eq!((there.claim, there.note.is_some()), (held("b/0"), true));
}

#[tokio::test]
async fn nothing_is_written_if_the_claim_was_taken_by_another() {
    let (_, ledger) = table("lost").await;
    claim(&ledger, &call("b/0")).await;
    let (mine, calls) = (held("a/0"), [call("a/0")]);
    let write = Write { next: Some(&mine), calls: &calls, ..Write::default() };
    let taken = ledger.write(&key("r-1"), &write).await;
    let Err(NotReplaced::Changed(Some(there))) = taken else { panic!("{taken:?}") };
    assert_eq!((there.claim.clone(), names(&there)), (held("b/0"), vec!["b/0"]));
    let late = Write { seen: Some(&mine), ..Write::default() };
    let late = ledger.write(&key("r-1"), &late).await;
    assert!(matches!(late, Err(NotReplaced::Changed(Some(_)))), "{late:?}");
    assert_eq!(names(&known(&ledger, "r-1").await.unwrap()), ["b/0"]);
}

#[tokio::test]
async fn a_claim_that_is_taken_over_leaves_note_and_calls_and_removes_only_what_it_names() {
    let (_, ledger) = table("taken-over").await;
    ledger.note(&key("r-1"), &noted(&call("z/0"), 0)).await.unwrap();
    let mut seen = known(&ledger, "r-1").await.unwrap().claim;
    for (owner, removed, expected) in [
        ("a/0", vec![], vec!["a/0"]),
        ("b/0", vec![], vec!["a/0", "b/0"]),
        ("c/0", vec!["a/0".to_owned()], vec!["b/0", "c/0"]),
    ] {
        let (next, calls) = (held(owner), [call(owner)]);
        let (seen_now, next_now) = (Some(&seen), Some(&next));
        let write = Write {
            seen: seen_now,
            next: next_now,
            calls: &calls,
            removed: &removed,
            ..Write::default()
        };
        ledger.write(&key("r-1"), &write).await.unwrap();
        let there = known(&ledger, "r-1").await.unwrap();
        assert_eq!((names(&there), there.note.is_some()), (expected, true));
        seen = next;
    }
    ledger.write(&key("r-1"), &Write { seen: Some(&seen), ..Write::default() }).await.unwrap();
    assert!(known(&ledger, "r-1").await.is_none());
}

#[tokio::test]
async fn a_call_is_taken_once_and_by_a_repeated_write_again() {
    let (_, ledger) = table("taken").await;
    claim(&ledger, &call("a/0")).await;
    assert_eq!(ledger.take(&key("r-1"), "a/0", "r-2").await, Ok(true));
    assert_eq!(ledger.take(&key("r-1"), "a/0", "r-3").await, Ok(false));
    assert_eq!(ledger.take(&key("r-1"), "a/0", "r-2").await, Ok(true));
    assert_eq!(ledger.take(&key("r-1"), "b/0", "r-2").await, Ok(false), "no such call");
    let there = known(&ledger, "r-1").await.unwrap();
    assert_eq!(there.claim, held("a/0"), "its claim is as it was");
    assert_eq!(there.calls[0].taken_by.as_deref(), Some("r-2"));
}

#[tokio::test]
async fn an_event_that_waits_again_is_listed_and_its_call_is_gone_with_one_write() {
    let (_, ledger) = table("listed").await;
    claim(&ledger, &call("a/0")).await;
    let waiting = Waiting {
        target: FUNCTION,
        queue_url: "https://sqs.us-east-1.amazonaws.com/123456789012/retry",
        event_id: "r-1",
        attempt: Attempt::FIRST,
        due: at(100),
        first_failure: at(0),
        error_type: None,
        error_message: None,
        policy: None,
        receipt_handle: Some("handle"),
    };
    let (seen, removed) = (held("a/0"), ["a/0".to_owned()]);
    let next = Claim::waiting("a/0".to_owned(), Some(&seen), at(90_000));
    let write = Write {
        seen: Some(&seen),
        next: Some(&next),
        waiting: Some(&waiting),
        removed: &removed,
        ..Write::default()
    };
    ledger.write(&key("r-1"), &write).await.unwrap();
    assert_eq!(names(&known(&ledger, "r-1").await.unwrap()), [""; 0]);
    assert_eq!(ledger.list(FUNCTION, at(50), 10).await.unwrap().in_flight.len(), 1);
    // The next claim ends the entry, and nothing else.
    let (claimed, calls) = (held("b/0"), [call("b/0")]);
    let write =
        Write { seen: Some(&next), next: Some(&claimed), calls: &calls, ..Write::default() };
    ledger.write(&key("r-1"), &write).await.unwrap();
    assert!(ledger.list(FUNCTION, at(50), 10).await.unwrap().in_flight.is_empty());
}

#[tokio::test]
async fn of_very_many_runs_with_one_payload_a_hundred_are_read_and_the_sought_one_in_any_case() {
    let (_, ledger) = table("many").await;
    for nth in 0..110 {
        ledger.note(&key(&format!("r-{nth:03}")), &noted(&call("a/0"), 0)).await.unwrap();
    }
    let siblings = ledger.siblings(&key("r-109"), false).await.unwrap();
    assert!(!siblings.are_all && siblings.own("r-109").is_some());
    assert_eq!(siblings.runs.len(), 101);
    // Only the children of a run, wherever they are.
    let children = ledger.siblings(&key("r-1"), true).await.unwrap();
    assert_eq!((children.runs.len(), children.are_all), (110, true));
    let children = ledger.siblings(&key("r-109"), true).await.unwrap();
    assert_eq!((children.runs.len(), children.are_all), (0, true));
}

#[tokio::test]
async fn a_table_that_is_gone_is_a_fault_that_does_not_pass() {
    let ledger = ledger_of_moto("no-runs");
    assert!(!ledger.siblings(&key("r-2"), false).await.unwrap_err().is_transient);
    assert!(!ledger.note(&key("r-2"), &noted(&call("a/0"), 0)).await.unwrap_err().is_transient);
    assert!(!ledger.take(&key("r-1"), "a/0", "r-2").await.unwrap_err().is_transient);
}
