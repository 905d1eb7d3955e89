//! Formats the activity in the local cloud, one line for each step.
//!
//! Each line has the beginning of the event's id. The line for the start of a run has the full request id, so that
//! you can search for an id from a function's log or a dead letter.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use chrono::SecondsFormat;
use comeback_core::{Timestamp, time::between};
use comeback_local_client::{deploy::HANDLER, journal::Ending};

use crate::{
    activity::{Activity, Error, Kind, failure, run_name, runs::Run, seconds},
    life::StepKind,
    paint::{Line, Style},
};

const ID_WIDTH: usize = 8;

/// The condition of an event that Lambda gives up after its last run.
const RETRIES_EXHAUSTED: &str = "RetriesExhausted";

/// Turns activity into lines, with each cause before its effect.
#[derive(Debug, Default)]
pub struct Log {
    /// Whether the handler is [`HANDLER`], so that its retries are known from other runs.
    knows_handler: bool,
    /// How often each invocation has failed that Lambda itself may still retry, by its request id.
    failures: HashMap<Arc<str>, u32>,
    due: HashMap<Arc<str>, Timestamp>,
    /// The re-invocations that already have a line. Both the start of the run and the handler's log line announce a
    /// re-invocation. Either may be first, because the handler logs after Lambda has accepted the event.
    reinvoked: HashSet<(Arc<str>, u32)>,
}

impl Log {
    pub fn of(knows_handler: bool) -> Self {
        Self { knows_handler, ..Self::default() }
    }

    /// The lines for an activity. Decisions of the retry handler have lines, but its successful runs do not.
    pub fn lines(&mut self, activity: &Activity) -> Vec<Line> {
        let Activity { at, function, kind } = activity;
        match kind {
            Kind::Accepted(_) => Vec::new(),
            Kind::Started(_) if **function == *HANDLER => Vec::new(),
            Kind::Started(run) => self.started(*at, function, run),
            Kind::Ended { run, ending, error } => {
                self.ended(*at, function, run, *ending, error.as_ref())
            }
            Kind::GivenUpByLambda { request_id, condition, lost, .. } => {
                self.failures.remove(request_id);
                let Some(words) = given_up(function, request_id, condition, *lost) else {
                    return Vec::new();
                };
                entry(*at, function, request_id, Style::Bad, &words)
            }
            Kind::Decided { event_id, attempt, what } => {
                self.decided(*at, event_id, *attempt, what)
            }
            Kind::Logged(text) => entry(*at, function, "", Style::Faint, text),
            Kind::Trouble { event_id, text } => {
                entry(*at, function, event_id.as_deref().unwrap_or_default(), Style::Bad, text)
            }
        }
    }

    fn started(&mut self, at: Timestamp, function: &str, started: &Run) -> Vec<Line> {
        let Run { request_id, attempt, event_id, .. } = started;
        let words = format!("{} begins, request {request_id}", self.name(started));
        let mut lines = Vec::new();
        if *attempt > 0 && !self.failures.contains_key(request_id) {
            let lateness = self.due.get(event_id).map(|due| between(*due, at));
            let lateness = lateness.map(|lateness| lateness.as_millis());
            lines.extend(self.reinvoked(at, event_id, *attempt, lateness));
        }
        lines.extend(entry(at, function, event_id, Style::Busy, &words));
        lines
    }

    fn name(&self, run: &Run) -> String {
        let name = match run.attempt {
            0 if !self.knows_handler && run.queue.is_none() => "a run".to_owned(),
            attempt => run_name(attempt),
        };
        match self.failures.get(&run.request_id) {
            None => name,
            Some(failures) => format!("Lambda's retry {failures} of {name}"),
        }
    }

    fn ended(
        &mut self,
        at: Timestamp,
        function: &str,
        run: &Run,
        ending: Ending,
        error: Option<&Error>,
    ) -> Vec<Line> {
        let Run { request_id, event_id, .. } = run;
        let is_handler = *function == *HANDLER;
        let name = if is_handler { "the run".to_owned() } else { self.name(run) };
        match error {
            None => {
                self.failures.remove(request_id);
                if is_handler {
                    return Vec::new();
                }
                entry(at, function, event_id, Style::Good, &format!("{name} succeeds"))
            }
            Some(error) => {
                if !is_handler {
                    *self.failures.entry(Arc::clone(request_id)).or_default() += 1;
                }
                let words = format!("{name} {}", failure(ending, error));
                entry(at, function, event_id, Style::Bad, &words)
            }
        }
    }

