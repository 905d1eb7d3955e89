//! What `comeback status` shows of the state of functions and queues.

use comeback_core::{Timestamp, time::between};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    account::{
        fault::Fault,
        names::{is_queue, target_name},
    },
    operate::status::{
        over::Over,
        rules::{Facts, State, Unknown},
    },
    paint::{Line, Style},
    tables::fitting,
    text::{count, counted, due, span},
};

/// How many columns a table has even if they don't fit: the function, its state, what waits, and what died.
const COLUMNS_LEAST: usize = 4;

pub fn title(handler: &str, facts: &[Facts], letters: Option<u64>) -> String {
    let queues = facts.iter().filter(|it| is_queue(&it.function)).count() as u64;
    let functions = facts.len() as u64 - queues;
    let kinds = [(functions, "function"), (queues, "queue")].into_iter();
    let kinds = kinds.filter(|(number, _)| *number > 0).map(|(number, noun)| counted(number, noun));
    let letters = letters.map(|it| format!("{} now", counted(it, "dead letter")));
    format!("{handler}: {}", kinds.chain(letters).collect::<Vec<_>>().join(", "))
}

pub fn report(
    title: String,
    facts: &[Facts],
    unknown: &[Fault],
    now: Timestamp,
    width: Option<usize>,
) -> Vec<Line> {
    let mut facts: Vec<_> = facts.iter().collect();
    facts.sort_by_key(|it| (it.state(), target_name(&it.function)));
    let header = [
        "function",
        "state",
        "waiting",
        "given up, last day",
        "next due",
        "backlog",
        "last hour: runs, failed, retries",
        "in flight / delayed / due",
        "oldest",
    ];
    let row = |facts: &&Facts| {
        [
            target_name(&facts.function).into_owned(),
            state(facts, now),
            or_unknown(facts, Unknown::Waiting, || count(facts.waiting())),
            or_unknown(facts, Unknown::Runs, || lost(facts)),
            facts.next_due.map_or(String::new(), |at| due(at, now)),
            backlog(facts),
            or_unknown(facts, Unknown::Runs, || {
                [facts.hour.invocations, facts.hour.errors, facts.retried].map(count).join(", ")
            }),
            or_unknown(facts, Unknown::Waiting, || {
                [facts.in_flight, facts.delayed, facts.due].map(count).join(" / ")
            }),
            facts.oldest_seconds.map_or(String::new(), span),
        ]
    };
    let mut lines = vec![Line::of(Style::Strong, title)];
    let rows: Vec<_> = facts.iter().map(row).collect();
    lines.extend(fitting(header, &rows, width, COLUMNS_LEAST));
    let is_shared = facts.iter().any(|it| it.queue_shared_with > 0);
    let shared = is_shared.then(|| {
        Line::of(Style::Faint, "Functions that share a queue show the numbers of the queue.")
    });
    let over = Line::of(Style::Plain, Over::of(facts.iter().copied()).text(now, word));
    let why = unknown.iter().map(|fault| format!("Some of this is not known: {fault}"));
    let why = why.map(|text| Line::of(Style::Bad, text));
    let texts = shared.into_iter().chain([over]).chain(why);
    lines.extend(texts.flat_map(|line| line.wrapped(width.unwrap_or(usize::MAX))));
    lines
}

/// A part of the facts, or that it is not known.
fn or_unknown(facts: &Facts, part: Unknown, text: impl FnOnce() -> String) -> String {
    if facts.unknown.contains(&part) { "unknown".to_owned() } else { text() }
}

pub fn word(state: State) -> &'static str {
    match state {
        State::Down => "down",
        State::Failing => "failing",
        State::Stopped => "stopped",
        State::Unknown => "unknown",
        State::SomeFail => "some fail",
        State::Throttled => "throttled",
        State::Paused => "paused",
        State::Recovering => "recovering",
        State::Waiting => "waiting",
        State::Well => "well",
        State::Idle => "idle",
    }
}

