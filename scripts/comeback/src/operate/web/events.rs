//! The list of events, and the page of a single event.

use crate::operate::{
    rules::life::{Next, Step, StepKind},
    rules::notice,
    web::rules::{Event, EventFilter, State},
};
use comeback_core::{
    Attempt, Timestamp,
    backoff::{Draw, Jitter},
    policy::Policy,
    time::{between, rfc3339},
};
use maud::{Markup, html};

use super::{
    html::{Untrusted, order, state, term, until},
    live::{Live, Seen, bare_name},
    params::Params,
};
use crate::operate::text::{count, shortened, span};

/// The most events on a page of the list.
const LENGTH: usize = 50;

const GROUPS_MAX: usize = 200;

/// How many characters of an error message and of an id a row shows.
const MESSAGE_MAX: usize = 80;
const ID_MAX: usize = 8;

pub fn wanted(params: &Params) -> EventFilter {
    let state = params.get("state");
    EventFilter {
        function: params.text("function"),
        state: State::ALL.into_iter().find(|(_, name)| Some(*name) == state).map(|(it, _)| it),
        error: params.text("error"),
        text: params.text("text"),
    }
}

/// The form for the filter. It is not updated live.
pub fn form(params: &Params) -> Markup {
    let value = |name| params.get(name).unwrap_or_default();
    let chosen = value("state");
    html! {
        form.filter method="get" action="/events" role="search" {
            label { "Function " input name="function" value=(value("function")) autocomplete="off"; }
            label { "State "
                select name="state" {
                    option value="" { "any" }
                    @for (_, name) in State::ALL { option value=(name) selected[name == chosen] { (name) } }
                }
            }
            label { "Error type " input name="error" value=(value("error")) autocomplete="off"; }
            label { "Text " input name="text" type="search" value=(value("text")) data-focus="/" autocomplete="off"; }
            label.check { input name="group" type="checkbox" value="error" checked[value("group") == "error"]; " Group by error" }
            button { "Show" }
        }
    }
}

pub fn list(seen: &Seen, params: &Params, now: Timestamp) -> Markup {
    let wanted = wanted(params);
    if params.get("group") == Some("error") {
        return grouped(seen, &wanted, params, now);
    }
    let skip = params.number("skip").unwrap_or_default();
    let page = seen.events.page(&wanted, skip, LENGTH);
    let to = |skip: usize| {
        let skip = if skip == 0 { String::new() } else { skip.to_string() };
        format!("/events?{}", params.with("skip", &skip))
    };
    html! {
        p {
            (notice::events(page.of as u64))
            @if !wanted.is_everything() { " of " (count(seen.events.len() as u64)) ". " a href="/events" { "Show all" } }
        }
        @if page.events.is_empty() {
            p { @if seen.events.is_empty() { "No event has failed yet." } @else { "No event meets the filter." } }
        } @else {
            (table(&page.events, now))
            nav.pager aria-label="More events" {
                @if skip > 0 { a.button rel="prev" href=(to(skip.saturating_sub(LENGTH))) { "Newer" } }
                span { (count(skip as u64 + 1)) " to " (count((skip + page.events.len()) as u64)) }
                @if skip + LENGTH < page.of { a.button rel="next" href=(to(skip + LENGTH)) { "Older" } }
            }
            (orders(seen, &wanted))
        }
    }
}

fn orders(seen: &Seen, wanted: &EventFilter) -> Markup {
    let is_about_waiting = wanted.state.is_none_or(|state| state == State::Waiting);
    if !is_about_waiting {
        return html! {};
    }
    if !seen.has_register() {
        return html! { p.faint { "With a register (" code { "REGISTER=true" } ") waiting events can be retried now, or cancelled." } };
    }
    if wanted.text.is_some() {
        return html! { p.faint { "To retry or cancel all waiting events of a function or error type, clear the text filter." } };
    }
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let query = |what: &str| {
        let params = Params::default().with("do", what).with("function", &text(&wanted.function));
        params.with("error", &text(&wanted.error))
    };
    html! {
        p.actions {
            "All that wait: "
            (order("Retry now…", &query("retry"))) " "
            (order("Cancel…", &query("cancel")))
        }
    }
}

