//! The state of each function: whether it fails, how many events wait, and how its events ended.

use std::collections::{BTreeMap, BTreeSet};

use comeback_core::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::account::names::is_queue;

/// The state of a function, most urgent first.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The function is down: its circuit is open, and it is only probed.
    Down,
    /// At least half of the recent runs failed.
    Failing,
    /// Of a queue: none of its consumers receives from it.
    Stopped,
    /// It could not be read whether runs fail.
    Unknown,
    /// Fewer failed, or it is not known of how many runs.
    SomeFail,
    /// Lambda had no concurrency for it lately: its events queue up at Lambda, its messages in the queue, or Lambda
    /// refuses to run them at all.
    Throttled,
    Paused,
    /// Recent runs succeeded, and events still wait.
    Recovering,
    /// Events wait, and nothing has run recently.
    Waiting,
    /// No recent run failed, and no events wait.
    Well,
    /// Nothing ran in the last hour, nothing waits, and there are no dead letters.
    Idle,
}

#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Serialize)]
pub struct Facts {
    /// The qualified ARN of the function, as in failure records.
    pub function: String,
    pub queue: String,
    /// The number of other functions that share the queue. The queue's message counts include their events.
    pub queue_shared_with: usize,
    /// The number of messages in flight: waiting, or being handled.
    pub in_flight: u64,
    pub delayed: u64,
    /// The number of messages that are due but not yet received.
    pub due: u64,
    pub recent: Runs,
    /// Whether a run of the latest minute in which any began has succeeded.
    pub succeeds: bool,
    /// Whether Lambda has refused to run its latest events, as it does with a reserved concurrency of 0.
    pub refuses: bool,
    pub hour: Runs,
    /// How often Lambda had no concurrency for it in the last five minutes.
    pub throttles: u64,
    /// Of a function: the number of events that Lambda has accepted and that have not run to an end.
    pub at_lambda: Option<u64>,
    /// The age of the oldest event that Lambda tried to run in the last five minutes, in seconds.
    pub lambda_oldest_seconds: Option<f64>,
    /// Of a queue: the functions that receive from it.
    pub consumers: Vec<Consumer>,
    /// Of a queue: the number of messages in it, and how many of those nobody has received yet.
    pub in_source: Option<InSource>,
    /// The number of runs in the last hour that were retries.
    pub retried: u64,
    /// The age of the oldest event that was handled in the last hour, in seconds.
    pub oldest_seconds: Option<f64>,
    /// Its dead letters in the last day, by reason.
    pub dead_letters: BTreeMap<String, u64>,
    pub circuit: Option<String>,
    pub down_since: Option<Timestamp>,
    pub paused_since: Option<Timestamp>,
    /// How many of its failures Lambda could not deliver in the last day. They are lost.
    pub undelivered: u64,
    /// When the next and the last of its waiting events are due, if there is a register.
    pub next_due: Option<Timestamp>,
    pub last_due: Option<Timestamp>,
    /// The minute of its last failed run, and that of the last one that succeeded, in the last hour.
    pub last_failure: Option<Timestamp>,
    pub last_success: Option<Timestamp>,
    /// What could not be read. Its numbers are 0.
    pub unknown: BTreeSet<Unknown>,
}

/// A part of the facts that could not be read.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unknown {
    /// How many events wait.
    Waiting,
    /// All that CloudWatch counts.
    Runs,
}

#[derive(Clone, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Consumer {
    pub function: String,
    /// Whether its mapping is enabled.
    pub is_enabled: bool,
}

#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
pub struct InSource {
    pub messages: u64,
    pub due: u64,
}

#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Runs {
    pub invocations: u64,
    pub errors: u64,
}

/// The runs of an hour, by the second in which their minute begins.
#[derive(Clone, Debug, Default)]
pub struct Minutes(pub BTreeMap<i64, Runs>);

impl Minutes {
    /// Whether a run of the latest minute since this second in which any began has succeeded.
    pub fn succeed(&self, since: i64) -> bool {
        let latest = self.0.range(since..).map(|(_, it)| it).rev().find(|it| it.invocations > 0);
        latest.is_some_and(|it| it.errors < it.invocations)
    }

    /// The runs since this second that say how a function is now: those of the latest minute in which any began if
    /// none of these failed, and otherwise all. So a function that was repaired is not failing because of what failed
    /// before.
    pub fn recent(&self, since: i64) -> Runs {
        let mut ran = self.0.range(since..).map(|(_, it)| it).rev().filter(|it| it.invocations > 0);
        if let Some(latest) = ran.next().filter(|it| it.errors == 0) {
            return *latest;
        }
        self.since(since)
    }

