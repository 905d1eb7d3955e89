//! What happens in the local cloud, as lines for a person who looks on.

use std::{collections::HashMap, sync::Arc};

use chrono::SecondsFormat;
use comeback_core::Timestamp;
use comeback_local::journal::Ending;

use crate::{
    deploy::HANDLER,
    happening::{Decided, Decision, Error, Happening, Run, What},
    paint::{Line, Style},
    words::{failure, run, seconds},
};

/// So much of an id tells events apart on a screen.
const ID_WIDTH: usize = 8;

/// What Lambda says of an event whose run has just been seen to fail.
const RETRIES_EXHAUSTED: &str = "RetriesExhausted";

/// Tells what happens. A run's end names no event, so the runs that have not ended are remembered.
#[derive(Debug, Default)]
pub struct Log {
    runs: HashMap<Arc<str>, (Arc<str>, u32)>,
}

impl Log {
    /// The line for what happened, if it is worth one. The retry handler's own runs are not: what it
    /// decides in them is.
    pub fn line(&mut self, happening: &Happening) -> Option<Line> {
        let Happening { at, function, what } = happening;
        let (id, style, words) = match what {
            What::Started(_) if **function == *HANDLER => return None,
            What::Started(Run { request_id, attempt, event_id, .. }) => {
                self.runs.insert(Arc::clone(request_id), (Arc::clone(event_id), *attempt));
                (Some(Arc::clone(event_id)), Style::Busy, format!("{} begins", run(*attempt)))
            }
            What::Ended { request_id, ending, error } => {
                let known = self.runs.remove(request_id);
                if known.is_none() && error.is_none() {
                    return None;
                }
                let (style, words) = ended(*ending, error.as_ref(), known.as_ref());
                (Some(known.map_or_else(|| Arc::clone(request_id), |(id, _)| id)), style, words)
            }
            What::GivenUpByLambda { condition, .. } if condition == RETRIES_EXHAUSTED => {
                return None;
            }
            What::GivenUpByLambda { request_id, condition } => {
                let words = format!("Lambda does not run it: {condition}");
                (Some(Arc::clone(request_id)), Style::Bad, words)
            }
            What::Decided(Decided { event_id, decision }) => {
                let (style, words) = decided(decision);
                (Some(Arc::clone(event_id)), style, words)
            }
            What::Said(text) => (None, Style::Faint, text.clone()),
            What::Trouble(text) => (None, Style::Bad, text.clone()),
        };
        let id: String = id.iter().flat_map(|id| id.chars()).take(ID_WIDTH).collect();
        let line = Line::of(Style::Faint, time(*at)).and(Style::Plain, format!("  {function:<15}"));
        Some(line.and(Style::Faint, format!(" {id:<ID_WIDTH$}  ")).and(style, words))
    }
}

fn ended(
    ending: Ending,
    error: Option<&Error>,
    known: Option<&(Arc<str>, u32)>,
) -> (Style, String) {
    let which = known.map_or_else(|| "the run".to_owned(), |(_, attempt)| run(*attempt));
    match error {
        None => (Style::Good, format!("{which} succeeds")),
        Some(error) => (Style::Bad, format!("{which} {}", failure(ending, error))),
    }
}

fn decided(decision: &Decision) -> (Style, String) {
    match decision {
        Decision::Wait { attempt, due, delay } => {
            let words =
                format!("waits {} for attempt {attempt}, due {}", seconds(*delay), time(*due));
            (Style::Plain, words)
        }
        Decision::Invoke { attempt, lateness } => {
            let late = lateness.as_millis();
            (
                Style::Plain,
                format!("was re-invoked as attempt {attempt}, {late} ms after it was due"),
            )
        }
        Decision::DeadLetter { reason } => (Style::GivenUp, format!("is given up: {reason}")),
    }
}

/// The time of day. Of the whole date nothing else changes while a person looks on.
fn time(at: Timestamp) -> String {
    let whole = at.to_rfc3339_opts(SecondsFormat::Millis, true);
    whole.split_once('T').map_or(whole.clone(), |(_, time)| time.to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::demo::testing::{at, decides, ends, fails, starts};

    fn told(happenings: &[Happening]) -> Vec<String> {
        let mut log = Log::default();
        let lines = happenings.iter().filter_map(|happening| log.line(happening));
        lines.map(|line| line.paint(false)).collect()
    }

    #[test]
    fn runs_and_decisions_are_told_under_the_id_of_their_event() {
        let wait = Decision::Wait { attempt: 1, due: at(2.0), delay: Duration::from_millis(1700) };
        let invoke = Decision::Invoke { attempt: 1, lateness: Duration::from_millis(312) };
        let give_up = Decision::DeadLetter { reason: "not_retryable".to_owned() };
        let event = "3f2a91bc-0000";
        assert_eq!(
            told(&[
                starts(0.1, event, event, 0),
                fails(0.2, event),
                decides(0.3, event, wait),
                decides(2.312, event, invoke),
                starts(2.32, "77777777-0000", event, 1),
                ends(2.4, "77777777-0000"),
                decides(2.5, event, give_up),
            ]),
            [
                "00:00:00.100Z  example-target  3f2a91bc  the first run begins",
                "00:00:00.200Z  example-target  3f2a91bc  the first run fails: UpstreamUnavailable: 503",
                "00:00:00.300Z  retry-handler   3f2a91bc  waits 1.7 s for attempt 1, due 00:00:02.000Z",
                "00:00:02.312Z  retry-handler   3f2a91bc  was re-invoked as attempt 1, 312 ms after it was due",
                "00:00:02.320Z  example-target  3f2a91bc  attempt 1 begins",
                "00:00:02.400Z  example-target  3f2a91bc  attempt 1 succeeds",
                "00:00:02.500Z  retry-handler   3f2a91bc  is given up: not_retryable",
            ]
        );
    }

    #[test]
    fn of_the_handlers_own_runs_only_failures_are_told() {
        let handler = |happening: Happening| Happening { function: HANDLER.into(), ..happening };
        let runs = [starts(0.1, "h", "h", 0), ends(0.2, "h"), starts(0.3, "i", "i", 0)];
        assert!(told(&runs.map(handler)).is_empty());
        assert_eq!(
            told(&[handler(fails(0.4, "i"))]),
            ["00:00:00.400Z  retry-handler   i         the run fails: UpstreamUnavailable: 503"]
        );
    }

    #[test]
    fn what_lambda_does_not_run_is_told_with_its_condition() {
        let given_up = |condition: &str| {
            let (request_id, condition) = ("r".into(), condition.to_owned());
            let what = What::GivenUpByLambda { request_id, condition };
            told(&[Happening { at: at(0.0), function: "example-target".into(), what }])
        };
        assert!(given_up("RetriesExhausted").is_empty());
        assert_eq!(
            given_up("ZeroReservedConcurrency"),
            [
                "00:00:00.000Z  example-target  r         Lambda does not run it: ZeroReservedConcurrency"
            ]
        );
    }
}
