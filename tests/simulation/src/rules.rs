//! The rules of a policy, stated a second time.
//!
//! The judge of a world must not use the code that it judges. So these rules are written from the contract alone, in
//! whole milliseconds, and share no code with production.

use std::collections::BTreeMap;

use comeback_core::backoff::Jitter;

use crate::dice::Dice;

/// Patterns for permanent error types that an owner may configure, and an error type that matches each.
pub const NEVER: [(&str, &str); 3] = [
    ("ValidationError", "app.errors.ValidationError"),
    ("*Forbidden", "http::Forbidden"),
    ("legacy.*", "legacy.Broken"),
];

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const DAY: i64 = 24 * 60 * MINUTE;

/// A target with reserved concurrency 0 is left alone for this long, or for at least half of it.
const PAUSE: i64 = 15 * MINUTE;

/// SQS keeps a message for 14 days. After these times a failure has its last attempt, and is given up.
const STAY: i64 = 13 * DAY;
const STAY_END: i64 = STAY + DAY / 2;

/// A policy, in whole seconds.
#[derive(Clone, Debug)]
pub struct Rules {
    pub base: u64,
    pub max: u64,
    pub age: u64,
    pub attempts: Option<u32>,
    pub jitter: Jitter,
    /// Which of [`NEVER`] it names.
    pub never: Vec<usize>,
}

/// The policy of a handler without settings, as the documents have it.
impl Default for Rules {
    fn default() -> Self {
        let jitter = Jitter::Full;
        Self { base: 1, max: 43_200, age: 86_400, attempts: None, jitter, never: Vec::new() }
    }
}

/// A time since 1970 in milliseconds.
pub type Millis = i64;

/// The next attempt after a failure, with the range of its due time, because the draw is unknown.
#[derive(Clone, Copy, Debug)]
pub struct Next {
    pub attempt: u32,
    pub due: (Millis, Millis),
    /// Whether all due times in the range are equally likely.
    pub is_even: bool,
    pub last_chance: Millis,
    pub expiry: Millis,
}

impl Rules {
    pub fn draw(dice: &mut Dice) -> Self {
        let base = dice.pick(&[1, 1, 1, 2, 5, 30, 60, 600]);
        let age = match dice.happens(0.05) {
            true => dice.pick(&[3 * 86_400, 20 * 86_400]),
            false => dice.pick(&[30, 600, 3600, 6 * 3600, 86_400]),
        };
        // At least one attempt must fit. And an event that never succeeds must not have thousands of attempts.
        let age = age.max(2 * base);
        let max = dice.pick(&[1, 60, 300, 900, 3600, 43_200, 43_200, 4 * 86_400]);
        Self {
            base,
            max: max.max(base).max(age / 25),
            age,
            attempts: dice.happens(0.4).then(|| dice.number(1..=12) as u32),
            jitter: dice.pick(&[Jitter::Full, Jitter::Full, Jitter::Equal, Jitter::None]),
            never: (0..NEVER.len()).filter(|_| dice.happens(0.4)).collect(),
        }
    }

    pub fn variables(&self) -> BTreeMap<&'static str, String> {
        let never: Vec<_> = self.never.iter().map(|&n| NEVER[n].0).collect();
        let mut variables = BTreeMap::from([
            ("BASE_BACKOFF", format!("{}s", self.base)),
            ("MAX_BACKOFF", format!("{}s", self.max)),
            ("MAX_AGE", format!("{}s", self.age)),
            ("JITTER", format!("{:?}", self.jitter).to_lowercase()),
            ("NON_RETRYABLE_ERRORS", never.join(",")),
        ]);
        variables.extend(self.attempts.map(|most| ("MAX_ATTEMPTS", most.to_string())));
        variables
    }

    /// The next attempt of an event that failed first at `first` and again at `at`, and whose target asks for a wait of
    /// `hint` seconds. SQS has kept its message since `kept`. Returns None if no attempt fits into the age.
    pub fn next(
        &self,
        first: Millis,
        at: Millis,
        kept: Millis,
        attempt: u32,
        paused: bool,
        hint: u64,
    ) -> Option<Next> {
        let (age, hint) = (millis(self.age), millis(hint));
        let slack = MINUTE.min(age / 100);
        let last_chance = (first + age - slack).min(kept + STAY);
        if at + millis(self.base) > last_chance {
            return None;
        }
        let (low, high) = self.range(attempt, paused);
        let due = |delay: i64| (at + delay.max(hint)).min(last_chance);
        Some(Next {
            attempt,
            due: (due(low), due(high)),
            is_even: low >= hint && at + high <= last_chance,
            last_chance,
            expiry: (first + age).min(kept + STAY_END),
        })
    }

    /// The shortest and the longest backoff before an attempt.
    fn range(&self, attempt: u32, paused: bool) -> (i64, i64) {
        if paused {
            let pause = PAUSE.min(millis(self.max));
            return (pause / 2, pause);
        }
        let doubled = (1..attempt)
            .try_fold(self.base, |ceiling, _| (ceiling < self.max).then_some(ceiling * 2))
            .unwrap_or(self.max);
        let ceiling = millis(doubled.min(self.max));
        let low = match self.jitter {
            Jitter::Full => millis(self.base).min(ceiling),
            Jitter::Equal => ceiling / 2,
            Jitter::None => ceiling,
        };
        (low, ceiling)
    }
}

fn millis(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX / SECOND).saturating_mul(SECOND)
}
