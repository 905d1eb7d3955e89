//! AWS errors that prevent an invocation or the claim before it, and how long the message then waits.
//!
//! | kind | what it is | what happens to the message |
//! |---|---|---|
//! | transient | throttling, 5xx, time-outs, resources that are not ready yet | a short wait, no attempt is counted |
//! | configuration | a fault that a person has to fix | longer waits, until the event's age is over |
//! | refused | this request will never be accepted | it is given up |
//!
//! A message whose failure can't be claimed waits likewise, even beyond the event's age, until SQS would delete it.

use std::time::Duration;

use crate::{
    Attempt,
    backoff::{Backoff, Draw, Jitter},
    reason::Reason,
};

/// After a transient fault: 1 s, doubling with each try up to 5 min, as in Lambda's own retries of throttled events.
const TRANSIENT_WAIT: Backoff =
    Backoff { base: Duration::from_secs(1), max: Duration::from_mins(5), jitter: Jitter::Full };

/// After a configuration fault: long enough not to flood the log, short enough to retry the event soon after the fix.
const CONFIGURATION_WAIT: Backoff =
    Backoff { base: Duration::from_mins(1), max: Duration::from_mins(15), jitter: Jitter::Equal };

/// Why an invocation, or a message that is sent, was not accepted.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}{message}", code.as_ref().map(|code| format!("{code}: ")).unwrap_or_default())]
pub struct InvokeFault {
    pub kind: FaultKind,
    /// AWS's error code, if AWS answered.
    pub code: Option<String>,
    /// The error message of AWS or of the failed connection.
    pub message: String,
}

/// Why a claim could not be written.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}{message}", code.as_ref().map(|code| format!("{code}: ")).unwrap_or_default())]
pub struct StoreFault {
    /// Whether the fault is transient. Otherwise, a person has to fix it.
    pub passes: bool,
    /// AWS's error code, if AWS answered.
    pub code: Option<String>,
    /// The error message of AWS or of the failed connection.
    pub message: String,
}

/// Why a conditional write to a store was not made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum NotReplaced<T> {
    /// There is something else than what was seen: this.
    Changed(T),
    /// The call failed, but the write may have been made.
    Fault(StoreFault),
}

