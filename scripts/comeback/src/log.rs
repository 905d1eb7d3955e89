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

use crate::{
    activity::{Activity, Decision, Error, Kind, Run},
    deploy::HANDLER,
    journal::Ending,
    paint::{Line, Style},
    phrases::{failure, run, seconds},
};

/// How many characters of an id are shown.
const ID_WIDTH: usize = 8;

/// The condition of an event that Lambda gives up after its last run.
const RETRIES_EXHAUSTED: &str = "RetriesExhausted";

/// Turns activity into lines, with each cause before its effect.
#[derive(Debug, Default)]
pub struct Log {
    /// The event id and the name of each run that has not ended, by its request id. The activity for the end of a run
    /// has only the request id.
    runs: HashMap<Arc<str>, (Arc<str>, String)>,
    /// How often each invocation has failed that Lambda itself may still retry, by its request id.
    failures: HashMap<Arc<str>, u32>,
    /// The due times of waiting events, by their ids.
    due: HashMap<Arc<str>, Timestamp>,
    /// The re-invocations that already have a line. Both the start of the run and the handler's log line announce a
    /// re-invocation. Either may be first, because the handler logs after Lambda has accepted the event.
    reinvoked: HashSet<(Arc<str>, u32)>,
}

impl Log {
    /// The lines for an activity. Decisions of the retry handler have lines, but its successful runs do not.
    pub fn lines(&mut self, activity: &Activity) -> Vec<Line> {
        let Activity { at, function, kind } = activity;
        match kind {
            Kind::Started(_) if **function == *HANDLER => Vec::new(),
            Kind::Started(run) => self.started(*at, function, run),
            Kind::Ended { request_id, ending, error } => {
                self.ended(*at, function, request_id, *ending, error.as_ref())
            }
            Kind::GivenUpByLambda { request_id, condition, lost } => {
                self.failures.remove(request_id);
                let Some(words) = given_up(function, request_id, condition, *lost) else {
                    return Vec::new();
                };
                entry(*at, function, request_id, Style::Bad, &words)
            }
            Kind::Decided { event_id, decision } => self.decided(*at, event_id, decision),
            Kind::Logged(text) => entry(*at, function, "", Style::Faint, text),
            Kind::Trouble(text) => entry(*at, function, "", Style::Bad, text),
        }
    }

    fn started(&mut self, at: Timestamp, function: &str, started: &Run) -> Vec<Line> {
        let Run { request_id, attempt, event_id, .. } = started;
        let which = match self.failures.get(request_id) {
            None => run(*attempt),
            Some(failures) => format!("Lambda's retry {failures} of {}", run(*attempt)),
        };
        let words = format!("{which} begins, request {request_id}");
        self.runs.insert(Arc::clone(request_id), (Arc::clone(event_id), which));
        let mut lines = Vec::new();
        if *attempt > 0 && !self.failures.contains_key(request_id) {
            let lateness = self.due.get(event_id).map(|due| between(*due, at));
            let lateness = lateness.map(|lateness| lateness.as_millis());
            lines.extend(self.reinvoked(at, event_id, *attempt, lateness));
        }
        lines.extend(entry(at, function, event_id, Style::Busy, &words));
        lines
    }

    fn ended(
        &mut self,
        at: Timestamp,
        function: &str,
        request_id: &Arc<str>,
        ending: Ending,
        error: Option<&Error>,
    ) -> Vec<Line> {
        let known = self.runs.remove(request_id);
        let event_id = known.as_ref().map_or(request_id, |(event_id, _)| event_id);
        let which = known.as_ref().map_or("the run", |(_, which)| which);
        match error {
            None => {
                self.failures.remove(request_id);
                // Only runs of the handler are not in `runs`.
                if known.is_none() {
                    return Vec::new();
                }
                entry(at, function, event_id, Style::Good, &format!("{which} succeeds"))
            }
            Some(error) => {
                if known.is_some() {
                    *self.failures.entry(Arc::clone(request_id)).or_default() += 1;
                }
                let words = format!("{which} {}", failure(ending, error));
                entry(at, function, event_id, Style::Bad, &words)
            }
        }
    }

