//! `comeback trace`: the life of one event, as the handler's log or its register has it.

mod otlp;

use comeback_core::{
    Timestamp,
    register::Entry,
    time::{between, rfc3339},
};

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    account::{
        function::Function,
        names::{source_name, target_name},
    },
    aws::Aws,
    failure::Failure,
    life::{Life, Next, NoLife, Step, StepKind, event_ids, life, refusal},
    operate::{
        handler_log::collected_lines,
        options::{SystemOptions, find},
        waiting::{
            register::DynamoRegister,
            rules::{Listed, visit},
        },
    },
    paint::{Line, Style},
    shell::{Outcome, Shell, uninterrupted},
    text::{by, counted, due, error, span},
    typed::{When, when},
};

#[derive(Debug, clap::Args)]
pub struct TraceArgs {
    /// The request id that the sender of the event got, or that of any of its attempts; the beginning is enough.
    #[arg(value_name = "ID", value_parser = id)]
    pub id: String,
    /// How far back the log is read: for a duration, or to a time in UTC, such as 03:10.
    #[arg(long, value_name = "DURATION|TIME", default_value = "2d", value_parser = when)]
    pub since: When,
    /// Print one JSON document instead of a timeline.
    #[arg(long)]
    pub json: bool,
    /// Print the body of a request to an OpenTelemetry collector, OTLP in JSON, with a span for each run and wait.
    #[arg(long, conflicts_with = "json")]
    pub otlp: bool,
    #[command(flatten)]
    pub system: SystemOptions,
}

/// The minimum length of a prefix. A shorter one would match many ids.
const ID_MIN: usize = 4;

fn id(text: &str) -> Result<String, String> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if text.len() >= ID_MIN && text.chars().all(is_good) {
        Ok(text.to_owned())
    } else {
        Err(format!("expected at least {ID_MIN} letters, digits and hyphens"))
    }
}

/// The document of `--json`: the event as the log has it, or else as the register has it.
#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
pub enum TraceJson {
    Lived(Life),
    Listed(Listed),
}

enum Known {
    Lived(Life),
    Registered(Entry),
}

pub async fn document(
    args: &TraceArgs,
    now: fn() -> Timestamp,
    goes_on: impl Fn() -> bool,
) -> Result<TraceJson, Failure> {
    Ok(match known(args, now, goes_on).await? {
        Known::Lived(life) => TraceJson::Lived(life),
        Known::Registered(entry) => TraceJson::Listed(Listed::of(&entry, now())),
    })
}

pub async fn run(args: &TraceArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let goes_on = uninterrupted()?;
    let known = known(args, shell.now, &goes_on).await;
    if !goes_on() {
        return Ok(Outcome::Interrupted);
    }
    let now = (shell.now)();
    match known? {
        Known::Lived(life) if args.otlp => shell.print_json(&otlp::request(&life, now)).await?,
        Known::Lived(life) if args.json => shell.print_json(&life).await?,
        Known::Lived(life) => shell.print(&report(&life, now)).await?,
        Known::Registered(entry) if args.json => {
            shell.print_json(&Listed::of(&entry, now)).await?;
        }
        Known::Registered(entry) => shell.print(&listed(&entry, now)).await?,
    }
    Ok(Outcome::Success)
}

