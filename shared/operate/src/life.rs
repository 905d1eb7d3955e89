//! The life of one event, as the handler's log tells it.

use std::collections::BTreeMap;

use comeback_core::{Timestamp, time};
use serde::{Deserialize, Serialize};

/// A line of the handler's log about a message.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(crate) struct Line {
    timestamp: String,
    message: String,
    decision: Option<String>,
    reason: Option<String>,
    error: Option<String>,
    error_type: Option<String>,
    pub(crate) target: Option<String>,
    request_id: Option<String>,
    event_id: Option<String>,
    attempt: Option<u32>,
    due_time: Option<String>,
    delay_seconds: Option<f64>,
    lateness_ms: Option<u64>,
    receive_count: Option<u32>,
}

/// The life of an event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Life {
    /// The request id of its first invocation.
    pub event_id: String,
    /// The ARN of its function.
    pub function: Option<String>,
    /// What has happened, in order.
    pub steps: Vec<Step>,
    /// What happens next.
    pub next: Next,
}

/// Something that happened to an event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// When it happened.
    pub at: Timestamp,
    /// The attempt that it is about, counted from 1: the next one after a failure.
    pub attempt: Option<u32>,
    /// The request id of the invocation that failed.
    pub request_id: String,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// What happened to an event.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum What {
    /// Its function failed. The time is that of the handler's first line about it.
    Failed {
        /// The type of the error.
        error_type: Option<String>,
        /// Its message, which is not in the handler's log.
        #[serde(skip_serializing_if = "Option::is_none")]
        error_message: Option<String>,
    },
    /// Its function succeeded. Only the local cloud tells this.
    Succeeded,
    /// It waits.
    Waits {
        /// When its attempt is due.
        due_at: Option<Timestamp>,
        /// When it comes back, which is later if something holds it back.
        until: Timestamp,
        /// How often it came back and waits again.
        again: u32,
    },
    /// Lambda accepted the attempt.
    Retried {
        /// How late, in milliseconds.
        late_ms: u64,
    },
    /// It was given up.
    GivenUp {
        /// The reason of its dead letter.
        reason: String,
    },
    /// A message was dropped, because its failure was already acted on.
    Dropped,
    /// Something stood in the way.
    Trouble {
        /// What the handler says.
        said: String,
        /// What AWS said.
        error: Option<String>,
    },
}

/// What happens next to an event.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Next {
    /// It waits.
    Waits {
        /// When it comes back.
        until: Timestamp,
    },
    /// It was retried. It runs, or has succeeded: no failure of it was recorded since.
    Retried,
    /// It has succeeded. Only the local cloud tells this.
    Succeeded,
    /// It has ended as a dead letter.
    GivenUp {
        /// The reason.
        reason: String,
    },
    /// The log does not say.
    Unknown,
}

/// Why no single event could be chosen.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NoLife {
    /// No line is about it.
    #[error(
        "expected lines about {0} in the handler's log, got none; an event that never failed has none, and an older one needs --since"
    )]
    None(String),
    /// Several events have ids that begin so.
    #[error("expected one event, got {}; pass more of its id", .0.join(", "))]
    Several(Vec<String>),
}

/// The ids of the events that these lines are about.
pub fn event_ids<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut ids: Vec<_> = lines.into_iter().filter_map(|line| read(line)?.id()).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// The lives of all events that these lines are about.
pub fn lives<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<Life> {
    let mut events: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    for line in lines.into_iter().filter_map(read) {
        events.entry(line.id().unwrap_or_default()).or_default().push(line);
    }
    events.into_iter().filter_map(|(id, lines)| told(id, lines)).collect()
}

/// The life of the event with this id, as these lines of the handler's log tell it.
///
/// # Errors
///
/// If no line is about it.
pub fn life<'a>(event_id: &str, lines: impl IntoIterator<Item = &'a str>) -> Result<Life, NoLife> {
    let lines = lines.into_iter().filter_map(read);
    let lines = lines.filter(|line| line.id().as_deref() == Some(event_id)).collect();
    told(event_id.to_owned(), lines).ok_or_else(|| NoLife::None(event_id.to_owned()))
}

fn told(event_id: String, lines: Vec<Line>) -> Option<Life> {
    let mut lines: Vec<_> = lines.into_iter().filter_map(|line| Some((line.at()?, line))).collect();
    lines.sort_by_key(|(at, _)| *at);
    let function = lines.iter().find_map(|(_, line)| line.target.clone());
    let mut steps = Vec::new();
    for (at, line) in lines {
        steps_of(at, line, &mut steps);
    }
    (!steps.is_empty()).then(|| Life { event_id, function, next: next(&steps), steps })
}

/// A line about a message; `None` for any other line.
pub(crate) fn read(line: &str) -> Option<Line> {
    let line: Line = serde_json::from_str(line).ok()?;
    line.request_id.is_some().then_some(line)
}

impl Line {
    /// When it was written.
    pub(crate) fn at(&self) -> Option<Timestamp> {
        time::parse(&self.timestamp)
    }

    /// The id of its event. The first failure of an event may have no other id than its own.
    pub(crate) fn id(&self) -> Option<String> {
        self.event_id.clone().or_else(|| self.request_id.clone())
    }
}

