//! The notes of retries without an envelope: which event does this failure record continue?
//!
//! With `TRANSPARENT`, a function is re-invoked with its original payload, so the record of its next failure says
//! nothing about earlier attempts. What an envelope would say stands in the ledger instead, under the request id that
//! Lambda's answer to the invocation names: the failure record has the same id.
//!
//! ```text
//!   write the sending ──▶ Invoke ──▶ 202, with a request id ──▶ replace the sending by a note under that id
//! ```
//!
//! A record finds its note, unless its function failed before the note was written, or the handler died before that.
//! Then it finds the sending, by function and payload, and waits for the note until the sender must have ended. If
//! there still is no note, the sender died, and the sending is this record's.
//!
//! Two events of a function with the same payload can't be told apart by their sendings. If the handler that retries
//! one of them dies before it writes the note, the other one's failure may take the sending, and they swap their
//! attempts and ages. A sending is therefore only for records whose invocation can have been that one: those that
//! failed after it began, and not longer after it than Lambda keeps an event.

use std::{borrow::Cow, cmp::Reverse, time::Duration};

use chrono::serde::ts_milliseconds as millis;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::{
    Timestamp,
    claim::{CLOCK_SKEW_MAX, LEASE_MAX, LIFE_MAX, RETENTION_MAX},
    envelope::RetryMetadata,
    time::{between, later},
};

/// Lambda keeps an asynchronous event for at most six hours, and then its function runs.
const FAILS_WITHIN: Duration = Duration::from_hours(6).saturating_add(LIFE_MAX);

/// A note that is not there yet is looked for again after a second at the earliest.
const LOOK_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// The most sendings of one payload that are kept, unless their senders are at work. Each has about 300 bytes, and an
/// item of DynamoDB at most 400 KB.
const SENDINGS_MAX: usize = 200;

/// The most sendings that one write removes. Their names stand in an expression, which DynamoDB limits to 4 KB.
const REMOVED_MAX: usize = 100;

/// How long notes are kept. Before that, SQS has deleted every record that may need them.
pub const KEPT: Duration = FAILS_WITHIN.saturating_add(RETENTION_MAX);

/// Where the notes for a failure record are.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Keys {
    /// The key of its note.
    pub note: String,
    /// The key of the sendings of its function that have its payload.
    pub sendings: String,
}

impl Keys {
    /// The keys for an invocation of this function, whose ARN is unqualified.
    pub fn of(function: &str, request_id: &str, payload: &str) -> Self {
        Self { note: note_key(function, request_id), sendings: sendings_key(function, payload) }
    }
}

/// The key of the note on an invocation of a function. Request ids are no secret, so the key also holds the function.
pub fn note_key(function: &str, request_id: &str) -> String {
    format!("note/{function}/{request_id}")
}

/// The key of the sendings of a function that have this payload.
pub fn sendings_key(function: &str, payload: &str) -> String {
    let digest = Sha256::digest(payload);
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sending/{function}/{digest}")
}

/// An invocation that a handler is making, or was making when it died.
#[derive(Clone, Debug)]
pub struct Sending {
    /// The unique name of the invocation of the handler that makes it.
    pub sender: String,
    /// What the envelope of this invocation would say.
    pub metadata: RetryMetadata,
    /// When it began, before the call.
    pub since: Timestamp,
    /// When its sender has ended or died, and writes no note any more.
    pub until: Timestamp,
}

#[derive(Deserialize, Serialize)]
struct Written<'a> {
    #[serde(borrow)]
    metadata: &'a RawValue,
    #[serde(with = "millis")]
    since: Timestamp,
    #[serde(with = "millis")]
    until: Timestamp,
}

impl Sending {
    /// The JSON under which the table holds it, beside the name of its sender.
    pub fn to_json(&self) -> String {
        let metadata = RawValue::from_string(self.metadata.to_json()).unwrap_or_default();
        let written = Written { metadata: &metadata, since: self.since, until: self.until };
        serde_json::to_string(&written).unwrap_or_default()
    }

