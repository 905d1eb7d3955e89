//! The page of a single event: its life as a waterfall.

use std::time::Duration;

use comeback_core::{
    Attempt, Timestamp,
    backoff::{Draw, Jitter},
    error_type::ErrorReport,
    record::Condition,
    settings::policy::Policy,
    time::{between, later, rfc3339},
};
use maud::{Markup, html};

use super::{
    events,
    html::{Params, Untrusted, attempt_at, order_links, state, term, until},
    live::Seen,
};

use crate::{
    account::names::{is_queue, source_name},
    aws::connect::Connection,
    life::{Next, refusal},
    operate::{
        attempts::{Attempted, are_slivers, attempts},
        doctor::{
            rules::fix::{Fix, word},
            shows::command,
        },
        order::Noun,
        plot::Axis,
        web::rules::{Event, State, remedy},
    },
    text::{counted, shortened, span},
};

/// How many characters of an error type a row of the waterfall has.
const ERROR_MAX: usize = 24;

const ROWS_MAX: usize = 50;

const TICKS_MAX: f64 = 6.0;

/// What an event does now: `orders · attempt 5 in 2 s`.
pub fn heading(seen: &Seen, id: &str, now: Timestamp) -> Markup {
    let Some(event) = seen.events.get(id) else { return html! { "An event" } };
    let attempt = event.attempt();
    html! {
        (Untrusted(&event.function)) " · "
        @match event.state() {
            State::Waiting => { (events::next(seen, event, now)) },
            State::AtLambda if attempt == 0 => "queued at Lambda",
            State::AtLambda => { "attempt " (attempt) " is queued at Lambda" },
            State::Running if attempt == 0 => "runs",
            State::Running => { "attempt " (attempt) " runs" },
            State::Queued if event.not_run().is_some() => "not run, queued for a retry",
            State::Queued if event.undelivered_by().is_some() => "not delivered, queued",
            State::Queued => "failed, queued for a retry",
            State::Retried => { "attempt " (attempt) " was made" },
            State::Succeeded if attempt == 0 => "succeeded in the first run",
            State::Succeeded => { "succeeded in attempt " (attempt) },
            State::Delivered => "delivered",
            State::GivenUp => { "given up after " (counted(attempt.saturating_sub(1) as u64, "attempt")) },
            State::Unknown => "no result is known",
        }
    }
}

/// The part that is updated: what can be done, and the waterfall.
pub fn life(
    seen: &Seen,
    id: &str,
    policy: Option<&Policy>,
    connection: &Connection,
    params: &Params,
    now: Timestamp,
) -> Markup {
    let Some(event) = seen.events.get(id) else {
        return html! {
            p {
                "Nothing is known about this event. This page keeps the latest events that it has seen; \
                the handler's log may have an older one:"
            }
            pre { "comeback trace " (Untrusted(id)) }
        };
    };
    let [newer, older] = seen.events.neighbours(id, &events::wanted(params));
    // The filter of the list, without what this page shows of an event.
    let list =
        ["run", "payload", "scale"].iter().fold(params.clone(), |list, it| list.with(it, ""));
    let to = |event: &Event| events::path_in(&list, &event.id);
    let order = Params::default().with("id", id).with("function", &event.function);
    html! {
        div.bar {
            p.facts {
                (state(event.state())) " began " (until(event.began, now))
                ", request id " code { (Untrusted(&event.id)) }
            }
            nav.pager aria-label="Other events" {
                a.button href=(format!("/events?{list}")) { "All" }
                @if let Some(event) = newer { " " a.button rel="prev" href=(to(event)) { "← Newer" } }
                @if let Some(event) = older { " " a.button rel="next" href=(to(event)) { "Older →" } }
            }
        }
        @match event.state() {
            State::Waiting if seen.has_register() => p.actions { (order_links(Noun::Event, &order)) },
            State::Waiting => p.faint {
                "With a register (" code { "REGISTER=true" }
                ") it could be retried now, or cancelled."
            },
            State::GivenUp => p.actions {
                a.button href=(format!("/dead?{}", Params::default().with("id", id))) {
                    "See its dead letter"
                }
            },
            State::AtLambda | State::Running | State::Queued | State::Retried | State::Succeeded | State::Delivered | State::Unknown => {}
        }
        (obstacle(event, now))
        (refused(seen, event, connection, now))
        (waterfall(seen, event, policy, params, now))
    }
}

