//! The list of events.

use std::collections::BTreeSet;

use comeback_core::Timestamp;
use maud::{Markup, html};

use super::{
    html::{
        ID_MAX, MESSAGE_MAX, Params, Untrusted, attempt_at, order_form, order_links, state, term,
        until,
    },
    live::Seen,
};

use crate::{
    account::names::is_queue,
    life::{Next, refusal},
    operate::{
        order::Noun,
        web::rules::{Event, EventFilter, State},
    },
    text::{count, counted, events, noun, shortened},
    typed::NONE,
};

/// The number of events on a page of the list, of which a screen shows about thirty.
const LENGTH: usize = 50;

const GROUPS_MAX: usize = 200;
const CHOICES_MAX: usize = 200;

/// Where a text is searched. An event's page shows its payload, but no index of payloads is kept.
const SEARCHED: &str = "The text is searched in request ids, function names, error types and error messages. \
    Ids in payloads, such as that of an order, are not found.";

pub fn wanted(params: &Params) -> EventFilter {
    let state = params.get("state");
    EventFilter {
        function: params.text("function"),
        state: State::ALL.into_iter().find(|(_, name)| Some(*name) == state).map(|(it, _)| it),
        error: params.text("error"),
        text: params.text("text"),
    }
}

/// The form for the filter. It is not updated live, and the page's script sends it while somebody types.
pub fn form<'a>(seen: &'a Seen, params: &'a Params) -> Markup {
    let [functions, errors] = seen.events.choices();
    let states = State::ALL.into_iter().map(|(_, name)| name);
    html! {
        form.filter method="get" action="/events" role="search" data-filter {
            (choice(params, "function", "every function", functions))
            (choice(params, "state", "every state", states))
            (choice(params, "error", "every error", errors.into_iter().chain([NONE])))
            input name="text" type="search" value=(params.get("text").unwrap_or_default())
                data-focus="/" autocomplete="off" placeholder="Text, in a request id or an error ( / )"
                aria-label="text" title=(SEARCHED);
            label.check {
                input name="group" type="checkbox" value="error"
                    checked[params.get("group") == Some("error")];
                " by error"
            }
            button { "Show" }
        }
    }
}

fn choice<'a>(
    params: &'a Params,
    name: &str,
    any: &str,
    of: impl IntoIterator<Item = &'a str>,
) -> Markup {
    let chosen = params.get(name);
    let of: BTreeSet<_> = of.into_iter().take(CHOICES_MAX).chain(chosen).collect();
    html! {
        select name=(name) aria-label=(name) {
            option value="" { (any) }
            @for it in of {
                option value=(it) selected[Some(it) == chosen] {
                    (Untrusted(&shortened(it, MESSAGE_MAX)))
                }
            }
        }
    }
}

pub fn list(seen: &Seen, params: &Params, now: Timestamp) -> Markup {
    let wanted = wanted(params);
    if params.get("group") == Some("error") {
        return grouped(seen, &wanted, params, now);
    }
    let page = seen.events.page(&wanted, params.number("from"), LENGTH);
    let to = |from: Option<usize>| {
        let from = from.map(|from| from.to_string()).unwrap_or_default();
        format!("/events?{}", params.with("from", &from))
    };
    let [first, last] = [1, page.events.len()].map(|nth| count((page.later + nth) as u64));
    html! {
        @if page.of == 0 {
            p {
                @if seen.events.is_empty() {
                    "No event has failed yet."
                } @else {
                    "No event meets the filter. " a href="/events" { "Show all" }
                }
            }
            @if wanted.text.is_some() { p.faint { (SEARCHED) } }
        } @else {
            div.bar {
                (orders(seen, &wanted))
                nav.pager aria-label="More events" {
                    span { (first) " to " (last) " of " (events(page.of as u64)) }
                    @if page.later > LENGTH { " " a.button href=(to(None)) { "Latest" } }
                    @if page.later > 0 {
                        " "
                        a.button rel="prev" href=(to(page.newer.filter(|_| page.later > LENGTH))) {
                            "Newer"
                        }
                    }
                    @if page.older.is_some() { " " a.button rel="next" href=(to(page.older)) { "Older" } }
                }
            }
            (table(seen, &page.events, Some(params), now))
        }
    }
}

