//! AWS errors that prevent an invocation or the claim before it, and how long the message then waits.
//!
//! | kind | what it is | what happens to the message |
//! |---|---|---|
//! | transient | throttling, 5xx, time-outs, resources that are not ready yet | a short wait, no attempt is counted |
//! | configuration | a fault that a person has to fix | longer waits, until the event's age is over |
//! | refused | this request will never be accepted | it is given up |
//!
//! A message whose failure can't be claimed waits likewise, even beyond the event's age, until SQS would delete it.
//!
//! A wait grows with the fault: an event waits at most as long again as the fault has kept it already. So all events
//! are back soon after a short fault, and few calls are made in vain during a long one. The receive count can't tell
//! how long a fault has lasted, because it counts every wait before the fault, too.

use std::time::Duration;

use crate::{Timestamp, backoff::Draw, reason::Reason, time::between};

/// After a transient fault: up to 5 min, as in Lambda's own retries of throttled events.
const TRANSIENT_WAIT: Bounds =
    Bounds { least: Duration::from_secs(1), most: Duration::from_mins(5) };

/// After a configuration fault: long enough not to flood the log, short enough to retry the event soon after the fix.
const CONFIGURATION_WAIT: Bounds =
    Bounds { least: Duration::from_secs(10), most: Duration::from_mins(15) };

/// A fault that nobody has met for this long is over, or for twice as long as it was met if that is more. By then an
/// event that has waited because of it would have met it again.
const OVER_AFTER_MIN: Duration = Duration::from_mins(1);

/// The maximum of that time: twice the longest wait.
const OVER_AFTER_MAX: Duration = Duration::from_mins(30);

/// The bounds of the longest wait after a fault, which grows with the fault.
struct Bounds {
    least: Duration,
    most: Duration,
}

impl Bounds {
    /// The longest wait of an event that the fault has kept for this long.
    fn ceiling(&self, kept_for: Duration) -> Duration {
        kept_for.clamp(self.least, self.most)
    }
}

/// A fault that lasts, as one handler knows it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Outage {
    /// When the handler met it first.
    pub since: Timestamp,
    met_at: Timestamp,
}

impl Outage {
    /// The outage to which a fault belongs that is met now, after the one that was `known` before.
    #[must_use]
    pub fn met(known: Option<Self>, now: Timestamp) -> Self {
        let since = known.filter(|known| !known.is_over(now)).map_or(now, |known| known.since);
        Self { since, met_at: now }
    }

    /// A success in between doesn't end an outage: of a target that is throttled, some invocations are accepted.
    fn is_over(&self, now: Timestamp) -> bool {
        let lasted = between(self.since, self.met_at);
        between(self.met_at, now) > (lasted * 2).clamp(OVER_AFTER_MIN, OVER_AFTER_MAX)
    }
}

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

impl InvokeFault {
    /// Whether Lambda demands a tenant id, or refuses the one that it was given.
    pub fn is_about_tenant(&self) -> bool {
        let code = self.code.as_deref().unwrap_or_default();
        code.starts_with("InvalidParameterValue")
            && TENANCY.iter().any(|part| self.message.contains(part))
    }
}

/// What Lambda's messages about a tenant id have in them.
const TENANCY: [&str; 2] = ["tenant ID", "tenancy"];

/// Why a claim could not be written.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}{message}", code.as_ref().map(|code| format!("{code}: ")).unwrap_or_default())]
pub struct StoreFault {
    /// Whether the fault is transient. Otherwise, a person has to fix it.
    pub is_transient: bool,
    /// AWS's error code, if AWS answered.
    pub code: Option<String>,
    /// The error message of AWS or of the failed connection.
    pub message: String,
}

