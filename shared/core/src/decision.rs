//! Decides what to do with a message.
//!
//! If the next attempt is not due yet, the message waits. If it is due, the target is invoked. If there is none, or the
//! target is not allowed, the event is dead-lettered with the reason. If a call fails on the way, another decision
//! follows.

use std::time::Duration;

use crate::{
    Timestamp,
    arn::Home,
    backoff::Draw,
    batch::Part,
    dead_letter::DeadLetter,
    envelope::{Envelope, RetryMetadata},
    failure::{Event, Failure},
    fault::{self, FaultKind},
    in_flight::whole_seconds,
    key::Key,
    message::Message,
    notice::Location,
    reason::Reason,
    record::{self, NoFailure, Read, Unreadable},
    schedule::{Schedule, stay_end},
    settings::Rules,
    time::{between, later},
};

/// SQS refuses a visibility timeout that would hide a message for longer than this after its receive.
pub const VISIBILITY_MAX: Duration = Duration::from_hours(12);

/// The part of [`VISIBILITY_MAX`] that is left unused, because time passes between the receive and the call.
const VISIBILITY_SLACK: Duration = Duration::from_mins(1);

/// From this receive on, a message that can't be acted on waits for half an hour to an hour, whatever the cause. SQS
/// moves it to the dead-letter queue after at most 1,000 receives, without a reason, so the remaining receives have to
/// last as long as SQS keeps the message.
const RECEIVES_SPARED_FROM: u32 = 500;
const SPARING_WAIT: Duration = Duration::from_hours(1);

/// How long an event of a paused target waits before it is looked at again, unless it has to spare receives. The wait
/// fits into one delay.
const PAUSED_WAIT: Duration = Duration::from_mins(15);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Decision {
    Invoke,
    Settle(Settlement),
}

/// The action for a message whose target is not invoked now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Settlement {
    Wait { until: Timestamp },
    DeadLetter(Reason),
}

/// A message, the failure that it describes, and the decision.
#[derive(Clone, Debug)]
pub struct Judgement<'a> {
    pub message: Message<'a>,
    /// The failure, or why the message could not be read.
    pub failure: Result<Failure<'a>, Unreadable>,
    /// Where the failure record lies, if the message only says so. Until [`Judgement::fetched`], the failure is what
    /// the message alone says.
    pub location: Option<Location>,
    /// The notices to send instead of the message, if it is S3's notice of several objects.
    pub notices: Vec<String>,
    /// What the message is about instead of a failure, if there is nothing to do about it.
    pub no_failure: Option<NoFailure>,
    /// Whether messages of this queue may not name this target.
    pub(crate) is_refused: bool,
    pub schedule: Option<Schedule>,
    pub decision: Decision,
}

/// Decides what to do with a message, for a handler that lives at `home`.
pub fn decide<'a>(
    message: Message<'a>,
    home: &Home,
    rules: &Rules,
    now: Timestamp,
) -> Judgement<'a> {
    let bare_target = rules.dlq_target.as_ref().and_then(|target| target.at(home));
    let moved = record::moved(&message).filter(|_| rules.bind_a_queue(message.queue));
    let read = match moved.or_else(|| record::undelivered(&message, home)) {
        Some(failure) => failure.map(Read::Failure),
        None => record::read(&message, bare_target.as_ref(), &rules.policies),
    };
    let (mut location, mut notices, mut no_failure) = (None, Vec::new(), None);
    let failure = match read {
        Ok(Read::Failure(failure)) => Ok(failure),
        Ok(Read::InBucket(there)) => {
            let failure = record::unread(&message, &there, home);
            location = Some(there);
            failure
        }
        Ok(Read::Several(of_each)) => {
            notices = of_each;
            Err(Unreadable::SeveralRecords)
        }
        Ok(Read::NoFailure(what)) => {
            no_failure = Some(what);
            Err(match what {
                NoFailure::Test => Unreadable::OtherNotice,
                NoFailure::Success => Unreadable::Success,
            })
        }
        Err(why) => Err(why),
    };
    let (is_refused, decision) = (false, dead_letter(Reason::Unreadable));
    let judgement = Judgement {
        message,
        failure,
        location,
        notices,
        no_failure,
        is_refused,
        schedule: None,
        decision,
    };
    judgement.decided(home, rules, now)
}

