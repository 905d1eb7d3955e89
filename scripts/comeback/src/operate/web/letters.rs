//! The pages about dead letters.

use crate::operate::{
    dead_letters::rules::{GroupBy, Letter, Listed, NO_REASON, Selection, look},
    rules::groups::Groups,
    rules::notice::{self, Notice},
};
use comeback_core::{Timestamp, arn::FunctionArn};
use maud::{Markup, html};

use super::{
    html::{Untrusted, csrf, order, term, until},
    jobs::Job,
    live::{LetterSnapshot, Live, Seen, Shared},
    params::Params,
    work::{Progress, begin, uncancelled},
};
use crate::{
    operate::text::{count, shortened},
    shell::Failure,
};

/// The most letters to keep in memory, and the most to show on a page.
const REMEMBERED_MAX: usize = 1_000;
const SHOWN_MAX: usize = 100;

/// How many characters of an error message and of an id a row shows.
const MESSAGE_MAX: usize = 80;
const ID_MAX: usize = 8;

/// How much of a payload is shown. Larger payloads can't be edited on the page.
const PAYLOAD_SHOWN_MAX: usize = 64 * 1024;

const GROUP_BY: [GroupBy; 3] = [GroupBy::Reason, GroupBy::Function, GroupBy::Error];

pub fn selection(params: &Params) -> Selection {
    Selection {
        ids: params.list("id"),
        reasons: params.list("reason"),
        functions: params.list("function"),
        errors: params.list("error"),
        message: params.text("message"),
        ..Selection::default()
    }
}

/// Starts a job that reads all letters and keeps [`REMEMBERED_MAX`] of them. Returns the number of the job.
pub fn refresh(live: &Shared) -> u64 {
    let job = Job {
        title: "Look at the dead letters".to_owned(),
        back: "/dead",
        of: live.seen().letters,
        ..Job::default()
    };
    begin(live, job, async |live: Shared, progress: Progress| {
        let _turn = live.letters.lock().await;
        let queue = live.dead_letters().await?;
        let mut looked = LetterSnapshot::default();
        look(&queue, queue.letters(), |letter| {
            looked.letters += 1;
            let facts = letter.facts();
            let key = GROUP_BY.iter().map(|by| by.key(&letter, &facts)).collect();
            looked.groups.count(key, letter.failed_at(&facts));
            if looked.listed.len() < REMEMBERED_MAX {
                looked.listed.push(letter.listed(false));
            }
            progress.report(looked.letters)
        })
        .await?;
        looked.listed.sort_by_key(|it| std::cmp::Reverse(it.failed_at()));
        looked.at = Some((live.now)());
        let done = Notice::good(format!("{} looked at", notice::letters(looked.letters)));
        let mut seen = live.seen();
        seen.letters = Some(looked.letters);
        seen.looked = Some(looked);
        Ok(vec![done])
    })
}

pub fn list(live: &Live, seen: &Seen, params: &Params, now: Timestamp) -> Markup {
    let Some(looked) = &seen.looked else {
        return html! { p.faint { "Looking at the letters…" } };
    };
    let means = |it: &&Listed| {
        let is = |wanted: Option<&str>, value: Option<&str>| {
            wanted.is_none_or(|wanted| wanted == value.unwrap_or(NO_REASON))
        };
        let facts = &it.facts;
        is(params.get("reason"), facts.reason.as_deref())
            && is(params.get("function"), it.function_name())
            && is(params.get("error"), facts.error_type.as_deref())
            && params.get("id").is_none_or(|id| {
                it.message_id.starts_with(id)
                    || facts.request_id.as_ref().is_some_and(|it| it.starts_with(id))
            })
    };
    let selected: Vec<_> = looked.listed.iter().filter(means).collect();
    let is_filtered = params.pairs().next().is_some();
    html! {
        form.actions method="post" action="/dead/look" {
            (csrf(live))
            span {
                (notice::letters(looked.letters))
                @if let Some(at) = looked.at { ", looked at " (until(at, now)) }
            }
            " " button { "Look again" }
        }
        @if looked.letters == 0 {
            p { "The dead-letter queue is empty: no event was given up, or all were redriven." }
        } @else {
            (grouped(&looked.groups, now))
            h2 { @if is_filtered { "Selected letters" } @else { "Latest letters" } }
            @if is_filtered { p { a href="/dead" { "Show all" } } }
            (orders(params))
            (table(&selected, now))
            @if selected.len() > SHOWN_MAX || looked.letters > looked.listed.len() as u64 {
                p.faint { "The latest " (count(SHOWN_MAX as u64)) " are shown. Choose a group above, or see " code { "comeback dead list" } "." }
            }
        }
    }
}

fn orders(params: &Params) -> Markup {
    html! {
        p.actions {
            "All of these: "
            (order("Redrive…", &params.with("do", "redrive"))) " "
            (order("Delete…", &params.with("do", "purge")))
        }
    }
}

