//! The overview: where the events are, the health, the functions and the latest events. All numbers are read at the
//! same time.

use std::collections::{BTreeMap, BTreeSet};

use comeback_core::{Timestamp, time::between};
use maud::{Markup, html};

use super::{
    events, health,
    html::{Params, Untrusted, attempt_at, csrf, term, until},
    live::{Live, Seen},
};

use crate::{
    account::names::{is_queue, target_name},
    operate::{
        order::Noun,
        orders::kinds,
        status::{
            over::Over,
            rules::{Facts, State as FunctionState},
            table::{state, word},
        },
        web::rules::{Counts, PARTS, Pulse, Range, Standing, shared_out},
    },
    text::{count, counted, noun, span},
};

const EVENTS: usize = 10;

/// The height of either half of a sparkline.
const SPARK: u32 = 14;

struct Row {
    facts: Facts,
    pulse: Pulse,
    standing: Standing,
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
    let at = seen.snapshot.at.unwrap_or(now);
    let rows = rows(seen, range, at);
    let first = seen.events.is_empty();
    vec![
        ("loop", band(seen, &rows, live.is_local(), now)),
        ("health", health::line(seen, now)),
        ("start", html! { @if first { (nothing_yet(live, seen)) } }),
        ("functions", functions(live, seen, &rows, (range, name), now)),
        ("latest", html! { @if !first { (latest(seen, &rows, now)) } }),
    ]
}

/// A row for each function and queue, the most urgent first. A function that is no longer attached keeps its row while
/// failed events of it are known.
fn rows(seen: &Seen, range: Range, at: Timestamp) -> Vec<Row> {
    let snapshot = &seen.snapshot;
    let attached: BTreeSet<_> =
        snapshot.functions.iter().map(|it| target_name(&it.function)).collect();
    let detached = snapshot.standings.iter().filter(|(name, standing)| {
        standing.failed() > 0 && !attached.contains(name.as_str()) && snapshot.at.is_some()
    });
    let detached = detached.map(|(name, standing)| Facts {
        function: name.clone(),
        in_flight: standing.waiting(),
        ..Facts::default()
    });
    let row = |facts: Facts| {
        let function = &*target_name(&facts.function);
        let standing = snapshot.standings.get(function).cloned().unwrap_or_default();
        Row { pulse: seen.events.pulse(Some(function), range, at), facts, standing }
    };
    let mut rows: Vec<_> = snapshot.functions.iter().cloned().chain(detached).map(row).collect();
    rows.sort_by_cached_key(|it| (it.facts.state(), it.facts.function.clone()));
    rows
}

/// How many functions and queues there are, and where the failed events are. The numbers add up.
fn band(seen: &Seen, rows: &[Row], is_local: bool, now: Timestamp) -> Markup {
    let snapshot = &seen.snapshot;
    let Some(at) = snapshot.at else { return html! { p.faint { "Looking…" } } };
    let all = Standing::sum(snapshot.standings.values());
    let number = |number: u64| html! { strong { (count(number)) } " " };
    // Functions that share a queue all have the numbers of that queue. Count it once.
    let queues: BTreeMap<_, _> = snapshot.functions.iter().map(|it| (&it.queue, it)).collect();
    let sum = |of: fn(&Facts) -> u64| queues.values().map(|it| of(it)).sum::<u64>();
    let delayed = sum(|it| it.delayed);
    let is_refused = rows.iter().any(|it| it.facts.refuses);
    html! {
        ol.loop aria-label="Where the events that failed are: the numbers add up" {
            li { (targets(rows, all.first_runs())) }
            li {
                (number(all.failed())) (noun(all.failed(), "event")) " failed"
                small { "at least once" @if is_refused { ", or were refused by Lambda" } @if seen.events.has_forgotten() { ", of the latest that this page keeps" } }
            }
            li.equals {
                (number(all.waiting()))
                (term(
                    "waiting",
                    "In the retry queue, an SQS queue: each failed event waits in it until its next \
                    attempt is due.",
                ))
                small {
                    @match all.next { Some(at) => { "next " (attempt_at(at, now)) } None => "nothing is due" }
                    @if delayed > 0 {
                        ", " (count(delayed)) " "
                        (term(
                            "delayed",
                            "Sent again with a delay, because too many were in flight. They come back \
                            every 15 minutes.",
                        ))
                    }
                    @if !is_local { ", SQS counts about " (count(sum(Facts::waiting))) }
                }
            }
            li.plus {
                @if is_local {
                    (number(all.at_lambda()))
                    (term(
                        "at Lambda",
                        "Their attempt is queued at Lambda, or in their own queue, or runs.",
                    ))
                    small {
                        (count(all.queued())) " queued, "
                        (count(all.running())) " running"
                    }
                } @else {
                    (number(all.at_lambda()))
                    (term(
                        "retried",
                        "Their attempt is queued at Lambda, or runs, or has succeeded: the handler's log \
                        has no successes.",
                    ))
                    small { "run, or have succeeded" }
                }
            }
            @if is_local || all.back() > 0 {
                li.plus {
                    (number(all.back())) "back"
                    small { @if is_local { "succeeded after all" } @else { "delivered after all" } }
                }
            }
            li.plus {
                a href="/dead" { (number(all.given_up())) "given up" }
                small class=(if snapshot.letters > 0 { "waits" } else { "" }) {
                    @if snapshot.letters > 0 {
                        a href="/dead" { (counted(snapshot.letters, "dead letter")) } " now"
                    } @else {
                        "no dead letter now"
                    }
                }
            }
        }
        p #over { (Untrusted(&Over::of(&snapshot.functions).text(now, word))) }
        p.range { span.faint { "All numbers were read at the same time, " (until(at, now)) "." } }
    }
}

