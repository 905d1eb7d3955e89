//! The state of each function: whether it fails, how many events wait, and how its events ended.

use std::collections::BTreeMap;

use comeback_core::Timestamp;
use serde::Serialize;

/// The state of a function, in the order in which an operator cares.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Its circuit is open: it is down, and is only probed.
    Down,
    /// All of its runs fail.
    Failing,
    /// Some of its runs fail.
    SomeFail,
    /// An operator holds back its retries.
    Paused,
    /// None of its runs fail, and events still wait.
    Recovering,
    /// None of its runs fail, and nothing waits.
    Well,
}

/// What is known about a function.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Facts {
    /// Its ARN with the qualifier, as failure records name it.
    pub function: String,
    /// Its retry queue, by its ARN.
    pub queue: String,
    /// How many other functions have the same queue, so that its numbers are theirs, too.
    pub queue_shared_with: usize,
    /// How many messages are in flight: they wait, or are being handled.
    pub in_flight: u64,
    /// How many messages are delayed.
    pub delayed: u64,
    /// How many messages are due and not yet received.
    pub due: u64,
    /// Its runs in the last five minutes.
    pub recent: Runs,
    /// Its runs in the last hour.
    pub hour: Runs,
    /// How many of the runs in the last hour were retries.
    pub retried: u64,
    /// The age of the oldest event that was handled in the last hour, in seconds.
    pub oldest_seconds: Option<f64>,
    /// Its dead letters in the last day, by reason.
    pub dead_letters: BTreeMap<String, u64>,
    /// The phase of its circuit, if it has one.
    pub circuit: Option<String>,
    /// Since when it is down.
    pub down_since: Option<Timestamp>,
    /// Since when it is paused.
    pub paused_since: Option<Timestamp>,
    /// When the next event is due, if there is a register.
    pub next_due: Option<Timestamp>,
}

/// Runs of a function in some time.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Runs {
    /// All of them.
    pub invocations: u64,
    /// Those that failed.
    pub errors: u64,
}

impl Facts {
    /// How many events wait or are due.
    pub fn waiting(&self) -> u64 {
        self.in_flight + self.delayed + self.due
    }

    /// How the function is.
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
            State::Recovering
        } else {
            State::Well
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_that_is_known_is_told() {
        let well = Facts::default;
        let runs = |invocations, errors| Runs { invocations, errors };
        let some = Some(Timestamp::UNIX_EPOCH);
        for (facts, expected) in [
            (well(), State::Well),
            (Facts { recent: runs(10, 0), ..well() }, State::Well),
            (Facts { recent: runs(10, 0), delayed: 1, ..well() }, State::Recovering),
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