fn orders(seen: &Seen, wanted: &EventFilter) -> Markup {
    if wanted.state.is_some_and(|state| state != State::Waiting) {
        return html! { p {} };
    }
    if !seen.has_register() {
        return html! {
            p.faint {
                "With a register (" code { "REGISTER=true" }
                ") waiting events can be retried now, or cancelled."
            }
        };
    }
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let params = Params::default().with("function", &text(&wanted.function));
    let params = params.with("error", &text(&wanted.error));
    let every = html! {
        @if wanted.text.is_none() {
            span.every { "All that wait:" (order_links(Noun::Event, &params)) }
        }
    };
    order_form(Noun::Event, &every)
}

fn grouped(seen: &Seen, wanted: &EventFilter, params: &Params, now: Timestamp) -> Markup {
    let groups = seen.events.groups(wanted);
    let groups = groups.largest_first();
    let query = |key: &[String]| {
        let params = params.with("group", "").with("function", &key[0]).with("error", &key[1]);
        params.with("state", &key[2]).to_string()
    };
    html! {
        p { (counted(groups.len() as u64, "group")) }
        div.wide { table.groups {
            thead { tr {
                th { "Function or queue" } th { "Error" } th { "State" } th.number { "Events" } th { "Latest" }
            } }
            tbody { @for (key, group) in groups.iter().take(GROUPS_MAX) {
                tr {
                    th scope="row" { (Untrusted(&key[0])) }
                    td { a href=(format!("/events?{}", query(key))) { (Untrusted(&key[1])) } }
                    td { (key[2]) }
                    td.number { (count(group.count)) span.unit { " " (noun(group.count, "event")) } }
                    td { @if let Some(at) = group.last_at { span.unit { "latest " } (until(at, now)) } }
                }
            } }
        } }
    }
}

/// A table of events. In a list, which has parameters, it has boxes to select events for an order.
pub fn table(seen: &Seen, events: &[&Event], list: Option<&Params>, now: Timestamp) -> Markup {
    let has_orders = list.is_some() && seen.has_register();
    // The page of an event leads to the next one that the list has.
    let list = list.map(|params| params.with("from", "").with("group", "")).unwrap_or_default();
    // Nobody is told why the consumer of a queue failed, unless it is a function of the local cloud.
    let has_error = |it: &&Event| !is_queue(&it.function) || it.error() != (None, None);
    let has_errors = events.iter().any(has_error);
    let boxes = (has_orders, has_errors);
    html! {
        div.wide { table.events {
            colgroup {
                @if has_orders { col.choose; }
                col.began; col.id; col.function; col.pill; col.life; col.next; @if has_errors { col; }
            }
            thead { tr {
                @if has_orders { td.choose { input type="checkbox" data-all aria-label="select all that wait"; } }
                th { "Began" } th { "Event" } th { "Function or queue" } th { "State" }
                th {
                    (term(
                        "Life",
                        "✗×5 is five failed runs, ⊘ one that Lambda refused, ✓ a success, ■ a dead letter.",
                    ))
                }
                th { "What happens next" }
                @if has_errors { th { "Last error" } }
            } }
            tbody { @for event in events { (row(seen, event, &list, boxes, now)) } }
        } }
    }
}