/// How many functions and queues there are, and how many of them are failing.
fn targets(rows: &[Row], first_runs: u64) -> Markup {
    let is_source = |it: &&Row| is_queue(&target_name(&it.facts.function));
    let queues = rows.iter().filter(is_source).count() as u64;
    let functions = rows.len() as u64 - queues;
    let those = |state: FunctionState| rows.iter().filter(|it| it.facts.state() == state).count();
    let failing = those(FunctionState::Down) + those(FunctionState::Failing);
    let some_fail = those(FunctionState::SomeFail);
    html! {
        @if functions > 0 || queues == 0 {
            strong { (count(functions)) } " " (noun(functions, "function"))
        }
        @if functions > 0 && queues > 0 { ", " }
        @if queues > 0 { strong { (count(queues)) } " " (noun(queues, "queue")) }
        small {
            @match (failing, some_fail) {
                (0, 0) => "none is failing",
                (0, some) => span.waits { (count(some as u64)) " failing in part" },
                (failing, 0) => span.bad { (count(failing as u64)) " failing" },
                (failing, some) => span.bad {
                    (count(failing as u64)) " failing, " (count(some as u64)) " in part"
                },
            }
            @if first_runs > 0 {
                ", " (counted(first_runs, "first run")) " queued at Lambda"
            }
        }
    }
}

fn functions(
    live: &Live,
    seen: &Seen,
    rows: &[Row],
    (range, name): (Range, &str),
    now: Timestamp,
) -> Markup {
    let has_register = seen.has_register();
    let is_local = live.is_local();
    html! {
        @if rows.is_empty() {
            @match &seen.handler {
                Some(handler) => p {
                    "No function sends its failures to the retry queues of "
                    (Untrusted(handler.name())) " yet. See " code { "comeback attach" } "."
                }
                None => p.faint { "Looking for functions…" }
            }
        } @else {
            p.range {
                span.faint { "Runs of the last " }
                @for (_, it) in Range::ALL {
                    a.chip href=(format!("/?{}", Params::default().with("range", it)))
                        aria-current=[(it == name).then_some("true")] {
                        (it)
                    }
                    " "
                }
            }
            div.wide { table.functions {
                colgroup {
                    col.name; col.pill; col.runs; col.share; col.sum; col.lambda;
                    @if is_local { col.sum; } col.sum; col.time;
                    @if has_register { col.act; }
                }
                thead { tr {
                    th { "Function or queue" } th { "State" }
                    th { span.key.failed { "failures" } " " span.key.retried { "retries" } (time_axis(range)) }
                    th.number {
                        @if is_local {
                            (term(
                                "Failed runs",
                                "Of all runs in the chosen time, where these are known.",
                            ))
                        } @else {
                            (term("Failed, last hour", "Failed runs of all runs, by CloudWatch."))
                        }
                    }
                    th.number { "Waiting" }
                    @if is_local { th.number { "At Lambda" } th.number { "Back" } } @else { th.number { "Retried" } }
                    th.number { "Given up" }
                    th { "Next due" }
                    @if has_register { th { span.hidden { "Actions" } } }
                } }
                tbody {
                    @for it in rows {
                        (function(it, is_local, has_register, seen.snapshot.at.unwrap_or(now), now))
                    }
                }
            } }
        }
    }
}