    fn decided(&mut self, at: Timestamp, event_id: &Arc<str>, decision: &Decision) -> Vec<Line> {
        match decision {
            Decision::Wait { attempt, due, delay } => {
                self.due.insert(Arc::clone(event_id), *due);
                let (delay, due) = (seconds(*delay), time(*due));
                let words = format!("waits {delay} for attempt {attempt}, due {due}");
                entry(at, HANDLER, event_id, Style::Plain, &words)
            }
            Decision::Invoke { attempt, lateness } => {
                self.reinvoked(at, event_id, *attempt, Some(lateness.as_millis()))
            }
            Decision::DeadLetter { reason } => {
                self.due.remove(event_id);
                entry(at, HANDLER, event_id, Style::GivenUp, &format!("is given up: {reason}"))
            }
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
    use std::time::Duration;

    use super::*;
    use crate::demo::testing::{at, decides, ends, fails, starts, wait};

    fn lines(activities: &[Activity]) -> Vec<String> {
        let mut log = Log::default();
        let lines = activities.iter().flat_map(|activity| log.lines(activity));
        lines.map(|line| line.paint(false)).collect()
    }

    /// The lines without times, functions and ids.
    fn words(activities: &[Activity]) -> Vec<String> {
        lines(activities).iter().map(|line| line.chars().skip(41).collect()).collect()
    }

    fn invoke(attempt: u32, late_ms: u64) -> Decision {
        Decision::Invoke { attempt, lateness: Duration::from_millis(late_ms) }
    }

    #[test]
    fn runs_and_decisions_have_lines_with_the_id_of_their_event() {
        let give_up = Decision::DeadLetter { reason: "not_retryable".to_owned() };
        let event = "3f2a91bc-0000";
        assert_eq!(
            lines(&[
                starts(0.1, event, event, 0),
                fails(0.2, event),
                decides(0.3, event, wait(1, 2.0, 1.7)),
                decides(2.312, event, invoke(1, 312)),
                starts(2.32, "77777777-0000", event, 1),
                ends(2.4, "77777777-0000"),
                decides(2.5, event, give_up),
            ]),
            [
                "00:00:00.100Z  example-target  3f2a91bc  the first run begins, request 3f2a91bc-0000",
                "00:00:00.200Z  example-target  3f2a91bc  the first run fails: UpstreamUnavailable: 503",
                "00:00:00.300Z  retry-handler   3f2a91bc  waits 1.7 s for attempt 1, due 00:00:02.000Z",
                "00:00:02.312Z  retry-handler   3f2a91bc  was retried as attempt 1, 312 ms after it was due",
                "00:00:02.320Z  example-target  3f2a91bc  attempt 1 begins, request 77777777-0000",
                "00:00:02.400Z  example-target  3f2a91bc  attempt 1 succeeds",
                "00:00:02.500Z  retry-handler   3f2a91bc  is given up: not_retryable",
            ]
        );
    }

    #[test]
    fn a_re_invocation_has_one_line_before_its_run_whichever_is_announced_first() {
        let begins = |nth: u32| starts(2.007, &format!("x{nth}"), "r0", nth);
        let waits = decides(0.3, "r0", wait(1, 2.0, 1.7));
        let (run, invoked) = (begins(1), decides(2.006, "r0", invoke(1, 6)));
        let announced = |first: &Activity, second: &Activity, late: &str| {
            let end = ends(2.1, "x1");
            let words = words(&[waits.clone(), first.clone(), end, second.clone(), begins(2)]);
            let expected = format!("was retried as attempt 1, {late} ms after it was due");
            assert_eq!(words[1], expected, "{words:?}");
            assert_eq!(words.iter().filter(|line| line.contains("as attempt 1")).count(), 1);
            // The next attempt has no known due time.
            assert_eq!(
                words[words.len() - 2..],
                ["was retried as attempt 2", "attempt 2 begins, request x2"]
            );
        };
        announced(&run, &invoked, "7");
        announced(&invoked, &run, "6");
    }

    #[test]
    fn only_failed_runs_of_the_handler_have_lines() {
        let handler = |activity: Activity| Activity { function: HANDLER.into(), ..activity };
        let runs = [starts(0.1, "h", "h", 0), ends(0.2, "h"), starts(0.3, "i", "i", 0)];
        assert!(lines(&runs.map(handler)).is_empty());
        assert_eq!(
            lines(&[handler(fails(0.4, "i"))]),
            ["00:00:00.400Z  retry-handler   i         the run fails: UpstreamUnavailable: 503"]
        );
    }

    fn given_up(condition: &str, lost: bool) -> Activity {
        let (request_id, condition) = ("r0".into(), condition.to_owned());
        let kind = Kind::GivenUpByLambda { request_id, condition, lost };
        Activity { at: at(0.0), function: "mine".into(), kind }
    }

    #[test]
    fn an_event_of_a_function_without_a_destination_is_reported_lost() {
        let runs =
            [0.0, 60.0, 180.0].map(|second| [starts(second, "r0", "r0", 0), fails(second, "r0")]);
        let mut activities = runs.concat();
        activities.push(given_up("RetriesExhausted", true));
        let words = words(&activities);
        assert_eq!(words[2], "Lambda's retry 1 of the first run begins, request r0");
        assert_eq!(words[5], "Lambda's retry 2 of the first run fails: UpstreamUnavailable: 503");
        assert_eq!(
            words[6..],
            [
                "is lost after its last run: mine has no on-failure destination that would keep request r0"
            ]
        );
    }

    #[test]
    fn an_event_that_lambda_does_not_run_has_a_line_with_its_condition() {
        assert!(lines(&[given_up("RetriesExhausted", false)]).is_empty());
        let condition = "ZeroReservedConcurrency";
        assert_eq!(
            words(&[given_up(condition, false)]),
            ["Lambda does not run it: ZeroReservedConcurrency, request r0"]
        );
        assert_eq!(
            words(&[given_up(condition, true)]),
            [
                "is lost: ZeroReservedConcurrency, and mine has no on-failure destination that would keep request r0"
            ]
        );
    }

    #[test]
    fn a_traceback_keeps_its_lines() {
        let traceback = "[ERROR] KeyError: 'id'\rTraceback (most recent call last):\r\u{a0}\u{a0}File \"app.py\", line 2\r";
        let kind = Kind::Logged(traceback.to_owned());
        let activity = Activity { at: at(0.0), function: "mine".into(), kind };
        let indent = " ".repeat(41);
        assert_eq!(
            lines(&[activity]),
            [
                "00:00:00.000Z  mine                      [ERROR] KeyError: 'id'".to_owned(),
                format!("{indent}Traceback (most recent call last):"),
                format!("{indent}\u{a0}\u{a0}File \"app.py\", line 2"),
            ]
        );
    }
}
