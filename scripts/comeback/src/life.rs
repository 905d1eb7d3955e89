//! The history of one event, reconstructed from the handler's log.

use std::collections::BTreeMap;

use comeback_core::{
    Timestamp,
    log_line::{LogLine, decision},
    record::Condition,
    time,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{events_of_runs::EventsOfRuns, untrusted};

pub(crate) type Line = LogLine<String>;

#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Life {
    #[schemars(with = "untrusted::Id")]
    pub event_id: String,
    pub function: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "untrusted::Id")]
    pub trace: Option<String>,
    pub steps: Vec<Step>,
    pub next: Next,
}

#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Step {
    pub at: Timestamp,
    /// The attempt that the step is about, counted from 1. For a failure, this is the attempt after it.
    pub attempt: Option<u32>,
    #[schemars(with = "untrusted::Id")]
    pub request_id: String,
    /// The policy that decided, if it is that of an error, such as `RateLimited* of orders`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    #[serde(flatten)]
    pub what: StepKind,
}

#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum StepKind {
    /// The function failed. The step's time is that of the handler's first log line about the failure.
    Failed {
        #[schemars(with = "Option<untrusted::Text>")]
        error_type: Option<String>,
        /// The error message, which is not in the handler's log.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "untrusted::Text")]
        error_message: Option<String>,
    },
    /// Lambda did not run the function, and says why, such as `ZeroReservedConcurrency`.
    NotRun { condition: String },
    /// A rule or a schedule could not deliver the event, so its target never had it.
    Undelivered {
        /// The ARN of the rule or the schedule.
        #[schemars(with = "untrusted::Text")]
        source: String,
        #[schemars(with = "Option<untrusted::Text>")]
        error_type: Option<String>,
    },
    /// The function succeeded. Only the local cloud reports this.
    Succeeded,
    /// It waits until it comes back, which is later than its due time if it is held back. `again` is the number of
    /// times that it came back and was made to wait again.
    Waits { due_at: Option<Timestamp>, until: Timestamp, again: u32 },
    /// It was invoked again, this long after its due time.
    Retried {
        late_ms: u64,
        /// The request id of the run that this has started, if Lambda's answer named it.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "untrusted::Id")]
        retry_request_id: Option<String>,
    },
    /// Its target has accepted it, this long after it was due. What the target makes of it is another event's life.
    Delivered {
        late_ms: u64,
        /// The request id of the run that this has started, if Lambda's answer named it.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "untrusted::Id")]
        retry_request_id: Option<String>,
    },
    /// It has become a dead letter.
    GivenUp { reason: String },
    /// A duplicate message was dropped, because its failure had already been handled.
    Dropped,
    /// The handler had trouble with the event. If it `blocks`, the handler could not act on the failure: the attempt
    /// was not made, or the dead letter not sent.
    Trouble {
        said: String,
        #[schemars(with = "Option<untrusted::Text>")]
        error: Option<String>,
        #[serde(skip)]
        blocks: bool,
    },
}

impl StepKind {
    /// Whether a run failed or was not made, or the event was not delivered. Each time, the handler is told.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::NotRun { .. } | Self::Undelivered { .. })
    }

    /// Whether the target has accepted the event.
    fn is_accepted(&self) -> bool {
        matches!(self, Self::Retried { .. } | Self::Delivered { .. })
    }

    /// The error of a failure, if it has a type.
    pub fn error_type(&self) -> Option<&str> {
        match self {
            Self::Failed { error_type, .. } | Self::Undelivered { error_type, .. } => {
                error_type.as_deref()
            }
            Self::NotRun { .. }
            | Self::Succeeded
            | Self::Waits { .. }
            | Self::Retried { .. }
            | Self::Delivered { .. }
            | Self::GivenUp { .. }
            | Self::Dropped
            | Self::Trouble { .. } => None,
        }
    }
}

/// Why an event was not run, for a person: `Lambda refused it: its reserved concurrency is 0`.
pub fn refusal(condition: &str) -> String {
    match condition {
        Condition::PAUSED => {
            "Lambda refused it: its function's reserved concurrency is 0".to_owned()
        }
        "EventAgeExceeded" => "Lambda dropped it: it was in Lambda's queue for too long".to_owned(),
        other => format!("Lambda did not run it: {other}"),
    }
}

