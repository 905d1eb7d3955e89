//! The rules of a policy, stated a second time.
//!
//! The judge of a world must not ask the code that it judges, so this is written from the contract
//! alone, in whole milliseconds and with nothing shared.

use crate::{draw::Draw, plan::NEVER};

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const DAY: i64 = 24 * 60 * MINUTE;

/// A paused target is left alone for between half of this and the whole.
const PAUSE: i64 = 15 * MINUTE;

/// SQS keeps a message for 14 days: how long after a failure its attempt is made at the latest, and
/// it is given up.
const STAY: i64 = 13 * DAY;
const STAY_END: i64 = STAY + DAY / 2;

/// How a backoff is drawn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Jitter {
    Full,
    Equal,
    None,
}

/// One policy, in whole seconds.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) base: u64,
    pub(crate) max: u64,
    pub(crate) age: u64,
    pub(crate) attempts: Option<u32>,
    pub(crate) jitter: Jitter,
    /// Which of [`NEVER`] it names.
    pub(crate) never: Vec<usize>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            base: 1,
            max: 43_200,
            age: 86_400,
            attempts: None,
            jitter: Jitter::Full,
            never: Vec::new(),
        }
    }
}

/// A time since 1970 in milliseconds.
pub(crate) type Millis = i64;

/// The next attempt of a failure, as far as it can be known without the draw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Next {
    pub(crate) attempt: u32,
    /// The earliest and the latest due time.
    pub(crate) due: (Millis, Millis),
    /// Whether the due time is a draw between them.
    pub(crate) drawn: bool,
    pub(crate) last_chance: Millis,
    pub(crate) expiry: Millis,
}

/// What of a failure its next attempt depends on.
pub(crate) struct Facts {
    /// When it failed first, and now.
    pub(crate) first: Millis,
    pub(crate) at: Millis,
    /// Which attempt comes next.
    pub(crate) attempt: u32,
    pub(crate) paused: bool,
    /// How long the target asks to wait.
    pub(crate) wish: u64,
}

impl Rules {
    pub(crate) fn draw(draw: &mut Draw) -> Self {
        let base = *draw.pick(&[1, 1, 1, 2, 5, 30, 60, 600]);
        let age = match draw.happens(0.05) {
            true => *draw.pick(&[3 * 86_400, 20 * 86_400]),
            false => *draw.pick(&[30, 600, 3600, 6 * 3600, 86_400]),
        };
        // One attempt must fit; and an event that never succeeds shall not take the time of all.
        let age = age.max(2 * base);
        let max = *draw.pick(&[1, 60, 300, 900, 3600, 43_200, 43_200, 4 * 86_400]);
        let max = max.max(base).max(age / 25);
        Self {
            base,
            max,
            age,
            attempts: draw.happens(0.4).then(|| u32::try_from(draw.number(1..=12)).unwrap_or(1)),
            jitter: *draw.pick(&[Jitter::Full, Jitter::Full, Jitter::Equal, Jitter::None]),
            never: (0..NEVER.len()).filter(|_| draw.happens(0.4)).collect(),
        }
    }

    /// The policy as settings have it.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let jitter = match self.jitter {
            Jitter::Full => "full",
            Jitter::Equal => "equal",
            Jitter::None => "none",
        };
        let never: Vec<_> = self.never.iter().map(|&n| NEVER[n].0).collect();
        let mut variables = vec![
            ("BASE_BACKOFF", format!("{}s", self.base)),
            ("MAX_BACKOFF", format!("{}s", self.max)),
            ("MAX_AGE", format!("{}s", self.age)),
            ("JITTER", jitter.to_owned()),
            ("NON_RETRYABLE_ERRORS", never.join(",")),
        ];
        variables.extend(self.attempts.map(|most| ("MAX_ATTEMPTS", most.to_string())));
        variables
    }

    /// The next attempt after a failure; none where the age leaves no room for one.
    pub(crate) fn next(&self, facts: &Facts) -> Option<Next> {
        let age = millis(self.age);
        let slack = MINUTE.min(age / 100);
        let last_chance = (facts.first + age - slack).min(facts.at + STAY);
        if facts.at + millis(self.base) > last_chance {
            return None;
        }
        let (low, high) = self.range(facts);
        let due = |delay: i64| (facts.at + delay).min(last_chance);
        Some(Next {
            attempt: facts.attempt,
            due: (due(low), due(high)),
            drawn: low >= millis(facts.wish) && facts.at + high <= last_chance,
            last_chance,
            expiry: (facts.first + age).min(facts.at + STAY_END),
        })
    }

    /// The shortest and the longest delay of an attempt.
    fn range(&self, facts: &Facts) -> (i64, i64) {
        if facts.paused {
            let pause = PAUSE.min(millis(self.max));
            return (pause / 2, pause);
        }
        let doubled = (1..facts.attempt)
            .try_fold(self.base, |ceiling, _| (ceiling < self.max).then_some(ceiling * 2))
            .unwrap_or(self.max);
        let ceiling = millis(doubled.min(self.max));
        let low = match self.jitter {
            Jitter::Full => millis(self.base).min(ceiling),
            Jitter::Equal => ceiling / 2,
            Jitter::None => ceiling,
        };
        let wish = millis(facts.wish);
        (low.max(wish), ceiling.max(wish))
    }
}

fn millis(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX / SECOND).saturating_mul(SECOND)
}
