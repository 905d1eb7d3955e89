//! The state of each function: whether it fails, how many events wait, and how its events ended.

use std::collections::BTreeMap;

use comeback_core::Timestamp;
use serde::Serialize;

/// The state of a function, most urgent first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The function is down: its circuit is open, and it is only probed.
    Down,
    Failing,
    SomeFail,
    Paused,
    /// Recent runs succeeded, and events still wait.
    Recovering,
    /// Events wait, and nothing has run recently.
    Waiting,
    /// No recent run failed, and no events wait.
    Well,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
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
    pub hour: Runs,
    /// The number of runs in the last hour that were retries.
    pub retried: u64,
    /// The age of the oldest event that was handled in the last hour, in seconds.
    pub oldest_seconds: Option<f64>,
    /// Its dead letters in the last day, by reason.
    pub dead_letters: BTreeMap<String, u64>,
    pub circuit: Option<String>,
    pub down_since: Option<Timestamp>,
    pub paused_since: Option<Timestamp>,
    /// When the next event is due, if there is a register.
    pub next_due: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Runs {
    pub invocations: u64,
    pub errors: u64,
}

impl Facts {
    pub fn waiting(&self) -> u64 {
        self.in_flight + self.delayed + self.due
    }

    pub fn state(&self) -> State {
        let Runs { invocations, errors } = self.recent;
        if self.down_since.is_some() {
            State::Down
        } else if errors > 0 && errors >= invocations {
            State::Failing
        } else if errors > 0 {
            State::SomeFail
        } else if self.paused_since.is_some() {
            State::Paused
        } else if self.waiting() > 0 {
            if invocations > 0 { State::Recovering } else { State::Waiting }
        } else {
            State::Well
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_state_takes_precedence() {
        let well = Facts::default;
        let runs = |invocations, errors| Runs { invocations, errors };
        let some = Some(Timestamp::UNIX_EPOCH);
        for (facts, expected) in [
            (well(), State::Well),
            (Facts { recent: runs(10, 0), ..well() }, State::Well),
            (Facts { recent: runs(10, 0), delayed: 1, ..well() }, State::Recovering),
            (Facts { delayed: 1, ..well() }, State::Waiting),
            (Facts { recent: runs(10, 1), ..well() }, State::SomeFail),
            (Facts { recent: runs(10, 10), paused_since: some, ..well() }, State::Failing),
            (Facts { paused_since: some, in_flight: 1, ..well() }, State::Paused),
            (Facts { down_since: some, recent: runs(10, 1), ..well() }, State::Down),
        ] {
            assert_eq!(facts.state(), expected, "{facts:?}");
        }
        assert!(State::Down < State::Failing && State::Recovering < State::Well);
    }
}