/// Why a conditional write to a store was not made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum NotReplaced<T> {
    /// The store holds this value now, which is not the one that the caller saw.
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
            if TENANCY.iter().chain(&["unqualified ARN"]).any(|part| message.contains(part)) =>
        {
            FaultKind::Configuration
        }
        // An execution of a durable function: see `is_made_already`.
        "DurableExecutionAlreadyStarted"
        | "InvalidRequestContent"
        | "InvalidParameterValue"
        | "UnsupportedMediaType"
        | "Validation" => FaultKind::Refused(Reason::InvokeRejected),
        "RecursiveInvocation" => FaultKind::Refused(Reason::RecursionStopped),
        // Some of these have a 5xx status, but none passes by itself.
        "CodeArtifactUserDeleted"
        | "CodeArtifactUserFailed"
        | "EC2AccessDenied"
        | "EFSMountFailure"
        | "InvalidRuntime"
        | "InvalidSecurityGroupID"
        | "InvalidSubnetID"
        | "InvalidZipFile"
        | "KMSAccessDenied"
        | "KMSDisabled"
        | "KMSInvalidState"
        | "KMSNotFound"
        | "ModeNotSupported"
        | "NoPublishedVersion"
        | "ResourceNotFound"
        | "RuntimeAliasDeleted"
        | "RuntimeVersionDeleted"
        | "S3FilesMountFailure"
        | "SnapStart" => FaultKind::Configuration,
        // Some of these have a 4xx status, but all pass by themselves.
        "CodeArtifactUserPending"
        | "EC2Unexpected"
        | "EFSIO"
        | "EFSMountConnectivity"
        | "EFSMountTimeout"
        | "ResourceConflict"
        | "S3FilesMountConnectivity"
        | "S3FilesMountTimeout"
        | "Service"
        | "ServiceQuotaExceeded"
        | "SnapStartRegenerationFailure"
        | "SnapStartTimeout" => transient,
        name if throttles(name) => transient,
        name if name.ends_with("NotReady") || name.ends_with("LimitReached") => transient,
        _ => match status {
            None | Some(..300 | 408 | 429 | 500..) => transient,
            Some(413) => FaultKind::Refused(Reason::PayloadTooLarge),
            // Access denied, and whatever AWS may add: waiting loses nothing.
            Some(_) => FaultKind::Configuration,
        },
    }
}

/// Whether Lambda says that the call was made before. A durable function's execution is named after event and attempt,
/// so the one that has begun is this retry.
pub fn is_made_already(code: &str) -> bool {
    code.starts_with("DurableExecutionAlreadyStarted")
}

/// Whether Lambda may have accepted an invocation that got this answer, of which nothing else is known. It has not if
/// it says so: by a 4xx status, or by a code of throttling or of a resource that is not ready. Without a status there
/// was no answer, and of a 2xx one only a part.
pub fn may_be_accepted(code: Option<&str>, status: Option<u16>) -> bool {
    // A code may be followed by a colon and its namespace.
    let code = code.and_then(|code| code.split(':').next()).unwrap_or_default();
    let name = code.strip_suffix("Exception").unwrap_or(code);
    let is_refused =
        throttles(name) || name.ends_with("NotReady") || name.ends_with("LimitReached");
    let passes = matches!(classify(Some(code), status, "", None), FaultKind::Transient { .. });
    passes && !is_refused && status.is_none_or(|status| !(300..500).contains(&status))
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
        "InvalidAddress" | "InvalidSecurity" | "KmsAccessDenied" | "KmsDisabled" | "KmsInvalidKeyUsage"
        | "KmsInvalidState" | "KmsNotFound" | "KmsOptInRequired" | "QueueDoesNotExist" | "UnsupportedOperation"
        // The handler's own fault: it asks for at most ten messages, and each has a name of its own.
        | "BatchEntryIdsNotDistinct" | "BatchRequestTooLong" | "EmptyBatchRequest" | "InvalidBatchEntryId"
        | "TooManyEntriesInBatchRequest" => FaultKind::Configuration,
        _ => match status {
            None | Some(..300 | 408 | 429 | 500..) => transient,
            Some(_) => FaultKind::Configuration,
        },
    }
}