fn grouped(groups: &Groups, now: Timestamp) -> Markup {
    let query = |key: &[String]| {
        let params = Params::default().with("reason", &key[0]).with("function", &key[1]);
        params.with("error", &key[2])
    };
    html! {
        h2 { "By reason and error" }
        div.wide { table {
            thead { tr { th { "Reason" } th { "Function" } th { "Error" } th.number { "Letters" } th { "Latest" } th { span.hidden { "Actions" } } } }
            tbody { @for (key, group) in groups.largest_first() {
                tr {
                    th scope="row" { a href=(format!("/dead?{}", query(key))) { (Untrusted(&key[0])) } }
                    td { (Untrusted(&key[1])) }
                    td { (Untrusted(&key[2])) }
                    td.number { (count(group.count)) }
                    td { @if let Some(at) = group.last_at { (until(at, now)) } }
                    td { a.button href=(format!("/confirm?{}", query(key).with("do", "redrive"))) {
                        "Redrive…" span.hidden { " " (Untrusted(&key.join(" "))) }
                    } }
                }
            } }
        } }
    }
}

fn table(letters: &[&Listed], now: Timestamp) -> Markup {
    html! {
        div.wide { table {
            thead { tr {
                th { "Letter" } th { "Function" } th { "Reason" }
                th.number { (term("Attempts", "How often the event was retried before it was given up.")) }
                th { "Last failure" } th { "Error" }
            } }
            tbody { @for it in letters.iter().take(SHOWN_MAX) { (row(it, now)) } }
        } }
    }
}

fn row(it: &Listed, now: Timestamp) -> Markup {
    let facts = &it.facts;
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| NO_REASON.to_owned());
    html! {
        tr id=(format!("letter-{}", it.message_id)) {
            th scope="row" { a href=(format!("/dead/{}", it.message_id)) { (shortened(&it.message_id, ID_MAX)) } }
            td { (Untrusted(it.function_name().unwrap_or(NO_REASON))) }
            td { (Untrusted(&text(&facts.reason))) }
            td.number { @if let Some(attempts) = facts.attempts { (attempts) } }
            td { @if let Some(at) = it.failed_at() { (until(at, now)) } }
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
        let gone = "this letter is not in the dead-letter queue: it was redriven or deleted, or another consumer has received it";
        found.ok_or_else(|| Failure::Refused(gone.to_owned()))
    })
    .await
}

/// The page of a letter. The payload is shown only on request.
pub fn letter(live: &Live, letter: &Letter, with_payload: bool, now: Timestamp) -> Markup {
    let it = letter.listed(true);
    let facts = &it.facts;
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| NO_REASON.to_owned());
    let payload = it.payload.as_deref();
    let query = |what: &str| Params::default().with("do", what).with("id", &it.message_id);
    // A letter with the reason `target_not_allowed` is redriven only if the selection names its function.
    let named = it.function_name().unwrap_or_default();
    html! {
        dl.facts {
            dt { "Reason" } dd { code { (Untrusted(&text(&facts.reason))) } }
            dt { "Function" } dd { (Untrusted(facts.function.as_ref().map_or(NO_REASON, FunctionArn::as_str))) }
            dt { "Error" } dd { strong { (Untrusted(&text(&facts.error_type))) } @if let Some(message) = &facts.error_message { br; q { (Untrusted(message)) } } }
            dt { "Attempts" } dd { @if let Some(attempts) = facts.attempts { (attempts) } @else { "unknown" } }
            dt { "First failure" } dd { @if let Some(at) = facts.first_failure_at { (until(at, now)) } @else { "unknown" } }
            dt { "Last failure" } dd { @if let Some(at) = facts.last_failure_at { (until(at, now)) } @else { "unknown" } }
            dt { "Event" } dd { @if let Some(id) = &facts.request_id { a href=(super::events::path(id)) { code { (Untrusted(id)) } } } @else { "unknown" } }
            dt { "Message id" } dd { code { (it.message_id) } }
        }
        p.actions {
            (order("Redrive…", &query("redrive").with("function", named))) " "
            (order("Delete…", &query("purge")))
        }
        @match payload {
            None => p { "The letter has no JSON payload." },
            Some(payload) if with_payload => (shown(live, payload, &it)),
            Some(payload) => p { a.button href="?payload=show" { "Show the payload" } " " span.faint { (count(payload.len() as u64)) " bytes" } },
        }
    }
}

fn shown(live: &Live, payload: &str, it: &Listed) -> Markup {
    if payload.len() > PAYLOAD_SHOWN_MAX {
        return html! {
            h2 { "Payload" }
            p { "The first " (count(PAYLOAD_SHOWN_MAX as u64)) " of " (count(payload.len() as u64)) " bytes. The whole payload: " code { "comeback dead show " (it.message_id) " --payload" } }
            pre tabindex="0" { (Untrusted(&beginning(payload))) }
        };
    }
    html! {
        h2 { "Payload" }
        form method="post" action="/confirm" {
            (csrf(live))
            input type="hidden" name="do" value="redrive";
            input type="hidden" name="id" value=(it.message_id);
            input type="hidden" name="function" value=(it.function_name().unwrap_or_default());
            label { "Edit it to redrive it changed" br; textarea name="payload" rows="12" spellcheck="false" { (payload) } }
            button { "Redrive with this payload…" }
        }
    }
}

pub fn beginning(payload: &str) -> String {
    payload.chars().take(PAYLOAD_SHOWN_MAX).collect()
}