#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Next {
    /// The event comes back then.
    Waits { until: Timestamp },
    /// The event was retried, and no failure was recorded since: it is still running, or it has succeeded.
    Retried,
    /// The event succeeded. Only the local cloud reports this.
    Succeeded,
    /// The target that had missed the event has accepted it.
    Delivered,
    /// The event is a dead letter.
    GivenUp { reason: String },
    /// The log has no decision about the event.
    Unknown,
}

#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NoLife {
    #[error(
        "the handler's log says nothing about {0}; an event that never failed has no lines, and an older one needs --since"
    )]
    None(String),
    #[error("several events begin with that: {}; pass more of the id", .0.join(", "))]
    Several(Vec<String>),
}

/// The lines about each event. A line that was written before the event of its run was known belongs to the event that
/// another line names. If there is none, the run's own id stands for the event's: the run has failed and waits.
fn by_event<'a>(lines: impl IntoIterator<Item = &'a str>) -> BTreeMap<String, Vec<Line>> {
    let mut runs = EventsOfRuns::<()>::default();
    let mut events: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    let lines: Vec<_> = lines.into_iter().filter_map(read).collect();
    for line in &lines {
        runs.learn(line);
    }
    for line in lines {
        let id = runs.event_of(&line).or(line.request_id.as_deref()).unwrap_or_default();
        events.entry(id.to_owned()).or_default().push(line);
    }
    events
}

/// The ids of all events in these lines of the handler's log.
pub fn event_ids<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    by_event(lines).into_keys().collect()
}

/// The lives of all events in these lines of the handler's log.
pub fn lives<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<Life> {
    by_event(lines).into_iter().filter_map(|(id, lines)| from_lines(id, lines)).collect()
}

/// The life of the event with this id, from these lines of the handler's log.
pub fn life<'a>(event_id: &str, lines: impl IntoIterator<Item = &'a str>) -> Result<Life, NoLife> {
    let lines = by_event(lines).remove(event_id).unwrap_or_default();
    from_lines(event_id.to_owned(), lines).ok_or_else(|| NoLife::None(event_id.to_owned()))
}

fn from_lines(event_id: String, lines: Vec<Line>) -> Option<Life> {
    let mut lines: Vec<_> = lines.into_iter().filter_map(|line| Some((line.at()?, line))).collect();
    lines.sort_by_key(|(at, _)| *at);
    let function = lines.iter().find_map(|(_, line)| line.target.clone());
    let trace = lines.iter().find_map(|(_, line)| line.trace.clone());
    let mut steps = Vec::new();
    for (at, line) in lines {
        steps_of(at, line, &mut steps);
    }
    (!steps.is_empty()).then(|| Life { event_id, function, trace, next: next(&steps), steps })
}

/// Parses a log line about a message; `None` for any other line.
pub(crate) fn read(line: &str) -> Option<Line> {
    let line: Line = serde_json::from_str(line).ok()?;
    line.request_id.is_some().then_some(line)
}

/// Appends the steps that a log line describes to those of its event.
pub(crate) fn steps_of(at: Timestamp, line: Line, steps: &mut Vec<Step>) {
    let what = step_kind(at, &line);
    let request_id = line.request_id.unwrap_or_default();
    let step = |policy, what| Step {
        at,
        attempt: line.attempt,
        request_id: request_id.clone(),
        policy,
        what,
    };
    if !steps.iter().any(|step| step.request_id == request_id) {
        let error_type = line.error_type;
        let failed = match (line.source_arn, line.condition) {
            (Some(source), _) => StepKind::Undelivered { source, error_type },
            (None, Some(condition)) => StepKind::NotRun { condition },
            (None, None) => StepKind::Failed { error_type, error_message: None },
        };
        steps.push(step(None, failed));
    }
    if let StepKind::Waits { until, .. } = what
        && let Some(Step {
            request_id: last, what: StepKind::Waits { until: old, again, .. }, ..
        }) = steps.last_mut()
        && *last == request_id
    {
        *again += 1;
        *old = until;
        return;
    }
    let is_own = |it: &&Step| it.request_id == request_id;
    // Two invocations may have the same message. A wait that one logs after the other's retry is over, unless the event
    // starts over.
    let is_end = |it: &Step| matches!(it.what, StepKind::GivenUp { .. });
    let round = steps.iter().rposition(is_end).map_or(0, |end| end + 1);
    if matches!(what, StepKind::Waits { .. })
        && steps[round..].iter().any(|it| is_own(&it) && it.what.is_accepted())
    {
        return;
    }
    // A retry may fail before the handler has logged it. Its line belongs to the failure before.
    let is_first =
        what.is_accepted() && !steps.iter().filter(is_own).any(|it| it.what.is_accepted());
    let after_own = steps.iter().rposition(|it| is_first && is_own(&it)).map(|last| last + 1);
    steps.insert(after_own.unwrap_or(steps.len()), step(line.policy, what));
}