/// Why the object that has a failure record was not read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RecordFault {
    #[error("there is no such object")]
    Gone,
    #[error("the object is larger than 8 MiB")]
    TooLarge,
    #[error("{0}")]
    Store(StoreFault),
}

/// Classifies S3's answer to a read by its code and status. Without the right to list the bucket, S3 says of an object
/// that is gone that access is denied.
pub fn classify_read(code: Option<&str>, status: Option<u16>, message: &str) -> RecordFault {
    let name = code.unwrap_or_default();
    if matches!(name, "NoSuchKey" | "NoSuchVersion" | "NoSuchBucket") || status == Some(404) {
        return RecordFault::Gone;
    }
    // S3 passes the errors of KMS on under a name such as `KMS.ThrottlingException`.
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_transient = throttles(last)
        || matches!(name, "RequestTimeout" | "OperationAborted")
        || matches!(status, None | Some(..300 | 408 | 429 | 500..));
    RecordFault::Store(StoreFault {
        is_transient,
        code: code.map(str::to_owned),
        message: message.to_owned(),
    })
}

/// Whether an error of DynamoDB is transient. Its throttling errors have status 400, like errors that a person has to
/// fix.
pub fn store_fault_passes(code: Option<&str>, status: Option<u16>) -> bool {
    // An error with a success status means that the answer was cut off.
    code.is_some_and(|code| throttles(code) || conflict_passes(code))
        || matches!(status, None | Some(..300 | 408 | 429 | 500..))
}

impl FaultKind {
    /// How long a message waits after this fault, which has kept it for a while already.
    pub(crate) fn wait(self, kept_for: Duration, draw: Draw) -> Result<Duration, Reason> {
        match self {
            Self::Refused(reason) => Err(reason),
            Self::Configuration => Ok(wait(false, kept_for, draw)),
            Self::Transient { retry_after: Some(asked) } => Ok(asked.max(TRANSIENT_WAIT.least)),
            Self::Transient { retry_after: None } => Ok(wait(true, kept_for, draw)),
        }
    }
}

