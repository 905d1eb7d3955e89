//! Functions that are retried without an envelope: each run has the event's own bytes, and the ledger has the attempts.
//! The functions fail at once, often before their handler has written what it sent.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    once_per_failure::{TABLE, Tables, plan_with_ledger},
    processes::kill_all,
    retry_loop::{DeadLetter, RetryLoop, TARGET},
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

/// How many events fail, in pairs with the same bytes.
const EVENTS: usize = 60;

#[tokio::test]
async fn no_event_is_lost_and_each_has_its_attempts_though_handlers_are_killed() {
    let tables = Tables::with_claims().await;
    let retry_loop = plan_with_ledger(&tables.endpoint, &SETTINGS).deploy().await;
    let mut ids = BTreeSet::new();
    for number in 0..EVENTS {
        ids.insert(retry_loop.invoke(&event(number / 2)).await);
        if number % 20 == 19 {
            let handlers = retry_loop.handlers();
            kill_all(&handlers).await;
        }
    }
    let letters = letters(&retry_loop, EVENTS).await;
    assert_eq!(letters.keys().cloned().collect::<BTreeSet<_>>(), ids);
    for letter in letters.values() {
        assert_eq!(attribute(letter, "Attempts"), "3");
        assert_eq!(attribute(letter, "Reason"), "max_attempts_exceeded");
    }
}