fn row(
    seen: &Seen,
    event: &Event,
    list: &Params,
    (has_orders, has_errors): (bool, bool),
    now: Timestamp,
) -> Markup {
    let (error_type, message) = event.error();
    let id = shortened(&event.id, ID_MAX);
    html! {
        tr id=(format!("event-{}", event.id)) {
            @if has_orders {
                td.choose { @if event.state() == State::Waiting {
                    label {
                        input type="checkbox" form="chosen" name="id" value=(event.id)
                            aria-label=(format!("select {id}"));
                    }
                } }
            }
            td.when { (until(event.began, now)) }
            th scope="row" { a href=(path_in(list, &event.id)) title=(event.id) { (Untrusted(&id)) } }
            td.name title=(event.function) { (Untrusted(&event.function)) }
            td { (state(event.state())) }
            td { (marks(event)) }
            td.next { (next(seen, event, now)) }
            @if has_errors {
                td.error {
                    @if let Some(error_type) = error_type {
                        strong { (Untrusted(&shortened(error_type, MESSAGE_MAX))) }
                    }
                    @if let Some(message) = message { " " (Untrusted(&shortened(message, MESSAGE_MAX))) }
                    @if let Some(condition) = event.not_run() { strong { "not run" } " " (Untrusted(&refusal(condition))) }
                }
            }
        }
    }
}

pub fn path(id: &str) -> String {
    let id: String = form_urlencoded::byte_serialize(id.as_bytes()).collect();
    format!("/events/{id}")
}

/// The path of an event in the list with these parameters.
pub fn path_in(list: &Params, id: &str) -> String {
    let query = list.to_string();
    if query.is_empty() { path(id) } else { format!("{}?{query}", path(id)) }
}

/// The id in the last step of an event's path, the reverse of [`path`].
pub fn id_of(step: &str) -> String {
    let id = form_urlencoded::parse(step.as_bytes()).next();
    id.map(|(id, _)| id.into_owned()).unwrap_or_default()
}

/// The life of an event in a few characters: how often it has failed or was not run, and how it ended.
fn marks(event: &Event) -> Markup {
    let (failed, refused) = (event.failures(), event.refusals());
    let end = match event.state() {
        State::Succeeded | State::Delivered => Some(("good", "✓")),
        State::GivenUp => Some(("bad", "■")),
        State::AtLambda | State::Running | State::Retried => Some(("busy", "↻")),
        State::Queued | State::Waiting | State::Unknown => None,
    };
    let runs = counted(failed as u64, "failed run");
    let not_run = format!(", {} not run", counted(refused as u64, "time"));
    let not_run = if refused > 0 { &*not_run } else { "" };
    html! {
        span.marks role="img" aria-label=(format!("{runs}{not_run}, {}", event.state().name())) {
            @if refused > 0 { span.faint { "⊘" @if refused > 1 { "×" (refused) } } " " }
            @if failed > 0 { span.bad { "✗" @if failed > 1 { "×" (failed) } } " " }
            @if let Some((class, sign)) = end { span class=(class) { (sign) } }
        }
    }
}

pub fn next(seen: &Seen, event: &Event, now: Timestamp) -> Markup {
    let attempt = event.attempt();
    match event.state() {
        State::AtLambda if attempt == 0 => html! { "its first run" },
        State::AtLambda => {
            html! { "attempt " (attempt) " is queued" }
        }
        State::Running => html! { "runs now" },
        State::Queued if event.not_run().is_some() => html! { "not run, queued for a retry" },
        State::Queued if event.undelivered_by().is_some() => html! { "not delivered, queued" },
        State::Queued => html! { "failed, queued for a retry" },
        State::Waiting if seen.is_paused(&event.function) => {
            html! { "attempt " (attempt) " after the pause" }
        }
        State::Waiting => {
            let Next::Waits { until } = event.next() else { return html! {} };
            html! {
                "attempt " (attempt) " "
                @if event.obstacles().next().is_some() { strong.bad { "could not be made" } ", again " }
                (attempt_at(until, now))
            }
        }
        State::Retried => html! { "runs, or has succeeded" },
        State::Succeeded | State::Delivered => html! { "done" },
        State::GivenUp => {
            let Next::GivenUp { reason } = event.next() else { return html! {} };
            html! { "dead letter: " (Untrusted(&reason)) }
        }
        State::Unknown => html! { "no result was reported" },
    }
}