/// Why the handler could not act on the event, and what to do about it.
fn obstacle(event: &Event, now: Timestamp) -> Markup {
    let all: Vec<_> = event.obstacles().collect();
    let Some((at, said, error)) = all.first() else { return html! {} };
    html! {
        div.notice.bad role="alert" { div {
            p {
                strong { "The retry handler could not act on it" }
                @if all.len() > 1 { ", " (all.len()) " times" } ", the last time " (until(*at, now))
                ": " (Untrusted(said)) "."
            }
            @if let Some(error) = error { p { q { (Untrusted(error)) } } }
            p { (remedy(error.unwrap_or_default())) }
        } }
    }
}

/// That Lambda refuses to run the event's function, since when, and what to type.
fn refused(seen: &Seen, event: &Event, connection: &Connection, now: Timestamp) -> Markup {
    let is_waiting = matches!(event.state(), State::Waiting | State::Queued);
    let Some(condition) = event.not_run().filter(|_| is_waiting) else { return html! {} };
    let name = &event.function;
    // A reservation is of a function, not of its versions and aliases.
    let function = name.split(':').next().unwrap_or(name);
    let since = seen.events.refused_since(name).filter(|_| condition == Condition::PAUSED);
    html! {
        div.notice.waits role="status" { div {
            p {
                strong { @if event.failures() == 0 { "It" } @else { "Its last attempt" } " has not run" } ". "
                (Untrusted(&refusal(condition))) "."
            }
            @if let Some(since) = since {
                p {
                    "Lambda has refused all events of " (Untrusted(name)) " for "
                    (span(between(since, now).as_secs_f64().floor())) ", since " (rfc3339(since))
                    ". That is no failure of the function, and no attempt is counted. Each event is tried again \
                    after at most 15 minutes. To let it run again:"
                }
                @let fix = Fix::ByHand(format!("aws lambda delete-function-concurrency --function-name {}", word(function)));
                div.copy {
                    pre #refused-fix tabindex="0" { (Untrusted(&command(&fix, connection))) }
                    button type="button" data-copy="refused-fix" { "Copy" span.hidden { " the command" } }
                }
            } @else if condition == Condition::PAUSED {
                p { (Untrusted(name)) " runs again. This event is tried again when it is due." }
            }
        } }
    }
}

/// The axis of time and where it begins.
struct Time(Timestamp, Axis);

impl Time {
    fn at(&self, at: Timestamp) -> f64 {
        self.1.at(between(self.0, at).as_secs_f64()).min(100.0)
    }
}

/// The scales of the axis of time: the name in the address, and in a sentence.
const LINEAR: (&str, &str) = ("linear", "linear");
const LOG: (&str, &str) = ("log", "logarithmic");

fn waterfall(
    seen: &Seen,
    event: &Event,
    policy: Option<&Policy>,
    params: &Params,
    now: Timestamp,
) -> Markup {
    let all = attempts(event.began, &event.steps);
    let is_over = matches!(
        event.state(),
        State::Succeeded | State::Delivered | State::GivenUp | State::Retried | State::Unknown
    );
    let ends = all.iter().flat_map(|it| {
        let given_up = it.given_up.as_ref().map(|(at, _)| *at);
        [Some(it.began), it.ended, it.wait.map(|wait| wait.until), given_up]
    });
    let end = ends.flatten().chain((!is_over).then_some(now)).max().unwrap_or(now);
    let length = between(event.began, end).as_secs_f64().max(0.1);
    let is_log = params.get("scale").map_or(are_slivers(&all, length), |scale| scale == LOG.0);
    let end = length * 1.02;
    let axis = if is_log { Axis::log_time(end) } else { Axis::time(end, TICKS_MAX) };
    let time = Time(event.began, axis);
    let [(_, is), (other, name)] = if is_log { [LOG, LINEAR] } else { [LINEAR, LOG] };
    let chosen = params.number::<usize>("run");
    let hidden = all.len().saturating_sub(ROWS_MAX);
    let has_not_run = all.iter().any(|it| it.not_run.is_some());
    html! {
        @if hidden > 0 { p.faint { "The latest " (ROWS_MAX) " of " (all.len()) " runs." } }
        div.legend {
            span.key.bad { "failed run" } span.key.good { "successful run" }
            @if has_not_run { span.key.refused { "not run" } }
            span.key.queued { "queued at Lambda" }
            span.key.passed { "waited" } span.key.wait { "still to wait" } span.key.due { "due" }
            span.scale {
                "Time since the first run, " (is) ". "
                @if all.len() > 1 { a href=(format!("?{}", params.with("scale", other))) { "Show it " (name) } }
            }
        }
        ol.waterfall {
            li.axis aria-hidden="true" {
                span {}
                svg width="100%" height="20" { @for (at, name) in time.1.ticks() {
                    text x=(percent(at)) y="14" { @if at == 0.0 && !is_log { "0" } @else { (name) } }
                } }
            }
            @for (nth, it) in all.iter().enumerate().skip(hidden) {
                @let label = match it.attempt {
                    0 if it.undelivered_by.is_some() => "not delivered".to_owned(),
                    0 => "first run".to_owned(),
                    attempt => format!("attempt {attempt}"),
                };
                @let is_last = nth + 1 == all.len();
                li id=(format!("run-{nth}")) {
                    a href=(format!("?{}#panel", params.with("run", &nth.to_string()).with("payload", "")))
                        aria-current=[(chosen == Some(nth)).then_some("true")]
                        aria-describedby=(format!("tip-{nth}")) {
                        span.label { (label) }
                        svg width="100%" height="32" aria-hidden="true" {
                            @for (at, _) in time.1.ticks() {
                                @let x = percent(at);
                                line x1=(x) x2=(x) y1="0" y2="32" {}
                            }
                            (bars(event, it, is_last, &time, now))
                        }
                        span.result { (result(seen, event, it, is_last, now)) }
                    }
                    div.tip id=(format!("tip-{nth}")) role="tooltip" { (tip(event, it, policy)) }
                }
            }
        }
    }
}