    /// Reads that JSON, or returns `None` if it is no sending.
    pub fn read(sender: &str, json: &str) -> Option<Self> {
        let Written { metadata, since, until } = serde_json::from_str(json).ok()?;
        let metadata = RetryMetadata::read(metadata.get())?;
        Some(Self { sender: sender.to_owned(), metadata, since, until })
    }

    /// Whether an invocation that failed at this time can have been this one.
    fn may_have_failed(&self, at: Timestamp) -> bool {
        self.since <= later(at, CLOCK_SKEW_MAX)
            && at <= later(self.since, FAILS_WITHIN.saturating_add(CLOCK_SKEW_MAX))
    }

    /// Whether it retries the event whose first failure was that of this invocation. That failure came before it.
    fn retries(&self, request_id: &str) -> bool {
        self.metadata.request_id.as_deref() == Some(request_id)
    }

    /// Whether its sender may still write a note. No sender has a longer lease than this, unless its clock is wrong.
    fn may_be_noted(&self, now: Timestamp) -> bool {
        now < self.until && between(self.since, self.until) <= LEASE_MAX
    }

    /// Whether no record that arrives from now on can be of this invocation.
    fn is_over(&self, now: Timestamp) -> bool {
        later(self.since, KEPT) < now
    }
}

/// What was found for a failure record.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub note: Option<RetryMetadata>,
    pub sendings: Vec<Sending>,
}

/// What a failure record continues.
#[derive(Clone, Debug)]
pub enum Recalled {
    /// Nothing: the event has failed for the first time, or has an envelope.
    Nothing,
    /// The invocation with this metadata.
    Retry(RetryMetadata),
    /// Its note may be about to be written. It is looked for again then.
    Unknown { again_at: Timestamp },
    /// The invocation of a handler that died before it wrote the note, which is to be written now.
    Orphan(Sending),
}

impl Found {
    /// The oldest senders whose sendings no record needs any more, or of which there are too many, as many as one write
    /// removes.
    pub fn over(&self, now: Timestamp) -> Vec<String> {
        let mut by_age: Vec<_> = self.sendings.iter().collect();
        by_age.sort_unstable_by_key(|it| (Reverse(it.since), &it.sender));
        let is_over = |(nth, it): &(usize, &&Sending)| {
            !it.may_be_noted(now) && (*nth >= SENDINGS_MAX || it.is_over(now))
        };
        let over: Vec<_> = by_age.iter().enumerate().filter(is_over).collect();
        let oldest = over.len().saturating_sub(REMOVED_MAX);
        over[oldest..].iter().map(|(_, it)| it.sender.clone()).collect()
    }

    /// What a record continues whose invocation had this request id and failed at this time.
    pub fn recall(self, request_id: &str, failed_at: Timestamp, now: Timestamp) -> Recalled {
        if let Some(metadata) = self.note {
            return Recalled::Retry(metadata);
        }
        let candidates = self
            .sendings
            .into_iter()
            .filter(|it| it.may_have_failed(failed_at) && !it.retries(request_id));
        let (noted_soon, orphans): (Vec<_>, Vec<_>) =
            candidates.partition(|it| it.may_be_noted(now));
        if let Some(until) = noted_soon.iter().map(|it| it.until).max() {
            // A note is written within milliseconds, unless the handler has died. So the waits double.
            let wait = between(failed_at, now).max(LOOK_INTERVAL_MIN);
            return Recalled::Unknown { again_at: later(now, wait).min(until) };
        }
        let by_age = |a: &Sending, b: &Sending| (a.since, &a.sender).cmp(&(b.since, &b.sender));
        orphans.into_iter().min_by(by_age).map_or(Recalled::Nothing, Recalled::Orphan)
    }
}

