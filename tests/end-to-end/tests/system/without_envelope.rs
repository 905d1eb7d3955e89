//! Functions that are retried without an envelope: each run has the event's own bytes, and the ledger has the attempts.
//! The functions fail at once, often before their handler has written what it sent.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::Value;
use tokio::sync::watch;

use crate::{
    once_per_failure::{TABLE, Tables, beside_tables, plan_with_ledger, runs_in_all},
    processes::kill_all,
    retry_loop::{DeadLetter, HANDLER, RetryLoop, TARGET},
    servers::{Fate, Faulty},
};

const SETTINGS: [(&str, &str); 2] = [("TRANSPARENT", "true"), ("MAX_ATTEMPTS", "3")];

/// An event that fails in every run.
fn event(id: usize) -> String {
    format!(r#"{{"id":{id}, "price":10.10,"fail":{{}}, "_retry_metadata":{{"attempt":7}}}}"#)
}

fn attribute<'a>(letter: &'a DeadLetter, name: &str) -> &'a str {
    letter.attributes.get(name).map_or("", |value| value)
}

/// The dead letters of these events, by the request ids of their first runs.
async fn letters(retry_loop: &RetryLoop, events: usize) -> BTreeMap<String, DeadLetter> {
    let mut letters = BTreeMap::new();
    while letters.len() < events {
        let letter = retry_loop.dead_letter().await;
        letters.insert(attribute(&letter, "RequestId").to_owned(), letter);
    }
    letters
}

#[tokio::test]
async fn an_event_comes_back_with_its_own_bytes_until_its_attempts_are_used_up() {
    let tables = Tables::with_ledger().await;
    let settings = [SETTINGS.as_slice(), &[("REGISTER", "true")]].concat();
    let retry_loop = plan_with_ledger(&tables.endpoint, &settings).deploy().await;
    let id = retry_loop.invoke(&event(1)).await;
    let letter = retry_loop.dead_letter().await;
    assert_eq!(letter.body, event(1));
    assert_eq!(attribute(&letter, "Reason"), "max_attempts_exceeded");
    assert_eq!((attribute(&letter, "Attempts"), attribute(&letter, "RequestId")), ("3", &*id));
    let mut journal = retry_loop.cloud.journal();
    let runs: [_; 4] = journal.runs(TARGET).await;
    assert_eq!(runs.clone().map(|run| run.payload), [1; 4].map(event));
    let ids: BTreeSet<_> = runs.iter().map(|run| &run.request_id).collect();
    assert_eq!(ids.len(), 4, "each retry has an id of its own, under which its note is");
    assert_eq!(retry_loop.settled(&mut journal).await, (0, 0));
    let items = tables.items(TABLE).await;
    let noted = items.iter().filter(|item| item.contains_key("metadata"));
    let noted: BTreeSet<_> = noted.filter_map(|item| item["run"].as_s().ok()).collect();
    let retries: BTreeSet<_> = runs[1..].iter().map(|run| &run.request_id).collect();
    assert_eq!(noted, retries);
    let payloads: BTreeSet<_> = items.iter().filter_map(|item| item["id"].as_s().ok()).collect();
    assert_eq!(payloads.len(), 1, "all runs of an event are together: {payloads:?}");
}

/// How many events fail.
const EVENTS: usize = 60;

/// Invokes the function with these payloads, and kills its handlers again and again. Returns the request ids.
async fn fail_while_handlers_are_killed(
    retry_loop: &RetryLoop,
    payload: impl Fn(usize) -> String,
) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for number in 0..EVENTS {
        ids.insert(retry_loop.invoke(&payload(number)).await);
        if number % 20 == 19 {
            kill_all(&retry_loop.handlers()).await;
        }
    }
    ids
}

#[tokio::test]
async fn no_event_is_lost_and_each_has_its_attempts_though_handlers_are_killed() {
    let retry_loop = beside_tables(&SETTINGS).await;
    let ids = fail_while_handlers_are_killed(&retry_loop, event).await;
    let letters = letters(&retry_loop, EVENTS).await;
    assert_eq!(letters.keys().cloned().collect::<BTreeSet<_>>(), ids);
    for letter in letters.values() {
        assert_eq!(attribute(letter, "Attempts"), "3");
        assert_eq!(attribute(letter, "Reason"), "max_attempts_exceeded");
    }
}