fn percent(value: f64) -> String {
    format!("{value:.2}%")
}

/// The bar of a run, and that of the wait after it, with a mark at its due time.
fn bars(event: &Event, it: &Attempted, is_last: bool, time: &Time, now: Timestamp) -> Markup {
    let bar = |class: &str, from: Timestamp, to: Timestamp| {
        let (from, to) = (time.at(from), time.at(to));
        html! { rect class=(class) x=(percent(from)) y="9" height="14" rx="2" width=(percent((to - from).max(0.6))) {} }
    };
    let running = event.running.as_ref().filter(|_| is_last);
    let request_id = running.map(|it| &**it).or(it.request_id.as_deref());
    let started = event.started.iter().find(|(run, _)| Some(&**run) == request_id);
    let started = started.map(|(_, at)| *at);
    // Until it has started it was queued. Without a report of that, nobody knows how long it ran.
    let ran_from = |until: Timestamp| started.unwrap_or(until).max(it.began);
    html! {
        @if let Some(wait) = it.wait {
            @let from = it.ended.unwrap_or(wait.from);
            // It may have been given up before.
            @let until = it.given_up.as_ref().map_or(wait.until, |(at, _)| wait.until.min(*at));
            @if until > now { (bar("wait", from.max(now), until)) }
            @if now > from { (bar("passed", from, until.min(now))) }
            @if let Some(due) = wait.due_at {
                @let x = percent(time.at(due));
                line.due x1=(x) x2=(x) y1="6" y2="26" {}
            }
        }
        @let queued_until = match (it.ended, &it.not_run) {
            (Some(ended), Some(_)) => ended,
            (Some(ended), None) => ran_from(ended),
            (None, _) if running.is_some() => ran_from(now),
            (None, _) if is_last && event.queued.is_some() => now,
            (None, _) => it.began,
        };
        @if queued_until > it.began { (bar("queued", it.began, queued_until)) }
        @match it.ended {
            Some(ended) if it.not_run.is_some() => (bar("refused", ended, ended)),
            Some(ended) if it.error.is_some() => (bar("bad", ran_from(ended), ended)),
            Some(ended) => (bar("good", ran_from(ended), ended)),
            None if is_last && event.queued.is_some() => {}
            None => (bar("busy", queued_until, if running.is_some() { now } else { queued_until })),
        }
        @for note in it.notes.iter().filter(|note| note.blocks) {
            text.bad x=(percent(time.at(note.at))) y="21" dx="-3" { "!" }
        }
        @if let Some((at, _)) = &it.given_up {
            text.bad x=(percent(time.at(*at))) y="21" dx="6" { "■" }
        }
    }
}

