//! A function's retry policy: how long, how often and after which errors its events are retried.

use std::{borrow::Cow, time::Duration};

use serde_json::value::RawValue;

use crate::{
    Attempt,
    backoff::{Backoff, Jitter},
    contract::{BASE_BACKOFF, Durations, Fault, MAX_AGE, MAX_BACKOFF},
    error_type::NonRetryable,
    fault::{FaultKind, InvokeFault},
    json::{self, Pointer},
};

/// How long before the end of its age an event's last attempt is made: this, or a hundredth of the age if that is less.
/// So the attempt is in time even if the queue is slow.
const SLACK_MAX: Duration = Duration::from_mins(1);

/// The longest time for which a message of the retry queue waits, in one backoff or in all. SQS keeps a message for at
/// most 14 days, and the attempt after the wait needs time, too.
pub(crate) const STAY_MAX: Duration = MAX_BACKOFF.max;

/// Lambda accepts no longer tenant id.
const TENANT_ID_MAX: usize = 256;

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Policy {
    pub backoff: Backoff,
    /// How long after its first failure an event may be retried.
    pub max_age: Duration,
    pub max_attempts: Option<Attempt>,
    pub non_retryable: NonRetryable,
    /// Where a payload has its tenant id, for functions with tenant isolation.
    pub tenant_id: Option<Pointer>,
    /// Whether the functions are durable.
    pub durable: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            backoff: Backoff {
                base: BASE_BACKOFF.default,
                max: MAX_BACKOFF.default,
                jitter: Jitter::Full,
            },
            max_age: MAX_AGE.default,
            max_attempts: None,
            non_retryable: NonRetryable::default(),
            tenant_id: None,
            durable: false,
        }
    }
}

impl Policy {
    /// How long after its first failure the last attempt of an event is made.
    pub fn last_chance(&self) -> Duration {
        self.max_age.saturating_sub(SLACK_MAX.min(self.max_age / 100))
    }

    /// The faults of these values, by the names of their settings.
    pub(crate) fn faults(&self) -> Vec<Fault> {
        let Self { backoff: Backoff { base, max, .. }, max_age, .. } = *self;
        let in_seconds = |value: Duration| crate::duration::format(value);
        let mut faults = Vec::new();
        let mut demand = |holds: bool, name: &str, expected: String, got: Duration| {
            if !holds {
                faults.push(Fault::new(name, expected, in_seconds(got)));
            }
        };
        let Durations { min: base_min, max: base_max, .. } = BASE_BACKOFF;
        let base_range = format!("from {} to {}", in_seconds(base_min), in_seconds(base_max));
        let base_is_good = (base_min..=base_max).contains(&base);
        demand(base_is_good, "BASE_BACKOFF", base_range, base);
        // One wrong value is one fault: the others are checked as if this one were not set.
        let base = if base_is_good { base } else { base_min };
        let max_range =
            format!("from BASE_BACKOFF, {}, to {}", in_seconds(base), in_seconds(MAX_BACKOFF.max));
        demand((base..=MAX_BACKOFF.max).contains(&max), "MAX_BACKOFF", max_range, max);
        let age_range = format!("at most {}", in_seconds(MAX_AGE.max));
        demand(max_age <= MAX_AGE.max, "MAX_AGE", age_range, max_age);
        let first_attempt = format!("longer than BASE_BACKOFF, {}", in_seconds(base));
        demand(self.last_chance() >= base, "MAX_AGE", first_attempt, max_age);
        faults
    }

    /// The tenant id in an event's payload, for a function with tenants. If the function has tenants, a payload without
    /// one that Lambda accepts is a fault that a person has to fix, of the event's sender or of the setting.
    pub fn tenant<'a>(&self, payload: &'a RawValue) -> Result<Option<Cow<'a, str>>, InvokeFault> {
        let Some(pointer) = &self.tenant_id else { return Ok(None) };
        let fault = |got: &str| {
            let message = format!("TENANT_ID is {pointer}, and the payload has {got} there");
            Err(InvokeFault { kind: FaultKind::Configuration, code: None, message })
        };
        let Some(found) = pointer.find(payload.get()) else { return fault("nothing") };
        let is_number = found.get().starts_with(|c: char| c == '-' || c.is_ascii_digit());
        let id = json::text(found).or_else(|| is_number.then(|| found.get().into()));
        match id {
            None => fault("neither a text nor a number"),
            Some(id) if id.is_empty() => fault("an empty text"),
            Some(id) if id.len() > TENANT_ID_MAX => fault("a text of more than 256 bytes"),
            Some(id) if !id.chars().all(is_of_tenant_id) => fault("characters that Lambda refuses"),
            Some(id) => Ok(Some(id)),
        }
    }
}