    /// All runs since this second.
    pub fn since(&self, since: i64) -> Runs {
        self.0.range(since..).fold(Runs::default(), |sum, (_, it)| Runs {
            invocations: sum.invocations + it.invocations,
            errors: sum.errors + it.errors,
        })
    }

    /// The last minute with a run like this.
    pub fn last(&self, is: impl Fn(&Runs) -> bool) -> Option<Timestamp> {
        let (second, _) = self.0.iter().rev().find(|(_, it)| is(it))?;
        Timestamp::from_timestamp(*second, 0)
    }
}

/// CloudWatch's count, which is a floating-point number.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
pub fn whole(number: f64) -> u64 {
    number.round() as u64
}

impl Facts {
    pub fn waiting(&self) -> u64 {
        self.in_flight + self.delayed + self.due
    }

    /// What was accepted for it and has not run to an end: the events at Lambda, or the messages in the queue.
    pub fn queued(&self) -> Option<u64> {
        self.in_source.map(|it| it.messages).or(self.at_lambda)
    }

    /// Nobody counts the runs of a queue's consumer that is no function.
    pub fn has_runs(&self) -> bool {
        !self.consumers.is_empty() || !is_queue(&self.function)
    }

    /// Whether functions should receive from the queue, and none does.
    fn is_stopped(&self) -> bool {
        !self.consumers.is_empty() && self.consumers.iter().all(|it| !it.is_enabled)
    }

    /// Whether nothing is to be seen of it: in the last hour nothing ran, nothing waits, and nothing died in a day.
    fn is_idle(&self) -> bool {
        let ran = self.recent.invocations + self.hour.invocations + self.retried;
        ran == 0 && self.dead_letters.is_empty() && self.queued().is_none_or(|queued| queued == 0)
    }

    /// Whether it succeeds, and nothing that failed is left.
    fn is_through(&self) -> bool {
        self.succeeds && self.waiting() == 0 && self.queued().is_none_or(|events| events == 0)
    }

    /// The one word for a function or a queue, in the program and on its page.
    pub fn state(&self) -> State {
        let Runs { invocations, errors } = self.recent;
        // What nobody has begun to run waits, too, if nothing runs.
        let not_begun = self.in_source.map(|it| it.due).or(self.at_lambda);
        let is_stuck = invocations == 0 && not_begun.is_some_and(|events| events > 0);
        let most_fail = errors > 0 && self.has_runs() && errors >= invocations.div_ceil(2);
        if self.down_since.is_some() {
            State::Down
        } else if self.unknown.contains(&Unknown::Runs) {
            State::Unknown
        } else if self.refuses {
            // What failed before says nothing of now.
            State::Throttled
        } else if most_fail && !self.is_through() {
            State::Failing
        } else if self.is_stopped() {
            State::Stopped
        } else if errors > 0 {
            State::SomeFail
        } else if self.throttles > 0 {
            State::Throttled
        } else if self.paused_since.is_some() {
            State::Paused
        } else if self.waiting() > 0 || is_stuck {
            if invocations > 0 { State::Recovering } else { State::Waiting }
        } else if self.is_idle() {
            State::Idle
        } else {
            State::Well
        }
    }
}

/// Lambda's counts of what comes into a function's queue of events, and of what leaves it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Flow {
    Received,
    Runs,
    FailedRuns,
    Dropped,
}

impl Flow {
    pub const ALL: [Self; 4] = [Self::Received, Self::Runs, Self::FailedRuns, Self::Dropped];

    pub fn name(self) -> &'static str {
        match self {
            Self::Received => "AsyncEventsReceived",
            Self::Runs => "Invocations",
            Self::FailedRuns => "Errors",
            Self::Dropped => "AsyncEventsDropped",
        }
    }
}

/// The longest time in seconds between two attempts of an event that Lambda refuses to run, and a minute to count it.
const REFUSED_FOR: i64 = 16 * 60;

/// Whether Lambda has refused to run the latest events, by its counts of each minute until now: in the latest minute in
/// which any ran or was dropped, some were dropped, and none ran.
pub fn refuses(counts: &[(i64, Flow, f64)], now: i64) -> bool {
    let sum = |flow, minute| -> f64 {
        counts.iter().filter(|it| (it.0, it.1) == (minute, flow)).map(|it| it.2).sum()
    };
    let has_left =
        |it: &&(i64, Flow, f64)| matches!(it.1, Flow::Runs | Flow::Dropped) && it.2 > 0.0;
    let latest = counts.iter().filter(has_left).map(|it| it.0).max();
    latest.is_some_and(|minute| {
        now - minute < REFUSED_FOR
            && sum(Flow::Dropped, minute) > 0.0
            && sum(Flow::Runs, minute) == 0.0
    })
}

