//! Whether an incident is over, and when the last event comes back: one answer for the terminal, the page and agents.

use std::collections::BTreeMap;

use comeback_core::{Timestamp, time::between};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    account::names::target_name,
    operate::status::rules::{Facts, State, Unknown},
    text::{counted, due, events, span},
};

/// How many functions the sentence names.
const NAMED_MAX: usize = 3;

/// The length of CloudWatch's shortest periods, in seconds: a run is known by the minute in which it was.
const MINUTE: f64 = 60.0;

#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A function is down, failing, throttled or paused, or its queue is not received from.
    NotOver,
    /// Some of the state could not be read.
    Unknown,
    /// Nothing is failing, and events still wait for their next attempt.
    ComingBack,
    /// Nothing is failing, and nothing waits. A few failures of a running function don't count.
    Over,
}

/// Whether it is over, and when.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Over {
    pub verdict: Verdict,
    /// The functions and queues that keep it from being over, with their states.
    pub because: BTreeMap<String, State>,
    /// The number of failed events that have not come back.
    pub not_back: u64,
    /// When the last of them is due, if there is a register and nothing holds them back.
    pub last_due: Option<Timestamp>,
    /// The minute of the last failed run, and that of the last one that succeeded, in the last hour.
    pub last_failure: Option<Timestamp>,
    pub last_success: Option<Timestamp>,
}

/// Whether a function in this state keeps an incident from being over.
fn keeps(state: State) -> bool {
    match state {
        State::Down | State::Failing | State::Stopped | State::Throttled | State::Paused => true,
        State::Unknown
        | State::SomeFail
        | State::Recovering
        | State::Waiting
        | State::Well
        | State::Idle => false,
    }
}