/// How long a message waits after a fault that is transient, or that a person has to fix.
pub(crate) fn wait(is_transient: bool, kept_for: Duration, draw: Draw) -> Duration {
    if is_transient {
        draw.between(TRANSIENT_WAIT.least, TRANSIENT_WAIT.ceiling(kept_for))
    } else {
        let ceiling = CONFIGURATION_WAIT.ceiling(kept_for);
        draw.between(ceiling / 2, ceiling)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Timestamp,
        decision::{Decision, Judgement, Settlement, decide},
        message::Message,
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
            (
                "CodeArtifactUserFailed RuntimeVersionDeleted SnapStart",
                500,
                FaultKind::Configuration,
            ),
            ("EFSIO ResourceConflict SnapStartTimeout ENINotReady ENILimitReached", 400, TRANSIENT),
            ("CodeArtifactUserPending SnapStartRegenerationFailure Service", 409, TRANSIENT),
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

    const FAILED_AT: &str = "2019-11-14T18:16:05.568Z";

    /// How long a message waits that is due a second after its failure, after a fault `age` seconds after the failure
    /// that the handler has seen for `seen` seconds, or why it is given up.
    fn wait(kind: FaultKind, age: u64, seen: u64) -> Result<Duration, Reason> {
        let failed_at = at(FAILED_AT);
        let body = testing::record_of("1");
        let received = Message { receive_count: 400, ..message(&body) };
        let judged = |now| decide(received, &home(), &rules(&[("MAX_AGE", "10000s")]), now);
        let now = later(failed_at, Duration::from_secs(age));
        let since = now - Duration::from_secs(seen);
        rest(judged(later(failed_at, SECOND)).after_fault(kind, since, now), now)
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
    /// A fault that a handler has seen for longer than any event was late.
    const EVER: u64 = 100_000;

    #[test]
    fn a_wait_grows_with_the_time_for_which_the_fault_has_kept_the_event_however_often_it_came() {
        let asked = |seconds| FaultKind::Transient { retry_after: Some(SECOND * seconds) };
        for (kind, age, seen, least, most) in [
            (TRANSIENT, 1, EVER, 1, 1),
            (TRANSIENT, 2, EVER, 1, 1),
            (TRANSIENT, 5, EVER, 1, 4),
            (TRANSIENT, 26, EVER, 1, 25),
            (TRANSIENT, 5_000, EVER, 1, 300),
            // An event that was held back for an hour meets a fault that has just begun.
            (TRANSIENT, 3_600, 0, 1, 1),
            (TRANSIENT, 3_600, 25, 1, 25),
            (FaultKind::Configuration, 1, EVER, 5, 10),
            (FaultKind::Configuration, 3_600, 0, 5, 10),
            (FaultKind::Configuration, 3_600, 25, 12, 25),
            (FaultKind::Configuration, 3_600, EVER, 450, 900),
            (asked(0), 3_600, EVER, 1, 1),
            (asked(77), 3_600, 0, 77, 77),
        ] {
            let wait = wait(kind, age, seen).unwrap();
            let range = SECOND * least..=SECOND * most;
            assert!(range.contains(&wait), "{kind:?} at {age}, seen for {seen}: {wait:?}");
        }
        for reason in [Reason::PayloadTooLarge, Reason::InvokeRejected, Reason::RecursionStopped] {
            assert_eq!(wait(FaultKind::Refused(reason), 10, 2), Err(reason));
        }
    }

    #[test]
    fn after_a_fault_every_event_is_back_as_soon_as_the_fault_was_long() {
        for lasts in [3, 25, 200] {
            for nth in 0..100 {
                let body = testing::record_of("1")
                    .replace("e4b46cbf-b738-xmpl-8880-a18cdf61200e", &format!("request {nth}"));
                let began = later(at(FAILED_AT), SECOND * 3_600);
                let ended = later(began, SECOND * lasts);
                let (mut now, mut tries) = (later(began, SECOND * nth * lasts / 100), 0);
                let mut known = Some(Outage::met(None, began));
                while now < ended {
                    let outage = Outage::met(known, now);
                    known = Some(outage);
                    let judged = decide(message(&body), &home(), &rules(&[]), now);
                    let Settlement::Wait { until } =
                        judged.after_unclaimed(false, outage.since, now)
                    else {
                        panic!("event {nth} is given up");
                    };
                    (now, tries) = (until, tries + 1);
                }
                assert!(now <= later(ended, SECOND * lasts.max(10)), "{lasts} s, {nth}: {now}");
                assert!(tries <= 12, "{lasts} s, {nth}: {tries} tries");
            }
        }
    }

    #[test]
    fn an_outage_lasts_until_nobody_has_met_it_for_twice_as_long() {
        let from = at(FAILED_AT);
        let after = |seconds| later(from, SECOND * seconds);
        let once = Outage::met(None, from);
        assert_eq!(Outage::met(Some(once), after(60)).since, from);
        assert_eq!(Outage::met(Some(once), after(61)).since, after(61));
        let longer = Outage::met(Some(once), after(50));
        assert_eq!(Outage::met(Some(longer), after(150)).since, from);
        assert_eq!(Outage::met(Some(longer), after(151)).since, after(151));
        let long = [60, 180, 540, 1_620]
            .into_iter()
            .fold(once, |known, seconds| Outage::met(Some(known), after(seconds)));
        assert_eq!(Outage::met(Some(long), after(1_620 + 1_800)).since, from);
        assert_eq!(Outage::met(Some(long), after(1_620 + 1_801)).since, after(1_620 + 1_801));
    }

    #[test]
    fn no_wait_passes_over_the_last_chance_and_none_reaches_beyond_the_age() {
        // With a MAX_AGE of 10,000 s, the last chance is a minute before its end.
        for kind in [TRANSIENT, FaultKind::Configuration] {
            assert_eq!(wait(kind, 9_939, EVER), Ok(SECOND), "a second before the last chance");
            assert_eq!(wait(kind, 9_999, EVER), Err(Reason::MaxAgeExceeded));
            assert_eq!(wait(kind, 10_001, 0), Err(Reason::MaxAgeExceeded));
        }
        for age in [9_940, 9_945] {
            assert_eq!(wait(TRANSIENT, age, 0), Ok(SECOND), "the minute is there to be used");
        }
        let asked = |seconds| FaultKind::Transient { retry_after: Some(SECOND * seconds) };
        assert_eq!(wait(asked(50), 9_950, 0), Ok(SECOND * 50), "to its end");
        assert_eq!(wait(asked(51), 9_950, 0), Err(Reason::MaxAgeExceeded));
    }

    #[test]
    fn what_cannot_be_claimed_waits_however_old_it_is_until_sqs_would_delete_it() {
        let failed_at = at(FAILED_AT);
        let body = testing::record_of("1");
        let after = |passes, decision, seconds, seen| {
            let judged = decide(message(&body), &home(), &rules(&[]), failed_at);
            let now = later(failed_at, SECOND * seconds);
            let judgement = Judgement { decision, ..judged };
            rest(judgement.after_unclaimed(passes, now - SECOND * seen, now), now)
        };
        let given_up = Decision::Settle(Settlement::DeadLetter(Reason::NotRetryable));
        let half_a_day = 12 * 3600;
        for days in [1, 2, 26] {
            let soon = after(true, given_up, days * half_a_day, 2).unwrap();
            assert!((SECOND..=SECOND * 2).contains(&soon), "{soon:?}");
            let mended = after(false, given_up, days * half_a_day, 60).unwrap();
            assert!((SECOND * 30..=SECOND * 60).contains(&mended), "{mended:?}");
        }
        assert!(after(true, given_up, 27 * half_a_day, 2).is_ok());
        for passes in [true, false] {
            assert_eq!(after(passes, given_up, 27 * half_a_day + 1, 2), Err(Reason::NotRetryable));
        }
        let last_chance = 24 * 3600 - 60;
        assert_eq!(after(false, Decision::Invoke, last_chance - 1, 900), Ok(SECOND));
        assert!(after(false, Decision::Invoke, last_chance, 900).unwrap() > SECOND * 60);
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
    #[test]
    fn an_object_that_is_gone_is_told_from_one_that_cant_be_read_now_or_until_somebody_acts() {
        for (code, status, passes) in [
            (Some("NoSuchKey"), 404, None),
            (Some("NoSuchVersion"), 404, None),
            (Some("NoSuchBucket"), 404, None),
            (None, 404, None),
            (Some("AccessDenied"), 403, Some(false)),
            (Some("InvalidObjectState"), 403, Some(false)),
            (Some("PermanentRedirect"), 301, Some(false)),
            (Some("AuthorizationHeaderMalformed"), 400, Some(false)),
            (Some("KMS.DisabledException"), 400, Some(false)),
            (Some("KMS.NotFoundException"), 400, Some(false)),
            (Some("KMS.ThrottlingException"), 400, Some(true)),
            (Some("SlowDown"), 503, Some(true)),
            (Some("InternalError"), 500, Some(true)),
            (Some("RequestTimeout"), 400, Some(true)),
            (None, 200, Some(true)),
        ] {
            let got = match classify_read(code, Some(status), "m") {
                RecordFault::Gone => None,
                RecordFault::Store(fault) => Some(fault.is_transient),
                RecordFault::TooLarge => panic!("{code:?}"),
            };
            assert_eq!(got, passes, "{code:?} {status}");
        }
        let RecordFault::Store(cut) = classify_read(None, None, "m") else { panic!("no answer") };
        assert!(cut.is_transient);
    }
}
