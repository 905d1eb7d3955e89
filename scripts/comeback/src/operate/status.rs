//! `comeback status`: the state of each function.

mod gather;
pub mod rules;

use std::time::Duration;

use comeback_core::{Timestamp, duration, pattern, time::between};
use serde_json::{Value, json};

use crate::{
    operate::{
        attached::{Attached, attached},
        aws::{Aws, functions},
        options::SystemOptions,
        rules::{Fault, Function, counted, only, target_name},
        status::rules::{Facts, State},
        text::{count, due, narrowed, span},
    },
    paint::{Line, Style},
    shell::{Failure, Outcome, Screen, Shell, Signals},
};

pub use crate::operate::status::gather::{Gathered, gather};

/// In a terminal of less than 100 columns, a table has only some of its columns.
const NARROW: (usize, &[usize]) = (100, &[0, 1, 2, 4]);

pub async fn run(args: &StatusArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let aws = Aws::connect(&args.system.connection, shell.now).await?;
    let functions = functions(&aws).await?;
    let handler = only(&functions, args.system.handler.as_deref())?;
    let mut attached = attached(&aws, &handler, &functions).await?;
    if !args.functions.is_empty() {
        attached.retain(|it| {
            let name = target_name(&it.arn);
            args.functions.iter().any(|wanted| pattern::matches(wanted, &name))
        });
    }
    if attached.is_empty() {
        let none = "no function sends its failures to the retry queues of";
        return Err(format!("{none} {}", handler.name()).into());
    }
    if args.watch {
        return watch(args, &aws, &handler, &attached, shell).await;
    }
    let now = (shell.now)();
    let Gathered { facts, unknown } = gather(&aws, &handler, &attached, now).await?;
    if args.json {
        let functions: Vec<_> = facts.iter().map(json_of).collect();
        let unknown = unknown.map(|fault| fault.to_string());
        let document =
            json!({ "handler": handler.name(), "functions": functions, "unknown": unknown });
        shell.print_json(&document).await?;
    } else {
        let lines = report(handler.name(), &facts, unknown.as_ref(), now, shell.width());
        shell.print(&lines).await?;
    }
    Ok(Outcome::Success)
}

async fn watch(
    args: &StatusArgs,
    aws: &Aws,
    handler: &Function,
    attached: &[Attached],
    shell: &Shell,
) -> Result<Outcome, Failure> {
    let mut signals = Signals::listen()?;
    let mut screen = if shell.terminal { Some(Screen::take()?) } else { None };
    loop {
        let now = (shell.now)();
        let Gathered { facts, unknown } = tokio::select! {
            gathered = gather(aws, handler, attached, now) => gathered?,
            () = signals.any() => return Ok(Outcome::Success),
        };
        let lines = report(handler.name(), &facts, unknown.as_ref(), now, shell.width());
        match &mut screen {
            Some(screen) => screen.draw(&lines, shell.colour).await?,
            None => shell.print(&lines).await?,
        }
        tokio::select! {
            () = tokio::time::sleep(args.every) => {}
            () = signals.any() => return Ok(Outcome::Success),
        }
    }
}

fn json_of(facts: &Facts) -> Value {
    let mut value = serde_json::to_value(facts).unwrap_or_default();
    if let Some(members) = value.as_object_mut() {
        members.insert("state".to_owned(), json!(facts.state()));
    }
    value
}