impl<T> NotReplaced<T> {
    pub fn map<U>(self, changed: impl FnOnce(T) -> U) -> NotReplaced<U> {
        match self {
            Self::Changed(there) => NotReplaced::Changed(changed(there)),
            Self::Fault(fault) => NotReplaced::Fault(fault),
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FaultKind {
    Transient {
        /// The time to wait that AWS asks for, if any.
        retry_after: Option<Duration>,
    },
    /// A person has to fix it.
    Configuration,
    /// This request will never be accepted.
    Refused(Reason),
}

/// Whether this error code means throttling, whatever the HTTP status. This is the AWS SDKs' list for all services.
pub fn throttles(code: &str) -> bool {
    matches!(
        code.strip_suffix("Exception").unwrap_or(code),
        "BandwidthLimitExceeded"
            | "EC2Throttled"
            | "LimitExceeded"
            | "PriorRequestNotComplete"
            | "ProvisionedThroughputExceeded"
            | "RequestLimitExceeded"
            | "RequestThrottled"
            | "SlowDown"
            | "Throttled"
            | "Throttling"
            // DynamoDB uses this one in the reasons of a cancelled transaction.
            | "ThrottlingError"
            | "TooManyRequests"
            | "TransactionInProgress"
    )
}

/// Whether this error code means a concurrent write to the same DynamoDB item.
pub fn conflict_passes(code: &str) -> bool {
    matches!(
        code.strip_suffix("Exception").unwrap_or(code),
        "ReplicatedWriteConflict" | "TransactionConflict"
    )
}

/// Classifies an error by its code, or by its HTTP status if the code is unknown. No status means a time-out or a
/// failed connection. Two errors are known by their messages: a function that runs each tenant's events apart has no
/// `TENANT_ID`, and a durable function is named without a version or an alias.
pub fn classify(
    code: Option<&str>,
    status: Option<u16>,
    message: &str,
    retry_after: Option<Duration>,
) -> FaultKind {
    let code = code.unwrap_or_default();
    let transient = FaultKind::Transient { retry_after };
    match code.strip_suffix("Exception").unwrap_or(code) {
        "RequestTooLarge" | "RequestEntityTooLarge" | "SerializedRequestEntityTooLarge" => {
            FaultKind::Refused(Reason::PayloadTooLarge)
        }
        "InvalidParameterValue"
            if ["tenant ID", "unqualified ARN"].iter().any(|part| message.contains(part)) =>
        {
            FaultKind::Configuration
        }
        "InvalidRequestContent"
        | "InvalidParameterValue"
        | "UnsupportedMediaType"
        | "Validation" => FaultKind::Refused(Reason::InvokeRejected),
        "RecursiveInvocation" => FaultKind::Refused(Reason::RecursionStopped),
        // These have a 5xx status too, but do not pass by themselves.
        "EC2AccessDenied"
        | "InvalidRuntime"
        | "InvalidSecurityGroupID"
        | "InvalidSubnetID"
        | "InvalidZipFile"
        | "KMSAccessDenied"
        | "KMSDisabled"
        | "KMSInvalidState"
        | "KMSNotFound" => FaultKind::Configuration,
        "EFSIO"
        | "EFSMountConnectivity"
        | "EFSMountTimeout"
        | "ResourceConflict"
        | "S3FilesMountConnectivity"
        | "S3FilesMountTimeout"
        | "ServiceQuotaExceeded"
        | "SnapStartTimeout" => transient,
        name if throttles(name) => transient,
        name if name.ends_with("NotReady") || name.ends_with("LimitReached") => transient,
        _ => match status {
            None | Some(408 | 429 | 500..) => transient,
            Some(413) => FaultKind::Refused(Reason::PayloadTooLarge),
            // Access denied, not found, and whatever AWS may add: waiting loses nothing.
            Some(_) => FaultKind::Configuration,
        },
    }
}

/// Classifies SQS's answer for a message that was to be sent, like [`classify`]. A queue that is gone, or whose policy
/// or key refuses the handler, is for a person to fix.
pub fn classify_send(code: Option<&str>, status: Option<u16>, message: &str) -> FaultKind {
    let transient = FaultKind::Transient { retry_after: None };
    // For old clients, SQS gives its codes a namespace: `AWS.SimpleQueueService.NonExistentQueue`.
    let code = code.and_then(|code| code.rsplit('.').next()).unwrap_or_default();
    match code.strip_suffix("Exception").unwrap_or(code) {
        "InvalidMessageContents" | "InvalidParameterValue" => {
            // A queue may accept less than SQS does.
            let is_size = message.contains("must be shorter than");
            let reason = if is_size { Reason::PayloadTooLarge } else { Reason::InvokeRejected };
            FaultKind::Refused(reason)
        }
        name if name == "KmsThrottled" || throttles(name) => transient,
        _ => match status {
            None | Some(..300 | 408 | 429 | 500..) => transient,
            Some(_) => FaultKind::Configuration,
        },
    }
}

/// Whether an error of DynamoDB is transient. Its throttling errors have status 400, like errors that a person has to
/// fix.
pub fn store_fault_passes(code: Option<&str>, status: Option<u16>) -> bool {
    // An error with a success status means that the answer was cut off.
    code.is_some_and(|code| throttles(code) || conflict_passes(code))
        || matches!(status, None | Some(..300 | 408 | 429 | 500..))
}

impl FaultKind {
    /// How long a message waits after this fault.
    pub(crate) fn wait(self, request_id: &str, tries: u32) -> Result<Duration, Reason> {
        match self {
            Self::Refused(reason) => Err(reason),
            Self::Configuration => Ok(drawn(CONFIGURATION_WAIT, request_id, tries)),
            Self::Transient { retry_after: Some(asked) } => Ok(asked.max(TRANSIENT_WAIT.base)),
            Self::Transient { retry_after: None } => Ok(drawn(TRANSIENT_WAIT, request_id, tries)),
        }
    }
}

/// How long a message waits if its failure could not be claimed.
pub(crate) fn store_wait(passes: bool, request_id: &str, tries: u32) -> Duration {
    let wait = if passes { TRANSIENT_WAIT } else { CONFIGURATION_WAIT };
    drawn(wait, request_id, tries)
}

fn drawn(wait: Backoff, request_id: &str, tries: u32) -> Duration {
    let nth = Attempt::new(tries).unwrap_or(Attempt::FIRST);
    wait.delay(nth, Draw::seeded(request_id, tries))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Timestamp,
        decision::{Decision, Judgement, Settlement, decide},
        record::Message,
        testing::{self, at, home, message, rules},
        time::{between, later},
    };

    #[test]
    fn every_answer_of_the_ledger_passes_or_is_for_a_person() {
        for (code, status, passes) in [
            (Some("TransactionConflictException"), Some(400), true),
            (Some("TransactionConflict"), Some(400), true),
            (Some("ConditionalCheckFailed"), Some(400), false),
            (Some("InternalServerError"), Some(500), true),
            (None, None, true),
            (None, Some(200), true),
            (None, Some(307), false),
            (Some("AccessDeniedException"), Some(400), false),
        ] {
            assert_eq!(store_fault_passes(code, status), passes, "{code:?} {status:?}");
        }
    }

    #[test]
    fn every_answer_of_sqs_for_a_message_is_taken_for_what_it_is() {
        let long =
            "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes.";
        for (code, status, message, kind) in [
            ("QueueDoesNotExist", Some(400), "", FaultKind::Configuration),
            ("AccessDenied", Some(403), "", FaultKind::Configuration),
            ("KmsThrottled", Some(400), "", TRANSIENT),
            ("KMS.ThrottlingException", Some(400), "", TRANSIENT),
            ("InternalError", Some(500), "", TRANSIENT),
            ("", None, "timed out", TRANSIENT),
            ("", Some(200), "the answer was cut off", TRANSIENT),
            ("InvalidMessageContents", Some(400), "", FaultKind::Refused(Reason::InvokeRejected)),
            ("InvalidParameterValue", Some(400), "", FaultKind::Refused(Reason::InvokeRejected)),
            ("InvalidParameterValue", Some(400), long, FaultKind::Refused(Reason::PayloadTooLarge)),
        ] {
            let code = Some(code).filter(|code| !code.is_empty());
            assert_eq!(classify_send(code, status, message), kind, "{code:?} {status:?}");
        }
    }

    #[test]
    fn a_code_that_is_known_outweighs_its_status() {
        let too_large = FaultKind::Refused(Reason::PayloadTooLarge);
        let rejected = FaultKind::Refused(Reason::InvokeRejected);
        // Each status alone would mean another kind.
        for (codes, status, kind) in [
            ("RequestTooLarge SerializedRequestEntityTooLarge", 400, too_large),
            ("InvalidRequestContent InvalidParameterValue Validation", 500, rejected),
            ("RecursiveInvocation", 500, FaultKind::Refused(Reason::RecursionStopped)),
            ("EC2AccessDenied InvalidSubnetID KMSDisabled", 502, FaultKind::Configuration),
            ("EFSIO ResourceConflict SnapStartTimeout ENINotReady ENILimitReached", 400, TRANSIENT),
        ] {
            for code in codes.split_whitespace() {
                let code = format!("{code}Exception");
                assert_eq!(classify(Some(&code), Some(status), "", None), kind, "{code}");
            }
        }
    }

    #[test]
    fn what_asks_for_fewer_calls_passes_whichever_service_says_so() {
        let codes = "ThrottledException ThrottlingError TooManyRequestsException";
        for code in codes.split_whitespace() {
            assert!(throttles(code), "{code}");
            assert!(store_fault_passes(Some(code), Some(400)), "{code}");
            assert_eq!(classify(Some(code), Some(400), "", None), TRANSIENT, "{code}");
        }
        assert!(!throttles("TransactionConflictException") && !throttles("") && !throttles("Slow"));
    }

    #[test]
    fn a_code_that_is_not_known_counts_by_its_status() {
        for (code, status, kind) in [
            (Some("ServiceException"), Some(500), TRANSIENT),
            (None, Some(429), TRANSIENT),
            (None, Some(408), TRANSIENT),
            (None, None, TRANSIENT),
            (Some("AccessDeniedException"), Some(403), FaultKind::Configuration),
            (Some("SomethingNew"), Some(400), FaultKind::Configuration),
            (None, Some(413), FaultKind::Refused(Reason::PayloadTooLarge)),
        ] {
            assert_eq!(classify(code, status, "", None), kind, "{code:?} {status:?}");
        }
        for said in [
            "The invoked function is enabled with tenancy configuration. Add a valid tenant ID in your request and try again.",
            "You cannot invoke a durable function using an unqualified ARN.",
        ] {
            let kind = classify(Some("InvalidParameterValueException"), Some(400), said, None);
            assert_eq!(kind, FaultKind::Configuration, "a person has to mend: {said}");
        }
    }

    /// How long the message waits after a fault `age` seconds after the failure, or why it is given up.
    fn wait(kind: FaultKind, age: u64, receive_count: u32) -> Result<Duration, Reason> {
        let failed_at = at("2019-11-14T18:16:05.568Z");
        let body = testing::record_of("1");
        let received = Message { receive_count, ..message(&body) };
        let judged = |now| decide(received, &home(), &rules(&[("MAX_AGE", "10000s")]), now);
        let now = later(failed_at, Duration::from_secs(age));
        rest(judged(later(failed_at, SECOND)).after_fault(kind, now), now)
    }

    /// How long it waits, or why it is given up.
    fn rest(settlement: Settlement, now: Timestamp) -> Result<Duration, Reason> {
        match settlement {
            Settlement::Wait { until } => Ok(between(now, until)),
            Settlement::DeadLetter(reason) => Err(reason),
        }
    }

    const TRANSIENT: FaultKind = FaultKind::Transient { retry_after: None };
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn each_fault_has_its_wait() {
        let asked = |seconds| FaultKind::Transient { retry_after: Some(SECOND * seconds) };
        for (kind, receive_count, least, most) in [
            (TRANSIENT, 0, 1, 1),
            (TRANSIENT, 1, 1, 1),
            (TRANSIENT, 2, 1, 2),
            (TRANSIENT, 5, 1, 16),
            (TRANSIENT, 9, 1, 256),
            (TRANSIENT, 10, 1, 300),
            (TRANSIENT, 499, 1, 300),
            (asked(0), 2, 1, 1),
            (asked(1), 2, 1, 1),
            (asked(77), 2, 77, 77),
            (FaultKind::Configuration, 1, 30, 60),
            (FaultKind::Configuration, 2, 60, 120),
            (FaultKind::Configuration, 5, 450, 900),
            (FaultKind::Configuration, 100, 450, 900),
        ] {
            let wait = wait(kind, 10, receive_count).unwrap();
            let range = SECOND * least..=SECOND * most;
            assert!(range.contains(&wait), "{kind:?} {receive_count}: {wait:?}");
        }
        for reason in [Reason::PayloadTooLarge, Reason::InvokeRejected, Reason::RecursionStopped] {
            assert_eq!(wait(FaultKind::Refused(reason), 10, 2), Err(reason));
        }
    }

    #[test]
    fn no_wait_passes_over_the_last_chance_and_none_reaches_beyond_the_age() {
        // With a MAX_AGE of 10,000 s, the last chance is a minute before its end.
        for kind in [TRANSIENT, FaultKind::Configuration] {
            assert_eq!(wait(kind, 9_939, 100), Ok(SECOND), "a second before the last chance");
            assert_eq!(wait(kind, 9_999, 100), Err(Reason::MaxAgeExceeded));
            assert_eq!(wait(kind, 10_001, 1), Err(Reason::MaxAgeExceeded));
        }
        for age in [9_940, 9_945] {
            assert_eq!(wait(TRANSIENT, age, 1), Ok(SECOND), "the minute is there to be used");
        }
        let asked = |seconds| FaultKind::Transient { retry_after: Some(SECOND * seconds) };
        assert_eq!(wait(asked(50), 9_950, 1), Ok(SECOND * 50), "to its end");
        assert_eq!(wait(asked(51), 9_950, 1), Err(Reason::MaxAgeExceeded));
    }

    #[test]
    fn what_cannot_be_claimed_waits_however_old_it_is_until_sqs_would_delete_it() {
        let failed_at = at("2019-11-14T18:16:05.568Z");
        let body = testing::record_of("1");
        let after = |passes, decision, seconds, receive_count| {
            let received = Message { receive_count, ..message(&body) };
            let judged = decide(received, &home(), &rules(&[]), failed_at);
            let now = later(failed_at, SECOND * seconds);
            rest(Judgement { decision, ..judged }.after_unclaimed(passes, now), now)
        };
        let given_up = Decision::Settle(Settlement::DeadLetter(Reason::NotRetryable));
        let half_a_day = 12 * 3600;
        for days in [0, 1, 26] {
            let soon = after(true, given_up, days * half_a_day, 2).unwrap();
            assert!((SECOND..=SECOND * 2).contains(&soon), "{soon:?}");
            let mended = after(false, given_up, days * half_a_day, 2).unwrap();
            assert!((SECOND * 60..=SECOND * 120).contains(&mended), "{mended:?}");
        }
        assert!(after(true, given_up, 27 * half_a_day, 2).is_ok());
        for passes in [true, false] {
            assert_eq!(after(passes, given_up, 27 * half_a_day + 1, 2), Err(Reason::NotRetryable));
        }
        let last_chance = 24 * 3600 - 60;
        assert_eq!(after(false, Decision::Invoke, last_chance - 1, 9), Ok(SECOND));
        assert!(after(false, Decision::Invoke, last_chance, 9).unwrap() > SECOND * 60);
    }

    #[test]
    fn a_fault_names_what_aws_said() {
        let fault = |code: Option<&str>| InvokeFault {
            kind: TRANSIENT,
            code: code.map(str::to_owned),
            message: "Rate Exceeded.".into(),
        };
        assert_eq!(
            fault(Some("TooManyRequestsException")).to_string(),
            "TooManyRequestsException: Rate Exceeded."
        );
        assert_eq!(fault(None).to_string(), "Rate Exceeded.");
    }
}