fn function(it: &Row, is_local: bool, has_register: bool, at: Timestamp, now: Timestamp) -> Markup {
    let Row { facts, pulse, standing } = it;
    let name = &*target_name(&facts.function);
    let class = match facts.state() {
        FunctionState::Down | FunctionState::Failing | FunctionState::Stopped => "bad",
        FunctionState::Unknown
        | FunctionState::SomeFail
        | FunctionState::Throttled
        | FunctionState::Paused => "waits",
        FunctionState::Recovering | FunctionState::Waiting => "busy",
        FunctionState::Well => "good",
        FunctionState::Idle => "faint",
    };
    let is_paused = facts.paused_since.is_some();
    let order = Params::default().with("function", &facts.function);
    let senseless = if is_paused { "pause" } else { "resume" };
    let kinds = kinds(Noun::Target).into_iter().filter(|kind| kind.name != senseless);
    let [failed, _, succeeded, _] = pulse.sum().map(u64::from);
    let hour = facts.hour;
    let (failed, runs) =
        if is_local { (failed, failed + succeeded) } else { (hour.errors, hour.invocations) };
    let number =
        |number: u64, unit: &str| html! { td.number { (count(number)) span.unit { " " (unit) } } };
    html! {
        tr id=(format!("function-{name}")) {
            th scope="row" {
                a href=(format!("/events?{}", Params::default().with("function", name))) title=(name) {
                    (Untrusted(name))
                }
            }
            td { span class=(format!("state {class}")) { (state(facts, now)) } }
            td { (sparkline(pulse)) }
            td.number {
                @if !facts.has_runs() {
                    @if failed > 0 {
                        (count(failed)) " failed"
                    } @else {
                        span.faint { "not known" }
                    }
                }
                @else if runs > 0 { (count(failed)) " of " (count(runs)) ", " (failed * 100 / runs) " %" }
                @else { span.faint { "no runs" } }
            }
            (number(standing.waiting(), "waiting"))
            td.number {
                (count(standing.at_lambda())) span.unit { @if is_local { " at Lambda" } @else { " retried" } }
                @if let Some(new) = new(it, is_local) { small { "+ " (count(new)) " new" } }
            }
            @if is_local { (number(standing.back(), "back")) }
            (number(standing.given_up(), "given up"))
            td.due {
                @if let Some(at) = standing.next { span.unit { "next " } (attempt_at(at, now)) }
                @if let Some(oldest) = standing.oldest {
                    small { "oldest " (span(between(oldest, at).as_secs_f64().floor())) }
                }
            }
            @if has_register {
                td { @if !facts.queue.is_empty() {
                    @for (nth, kind) in kinds.enumerate() {
                        @if nth > 0 { " " }
                        a.button data-ask href=(format!("/confirm?{}", order.with("do", kind.name))) {
                            (kind.button) span.hidden { " " (name) }
                        }
                    }
                } }
            }
        }
    }
}

/// Events that are queued for their first run: by the journal in the local cloud, else by Lambda's counts. Messages in
/// a queue are only counted by SQS.
fn new(Row { facts, standing, .. }: &Row, is_local: bool) -> Option<u64> {
    let new = match facts.queued() {
        _ if is_local && !is_queue(&facts.function) => standing.first_runs(),
        // Lambda counts retries, too.
        queued => queued?.saturating_sub(standing.at_lambda()),
    };
    Some(new).filter(|new| *new > 0)
}

