//! A policy, stated a second time.
//!
//! The judge of a world must not use the code that it judges. So this is written from the contract alone, in whole
//! milliseconds, and shares no code with production.

use std::collections::BTreeMap;

use comeback_core::backoff::Jitter;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::dice::Dice;

/// Patterns for permanent error types that an owner may configure, and an error type that matches each.
pub const NEVER: [(&str, &str); 3] = [
    ("ValidationError", "app.errors.ValidationError"),
    ("*Forbidden", "http::Forbidden"),
    ("legacy.*", "legacy.Broken"),
];

/// The codes with which EventBridge or its Scheduler says why an event was not delivered. They are errors like those of
/// functions.
pub const CODES: [&str; 4] = [
    "THROTTLING",
    "NO_PERMISSIONS",
    "AWS.SimpleQueueService.NonExistentQueue",
    "AWS.Scheduler.InternalServerError",
];

/// The codes of events that must not be delivered.
pub const STOPPED: [&str; 4] =
    ["LOOP_DETECTED", "THIRD_ACCOUNT_HOP_DETECTED", "THIRD_REGION_HOP_DETECTED", "INVALID_JSON"];

/// Patterns for errors with settings of their own, and the types of errors in a world that each means.
const ERRORS: [(&str, &[&str]); 7] = [
    ("Error", &["Error"]),
    ("*Failure", &["NotPermanentFailure", "PermanentFailure", "app.PermanentFailure"]),
    ("RetryAfter", &["RetryAfter", "kit::RetryAfter"]),
    ("kit::*", &["kit::RetryAfter"]),
    ("Runtime.ExitError", &["Runtime.ExitError"]),
    ("Timedout", &["Sandbox.Timedout"]),
    // Of all errors in a world, these alone are of functions themselves.
    (
        "*",
        &[
            "Error",
            "NotPermanentFailure",
            "PermanentFailure",
            "app.PermanentFailure",
            "RetryAfter",
            "kit::RetryAfter",
            NEVER[0].1,
            NEVER[1].1,
            NEVER[2].1,
        ],
    ),
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
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    pub base: u64,
    pub max: u64,
    /// The backoffs one by one, in place of `base` and `max`.
    pub list: Vec<u64>,
    pub age: u64,
    pub attempts: Option<u32>,
    #[serde(with = "OfJitter")]
    pub jitter: Jitter,
    /// Which of [`NEVER`] it names.
    pub never: Vec<usize>,
    /// Which of [`ERRORS`] have settings of their own, in order.
    pub errors: Vec<(usize, OfError)>,
}

/// What is set for an error. The rest is that of the function.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct OfError {
    /// The first backoff and the ceiling.
    doubling: Option<(u64, u64)>,
    list: Vec<u64>,
    age: Option<u64>,
    attempts: Option<u32>,
    #[serde(with = "maybe_jitter")]
    jitter: Option<Jitter>,
}

mod maybe_jitter {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{Jitter, OfJitter};