fn dead_letter(reason: Reason) -> Decision {
    Decision::Settle(Settlement::DeadLetter(reason))
}

/// Whether this message may cause a retry of the target that it names. A dead letter that SQS has moved back
/// may come from a queue of another function, which was refused there or could not be read.
fn is_allowed(failure: &Failure, message: &Message, home: &Home, rules: &Rules) -> bool {
    // Any sender can write the attributes of an event that could not be delivered.
    if failure.is_undelivered() && rules.queue_targets.is_none() {
        return false;
    }
    let is_bound = || rules.is_bound(&failure.target, message.queue, home);
    let unverified = message.unverified_reason().filter(|_| !failure.is_of_consumer());
    let sender_is_trusted = match unverified {
        None => true,
        // Without bindings, all senders are trusted alike.
        Some(reason) if reason != Reason::TargetNotAllowed => {
            rules.queue_targets.is_none() || is_bound()
        }
        Some(_) => is_bound(),
    };
    sender_is_trusted && rules.allow(&failure.target, message.queue, home)
}

/// The next attempt, or the reason why there is none.
fn plan(failure: &Failure, is_refused: bool, rules: &Rules) -> Result<Schedule, Reason> {
    if failure.event.is_none() {
        return Err(Reason::PayloadMissing);
    }
    if is_refused {
        return Err(Reason::TargetNotAllowed);
    }
    if matches!(failure.event, Some(Event::Truncated(_))) {
        return Err(Reason::PayloadTruncated);
    }
    let policy = rules.policies.of(failure.target.name());
    let schedule = Schedule::of(failure, policy)?;
    // Checked before the wait, because waiting would be in vain.
    failure.check(schedule.attempt).map(|()| schedule)
}

impl<'a> Judgement<'a> {
    /// The same message, whose failure was read anew.
    fn decided(self, home: &Home, rules: &Rules, now: Timestamp) -> Self {
        let is_allowed = |failure| is_allowed(failure, &self.message, home, rules);
        let is_refused = self.failure.as_ref().is_ok_and(|failure| !is_allowed(failure));
        Self { is_refused, ..self }.planned(rules, now)
    }

    /// The decision when the record was fetched for whose location the message is, or will not be.
    #[must_use]
    pub fn fetched(
        self,
        record: Result<&[u8], Unreadable>,
        home: &Home,
        rules: &Rules,
        now: Timestamp,
    ) -> Self {
        let failure = record.and_then(|bytes| {
            let text = str::from_utf8(bytes).map_err(|_| Unreadable::NoObject)?;
            let location = self.location.as_ref().ok_or(Unreadable::OtherNotice)?;
            record::fetched(&self.message, location, text, &rules.policies)
        });
        Self { failure, ..self }.decided(home, rules, now)
    }

    /// The decision when the record could not be fetched, or the notices that replace the message could not be sent,
    /// because of a fault that this handler has seen `since` then. The message waits until the fault is over, and is
    /// given up only before SQS would delete it.
    #[must_use]
    pub fn unfetched(self, is_transient: bool, since: Timestamp, now: Timestamp) -> Self {
        let judgement = Self { schedule: None, ..self };
        if judgement.is_kept(now) {
            let wait =
                fault::wait(is_transient, judgement.kept_for(since, now), judgement.draw_at(now));
            let settlement = judgement.put_back(wait, now);
            return judgement.unplanned(settlement);
        }
        let failure = Err(judgement.failure.err().unwrap_or(Unreadable::NotFetched));
        Self { failure, decision: dead_letter(Reason::Unreadable), ..judgement }
    }

    /// The same message, decided anew.
    fn planned(self, rules: &Rules, now: Timestamp) -> Self {
        let failure = match &self.failure {
            Ok(failure) => failure,
            Err(why) => {
                let decision = dead_letter(why.reason());
                return Self { schedule: None, decision, ..self };
            }
        };
        let planned = plan(failure, self.is_refused, rules);
        let decision = match planned {
            Ok(schedule) if now > schedule.expiry => dead_letter(Reason::MaxAgeExceeded),
            Ok(schedule) if now < schedule.due => {
                Decision::Settle(Settlement::Wait { until: schedule.due })
            }
            Ok(_) => Decision::Invoke,
            Err(reason) => dead_letter(reason),
        };
        Self { schedule: planned.ok(), decision, ..self }
    }