impl Over {
    pub fn of<'a>(facts: impl IntoIterator<Item = &'a Facts>) -> Self {
        let mut over = Self {
            verdict: Verdict::Over,
            because: BTreeMap::new(),
            not_back: 0,
            last_due: None,
            last_failure: None,
            last_success: None,
        };
        // Functions that share a queue have the same count of events.
        let mut waiting: BTreeMap<&str, u64> = BTreeMap::new();
        let mut is_unknown = false;
        for it in facts {
            let state = it.state();
            if keeps(state) {
                over.because.insert(target_name(&it.function).into_owned(), state);
            }
            is_unknown |= state == State::Unknown || it.unknown.contains(&Unknown::Waiting);
            let queue = if it.queue_shared_with > 0 { &it.queue } else { &it.function };
            waiting.insert(queue, it.waiting());
            over.last_due = over.last_due.max(it.last_due);
            over.last_failure = over.last_failure.max(it.last_failure);
            over.last_success = over.last_success.max(it.last_success);
        }
        over.not_back = waiting.values().sum();
        over.verdict = match () {
            () if !over.because.is_empty() => Verdict::NotOver,
            () if is_unknown => Verdict::Unknown,
            () if over.not_back > 0 => Verdict::ComingBack,
            () => Verdict::Over,
        };
        if over.verdict != Verdict::ComingBack {
            over.last_due = None;
        }
        over
    }

    /// The answer as a sentence or two. `word` names a state.
    pub fn text(&self, now: Timestamp, word: impl Fn(State) -> &'static str) -> String {
        let waits = match self.not_back {
            0 => "no event waits".to_owned(),
            1 => "1 event is not back".to_owned(),
            number => format!("{} are not back", events(number)),
        };
        let because = self.because.iter().take(NAMED_MAX);
        let mut because: Vec<_> =
            because.map(|(name, state)| format!("{name} is {}", word(*state))).collect();
        if let Some(more) = self.because.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
            because.push(format!("{} more", counted(more as u64, "function")));
        }
        let answer = match self.verdict {
            Verdict::NotOver => format!("Not over: {}; {waits}.", because.join(", ")),
            Verdict::Unknown => {
                "Whether it is over is not known, because some of it could not be read.".to_owned()
            }
            Verdict::ComingBack => {
                let last = self.last_due.map(|at| match at > now {
                    true => format!(", the last of them is due {}", due(at, now)),
                    false => ", and all of them are due".to_owned(),
                });
                format!("Coming back: nothing is failing, and {waits}{}.", last.unwrap_or_default())
            }
            Verdict::Over => format!("Over: nothing is failing, and {waits}."),
        };
        let last = |at: Timestamp| match (between(at, now).as_secs_f64() / MINUTE).floor() {
            0.0 => "in the last minute".to_owned(),
            minutes => format!("{} ago", span(minutes * MINUTE)),
        };
        let runs = match (self.last_failure.map(last), self.last_success.map(last)) {
            (Some(failure), Some(success)) => {
                format!("Last failure {failure}, last success {success}.")
            }
            (Some(failure), None) => {
                format!("Last failure {failure}, no success in the last hour.")
            }
            (None, Some(success)) => {
                format!("No failure in the last hour, last success {success}.")
            }
            (None, None) => "No run in the last hour.".to_owned(),
        };
        format!("{answer} {runs}")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::operate::status::{rules::Runs, table::word};

    fn at(seconds: u64) -> Timestamp {
        Timestamp::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn orders() -> Facts {
        let function = "arn:aws:lambda:us-east-1:123456789012:function:orders:$LATEST".to_owned();
        let (last_failure, last_success) = (Some(at(600)), Some(at(1200)));
        let hour = Runs { invocations: 9, errors: 4 };
        Facts { function, hour, last_failure, last_success, ..Facts::default() }
    }

    fn mails() -> Facts {
        let function = "arn:aws:lambda:us-east-1:123456789012:function:mails:$LATEST".to_owned();
        Facts { function, ..orders() }
    }

    #[test]
    fn whether_it_is_over_is_one_answer_for_all_functions() {
        let failing = Runs { invocations: 3, errors: 3 };
        let now = at(1230);
        let runs = "Last failure 10 m ago, last success in the last minute.";
        let unknown = || [Unknown::Waiting].into();
        for (facts, verdict, expected) in [
            (
                vec![],
                Verdict::Over,
                "Over: nothing is failing, and no event waits. No run in the last hour.",
            ),
            (
                vec![orders()],
                Verdict::Over,
                &format!("Over: nothing is failing, and no event waits. {runs}"),
            ),
            (
                vec![orders(), Facts { delayed: 1, last_due: Some(at(1290)), ..mails() }],
                Verdict::ComingBack,
                &format!(
                    "Coming back: nothing is failing, and 1 event is not back, the last of them is due in 1 m. {runs}"
                ),
            ),
            (
                vec![Facts { in_flight: 1200, due: 3, last_due: Some(at(1)), ..orders() }],
                Verdict::ComingBack,
                &format!(
                    "Coming back: nothing is failing, and 1,203 events are not back, and all of them are due. {runs}"
                ),
            ),
            (
                vec![
                    Facts { recent: failing, ..orders() },
                    Facts {
                        down_since: Some(at(0)),
                        last_due: Some(at(2000)),
                        in_flight: 2,
                        ..mails()
                    },
                ],
                Verdict::NotOver,
                &format!(
                    "Not over: mails is down, orders is failing; 2 events are not back. {runs}"
                ),
            ),
            (
                vec![Facts { unknown: unknown(), ..orders() }],
                Verdict::Unknown,
                &format!(
                    "Whether it is over is not known, because some of it could not be read. {runs}"
                ),
            ),
            (
                vec![
                    Facts { unknown: unknown(), ..orders() },
                    Facts { paused_since: Some(at(0)), ..mails() },
                ],
                Verdict::NotOver,
                &format!("Not over: mails is paused; no event waits. {runs}"),
            ),
        ] {
            let over = Over::of(&facts);
            assert_eq!((over.verdict, over.text(now, word).as_str()), (verdict, expected));
            let is_promise = over.last_due.is_some();
            assert_eq!(
                is_promise,
                expected.contains(" due"),
                "only what nothing holds back has a due time"
            );
        }
    }

    #[test]
    fn events_in_a_queue_that_functions_share_count_once() {
        let shared = |facts: Facts| Facts {
            queue: "arn:q".to_owned(),
            queue_shared_with: 1,
            in_flight: 7,
            ..facts
        };
        assert_eq!(Over::of(&[shared(orders()), shared(mails())]).not_back, 7);
        let own = |facts: Facts| Facts { in_flight: 7, ..facts };
        assert_eq!(Over::of(&[own(orders()), own(mails())]).not_back, 14);
    }
}
