//! Failure records that lie in buckets: a message is only the notice of one.
//!
//! The judge knows where each record lies, and learns what S3 answers. A failure may be judged once its record was
//! read. If there is no record any more, its notice is given up, whatever the failure was. As long as the record can't
//! be read, the notice waits, and is given up only before SQS would delete it.

use std::fmt;

use comeback_core::{Timestamp, dead_letter::DeadLetter, fault::FaultKind, notice::Location};
use wire::Answer;

use super::{
    Known, Subject,
    deliveries::{Delivery, time_of},
};
use crate::{policy::Millis, seen::Seen};

/// What becomes of the message by which S3 tests whether it may send to a queue, and of the record of a success.
pub const NOTHING: &str = "nothing";

/// After this time SQS may soon delete a notice, so it is given up, in milliseconds: 13 days and a half.
const NOTICE_AGE_MAX: Millis = (13 * 24 + 12) * 3_600_000;

/// Where a failure record lies.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Place {
    pub bucket: String,
    pub key: String,
    pub version: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bucket, key, version } = self;
        let version = version.as_ref().map(|it| format!("?versionId={it}")).unwrap_or_default();
        write!(f, "s3://{bucket}/{key}{version}")
    }
}

/// What a handler knows of the record of a message, or whether it has sent the parts of a notice.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Fetch {
    /// It has read it, or sent all of them, or the message is the record itself.
    #[default]
    Read,
    /// It has not asked for it.
    Unread,
    /// It has asked, and has no answer.
    Asked,
    /// It could not read it, or send all of them, because of this fault.
    Failed(FaultKind),
    /// S3 has told it that there is none.
    Gone,
}

impl Delivery {
    pub fn is_read(&self) -> bool {
        self.fetch == Fetch::Read
    }

    /// Until when its notice is kept if its record can't be read.
    pub fn kept_until(&self) -> Millis {
        self.noticed_at() + NOTICE_AGE_MAX
    }

    /// When the first message of its notice was sent.
    fn noticed_at(&self) -> Millis {
        let carried = self.record().message_attributes.get("FailedAt");
        let carried = carried.and_then(|it| it.string_value.as_deref()?.parse::<Timestamp>().ok());
        let sent_at = time_of(self.record(), "SentTimestamp");
        carried.map_or(sent_at, |carried| carried.timestamp_millis().min(sent_at))
    }
}

impl From<&Location> for Place {
    fn from(Location { bucket, key, version, .. }: &Location) -> Self {
        Self { bucket: bucket.clone(), key: key.clone(), version: version.clone() }
    }
}

impl Known {
    /// A bucket tells of the record of this failure.
    pub fn lies_at(&mut self, trace: &str, place: Place) {
        let Some(index) = self.case_with(trace) else { return };
        let case = &mut self.cases[index];
        self.story.tell(self.now, case.of.event, || format!("its record lies at {place}"));
        self.tally.count(Seen::Step("records in buckets"));
        case.lies_at(place);
    }

    /// The message whose record a handler reads. Records are read in the order of their notices.
    pub fn read_by(&self, run: u64, sought: &Place) -> Option<Subject> {
        let is_it = |message: &Delivery| {
            message.fetch == Fetch::Unread && self.cases[message.case].place() == Some(sought)
        };
        let place = self.batch(run).iter().position(is_it)?;
        let case = self.batch(run)[place].case;
        Some(Subject { run, place, case, call: None, part: None })
    }

    /// A handler reads a record.
    pub fn reads_record(&mut self, of: Subject) {
        self.tally.count(Seen::Step("records read"));
        if let Some(message) = self.message_mut(of.run, of.place) {
            message.fetch = Fetch::Asked;
        }
    }

