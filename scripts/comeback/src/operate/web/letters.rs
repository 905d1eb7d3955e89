//! The pages about dead letters.

use std::time::Duration;

use comeback_core::{Timestamp, target::Target, time::between};
use maud::{Markup, html};
use serde::de::IgnoredAny;

use super::{
    html::{
        ID_MAX, MESSAGE_MAX, Params, Untrusted, csrf, json_field, order_form, order_links, term,
        until, visible_json,
    },
    jobs::uncancelled,
    live::{LetterSnapshot, Live, Seen, Shared},
};

use crate::{
    failure::Failure,
    filter::FailureFilter,
    groups::Groups,
    operate::{
        dead_letters::rules::{GroupBy, Letter, Listed, Selection, look},
        order::Noun,
        web::rules::indented,
    },
    text::{count, letters, noun, shortened},
    typed::NONE,
};

/// The most letters to keep in memory, and the most to show on a page.
const REMEMBERED_MAX: usize = 1_000;
const SHOWN_MAX: usize = 100;

/// The letters are read again after this time at least, and after this many times the time that it takes.
const LOOK_AGE_MAX: Duration = Duration::from_secs(2);
const LOOKS_APART: u32 = 3;

/// How much of a payload is shown. Larger payloads can't be edited on the page.
const PAYLOAD_SHOWN_MAX: usize = 64 * 1024;

const GROUP_BY: [GroupBy; 3] = [GroupBy::Reason, GroupBy::Function, GroupBy::Error];

pub fn failures(params: &Params) -> FailureFilter {
    FailureFilter {
        functions: params.list("function"),
        errors: params.list("error"),
        message: params.text("message"),
    }
}

pub fn selection(params: &Params) -> Selection {
    Selection {
        ids: params.list("id"),
        reasons: params.list("reason"),
        failures: failures(params),
        ..Selection::default()
    }
}

/// Reads all letters and keeps [`REMEMBERED_MAX`] of them.
pub async fn look_now(live: &Live) -> Result<(), Failure> {
    let _turn = live.letters.lock().await;
    let began = (live.now)();
    live.seen().looking = Some(0);
    let (mut groups, mut listed, mut letters) = (Groups::default(), Vec::new(), 0);
    let looked = async {
        let queue = live.dead_letters().await?;
        look(&queue, queue.letters(), |letter| {
            letters += 1;
            let facts = letter.facts();
            let key = GROUP_BY.iter().map(|by| by.key(&letter, &facts)).collect();
            groups.count(key, letter.failed_at(&facts));
            if listed.len() < REMEMBERED_MAX {
                listed.push(letter.listed(false));
            }
            live.seen().looking = Some(letters);
            !live.is_ending()
        })
        .await?;
        Ok(())
    };
    let looked = looked.await;
    listed.sort_by_key(|it: &Listed| std::cmp::Reverse(it.failed_at()));
    let took = between(began, (live.now)());
    let mut seen = live.seen();
    seen.looking = None;
    if looked.is_ok() {
        seen.snapshot.letters = letters;
        seen.looked = Some(LetterSnapshot { at: began, took, letters, groups, listed });
    }
    drop(seen);
    live.changed();
    looked
}

/// Reads the letters if the last look is old: when the page is opened, and while it is open if the number changes. A
/// large queue takes long to read, so it is not read all the time.
pub fn look_again(live: &Shared, is_opened: bool) {
    let seen = live.seen();
    let is_current = seen.looked.as_ref().is_some_and(|looked| {
        let age = between(looked.at, (live.now)());
        let is_changed = seen.snapshot.letters != looked.letters;
        age < (looked.took * LOOKS_APART).max(LOOK_AGE_MAX) || !is_opened && !is_changed
    });
    if is_current || seen.looking.is_some() || live.cloud().is_err() {
        return;
    }
    drop(seen);
    refresh(live);
}

pub fn refresh(live: &Shared) {
    live.seen().looking.get_or_insert(0);
    let live = Shared::clone(live);
    tokio::spawn(async move { live.note("dead letters", look_now(&live).await) });
}

