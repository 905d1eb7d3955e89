//! The rules for retries without an envelope: what handlers note about them, and what a failure continues.
//!
//! The judge knows which invocation has failed, by its request id, whatever handlers have noted. A failure may be taken
//! for another event's only if both have the same payload, and if a counted fault kept the sender of that one from
//! noting it. From then on the judge expects that the failure is taken for that, and not for anything else.

use std::{collections::BTreeSet, num::NonZero, sync::Arc};

use comeback_core::{Timestamp, claim::State, fault::FaultKind, note, time::between};
use comeback_local_model::lambda::name::arn;
use sha2::{Digest, Sha256};
use wire::{Answer, Found, Noting, Replace};

use super::{
    Event, Judge, Open, Subject,
    cases::Case,
    delays::{LEDGER, ROUNDING},
    deliveries::Delivery,
    register::came_back,
};
use crate::{
    ids::Id,
    notes::{Check, Seen},
    payload::Foreign,
    rules::Millis,
};

const SECOND: Millis = 1_000;
const HOUR: Millis = 3_600 * SECOND;

/// The most by which two clocks may differ, and the longest lease.
const SKEW: Millis = 10 * SECOND;
const LEASE_MAX: Millis = 920 * SECOND;

/// Lambda keeps an event for six hours, and a run takes a quarter of an hour.
const FAILS_WITHIN: Millis = 6 * HOUR + 900 * SECOND;

/// How long SQS keeps the record of a failure.
const RETENTION: Millis = 14 * 24 * HOUR;

/// The most sendings of one payload that are kept.
const SENDINGS_MAX: usize = 200;

/// What a handler knows about the notes for a failure.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Recall {
    #[default]
    Unread,
    /// There is no note, and one may be about to be written. The times between which to look again.
    Unknown(Millis, Millis),
    /// There is no note, and there will be none. Its sending is to be taken.
    Orphan,
    /// The ledger did not say.
    Failed,
    /// Copies of this message in the same batch have learned different things, and nobody can tell which of them has
    /// learned what. Whether one of them has taken its sending.
    Either(bool),
    Known,
}

/// An invocation without an envelope, as its handler has announced it in the ledger.
pub struct Sent {
    run: u64,
    /// The event that the invocation is of, with the attempt that is made.
    of: Open,
    metadata: String,
    key: String,
    sender: String,
    since: Millis,
    /// Whether the ledger has it, and whether its sender has said that it will write no note.
    is_there: bool,
    is_left: bool,
    /// The invocations that Lambda has accepted, and those of them that have a note.
    accepted: Vec<Id>,
    noted: Vec<Id>,
    /// Whether its sender knows that it was accepted, and whether that was a call made twice; or that it was refused.
    told: Option<bool>,
    is_refused: bool,
    /// Whether a call of its sender about it has failed, or its sender has died.
    is_hit: bool,
    /// Whether a failure was taken for that of this invocation without a note.
    is_taken: bool,
}

impl Sent {
    /// Whether no record that arrives can be of this invocation.
    fn is_over(&self, at: Millis) -> bool {
        at > self.since + FAILS_WITHIN + RETENTION - SKEW
    }
}

impl Judge {
    fn function(&self, case: &Case) -> String {
        arn(&self.plan.targets[case.of.target].name)
    }

    fn note_key(&self, case: &Case) -> String {
        format!("note/{}/{}", self.function(case), case.request_id)
    }

    fn sendings_key(&self, case: &Case, payload: &str) -> String {
        let digest = Sha256::digest(payload);
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("sending/{}/{digest}", self.function(case))
    }

    /// The payload in a failure record.
    pub fn received(&self, case: &Case) -> String {
        let truth = case.truth();
        let initial = truth.initial.filter(|_| !truth.is_unwrapped);
        self.expected(truth, truth.attempt, initial.map(NonZero::get)).body.to_string()
    }

    fn needs_recall(&self, message: &Delivery) -> bool {
        let case = &self.cases[message.case];
        case.is_transparent && case.may_be_noted() && message.is_read()
    }

