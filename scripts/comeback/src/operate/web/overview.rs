//! The overview: the loop as a band, the health, the functions and the latest events. All numbers are of one snapshot.

use std::collections::BTreeMap;

use comeback_core::{Timestamp, time::between};
use maud::{Markup, html};

use super::{
    events, health,
    html::{Params, Untrusted, attempt_at, csrf, term, until},
    live::{Live, Seen},
};
use crate::operate::{
    rules::target_name,
    status::{
        rules::{Facts, State as FunctionState},
        state,
    },
    text::{count, span},
    web::rules::{Counts, EventFilter, PARTS, Pulse, Range, Waiting, as_of_now},
};

const EVENTS: usize = 10;

/// The height of either half of a sparkline.
const SPARK: u32 = 14;

struct Row {
    facts: Facts,
    pulse: Pulse,
    waiting: Waiting,
}

pub fn parts(
    live: &Live,
    seen: &Seen,
    params: &Params,
    now: Timestamp,
) -> Vec<(&'static str, Markup)> {
    let named = params.get("range");
    let range = Range::ALL.into_iter().find(|(_, name)| Some(*name) == named);
    let (range, name) = range.unwrap_or(Range::ALL[0]);
    let snapshot = &seen.snapshot;
    let at = snapshot.at.unwrap_or(now);
    let rows = snapshot.functions.iter().map(|facts| {
        let function = &*target_name(&facts.function);
        let waiting = snapshot.waiting.get(function).cloned().unwrap_or_default();
        let minute = seen.events.pulse(Some(function), Range::Minute, at).sum();
        let facts = as_of_now(facts, minute, waiting.events, live.is_local());
        Row { facts, pulse: seen.events.pulse(Some(function), range, at), waiting }
    });
    let mut rows: Vec<Row> = rows.collect();
    rows.sort_by_cached_key(|it| (it.facts.state(), it.facts.function.clone()));
    let first = seen.events.is_empty();
    vec![
        ("loop", band(seen, &rows, (range, name), now)),
        ("health", health::line(seen, now)),
        ("start", html! { @if first { (nothing_yet(live, seen)) } }),
        ("functions", functions(live, seen, &rows, now)),
        ("latest", html! { @if !first { (latest(seen, now)) } }),
    ]
}

/// The stations of the loop in a line, with their numbers, and the choice of the range.
fn band(seen: &Seen, rows: &[Row], (range, name): (Range, &str), now: Timestamp) -> Markup {
    let snapshot = &seen.snapshot;
    let Some(at) = snapshot.at else { return html! { p.faint { "Looking…" } } };
    let failing = rows.iter().filter(|it| it.facts.state() <= FunctionState::Failing).count();
    // Functions that share a queue all have the numbers of that queue. Count it once.
    let queues: BTreeMap<_, _> = snapshot.functions.iter().map(|it| (&it.queue, it)).collect();
    let sum = |of: fn(&Facts) -> u64| queues.values().map(|it| of(it)).sum::<u64>();
    let (in_queues, delayed) = (sum(Facts::waiting), sum(|it| it.delayed));
    let [_, retried, succeeded, given_up] = seen.events.pulse(None, range, at).sum();
    let next = snapshot.waiting.values().filter_map(|it| it.next).min();
    let number = |number: u64| html! { strong { (count(number)) } " " };
    html! {
        ol.loop aria-label="The loop" {
            li {
                (number(rows.len() as u64)) @if rows.len() == 1 { "function" } @else { "functions" }
                small class=(if failing > 0 { "bad" } else { "" }) { @if failing > 0 { (count(failing as u64)) " failing" } @else { "none is failing" } }
            }
            li {
                (number(in_queues)) "in the " (term("retry queue", "An SQS queue: each failed event waits in it until its next attempt is due."))
                small {
                    @match next { Some(at) => { "next " (attempt_at(at, now)) } None => "nothing is due" }
                    @if delayed > 0 { ", " (count(delayed)) " " (term("delayed", "Sent again with a delay, because too many were in flight. They come back every 15 minutes.")) }
                }
            }
            li {
                (number(retried.into())) @if retried == 1 { "retry" } @else { "retries" } " by the " (term("handler", "The Lambda function that decides when an event is tried again, and invokes its function."))
                small { (count(succeeded.into())) " succeeded, " (count(given_up.into())) " given up" }
            }
            li {
                a href="/dead" { (number(snapshot.letters)) @if snapshot.letters == 1 { "dead letter" } @else { "dead letters" } }
                small class=(if snapshot.letters > 0 { "waits" } else { "" }) { @if snapshot.letters > 0 { "kept for 14 days" } @else { "the queue is empty" } }
            }
        }
        p.range {
            span.faint { "Retries, failures and ends in the last " }
            @for (_, it) in Range::ALL {
                a.chip href=(format!("/?{}", Params::default().with("range", it))) aria-current=[(it == name).then_some("true")] { (it) } " "
            }
            span.faint { "All numbers are of one look, " (until(at, now)) "." }
        }
    }
}

fn functions(live: &Live, seen: &Seen, rows: &[Row], now: Timestamp) -> Markup {
    let has_register = seen.has_register();
    html! {
        @if rows.is_empty() {
            @match &seen.handler {
                Some(handler) => p { "No function sends its failures to the retry queues of " (Untrusted(handler.name())) " yet. See " code { "comeback attach" } "." }
                None => p.faint { "Looking for functions…" }
            }
        } @else {
            div.wide { table.functions {
                thead { tr {
                    th { "Function" } th { "State" }
                    th { span.key.failed { "failures" } " " span.key.retried { "retries" } }
                    th.number { @if live.is_local() { (term("Failed", "Failed runs of all runs in the chosen range.")) } @else { (term("Failed, last hour", "Failed runs of all runs, by CloudWatch.")) } }
                    th.number { "Waiting" } th { "Oldest wait" } th { "Next due" }
                    @if has_register { th { span.hidden { "Actions" } } }
                } }
                tbody { @for it in rows { (function(it, live.is_local(), has_register, seen.snapshot.at.unwrap_or(now), now)) } }
            } }
        }
    }
}