pub fn state(facts: &Facts, now: Timestamp) -> String {
    let lasts = |since: Timestamp| span(between(since, now).as_secs_f64().floor());
    let state = facts.state();
    let down = facts.down_since.map(|since| format!("{} for {}", word(state), lasts(since)));
    let state = down.or_else(|| (state != State::Paused).then(|| word(state).to_owned()));
    let paused = facts.paused_since.map(|since| format!("paused for {}", lasts(since)));
    [state, paused].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// What has not run yet: at Lambda, or in the queue that its consumers receive from.
fn backlog(facts: &Facts) -> String {
    // An event that runs at once is no backlog.
    let at_lambda = facts.at_lambda.filter(|events| *events > 0);
    let at_lambda = at_lambda.map(|events| format!("{} at Lambda", count(events)));
    let oldest = facts.lambda_oldest_seconds.filter(|seconds| *seconds >= 1.0);
    let oldest = oldest.map(|seconds| format!("for {}", span(seconds.floor())));
    let throttles = Some(facts.throttles).filter(|it| *it > 0).map(|it| counted(it, "throttle"));
    let in_source = facts.in_source.filter(|it| it.messages > 0);
    let in_source = in_source.map(|it| counted(it.messages, "message"));
    [in_source, at_lambda, oldest, throttles].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The dead letters by reason, and the failures that are lost.
fn lost(facts: &Facts) -> String {
    let letters = facts.dead_letters.iter();
    let letters = letters.map(|(reason, number)| format!("{} {reason}", count(*number)));
    let undelivered = Some(facts.undelivered).filter(|it| *it > 0);
    let undelivered = undelivered.map(|it| format!("{} not delivered", count(it)));
    undelivered.into_iter().chain(letters).collect::<Vec<_>>().join(", ")
}

/// The facts with the state that they mean, for JSON.
#[derive(JsonSchema, Serialize)]
pub struct Stated {
    #[serde(flatten)]
    facts: Facts,
    state: State,
}

impl Stated {
    pub fn of(facts: Facts) -> Self {
        Self { state: facts.state(), facts }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    use crate::{
        operate::status::rules::{InSource, Runs},
        paint::tests::texts,
    };

    #[test]
    fn the_worst_comes_first_and_a_narrow_terminal_shows_less() {
        let arn = |name: &str| format!("arn:aws:lambda:us-east-1:1:function:{name}:$LATEST");
        let failing = Runs { invocations: 9, errors: 9 };
        let facts = [
            Facts { function: arn("fine"), retried: 1, ..Facts::default() },
            Facts {
                function: arn("orders"),
                in_flight: 1200,
                at_lambda: Some(995),
                delayed: 3,
                recent: failing,
                hour: failing,
                dead_letters: [("not_retryable".to_owned(), 4)].into(),
                ..Facts::default()
            },
        ];
        let title = |letters| title("retries", &facts, letters);
        let at = Timestamp::UNIX_EPOCH;
        let text = |width| texts(&report(title(Some(1)), &facts, &[], at, width));
        let wide = text(None);
        assert_eq!(wide[0], "retries: 2 functions, 1 dead letter now");
        assert_eq!(title(None), "retries: 2 functions");
        for part in [
            "orders",
            "failing",
            "1,203",
            "1,200 / 3 / 0",
            "9, 9, 0",
            "995 at Lambda",
            "4 not_retryable",
        ] {
            assert!(wide[2].contains(part), "{part}: {wide:?}");
        }
        assert!(wide[3].contains("fine") && wide[3].contains("well"), "{wide:?}");
        let narrow = text(Some(80));
        for (line, parts) in [
            (1, ["function", "waiting", "given up, last day"]),
            (2, ["orders", "1,203", "4 not_retryable"]),
        ] {
            assert!(parts.iter().all(|part| narrow[line].contains(part)), "{narrow:?}");
        }
        assert!(!narrow[1].contains("oldest"), "{narrow:?}");
        assert!(wide[4].starts_with("Not over: orders is failing; 1,203 events are"), "{wide:?}");
        let most = wide[1].find("oldest").unwrap();
        assert!(most > wide[1].find("next due").unwrap(), "{wide:?}");
        let paused_since = Some(Timestamp::UNIX_EPOCH);
        let later = Timestamp::UNIX_EPOCH + Duration::from_secs(90);
        for (facts, expected) in [
            (Facts { paused_since, ..Facts::default() }, "paused for 1 m 30 s"),
            (
                Facts { paused_since, recent: failing, ..Facts::default() },
                "failing, paused for 1 m 30 s",
            ),
            (Facts { down_since: paused_since, ..Facts::default() }, "down for 1 m 30 s"),
        ] {
            assert_eq!(state(&facts, later), expected);
        }
        assert!(text(Some(40)).iter().all(|line| line.chars().count() <= 40));
    }

    #[test]
    fn what_has_not_run_yet_is_named() {
        let arn = "arn:aws:lambda:us-east-1:1:function:orders:$LATEST".to_owned();
        let queue = "arn:aws:sqs:us-east-1:123456789012:imports".to_owned();
        let throttled = Facts {
            function: arn.clone(),
            throttles: 340,
            lambda_oldest_seconds: Some(723.4),
            ..Facts::default()
        };
        let in_source = Some(InSource { messages: 9, due: 9 });
        let stuck = Facts { function: queue, in_source, ..Facts::default() };
        let quick = Facts { lambda_oldest_seconds: Some(0.05), function: arn, ..Facts::default() };
        for (facts, expected) in
            [(&throttled, "for 12 m 3 s, 340 throttles"), (&stuck, "9 messages"), (&quick, "")]
        {
            assert_eq!(backlog(facts), expected);
        }
        let facts = [throttled, stuck];
        let title = title("retries", &facts, None);
        assert_eq!(title, "retries: 1 function, 1 queue");
        let lines = texts(&report(title, &facts, &[], Timestamp::UNIX_EPOCH, Some(100)));
        assert!(lines[2].contains("throttled") && lines[2].contains("340 throttles"), "{lines:?}");
        assert!(lines[3].contains("sqs:imports") && lines[3].contains("9 messages"), "{lines:?}");
    }
}