    /// The key under which the ledger may know that the failed run was a retry without an envelope.
    pub fn noted_key(&self) -> Option<Key> {
        self.accepted()?.noted_key()
    }

    /// The decision if the failed invocation was the retry with this metadata.
    #[must_use]
    pub fn continuing(mut self, metadata: RetryMetadata, rules: &Rules, now: Timestamp) -> Self {
        if let Ok(failure) = &mut self.failure {
            failure.continues(metadata);
        }
        self.planned(rules, now)
    }

    /// The failure, unless the message could not be read, or its queue may not speak for the function that it names.
    /// Such a message is dead-lettered and counts for no function.
    pub fn accepted(&self) -> Option<&Failure<'a>> {
        self.failure.as_ref().ok().filter(|_| !self.is_refused)
    }

    /// The parts of a batch that is too large for one invocation. A message about each is to be sent instead of this
    /// one, unless the whole batch is given up.
    pub fn parts(&self) -> &[Part] {
        match (&self.failure, self.decision) {
            (
                Ok(Failure { event: Some(Event::InParts(parts)), .. }),
                Decision::Invoke | Decision::Settle(Settlement::Wait { .. }),
            ) => parts,
            (Ok(_) | Err(_), _) => &[],
        }
    }

    /// The decision as long as it is unknown which attempt has failed.
    #[must_use]
    pub fn unplanned(self, settlement: Settlement) -> Self {
        Self { schedule: None, decision: Decision::Settle(settlement), ..self }
    }

    /// The envelope for the target, if there is a next attempt.
    pub fn envelope(&self) -> Option<Envelope<'_>> {
        self.failure.as_ref().ok()?.envelope(self.schedule?.attempt)
    }

    pub fn dead_letter(&self, reason: Reason) -> DeadLetter<'_> {
        match &self.failure {
            Ok(failure) => DeadLetter::of(failure, &self.message, self.location.as_ref(), reason),
            Err(why) => DeadLetter::unread(&self.message, reason, &why.to_string()),
        }
    }

    /// Decides what to do with a message whose invocation was not accepted, because of a fault that this handler has
    /// seen `since` then. The attempt does not count.
    pub fn after_fault(&self, kind: FaultKind, since: Timestamp, now: Timestamp) -> Settlement {
        let Some(schedule) = self.schedule else {
            return Settlement::DeadLetter(Reason::Unreadable);
        };
        let wait = match kind.wait(self.kept_for(since, now), self.draw_at(now)) {
            Ok(wait) => wait,
            Err(reason) => return Settlement::DeadLetter(reason),
        };
        let settlement = self.put_back(wait, now);
        match settlement {
            Settlement::Wait { until } if until > schedule.expiry => {
                Settlement::DeadLetter(Reason::MaxAgeExceeded)
            }
            Settlement::Wait { .. } | Settlement::DeadLetter(_) => settlement,
        }
    }

    /// Decides how long a due message waits because its target is paused.
    pub fn paused(&self, now: Timestamp) -> Settlement {
        let draw = self.draw(u32::try_from(now.timestamp() / 60).unwrap_or_default());
        self.put_back(draw.between(PAUSED_WAIT * 4 / 5, PAUSED_WAIT), now)
    }

    /// Puts a message back that can't be acted on now, until its last chance at the latest.
    pub fn put_back(&self, wait: Duration, now: Timestamp) -> Settlement {
        let until = self.spared(wait, now);
        Settlement::Wait {
            until: match self.schedule {
                Some(schedule) if now < schedule.last_chance => until.min(schedule.last_chance),
                Some(_) | None => until,
            },
        }
    }

    /// Puts a message back on which another handler acts. It can do nothing before that handler has ended.
    pub fn after_held(&self, until: Timestamp, now: Timestamp) -> Settlement {
        Settlement::Wait { until: self.spared(between(now, until), now) }
    }

    /// When a message comes back that is put back for this long. Whatever the cause, a message that was received often
    /// waits for longer, because SQS takes it away at its thousandth receive.
    fn spared(&self, wait: Duration, now: Timestamp) -> Timestamp {
        let receives = self.message.receive_count;
        let spares = receives >= RECEIVES_SPARED_FROM;
        let sparing = spares.then(|| self.draw(receives).between(SPARING_WAIT / 2, SPARING_WAIT));
        later(now, wait.max(sparing.unwrap_or_default()))
    }

    /// A draw by the request id, so that messages that are put back together don't come back together.
    fn draw(&self, nth: u32) -> Draw {
        let request_id = self.failure.as_ref().map(|failure| &*failure.request_id);
        Draw::seeded(request_id.unwrap_or(self.message.id), nth)
    }

    /// A draw that is another one at each try.
    fn draw_at(&self, now: Timestamp) -> Draw {
        self.draw(u32::try_from(now.timestamp()).unwrap_or_default())
    }

    /// How long a fault that was seen `since` then has kept the event from being acted on: not before it was due.
    fn kept_for(&self, since: Timestamp, now: Timestamp) -> Duration {
        let due = self.schedule.map(|schedule| schedule.due).filter(|due| *due <= now);
        between(due.map_or(since, |due| due.max(since)), now)
    }

    /// Whether SQS will not soon delete the message.
    fn is_kept(&self, now: Timestamp) -> bool {
        let since = match &self.failure {
            Ok(failure) => Some(failure.kept_since()),
            Err(_) => self.message.sent_at,
        };
        since.is_some_and(|since| now <= stay_end(since))
    }

    /// Decides what to do with a message whose failure could not be claimed. It is unknown whether the failure was
    /// acted on, so the message waits until the ledger works. It is given up without a claim only before SQS would
    /// delete it.
    pub fn after_unclaimed(
        &self,
        is_transient: bool,
        since: Timestamp,
        now: Timestamp,
    ) -> Settlement {
        let reason = match self.decision {
            Decision::Settle(Settlement::DeadLetter(reason)) => reason,
            Decision::Invoke | Decision::Settle(Settlement::Wait { .. }) => Reason::MaxAgeExceeded,
        };
        if self.is_kept(now) {
            let wait = fault::wait(is_transient, self.kept_for(since, now), self.draw_at(now));
            self.put_back(wait, now)
        } else {
            Settlement::DeadLetter(reason)
        }
    }
}