    /// A process begins to judge its batch, with its settings.
    pub fn begins_to_judge(&mut self, run: u64, process: usize) {
        let is_turned = self.processes[process].is_turned;
        let batch = self.runs.get(&run).map(Vec::as_slice).unwrap_or_default();
        for index in batch.iter().map(|message| message.case).collect::<Vec<_>>() {
            let case = &self.cases[index];
            let is_transparent = self.plan.is_transparent(case.of.target, is_turned);
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

    /// The shortest and the longest wait from `at` until the notes for a message are read again, if it waits for that.
    pub fn wait_for_note(&self, message: &Delivery, at: Millis) -> Option<(Millis, Millis)> {
        match message.recall {
            Recall::Unknown(low, high) => Some((low - at, high - at)),
            Recall::Failed | Recall::Either(false) => Some((0, 0)),
            Recall::Unread | Recall::Orphan if self.needs_recall(message) => Some((0, 0)),
            Recall::Unread | Recall::Orphan | Recall::Either(true) | Recall::Known => None,
        }
    }

    /// A handler acts on a failure.
    pub fn is_judged_unread(&mut self, run: u64, place: usize, how: &str) {
        let message = &self.runs[&run][place];
        let is_known = matches!(message.recall, Recall::Known | Recall::Either(true));
        if self.needs_recall(message) && !is_known {
            let event = self.cases[message.case].of.event;
            let what =
                format!("it {how} by run {run}, which knows of its notes: {:?}", message.recall);
            self.violated(Check::RecallsFirst, event, what);
        }
    }

    /// From now on, this failure is taken for that of such an invocation.
    fn continues(&mut self, index: usize, of: &Open) {
        if !self.cases[index].of.is_same_attempt(of) {
            self.is_read_as_sent(index);
            self.takes_for(index, of);
        }
    }

    /// From now on, this failure is taken for what it is.
    fn continues_truly(&mut self, index: usize) {
        let case = &self.cases[index];
        if !case.of.is_same_attempt(case.truth()) {
            let truth = case.truth().clone();
            self.continues(index, &truth);
        }
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
        let of =
            Open { attempt: 0, initial: None, is_foreign: false, first_request, ..case.of.clone() };
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

    /// Something went wrong with a call.
    pub fn hit(&mut self, subjects: &[Option<Subject>]) {
        for sent in subjects.iter().flatten().filter_map(|of| of.sending) {
            self.sendings[sent].is_hit = true;
        }
    }

    /// The sender of an invocation has ended.
    pub fn ends_sending(&mut self, message: &Delivery) {
        let Some(sent) = message.sending else { return };
        let sent = &mut self.sendings[sent];
        // Its calls may be under way.
        sent.is_hit |= sent.noted.len() < sent.accepted.len().max(1);
    }

    /// A handler claims a failure and announces what it sends, or ends its claim.
    pub fn announces(&mut self, of: Subject, replace: &Replace, clock: Timestamp) {
        let case = &self.cases[of.case];
        let event = case.of.event;
        let is_claim =
            replace.next.as_ref().is_some_and(|it| matches!(it.state, State::Held { .. }));
        if !is_claim {
            // Nothing is written with a claim that was not. Who has lost its own lists the event, and takes back what
            // it has announced.
            let of_claim = |sent: &&Sent| {
                let seen = replace.seen.as_ref();
                let is_own = seen.is_some_and(|seen| seen.token.owner == sent.sender);
                sent.is_there && (is_own || replace.waiting.is_some())
            };
            let sent = of.sending.map(|sent| &self.sendings[sent]).filter(of_claim);
            let is_told = sent.is_some_and(|sent| sent.told.is_some());
            let note = replace.noting.as_ref().map(|noting| noting.note.is_some());
            if sent.is_some() && (note.is_none() || is_told && note != Some(true)) {
                let what =
                    format!("the claim ends, and the sending does not: {:?}", replace.noting);
                self.violated(Check::SendingsStay, event, what);
            }
            return;
        }
        let Some(noting) = &replace.noting else { return };
        let Noting { note: None, sending: Some(sending), sendings, sender, .. } = noting else {
            return self.violated(Check::NotesTruly, event, format!("announced is {noting:?}"));
        };
        let Ok(next) = case.verdict() else { return };
        let initial = case.first.div_euclid(1000);
        let metadata = self.metadata(&case.of, next.attempt, initial);
        let key = self.sendings_key(case, &self.expected(&case.of, next.attempt, None).body);
        let is_right = case.is_transparent
            && sending.metadata.to_json() == metadata
            && *sendings == key
            && sending.since <= clock
            && sending.until >= sending.since;
        if !is_right {
            let what = format!("announced is {noting:?}, expected {metadata} under {key}");
            self.violated(Check::NotesTruly, event, what);
        }
        let case = &self.cases[of.case];
        let initial = NonZero::new(initial);
        let sent = Sent {
            run: of.run,
            of: Open { attempt: next.attempt, initial, is_unwrapped: true, ..case.of.clone() },
            metadata,
            key,
            sender: sender.clone(),
            since: sending.since.timestamp_millis(),
            is_there: false,
            is_left: false,
            accepted: Vec::new(),
            noted: Vec::new(),
            told: None,
            is_refused: false,
            is_hit: false,
            is_taken: false,
        };
        let message = self.runs.get_mut(&of.run).and_then(|run| run.get_mut(of.place));
        let Some(message) = message else { return };
        // It may take several looks at the claim to replace it.
        match message.sending {
            Some(before) => self.sendings[before] = sent,
            None => {
                message.sending = Some(self.sendings.len());
                self.sendings.push(sent);
            }
        }
    }

    /// A handler invokes a target. Returns what it has announced, if it sends no envelope.
    pub fn sends(&mut self, run: u64, place: usize) -> Option<usize> {
        let message = &self.runs[&run][place];
        let case = &self.cases[message.case];
        let sent = message.sending;
        let is_announced = sent.is_some_and(|sent| self.sendings[sent].is_there);
        if case.is_transparent && !is_announced {
            let what = format!("run {run} invokes, and has not noted that before");
            self.violated(Check::NotesTruly, case.of.event, what);
        }
        sent
    }

    /// Lambda has accepted an invocation. Returns the invocation as it is known from now on.
    pub fn accepted_unwrapped(&mut self, of: Subject, request_id: &Arc<str>, open: Open) -> Open {
        let Some(index) = of.sending else { return open };
        let sent = &mut self.sendings[index];
        let id = Id::from(&**request_id);
        sent.accepted.push(id.clone());
        let is_kept = sent.is_there || sent.is_taken;
        let open =
            Open { event: open.event, target: open.target, trace: open.trace, ..sent.of.clone() };
        self.sent_as.insert(id, index);
        if !is_kept {
            let what = format!("{request_id} is accepted, and its sending is gone");
            self.violated(Check::SendingsStay, open.event, what);
        }
        open
    }

    /// A handler has learned what became of its invocation.
    pub fn told_of_request(&mut self, of: Subject, found: &Found, answer: &Answer) {
        if let (Some(sent), Err(refusal), Found::Nothing) = (of.sending, answer, found) {
            let lasts =
                matches!(refusal.kind, Some(FaultKind::Refused(_) | FaultKind::Configuration));
            self.sendings[sent].is_refused = lasts || refusal.status == Some(429);
        }
        if let (Some(sent), Found::Accepted { is_repeated, .. }) = (of.sending, found) {
            self.sendings[sent].told = Some(*is_repeated);
        }
    }

    fn announced(&self, noting: &Noting) -> Option<usize> {
        let is_it = |sent: &Sent| sent.key == noting.sendings && sent.sender == noting.sender;
        self.sendings.iter().rposition(is_it)
    }

    /// The ledger has taken a handler's notes.
    pub fn notes(&mut self, noting: &Noting) {
        let Some(index) = self.announced(noting) else {
            let what = format!("nobody has announced {noting:?}");
            return self.violated(Check::NotesTruly, None, what);
        };
        let function = arn(&self.plan.targets[self.sendings[index].of.target].name);
        let now = self.now.timestamp_millis();
        let sent = &mut self.sendings[index];
        let event = sent.of.event;
        let mut wrong = None;
        if let Some((key, metadata)) = &noting.note {
            let is_it = |id: &&Id| *key == format!("note/{function}/{id}");
            match sent.accepted.iter().find(is_it).cloned() {
                Some(id) if metadata.to_json() == sent.metadata => sent.noted.push(id),
                _ => {
                    let (ids, right) = (&sent.accepted, &sent.metadata);
                    let what = format!("{noting:?}, expected {right}, accepted were {ids:?}");
                    wrong = Some((Check::NotesTruly, what));
                }
            }
            self.noted.insert(key.clone(), index);
            self.tally.count(Seen::Step("notes"));
        }
        let is_kept = noting.sending.is_some();
        let unnoted = sent.accepted.iter().any(|id| !sent.noted.contains(id));
        if !is_kept && unnoted {
            let what = format!("it is removed without a note: {noting:?}, {:?}", sent.accepted);
            wrong = Some((Check::SendingsStay, what));
        } else if is_kept && noting.note.is_some() && sent.told == Some(false) {
            let what = format!("it was accepted once and is noted, and stays: {noting:?}");
            wrong = Some((Check::SendingsStay, what));
        }
        if is_kept && sent.is_refused {
            let what = format!("it was refused, and stays: {noting:?}");
            wrong = Some((Check::SendingsStay, what));
        }
        // The second write of a sending says that no note will follow.
        sent.is_left |= is_kept && sent.is_there;
        sent.is_there = is_kept;
        let of_payload = self.sendings.iter().filter(|it| it.is_there && it.key == noting.sendings);
        let is_full = of_payload.count() + noting.over.len() > SENDINGS_MAX;
        for sender in &noting.over {
            let is_it = |it: &&mut Sent| it.key == noting.sendings && it.sender == *sender;
            let Some(over) = self.sendings.iter_mut().rfind(is_it) else { continue };
            over.is_there = false;
            let unnoted = over.accepted.iter().any(|id| !over.noted.contains(id));
            if unnoted && !over.is_over(now) && !is_full {
                wrong = Some((Check::SendingsStay, format!("{sender} is removed too early")));
            }
            over.is_taken |= is_full;
        }
        if let Some((check, what)) = wrong {
            self.violated(check, event, what);
        }
    }

    /// A failure takes the sending of a handler that died, which was there.
    pub fn adopts(&mut self, run: u64, noting: &Noting) {
        let batch = self.runs.get(&run).map(Vec::as_slice).unwrap_or_default();
        let mut indices = batch.iter().map(|message| message.case);
        let note = noting.note.as_ref();
        let is_it =
            |&index: &usize| note.is_some_and(|(key, _)| *key == self.note_key(&self.cases[index]));
        let found = indices.find(is_it);
        // A handler that died meanwhile may have asked for it.
        let found = found.or_else(|| (0..self.cases.len()).rfind(is_it));
        let (Some(index), Some(taken)) = (found, self.announced(noting)) else {
            let what = format!("run {run} takes what nobody has announced: {noting:?}");
            return self.violated(Check::AdoptsOrphans, None, what);
        };
        let case = &self.cases[index];
        let (at, event) = (case.at, case.of.event);
        let is_own = self.sent_as.get(&case.request_id) == Some(&taken);
        let is_of_payload = self.sendings_key(case, &self.received(case)) == noting.sendings;
        let sent = &self.sendings[taken];
        let is_at_work = self.runs.contains_key(&sent.run) && !sent.is_left;
        let may_be_its = is_of_payload
            && sent.since <= at + SKEW
            && at <= sent.since + FAILS_WITHIN + SKEW
            && sent.of.first_request != case.request_id;
        let is_true = note.is_some_and(|(_, metadata)| metadata.to_json() == sent.metadata)
            && noting.sending.is_none();
        let wrong = if is_at_work {
            Some((Check::AdoptsOrphans, format!("its sender, run {}, is at work", sent.run)))
        } else if !may_be_its || !is_true {
            Some((Check::AdoptsOrphans, format!("{noting:?} takes {}", sent.metadata)))
        } else if !is_own && (!sent.is_hit || self.plan.flawless) {
            let what = format!("it is taken for {}, whose sender had no fault", sent.metadata);
            Some((Check::RecallsTruly, what))
        } else {
            None
        };
        self.tally.count(Seen::Step("adoptions"));
        if !is_own && sent.metadata != self.own_metadata(case) {
            self.tally.count(Seen::Step("attempts swapped"));
        }
        let sent = &mut self.sendings[taken];
        sent.is_there = false;
        // A call that was made twice may have one more failure, which finds nothing now.
        sent.is_taken = true;
        if is_own {
            sent.noted.push(self.cases[index].request_id.clone());
        }
        let key = note.map(|(key, _)| key.clone()).unwrap_or_default();
        self.noted.insert(key, taken);
        self.story.tell(self.now, event, || format!("run {run} adopts {noting:?}"));
        if let Some((check, what)) = wrong {
            self.violated(check, event, what);
        }
    }

    /// The items of events for which a look-up must ask, and those for which it may ask too.
    pub fn looks_for(&self, batch: &[Delivery]) -> (BTreeSet<String>, BTreeSet<String>) {
        let (mut must, mut may) = (BTreeSet::new(), BTreeSet::new());
        for message in batch {
            let case = &self.cases[message.case];
            let is_either = matches!(message.recall, Recall::Either(_));
            let is_known = message.is_read() && self.wait_for_note(message, 0).is_none();
            if !is_known || !self.has_register(case) || !came_back(message.record()) {
                continue;
            }
            let is_copy = |other: &&Delivery| other.case == message.case && other.is_read();
            let mut copies = batch.iter().filter(is_copy);
            let is_sure = !is_either || copies.all(|other| came_back(other.record()));
            let keys = if is_sure { &mut must } else { &mut may };
            keys.insert(case.key(&self.plan));
        }
        (must, may)
    }

    fn own_metadata(&self, case: &Case) -> &str {
        self.sent_as.get(&case.request_id).map_or("", |own| &self.sendings[*own].metadata)
    }

    /// The messages of a run whose notes have this key.
    fn noted_by(&self, run: u64, key: &str) -> Vec<usize> {
        let batch = self.runs.get(&run).map(Vec::as_slice).unwrap_or_default();
        let is_it = |place: &usize| {
            let message = &batch[*place];
            message.is_read() && *key == self.note_key(&self.cases[message.case])
        };
        (0..batch.len()).filter(is_it).collect()
    }

    fn told_nothing(&mut self, run: u64, places: &[usize], fault: Option<FaultKind>) {
        let fault = fault.unwrap_or(FaultKind::Transient { retry_after: None });
        let known_for = self.meets(run, LEDGER, Some(fault));
        for place in places {
            let message = self.runs.get_mut(&run).and_then(|run| run.get_mut(*place));
            let Some(message) = message else { continue };
            message.recall = Recall::Failed;
            message.listing.excused = true;
            message.told = self.answers;
            message.met(Some(fault), known_for, self.now);
        }
    }

    /// A handler makes a call that is not about notes, and so it waits for none any more. It may have waited for them
    /// for half of its time, and what it doesn't know by then is a fault of the ledger.
    pub fn is_past_notes(&mut self, run: u64) {
        let batch = self.runs.get(&run).map(Vec::as_slice).unwrap_or_default();
        let is_cut_off = |message: &Delivery| {
            let is_open = matches!(message.recall, Recall::Unread | Recall::Orphan);
            is_open && self.needs_recall(message)
        };
        let places: Vec<_> = (0..batch.len()).filter(|place| is_cut_off(&batch[*place])).collect();
        if let Some(first) = places.first().map(|place| &batch[*place]) {
            let (until, event) = (first.recalls_until, self.cases[first.case].of.event);
            if between(self.now, until).max(between(until, self.now)) > ROUNDING {
                let what =
                    format!("run {run} waits for its notes no longer, and should until {until}");
                self.violated(Check::RecallsFirst, event, what);
            }
            self.told_nothing(run, &places, None);
        }
        let batch = self.runs.get_mut(&run).map(Vec::as_mut_slice).unwrap_or_default();
        for place in 0..batch.len() {
            let Delivery { case, recall, .. } = batch[place];
            let is_copy = |other: &Delivery| other.case == case && other.is_read();
            let copies = || batch.iter().filter(|other| is_copy(other));
            if batch[place].is_read() && copies().any(|other| other.recall != recall) {
                let is_any = copies().any(|other| other.recall == Recall::Known);
                for copy in batch.iter_mut().filter(|other| is_copy(other)) {
                    (copy.recall, copy.fault) = (Recall::Either(is_any), None);
                    copy.listing.excused = true;
                }
            }
        }
    }

    /// The notes for these failures are read now.
    pub fn reads_notes(&mut self, run: u64, keys: &[note::Keys]) {
        for key in keys.iter().map(|keys| &keys.note) {
            let noted = self.noted.get(key).copied();
            for place in self.noted_by(run, key) {
                let message = self.runs.get_mut(&run).and_then(|run| run.get_mut(place));
                message.into_iter().for_each(|message| message.noted = noted);
            }
        }
    }

    /// A handler has read the notes for these failures.
    pub fn told_of_recall(
        &mut self,
        run: u64,
        clock: Timestamp,
        keys: &[note::Keys],
        answer: &Answer,
        found: &[note::Found],
    ) {
        self.answers += 1;
        if let Err(refusal) = answer {
            let places: Vec<_> = keys.iter().flat_map(|it| self.noted_by(run, &it.note)).collect();
            return self.told_nothing(run, &places, refusal.kind);
        }
        for (keys, found) in keys.iter().zip(found) {
            for place in self.noted_by(run, &keys.note) {
                let Delivery { case, noted, .. } = self.runs[&run][place];
                let recall = self.recalled(case, keys, (noted, found), clock.timestamp_millis());
                let Some(message) = self.runs.get_mut(&run).and_then(|run| run.get_mut(place))
                else {
                    continue;
                };
                message.recall = recall;
                if let Recall::Unknown(..) = recall {
                    self.tally.count(Seen::Step("waits for notes"));
                }
                match found.note.is_some() || recall == Recall::Orphan {
                    true => self.judged(run, place),
                    false => self.takes(run, place),
                }
            }
        }
    }

    /// What these notes say about a failure, to a handler whose clock says `now`.
    fn recalled(
        &mut self,
        index: usize,
        keys: &note::Keys,
        (noted, found): (Option<usize>, &note::Found),
        now: Millis,
    ) -> Recall {
        let case = &self.cases[index];
        let (at, event) = (case.at, case.of.event);
        let expected = self.sendings_key(case, &self.received(case));
        if keys.sendings != expected {
            let what = format!("looked for under {}, expected {expected}", keys.sendings);
            self.violated(Check::RecallsTruly, event, what);
            return Recall::Known;
        }
        if let (Some(noted), Some(_)) = (noted, &found.note) {
            let of = self.sendings[noted].of.clone();
            self.continues(index, &of);
            return Recall::Known;
        }
        if let Some(gone) = noted {
            let what = format!("its note is gone: {}", self.sendings[gone].metadata);
            self.violated(Check::NotesTruly, event, what);
            return Recall::Known;
        }
        let may_be_its = |sending: &&note::Sending| {
            let since = sending.since.timestamp_millis();
            let first = sending.metadata.request_id.as_deref();
            since <= at + SKEW
                && at <= since + FAILS_WITHIN + SKEW
                && first.is_none_or(|first| case.request_id != *first)
        };
        let candidates: Vec<_> = found.sendings.iter().filter(may_be_its).collect();
        let leases = candidates.iter().filter_map(|sending| {
            let until = sending.until.timestamp_millis();
            let is_possible = until - sending.since.timestamp_millis() <= LEASE_MAX;
            (now < until && is_possible).then_some(until)
        });
        if let Some(until) = leases.max() {
            let waited = (now - at).max(SECOND);
            return Recall::Unknown((now + SECOND).min(until), (now + waited).min(until));
        }
        if !candidates.is_empty() {
            return Recall::Orphan;
        }
        let truth = case.truth().clone();
        let own = self.sent_as.get(&case.request_id).map(|own| &self.sendings[*own]);
        if !truth.is_unwrapped {
            self.continues(index, &truth);
        } else if own.is_some_and(|own| own.is_taken || own.is_over(now)) {
            self.begins_anew(index, "attempts begun anew after a swap");
        } else {
            let what = format!("attempt {} is taken for a first one", truth.attempt);
            self.violated(Check::RecallsTruly, event, what);
        }
        Recall::Known
    }

    /// A handler has tried to take a sending for a failure.
    pub fn told_of_adoption(
        &mut self,
        run: u64,
        clock: Timestamp,
        noting: &Noting,
        answer: &Answer,
        is_adopted: bool,
    ) {
        self.answers += 1;
        let Some((key, _)) = &noting.note else { return };
        let places = self.noted_by(run, key);
        // A batch may have several copies of one message.
        let is_open = |place: &&usize| self.runs[&run][**place].recall == Recall::Orphan;
        let Some(&place) = places.iter().find(is_open) else {
            let what = format!("run {run} takes a sending and had no reason to: {noting:?}");
            return self.violated(Check::AdoptsOrphans, None, what);
        };
        if let Err(refusal) = answer {
            return self.told_nothing(run, &[place], refusal.kind);
        }
        let index = self.runs[&run][place].case;
        let now = clock.timestamp_millis();
        let recall = if is_adopted { Recall::Known } else { Recall::Unknown(now, now) };
        if let (true, Some(&taken)) = (is_adopted, self.noted.get(key)) {
            let of = self.sendings[taken].of.clone();
            self.continues(index, &of);
        }
        if let Some(message) = self.runs.get_mut(&run).and_then(|run| run.get_mut(place)) {
            message.recall = recall;
        }
        places.into_iter().for_each(|place| self.takes(run, place));
    }
}