/// Lambda's own rule for a tenant id, as its API's model has it.
fn is_of_tenant_id(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._:/=+-@ ".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_slack_is_a_hundredth_of_the_age_and_at_most_a_minute() {
        for (age, last_chance) in [(100, 99), (6000, 5940), (86_400, 86_340)] {
            let policy = Policy { max_age: secs(age), ..Policy::default() };
            assert_eq!(policy.last_chance(), secs(last_chance), "{age}");
        }
    }

    #[test]
    fn every_value_out_of_its_range_is_named() {
        let named = |base, max, max_age| {
            let backoff = Backoff { base: secs(base), max: secs(max), jitter: Jitter::Full };
            let policy = Policy { backoff, max_age: secs(max_age), ..Policy::default() };
            policy.faults().iter().map(|fault| fault.name.clone()).collect::<Vec<_>>()
        };
        let (hour, day) = (3600, 86_400);
        assert_eq!(named(1, 1, 2), [""; 0]);
        assert_eq!(named(12 * hour, 13 * day, 365 * day), [""; 0]);
        assert_eq!(named(0, 10, 100), ["BASE_BACKOFF"]);
        assert_eq!(named(12 * hour + 1, 13 * day, 14 * day), ["BASE_BACKOFF"]);
        assert_eq!(named(13 * hour, 12 * hour, 10 * hour), ["BASE_BACKOFF"]);
        assert_eq!(named(13 * hour, 0, 1), ["BASE_BACKOFF", "MAX_BACKOFF", "MAX_AGE"]);
        assert_eq!(named(10, 9, 100), ["MAX_BACKOFF"]);
        assert_eq!(named(1, 13 * day + 1, 14 * day), ["MAX_BACKOFF"]);
        assert_eq!(named(1, 10, 365 * day + 1), ["MAX_AGE"]);
        assert_eq!(named(10, 10, 10), ["MAX_AGE"]);
        assert_eq!(named(0, 14 * day, 366 * day), ["BASE_BACKOFF", "MAX_BACKOFF", "MAX_AGE"]);
    }

    #[test]
    fn the_tenant_is_a_text_or_a_number_that_lambda_accepts() {
        let policy = Policy { tenant_id: Pointer::parse("/tenant/id"), ..Policy::default() };
        let long = format!(r#""{}""#, "x".repeat(TENANT_ID_MAX));
        let too_long = format!(r#""{}""#, "x".repeat(TENANT_ID_MAX + 1));
        for (id, expected) in [
            (r#""blue""#, Ok("blue")),
            (r#""b\u006cue @-=""#, Ok("blue @-=")),
            ("17", Ok("17")),
            ("-1.50", Ok("-1.50")),
            (&*long, Ok(&long[1..=TENANT_ID_MAX])),
            (&*too_long, Err("a text of more than 256 bytes")),
            (r#""""#, Err("an empty text")),
            (r#""blü""#, Err("characters that Lambda refuses")),
            (r#""a\nb""#, Err("characters that Lambda refuses")),
            ("null", Err("neither a text nor a number")),
            ("true", Err("neither a text nor a number")),
            (r#"["blue"]"#, Err("neither a text nor a number")),
        ] {
            let payload = format!(r#"{{"tenant":{{"id":{id}}}}}"#);
            let payload: &RawValue = serde_json::from_str(&payload).unwrap();
            let got = policy.tenant(payload).map_err(|fault| (fault.kind, fault.message));
            let said = |got| format!("TENANT_ID is /tenant/id, and the payload has {got} there");
            let expected = expected.map(|id| Some(id.into()));
            assert_eq!(got, expected.map_err(|got| (FaultKind::Configuration, said(got))), "{id}");
        }
        let other: &RawValue = serde_json::from_str(r#"{"tenant":"blue"}"#).unwrap();
        assert!(policy.tenant(other).unwrap_err().message.ends_with("has nothing there"));
        assert_eq!(Policy::default().tenant(other), Ok(None));
    }
}