/// How many events are in a function's queue, by Lambda's counts of each minute. An event leaves it when it succeeds,
/// or when Lambda drops it after its last run, or without one. What was in the queue before the first minute is not
/// known, and invocations that wait for their answer leave it without having come. So the number is the least possible:
/// since the time when the fewest were there.
pub fn at_lambda(mut counts: Vec<(i64, Flow, f64)>) -> u64 {
    counts.sort_unstable_by_key(|(at, ..)| *at);
    let (mut there, mut least) = (0.0, 0.0_f64);
    for minute in counts.chunk_by(|(one, ..), (other, ..)| one == other) {
        for (_, flow, count) in minute {
            match flow {
                Flow::Received | Flow::FailedRuns => there += count,
                Flow::Runs | Flow::Dropped => there -= count,
            }
        }
        least = least.min(there);
    }
    whole(there - least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_events_at_lambda_are_those_that_came_and_have_not_left() {
        use Flow::{Dropped, FailedRuns, Received, Runs};
        for (counts, expected) in [
            (vec![], 0),
            (vec![(0, Received, 100.0), (0, Runs, 30.0)], 70),
            // A run that failed leaves the queue when Lambda drops the event: at once, or after its own retries.
            (vec![(0, Received, 9.0), (0, Runs, 9.0), (0, FailedRuns, 9.0), (0, Dropped, 8.0)], 1),
            (vec![(0, Received, 9.0), (1, Dropped, 9.0)], 0),
            // Older events run, and synchronous ones; then new ones come. CloudWatch's points are in no order.
            (vec![(2, Received, 5.0), (0, Runs, 40.0), (1, Runs, 10.0), (2, Runs, 2.0)], 3),
        ] {
            assert_eq!(at_lambda(counts.clone()), expected, "{counts:?}");
        }
    }

    #[test]
    fn lambda_refuses_a_function_whose_latest_events_were_dropped_without_a_run() {
        use Flow::{Dropped, FailedRuns, Received, Runs};
        let at = |minute: i64, flow, count| (minute * 60, flow, count);
        let dropped = at(3, Dropped, 2.0);
        for (counts, now, expected) in [
            (vec![], 4, false),
            (vec![dropped], 4, true),
            (vec![dropped], 18, true),
            (vec![dropped], 19, false),
            (vec![dropped, at(5, Received, 2.0)], 5, true),
            // Each event is dropped after its last run.
            (vec![dropped, at(3, Runs, 2.0), at(3, FailedRuns, 2.0)], 4, false),
            (vec![dropped, at(2, Runs, 9.0), at(2, FailedRuns, 9.0)], 4, true),
            (vec![dropped, at(4, Runs, 1.0)], 4, false),
            (vec![dropped, at(4, Runs, 0.0)], 4, true),
        ] {
            assert_eq!(refuses(&counts, now * 60), expected, "{counts:?} {now}");
        }
    }

    #[test]
    fn a_function_that_was_repaired_is_judged_by_its_latest_minute() {
        let runs = |invocations, errors| Runs { invocations, errors };
        for (minutes, expected) in [
            (vec![], (runs(0, 0), false)),
            (vec![(1, runs(9, 9)), (2, runs(4, 0))], (runs(4, 0), true)),
            (vec![(1, runs(9, 9)), (2, runs(4, 0)), (3, runs(0, 0))], (runs(4, 0), true)),
            (vec![(1, runs(9, 9)), (2, runs(4, 1))], (runs(13, 10), true)),
            (vec![(1, runs(5, 0)), (2, runs(4, 4))], (runs(9, 4), false)),
            (vec![(-1, runs(9, 9)), (2, runs(4, 1))], (runs(4, 1), true)),
        ] {
            let all = Minutes(minutes.into_iter().collect());
            assert_eq!((all.recent(0), all.succeed(0)), expected, "{all:?}");
        }
    }

    #[test]
    fn the_last_minute_with_a_failure_and_with_a_success_are_known() {
        let runs = |invocations, errors| Runs { invocations, errors };
        let minutes = [(60, runs(2, 0)), (120, runs(4, 1)), (180, runs(3, 3)), (240, runs(0, 0))];
        let minutes = Minutes(minutes.into());
        let at = |second| Timestamp::from_timestamp(second, 0);
        assert_eq!(minutes.last(|it| it.errors > 0), at(180));
        assert_eq!(minutes.last(|it| it.invocations > it.errors), at(120));
        assert_eq!(Minutes::default().last(|it| it.errors > 0), None);
        assert_eq!(minutes.since(120), runs(7, 4));
    }

    #[test]
    fn the_worst_state_takes_precedence() {
        let runs = |invocations, errors| Runs { invocations, errors };
        let well = || Facts { hour: runs(9, 0), ..Facts::default() };
        let queue = || Facts {
            function: "arn:aws:sqs:us-east-1:123456789012:mails".to_owned(),
            ..Facts::default()
        };
        let some = Some(Timestamp::UNIX_EPOCH);
        let consumers = |states: &[bool]| {
            let one =
                |is_enabled: &bool| Consumer { is_enabled: *is_enabled, ..Consumer::default() };
            states.iter().map(one).collect::<Vec<_>>()
        };
        let in_source = |messages, due| Some(InSource { messages, due });
        for (facts, expected) in [
            (Facts::default(), State::Idle),
            (Facts { in_source: in_source(0, 0), ..Facts::default() }, State::Idle),
            (Facts { in_source: in_source(1, 0), ..Facts::default() }, State::Well),
            (Facts { dead_letters: [("r".into(), 1)].into(), ..Facts::default() }, State::Well),
            (Facts { retried: 1, ..Facts::default() }, State::Well),
            (Facts { delayed: 1, ..Facts::default() }, State::Waiting),
            (well(), State::Well),
            (Facts { recent: runs(10, 0), ..well() }, State::Well),
            (Facts { recent: runs(10, 0), delayed: 1, ..well() }, State::Recovering),
            (Facts { delayed: 1, ..well() }, State::Waiting),
            (Facts { recent: runs(10, 1), ..well() }, State::SomeFail),
            (Facts { recent: runs(6222, 5932), ..well() }, State::Failing),
            (Facts { recent: runs(3, 2), ..well() }, State::Failing),
            (Facts { recent: runs(3, 1), ..well() }, State::SomeFail),
            // Within the minute of its failures it has succeeded. Whether all is through says what is left.
            (Facts { recent: runs(3, 2), succeeds: true, ..well() }, State::SomeFail),
            (Facts { recent: runs(3, 2), succeeds: true, delayed: 1, ..well() }, State::Failing),
            (
                Facts { recent: runs(3, 2), succeeds: true, at_lambda: Some(1), ..well() },
                State::Failing,
            ),
            (Facts { refuses: true, in_flight: 7, ..well() }, State::Throttled),
            (Facts { refuses: true, recent: runs(9, 9), in_flight: 7, ..well() }, State::Throttled),
            // Of 54 failed messages of a queue, nobody knows how many succeeded.
            (Facts { recent: runs(54, 54), ..queue() }, State::SomeFail),
            (
                Facts { recent: runs(54, 54), consumers: consumers(&[true]), ..queue() },
                State::Failing,
            ),
            (Facts { at_lambda: Some(0), ..Facts::default() }, State::Idle),
            (Facts { at_lambda: Some(9), ..Facts::default() }, State::Waiting),
            (Facts { at_lambda: Some(9), recent: runs(10, 0), ..well() }, State::Well),
            (Facts { recent: runs(10, 10), paused_since: some, ..well() }, State::Failing),
            (Facts { paused_since: some, in_flight: 1, ..well() }, State::Paused),
            (Facts { down_since: some, recent: runs(10, 1), ..well() }, State::Down),
            (Facts { throttles: 1, recent: runs(10, 0), in_flight: 1, ..well() }, State::Throttled),
            (Facts { throttles: 1, recent: runs(10, 1), ..well() }, State::SomeFail),
            (Facts { consumers: consumers(&[false, false]), ..well() }, State::Stopped),
            (Facts { consumers: consumers(&[false, true]), ..well() }, State::Well),
            (Facts { in_source: in_source(9, 9), ..well() }, State::Waiting),
            (Facts { in_source: in_source(9, 9), recent: runs(1, 0), ..well() }, State::Well),
        ] {
            assert_eq!(facts.state(), expected, "{facts:?}");
        }
        assert!(State::Down < State::Failing && State::Recovering < State::Well);
        assert!(State::Failing < State::Stopped, "nothing has failed by it");
    }
}