pub fn list(live: &Live, seen: &Seen, params: &Params, now: Timestamp) -> Markup {
    let Some(looked) = &seen.looked else {
        return html! { p.faint { "Looking at the letters: " (count(seen.looking.unwrap_or_default())) " so far…" } };
    };
    let wanted = selection(params);
    let is_wanted = |it: &&Listed| wanted.matches_facts(&it.message_id, &it.facts);
    let selected: Vec<_> = looked.listed.iter().filter(is_wanted).collect();
    let is_filtered = params.pairs().next().is_some();
    // The number is polled all the time, the letters are not.
    let counted = seen.snapshot.letters;
    html! {
        form.bar method="post" action="/dead/look" {
            (csrf(&live.csrf))
            span {
                (letters(looked.letters)) ", looked at " (until(looked.at, now))
                @if let Some(read) = seen.looking { ". Looking again: " (count(read)) " so far…" }
                @else if counted != looked.letters { ". Now the queue says " (count(counted)) "." }
            }
            button { "Look again" }
        }
        @if looked.letters > 0 {
            (grouped(&looked.groups, now))
            h2 { @if is_filtered { "Selected letters" } @else { "Latest letters" } }
            (orders(params, selected.len(), looked))
            (table(&selected, now))
            @if selected.len() > SHOWN_MAX || looked.letters > looked.listed.len() as u64 {
                p.faint {
                    "The latest " (count(SHOWN_MAX as u64))
                    " are shown. Choose a group above, or see " code { "comeback dead list" } "."
                }
            }
        } @else if counted == 0 && seen.looking.is_none() {
            p { "The dead-letter queue is empty: no event was given up, or all were redriven." }
        } @else {
            p { "No letter was visible when the page last looked: another consumer may have received them." }
        }
    }
}

fn orders(params: &Params, shown: usize, looked: &LetterSnapshot) -> Markup {
    let is_filtered = params.pairs().next().is_some();
    let every = html! {
        span.every {
            @if is_filtered { (count(shown as u64)) " selected:" } @else { "All " (letters(looked.letters)) ":" }
            (order_links(Noun::Letter, params))
            @if is_filtered { " " a href="/dead" { "Show all" } }
        }
    };
    order_form(Noun::Letter, &every)
}

fn grouped(groups: &Groups, now: Timestamp) -> Markup {
    let query = |key: &[String]| {
        let params = Params::default().with("reason", &key[0]).with("function", &key[1]);
        params.with("error", &key[2])
    };
    html! {
        h2 { "By reason and error" }
        div.wide { table.groups {
            thead {
                tr {
                    th { "Reason" } th { "Function or queue" } th { "Error" } th.number { "Letters" }
                    th { "Latest" } th { span.hidden { "Actions" } }
                }
            }
            tbody { @for (key, group) in groups.largest_first() {
                tr {
                    th scope="row" { a href=(format!("/dead?{}", query(key))) { (Untrusted(&key[0])) } }
                    td { (Untrusted(&key[1])) }
                    td { (Untrusted(&key[2])) }
                    td.number { (count(group.count)) span.unit { " " (noun(group.count, "letter")) } }
                    td { @if let Some(at) = group.last_at { span.unit { "latest " } (until(at, now)) } }
                    td { a.button data-ask href=(format!("/confirm?{}", query(key).with("do", "redrive"))) {
                        "Redrive…" span.hidden { " " (Untrusted(&key.join(" "))) }
                    } }
                }
            } }
        } }
    }
}

fn table(letters: &[&Listed], now: Timestamp) -> Markup {
    html! {
        div.wide { table.events {
            thead { tr {
                td.choose { input type="checkbox" data-all aria-label="select all"; }
                th { "Given up" } th { "Letter" } th { "Function or queue" } th { "Reason" }
                th.number { (term("Attempts", "How often the event was retried before it was given up.")) }
                th { "Error" }
            } }
            tbody { @for it in letters.iter().take(SHOWN_MAX) { (row(it, now)) } }
        } }
    }
}

fn row(it: &Listed, now: Timestamp) -> Markup {
    let facts = &it.facts;
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| NONE.to_owned());
    html! {
        tr id=(format!("letter-{}", it.message_id)) {
            td.choose {
                label {
                    input type="checkbox" form="chosen" name="id" value=(it.message_id)
                        aria-label=(format!("select {}", shortened(it.event_id(), ID_MAX)));
                }
            }
            td.when { @if let Some(at) = it.failed_at() { (until(at, now)) } }
            th scope="row" { a href=(format!("/dead/{}", it.message_id)) { (shortened(it.event_id(), ID_MAX)) } }
            td { (Untrusted(&it.target_name().unwrap_or(NONE.into()))) }
            td { (Untrusted(&text(&facts.reason))) }
            td.number {
                @if let Some(attempts) = facts.attempts {
                    (attempts) span.unit { " " (noun(attempts.into(), "attempt")) }
                }
            }
            td.error {
                strong { (Untrusted(&shortened(&text(&facts.error_type), MESSAGE_MAX))) }
                @if let Some(message) = &facts.error_message { " " (Untrusted(&shortened(message, MESSAGE_MAX))) }
            }
        }
    }
}