/// Whose retry has failed can't be told if two events have the same bytes and their handler is killed between Lambda's
/// answer and its mark. Then both may go on under the request id of one of them, or one may begin anew.
#[tokio::test]
async fn no_event_that_has_the_bytes_of_another_is_lost_though_handlers_are_killed() {
    let retry_loop = beside_tables(&SETTINGS).await;
    fail_while_handlers_are_killed(&retry_loop, |number| event(number / 2)).await;
    let mut ended = BTreeMap::new();
    while ended.len() < EVENTS / 2 || ended.values().any(|letters| *letters < 2) {
        let letter = retry_loop.dead_letter().await;
        assert_eq!(attribute(&letter, "Attempts"), "3");
        assert_eq!(attribute(&letter, "Reason"), "max_attempts_exceeded");
        *ended.entry(letter.body).or_insert(0) += 1;
    }
}

/// What Lambda's API says in place of an answer: that it throttles, that it fails, or nothing at all.
fn refusal(nth: usize) -> Fate {
    let answer = |status: &str, code: &str| {
        let head = format!("HTTP/1.1 {status}\r\nx-amzn-errortype: {code}\r\n");
        Fate::Answered(format!("{head}content-length: 2\r\n\r\n{{}}").into_bytes())
    };
    match nth % 3 {
        0 => answer("429 Too Many Requests", "TooManyRequestsException"),
        1 => answer("503 Service Unavailable", "ServiceUnavailableException"),
        _ => Fate::Answered(Vec::new()),
    }
}

/// The SDK makes a call again that was throttled, failed or not answered. None of these has started a run, and no other
/// failure with the same bytes may take one of them for its own.
#[tokio::test]
async fn calls_that_were_made_again_cost_no_event_with_the_same_bytes_an_attempt() {
    let asked = AtomicUsize::new(0);
    let lambda = Faulty::start(move |_| match asked.fetch_add(1, Ordering::Relaxed) {
        // First nothing but throttling, and then a fifth of all calls.
        nth @ ..60 => refusal(3 * nth),
        nth if nth % 5 == 0 => refusal(nth / 5),
        _ => Fate::FORWARDED,
    })
    .await;
    let settings =
        [SETTINGS.as_slice(), &[("AWS_ENDPOINT_URL_LAMBDA", lambda.endpoint.as_str())]].concat();
    let retry_loop = beside_tables(&settings).await;
    lambda.forward_to(&retry_loop.cloud.endpoint);
    let mut ids = BTreeSet::new();
    for number in 0..EVENTS {
        ids.insert(retry_loop.invoke(&event(number.saturating_sub(EVENTS / 2))).await);
    }
    let letters = letters(&retry_loop, EVENTS).await;
    assert_eq!(letters.keys().cloned().collect::<BTreeSet<_>>(), ids);
    for letter in letters.values() {
        assert_eq!(attribute(letter, "Attempts"), "3");
        assert_eq!(attribute(letter, "Reason"), "max_attempts_exceeded");
    }
    // On a busy machine an answer may come too late. Then a run is made twice.
    assert!(runs_in_all(&retry_loop).await >= 4 * EVENTS, "all runs are made");
    for letter in retry_loop.dead_letters().await {
        assert_eq!(attribute(&letter, "Attempts"), "3");
        assert!(ids.contains(attribute(&letter, "RequestId")), "{letter:?}");
    }
}

/// Whether a request to DynamoDB is the write that follows Lambda's answer: the note names its parent.
fn notes(request: &str) -> bool {
    request.contains("UpdateItem") && request.contains("\"parent_call\"")
}

/// A loop without envelopes and with two attempts, whose handlers reach DynamoDB through this proxy and make each call
/// once.
async fn behind(dynamodb: &Faulty, tables: &Tables) -> RetryLoop {
    dynamodb.forward_to(&tables.endpoint);
    let settings = [("TRANSPARENT", "true"), ("MAX_ATTEMPTS", "2"), ("AWS_MAX_ATTEMPTS", "1")];
    plan_with_ledger(&dynamodb.endpoint, &settings).deploy().await
}