fn grouped(seen: &Seen, wanted: &EventFilter, params: &Params, now: Timestamp) -> Markup {
    let groups = seen.events.groups(wanted);
    let groups = groups.largest_first();
    let query = |key: &[String]| {
        let params = params.with("group", "").with("function", &key[0]).with("error", &key[1]);
        params.with("state", &key[2]).to_string()
    };
    html! {
        p { (count(groups.len() as u64)) " groups" }
        div.wide { table {
            thead { tr { th { "Function" } th { "Error" } th { "State" } th.number { "Events" } th { "Latest" } } }
            tbody { @for (key, group) in groups.iter().take(GROUPS_MAX) {
                tr {
                    th scope="row" { (Untrusted(&key[0])) }
                    td { a href=(format!("/events?{}", query(key))) { (Untrusted(&key[1])) } }
                    td { (key[2]) }
                    td.number { (count(group.count)) }
                    td { @if let Some(at) = group.last_at { (until(at, now)) } }
                }
            } }
        } }
    }
}

pub fn table(events: &[&Event], now: Timestamp) -> Markup {
    html! {
        div.wide { table.events {
            thead { tr {
                th { "Event" } th { "Function" } th { "State" }
                th { (term("Life", "Each mark is a step: ✗ failed, ↻ retried, ✓ succeeded, ■ given up.")) }
                th { "What happens next" } th { "Last error" }
            } }
            tbody { @for event in events { (row(event, now)) } }
        } }
    }
}

fn row(event: &Event, now: Timestamp) -> Markup {
    let (error_type, message) = event.error();
    html! {
        tr id=(format!("event-{}", event.id)) {
            th scope="row" { a href=(path(&event.id)) title=(event.id) { (Untrusted(&shortened(&event.id, ID_MAX))) } }
            td { (Untrusted(&event.function)) }
            td { (state(event.state())) }
            td.life { (marks(event)) }
            td { (next(event, now)) }
            td.error {
                @if let Some(error_type) = error_type { strong { (Untrusted(&shortened(error_type, MESSAGE_MAX))) } }
                @if let Some(message) = message { " " (Untrusted(&shortened(message, MESSAGE_MAX))) }
            }
        }
    }
}

pub fn path(id: &str) -> String {
    let id: String = form_urlencoded::byte_serialize(id.as_bytes()).collect();
    format!("/events/{id}")
}

/// A mark for each step of an event. If there are too many, the last ones are shown.
fn marks(event: &Event) -> Markup {
    const MARKS_MAX: usize = 16;
    let sign = |step: &Step| match &step.what {
        StepKind::Failed { .. } => Some(("bad", "✗")),
        StepKind::Retried { .. } => Some(("busy", "↻")),
        StepKind::Succeeded => Some(("good", "✓")),
        StepKind::GivenUp { .. } => Some(("bad", "■")),
        StepKind::Waits { .. } | StepKind::Dropped | StepKind::Trouble { .. } => None,
    };
    let signs: Vec<_> = event.steps.iter().filter_map(sign).collect();
    let failed = signs.iter().filter(|(_, sign)| *sign == "✗").count();
    let label = format!("{failed} failed runs, {} retries", event.retries());
    html! {
        span.marks role="img" aria-label=(label) {
            @if signs.len() > MARKS_MAX { "…" }
            @for (class, sign) in &signs[signs.len().saturating_sub(MARKS_MAX)..] {
                span class=(class) { (sign) }
            }
        }
    }
}

fn next(event: &Event, now: Timestamp) -> Markup {
    if event.running.is_some() {
        return html! { "runs now" };
    }
    match event.next() {
        Next::Waits { until: at } if at > now => {
            html! { "attempt " (event.retries() + 1) " " (until(at, now)) }
        }
        Next::Waits { .. } => html! { "attempt " (event.retries() + 1) " is due now" },
        Next::Retried => html! { "runs, or has succeeded" },
        Next::Succeeded => html! { "done" },
        Next::GivenUp { reason } => html! { "dead letter: " (Untrusted(&reason)) },
        Next::Unknown => html! { "unknown" },
    }
}

/// The page of a single event, with its life.
pub fn life(live: &Live, seen: &Seen, id: &str, policy: Option<&Policy>, now: Timestamp) -> Markup {
    let Some(event) = seen.events.get(id) else {
        return html! {
            p { "Nothing is known about this event. This page keeps the latest events that it has seen." }
            pre { "comeback trace " (Untrusted(id)) }
        };
    };
    let query = |what: &str| {
        let params = Params::default().with("do", what).with("id", id);
        params.with("function", &event.function)
    };
    html! {
        dl.facts {
            dt { "Function" } dd { (Untrusted(&event.function)) }
            dt { "State" } dd { (state(event.state())) " " (next(event, now)) }
            dt { "Request id" } dd { code { (Untrusted(&event.id)) } }
            dt { "Began" } dd { (until(event.began, now)) }
        }
        @if event.state() == State::Waiting {
            p.actions {
                @if seen.has_register() {
                    (order("Retry now…", &query("retry"))) " "
                    (order("Cancel…", &query("cancel")))
                } @else {
                    span.faint { "With a register (" code { "REGISTER=true" } ") it could be retried now, or cancelled." }
                }
            }
        }
        @if event.state() == State::GivenUp {
            p.actions { a.button href=(format!("/dead?{}", Params::default().with("id", id))) { "See its dead letter" } }
        }
        ol.timeline {
            @for step in &event.steps { li { (describe(event, step, policy)) } }
            @if let Some(request) = &event.running { li.busy { p { strong { "runs" } " as request " code { (Untrusted(request)) } } } }
        }
        (envelope(live, event))
    }
}

