//! What handlers learn of retries without an envelope, and for what they take each failure.
//!
//! The judge knows by its request id which run has failed, whatever the ledger says. It learns from the ledger's
//! answers what a handler takes a failure for, and compares that with the truth. Where nobody could know better, an
//! event may begin anew, or swap its attempts with another that has the same payload. Such cases are counted, and their
//! causes are in `Calls::may_begin_anew`.

use std::num::NonZero;

use comeback_core::{
    Timestamp,
    envelope::RetryMetadata,
    fault::FaultKind,
    lineage::{Call, Key, Siblings},
};
use sha2::{Digest, Sha256};
use wire::{Answer, Found};

use super::{
    Event, Known, Open, Subject,
    cases::Case,
    deliveries::{Delivery, trace_of},
    faults::LEDGER,
    sent::root_of,
};
use crate::{
    ids::Id,
    payload::{Foreign, metadata},
    policy::Millis,
    seen::Seen,
};

const SECOND: Millis = 1_000;
pub const HOUR: Millis = 3_600 * SECOND;

/// The most by which two clocks may differ, and the longest lease.
pub const SKEW: Millis = 10 * SECOND;
const LEASE_MAX: Millis = 920 * SECOND;

/// Lambda keeps an event for six hours, and a run takes a quarter of an hour.
pub const FAILS_WITHIN: Millis = 6 * HOUR + 900 * SECOND;

/// If not all runs were read, the note of a failure is waited for until it is this old.
const NOTED_WITHIN: Millis = 20 * SECOND;

/// What a handler knows about the run of a failure.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Recall {
    #[default]
    Unread,
    /// It has asked for the runs of its batch, and has no answer.
    Asked,
    /// There was no item of the run, as far as that look-up shows. Then it asks more closely.
    Missed,
    Closer,
    /// There is no note, and one may be about to be written. The times between which to look again.
    Unknown(Millis, Millis),
    /// There is no note, and there will be none. An open call is to be taken.
    Orphan,
    Taking,
    /// The ledger did not say.
    Failed(FaultKind),
    Known,
}

impl Recall {
    /// Whether it has asked, and does not know.
    pub fn is_in_vain(self) -> bool {
        matches!(self, Self::Unknown(..) | Self::Failed(_))
    }

    /// Whether it is still asking.
    fn is_open(self) -> bool {
        !matches!(self, Self::Unknown(..) | Self::Failed(_) | Self::Known)
    }
}

/// What the ledger says about a failure.
pub enum Says {
    /// It is of the retry with these metadata.
    Retry(RetryMetadata),
    /// It is a first one. Maybe not all runs were read.
    First { is_cut: bool },
    /// Nothing yet.
    Nothing(Recall),
}