/// A change of the notes, which is written together with the change of the claim that it belongs to.
#[derive(Clone, Debug)]
pub struct Change<'a> {
    /// The note that is written, with its key.
    pub note: Option<(String, &'a RetryMetadata)>,
    /// The key of the sendings, and whose sending is replaced or removed.
    pub sendings: &'a str,
    pub sender: &'a str,
    pub sending: Option<Cow<'a, Sending>>,
    /// The senders whose sendings are removed too.
    pub over: &'a [String],
    /// When all of this has expired.
    pub expires_at: Timestamp,
}

/// An invocation without an envelope, from its claim to Lambda's answer.
#[derive(Clone, Debug)]
pub struct Unwrapped {
    /// The function, without a qualifier.
    pub function: String,
    /// The key of the sendings of its function that have its payload.
    pub sendings: String,
    pub sending: Sending,
    /// The senders of the same payload whose sendings no record needs any more.
    pub over: Vec<String>,
    pub progress: Progress,
}

/// How far an invocation has come.
#[derive(Clone, Debug)]
pub enum Progress {
    /// Nothing was sent, or Lambda has refused it.
    NotAccepted,
    /// Lambda may have accepted it, under a request id that nobody knows.
    Unanswered,
    /// Lambda has accepted it under this request id.
    Accepted {
        request_id: String,
        /// Whether Lambda may have accepted it twice, the other time under an id that nobody knows.
        is_repeated: bool,
    },
}

impl Unwrapped {
    /// The change before the call: the sending begins.
    pub fn begin(&self) -> Change<'_> {
        Change { over: &self.over, ..self.change(None, Some(Cow::Borrowed(&self.sending))) }
    }

    /// The change after the call. If Lambda may have accepted an invocation under an id that nobody knows, the sending
    /// stays for the record of that invocation.
    pub fn end(&self, now: Timestamp) -> Change<'_> {
        let ended = || Cow::Owned(Sending { until: now, ..self.sending.clone() });
        match &self.progress {
            Progress::NotAccepted => self.change(None, None),
            Progress::Unanswered => self.change(None, Some(ended())),
            Progress::Accepted { request_id, is_repeated } => {
                let note = (note_key(&self.function, request_id), &self.sending.metadata);
                self.change(Some(note), is_repeated.then(ended))
            }
        }
    }

    fn change<'a>(
        &'a self,
        note: Option<(String, &'a RetryMetadata)>,
        sending: Option<Cow<'a, Sending>>,
    ) -> Change<'a> {
        let (sendings, sender) = (&self.sendings, &self.sending.sender);
        let expires_at = later(self.sending.since, KEPT);
        Change { note, sendings, sender, sending, over: &[], expires_at }
    }
}

impl Keys {
    /// The change by which a record takes the sending of a handler that died.
    pub fn adopt<'a>(&'a self, orphan: &'a Sending, now: Timestamp) -> Change<'a> {
        let expires_at = later(now, KEPT);
        let note = Some((self.note.clone(), &orphan.metadata));
        let (sendings, sender) = (&self.sendings, &orphan.sender);
        Change { note, sendings, sender, sending: None, over: &[], expires_at }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Attempt, testing::at};

    fn begun() -> Timestamp {
        at("2026-02-01T12:00:00Z")
    }

    fn after(seconds: u64) -> Timestamp {
        later(begun(), Duration::from_secs(seconds))
    }

    fn sending(sender: &str, since: Timestamp, seconds: u64) -> Sending {
        let metadata =
            RetryMetadata::first(begun(), "first").next(Attempt::FIRST.next().next(), begun());
        let until = later(since, Duration::from_secs(seconds));
        Sending { sender: sender.to_owned(), metadata, since, until }
    }

    fn recall(sendings: &[Sending], failed_at: Timestamp, now: Timestamp) -> Recalled {
        Found { note: None, sendings: sendings.to_vec() }.recall("failed", failed_at, now)
    }