/// The end of a row: the error, or what happens next.
fn result(seen: &Seen, event: &Event, it: &Attempted, is_last: bool, now: Timestamp) -> Markup {
    let Some(ended) = it.ended else {
        return html! {
            @if is_last && event.running.is_some() {
                span.busy { "runs" }
            } @else if is_last && event.queued.is_some() {
                span.faint { "queued at Lambda" }
            } @else {
                span.faint { "runs, or has succeeded" }
            }
        };
    };
    let took = span(between(it.began, ended).as_secs_f64());
    let ended = match (&it.error, &it.not_run) {
        (_, Some(_)) => html! { span { "⊘ not run" } },
        (Some((error_type, _)), None) => {
            let error_type = error_type.as_deref().unwrap_or("failed");
            html! { span.bad { "✗ " (Untrusted(&shortened(error_type, ERROR_MAX))) } }
        }
        (None, None) if it.is_delivered => return html! { span.good { "✓ delivered" } },
        (None, None) => return html! { span.good { "✓ " (took) } },
    };
    html! {
        (ended) " "
        @match (&it.given_up, it.wait) {
            (Some((_, reason)), _) => strong { "given up: " (Untrusted(reason)) },
            (None, Some(wait)) if is_last && matches!(event.next(), Next::Waits { .. }) => {
                @if event.obstacles().next().is_some() { strong.bad { "! blocked" } ", " }
                strong {
                    @if seen.is_paused(&event.function) { "paused" } @else { (attempt_at(wait.until, now)) }
                }
            },
            (None, Some(wait)) => span.faint { "waited " (span(between(wait.from, wait.until).as_secs_f64())) },
            (None, None) => {}
        }
    }
}

/// All that is known of an attempt, shown while the pointer or the focus is on its row.
fn tip(event: &Event, it: &Attempted, policy: Option<&Policy>) -> Markup {
    let after = |at: Timestamp| format!("+{}", span(between(event.began, at).as_secs_f64()));
    html! {
        p {
            "began " (after(it.began))
            @if let Some(late) = it.late_ms { ", " (span(late as f64 / 1000.0)) " after it was due" }
            @if let Some(ended) = it.ended { ", ended " (after(ended)) }
        }
        @if let Some(condition) = &it.not_run { p { strong { (Untrusted(&refusal(condition))) } } }
        @if let Some(source) = &it.undelivered_by { p { strong { "never delivered by " (Untrusted(&source_name(source))) } } }
        @if let Some((error_type, message)) = &it.error {
            p { strong { (Untrusted(error_type.as_deref().unwrap_or("no error type"))) }
                @if let Some(message) = message { br; q { (Untrusted(message)) } } }
        }
        @if let Some(wait) = it.wait {
            p {
                "then waits " (span(between(wait.from, wait.until).as_secs_f64()))
                @if let Some(due) = wait.due_at { ", due at " (rfc3339(due)) }
                @if wait.again > 0 {
                    "; came back " (counted(wait.again.into(), "time")) " before"
                }
            }
            (drawn(it, policy))
        }
        @for note in &it.notes {
            p {
                (Untrusted(&note.text))
                @if let Some(error) = &note.error { ": " (Untrusted(error)) }
            }
        }
    }
}

/// How far a due time may be from a draw that made it: the handler's log and the failure record have other clocks.
const DRAW_SLACK: Duration = Duration::from_secs(1);

/// The delay that the jitter drew, and its range, computed with the handler's own code. Nothing if something else made
/// the wait: a refusal of Lambda, or the time that the function asked for.
fn drawn(it: &Attempted, policy: Option<&Policy>) -> Markup {
    if it.not_run.as_deref() == Some(Condition::PAUSED) {
        return html! { p.faint { "No attempt is counted, and the policy's backoff doesn't apply." } };
    }
    let next = it.attempt + 1;
    let (Some(policy), Some(nth), Some(request)) = (policy, Attempt::new(next), &it.request_id)
    else {
        return html! {};
    };
    let error_type = it.error.as_ref().and_then(|(error_type, _)| error_type.clone());
    let own = policy.of_error(&ErrorReport { error_type, message: None });
    let policy = own.map_or(policy, |own| &own.policy);
    let ceiling = policy.ceiling(nth);
    let least = match policy.backoff.jitter {
        Jitter::Full => policy.shortest().min(ceiling),
        Jitter::Equal => ceiling / 2,
        Jitter::None => ceiling,
    };
    let value = policy.delay(nth, Draw::seeded(request, next));
    let due = it.wait.and_then(|wait| wait.due_at);
    let is_own =
        it.ended.zip(due).is_none_or(|(ended, due)| due <= later(ended, value + DRAW_SLACK));
    if !is_own {
        return html! {};
    }
    let text = |it: Duration| span(it.as_secs_f64());
    html! {
        p.faint {
            "The " (term("draw", "A random wait, so that events that failed together do not come back together."))
            " was " (text(value)) ", from " (text(least)) " to " (text(ceiling))
            @if let Some(own) = own { ", by " (Untrusted(&own.name)) }
            "."
        }
    }
}

/// The function of an event, without its qualifier, or its queue, as policies name it.
pub fn function_of(seen: &Seen, id: &str) -> Option<String> {
    let name = &seen.events.get(id)?.function;
    let function = if is_queue(name) { Some(&**name) } else { name.split(':').next() };
    function.map(str::to_owned)
}