/// A digest of a payload, in which white space between tokens does not count.
fn digest(payload: &str) -> String {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let counts = |character: &char| {
        let is_quote = *character == '"' && !is_escaped;
        is_escaped = is_quoted && *character == '\\' && !is_escaped;
        is_quoted ^= is_quote;
        is_quoted || !character.is_ascii_whitespace()
    };
    let digest = Sha256::digest(payload.chars().filter(counts).collect::<String>());
    digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Known {
    /// The key of the item with the claim on a failure.
    pub fn key(&self, case: &Case) -> Key {
        match case.verdict() {
            Err("payload_missing") => self.key_of(case, ""),
            Ok(_) | Err(_) if self.stays_in_bucket(case) => self.key_of(case, ""),
            Ok(_) | Err(_) => self.key_of(case, &self.original(case)),
        }
    }

    /// The key of the item that says whether its run was a retry without an envelope.
    pub fn noted_key(&self, case: &Case) -> Key {
        self.key_of(case, &self.received(case))
    }

    fn key_of(&self, case: &Case, payload: &str) -> Key {
        let id = format!("{}/{}", case.claimed_as(&self.plan), digest(payload));
        Key { id, run: case.request_id.to_string() }
    }

    /// The payload in a failure record.
    pub fn received(&self, case: &Case) -> String {
        let truth = case.truth();
        let initial = truth.initial.filter(|_| !truth.is_unwrapped);
        let event = case.cut_from().unwrap_or(truth.event);
        let truth = &Open { event, ..truth.clone() };
        self.expected(truth, truth.attempt, initial.map(NonZero::get)).body.to_string()
    }

    fn needs_recall(&self, message: &Delivery) -> bool {
        let case = &self.cases[message.case];
        let may_be_retry = case.may_be_noted() && !case.is_of_mapping();
        case.is_transparent && may_be_retry && message.is_read()
    }

    /// Whether the ledger has not said of which run this failure is.
    pub fn is_guessed(&self, message: &Delivery) -> bool {
        self.needs_recall(message) && message.recall != Recall::Known
    }

    /// A process begins to judge its batch, with its settings.
    pub fn begins_to_judge(&mut self, run: u64, process: usize) {
        let is_turned = self.turned[process];
        let batch = self.runs.get(&run).map(Vec::as_slice).unwrap_or_default();
        for index in batch.iter().map(|message| message.case).collect::<Vec<_>>() {
            let case = &self.cases[index];
            let is_transparent =
                self.plan.is_transparent(case.of.target, is_turned) && !case.is_undelivered();
            if is_transparent != case.is_transparent {
                self.cases[index].is_transparent = is_transparent;
                self.judge_anew(index);
            }
            // It reads no notes, so the payload says all.
            if !is_transparent && self.cases[index].truth().is_unwrapped {
                self.begins_anew(index, "attempts begun anew without TRANSPARENT");
            } else if !is_transparent {
                self.continues_truly(index);
            }
        }
        (0..self.runs.get(&run).map_or(0, Vec::len)).for_each(|place| self.judged(run, place));
    }

    /// A handler judges a message by what it knows now.
    pub fn judged(&mut self, run: u64, place: usize) {
        self.takes(run, place);
        let message = self.runs.get_mut(&run).and_then(|run| run.get_mut(place));
        message.into_iter().for_each(|message| message.judged_at = self.now);
    }

    /// A handler knows which attempt is the next, even if another handler takes the failure for another one later.
    fn takes(&mut self, run: u64, place: usize) {
        let message = self.runs.get_mut(&run).and_then(|run| run.get_mut(place));
        let Some(message) = message else { return };
        let case = &self.cases[message.case];
        message.next = case.verdict().ok().map(|next| (case.of.clone(), next.attempt));
    }

    /// Whether a failure was taken for another run since this handler has judged it.
    pub fn is_outdated(&self, message: &Delivery) -> bool {
        let of = &self.cases[message.case].of;
        message.next.as_ref().is_some_and(|(before, _)| !before.is_same_attempt(of))
    }

    /// The shortest and the longest wait from `at` until a handler looks again which run has failed, if it waits for
    /// that.
    pub fn wait_for_note(&self, message: &Delivery, at: Millis) -> Option<(Millis, Millis)> {
        match message.recall {
            Recall::Known => None,
            Recall::Unknown(low, high) => Some((low - at, high - at)),
            Recall::Failed(_) => Some((0, 0)),
            Recall::Unread
            | Recall::Asked
            | Recall::Missed
            | Recall::Closer
            | Recall::Orphan
            | Recall::Taking => self.needs_recall(message).then_some((0, 0)),
        }
    }

    /// Until when a note of this failure is waited for where a handler may not have read all runs.
    pub fn noted_by(&self, case: &Case) -> Option<Millis> {
        self.plan.page.filter(|_| case.is_transparent).map(|_| case.at + NOTED_WITHIN)
    }

    /// From now on, this failure is taken for that of such a run.
    fn continues(&mut self, index: usize, of: &Open) {
        if !self.cases[index].of.is_same_attempt(of) {
            self.is_read_as_sent(index);
            self.takes_for(index, of);
        }
    }

    /// From now on, this failure is taken for what it is.
    fn continues_truly(&mut self, index: usize) {
        let truth = self.cases[index].truth().clone();
        self.continues(index, &truth);
    }

    fn takes_for(&mut self, index: usize, of: &Open) {
        let case = &mut self.cases[index];
        let Open { event, target, trace, .. } = case.of;
        case.is_taken_for(Open { event, target, trace, ..of.clone() });
        self.judge_anew(index);
        self.story.tell(self.now, event, || {
            format!("it is taken for attempt {} of {}", of.attempt, of.first_request)
        });
    }

    /// From now on, this failure is taken for a first one. If its payload looks like an envelope, it is read as one,
    /// and so the failure is one of another event.
    fn begins_anew(&mut self, index: usize, why: &'static str) {
        let case = &self.cases[index];
        if case.of.event != case.truth().event {
            return;
        }
        if case.of.attempt > 0 {
            self.tally.count(Seen::Step(why));
        }
        let foreign = self.events[case.of.event].foreign();
        if let Some(inner) = foreign.and_then(|foreign| foreign.inner.clone()) {
            return self.is_read_as_envelope(index, *inner);
        }
        let first_request = case.request_id.clone();
        let of = Open {
            attempt: 0,
            initial: None,
            is_foreign: false,
            is_unwrapped: false,
            first_request,
            ..case.of.clone()
        };
        self.continues(index, &of);
    }

    /// The payload of a retry looks like an envelope, and is read as one.
    fn is_read_as_envelope(&mut self, index: usize, inner: Foreign) {
        self.tally.count(Seen::Step("payloads read as envelopes after a swap"));
        let case = &self.cases[index];
        let of = Open {
            attempt: inner.attempt,
            initial: NonZero::new(inner.initial),
            is_foreign: true,
            is_unwrapped: false,
            first_request: case.request_id.clone(),
            ..case.of.clone()
        };
        let (event, another, is_first) = (case.of.event, self.events.len(), case.acts == 0);
        // What was acted on before goes on as what it was.
        let ended = if is_first { event } else { another };
        self.events.push(Event::new(another, inner.original.clone(), Some(inner), None));
        self.events[ended].ends += 1;
        self.cases[index].taken_for().event = another;
        self.story.tell(self.now, event, || format!("it is event {another} from now on"));
        self.takes_for(index, &of);
    }

    /// The payload of a retry was read as an envelope, and is no more, because its note has come.
    fn is_read_as_sent(&mut self, index: usize) {
        let case = &mut self.cases[index];
        let (event, other) = (case.truth().event, case.of.event);
        case.of.event = event;
        if event != other && case.acts == 0 {
            self.events[event].ends -= 1;
            self.events[other].ends += 1;
        }
    }

    /// The metadata of the run that has failed.
    pub fn metadata_of_truth(&self, index: usize) -> String {
        let truth = self.cases[index].truth();
        let initial = truth.initial.map_or(0, NonZero::get);
        metadata(truth.attempt, initial, self.event_id(truth).as_deref(), "")
    }

    /// For which run a failure may be taken whose retry has these metadata: for the one that has failed, or for the one
    /// whose call it has taken over.
    pub fn run_said(&self, index: usize, said: &RetryMetadata) -> Option<Open> {
        let case = &self.cases[index];
        let truth = case.truth();
        if truth.is_unwrapped && said.to_json() == self.metadata_of_truth(index) {
            return Some(truth.clone());
        }
        let (adopted, is_foreign) = self.calls.adopted(&case.request_id)?;
        (adopted.to_json() == said.to_json()).then(|| Open {
            attempt: said.attempt.get(),
            initial: NonZero::new(said.initial_timestamp),
            first_request: said.request_id.as_deref().map_or(truth.first_request.clone(), Id::from),
            is_foreign: *is_foreign,
            is_unwrapped: true,
            ..truth.clone()
        })
    }

    /// The ledger says that this failure is that of the retry with these metadata.
    pub fn learns(&mut self, index: usize, said: &RetryMetadata) {
        let of = self.run_said(index, said);
        of.into_iter().for_each(|of| self.continues(index, &of));
    }

    /// A handler takes this failure for a first one.
    pub fn begins(&mut self, index: usize) {
        match self.cases[index].truth().is_unwrapped {
            true => self.begins_anew(index, "attempts begun anew"),
            false => self.continues_truly(index),
        }
    }

    /// Whether a run is about to ask which runs have failed.
    pub fn recalls(&self, run: u64) -> bool {
        let batch = self.runs.get(&run).into_iter().flatten();
        batch.into_iter().any(|it| it.recall == Recall::Unread && self.needs_recall(it))
    }

    /// A handler asks for all runs of its batch that may be retries without an envelope.
    pub fn asks_for_runs(&mut self, run: u64) {
        for place in 0..self.batch(run).len() {
            let needs_recall = self.needs_recall(&self.runs[&run][place]);
            let message = self.runs.get_mut(&run).and_then(|run| run.get_mut(place));
            if let Some(message) = message.filter(|_| needs_recall) {
                message.recall = Recall::Asked;
            }
        }
    }

    /// What the ledger has said about the run of a message, if its handler has asked.
    pub fn said(&self, run: u64, place: usize, answer: &Answer, found: &Found) -> Option<Says> {
        let Delivery { case, recall, .. } = self.batch(run)[place];
        if recall != Recall::Asked {
            return None;
        }
        let runs = if let Found::LookedUp { runs, .. } = found { Some(runs) } else { None };
        let entered = runs.and_then(|runs| runs.get(&self.noted_key(&self.cases[case])));
        Some(match (answer, entered.map(|entered| &entered.known.note)) {
            (Err(refusal), _) => Says::Nothing(failed(refusal.kind)),
            (Ok(()), None) => Says::Nothing(Recall::Missed),
            (Ok(()), Some(Some(note))) => Says::Retry(note.metadata.clone()),
            (Ok(()), Some(None)) => Says::First { is_cut: false },
        })
    }

    pub fn root(&self, run: u64, place: usize) -> Option<&str> {
        root_of(trace_of(self.batch(run)[place].record()))
    }

    /// A handler knows that of the run of a message.
    pub fn recalled(&mut self, run: u64, place: usize, recall: Recall) {
        let event = self.cases[self.runs[&run][place].case].of.event;
        self.story.tell(self.now, event, || format!("run {run} knows of its run: {recall:?}"));
        if let Some(message) = self.runs.get_mut(&run).and_then(|run| run.get_mut(place)) {
            message.recall = recall;
        }
        self.takes(run, place);
    }

    /// The first message of a run that has asked so far, and is of this run.
    pub fn asking(&self, run: u64, of: &str, recall: Recall) -> Option<Subject> {
        let batch = self.runs.get(&run)?;
        let is_it = |message: &Delivery| {
            message.recall == recall && self.cases[message.case].request_id == *of
        };
        let place = batch.iter().position(is_it)?;
        let Delivery { case, call, .. } = batch[place];
        Some(Subject { run, place, case, call, part: None })
    }

    /// The message for which a handler asks for all runs with its payload, because a look-up has shown nothing of it.
    pub fn looks_closer(&self, run: u64, key: &Key) -> Option<Subject> {
        let of = self.asking(run, &key.run, Recall::Missed);
        of.filter(|of| self.noted_key(&self.cases[of.case]) == *key)
    }

    /// What all runs with the payload of a failure say about it.
    pub fn said_by_siblings(
        &mut self,
        of: Subject,
        clock: Timestamp,
        answer: &Answer,
        found: &Found,
    ) -> Option<Says> {
        let says = match (answer, found) {
            (Err(refusal), _) => Says::Nothing(failed(refusal.kind)),
            (Ok(()), Found::Siblings(siblings)) => {
                let root = self.root(of.run, of.place);
                self.hears(of.case, root, siblings, clock.timestamp_millis())
            }
            (Ok(()), _) => return None,
        };
        if let Says::Nothing(Recall::Unknown(..)) = says {
            self.tally.count(Seen::Step("waits for notes"));
        }
        Some(says)
    }

    /// What these runs say about a failure, to a handler whose clock says `now`.
    fn hears(
        &self,
        index: usize,
        root: Option<&str>,
        Siblings { runs, are_all }: &Siblings,
        now: Millis,
    ) -> Says {
        let case = &self.cases[index];
        let (at, run) = (case.at, case.request_id.to_string());
        let own = runs.iter().find(|(id, _)| *id == run);
        if let Some(note) = own.and_then(|(_, known)| known.note.as_ref()) {
            return Says::Retry(note.metadata.clone());
        }
        let calls = || runs.iter().flat_map(|(of, it)| it.calls.iter().map(move |call| (of, call)));
        if let Some((_, call)) = calls().find(|(_, it)| it.taken_by.as_ref() == Some(&run)) {
            return Says::Retry(call.metadata.clone());
        }
        let is_answered = |of: &str, call: &Call| {
            let parents = runs.iter().filter_map(|(_, it)| it.note.as_ref()?.parent.as_ref());
            parents.into_iter().any(|parent| parent.run == *of && parent.call == call.name)
        };
        let may_be_own = |call: &Call| {
            let since = call.since.timestamp_millis();
            let is_of_trace = match (call.root.as_deref(), root) {
                (Some(sent), Some(root)) => sent == root,
                (None, _) | (_, None) => !call.is_repeated,
            };
            let is_of_time = since <= at + SKEW && at <= since + FAILS_WITHIN + SKEW;
            is_of_trace && is_of_time && call.metadata.request_id.as_ref() != Some(&run)
        };
        let open = calls().filter(|(of, call)| {
            **of != run && call.taken_by.is_none() && !is_answered(of, call) && may_be_own(call)
        });
        let open: Vec<_> = open.map(|(_, call)| call).collect();
        let leases = open.iter().filter_map(|call| {
            let (since, until) = (call.since.timestamp_millis(), call.until.timestamp_millis());
            (now < until && until - since <= LEASE_MAX).then_some(until)
        });
        let unread = (!are_all && now < at + NOTED_WITHIN).then_some(at + NOTED_WITHIN);
        if let Some(until) = leases.max().max(unread) {
            let waited = (now - at).max(SECOND);
            let (soon, late) = ((now + SECOND).min(until), (now + waited).min(until));
            return Says::Nothing(Recall::Unknown(soon, late));
        }
        match *are_all && !open.is_empty() {
            true => Says::Nothing(Recall::Orphan),
            false => Says::First { is_cut: !are_all },
        }
    }

    /// Reads from the answer to an attempt to take a call what is known of the failure.
    pub fn said_by_taking(
        &self,
        of: Subject,
        clock: Timestamp,
        answer: &Answer,
        is_taken: bool,
    ) -> Says {
        let now = clock.timestamp_millis();
        let adopted = self.calls.adopted(&self.cases[of.case].request_id).filter(|_| is_taken);
        match (answer, adopted) {
            (Err(refusal), _) => Says::Nothing(failed(refusal.kind)),
            (Ok(()), Some((adopted, _))) => Says::Retry(adopted.clone()),
            (Ok(()), None) => Says::Nothing(Recall::Unknown(now, now)),
        }
    }

    /// A handler has received an answer.
    pub fn is_answered(&mut self) {
        self.answers += 1;
    }

    /// A handler makes a call that is not about runs, and so it asks no more. It may have asked for half of its time,
    /// and what it doesn't know by then is a fault of the ledger. It judges by what it knows now.
    pub fn is_past_recall(&mut self, run: u64, clock: Timestamp) {
        for place in 0..self.batch(run).len() {
            let message = &self.runs[&run][place];
            if message.is_past || !self.needs_recall(message) {
                continue;
            }
            if message.recall.is_open() {
                self.recalled(run, place, failed(None));
            }
            let recall = self.runs[&run][place].recall;
            let fault = if let Recall::Failed(fault) = recall { Some(fault) } else { None };
            let known_for = self.meets(run, LEDGER, fault);
            let is_noted = self.cases[self.runs[&run][place].case].of.is_unwrapped;
            if fault.is_none() && is_noted {
                self.judged(run, place);
            }
            let has_other_key = {
                let case = &self.cases[self.runs[&run][place].case];
                let has_envelope = case.of.initial.is_some() && !case.of.is_unwrapped;
                has_envelope || case.cut_from().is_some()
            };
            let (now, answers) = (self.now, self.answers);
            let message = self.runs.get_mut(&run).and_then(|run| run.get_mut(place));
            let Some(message) = message else { continue };
            message.is_past = true;
            if fault.is_some() {
                message.listing.excused = true;
                message.told = answers;
                message.met(fault, known_for, now);
            } else if message.recall == Recall::Known && !has_other_key {
                let at = clock.timestamp_millis();
                let judged_at = at - (now - message.judged_at).num_milliseconds();
                message.listing.is_recalled(at, judged_at);
            }
        }
    }

    /// The message that a handler is about to claim, if it reads all runs with its payload, whose calls may be
    /// answered.
    pub fn compared_by(&self, run: u64, key: &Key) -> Option<Subject> {
        let batch = self.batch(run);
        let is_of = |message: &Delivery| {
            let is_known = message.is_read() && self.wait_for_note(message, 0).is_none();
            let is_over = message.put_back || message.claim.is_some();
            is_known && !is_over && self.cases[message.case].request_id == *key.run
        };
        let all = || batch.iter().enumerate().filter(|(_, message)| is_of(message));
        // The claim may change each time it is looked at. A batch may have copies of one message.
        let changed = all().find(|(_, message)| !message.compares && message.looks > 0);
        let found = changed.or(all().find(|(_, message)| !message.compares)).or(all().next());
        let (place, &Delivery { case, call, .. }) = found?;
        Some(Subject { run, place, case, call, part: None })
    }

    /// A handler reads all runs with the payload of one that it is about to claim. Returns whether it begins to act
    /// with that.
    pub fn compares(&mut self, of: Subject) -> bool {
        let Some(message) = self.message_mut(of.run, of.place) else { return false };
        message.compares = true;
        message.written.is_none()
    }

    /// A handler knows whether a failure that it is about to claim was retried.
    pub fn has_compared(&mut self, of: Subject, answer: &Answer) {
        self.answers += 1;
        if let Err(refusal) = answer {
            self.is_not_claimed(of, refusal.kind);
        }
    }
}

fn failed(fault: Option<FaultKind>) -> Recall {
    Recall::Failed(fault.unwrap_or(FaultKind::Transient { retry_after: None }))
}