    /// What is recalled, in short: the sender of an orphan, or in how many seconds it is looked for again.
    fn short(recalled: &Recalled, now: Timestamp) -> String {
        match recalled {
            Recalled::Nothing => "nothing".to_owned(),
            Recalled::Retry(metadata) => format!("attempt {}", metadata.attempt),
            Recalled::Unknown { again_at } => format!("in {}", between(now, *again_at).as_secs()),
            Recalled::Orphan(it) => it.sender.clone(),
        }
    }

    #[test]
    fn a_record_continues_what_its_note_says_and_else_waits_for_the_sender_to_end() {
        let (dead, alive) = (sending("a/0", begun(), 40), sending("b/0", after(20), 40));
        for (sendings, failed_at, now, expected) in [
            (vec![], after(1), after(2), "nothing"),
            // The sender may still write the note: looked for again soon, then less often, and at the end of its lease.
            (vec![dead.clone()], after(1), after(1), "in 1"),
            (vec![dead.clone()], after(1), after(9), "in 8"),
            (vec![dead.clone()], after(1), after(30), "in 10"),
            (vec![dead.clone()], after(1), after(40), "a/0"),
            // As long as another sender of the same payload is at work, its note may be this record's.
            (vec![dead.clone(), alive.clone()], after(30), after(50), "in 10"),
            (vec![dead.clone(), alive.clone()], after(30), after(60), "a/0"),
            // What failed before the call is not its failure, but clocks differ by ten seconds.
            (vec![alive.clone()], after(9), after(60), "nothing"),
            (vec![alive.clone()], after(10), after(60), "b/0"),
            // A failure after Lambda has dropped the event is not its failure either.
            (vec![dead.clone()], after(6 * 3600 + 15 * 60 + 10), after(80_000), "a/0"),
            (vec![dead], after(6 * 3600 + 15 * 60 + 11), after(80_000), "nothing"),
            // A lease longer than any handler's is none.
            (vec![sending("a/0", begun(), 3600)], after(1), after(2), "a/0"),
        ] {
            let recalled = recall(&sendings, failed_at, now);
            assert_eq!(short(&recalled, now), expected, "{sendings:?} {failed_at} {now}");
        }
        let note = Some(sending("", begun(), 0).metadata);
        let found = Found { note, sendings: vec![alive] };
        assert_eq!(short(&found.recall("failed", after(30), after(31)), after(31)), "attempt 3");
    }

    #[test]
    fn a_sending_is_read_as_it_was_written() {
        let it = sending("b/7", begun(), 40);
        let read = Sending::read("b/7", &it.to_json()).unwrap();
        assert_eq!(format!("{read:?}"), format!("{it:?}"));
        for json in ["", "{}", r#"{"metadata":{},"since":0,"until":0}"#] {
            assert!(Sending::read("b/7", json).is_none(), "{json}");
        }
    }

    /// Clocks differ, and a backoff may be as short as a second. So a retry may seem to have begun before the failure.
    #[test]
    fn the_first_failure_of_an_event_is_never_taken_for_that_of_its_retry() {
        let metadata = RetryMetadata::first(begun(), "first");
        let retry = Sending { metadata, ..sending("a/0", begun(), 40) };
        let recall = |request_id| {
            let found = Found { note: None, sendings: vec![retry.clone()] };
            found.recall(request_id, begun(), after(60))
        };
        assert!(matches!(recall("first"), Recalled::Nothing));
        assert!(matches!(recall("another"), Recalled::Orphan(_)));
    }