    fn decided(
        &mut self,
        at: Timestamp,
        event_id: &Arc<str>,
        attempt: Option<u32>,
        what: &StepKind,
    ) -> Vec<Line> {
        match (what, attempt) {
            (StepKind::Waits { until, .. }, None) => {
                let delay = seconds(between(at, *until));
                let words = format!("waits {delay}: which attempt is next is not known yet");
                entry(at, HANDLER, event_id, Style::Plain, &words)
            }
            (StepKind::Waits { due_at, until, .. }, Some(attempt)) => {
                let due = due_at.unwrap_or(*until);
                self.due.insert(Arc::clone(event_id), due);
                let delay = seconds(between(at, *until));
                // The handler could not make the attempt, or was not allowed to.
                let words = if due <= at {
                    format!("attempt {attempt} was due {}: it is tried in {delay}", time(due))
                } else {
                    format!("waits {delay} for attempt {attempt}, due {}", time(due))
                };
                entry(at, HANDLER, event_id, Style::Plain, &words)
            }
            (StepKind::Retried { late_ms, .. }, Some(attempt)) => {
                self.reinvoked(at, event_id, attempt, Some((*late_ms).into()))
            }
            (StepKind::Delivered { late_ms, .. }, _) => {
                self.due.remove(event_id);
                let words = format!("was delivered, {late_ms} ms after it was due");
                entry(at, HANDLER, event_id, Style::Good, &words)
            }
            (StepKind::GivenUp { reason }, _) => {
                self.due.remove(event_id);
                entry(at, HANDLER, event_id, Style::GivenUp, &format!("is given up: {reason}"))
            }
            (
                StepKind::Retried { .. }
                | StepKind::Failed { .. }
                | StepKind::NotRun { .. }
                | StepKind::Undelivered { .. }
                | StepKind::Succeeded
                | StepKind::Dropped
                | StepKind::Trouble { .. },
                _,
            ) => Vec::new(),
        }
    }

    /// The line for a re-invocation, unless the other announcement already had it.
    fn reinvoked(
        &mut self,
        at: Timestamp,
        event_id: &Arc<str>,
        attempt: u32,
        late_ms: Option<u128>,
    ) -> Vec<Line> {
        let reinvocation = (Arc::clone(event_id), attempt);
        if self.reinvoked.remove(&reinvocation) {
            return Vec::new();
        }
        self.reinvoked.insert(reinvocation);
        self.due.remove(event_id);
        let late = late_ms.map(|late| format!(", {late} ms after it was due")).unwrap_or_default();
        let words = format!("was retried as attempt {attempt}{late}");
        entry(at, HANDLER, event_id, Style::Plain, &words)
    }
}

/// The text for an event that Lambda gives up. `None` if the event has failed its last run and goes to its destination,
/// because the failure of that run already has a line.
fn given_up(function: &str, request_id: &str, condition: &str, lost: bool) -> Option<String> {
    let no_destination =
        format!("{function} has no on-failure destination that would keep request {request_id}");
    match (condition, lost) {
        (RETRIES_EXHAUSTED, false) => None,
        (RETRIES_EXHAUSTED, true) => Some(format!("is lost after its last run: {no_destination}")),
        (_, false) => Some(format!("Lambda does not run it: {condition}, request {request_id}")),
        (_, true) => Some(format!("is lost: {condition}, and {no_destination}")),
    }
}

/// The lines for one activity. A multi-line text, such as a traceback, stays on several lines.
fn entry(at: Timestamp, function: &str, id: &str, style: Style, words: &str) -> Vec<Line> {
    let id: String = id.chars().take(ID_WIDTH).collect();
    let head = Line::of(Style::Faint, time(at))
        .and(Style::Plain, format!("  {function:<15}"))
        .and(Style::Faint, format!(" {id:<ID_WIDTH$}  "));
    let rest = Line::default().padded(head.width());
    // Python's runtime client separates the lines of a traceback with carriage returns.
    let mut texts = words.split(['\r', '\n']).filter(|text| !text.is_empty());
    let first = head.and(style, texts.next().unwrap_or_default());
    let others = texts.map(|text| rest.clone().and(style, text));
    [first].into_iter().chain(others).collect()
}

/// The time of day. The date is left out, because it rarely changes while a user watches.
fn time(at: Timestamp) -> String {
    let whole = at.to_rfc3339_opts(SecondsFormat::Millis, true);
    whole.split_once('T').map_or(whole.clone(), |(_, time)| time.to_owned())
}

#[cfg(test)]
mod tests {
    use comeback_local_client::journal::Entry;
    use serde_json::json;

    use super::*;

