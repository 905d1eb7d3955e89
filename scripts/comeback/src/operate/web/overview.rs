//! The overview: the loop with its numbers, the findings, the functions, the next retries and the latest events.

use std::time::Duration;

use crate::operate::{
    doctor::rules::{Examined, Finding, Verdict},
    rules::notice,
    rules::systems::function_name,
    status::rules::{Facts, State as FunctionState},
    web::rules::{PULSE_SECONDS, Pulse, State},
};
use comeback_core::{Timestamp, time::rfc3339};
use maud::{Markup, html};

use super::{
    events,
    html::{Untrusted, term, until},
    live::{Cloud, Live, Seen},
    params::Params,
    play,
};
use crate::operate::{
    doctor::command,
    status::{letters, state},
    text::{count, span},
};

/// The number of latest events to show.
const EVENTS: usize = 10;

/// The upper bounds of the histogram of due times, in seconds from now.
const SPANS: [u64; 12] = [5, 15, 60, 300, 900, 1800, 3600, 7200, 14_400, 21_600, 28_800, 43_200];

/// The width of a bar, the gap between bars, and the height of the histogram.
const BAR: usize = 60;
const GAP: usize = 12;
const HEIGHT: usize = 160;

/// The height of either half of the chart of the last minute.
const PULSE_HEIGHT: u32 = 48;

pub fn parts(live: &Live, seen: &Seen, now: Timestamp) -> Vec<(&'static str, Markup)> {
    vec![
        ("faults", faults(seen)),
        ("lesson", play::lesson(seen)),
        ("loop", picture(seen, now)),
        ("findings", findings(live, seen, now)),
        ("functions", functions(seen, now)),
        ("due", due(seen, now)),
        ("latest", latest(live, seen, now)),
    ]
}

fn faults(seen: &Seen) -> Markup {
    html! {
        @for fault in seen.faults.values() {
            p.notice.bad role="alert" { (Untrusted(fault)) }
        }
    }
}

/// The stations of the loop, with their numbers.
fn picture(seen: &Seen, now: Timestamp) -> Markup {
    let facts = &seen.functions;
    let failing = facts.iter().filter(|it| it.state() <= FunctionState::SomeFail).count() as u64;
    // Functions that share a queue all have the numbers of that queue. Count it once.
    let mut queues: Vec<_> =
        facts.iter().map(|it| (&it.queue, it.in_flight, it.delayed, it.due)).collect();
    queues.sort_unstable();
    queues.dedup();
    let sum = |of: fn(&(&String, u64, u64, u64)) -> u64| queues.iter().map(of).sum::<u64>();
    let (in_flight, delayed, due) = (sum(|it| it.1), sum(|it| it.2), sum(|it| it.3));
    let pulse = seen.events.pulse(now);
    let a_minute = |counts: &[u32]| counts.iter().map(|it| u64::from(*it)).sum::<u64>();
    let letters = seen.letters.unwrap_or_default();
    html! {
        h2 { "The loop" }
        ol.loop {
            li.place.bad[failing > 0] {
                h3 { "Functions" }
                p.big { (count(facts.len() as u64)) }
                p { @if failing > 0 { (count(failing)) " failing" } @else { "none is failing" } }
                p.faint { (count(a_minute(&pulse.failed))) " failed runs in the last minute" }
            }
            li.place {
                h3 { (term("Retry queue", "An SQS queue: each failed event waits in it until its next attempt is due.")) }
                p.big { (count(in_flight + delayed + due)) }
                p {
                    (count(in_flight)) " " (term("in flight", "Hidden in SQS until they are due, or being handled right now."))
                    ", " (count(delayed)) " " (term("delayed", "Sent again with a delay, because too many were in flight. They come back every 15 minutes."))
                    ", " (count(due)) " due"
                }
                p.faint {
                    @match seen.events.next_due(now) {
                        Some(at) => { "next " (until(at, now)) }
                        None => { "nothing is due" }
                    }
                }
            }
            li.place {
                h3 { (term("Retry handler", "The Lambda function that decides when an event is tried again, and invokes its function.")) }
                p.big { (count(a_minute(&pulse.retried))) }
                p { "retries in the last minute" }
                p.faint { (notice::events(a_minute(&pulse.succeeded))) " succeeded" }
            }
            li.place.bad[letters > 0] {
                h3 { a href="/dead" { "Dead letters" } }
                p.big { (seen.letters.map_or("?".to_owned(), count)) }
                p { (count(a_minute(&pulse.given_up))) " given up in the last minute" }
                p.faint { "nothing is deleted for 14 days" }
            }
        }
        (minute(&pulse))
    }
}