fn describe(event: &Event, step: &Step, policy: Option<&Policy>) -> Markup {
    let attempt = step.attempt.unwrap_or_default();
    let after = span(between(event.began, step.at).as_secs_f64());
    let (class, name) = match &step.what {
        StepKind::Failed { .. } => ("bad", "failed"),
        StepKind::Waits { .. } => ("waits", "waits"),
        StepKind::Retried { .. } => ("busy", "retried"),
        StepKind::Succeeded => ("good", "succeeded"),
        StepKind::GivenUp { .. } => ("bad", "given up"),
        StepKind::Dropped => ("faint", "dropped"),
        StepKind::Trouble { .. } => ("bad", "trouble"),
    };
    html! {
        p {
            time datetime=(rfc3339(step.at)) title=(rfc3339(step.at)) { "+" (after) } " "
            strong class=(class) { (name) } " "
            @match &step.what {
                StepKind::Failed { error_type, error_message } => {
                    @if attempt <= 1 { "the first run: " } @else { "attempt " (attempt - 1) ": " }
                    (Untrusted(error_type.as_deref().unwrap_or("no error type")))
                    @if let Some(message) = error_message { br; q { (Untrusted(message)) } }
                }
                StepKind::Waits { due_at, until, again } => {
                    (span(between(step.at, *until).as_secs_f64())) ", for attempt " (attempt)
                    @if let Some(due) = due_at { ", due at " (rfc3339(*due)) }
                    @if *again > 0 { "; came back " (again) @if *again == 1 { " time" } @else { " times" } }
                    (drawn(step, attempt, policy))
                }
                StepKind::Retried { late_ms } => {
                    "attempt " (attempt) ", " (span(*late_ms as f64 / 1000.0)) " after it was due"
                }
                StepKind::Succeeded => { @if attempt == 0 { "in the first run" } @else { "in attempt " (attempt) } }
                StepKind::GivenUp { reason } => { "with the reason " code { (Untrusted(reason)) } }
                StepKind::Dropped => "a message whose failure was already acted on",
                StepKind::Trouble { said, error } => {
                    (Untrusted(said)) @if let Some(error) = error { ": " (Untrusted(error)) }
                }
            }
        }
    }
}

/// The delay that the jitter drew, and its range, computed with the handler's own code.
fn drawn(step: &Step, attempt: u32, policy: Option<&Policy>) -> Markup {
    let (Some(policy), Some(nth)) = (policy, Attempt::new(attempt)) else { return html! {} };
    let backoff = policy.backoff;
    let ceiling = backoff.ceiling(nth);
    let least = match backoff.jitter {
        Jitter::Full => backoff.base.min(ceiling),
        Jitter::Equal => ceiling / 2,
        Jitter::None => ceiling,
    };
    let value = backoff.delay(nth, Draw::seeded(&step.request_id, attempt));
    let text = |it: std::time::Duration| span(it.as_secs_f64());
    html! {
        br;
        span.faint {
            "The " (term("draw", "A random wait, so that events that failed together do not come back together."))
            " was " (text(value)) ", from " (text(least)) " to " (text(ceiling)) "."
        }
    }
}

/// The envelope of the last attempt, without the payload.
fn envelope(live: &Live, event: &Event) -> Markup {
    let attempt = event.retries();
    html! {
        @if attempt > 0 {
            h2 { "What attempt " (attempt) " was given" }
            pre {
                "{\n  \"_retry_metadata\": {\"attempt\": " (attempt) ", \"request_id\": \"" (Untrusted(&event.id)) "\", …},\n  \"_original_payload\": …\n}"
            }
        }
        @if live.is_local() {
            p { a.button href=(format!("{}/payload", path(&event.id))) { "Show the payload of each run" } }
        } @else {
            p.faint { "AWS shows no payload of an event that waits. That of a dead letter is in its letter." }
        }
    }
}

/// The name of the function of an event, without its qualifier.
pub fn function_of(seen: &Seen, id: &str) -> Option<String> {
    let name = &seen.events.get(id)?.function;
    Some(bare_name(name).split(':').next().unwrap_or(name).to_owned())
}
