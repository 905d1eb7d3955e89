//! One message, one decision.
//!
//! Read it; is its target allowed? Is there a next attempt, and when? Not yet: wait. Now: invoke.
//! Never: give it up, with the reason.

use std::time::Duration;

use crate::{
    Timestamp,
    arn::{FunctionArn, Home},
    dead_letter::Reason,
    envelope::Envelope,
    record::{self, Failure, Message, Unreadable},
    schedule::Schedule,
    settings::Settings,
    time::between,
};

/// SQS refuses a visibility timeout that would keep a message from view for longer than this, counted
/// from its receive.
pub const VISIBILITY_MAX: Duration = Duration::from_hours(12);

/// How much of that is left unused, for the time between a receive and the change of its visibility.
const VISIBILITY_SLACK: Duration = Duration::from_mins(1);

/// What is to be done with a message.
#[derive(Clone, Debug)]
pub enum Decision {
    /// Its time has not come.
    Wait {
        /// When it comes.
        until: Timestamp,
    },
    /// Its attempt is due.
    Invoke(Reinvocation),
    /// It is given up.
    DeadLetter(Reason),
}

/// An attempt to be made.
#[derive(Clone, Debug)]
pub struct Reinvocation {
    /// The function that failed, as its record names it.
    pub target: FunctionArn,
    /// What it is given.
    pub envelope: Envelope,
    /// When this was to be done, and what is left if it can't be.
    pub schedule: Schedule,
    /// The request id of the failed invocation.
    pub request_id: String,
}

/// A decision and what was known when it was made.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// What is to be done.
    pub decision: Decision,
    /// The failure that the message told of, or why it told of none.
    pub failure: Result<Failure, Unreadable>,
    /// The next attempt, if there is one.
    pub schedule: Option<Schedule>,
}

/// Decides what is to be done with a message, for a handler that lives at `home`.
pub fn decide(message: &Message, home: &Home, settings: &Settings, now: Timestamp) -> Judgement {
    let bare_target = settings.dlq_target.as_ref().and_then(|target| target.at(home));
    let failure = match record::read(message, bare_target.as_ref()) {
        Ok(failure) => failure,
        Err(why) => {
            let decision = Decision::DeadLetter(Reason::Unreadable);
            return Judgement { decision, failure: Err(why), schedule: None };
        }
    };
    match plan(&failure, home, settings) {
        Ok(planned) => {
            let schedule = Some(planned.schedule);
            Judgement { decision: act(planned, now), failure: Ok(failure), schedule }
        }
        Err(reason) => {
            let decision = Decision::DeadLetter(reason);
            Judgement { decision, failure: Ok(failure), schedule: None }
        }
    }
}

/// The next attempt, or the reason why there is none.
fn plan(failure: &Failure, home: &Home, settings: &Settings) -> Result<Reinvocation, Reason> {
    let event = failure.event.as_ref().ok_or(Reason::PayloadMissing)?;
    if !settings.targets.allow(&failure.target, home) {
        return Err(Reason::TargetNotAllowed);
    }
    let schedule = Schedule::of(failure, settings.policies.of(failure.target.name()))?;
    let envelope = failure.envelope(event, schedule.attempt);
    // Known before the wait, which would be in vain.
    if !envelope.fits() {
        return Err(Reason::PayloadTooLarge);
    }
    let (target, request_id) = (failure.target.clone(), failure.request_id.clone());
    Ok(Reinvocation { target, envelope, schedule, request_id })
}

fn act(planned: Reinvocation, now: Timestamp) -> Decision {
    let Schedule { due, expiry, .. } = planned.schedule;
    if now > expiry {
        Decision::DeadLetter(Reason::MaxAgeExceeded)
    } else if now < due {
        Decision::Wait { until: due }
    } else {
        Decision::Invoke(planned)
    }
}