/// The chart of the last minute, with bars for each second: failures above, retries below.
fn minute(pulse: &Pulse) -> Markup {
    let most = [&pulse.failed, &pulse.retried].into_iter().flatten().max();
    let most = most.copied().unwrap_or_default().max(1);
    let scaled = |value: u32| value * PULSE_HEIGHT / most;
    let width = PULSE_SECONDS * 10;
    let sum = |counts: &[u32]| counts.iter().sum::<u32>();
    let label = format!(
        "In the last minute: {} failed runs, {} retries",
        sum(&pulse.failed),
        sum(&pulse.retried)
    );
    html! {
        figure.pulse {
            svg viewBox=(format!("0 0 {width} {}", 2 * PULSE_HEIGHT + 2)) preserveAspectRatio="none" role="img" aria-label=(label) {
                @for nth in 0..PULSE_SECONDS {
                    @let (failed, retried) = (scaled(pulse.failed[nth]), scaled(pulse.retried[nth]));
                    @if failed > 0 {
                        rect.failed x=(nth * 10) y=(PULSE_HEIGHT - failed) width="8" height=(failed) {}
                    }
                    @if retried > 0 {
                        rect.retried x=(nth * 10) y=(PULSE_HEIGHT + 2) width="8" height=(retried) {}
                    }
                }
                line x1="0" x2=(width) y1=(PULSE_HEIGHT + 1) y2=(PULSE_HEIGHT + 1) {}
            }
            figcaption { "The last minute: " span.key.failed { "failed runs" } ", " span.key.retried { "retries" } ", at most " (most) " a second" }
        }
    }
}

/// The findings of `comeback doctor`.
fn findings(live: &Live, seen: &Seen, now: Timestamp) -> Markup {
    let Some(at) = seen.examined_at else {
        return html! { h2 { "Health" } p.faint { "Checking…" } };
    };
    let all = |it: &Examined| {
        let part = it.part.clone();
        it.findings.clone().into_iter().map(move |finding| (part.clone(), finding))
    };
    let mut found: Vec<_> = seen.examined.iter().flat_map(all).collect();
    found.sort_by_key(|(_, finding)| std::cmp::Reverse(finding.verdict));
    let (wrong, unknown): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(_, it)| it.verdict >= Verdict::Warning);
    let connection = live.cloud().ok().map(|Cloud { connection, .. }| connection.clone());
    let connection = connection.unwrap_or_default();
    let item = |(part, it): &(String, Finding)| {
        let class = if it.verdict == Verdict::Bad { "bad" } else { "waits" };
        html! {
            li {
                p { span class=(format!("state {class}")) { @if it.verdict == Verdict::Bad { "problem" } @else { "warning" } }
                    " " (Untrusted(part)) ": " (Untrusted(&it.says)) }
                @if !it.why.is_empty() { p.faint { (it.why) } }
                @if let Some(fix) = &it.fix { pre { (Untrusted(&command(fix, &connection))) } }
            }
        }
    };
    html! {
        h2 { "Health" }
        @if wrong.is_empty() {
            p { span.state.good { "well" } " " "Nothing is wrong with the deployment." }
        }
        ul.findings { @for it in &wrong { (item(it)) } }
        p.faint {
            (count(seen.examined.len() as u64)) " parts were checked as " code { "comeback doctor" } " does, "
            (until(at, now)) "."
        }
        @if !unknown.is_empty() {
            details {
                summary { (count(unknown.len() as u64)) " checks were not possible" }
                ul { @for (part, it) in &unknown { li { (Untrusted(part)) ": " (Untrusted(&it.says)) } } }
            }
        }
    }
}

fn functions(seen: &Seen, now: Timestamp) -> Markup {
    let has_register = seen.has_register();
    let mut facts: Vec<&Facts> = seen.functions.iter().collect();
    facts.sort_by_key(|it| (it.state(), function_name(&it.function)));
    html! {
        h2 { "Functions" }
        @if facts.is_empty() {
            @match &seen.handler {
                Some(handler) => p { "No function sends its failures to the retry queues of " (Untrusted(handler.name())) " yet. See " code { "comeback attach" } "." }
                None => p.faint { "Looking…" }
            }
        } @else {
            div.wide {
                table {
                    thead { tr {
                        th { "Function" } th { "State" } th.number { "Waiting" }
                        th.number { (term("Runs, last hour", "All invocations, also those that have nothing to do with retries.")) }
                        th.number { "Failed" } th.number { "Retries" }
                        th { (term("Oldest", "The age of the oldest event that was handled in the last hour.")) }
                        th { "Dead letters, last day" }
                        @if has_register { th { span.hidden { "Actions" } } }
                    } }
                    tbody { @for it in facts { (function(it, has_register, now)) } }
                }
            }
        }
    }
}