/// The decisions without which nothing happens to an event.
const ACTS: [&str; 3] = [decision::INVOKE, decision::CLAIM, decision::DEAD_LETTER];

/// What a log line says happened to its event.
pub(crate) fn step_kind(at: Timestamp, line: &Line) -> StepKind {
    let is_trouble = line.error.is_some();
    match (line.decision.as_deref(), line.delay_seconds, line.lateness_ms, &line.reason) {
        (Some(decision::WAIT), Some(delay), _, _) if !is_trouble => StepKind::Waits {
            due_at: line.due_time.as_deref().and_then(time::parse),
            until: at + chrono::TimeDelta::milliseconds(millis(delay)),
            again: 0,
        },
        (Some(decision::INVOKE), _, Some(late_ms), _) => {
            let retry_request_id = line.retry_request_id.clone();
            match line.source_arn {
                Some(_) => StepKind::Delivered { late_ms, retry_request_id },
                None => StepKind::Retried { late_ms, retry_request_id },
            }
        }
        (Some(decision::DEAD_LETTER), _, _, Some(reason)) if !is_trouble => {
            StepKind::GivenUp { reason: reason.clone() }
        }
        (Some(decision::DROP), ..) => StepKind::Dropped,
        (wanted, ..) => StepKind::Trouble {
            said: line.message.clone(),
            error: line.error.clone(),
            blocks: is_trouble && wanted.is_some_and(|wanted| ACTS.contains(&wanted)),
        },
    }
}

#[allow(clippy::cast_possible_truncation, reason = "a float saturates")]
fn millis(seconds: f64) -> i64 {
    (seconds * 1000.0) as i64
}