/// The axis of the sparklines below it: when the range began, its middle, and now.
fn time_axis(range: Range) -> Markup {
    let [from, middle] = match range {
        Range::Minute => ["60 s ago", "30 s"],
        Range::Hour => ["1 h ago", "30 m"],
        Range::Day => ["24 h ago", "12 h"],
    };
    html! { span.axis { span { (from) } span { (middle) } span { "now" } } }
}

/// Bars for each part of the range, the latest at the right: failures above, retries below.
fn sparkline(pulse: &Pulse) -> Markup {
    let most = pulse.0.iter().flat_map(|[failed, retried, ..]| [*failed, *retried]).max();
    let most = most.unwrap_or_default().max(1);
    let scaled = |value: u32| if value == 0 { 0 } else { (value * SPARK / most).max(2) };
    let [failed, retried, ..]: Counts = pulse.sum();
    let width = PARTS * 4;
    html! {
        svg.spark viewBox=(format!("0 0 {width} {}", 2 * SPARK + 1)) preserveAspectRatio="none"
            role="img" aria-label=(format!("{failed} failures, {retried} retries")) {
            @for x in [0, width / 2, width] { line x1=(x) x2=(x) y1="0" y2=(2 * SPARK + 1) {} }
            line x1="0" x2=(width) y1=(SPARK) y2=(SPARK) {}
            @for (nth, [failed, retried, ..]) in pulse.0.iter().enumerate() {
                @let (failed, retried) = (scaled(*failed), scaled(*retried));
                @if failed > 0 { rect.failed x=(nth * 4) y=(SPARK - failed) width="3" height=(failed) {} }
                @if retried > 0 { rect.retried x=(nth * 4) y=(SPARK + 1) width="3" height=(retried) {} }
            }
        }
    }
}

/// The latest failed events of each function, those of the most urgent function first. Each function has its share of
/// the lines, however many events another one has.
fn latest(seen: &Seen, rows: &[Row], now: Timestamp) -> Markup {
    let names: Vec<_> = rows.iter().map(|it| target_name(&it.facts.function)).collect();
    let all = |it: &Row| usize::try_from(it.standing.failed()).unwrap_or(EVENTS).min(EVENTS);
    let wanted: Vec<_> = names.iter().zip(rows).map(|(name, it)| (&**name, all(it))).collect();
    let events = shared_out(&seen.events.latest_failed(&wanted), EVENTS);
    html! {
        h2 { "Latest events that failed" }
        @if events.is_empty() { p.faint { "None has failed." } }
        @else { div data-in-place { (events::table(seen, &events, None, now)) } }
        p { a href="/events" { "All events" } }
    }
}

fn nothing_yet(live: &Live, seen: &Seen) -> Markup {
    let function = seen.snapshot.functions.first().map(|it| target_name(&it.function));
    let endpoint = live.cloud().ok().and_then(|cloud| cloud.connection.local.clone().flatten());
    let command = function.zip(endpoint).map(|(function, endpoint)| {
        format!(
            "echo '{{\"id\":\"order-1\",\"fail\":{{\"attempts\":2}}}}' | AWS_ACCESS_KEY_ID=local \
        AWS_SECRET_ACCESS_KEY=local aws lambda invoke --endpoint-url {endpoint} --region us-east-1 \
        --function-name {function} --invocation-type Event --payload fileb:///dev/stdin /dev/null"
        )
    });
    html! {
        section.card.start {
            p.large {
                "No event has failed yet. As soon as one does, you see it here: when it failed, when it \
                will be tried again, and how it ends."
            }
            @if live.is_local() {
                form method="post" action="/play/lesson" {
                    (csrf(&live.csrf)) button.primary { "Start the one-minute lesson" } " "
                    a.button href="/play" { "Send an event that fails" }
                }
                @if let Some(command) = command {
                    p { "Or from a terminal:" }
                    div.copy {
                        pre #command tabindex="0" { (command) }
                        button type="button" data-copy="command" { "Copy" }
                    }
                }
            } @else {
                p {
                    "This page reads the log of "
                    @match &seen.handler {
                        Some(handler) => code { (Untrusted(handler.name())) }
                        None => "the retry handler"
                    }
                    ". An event that failed before the part of the log that the page has read appears with \
                    its next log line; "
                    code { "comeback web --since 6h" } " reads more."
                }
            }
        }
    }
}