fn function(it: &Facts, has_register: bool, now: Timestamp) -> Markup {
    let name = function_name(&it.function);
    let class = match it.state() {
        FunctionState::Down | FunctionState::Failing => "bad",
        FunctionState::SomeFail | FunctionState::Paused => "waits",
        FunctionState::Recovering | FunctionState::Waiting => "busy",
        FunctionState::Well => "good",
    };
    let query = Params::default().with("function", name).to_string();
    let is_paused = it.paused_since.is_some();
    let order = Params::default().with("do", if is_paused { "resume" } else { "pause" });
    let order = order.with("function", &it.function).to_string();
    html! {
        tr id=(format!("function-{name}")) {
            th scope="row" { a href=(format!("/events?{query}")) { (Untrusted(name)) } }
            td { span class=(format!("state {class}")) { (state(it, now)) } }
            td.number { (count(it.waiting())) }
            td.number { (count(it.hour.invocations)) }
            td.number { (count(it.hour.errors)) }
            td.number { (count(it.retried)) }
            td { (it.oldest_seconds.map_or(String::new(), span)) }
            td { (letters(it)) }
            @if has_register {
                td { a.button href=(format!("/confirm?{order}")) {
                    @if is_paused { "Resume" } @else { "Pause" } span.hidden { " " (name) }
                } }
            }
        }
    }
}

fn due(seen: &Seen, now: Timestamp) -> Markup {
    let spans = SPANS.map(Duration::from_secs);
    let due = seen.events.due(&spans, now);
    let bars = SPANS.len() + 1;
    let total = |nth: usize| due.values().map(|counts| counts[nth]).sum::<usize>();
    let most = (0..bars).map(total).max().unwrap_or_default().max(1);
    let all = (0..bars).map(total).sum::<usize>();
    let width = bars * (BAR + GAP);
    let label = |nth: usize| match SPANS.get(nth) {
        Some(seconds) => format!("≤ {}", span(*seconds as f64)),
        None => "later".to_owned(),
    };
    let stacked = |nth: usize| {
        let mut top = HEIGHT;
        let mut rects = Vec::new();
        for (colour, counts) in due.values().enumerate() {
            let height = counts[nth] * HEIGHT / most;
            top -= height;
            rects.push((colour % 6, top, height));
        }
        rects
    };
    html! {
        h2 { "Next retries" }
        @if all == 0 {
            p { "No event waits for an attempt." }
        } @else {
            figure.due {
                svg viewBox=(format!("0 0 {width} {}", HEIGHT + 44)) role="img"
                    aria-label=(format!("{} events wait; a table follows", count(all as u64))) {
                    @for nth in 0..bars {
                        @let x = nth * (BAR + GAP);
                        @for (colour, top, height) in stacked(nth) {
                            rect class=(format!("fill-{colour}")) x=(x) y=(top + 20) width=(BAR) height=(height) {}
                        }
                        @if total(nth) > 0 {
                            text x=(x + BAR / 2) y=(HEIGHT - total(nth) * HEIGHT / most + 14) text-anchor="middle" { (count(total(nth) as u64)) }
                        }
                        text x=(x + BAR / 2) y=(HEIGHT + 38) text-anchor="middle" { (label(nth)) }
                    }
                    line x1="0" x2=(width) y1=(HEIGHT + 20) y2=(HEIGHT + 20) {}
                }
                figcaption {
                    @for (nth, name) in due.keys().enumerate() {
                        span class=(format!("key key-{}", nth % 6)) { (Untrusted(name)) } " "
                    }
                }
            }
            details {
                summary { "As a table" }
                div.wide { table {
                    thead { tr { th { "Function" } @for nth in 0..bars { th.number { (label(nth)) } } } }
                    tbody { @for (name, counts) in &due {
                        tr { th scope="row" { (Untrusted(name)) } @for number in counts { td.number { (count(*number as u64)) } } }
                    } }
                } }
            }
        }
    }
}

fn latest(live: &Live, seen: &Seen, now: Timestamp) -> Markup {
    html! {
        h2 { "Latest events" }
        @if seen.events.is_empty() {
            (nothing_yet(live, seen))
        } @else {
            p {
                @for (state, name) in State::ALL {
                    @if let Some(number) = seen.events.counts().get(&state).filter(|number| **number > 0) {
                        a.chip href=(format!("/events?state={}", name.replace(' ', "+"))) { (count(*number as u64)) " " (name) } " "
                    }
                }
            }
            (events::table(&seen.events.page(&Default::default(), 0, EVENTS).events, now))
            p { a href="/events" { "All " (count(seen.events.len() as u64)) " events" } }
        }
    }
}

/// The help that is shown before the first event.
fn nothing_yet(live: &Live, seen: &Seen) -> Markup {
    html! {
        p { "No event has failed yet. As soon as one does, you see it here: when it failed, when it will be tried again, and how it ends." }
        @if live.is_local() {
            p { a.button href="/play" { "Send an event that fails, or play an outage" } }
        } @else {
            p {
                "This page reads the log of "
                @match &seen.handler { Some(handler) => code { (Untrusted(handler.name())) } None => "the retry handler" }
                ". An event that failed before the part of the log that the page has read appears with its next log line; --since reads more."
            }
        }
        p.faint { "now " (rfc3339((live.now)())) }
    }
}