pub async fn find(live: &Shared, id: &str) -> Result<Letter, Failure> {
    let (live, id) = (Shared::clone(live), id.to_owned());
    uncancelled(async move {
        let _turn = live.letters.lock().await;
        let queue = live.dead_letters().await?;
        let mut found = None;
        look(&queue, queue.letters(), |letter| {
            if letter.id == id {
                found = Some(letter);
            }
            found.is_none() && !live.is_ending()
        })
        .await?;
        let gone = "this letter is not in the dead-letter queue: it was redriven or deleted, or another \
             consumer has received it";
        Ok(found.ok_or(gone)?)
    })
    .await
}

/// The page of a letter. `error` says what is wrong with the payload that was edited.
pub fn letter(
    live: &Live,
    letter: &Letter,
    params: &Params,
    error: Option<&str>,
    now: Timestamp,
) -> Markup {
    let it = letter.listed_by(&live.policies().unwrap_or_default(), true);
    let facts = &it.facts;
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| NONE.to_owned());
    let event = facts.request_id.as_deref();
    let is_known = event.is_some_and(|id| live.seen().events.get(id).is_some());
    // A letter with the reason `target_not_allowed` is redriven only if the selection names its function.
    let order = Params::default().with("id", &it.message_id);
    let order = order.with("function", &it.target_name().unwrap_or_default());
    html! {
        dl.facts {
            dt { "Reason" }
            dd {
                code { (Untrusted(&text(&facts.reason))) }
                @if let Some(advice) = &facts.advice { br; (Untrusted(advice)) }
            }
            dt { @if facts.target.as_ref().is_some_and(Target::is_queue) { "Queue" } @else { "Function" } }
            dd { (Untrusted(facts.target.as_ref().map_or(NONE, Target::as_str))) }
            dt { "Error" }
            dd {
                strong { (Untrusted(&text(&facts.error_type))) }
                @if let Some(message) = &facts.error_message { br; q { (Untrusted(message)) } }
            }
            dt { "Attempts" } dd { @if let Some(attempts) = facts.attempts { (attempts) } @else { "unknown" } }
            dt { "First failure" }
            dd {
                @if let Some(at) = facts.first_failure_at { (until(at, now)) } @else { "unknown" }
            }
            dt { "Last failure" }
            dd { @if let Some(at) = facts.last_failure_at { (until(at, now)) } @else { "unknown" } }
            dt { "Event" } dd { @if let Some(id) = event { code { (Untrusted(id)) } } @else { "unknown" } }
            dt { "Message id" } dd { code { (it.message_id) } }
        }
        p.actions {
            (order_links(Noun::Letter, &order))
            @if let Some(id) = event.filter(|_| is_known) {
                " " a.button href=(super::events::path(id)) { "See its life" }
            }
        }
        @match &it.payload {
            None => p { "The letter has no JSON payload." },
            Some(payload) => (edit(live, payload, params.get("payload").zip(error), &it)),
        }
    }
}

/// The payload, and the form to redrive the letter with an edited one. `refused` is what was sent before, and what is
/// wrong with it.
fn edit(live: &Live, payload: &str, refused: Option<(&str, &str)>, it: &Listed) -> Markup {
    if payload.len() > PAYLOAD_SHOWN_MAX {
        return html! {
            h2 { "Payload" }
            p {
                "The first " (count(PAYLOAD_SHOWN_MAX as u64)) " of " (count(payload.len() as u64))
                " bytes. The whole payload: "
                code { "comeback dead show " (it.message_id) " --payload" }
            }
            pre tabindex="0" { (readable(payload)) }
        };
    }
    html! {
        h2 { "Payload" }
        pre tabindex="0" { (readable(payload)) }
        details open[refused.is_some()] {
            summary { "Edit it" }
            form method="post" action="/confirm" {
                (csrf(&live.csrf))
                input type="hidden" name="do" value="redrive";
                input type="hidden" name="id" value=(it.message_id);
                @if let Some(name) = it.target_name() { input type="hidden" name="function" value=(name); }
                (json_field(
                    "The payload to redrive it with",
                    12,
                    &visible_json(refused.map_or(payload, |(sent, _)| sent)),
                    refused.map(|(_, error)| error),
                ))
                button { "Redrive with this payload…" }
            }
        }
    }
}

/// The beginning of a payload for the screen. JSON has a line for each member.
pub fn readable(payload: &str) -> String {
    let shown: String = payload.chars().take(PAYLOAD_SHOWN_MAX).collect();
    let is_json = serde_json::from_str::<IgnoredAny>(payload).is_ok();
    visible_json(&if is_json { indented(&shown) } else { shown })
}