    use crate::activity::tests::{
        accepts, decides, ends, entry, fails, gives_up, logs, read, retries, starts, waits,
    };

    fn lines(entries: &[Entry]) -> Vec<String> {
        let mut log = Log::of(true);
        let lines = read(entries).into_iter().flat_map(|activity| log.lines(&activity));
        lines.map(|line| line.paint(false)).collect()
    }

    /// The lines without times, functions and ids.
    fn words(entries: &[Entry]) -> Vec<String> {
        lines(entries).iter().map(|line| line.chars().skip(41).collect()).collect()
    }

    #[test]
    fn runs_and_decisions_have_lines_with_the_id_of_their_event() {
        let event = "3f2a91bc-0000";
        let expected = [
            "00:00:00.100Z  example-target  3f2a91bc  the first run begins, request 3f2a91bc-0000",
            "00:00:00.200Z  example-target  3f2a91bc  the first run fails: UpstreamUnavailable: 503",
            "00:00:00.300Z  retry-handler   3f2a91bc  waits 1.7 s for attempt 1, due 00:00:02.000Z",
            "00:00:02.312Z  retry-handler   3f2a91bc  was retried as attempt 1, 312 ms after it was due",
            "00:00:02.320Z  example-target  3f2a91bc  attempt 1 begins, request 77777777-0000",
            "00:00:02.400Z  example-target  3f2a91bc  attempt 1 succeeds",
            "00:00:02.500Z  retry-handler   3f2a91bc  is given up: not_retryable",
        ];
        let entries = [
            starts(0.1, event, event, 0),
            fails(0.2, event),
            waits(0.3, event, 1, 2.0, 1.7),
            retries(2.312, event, 1, 312),
            starts(2.32, "77777777-0000", event, 1),
            ends(2.4, "77777777-0000"),
            gives_up(2.5, event, "not_retryable"),
        ];
        assert_eq!(lines(&entries), expected);
    }

    #[test]
    fn a_re_invocation_has_one_line_before_its_run_whichever_is_announced_first() {
        let begins = |nth: u32| starts(2.007, &format!("x{nth}"), "r0", nth);
        let announced = |first: Entry, second: Entry, late: &str| {
            let wait = waits(0.3, "r0", 1, 2.0, 1.7);
            let words = words(&[wait, first, ends(2.1, "x1"), second, begins(2)]);
            let expected = format!("was retried as attempt 1, {late} ms after it was due");
            assert_eq!(words[1], expected, "{words:?}");
            assert_eq!(words.iter().filter(|line| line.contains("as attempt 1")).count(), 1);
            // The next attempt has no known due time.
            let next = ["was retried as attempt 2", "attempt 2 begins, request x2"];
            assert_eq!(words[words.len() - 2..], next);
        };
        announced(begins(1), retries(2.006, "r0", 1, 6), "7");
        announced(retries(2.006, "r0", 1, 6), begins(1), "6");
    }

    #[test]
    fn trouble_of_the_handler_names_the_event_its_function_and_when_the_attempt_is_tried_again() {
        let refused = json!({
            "level": "ERROR", "message": "the invocation was not accepted", "decision": "invoke",
            "target": "arn:aws:lambda:us-east-1:1:function:orders:$LATEST", "attempt": 1,
            "event_id": "3f2a91bc-0000", "request_id": "3f2a91bc-0000", "error": "AccessDenied: no",
        });
        let entries =
            [logs(2.1, HANDLER, &refused.to_string()), waits(2.1, "3f2a91bc-0000", 1, 2.0, 97.3)];
        let expected = [
            "00:00:02.100Z  retry-handler   3f2a91bc  orders: the invocation was not accepted: AccessDenied: no",
            "00:00:02.100Z  retry-handler   3f2a91bc  attempt 1 was due 00:00:02.000Z: it is tried in 97.3 s",
        ];
        assert_eq!(lines(&entries), expected);
    }

    #[test]
    fn only_failed_runs_of_the_handler_have_lines() {
        let handler = |entry: Entry| Entry { function: HANDLER.into(), ..entry };
        let runs =
            [starts(0.1, "h", "h", 0), ends(0.2, "h"), starts(0.3, "i", "i", 0), fails(0.4, "i")];
        assert_eq!(
            lines(&runs.map(handler)),
            ["00:00:00.400Z  retry-handler   i         the run fails: UpstreamUnavailable: 503"]
        );
    }