/// The visibility timeout that brings a message back at `until`, in whole seconds; after the longest
/// that SQS allows it comes back early, and waits again.
pub fn visibility_timeout(until: Timestamp, now: Timestamp) -> u32 {
    let rest = between(now, until).min(VISIBILITY_MAX - VISIBILITY_SLACK);
    let rounded_up = rest.as_secs() + u64::from(rest.subsec_nanos() > 0);
    // At most 12 hours of seconds.
    u32::try_from(rounded_up).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        testing::{self, at, home, message, settings},
        time::later,
    };

    type Variables<'a> = &'a [(&'a str, &'a str)];

    const FAILED_AT: &str = "2019-11-14T18:16:05.568Z";

    fn decide_at(body: &str, variables: Variables, now: Timestamp) -> Judgement {
        decide(&message(body), &home(), &settings(variables), now)
    }

    /// In how many milliseconds after its failure the event is due, or why it is given up.
    fn due_after(body: &str, variables: Variables) -> Result<i64, Reason> {
        let judgement = decide_at(body, variables, at(FAILED_AT));
        match (judgement.decision, judgement.schedule) {
            (Decision::DeadLetter(reason), _) => Err(reason),
            (_, Some(schedule)) => Ok((schedule.due - at(FAILED_AT)).num_milliseconds()),
            (decision, None) => panic!("{decision:?} without a schedule"),
        }
    }

    #[test]
    fn a_fresh_failure_waits_and_is_invoked_when_it_is_due() {
        let body = testing::record_of("{\"order\": 1.0}");
        let Decision::Wait { until } = decide_at(&body, &[], at(FAILED_AT)).decision else {
            panic!("expected a wait")
        };
        assert_eq!(until, at("2019-11-14T18:16:06.568Z"), "the first backoff is BASE_BACKOFF");
        let early = later(at(FAILED_AT), Duration::from_millis(999));
        assert!(
            matches!(decide_at(&body, &[], early).decision, Decision::Wait { until: again } if again == until)
        );
        let Decision::Invoke(Reinvocation { envelope, .. }) = decide_at(&body, &[], until).decision
        else {
            panic!("expected an invocation")
        };
        assert_eq!(
            envelope.to_json(),
            r#"{"_retry_metadata":{"attempt":1,"initial_timestamp":1573755365,"request_id":"e4b46cbf-b738-xmpl-8880-a18cdf61200e"},"_original_payload":{"order": 1.0}}"#
        );
    }

    #[test]
    fn attempts_rise_by_one_and_the_first_request_keeps_its_name() {
        let body = testing::record_of(&testing::envelope(4, 1_573_755_000, "first-id", "[1 , 2]"));
        let Decision::Invoke(Reinvocation { envelope, .. }) =
            decide_at(&body, &[("MAX_BACKOFF", "2s")], at("2019-11-14T18:17:00Z")).decision
        else {
            panic!("expected an invocation")
        };
        assert_eq!(envelope.to_json(), testing::envelope(5, 1_573_755_000, "first-id", "[1 , 2]"));
    }

    #[test]
    fn each_reason_to_give_up_has_its_name() {
        let fresh = testing::record_of("1");
        let failing_with = |kind: &str| {
            fresh.replace("\"errorMessage\"", &format!(r#""errorType":"{kind}","errorMessage""#))
        };
        let attempt = |n| testing::record_of(&testing::envelope(n, 1_573_755_000, "id", "1"));
        let foreign = fresh.replace("123456789012", "999999999999");
        let recursive = fresh.replace("RetriesExhausted", "RecursiveInvocation");
        let missing = fresh.replace("requestPayload", "requestpayload");
        let large = testing::record_of(&format!("\"{}\"", "x".repeat(1_048_574)));
        let table: [(&str, Variables, Reason); 13] = [
            (&large, &[], Reason::PayloadTooLarge),
            ("no JSON", &[], Reason::Unreadable),
            (&missing, &[("TARGET_FUNCTIONS", "other")], Reason::PayloadMissing),
            (&foreign, &[], Reason::TargetNotAllowed),
            (&fresh, &[("TARGET_FUNCTIONS", "other")], Reason::TargetNotAllowed),
            (&recursive, &[], Reason::RecursionStopped),
            (&failing_with("PermanentFailure"), &[], Reason::NotRetryable),
            (
                &failing_with("a.ValueError"),
                &[("NON_RETRYABLE_ERRORS", "ValueError")],
                Reason::NotRetryable,
            ),
            (
                &failing_with("a.ValueError"),
                &[("POLICIES", r#"{"my-function":{"NON_RETRYABLE_ERRORS":["ValueError"]}}"#)],
                Reason::NotRetryable,
            ),
            (&attempt(3), &[("MAX_ATTEMPTS", "3")], Reason::MaxAttemptsExceeded),
            (&attempt(3), &[("MAX_RETRIES", "3")], Reason::MaxAttemptsExceeded),
            (
                &attempt(3),
                &[("POLICIES", r#"{"my-function":{"MAX_ATTEMPTS":2}}"#)],
                Reason::MaxAttemptsExceeded,
            ),
            (&attempt(3), &[("MAX_AGE", "6m")], Reason::MaxAgeExceeded),
        ];
        for (body, variables, reason) in table {
            assert_eq!(due_after(body, variables), Err(reason), "{variables:?}");
        }
        assert!(due_after(&attempt(2), &[("MAX_ATTEMPTS", "3")]).is_ok());
        assert!(
            due_after(
                &attempt(3),
                &[("MAX_ATTEMPTS", "3"), ("POLICIES", r#"{"my-function":{"MAX_ATTEMPTS":4}}"#)]
            )
            .is_ok()
        );
    }

    #[test]
    fn a_paused_target_repeats_its_attempt_and_is_left_alone_for_a_while() {
        let paused = |payload: &str| {
            testing::record_of(payload).replace("RetriesExhausted", "ZeroReservedConcurrency")
        };
        for (payload, attempt) in
            [("1".to_owned(), 1), (testing::envelope(3, 1_573_755_000, "id", "1"), 3)]
        {
            let body = paused(&payload);
            let limits = [("MAX_ATTEMPTS", "3")];
            let schedule = decide_at(&body, &limits, at(FAILED_AT)).schedule.unwrap();
            assert_eq!(schedule.attempt.get(), attempt);
            let minutes = Duration::from_mins(15);
            let pause = between(at(FAILED_AT), schedule.due);
            assert!((minutes / 2..=minutes).contains(&pause), "{pause:?}");
        }
        let due = due_after(&paused("1"), &[("MAX_BACKOFF", "10s")]).unwrap();
        assert!((5_000..=10_000).contains(&due), "{due}");
    }

    #[test]
    fn a_target_is_given_the_time_it_asks_for_and_never_less_than_the_backoff() {
        let asking = |wish: &str| {
            let error = format!(r#""errorType":"RetryAfter","errorMessage":"{wish}: later","was""#);
            testing::record_of("1").replace("\"errorMessage\"", &error)
        };
        assert_eq!(due_after(&asking("120s"), &[]), Ok(120_000));
        assert_eq!(due_after(&asking("0s"), &[]), Ok(1_000));
        assert_eq!(due_after(&asking("7d"), &[]), Ok((86_400 - 60) * 1000), "the last chance");
    }

    #[test]
    fn the_last_attempt_is_made_just_before_the_age_is_over() {
        // It failed first 365.568 s before; of a MAX_AGE of 1000 s a slack of 10 s is left.
        let body = testing::record_of(&testing::envelope(20, 1_573_755_000, "id", "1"));
        let policy = [("MAX_AGE", "1000s"), ("JITTER", "none")];
        assert_eq!(due_after(&body, &policy), Ok(990_000 - 365_568));
        let base = |base| [("MAX_AGE", "1000s"), ("BASE_BACKOFF", base)];
        assert!(due_after(&body, &base("624s")).is_ok());
        assert_eq!(due_after(&body, &base("625s")), Err(Reason::MaxAgeExceeded));
        let fresh = testing::record_of("1");
        assert_eq!(due_after(&fresh, &base("990s")), Ok(990_000), "just in time");
    }

    #[test]
    fn an_event_past_its_age_is_never_invoked_however_late_its_message_comes() {
        let body = testing::record_of("1");
        let age = [("MAX_AGE", "1000s")];
        let after =
            |ms| decide_at(&body, &age, later(at(FAILED_AT), Duration::from_millis(ms))).decision;
        assert!(matches!(after(1_000_000), Decision::Invoke(_)));
        assert!(matches!(after(1_000_001), Decision::DeadLetter(Reason::MaxAgeExceeded)));
    }

    #[test]
    fn a_message_is_never_left_to_the_end_of_its_time_in_sqs() {
        // SQS deletes a message after 14 days, whatever MAX_AGE says.
        let error = r#""errorType":"RetryAfter","errorMessage":"20d","was""#;
        let body = testing::record_of("1").replace("\"errorMessage\"", error);
        let year = [("MAX_AGE", "365d")];
        let day = 86_400_000;
        assert_eq!(due_after(&body, &year), Ok(13 * day));
        let after =
            |ms| decide_at(&body, &year, later(at(FAILED_AT), Duration::from_millis(ms))).decision;
        let half = u64::try_from(day / 2).unwrap();
        assert!(matches!(after(27 * half), Decision::Invoke(_)));
        assert!(matches!(after(27 * half + 1), Decision::DeadLetter(Reason::MaxAgeExceeded)));
    }

    #[test]
    fn a_visibility_timeout_is_rounded_up_and_stays_below_twelve_hours() {
        let now = at(FAILED_AT);
        for (rest_ms, seconds) in [
            (0, 0),
            (1, 1),
            (1000, 1),
            (1001, 2),
            (43_140_000, 43_140),
            (43_140_001, 43_140),
            (1 << 40, 43_140),
        ] {
            let until = later(now, Duration::from_millis(rest_ms));
            assert_eq!(visibility_timeout(until, now), seconds, "{rest_ms} ms");
        }
        assert_eq!(visibility_timeout(now, later(now, Duration::from_secs(9))), 0);
    }

    proptest! {
        #[test]
        fn every_receive_of_a_message_comes_to_the_same_due_time(
            attempt in 1u32..60, lateness_ms in 0u64..100_000_000, receive_count in 0u32..2000,
        ) {
            let body = testing::record_of(&testing::envelope(attempt, 1_573_755_000, "id", "1"));
            let first = decide_at(&body, &[("MAX_AGE", "30d")], at(FAILED_AT));
            let again = Message { receive_count, ..message(&body) };
            let now = later(at(FAILED_AT), Duration::from_millis(lateness_ms));
            let second = decide(&again, &home(), &settings(&[("MAX_AGE", "30d")]), now);
            prop_assert_eq!(first.schedule, second.schedule);
            let due = second.schedule.unwrap().due;
            prop_assert_eq!(matches!(second.decision, Decision::Invoke(_)), now >= due);
        }
    }
}