/// Waits for the event's end, after exactly these runs, each with its own bytes.
async fn ends_after_three_runs(retry_loop: &RetryLoop, id: &str) {
    let letter = retry_loop.dead_letter().await;
    assert_eq!((attribute(&letter, "Attempts"), attribute(&letter, "RequestId")), ("2", id));
    let mut journal = retry_loop.cloud.journal();
    let runs: [_; 3] = journal.runs(TARGET).await;
    assert_eq!(runs.map(|run| run.payload), [1; 3].map(event));
    assert_eq!(retry_loop.settled(&mut journal).await, (0, 0));
}

/// How long DynamoDB takes to write a note: far longer than the function to fail, but not too long for its client.
const SLOW: Duration = Duration::from_millis(700);

#[tokio::test]
async fn a_failure_that_comes_before_its_note_waits_for_it_and_counts_no_attempt() {
    let tables = Tables::with_ledger().await;
    let slow = Fate::Forwarded { after: SLOW };
    let fate = move |request: &str| if notes(request) { slow.clone() } else { Fate::FORWARDED };
    let dynamodb = Faulty::start(fate).await;
    let retry_loop = behind(&dynamodb, &tables).await;
    let id = retry_loop.invoke(&event(1)).await;
    ends_after_three_runs(&retry_loop, &id).await;
    let waits = |line: &Value| {
        line["message"].as_str().is_some_and(|text| text.contains("the event waits for the note"))
    };
    retry_loop.cloud.journal().log(HANDLER, "a wait for a note", waits).await;
}

const THROTTLED: &str = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: 93\r\n\r\n{\"__type\":\"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException\",\"a\":\"bc\"}";

#[tokio::test]
async fn a_dynamodb_that_throttles_and_then_is_gone_delays_events_and_changes_no_attempt() {
    let tables = Tables::with_ledger().await;
    let asked = Mutex::new(BTreeMap::new());
    let dynamodb = Faulty::start(move |request| {
        if notes(request) {
            return Fate::FORWARDED;
        }
        let kinds = ["BatchGetItem", "Query", "UpdateItem"];
        let kind = kinds.into_iter().find(|kind| request.contains(kind));
        let mut asked = asked.lock().unwrap();
        let times = asked.entry(kind).or_insert(0);
        *times += 1;
        match times {
            1 => Fate::Answered(THROTTLED.into()),
            2 => Fate::Answered(Vec::new()),
            _ => Fate::FORWARDED,
        }
    })
    .await;
    let retry_loop = behind(&dynamodb, &tables).await;
    let id = retry_loop.invoke(&event(1)).await;
    ends_after_three_runs(&retry_loop, &id).await;
    for call in ["recall", "claim"] {
        let fails = |line: &Value| line["decision"] == call && line["error"].is_string();
        retry_loop.cloud.journal().log(HANDLER, call, fails).await;
    }
}

#[tokio::test]
async fn a_handler_that_dies_between_lambdas_answer_and_its_mark_takes_no_attempt_with_it() {
    let tables = Tables::with_ledger().await;
    let (hold, mut held) = watch::channel(false);
    let dynamodb = Faulty::start(move |request| {
        let is_first = notes(request) && !hold.send_replace(notes(request));
        if is_first { Fate::Held } else { Fate::FORWARDED }
    })
    .await;
    let retry_loop = behind(&dynamodb, &tables).await;
    let id = retry_loop.invoke(&event(1)).await;
    held.wait_for(|is_held| *is_held).await.unwrap();
    kill_all(&retry_loop.handlers()).await;
    // Its message comes back and may be sent a second time. Each of the two runs goes on with its attempt and event.
    let letter = retry_loop.dead_letter().await;
    retry_loop.settled(&mut retry_loop.cloud.journal()).await;
    for letter in std::iter::once(letter).chain(retry_loop.dead_letters().await) {
        assert_eq!((attribute(&letter, "Attempts"), attribute(&letter, "RequestId")), ("2", &*id));
    }
}