async fn known(
    args: &TraceArgs,
    now: fn() -> Timestamp,
    goes_on: impl Fn() -> bool,
) -> Result<Known, Failure> {
    let (aws, handler) = find(&args.system, now).await?;
    let now = now();
    let search = async |pattern: &str| {
        let (group, from) = (&handler.log_group, args.since.before(now));
        collected_lines(&aws, group, pattern, from, "lines found", &goes_on).await
    };
    // Finds the handler's log lines with an event id, or the request id of a run, that begins with `id`.
    let search_all = async |id: &str| {
        let ids = ["event_id", "request_id", "retry_request_id"];
        let ids = ids.map(|member| format!(r#"$.{member} = "{id}*""#)).join(" || ");
        search(&format!("{{ {ids} }}")).await
    };
    let mut lines = search_all(&args.id).await?;
    let mut ids = event_ids(lines.iter().map(String::as_str));
    if ids.len() > 1 {
        // An exact match wins over ids that only begin with the argument.
        let whole: Vec<_> = ids.iter().filter(|id| **id == args.id).cloned().collect();
        if whole.is_empty() {
            return Err(NoLife::Several(ids).into());
        }
        ids = whole;
    }
    let id = ids.pop().unwrap_or_else(|| args.id.clone());
    if !id.starts_with(&args.id) {
        // The argument was the request id of an attempt, so only a part of the event's lines was found.
        lines = search_all(&id).await?;
    }
    // The last run's failure may have lines of which it is not known yet which event they are about.
    if let Ok(Life { steps, next: Next::Retried, .. }) = life(&id, lines.iter().map(String::as_str))
        && let Some(run) = steps.iter().rev().find_map(retry_request_id)
    {
        lines.extend(search(&format!(r#"{{ $.request_id = "{run}" }}"#)).await?);
    }
    match life(&id, lines.iter().map(String::as_str)) {
        Err(none @ NoLife::None(_)) => {
            // Without the register, there is only the log.
            match registered(&handler, &aws, &args.id).await {
                Ok(Some(entry)) => Ok(Known::Registered(entry)),
                Ok(None) | Err(_) => Err(none.into()),
            }
        }
        life => Ok(Known::Lived(life?)),
    }
}

fn retry_request_id(step: &Step) -> Option<&str> {
    let StepKind::Retried { retry_request_id, .. } = &step.what else { return None };
    // The id is in a pattern, and AWS's answer is the only source of it.
    retry_request_id.as_deref().filter(|it| id(it).is_ok())
}

/// The event in the register whose id, or whose last request id, begins with `id`. It may have failed before the part
/// of the log that was read.
async fn registered(handler: &Function, aws: &Aws, id: &str) -> Result<Option<Entry>, Failure> {
    if handler.register().is_none() {
        return Ok(None);
    }
    let register = DynamoRegister::of(handler.clone(), aws.clone())?;
    let parts = register.parts(&[]).await?;
    let mut found = None;
    visit(&parts, &register, |entry| {
        if entry.event_id.starts_with(id) || entry.request_id().starts_with(id) {
            found = Some(entry);
        }
        found.is_none()
    })
    .await?;
    Ok(found)
}

fn listed(entry: &Entry, now: Timestamp) -> Vec<Line> {
    let Entry { event_id, attempt, target, .. } = entry;
    let title = format!("event {event_id} of {}", target_name(target));
    let last = error(entry.error_type.as_deref(), entry.error_message.as_deref());
    let failed = format!("  first failed at {}, last error {last}", rfc3339(entry.first_failure));
    let by = by(entry.policy.as_deref());
    let next = format!("  now: waits for attempt {attempt}{by}: {}", comes_back(entry.due, now));
    let source = "  The log that was read has no line about it. This is what the register knows.";
    vec![
        Line::of(Style::Strong, title),
        Line::of(Style::Plain, failed),
        Line::of(Style::Busy, next),
        Line::of(Style::Faint, source),
    ]
}

fn report(life: &Life, now: Timestamp) -> Vec<Line> {
    let function = life.function.as_deref().map_or("an unknown function".into(), target_name);
    let mut lines = vec![Line::of(Style::Strong, format!("event {} of {function}", life.event_id))];
    let began = life.steps.first().map(|step| step.at);
    for step in &life.steps {
        let after = began.map_or(0.0, |began| between(began, step.at).as_secs_f64());
        let time = format!("  {}  {:<10} ", rfc3339(step.at), format!("+{}", span(after)));
        lines.push(step_line(Line::of(Style::Faint, time), step));
    }
    let (style, text) = match &life.next {
        Next::Waits { until } => (Style::Busy, format!("waits: {}", comes_back(*until, now))),
        Next::Retried => {
            let text = "retried: it runs, or it has succeeded. No failure was recorded since";
            (Style::Good, text.to_owned())
        }
        Next::Succeeded => (Style::Good, "it has succeeded".to_owned()),
        Next::Delivered => {
            let text = "delivered: it is done. A failure of its target is an event of its own";
            (Style::Good, text.to_owned())
        }
        Next::GivenUp { reason } => (
            Style::GivenUp,
            format!("given up: {reason}. See comeback dead show {}", life.event_id),
        ),
        Next::Unknown => (Style::Bad, "the log does not say what happens next".to_owned()),
    };
    lines.push(Line::of(style, format!("  now: {text}")));
    lines
}

/// When a waiting event comes back, or since when it is due: the handler has not said what it did with it.
fn comes_back(at: Timestamp, now: Timestamp) -> String {
    if at > now {
        format!("comes back {}", due(at, now))
    } else {
        format!("due since {}", rfc3339(at))
    }
}

fn step_line(line: Line, step: &Step) -> Line {
    let attempt = step.attempt.map(|attempt| format!("attempt {attempt}"));
    match &step.what {
        StepKind::Failed { error_type, .. } => {
            let error = error_type.as_deref().unwrap_or("no error type");
            line.and(Style::Bad, "failed  ").and(Style::Plain, error)
        }
        StepKind::NotRun { condition } => {
            line.and(Style::Busy, "not run ").and(Style::Plain, refusal(condition))
        }
        StepKind::Undelivered { source, error_type } => {
            let error = error_type.as_deref().unwrap_or("no error code");
            let text = format!("by {}: {error}", source_name(source));
            line.and(Style::Bad, "never delivered ").and(Style::Plain, text)
        }
        StepKind::Succeeded => line.and(Style::Good, "succeeded"),
        StepKind::Waits { due_at, until, again } => {
            let wait = span(between(step.at, *until).as_secs_f64());
            let mut text = format!("for {wait}");
            match (&attempt, due_at) {
                (None, _) => text += ": which attempt is next is not known yet",
                (Some(attempt), None) => text += &format!(", {attempt}"),
                (Some(attempt), Some(due)) => {
                    text += &format!(", {attempt} is due at {}", rfc3339(*due));
                }
            }
            text += &by(step.policy.as_deref());
            if *again > 0 {
                text += &format!("; came back {}", counted((*again).into(), "time"));
            }
            line.and(Style::Busy, "waits   ").and(Style::Plain, text)
        }
        StepKind::Retried { late_ms, .. } => {
            #[allow(clippy::cast_precision_loss, reason = "for people")]
            let late = span(*late_ms as f64 / 1000.0);
            let text = format!("{}, {late} late", attempt.unwrap_or_default());
            line.and(Style::Good, "retried ").and(Style::Plain, text)
        }
        StepKind::Delivered { late_ms, retry_request_id } => {
            #[allow(clippy::cast_precision_loss, reason = "for people")]
            let late = span(*late_ms as f64 / 1000.0);
            let run = retry_request_id.as_ref().map(|id| format!(", as request {id}"));
            let text = format!("{late} late{}", run.unwrap_or_default());
            line.and(Style::Good, "delivered ").and(Style::Plain, text)
        }
        StepKind::GivenUp { reason } => {
            let reason = format!("{reason}{}", by(step.policy.as_deref()));
            line.and(Style::GivenUp, "given up ").and(Style::Plain, reason)
        }
        StepKind::Dropped => {
            line.and(Style::Faint, "dropped a message whose failure was already acted on")
        }
        StepKind::Trouble { said, error, .. } => {
            let error = error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
            line.and(Style::Bad, "trouble ").and(Style::Plain, format!("{said}{error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        life::tests::{at, delivered},
        operate::waiting::rules::stand_in::{event, second},
        paint::tests::texts,
    };

    /// An event that fails, waits, is brought back by an order, fails again, and is given up.
    pub fn life() -> Life {
        let step = |second, attempt, what| Step {
            at: at(second),
            attempt: Some(attempt),
            request_id: "r".to_owned(),
            policy: matches!(what, StepKind::Waits { .. }).then(|| "Down of orders".to_owned()),
            what,
        };
        let failed = |error_type: Option<&str>| StepKind::Failed {
            error_type: error_type.map(str::to_owned),
            error_message: None,
        };
        let reason = "max_attempts_exceeded".to_owned();
        Life {
            event_id: "3B72EB0B-0000-4000-8000-000000000007".to_owned(),
            function: Some("arn:aws:lambda:eu-west-1:1:function:orders:$LATEST".to_owned()),
            trace: Some(
                "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8".to_owned(),
            ),
            steps: vec![
                step(1, 1, failed(Some("Down"))),
                step(1, 1, StepKind::Waits { due_at: Some(at(50)), until: at(50), again: 2 }),
                step(6, 1, StepKind::Retried { late_ms: 350, retry_request_id: None }),
                step(9, 2, failed(None)),
                step(9, 2, StepKind::GivenUp { reason: reason.clone() }),
            ],
            next: Next::GivenUp { reason },
        }
    }

    #[test]
    fn an_event_that_only_the_register_knows_is_shown_as_it_is_listed() {
        let expected = [
            "event event-r2 of orders",
            "  first failed at 1970-01-01T00:00:00.000Z, last error app.Down: no route to host",
            "  now: waits for attempt 2 by app.* of orders: comes back in 1 h",
            "  The log that was read has no line about it. This is what the register knows.",
        ];
        assert_eq!(texts(&listed(&event("r2", 3600), second(0))), expected);
    }

    #[test]
    fn an_event_that_is_due_says_since_when() {
        let mut waiting = life();
        waiting.next = Next::Waits { until: at(50) };
        for (now, expected) in [
            (at(20), "  now: waits: comes back in 30 s"),
            (at(50), "  now: waits: due since 2026-05-01T12:00:50.000Z"),
            (at(90), "  now: waits: due since 2026-05-01T12:00:50.000Z"),
        ] {
            assert_eq!(texts(&report(&waiting, now)).last().unwrap(), expected);
        }
    }

    #[test]
    fn an_event_that_lambda_did_not_run_has_not_failed() {
        let mut refused = life();
        refused.steps.truncate(1);
        let condition = "ZeroReservedConcurrency".to_owned();
        refused.steps[0].what = StepKind::NotRun { condition };
        let expected = "  2026-05-01T12:00:01.000Z  +0 s       not run Lambda refused it: its function's reserved concurrency is 0";
        assert_eq!(texts(&report(&refused, at(20)))[1], expected);
    }

    #[test]
    fn an_event_that_was_never_delivered_is_shown_with_its_rule_until_it_is_accepted() {
        let lines = delivered();
        let life = crate::life::life("first", lines.iter().map(String::as_str)).unwrap();
        let expected = [
            "event first of orders",
            "  2026-05-01T12:00:01.000Z  +0 s       never delivered by rule links: Down",
            "  2026-05-01T12:00:01.000Z  +0 s       waits   for 4 s, attempt 1 is due at 2026-05-01T12:00:09.500Z; came back 1 time",
            "  2026-05-01T12:00:05.000Z  +4 s       delivered 12 ms late, as request second",
            "  now: delivered: it is done. A failure of its target is an event of its own",
        ];
        assert_eq!(texts(&report(&life, at(20))), expected);
    }

    #[test]
    fn the_life_of_an_event_is_printed_as_a_timeline() {
        let expected = [
            "event 3B72EB0B-0000-4000-8000-000000000007 of orders",
            "  2026-05-01T12:00:01.000Z  +0 s       failed  Down",
            "  2026-05-01T12:00:01.000Z  +0 s       waits   for 49 s, attempt 1 is due at 2026-05-01T12:00:50.000Z by Down of orders; came back 2 times",
            "  2026-05-01T12:00:06.000Z  +5 s       retried attempt 1, 350 ms late",
            "  2026-05-01T12:00:09.000Z  +8 s       failed  no error type",
            "  2026-05-01T12:00:09.000Z  +8 s       given up max_attempts_exceeded",
            "  now: given up: max_attempts_exceeded. See comeback dead show 3B72EB0B-0000-4000-8000-000000000007",
        ];
        assert_eq!(texts(&report(&life(), at(20))), expected);
    }

    #[test]
    fn an_id_cannot_inject_into_the_filter_pattern() {
        for (text, is_good) in [
            ("6f5e4d3c-2b1a-4999-8888-777766665555", true),
            ("6f5e", true),
            ("6f5", false),
            ("6f5e\" || $.a = \"*", false),
            ("6f5e*", false),
            ("", false),
        ] {
            assert_eq!(id(text).is_ok(), is_good, "{text}");
        }
    }
}
