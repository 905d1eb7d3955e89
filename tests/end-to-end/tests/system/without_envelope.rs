//! Functions that are retried without an envelope: each run has the event's own bytes, and the ledger has the attempts.
//! The functions fail at once, often before their handler has written what it sent.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
    time::Duration,
};

use serde_json::Value;
use tokio::sync::watch;

use crate::{
    once_per_failure::{TABLE, Tables, plan_with_ledger},
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
    let tables = Tables::with_register().await;
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
    let keys: BTreeSet<_> = items.iter().filter_map(|item| item["id"].as_s().ok()).collect();
    for run in &runs[1..] {
        let note = format!(
            "note/arn:aws:lambda:us-east-1:000000000000:function:orders/{}",
            run.request_id
        );
        assert!(keys.contains(&note), "{keys:?}");
    }
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
    let tables = Tables::with_claims().await;
    let retry_loop = plan_with_ledger(&tables.endpoint, &SETTINGS).deploy().await;
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
    let tables = Tables::with_claims().await;
    let retry_loop = plan_with_ledger(&tables.endpoint, &SETTINGS).deploy().await;
    fail_while_handlers_are_killed(&retry_loop, |number| event(number / 2)).await;
    let mut ended = BTreeMap::new();
    while ended.len() < EVENTS / 2 || ended.values().any(|letters| *letters < 2) {
        let letter = retry_loop.dead_letter().await;
        assert_eq!(attribute(&letter, "Attempts"), "3");
        assert_eq!(attribute(&letter, "Reason"), "max_attempts_exceeded");
        *ended.entry(letter.body).or_insert(0) += 1;
    }
}

/// Whether a request to DynamoDB is the write that follows Lambda's answer: it has the note.
fn notes(request: &str) -> bool {
    request.contains("TransactWriteItems") && request.contains("\"note/")
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
    let tables = Tables::with_claims().await;
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
    let tables = Tables::with_claims().await;
    let asked = Mutex::new([0; 2]);
    let dynamodb = Faulty::start(move |request| {
        if notes(request) {
            return Fate::FORWARDED;
        }
        let mut asked = asked.lock().unwrap();
        let reads_and_claims = &mut asked[usize::from(request.contains("BatchGetItem"))];
        *reads_and_claims += 1;
        match reads_and_claims {
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
    let tables = Tables::with_claims().await;
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