    #[test]
    fn a_sending_stays_only_while_a_record_may_need_it() {
        let unwrapped = |progress| Unwrapped {
            function: "arn".to_owned(),
            sendings: sendings_key("arn", "{}"),
            sending: sending("a/0", begun(), 40),
            over: vec!["old/0".to_owned()],
            progress,
        };
        let accepted =
            |is_repeated| Progress::Accepted { request_id: "r2".to_owned(), is_repeated };
        let until = |change: &Change<'_>| change.sending.as_ref().map(|it| it.until);
        let note = |change: &Change<'_>| change.note.as_ref().map(|(key, _)| key.clone());
        let begun = unwrapped(Progress::NotAccepted);
        assert_eq!((note(&begun.begin()), until(&begun.begin())), (None, Some(after(40))));
        assert_eq!(begun.begin().over, ["old/0"]);
        for (progress, expected_note, expected_until) in [
            (accepted(false), Some("note/arn/r2"), None),
            (accepted(true), Some("note/arn/r2"), Some(after(2))),
            (Progress::NotAccepted, None, None),
            (Progress::Unanswered, None, Some(after(2))),
        ] {
            let unwrapped = unwrapped(progress);
            let change = unwrapped.end(after(2));
            assert_eq!(note(&change).as_deref(), expected_note, "{change:?}");
            assert_eq!(until(&change), expected_until, "{change:?}");
        }
        let unwrapped = begun;
        let keys = Keys::of("arn", "r2", "{}");
        assert_eq!(keys.sendings, unwrapped.sendings);
        let change = keys.adopt(&unwrapped.sending, after(90_000));
        assert_eq!((note(&change).as_deref(), until(&change)), (Some("note/arn/r2"), None));
    }

    #[test]
    fn sendings_that_no_record_needs_are_removed_but_never_that_of_a_sender_at_work() {
        let of = |sendings: Vec<Sending>, now| Found { note: None, sendings }.over(now);
        let (old, new) = (sending("old/0", begun(), 40), sending("new/0", after(1_232_000), 40));
        assert_eq!(of(vec![old.clone(), new.clone()], after(1_232_100)), [""; 0]);
        assert_eq!(of(vec![old, new], after(1_232_101)), ["old/0"]);
        let many = |lease| (0..203).map(move |n| sending(&n.to_string(), after(n), lease));
        assert_eq!(of(many(40).collect(), after(400)), ["2", "1", "0"]);
        assert_eq!(of(many(600).collect(), after(400)), [""; 0]);
        let crowd = (0..400).map(|n| sending(&n.to_string(), after(n), 40)).collect();
        let removed = of(crowd, after(600));
        assert_eq!((removed.len(), &*removed[0], &*removed[99]), (REMOVED_MAX, "99", "0"));
    }

    proptest! {
        /// The events are not confused: a record's own note always wins, whoever sends the same payload.
        #[test]
        fn a_note_decides_alone(senders in prop::collection::vec((0_u64..100_000, 0_u64..2_000), 0..4), failed in 0_u64..100_000, waited in 0_u64..100_000) {
            let sendings = senders.iter().map(|(since, lease)| sending("x", after(*since), *lease));
            let note = Some(RetryMetadata::first(begun(), "mine"));
            let found = Found { note, sendings: sendings.collect() };
            let recalled = found.recall("failed", after(failed), after(failed + waited));
            prop_assert!(matches!(recalled, Recalled::Retry(it) if it.request_id.as_deref() == Some("mine")));
        }

        /// A record waits no longer than the leases of the senders that began before it failed.
        #[test]
        fn a_record_is_judged_at_the_latest_when_all_leases_are_over(senders in prop::collection::vec((0_u64..2_000, 0_u64..2_000), 0..4), failed in 0_u64..2_000) {
            let sendings: Vec<_> = senders.iter().map(|(since, lease)| sending("x", after(*since), *lease)).collect();
            let mut now = after(failed);
            let end = later(after(failed), LEASE_MAX + CLOCK_SKEW_MAX);
            let mut looks = 0;
            while let Recalled::Unknown { again_at } = recall(&sendings, after(failed), now) {
                prop_assert!(again_at > now);
                now = again_at;
                looks += 1;
            }
            prop_assert!(now <= end && looks <= 14, "{looks} looks until {now}");
        }
    }
}