    #[derive(Deserialize, Serialize)]
    struct Is(#[serde(with = "OfJitter")] Jitter);

    pub fn serialize<S: Serializer>(jitter: &Option<Jitter>, to: S) -> Result<S::Ok, S::Error> {
        jitter.map(Is).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Jitter>, D::Error> {
        Ok(Option::<Is>::deserialize(from)?.map(|it| it.0))
    }
}

/// The policy of a handler without settings, as the documents have it.
impl Default for Policy {
    fn default() -> Self {
        let jitter = Jitter::Full;
        let (base, max, age) = (1, 43_200, 86_400);
        let (list, never, errors) = (Vec::new(), Vec::new(), Vec::new());
        Self { base, max, list, age, attempts: None, jitter, never, errors }
    }
}

/// [`Jitter`], as a script has it.
#[derive(Deserialize, Serialize)]
#[serde(remote = "Jitter")]
enum OfJitter {
    Full,
    Equal,
    None,
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

impl Policy {
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
            list: Vec::new(),
            age,
            attempts: dice.happens(0.4).then(|| dice.number(1..=12) as u32),
            jitter: dice.pick(&[Jitter::Full, Jitter::Full, Jitter::Equal, Jitter::None]),
            never: (0..NEVER.len()).filter(|_| dice.happens(0.4)).collect(),
            errors: Vec::new(),
        }
    }

    /// Lists the backoffs, in place of those that were drawn.
    pub fn draw_list(&mut self, dice: &mut Dice) {
        self.list = list(self.age, dice);
    }

    /// Draws settings for some errors. They fit to every function.
    pub fn draw_errors(&mut self, dice: &mut Dice) {
        let mut rest: Vec<_> = (0..ERRORS.len()).collect();
        for _ in 0..dice.number(1..=4) {
            let n = rest.swap_remove(dice.index(rest.len()));
            let drawn = Self::draw(dice);
            let mut own = OfError {
                attempts: drawn.attempts.filter(|_| dice.happens(0.5)),
                jitter: dice.happens(0.4).then_some(drawn.jitter),
                ..OfError::default()
            };
            match dice.number(0..=2) {
                0 => (own.doubling, own.age) = (Some((drawn.base, drawn.max)), Some(drawn.age)),
                1 => (own.list, own.age) = (list(drawn.age, dice), Some(drawn.age)),
                _ => {}
            }
            self.errors.push((n, own));
        }
    }

    /// The policy for an event that failed last with this error. What is set for all functions comes after its own.
    pub fn after(&self, error_type: Option<&str>, of_all: &Self) -> Self {
        let means = |(n, _): &&(usize, OfError)| {
            let (pattern, types) = ERRORS[*n];
            error_type.is_some_and(|error_type| {
                let is_code = CODES.contains(&error_type) || STOPPED.contains(&error_type);
                types.contains(&error_type) || pattern == "*" && is_code
            })
        };
        let mut errors = self.errors.iter().chain(&of_all.errors);
        let mut policy = self.clone();
        let Some((_, own)) = errors.find(means) else { return policy };
        if let Some((base, max)) = own.doubling {
            (policy.base, policy.max, policy.list) = (base, max, Vec::new());
        }
        if !own.list.is_empty() {
            policy.list.clone_from(&own.list);
        }
        policy.age = own.age.unwrap_or(policy.age);
        policy.attempts = own.attempts.or(policy.attempts);
        policy.jitter = own.jitter.unwrap_or(policy.jitter);
        policy
    }

    /// The longest age of any error.
    pub fn age_max(&self) -> u64 {
        let ages = self.errors.iter().filter_map(|(_, own)| own.age);
        ages.max().unwrap_or_default().max(self.age)
    }

    /// `ERRORS` as text, because a map of JSON has no order here.
    pub fn errors_written(&self) -> Option<String> {
        let written = |(n, own): &(usize, OfError)| {
            format!("{}:{}", json!(ERRORS[*n].0), json!(own.variables()))
        };
        let errors: Vec<_> = self.errors.iter().map(written).collect();
        (!errors.is_empty()).then(|| format!("{{{}}}", errors.join(",")))
    }

    pub fn variables(&self) -> BTreeMap<&'static str, String> {
        let never: Vec<_> = self.never.iter().map(|&n| NEVER[n].0).collect();
        let own = OfError {
            doubling: self.list.is_empty().then_some((self.base, self.max)),
            list: self.list.clone(),
            age: Some(self.age),
            attempts: self.attempts,
            jitter: Some(self.jitter),
        };
        let mut variables = own.variables();
        variables.insert("NON_RETRYABLE_ERRORS", never.join(","));
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
        let least = self.list.iter().min().unwrap_or(&self.base);
        if at + millis(*least) > last_chance {
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
            let pause = PAUSE.min(millis(*self.list.iter().max().unwrap_or(&self.max)));
            return (pause / 2, pause);
        }
        let doubled = (1..attempt)
            .try_fold(self.base, |ceiling, _| (ceiling < self.max).then_some(ceiling * 2))
            .unwrap_or(self.max);
        let nth = self.list.get(attempt as usize - 1).or(self.list.last());
        let ceiling = millis(nth.copied().unwrap_or(doubled.min(self.max)));
        let least = millis(*self.list.iter().min().unwrap_or(&self.base));
        let low = match self.jitter {
            Jitter::Full => least.min(ceiling),
            Jitter::Equal => ceiling / 2,
            Jitter::None => ceiling,
        };
        (low, ceiling)
    }
}

impl OfError {
    fn variables(&self) -> BTreeMap<&'static str, String> {
        let seconds = |seconds: u64| format!("{seconds}s");
        let list: Vec<_> = self.list.iter().map(|&it| seconds(it)).collect();
        let all = [
            ("BASE_BACKOFF", self.doubling.map(|(base, _)| seconds(base))),
            ("MAX_BACKOFF", self.doubling.map(|(_, max)| seconds(max))),
            ("BACKOFFS", (!list.is_empty()).then(|| list.join(","))),
            ("MAX_AGE", self.age.map(seconds)),
            ("MAX_ATTEMPTS", self.attempts.map(|most| most.to_string())),
            ("JITTER", self.jitter.map(|jitter| format!("{jitter:?}").to_lowercase())),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// Draws a list of backoffs of which one fits into the age, and whose last doesn't make thousands of attempts.
fn list(age: u64, dice: &mut Dice) -> Vec<u64> {
    let entry = |dice: &mut Dice| dice.pick(&[1, 2, 10, 60, 600, 3600]).min(age / 2);
    let mut list: Vec<_> = (0..dice.number(0..=3)).map(|_| entry(dice)).collect();
    list.push(entry(dice).max(age / 25));
    list
}

fn millis(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX / SECOND).saturating_mul(SECOND)
}