    #[test]
    fn an_event_that_lambda_gives_up_has_a_line_that_says_whether_it_is_lost() {
        let given_up = |condition: &str, lost: bool| {
            let members = json!({ "request_id": "r0", "condition": condition, "lost": lost });
            entry(0.0, "mine", "GivenUp", members)
        };
        let runs =
            [0.0, 60.0, 180.0].map(|second| [starts(second, "r0", "r0", 0), fails(second, "r0")]);
        let lost = words(&[runs.concat(), vec![given_up("RetriesExhausted", true)]].concat());
        assert_eq!(lost[2], "Lambda's retry 1 of the first run begins, request r0");
        assert_eq!(lost[5], "Lambda's retry 2 of the first run fails: UpstreamUnavailable: 503");
        let nowhere = "mine has no on-failure destination that would keep request r0";
        assert_eq!(lost[6], format!("is lost after its last run: {nowhere}"));
        let paused = "ZeroReservedConcurrency";
        for (condition, lost, expected) in [
            ("RetriesExhausted", false, None),
            (paused, false, Some(format!("Lambda does not run it: {paused}, request r0"))),
            (paused, true, Some(format!("is lost: {paused}, and {nowhere}"))),
        ] {
            assert_eq!(words(&[given_up(condition, lost)]), Vec::from_iter(expected));
        }
    }

    #[test]
    fn a_retry_without_an_envelope_is_an_attempt_of_its_event_whichever_is_announced_first() {
        let retried = || {
            let invoke = json!({
                "decision": "invoke", "attempt": 1, "lateness_ms": 6, "retry_request_id": "7777-0000",
            });
            decides(2.006, "3f2a-0000", invoke)
        };
        let accepted = || accepts(2.001, "7777-0000", HANDLER);
        let begins = || starts(2.007, "7777-0000", "7777-0000", 0);
        let (waits, ends) = (waits(0.3, "3f2a-0000", 1, 2.0, 1.7), ends(2.1, "7777-0000"));
        let first = starts(0.1, "3f2a-0000", "3f2a-0000", 0);
        let expected = [
            "00:00:00.100Z  example-target  3f2a-000  the first run begins, request 3f2a-0000",
            "00:00:00.300Z  retry-handler   3f2a-000  waits 1.7 s for attempt 1, due 00:00:02.000Z",
        ];
        let after = [
            "00:00:02.007Z  example-target  3f2a-000  attempt 1 begins, request 7777-0000",
            "00:00:02.100Z  example-target  3f2a-000  attempt 1 succeeds",
        ];
        for (entries, announced) in [
            (
                [accepted(), retried(), begins(), ends.clone()],
                "00:00:02.006Z  retry-handler   3f2a-000  was retried as attempt 1, 6 ms after it was due",
            ),
            (
                [accepted(), begins(), retried(), ends],
                "00:00:02.007Z  retry-handler   3f2a-000  was retried as attempt 1, 7 ms after it was due",
            ),
        ] {
            let entries = [vec![first.clone(), waits.clone()], entries.to_vec()].concat();
            let expected = [&expected[..], &[announced], &after].concat();
            assert_eq!(lines(&entries), expected);
        }
    }

    #[test]
    fn a_run_is_called_the_first_one_only_if_the_handler_is_known() {
        let mut unread = waits(0.3, "r0", 1, 0.3, 1.0);
        unread.line = unread.line.map(|line| line.replace("\"attempt\":1,", ""));
        let entries = [starts(0.1, "r0", "r0", 0), fails(0.2, "r0"), unread];
        for (knows_handler, name) in [(false, "a run"), (true, "the first run")] {
            let mut log = Log::of(knows_handler);
            let lines = read(&entries).into_iter().flat_map(|activity| log.lines(&activity));
            let lines: Vec<_> = lines.map(|line| line.paint(false)[41..].to_owned()).collect();
            let expected = [
                format!("{name} begins, request r0"),
                format!("{name} fails: UpstreamUnavailable: 503"),
                "waits 1.0 s: which attempt is next is not known yet".to_owned(),
            ];
            assert_eq!(lines, expected);
        }
    }

    #[test]
    fn a_traceback_keeps_its_lines() {
        let traceback = "[ERROR] KeyError: 'id'\rTraceback (most recent call last):\r\u{a0}\u{a0}File \"app.py\", line 2\r";
        let indent = " ".repeat(41);
        let expected = [
            "00:00:00.000Z  mine                      [ERROR] KeyError: 'id'".to_owned(),
            format!("{indent}Traceback (most recent call last):"),
            format!("{indent}\u{a0}\u{a0}File \"app.py\", line 2"),
        ];
        assert_eq!(lines(&[logs(0.0, "mine", traceback)]), expected);
    }
}