fn function(it: &Row, is_local: bool, has_register: bool, at: Timestamp, now: Timestamp) -> Markup {
    let Row { facts, pulse, waiting } = it;
    let name = &*target_name(&facts.function);
    let class = match facts.state() {
        FunctionState::Down | FunctionState::Failing | FunctionState::Stopped => "bad",
        FunctionState::SomeFail | FunctionState::Throttled | FunctionState::Paused => "waits",
        FunctionState::Recovering | FunctionState::Waiting => "busy",
        FunctionState::Well | FunctionState::Idle => "good",
    };
    let is_paused = facts.paused_since.is_some();
    let order = Params::default().with("do", if is_paused { "resume" } else { "pause" });
    let order = order.with("function", &facts.function);
    let [failed, _, succeeded, _] = pulse.sum().map(u64::from);
    let hour = facts.hour;
    let (failed, runs) =
        if is_local { (failed, failed + succeeded) } else { (hour.errors, hour.invocations) };
    html! {
        tr id=(format!("function-{name}")) {
            th scope="row" { a href=(format!("/events?{}", Params::default().with("function", name))) { (Untrusted(name)) } }
            td { span class=(format!("state {class}")) { (state(facts, now)) } }
            td { (sparkline(pulse)) }
            td.number { @if runs > 0 { (count(failed)) " of " (count(runs)) ", " (failed * 100 / runs) " %" } @else { span.faint { "no runs" } } }
            td.number { (count(waiting.events as u64)) span.unit { " waiting" } }
            td { @if let Some(oldest) = waiting.oldest { span.unit { "the oldest for " } (span(between(oldest, at).as_secs_f64().floor())) } }
            td { @if let Some(at) = waiting.next { span.unit { "next " } (attempt_at(at, now)) } }
            @if has_register {
                td { a.button data-ask href=(format!("/confirm?{order}")) {
                    @if is_paused { "Resume" } @else { "Pause" } span.hidden { " " (name) }
                } }
            }
        }
    }
}

/// Bars for each part of the range: failures above, retries below.
fn sparkline(pulse: &Pulse) -> Markup {
    let most = pulse.0.iter().flat_map(|[failed, retried, ..]| [*failed, *retried]).max();
    let most = most.unwrap_or_default().max(1);
    let scaled = |value: u32| if value == 0 { 0 } else { (value * SPARK / most).max(2) };
    let [failed, retried, ..]: Counts = pulse.sum();
    html! {
        svg.spark viewBox=(format!("0 0 {} {}", PARTS * 4, 2 * SPARK + 1)) preserveAspectRatio="none" role="img" aria-label=(format!("{failed} failures, {retried} retries")) {
            line x1="0" x2=(PARTS * 4) y1=(SPARK) y2=(SPARK) {}
            @for (nth, [failed, retried, ..]) in pulse.0.iter().enumerate() {
                @let (failed, retried) = (scaled(*failed), scaled(*retried));
                @if failed > 0 { rect.failed x=(nth * 4) y=(SPARK - failed) width="3" height=(failed) {} }
                @if retried > 0 { rect.retried x=(nth * 4) y=(SPARK + 1) width="3" height=(retried) {} }
            }
        }
    }
}

fn latest(seen: &Seen, now: Timestamp) -> Markup {
    html! {
        h2 { "Latest events that failed" }
        @let failed = EventFilter { has_failed: true, ..EventFilter::default() };
        (events::table(seen, &seen.events.latest(&failed, EVENTS), None, now))
        p { a href="/events" { "All events" } }
    }
}

fn nothing_yet(live: &Live, seen: &Seen) -> Markup {
    let function = seen.snapshot.functions.first().map(|it| target_name(&it.function));
    let endpoint = live.cloud().ok().and_then(|cloud| cloud.connection.local.clone().flatten());
    let command = function.zip(endpoint).map(|(function, endpoint)| format!(
        "echo '{{\"id\":\"order-1\",\"fail\":{{\"attempts\":2}}}}' | AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local aws lambda invoke --endpoint-url {endpoint} --region us-east-1 --function-name {function} --invocation-type Event --payload fileb:///dev/stdin /dev/null"
    ));
    html! {
        section.card.start {
            p.large { "No event has failed yet. As soon as one does, you see it here: when it failed, when it will be tried again, and how it ends." }
            @if live.is_local() {
                form method="post" action="/play/lesson" { (csrf(&live.csrf)) button.primary { "Start the one-minute lesson" } " " a.button href="/play" { "Send an event that fails" } }
                @if let Some(command) = command {
                    p { "Or from a terminal:" }
                    div.copy { pre #command tabindex="0" { (command) } button type="button" data-copy="command" { "Copy" } }
                }
            } @else {
                p {
                    "This page reads the log of "
                    @match &seen.handler { Some(handler) => code { (Untrusted(handler.name())) } None => "the retry handler" }
                    ". An event that failed before the part of the log that the page has read appears with its next log line; "
                    code { "comeback web --since 6h" } " reads more."
                }
            }
        }
    }
}