fn report(
    handler: &str,
    facts: &[Facts],
    unknown: Option<&Fault>,
    now: Timestamp,
    width: Option<usize>,
) -> Vec<Line> {
    let mut facts: Vec<_> = facts.iter().collect();
    facts.sort_by_key(|it| (it.state(), target_name(&it.function)));
    let header = [
        "function",
        "state",
        "waiting",
        "in flight / delayed / due",
        "next due",
        "last hour: runs, failed, retries",
        "oldest",
        "dead letters, last day",
    ];
    let row = |facts: &&Facts| {
        [
            target_name(&facts.function).into_owned(),
            state(facts, now),
            count(facts.waiting()),
            [facts.in_flight, facts.delayed, facts.due].map(count).join(" / "),
            facts.next_due.map_or(String::new(), |at| due(at, now)),
            [facts.hour.invocations, facts.hour.errors, facts.retried].map(count).join(", "),
            facts.oldest_seconds.map_or(String::new(), span),
            letters(facts),
        ]
    };
    let title = format!("{handler}: {}", counted(facts.len() as u64, "function"));
    let mut lines = vec![Line::of(Style::Strong, title)];
    lines.extend(narrowed(header, facts.iter().map(row), width, NARROW));
    if facts.iter().any(|it| it.queue_shared_with > 0) {
        let text = "Functions that share a queue show the numbers of the queue.";
        lines.push(Line::of(Style::Faint, text));
    }
    if let Some(fault) = unknown {
        let text = format!("Circuits, pauses and due times are not known: {fault}");
        lines.push(Line::of(Style::Bad, text));
    }
    lines
}

pub fn state(facts: &Facts, now: Timestamp) -> String {
    let lasts = |since: Timestamp| span(between(since, now).as_secs_f64().floor());
    let state = match facts.state() {
        State::Down => "down",
        State::Failing => "failing",
        State::SomeFail => "some fail",
        State::Paused => "",
        State::Recovering => "recovering",
        State::Waiting => "waiting",
        State::Well => "well",
    };
    let down = facts.down_since.map(|since| format!("{state} for {}", lasts(since)));
    let state = down.or_else(|| Some(state.to_owned()).filter(|state| !state.is_empty()));
    let paused = facts.paused_since.map(|since| format!("paused for {}", lasts(since)));
    [state, paused].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

pub fn letters(facts: &Facts) -> String {
    let letters = facts.dead_letters.iter();
    letters
        .map(|(reason, number)| format!("{} {reason}", count(*number)))
        .collect::<Vec<_>>()
        .join(", ")
}

#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// Functions, by their names; * matches any characters [default: all that are attached].
    #[arg(value_name = "FUNCTION")]
    pub functions: Vec<String>,
    /// Refresh the table until Ctrl-C. In a pipe, print one table after the other.
    #[arg(long, conflicts_with = "json")]
    pub watch: bool,
    /// How often --watch refreshes.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = every, requires = "watch")]
    pub every: Duration,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub system: SystemOptions,
}

fn every(text: &str) -> Result<Duration, &'static str> {
    duration::parse(text)
        .filter(|every| *every >= Duration::from_secs(1))
        .ok_or("expected a duration of at least 1s, such as 5s or 1m")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{operate::status::rules::Runs, paint::tests::texts};

    #[test]
    fn the_worst_comes_first_and_a_narrow_terminal_shows_less() {
        let arn = |name: &str| format!("arn:aws:lambda:us-east-1:1:function:{name}:$LATEST");
        let failing = Runs { invocations: 9, errors: 9 };
        let facts = [
            Facts { function: arn("fine"), ..Facts::default() },
            Facts {
                function: arn("orders"),
                in_flight: 1200,
                delayed: 3,
                recent: failing,
                hour: failing,
                dead_letters: [("not_retryable".to_owned(), 4)].into(),
                ..Facts::default()
            },
        ];
        let text = |width| texts(&report("retries", &facts, None, Timestamp::UNIX_EPOCH, width));
        let wide = text(None);
        assert_eq!(wide[0], "retries: 2 functions");
        for part in ["orders", "failing", "1,203", "1,200 / 3 / 0", "9, 9, 0", "4 not_retryable"] {
            assert!(wide[2].contains(part), "{part}: {wide:?}");
        }
        assert!(wide[3].contains("fine") && wide[3].contains("well"), "{wide:?}");
        let paused_since = Some(Timestamp::UNIX_EPOCH);
        let later = Timestamp::UNIX_EPOCH + std::time::Duration::from_secs(90);
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
}
