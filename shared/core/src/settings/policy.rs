//! A function's retry policy: how long, how often and after which errors its events are retried.

use std::{borrow::Cow, time::Duration};

use serde_json::value::RawValue;

use crate::{
    Attempt,
    backoff::{Backoff, Backoffs, Draw, Jitter},
    error_type::{self, ErrorReport, NonRetryable},
    fault::{FaultKind, InvokeFault},
    json::{self, Pointer},
};

/// How long before the end of its age an event's last attempt is made: this, or a part of the age if that is less. So
/// the attempt is in time even if the queue is slow.
pub(crate) const SLACK_MAX: Duration = Duration::from_mins(1);
/// A hundredth of the age.
pub(crate) const SLACK_PART: u32 = 100;

/// The longest time for which a message of the retry queue waits. SQS keeps a message for at most 14 days, which leaves
/// a day for the attempt after the wait.
pub(crate) const STAY_MAX: Duration = Duration::from_hours(13 * 24);

/// Lambda accepts no longer tenant id.
const TENANT_ID_MAX: usize = 256;

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Policy {
    /// Where `backoffs` lists the ceilings, only its jitter counts.
    pub backoff: Backoff,
    pub backoffs: Backoffs,
    /// How long after its first failure an event may be retried.
    pub max_age: Duration,
    pub max_attempts: Option<Attempt>,
    pub non_retryable: NonRetryable,
    /// Where a payload has its tenant id, for functions with tenant isolation.
    pub tenant_id: Option<Pointer>,
    /// Whether the functions are durable.
    pub durable: bool,
    /// Whether the functions are retried with their original payloads, without an envelope.
    pub transparent: bool,
    /// The policies after some errors. The first whose pattern matches decides.
    pub errors: Vec<ErrorPolicy>,
}

/// The policy for events that failed last with some error.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ErrorPolicy {
    pub pattern: String,
    /// The function in whose policy it stands, or `*` if it is for all functions.
    pub of: String,
    /// The name under which logs and the register have it, such as `RateLimited* of orders`.
    pub name: String,
    pub policy: Policy,
}

impl Policy {
    /// The values before those of the contract are filled in.
    pub(crate) fn unset() -> Self {
        let nothing = Duration::ZERO;
        Self {
            backoff: Backoff { base: nothing, max: nothing, jitter: Jitter::Full },
            backoffs: Backoffs::default(),
            max_age: nothing,
            max_attempts: None,
            non_retryable: NonRetryable::default(),
            tenant_id: None,
            durable: false,
            transparent: false,
            errors: Vec::new(),
        }
    }

    /// The policy of its own that this error has.
    pub fn of_error(&self, error: &ErrorReport) -> Option<&ErrorPolicy> {
        let errors = Some(&self.errors).filter(|errors| !errors.is_empty())?;
        let error_type = error.error_type.as_deref()?;
        errors.iter().find(|own| error_type::means(&own.pattern, error_type))
    }

    /// The policy for an event that failed last with this error.
    pub fn after(&self, error: &ErrorReport) -> &Self {
        self.of_error(error).map_or(self, |own| &own.policy)
    }

    /// The delay before this attempt, to the millisecond.
    pub fn delay(&self, attempt: Attempt, draw: Draw) -> Duration {
        self.backoff.jitter.delay(self.shortest(), self.ceiling(attempt), draw)
    }

    /// The longest possible delay before this attempt.
    pub fn ceiling(&self, attempt: Attempt) -> Duration {
        self.backoffs.ceiling(attempt).unwrap_or_else(|| self.backoff.ceiling(attempt))
    }

    /// The shortest ceiling of all attempts.
    pub fn shortest(&self) -> Duration {
        self.backoffs.iter().min().unwrap_or(self.backoff.base)
    }

    /// The longest ceiling of all attempts.
    pub fn longest(&self) -> Duration {
        self.backoffs.iter().max().unwrap_or(self.backoff.max)
    }

    /// The longest time for which an event may be retried, whatever its errors are.
    pub fn longest_age(&self) -> Duration {
        let of_errors = self.errors.iter().map(|own| own.policy.max_age);
        of_errors.fold(self.max_age, Duration::max)
    }

    /// How long after its first failure the last attempt of an event is made.
    pub fn last_chance(&self) -> Duration {
        self.max_age.saturating_sub(SLACK_MAX.min(self.max_age / SLACK_PART))
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

    #[test]
    fn the_tenant_of_a_batch_is_that_of_the_event_that_the_pointer_names() {
        // A custom event bus sends a batch of events as an array.
        let batch: &RawValue =
            serde_json::from_str(r#"[{"detail":{"tenant":"blue"}}, {"detail":{}}]"#).unwrap();
        let tenant = |pointer| {
            let policy = Policy { tenant_id: Pointer::parse(pointer), ..Policy::default() };
            policy.tenant(batch).map_err(|fault| fault.message)
        };
        assert_eq!(tenant("/0/detail/tenant"), Ok(Some("blue".into())));
        for pointer in ["/1/detail/tenant", "/2/detail/tenant", "/detail/tenant"] {
            assert!(tenant(pointer).unwrap_err().ends_with("has nothing there"), "{pointer}");
        }
    }
}