    /// A handler received the answer to a read at this time of its own.
    pub fn told_of_record(&mut self, of: Subject, at: Millis, answer: &Answer) {
        let is_due = self.cases[of.case].verdict().is_ok_and(|next| at <= next.expiry);
        let parts = self.unsplit(of.case).filter(|_| answer.is_ok() && is_due);
        let message = self.message_mut(of.run, of.place);
        let Some(message) = message else { return };
        message.fetch = match answer {
            // It is to be sent in parts.
            Ok(()) if parts.is_some() => Fetch::Unread,
            Ok(()) => Fetch::Read,
            Err(refusal) if matches!(refusal.code, Some("NoSuchKey" | "NoSuchBucket")) => {
                Fetch::Gone
            }
            Err(refusal) => {
                Fetch::Failed(refusal.kind.unwrap_or(FaultKind::Transient { retry_after: None }))
            }
        };
        message.split = parts;
        let fetch = message.fetch;
        self.judged(of.run, of.place);
        let event = self.cases[of.case].of.event;
        self.story.tell(self.now, event, || format!("run {}: its record is {fetch:?}", of.run));
        self.ends_reads(of.run);
    }

    /// A handler may have read all records of its batch. What it could not read is a fault of the bucket from then on,
    /// even if it still sends the parts of notices.
    pub fn ends_reads(&mut self, run: u64) {
        if self.batch(run).iter().any(|message| self.is_awaited(message)) {
            return;
        }
        for place in 0..self.batch(run).len() {
            let message = &self.runs[&run][place];
            let fault = match message.fetch {
                _ if message.fault.is_some() || message.split.is_some() => continue,
                Fetch::Read | Fetch::Gone => continue,
                Fetch::Failed(fault) => fault,
                // Its bucket is not listed.
                Fetch::Unread | Fetch::Asked => FaultKind::Configuration,
            };
            let bucket = self.cases[message.case].place();
            let whose = bucket.map(|it| format!("s3://{}", it.bucket)).unwrap_or_default();
            let known_for = self.meets(run, &whose, Some(fault));
            let now = self.now;
            let message = self.message_mut(run, place);
            let Some(message) = message else { continue };
            message.fetch = Fetch::Failed(fault);
            message.met(Some(fault), known_for, now);
        }
    }

    /// Whether a handler waits for the record of this message.
    fn is_awaited(&self, message: &Delivery) -> bool {
        let target = &self.plan.targets[self.cases[message.case].of.target];
        let is_record = message.split.is_none() && !target.is_bucket_unlisted;
        is_record && matches!(message.fetch, Fetch::Unread | Fetch::Asked)
    }

    /// A handler makes a call that reads no record and sends no part of a notice, and so it waits for neither any more.
    /// It may have waited for them for a quarter of its time. Parts of a batch may be sent while it asks for runs.
    pub fn is_past_records(&mut self, run: u64, is_recalling: bool) {
        let transient = FaultKind::Transient { retry_after: None };
        for place in 0..self.batch(run).len() {
            let message = &self.runs[&run][place];
            let is_over = message.is_read() || message.done || message.fault.is_some();
            let is_batch = self.cases[message.case].is_of_mapping();
            let is_split = message.split.is_none() || is_over || is_batch && is_recalling;
            if is_split && !self.is_awaited(message) {
                continue;
            }
            if !is_split {
                self.is_not_split(run, place, Some(transient));
            } else if let Some(message) = self.message_mut(run, place) {
                message.fetch = Fetch::Failed(transient);
            }
        }
        self.ends_reads(run);
    }

    /// Where the payload of this case's dead letter lies, if not in the letter.
    pub fn pointed_to(&self, of: Subject, letter: &DeadLetter) -> Option<Place> {
        letter.attributes.iter().find(|(name, _)| *name == "PayloadLocation")?;
        self.cases[of.case].place().cloned()
    }

    /// A handler has answered. What is about no failure needs nothing but that.
    pub fn is_of_nothing(&mut self, message: &mut Delivery) {
        let case = &mut self.cases[message.case];
        if case.verdict().err() != Some(NOTHING) {
            return;
        }
        message.done = true;
        if case.acts == 0 {
            case.acts = 1;
            self.events[case.of.event].ends += 1;
        }
    }
}