/// Adds what a line says to the steps of its event.
pub(crate) fn steps_of(at: Timestamp, line: Line, steps: &mut Vec<Step>) {
    let request_id = line.request_id.unwrap_or_default();
    let step = |what| Step { at, attempt: line.attempt, request_id: request_id.clone(), what };
    if !steps.iter().any(|step| step.request_id == request_id) {
        steps.push(step(What::Failed { error_type: line.error_type, error_message: None }));
    }
    let is_trouble = line.error.is_some();
    let what = match (line.decision.as_deref(), line.delay_seconds, line.lateness_ms, line.reason) {
        (Some("wait"), Some(delay), _, _) if !is_trouble => {
            let until = at + chrono::TimeDelta::milliseconds(millis(delay));
            let due_at = line.due_time.as_deref().and_then(time::parse);
            if let Some(Step {
                request_id: last, what: What::Waits { until: old, again, .. }, ..
            }) = steps.last_mut()
                && *last == request_id
            {
                *again += 1;
                *old = until;
                return;
            }
            What::Waits { due_at, until, again: 0 }
        }
        (Some("invoke"), _, Some(late_ms), _) => What::Retried { late_ms },
        (Some("dead_letter"), _, _, Some(reason)) if !is_trouble => What::GivenUp { reason },
        (Some("drop"), ..) => What::Dropped,
        _ => What::Trouble { said: line.message, error: line.error },
    };
    steps.push(step(what));
}

#[allow(clippy::cast_possible_truncation, reason = "a float saturates")]
fn millis(seconds: f64) -> i64 {
    (seconds * 1000.0) as i64
}

/// What the last decision about the event means for it. A duplicate or a fault decides nothing.
pub(crate) fn next(steps: &[Step]) -> Next {
    let decided = steps.iter().rev().find_map(|step| match &step.what {
        What::Waits { until, .. } => Some(Next::Waits { until: *until }),
        What::Retried { .. } => Some(Next::Retried),
        What::GivenUp { reason } => Some(Next::GivenUp { reason: reason.clone() }),
        What::Succeeded => Some(Next::Succeeded),
        What::Failed { .. } | What::Dropped | What::Trouble { .. } => None,
    });
    decided.unwrap_or(Next::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiting::{Listed, of_life};

    fn line(second: u32, request_id: &str, rest: &str) -> String {
        format!(
            r#"{{"timestamp":"2026-05-01T12:00:{second:02}.000000Z","level":"INFO","message":"said",{rest}"target":"arn:orders","request_id":"{request_id}","event_id":"first","attempt":1,"due_time":"2026-05-01T12:00:09.500Z","error_type":"Down","message_id":"m","receive_count":1}}"#
        )
    }

    fn at(second: u32) -> Timestamp {
        time::parse(&format!("2026-05-01T12:00:{second:02}Z")).unwrap()
    }

    const WAIT: &str = r#""decision":"wait","delay_seconds":2.0,"#;
    const RETRIED: &str = r#""decision":"invoke","lateness_ms":12,"#;
    const GIVEN_UP: &str = r#""decision":"dead_letter","reason":"max_age_exceeded","#;

    fn told(lines: &[String]) -> (Vec<(u32, What)>, Next) {
        let life = life("first", lines.iter().map(String::as_str)).unwrap();
        let second = |at: Timestamp| u32::try_from((at - self::at(0)).num_seconds()).unwrap();
        let steps = life.steps.into_iter().map(|step| (second(step.at), step.what));
        (steps.collect(), life.next)
    }

    #[test]
    fn a_life_is_told_from_failure_to_end() {
        let failed = || What::Failed { error_type: Some("Down".to_owned()), error_message: None };
        let due_at = time::parse("2026-05-01T12:00:09.500Z");
        let waits = |until, again| What::Waits { due_at, until: at(until), again };
        let lines = [
            line(9, "first", RETRIED),
            line(1, "first", WAIT),
            line(3, "first", WAIT),
            line(20, "second", GIVEN_UP),
            line(15, "second", r#""error":"no","decision":"invoke","#),
            line(16, "second", WAIT),
            line(30, "second", r#""decision":"drop","#),
            line(31, "second", r#""decision":"mark","#),
        ];
        let trouble = |error: Option<&str>| What::Trouble {
            said: "said".to_owned(),
            error: error.map(str::to_owned),
        };
        let given_up = "max_age_exceeded".to_owned();
        let (steps, next) = told(&lines);
        let expected = [
            (1, failed()),
            (1, waits(5, 1)),
            (9, What::Retried { late_ms: 12 }),
            (15, failed()),
            (15, trouble(Some("no"))),
            (16, waits(18, 0)),
            (20, What::GivenUp { reason: given_up.clone() }),
            (30, What::Dropped),
            (31, trouble(None)),
        ];
        assert_eq!(steps, expected);
        assert_eq!(next, Next::GivenUp { reason: given_up });
        assert_eq!(told(&lines[..1]).1, Next::Retried);
        assert_eq!(told(&lines[1..3]).1, Next::Waits { until: at(5) });
        assert_eq!(told(&lines[7..]).1, Next::Unknown);
    }

    #[test]
    fn lines_that_are_about_something_else_are_left_out() {
        let other = line(1, "other", WAIT).replace("\"first\"", "\"another\"");
        let lines = [&*other, "START RequestId: first", "{}", r#"{"_aws":{}}"#, ""];
        assert_eq!(life("first", lines), Err(NoLife::None("first".to_owned())));
        assert_eq!(event_ids(lines), ["another"]);
        let waiting: Vec<_> = lives(lines).into_iter().filter_map(of_life).collect();
        let [event] = &*waiting else { panic!("{waiting:?}") };
        assert_eq!((&*event.event_id, &*event.id, event.attempt), ("another", "other", 1));
        assert_eq!((event.due, event.first_failure), (at(3), at(1)));
        assert_eq!(event.error_type.as_deref(), Some("Down"));
        assert_eq!(Listed::of(event, at(2)).kept, None);
        let own = line(1, "first", WAIT).replace(r#""event_id":"first","#, "");
        assert_eq!(event_ids([&*own, &other, &own]), ["another", "first"]);
        assert_eq!(life("first", [&*own]).unwrap().function.as_deref(), Some("arn:orders"));
    }
}