/// The visibility timeout that brings a message back at `until`, in whole seconds. If the wait is longer than SQS
/// allows, the message comes back early and waits again.
pub fn visibility_timeout(until: Timestamp, now: Timestamp) -> u32 {
    whole_seconds(between(now, until).min(VISIBILITY_MAX - VISIBILITY_SLACK))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        message::MessageAttributes,
        testing::{self, at, home, message, rules},
        time::later,
    };

    type Variables<'a> = &'a [(&'a str, &'a str)];

    const FAILED_AT: &str = "2019-11-14T18:16:05.568Z";

    fn decide_at<'a>(body: &'a str, variables: Variables, now: Timestamp) -> Judgement<'a> {
        decide(message(body), &home(), &rules(variables), now)
    }

    /// When the event is due, or why it is given up.
    fn due_at(judgement: Judgement<'_>) -> Result<Timestamp, Reason> {
        match (judgement.decision, judgement.schedule) {
            (Decision::Settle(Settlement::DeadLetter(reason)), _) => Err(reason),
            (_, schedule) => Ok(schedule.unwrap().due),
        }
    }

    /// The same in milliseconds after its failure.
    fn due_after(body: &str, variables: Variables) -> Result<i64, Reason> {
        let due = due_at(decide_at(body, variables, at(FAILED_AT)));
        due.map(|due| (due - at(FAILED_AT)).num_milliseconds())
    }

    /// How long a message waits that was received this often, after each cause to put it back.
    fn waits_put_back(receive_count: u32) -> [Duration; 7] {
        let body = testing::record_of("1");
        let received = Message { receive_count, ..message(&body) };
        let now = later(at(FAILED_AT), Duration::from_secs(1));
        let judged = decide(received, &home(), &rules(&[("MAX_AGE", "365d")]), now);
        let transient = |retry_after| FaultKind::Transient { retry_after };
        [
            judged.paused(now),
            judged.put_back(Duration::from_secs(1), now),
            judged.after_held(later(now, Duration::from_secs(1)), now),
            judged.after_unclaimed(true, now, now),
            judged.after_unclaimed(false, now, now),
            judged.after_fault(transient(Some(Duration::from_secs(1))), now, now),
            judged.after_fault(FaultKind::Configuration, now, now),
        ]
        .map(|settlement| match settlement {
            Settlement::Wait { until } => between(now, until),
            Settlement::DeadLetter(reason) => panic!("{reason}"),
        })
    }

    #[test]
    fn whatever_puts_a_message_back_its_receives_last_for_as_long_as_sqs_keeps_it() {
        let mut sums = [Duration::ZERO; 7];
        for receive_count in 1..=1000 {
            for (sum, wait) in sums.iter_mut().zip(waits_put_back(receive_count)) {
                *sum += wait;
            }
        }
        for sum in sums {
            assert!(sum > Duration::from_hours(14 * 24), "{sums:?}");
        }
        let quarter = Duration::from_mins(15);
        assert!(waits_put_back(499).into_iter().all(|wait| wait <= quarter));
        let sparing = Duration::from_mins(30)..=Duration::from_hours(1);
        for receive_count in [500, 600, 990] {
            assert!(waits_put_back(receive_count).iter().all(|wait| sparing.contains(wait)));
        }
    }

    #[test]
    fn a_letter_that_was_refused_is_refused_again_where_the_queue_is_not_bound_to_exactly_its_function()
     {
        let body = testing::record_of("1");
        let exact = r#"{"retry":["my-function"]}"#;
        let several = r#"{"retry":["my-function","other"]}"#;
        let any = r#"{"retry":["*"]}"#;
        for (reason, queue_targets, is_accepted) in [
            ("target_not_allowed", None, false),
            ("target_not_allowed", Some(any), false),
            ("target_not_allowed", Some(several), false),
            ("target_not_allowed", Some(exact), true),
            ("unreadable", None, true),
            ("unreadable", Some(any), false),
            ("unreadable", Some(several), false),
            ("unreadable", Some(exact), true),
            ("max_age_exceeded", None, true),
            ("max_age_exceeded", Some(any), true),
        ] {
            let attributes = MessageAttributes {
                reason: Some(reason),
                function_arn: Some("arn:aws:lambda:us-east-1:123456789012:function:my-function"),
                ..MessageAttributes::default()
            };
            let message = Message { attributes, queue: Some("retry"), ..message(&body) };
            let variables: Vec<_> =
                queue_targets.map(|text| ("QUEUE_TARGETS", text)).into_iter().collect();
            let judged = decide(message, &home(), &rules(&variables), at(FAILED_AT));
            assert_eq!(judged.accepted().is_some(), is_accepted, "{reason} {queue_targets:?}");
            let refused = Decision::Settle(Settlement::DeadLetter(Reason::TargetNotAllowed));
            assert_eq!(judged.decision == refused, !is_accepted, "{reason} {queue_targets:?}");
        }
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
        let four = ("POLICIES", r#"{"my-function":{"MAX_ATTEMPTS":4}}"#);
        assert!(due_after(&attempt(2), &[("MAX_ATTEMPTS", "3")]).is_ok());
        assert!(due_after(&attempt(3), &[("MAX_ATTEMPTS", "3"), four]).is_ok());
    }

    /// Only the error of a dead letter is ignored, because it ended the previous round of attempts.
    #[test]
    fn a_redriven_event_obeys_the_same_rules_as_a_failure() {
        let (here, elsewhere) = ("123456789012", "999999999999");
        let by_policy = [("POLICIES", r#"{"orders":{"BASE_BACKOFF":"90s"}}"#)];
        let queues = r#"{"retry-orders":["orders"],"retry-all":["o","ord*"],"retry-o":["o"]}"#;
        let bound = [("QUEUE_TARGETS", queues)];
        let listed = [bound[0], ("TARGET_FUNCTIONS", "o")];
        let refused = Err(Reason::TargetNotAllowed);
        type Row<'a> = (&'a str, Option<&'a str>, Variables<'a>, Result<i64, Reason>);
        let table: [Row; 11] = [
            (here, None, &[], Ok(1)),
            (here, None, &[("MAX_ATTEMPTS", "1")], Ok(1)),
            (here, None, &by_policy, Ok(90)),
            (elsewhere, None, &[], refused),
            (here, None, &[("TARGET_FUNCTIONS", "o")], refused),
            (here, Some("retry-orders"), &bound, Ok(1)),
            (here, Some("retry-all"), &bound, Ok(1)),
            (here, Some("retry-o"), &bound, refused),
            (here, Some("another"), &bound, refused),
            (here, None, &bound, refused),
            (here, Some("retry-orders"), &listed, refused),
        ];
        for (account, queue, variables, expected) in table {
            let arn = format!("arn:aws:lambda:us-east-1:{account}:function:orders:live");
            let attributes = MessageAttributes {
                reason: Some("not_retryable"),
                function_arn: Some(&arn),
                error_type: Some("PermanentFailure"),
                ..Default::default()
            };
            let moved = Message { queue, attributes, ..message("1") };
            let moved_at = moved.sent_at.unwrap();
            let due = due_at(decide(moved, &home(), &rules(variables), moved_at));
            let due = due.map(|due| (due - moved_at).num_seconds());
            assert_eq!(due, expected, "{account} {queue:?} {variables:?}");
        }
    }

    #[test]
    fn the_last_attempt_is_made_just_before_the_age_is_over() {
        // The first failure was 365.568 s earlier, and a MAX_AGE of 1000 s has a slack of 10 s.
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
    fn an_event_past_its_age_or_its_time_in_sqs_is_never_invoked_however_late_its_message_comes() {
        // SQS deletes a message after 14 days, whatever MAX_AGE and the target say.
        let error = r#""errorType":"RetryAfter","errorMessage":"20d","was""#;
        let asking = testing::record_of("1").replace("\"errorMessage\"", error);
        let (day, year) = (86_400_000, [("MAX_AGE", "365d")]);
        assert_eq!(due_after(&asking, &year), Ok(13 * day));
        let last = u64::try_from(27 * day / 2).unwrap();
        let age = [("MAX_AGE", "1000s")];
        for (body, variables, last) in
            [(testing::record_of("1"), &age, 1_000_000), (asking, &year, last)]
        {
            let after = |ms| later(at(FAILED_AT), Duration::from_millis(ms));
            let decided = |ms| decide_at(&body, variables, after(ms)).decision;
            assert_eq!(decided(last), Decision::Invoke);
            assert_eq!(decided(last + 1), dead_letter(Reason::MaxAgeExceeded));
        }
    }

    proptest! {
        #[test]
        fn every_receive_of_a_message_comes_to_the_same_due_time(
            (attempt, request_id) in (0..40_u32, "[a-z0-9-]{1,36}"),
            jitter in prop_oneof![Just("full"), Just("equal"), Just("none")],
            (base, max, age) in (1..100_u64, 100..100_000_u64, 1_000..1_000_000_u64),
            receives in prop::collection::vec((0..1_000_000_u64, 1..1_000_u32), 1..20),
        ) {
            let payload = match attempt {
                0 => "1".to_owned(),
                attempt => testing::envelope(attempt, 1_573_755_000, "id", "1"),
            };
            let body = testing::record_of(&payload);
            let body = body.replace("e4b46cbf-b738-xmpl-8880-a18cdf61200e", &request_id);
            let seconds = [base, max, age].map(|seconds| format!("{seconds}s"));
            let [base, max, age] = &seconds;
            let rules = rules(&[
                ("BASE_BACKOFF", base), ("MAX_BACKOFF", max), ("MAX_AGE", age), ("JITTER", jitter),
            ]);
            let on = |seconds, receive_count| {
                let now = later(at(FAILED_AT), Duration::from_secs(seconds));
                (decide(Message { receive_count, ..message(&body) }, &home(), &rules, now), now)
            };
            let (first, _) = on(0, 1);
            for (seconds, receive_count) in receives {
                let (judged, now) = on(seconds, receive_count);
                prop_assert_eq!(judged.schedule, first.schedule);
                let Some(Schedule { due, expiry, .. }) = judged.schedule else { continue };
                let expected = match now {
                    now if now > expiry => dead_letter(Reason::MaxAgeExceeded),
                    now if now >= due => Decision::Invoke,
                    _ => Decision::Settle(Settlement::Wait { until: due }),
                };
                prop_assert_eq!(judged.decision, expected, "{} s", seconds);
            }
        }
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
}