/// What happens next, according to the last decision about the event. Duplicates and faults are not decisions.
pub(crate) fn next(steps: &[Step]) -> Next {
    let decided = steps.iter().rev().find_map(|step| match &step.what {
        StepKind::Waits { until, .. } => Some(Next::Waits { until: *until }),
        StepKind::Retried { .. } => Some(Next::Retried),
        StepKind::GivenUp { reason } => Some(Next::GivenUp { reason: reason.clone() }),
        StepKind::Succeeded => Some(Next::Succeeded),
        StepKind::Delivered { .. } => Some(Next::Delivered),
        StepKind::Failed { .. }
        | StepKind::NotRun { .. }
        | StepKind::Undelivered { .. }
        | StepKind::Dropped
        | StepKind::Trouble { .. } => None,
    });
    decided.unwrap_or(Next::Unknown)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const ARN: &str = "arn:aws:lambda:us-east-1:1:function:orders:$LATEST";
    pub(crate) const WAIT: &str = r#""decision":"wait","delay_seconds":2.0"#;
    pub(crate) const RETRIED: &str = r#""decision":"invoke","lateness_ms":12"#;
    pub(crate) const GIVEN_UP: &str = r#""decision":"dead_letter","reason":"max_age_exceeded""#;

    pub(crate) fn at(second: u32) -> Timestamp {
        time::parse(&format!("2026-05-01T12:{:02}:{:02}Z", second / 60, second % 60)).unwrap()
    }

    /// A line of the handler's log about an event whose run with this request id has failed.
    pub(crate) fn line(second: u32, event: &str, request: &str, rest: &str) -> String {
        let at = time::rfc3339(at(second));
        format!(
            r#"{{"timestamp":"{at}","level":"INFO","message":"said",{rest},"target":"{ARN}","request_id":"{request}","event_id":"{event}","attempt":1,"due_time":"2026-05-01T12:00:09.500Z","error_type":"Down","message_id":"m","receive_count":1}}"#
        )
    }

    fn steps_and_next(lines: &[String]) -> (Vec<(u32, StepKind)>, Next) {
        let life = life("first", lines.iter().map(String::as_str)).unwrap();
        let second = |at: Timestamp| u32::try_from((at - self::at(0)).num_seconds()).unwrap();
        let steps = life.steps.into_iter().map(|step| (second(step.at), step.what));
        (steps.collect(), life.next)
    }

    #[test]
    fn a_life_has_all_steps_from_failure_to_end() {
        let failed =
            || StepKind::Failed { error_type: Some("Down".to_owned()), error_message: None };
        let due_at = time::parse("2026-05-01T12:00:09.500Z");
        let waits = |until, again| StepKind::Waits { due_at, until: at(until), again };
        let line = |second, request: &str, rest: &str| line(second, "first", request, rest);
        let lines = [
            line(9, "first", RETRIED),
            line(1, "first", WAIT),
            line(3, "first", WAIT),
            line(20, "second", GIVEN_UP),
            line(15, "second", r#""error":"no","decision":"invoke""#),
            line(16, "second", WAIT),
            line(30, "second", r#""decision":"drop""#),
            line(31, "second", r#""decision":"mark""#),
        ];
        let trouble = |error: Option<&str>| StepKind::Trouble {
            said: "said".to_owned(),
            error: error.map(str::to_owned),
            blocks: error.is_some(),
        };
        let given_up = "max_age_exceeded".to_owned();
        let (steps, next) = steps_and_next(&lines);
        let expected = [
            (1, failed()),
            (1, waits(5, 1)),
            (9, StepKind::Retried { late_ms: 12, retry_request_id: None }),
            (15, failed()),
            (15, trouble(Some("no"))),
            (16, waits(18, 0)),
            (20, StepKind::GivenUp { reason: given_up.clone() }),
            (30, StepKind::Dropped),
            (31, trouble(None)),
        ];
        assert_eq!(steps, expected);
        assert_eq!(next, Next::GivenUp { reason: given_up });
        assert_eq!(steps_and_next(&lines[..1]).1, Next::Retried);
        assert_eq!(steps_and_next(&lines[1..3]).1, Next::Waits { until: at(5) });
        assert_eq!(steps_and_next(&lines[7..]).1, Next::Unknown);
    }

    pub(crate) const RULE: &str = "arn:aws:events:us-east-1:1:rule/links";

    /// The lines about an event that a rule could not deliver, until it is delivered in the run `second`, and that
    /// about the failure of this run.
    pub(crate) fn delivered() -> [String; 4] {
        let line = |second, rest: &str| {
            line(second, "first", "first", &format!(r#"{rest},"source_arn":"{RULE}""#))
        };
        let accepted = format!(r#"{RETRIED},"retry_request_id":"second""#);
        let failed = self::line(6, "second", "second", WAIT);
        [line(1, WAIT), line(3, WAIT), line(5, &accepted), failed]
    }

    #[test]
    fn an_event_that_was_never_delivered_ends_when_its_target_accepts_it() {
        let lines = delivered();
        let (steps, next) = steps_and_next(&lines);
        let [source, error_type] = [RULE, "Down"].map(str::to_owned);
        let due_at = time::parse("2026-05-01T12:00:09.500Z");
        let retry_request_id = Some("second".to_owned());
        let expected = [
            (1, StepKind::Undelivered { source, error_type: Some(error_type) }),
            (1, StepKind::Waits { due_at, until: at(5), again: 1 }),
            (5, StepKind::Delivered { late_ms: 12, retry_request_id }),
        ];
        assert_eq!((&steps[..], next), (&expected[..], Next::Delivered));
        let ids: Vec<_> = lives(lines.iter().map(String::as_str)).into_iter().collect();
        let ids: Vec<_> = ids.iter().map(|life| (&*life.event_id, &life.steps[0].what)).collect();
        let [_, ("second", StepKind::Failed { .. })] = &ids[..] else { panic!("{ids:?}") };
    }

    #[test]
    fn what_lambda_did_not_run_has_not_failed() {
        let refused = line(1, "first", "first", WAIT)
            .replace(r#""error_type":"Down""#, r#""condition":"ZeroReservedConcurrency""#);
        let (steps, next) = steps_and_next(&[refused]);
        let condition = "ZeroReservedConcurrency".to_owned();
        assert_eq!(steps[0], (1, StepKind::NotRun { condition }));
        assert_eq!(next, Next::Waits { until: at(3) });
    }

    #[test]
    fn a_retry_that_fails_before_it_is_logged_comes_before_its_failure() {
        let line = |second, request: &str, rest: &str| line(second, "first", request, rest);
        let lines = [
            line(1, "first", WAIT),
            line(4, "second", GIVEN_UP),
            line(5, "first", RETRIED),
            // A dead letter that was moved back has the id of the first run.
            line(7, "first", WAIT),
            line(9, "first", RETRIED),
        ];
        let order = |lines: &[String]| {
            let (steps, next) = steps_and_next(lines);
            (steps.into_iter().map(|(second, _)| second).collect::<Vec<_>>(), next)
        };
        let given_up = Next::GivenUp { reason: "max_age_exceeded".to_owned() };
        assert_eq!(order(&lines[..3]), (vec![1, 1, 5, 4, 4], given_up));
        assert_eq!(order(&lines), (vec![1, 1, 5, 4, 4, 7, 9], Next::Retried));
    }

    #[test]
    fn an_event_that_was_retried_does_not_wait_because_another_invocation_has_its_message() {
        let line = |second, rest: &str| line(second, "first", "first", rest);
        let lines = [line(1, WAIT), line(9, RETRIED), line(10, WAIT), line(11, WAIT)];
        assert_eq!(steps_and_next(&lines).1, Next::Retried);
    }

    #[test]
    fn lines_about_other_things_are_ignored() {
        let other = line(1, "another", "other", WAIT);
        let lines = [&*other, "START RequestId: first", "{}", r#"{"_aws":{}}"#, ""];
        assert_eq!(life("first", lines), Err(NoLife::None("first".to_owned())));
        assert_eq!(event_ids(lines), ["another"]);
        let own = line(1, "first", "first", WAIT);
        assert_eq!(event_ids([&*own, &other, &own]), ["another", "first"]);
        assert_eq!(life("first", [&*own]).unwrap().function.as_deref(), Some(ARN));
    }

    /// A line from the time when it was not known which event the run continues.
    fn unknown(second: u32, run: &str) -> String {
        let line = line(second, "any", run, r#""decision":"wait","delay_seconds":20.0"#);
        line.replace(r#""event_id":"any","attempt":1,"#, "")
    }

    #[test]
    fn a_run_whose_event_was_not_known_at_first_is_no_event_of_its_own() {
        let retried =
            line(3, "first", "first", &format!(r#"{RETRIED},"retry_request_id":"second""#));
        let lines = [line(1, "first", "first", WAIT), retried, unknown(4, "second")];
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        assert_eq!(event_ids(lines.iter().copied()), ["first"]);
        let [life] = &*lives(lines.iter().copied()) else { panic!("{lines:?}") };
        let steps = life.steps.iter().map(|step| &*step.request_id);
        assert_eq!(steps.collect::<Vec<_>>(), ["first", "first", "first", "second", "second"]);
        assert_eq!(life.next, Next::Waits { until: at(24) });
        // Its own next line names the event, too.
        let own = line(30, "first", "second", RETRIED);
        assert_eq!(event_ids([lines[2], &own]), ["first"]);
        // If no line does, it is an event that waits, under the only id that is known.
        let [life] = &*lives([lines[2]]) else { panic!("{lines:?}") };
        assert_eq!((&*life.event_id, life.steps[0].attempt), ("second", None));
    }
}
