//! The promises about retries without an envelope: each event makes its own attempts, all of them.
//!
//! The judge knows by its request id which run has failed, whatever the ledger says. It learns from the ledger's
//! answers what a handler takes a failure for, and compares that with the truth. Where nobody could know better, an
//! event may begin anew, or swap its attempts with another that has the same payload. Such cases are counted, and their
//! causes are in `may_begin_anew` and `has_taken`.

use std::{num::NonZero, sync::Arc};

use comeback_core::{
    Timestamp,
    claim::State,
    envelope::RetryMetadata,
    fault::FaultKind,
    lineage::{Call, Key, Known, Siblings},
    time::between,
};
use sha2::{Digest, Sha256};
use wire::{Answer, Found, Write};

use super::{
    Event, Judge, Open, Subject,
    cases::Case,
    delays::{LEDGER, ROUNDING},
    deliveries::{Delivery, trace_of},
};
use crate::{
    ids::Id,
    notes::{Check, Seen},
    payload::{Foreign, metadata},
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

/// If not all runs were read, the note of a failure is waited for until it is this old.
const NOTED_WITHIN: Millis = 20 * SECOND;

/// An item keeps at least this many open calls.
const CALLS_MIN: usize = 12;

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

/// A call without an envelope, as the claim for it says.
pub struct Sent {
    run: u64,
    /// The attempt that it makes.
    of: Open,
    name: String,
    /// The root of the trace that it sends.
    root: Option<String>,
    since: Millis,
    /// The runs that Lambda has accepted, those of them that have a note, and since when all have one.
    accepted: Vec<Id>,
    noted: Vec<Id>,
    known_at: Option<Timestamp>,
    /// Whether its sender knows that there may be runs that it has no id of, or that there is none.
    is_unseen: bool,
    is_refused: bool,
    /// Whether its sender has said that it writes no note any more.
    is_ended: bool,
    /// Whether it was removed because there were too many.
    is_pruned: bool,
    /// The runs that have taken it.
    taken: Vec<Id>,
}

/// The root of a trace header.
fn root_of(header: &str) -> Option<&str> {
    header.split(';').find_map(|member| member.strip_prefix("Root="))
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

impl Judge {
    /// The key of the item with the claim on a failure.
    pub fn key(&self, case: &Case) -> Key {
        match case.verdict() {
            Err("payload_missing") => self.key_of(case, ""),
            Ok(_) | Err(_) => self.key_of(case, &self.payload(case.of.event)),
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

    /// A handler acts on a failure.
    pub fn is_judged_unread(&mut self, run: u64, place: usize, how: &str) {
        let message = &self.runs[&run][place];
        if self.needs_recall(message) && message.recall != Recall::Known {
            let event = self.cases[message.case].of.event;
            let what = format!("it {how} by run {run}, which knows of it: {:?}", message.recall);
            self.violated(Check::RecallsFirst, event, what);
        }
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

    /// The ledger says that this failure is that of the retry with these metadata.
    fn learns(&mut self, index: usize, said: &RetryMetadata) {
        let case = &self.cases[index];
        let truth = case.truth().clone();
        let initial = truth.initial.map_or(0, NonZero::get);
        let id = self.event_id(&truth);
        let right = metadata(truth.attempt, initial, id.as_deref(), "");
        if truth.is_unwrapped && said.to_json() == right {
            return self.continues(index, &truth);
        }
        let adopted = self.adopted.get(&case.request_id);
        let adopted = adopted.filter(|(metadata, _)| metadata.to_json() == said.to_json());
        let Some(&(_, is_foreign)) = adopted else {
            let what = format!("it is taken for {}, and is {right}", said.to_json());
            return self.violated(Check::RecallsTruly, truth.event, what);
        };
        let of = Open {
            attempt: said.attempt.get(),
            initial: NonZero::new(said.initial_timestamp),
            first_request: said.request_id.as_deref().map_or(truth.first_request.clone(), Id::from),
            is_foreign,
            is_unwrapped: true,
            ..truth
        };
        self.continues(index, &of);
    }

    /// A handler takes this failure for a first one. `is_cut` says that it could not read all runs.
    fn begins(&mut self, index: usize, root: Option<&str>, is_cut: bool) {
        let case = &self.cases[index];
        let truth = case.truth();
        if !truth.is_unwrapped {
            self.continues_truly(index);
        } else if !self.plan.flawless
            && (!case.of.is_unwrapped || is_cut || self.may_begin_anew(case, root))
        {
            self.begins_anew(index, "attempts begun anew");
        } else {
            let what = format!("attempt {} is taken for a first one", truth.attempt);
            self.violated(Check::RecallsTruly, truth.event, what);
        }
    }

    /// Whether nobody can know that a run is a retry, if it has no note: another run was taken for it, its call is not
    /// kept any more, or its trace does not tell.
    fn may_begin_anew(&self, case: &Case, root: Option<&str>) -> bool {
        let sent = self.sent_as.get(&case.request_id).map(|sent| &self.sent[*sent]);
        sent.is_some_and(|sent| {
            let is_another = match (sent.root.as_deref(), root) {
                (Some(sent), Some(root)) => sent != root,
                (None, _) | (_, None) => sent.is_unseen || sent.accepted.len() > 1,
            };
            let is_late = case.at > sent.since + FAILS_WITHIN
                || self.now.timestamp_millis() > sent.since + FAILS_WITHIN + RETENTION - SKEW;
            let is_taken = sent.taken.iter().any(|by| *by != case.request_id);
            is_another || is_late || is_taken || sent.is_pruned
        })
    }

    /// A handler claims a failure, and names the call that it is about to make.
    pub fn is_sent(&mut self, run: u64, place: usize, call: &Call) {
        let Some(message) = self.runs.get(&run).and_then(|run| run.get(place)) else { return };
        let case = &self.cases[message.case];
        let next = || Some((case.of.clone(), case.verdict().ok()?.attempt));
        let Some((of, attempt)) = message.next.clone().or_else(next) else { return };
        let initial = NonZero::new(of.first_failure(case.at).div_euclid(1000));
        let sent = Sent {
            run,
            of: Open { attempt, initial, is_unwrapped: true, ..of },
            name: call.name.clone(),
            root: root_of(trace_of(message.record())).map(str::to_owned),
            since: self.now.timestamp_millis(),
            accepted: Vec::new(),
            noted: Vec::new(),
            known_at: None,
            is_unseen: false,
            is_refused: false,
            is_ended: false,
            is_pruned: false,
            taken: Vec::new(),
        };
        // It may take several looks at the claim to replace it.
        let message = self.runs.get_mut(&run).and_then(|run| run.get_mut(place));
        let Some(message) = message else { return };
        match message.call {
            Some(before) => self.sent[before] = sent,
            None => {
                message.call = Some(self.sent.len());
                self.sent.push(sent);
            }
        }
    }

    /// The call with this name. The SDK's repeats of a call have its name, and a number.
    fn sent_by_name(&self, name: &str) -> Option<usize> {
        let name = name.split('#').next();
        self.sent.iter().rposition(|sent| Some(&*sent.name) == name)
    }

    /// Lambda has accepted an invocation. Returns the run as it is known from now on.
    pub fn accepted_unwrapped(&mut self, of: Subject, request_id: &Arc<str>, open: Open) -> Open {
        let Some(index) = of.call else {
            return Open { is_unwrapped: self.cases[of.case].is_transparent, ..open };
        };
        let sent = &mut self.sent[index];
        let id = Id::from(&**request_id);
        sent.accepted.push(id.clone());
        sent.known_at = None;
        self.sent_as.insert(id, index);
        Open { event: open.event, target: open.target, trace: open.trace, ..sent.of.clone() }
    }

    /// A handler has learned what became of its invocation.
    pub fn told_of_request(&mut self, of: Subject, found: &Found, answer: &Answer) {
        let Some(sent) = of.call.map(|sent| &mut self.sent[sent]) else { return };
        let (Found::Accepted { unanswered: earlier, .. } | Found::Unanswered(earlier)) = found
        else {
            return sent.is_refused = is_refused(answer);
        };
        sent.is_unseen |= *earlier > 0;
    }

    /// The ledger has taken a write about the run of this subject. These calls are in its item now, and there were so
    /// many `before`.
    pub fn has_written(
        &mut self,
        write: &Write,
        of: Option<Subject>,
        before: usize,
        calls: &[Call],
    ) {
        let is_last = !write.next.as_ref().is_some_and(|it| matches!(it.state, State::Held { .. }));
        let own = of.and_then(|of| of.call);
        for call in write.calls.iter().filter(|_| is_last) {
            if let Some(sent) = self.sent_by_name(&call.name) {
                self.sent[sent].is_ended = true;
            }
        }
        for name in &write.removed {
            let sent = self.sent_by_name(name).filter(|sent| Some(*sent) != own);
            if let Some(sent) = sent {
                self.sent[sent].is_pruned |= before >= CALLS_MIN;
            }
        }
        let Some(sent) = own.map(|own| &self.sent[own]).filter(|_| is_last) else { return };
        if sent.is_refused && calls.iter().any(|call| call.name == sent.name) {
            let (event, what) = (sent.of.event, format!("it was refused, and stays: {calls:?}"));
            self.violated(Check::RefusedLeavesNothing, event, what);
        }
    }

    /// A handler notes the run that it has started. Returns the message whose failure that retries.
    pub fn notes(&mut self, run: u64, known: &Known) -> Option<Subject> {
        let parent = known.note.as_ref()?.parent.as_ref()?;
        let nth: usize = parent.call.rsplit('/').next()?.parse().ok()?;
        let message = self.runs.get_mut(&run)?.get_mut(nth)?;
        let (case, call) = (message.case, message.call);
        if self.cases[case].request_id != *parent.run {
            return None;
        }
        message.concluded = true;
        let is_done = message.done;
        let case_of = &mut self.cases[case];
        case_of.writes += 1;
        if !is_done {
            let (event, what) = (case_of.of.event, format!("run {run} has not been answered"));
            self.violated(Check::MarksAfterActing, event, what);
        }
        Some(Subject { run, place: nth, case, call, part: None })
    }

    /// The ledger has a note of a run, which marks the failure of its parent as retried.
    pub fn has_noted(&mut self, key: &Key, known: &Known, of: Option<Subject>) {
        self.tally.count(Seen::Step("notes"));
        of.into_iter().for_each(|of| self.marked(of));
        let parent = known.note.as_ref().and_then(|note| note.parent.as_ref());
        let Some(sent) = parent.and_then(|parent| self.sent_by_name(&parent.call)) else { return };
        let now = self.now;
        let sent = &mut self.sent[sent];
        sent.noted.push(Id::from(&*key.run));
        sent.is_ended = true;
        if sent.accepted.iter().all(|id| sent.noted.contains(id)) {
            sent.known_at.get_or_insert(now);
        }
    }

    /// The failure of a run of this run's handler has taken this call of the item with this key.
    pub fn has_taken(&mut self, run: u64, key: &Key, call: &Call, taker: &str) {
        self.tally.count(Seen::Step("adoptions"));
        let id = Id::from(taker);
        let (Some(index), Some(taken)) = (
            self.cases.iter().rposition(|case| case.has_key(&key.sibling(taker), &self.plan)),
            self.sent_by_name(&call.name),
        ) else {
            let what = format!("run {run} takes a call that nobody has made: {call:?}");
            return self.violated(Check::InheritsNothing, None, what);
        };
        let case = &self.cases[index];
        let batch = self.runs.get(&run).map(Vec::as_slice).unwrap_or_default();
        let message = batch.iter().find(|it| it.case == index && it.recall == Recall::Taking);
        let own = self.sent_as.get(&id).copied();
        let sent = &self.sent[taken];
        let root = message.and_then(|message| root_of(trace_of(message.record())));
        let is_sure = |sent: &Sent| root.is_some() && sent.root.as_deref() == root;
        let differs = root.is_some() && sent.root.is_some() && !is_sure(sent);
        let is_repeat = call.is_repeated && message.is_some() && !is_sure(sent);
        let is_known = |message: &Delivery| sent.known_at.is_some_and(|at| at <= message.heard_at);
        let own_is_open = own.map(|own| &self.sent[own]).is_some_and(|own| {
            own.taken.is_empty() && own.noted.is_empty() && !own.is_pruned && is_sure(own)
        });
        let wrong = if self.runs.contains_key(&sent.run) && !sent.is_ended {
            Some("its sender is at work")
        } else if own == Some(taken) {
            None
        } else if self.plan.flawless {
            Some("nothing has gone wrong")
        } else if !call.is_repeated && message.is_some_and(is_known) {
            Some("its run is known")
        } else if differs || is_repeat {
            Some("it has another trace")
        } else if own_is_open && !is_sure(sent) {
            Some("its own is open")
        } else if case.at < call.since.timestamp_millis() - SKEW {
            Some("the failure was before it")
        } else if sent.of.first_request == id {
            Some("the failure is the one that it retries")
        } else {
            None
        };
        let (event, said) = (case.of.event, call.metadata.to_json());
        if own != Some(taken) && own.is_none_or(|own| self.sent[own].of.attempt != sent.of.attempt)
        {
            self.tally.count(Seen::Step("attempts swapped"));
        }
        self.story.tell(self.now, event, || format!("run {run} takes {}: {said}", call.name));
        if let Some(wrong) = wrong {
            let what = format!("it takes {call:?}, and {wrong}");
            self.violated(Check::InheritsNothing, event, what);
        }
        let sent = &mut self.sent[taken];
        if own == Some(taken) && !call.is_repeated {
            sent.noted.push(id.clone());
        }
        sent.taken.push(id.clone());
        self.adopted.insert(id, (call.metadata.clone(), sent.of.is_foreign));
    }

    /// Whether a run is about to ask which runs have failed.
    pub fn recalls(&self, run: u64) -> bool {
        let batch = self.runs.get(&run).into_iter().flatten();
        batch.into_iter().any(|it| it.recall == Recall::Unread && self.needs_recall(it))
    }

    /// A handler asks for all runs of its batch that may be retries without an envelope.
    pub fn asks_for_runs(&mut self, run: u64, asked: &[Key]) {
        let batch = self.runs.get(&run).map(Vec::as_slice).unwrap_or_default();
        let places = 0..batch.len();
        let sought: Vec<_> = places.filter(|place| self.needs_recall(&batch[*place])).collect();
        let key = |place: &usize| self.noted_key(&self.cases[batch[*place].case]);
        let mut expected: Vec<_> = sought.iter().map(key).collect();
        expected.sort_unstable();
        expected.dedup();
        if expected != asked {
            let what = format!("run {run} asks for {asked:?}, expected {expected:?}");
            self.violated(Check::RecallsFirst, None, what);
        }
        for place in sought {
            let message = self.runs.get_mut(&run).and_then(|run| run.get_mut(place));
            message.into_iter().for_each(|message| message.recall = Recall::Asked);
        }
    }

    /// A handler has learned what the ledger has about the runs of its batch.
    pub fn told_of_runs(&mut self, run: u64, answer: &Answer, found: &Found) {
        self.answers += 1;
        for place in 0..self.runs.get(&run).map_or(0, Vec::len) {
            let Delivery { case, recall, .. } = self.runs[&run][place];
            if recall != Recall::Asked {
                continue;
            }
            let key = self.noted_key(&self.cases[case]);
            let runs = if let Found::LookedUp { runs, .. } = found { Some(runs) } else { None };
            let known = runs.and_then(|runs| runs.get(&key)).map(|entered| &entered.known);
            let recall = match (answer, known) {
                (Err(refusal), _) => failed(refusal.kind),
                (Ok(()), None) => Recall::Missed,
                (Ok(()), Some(known)) => {
                    match &known.note {
                        Some(note) => self.learns(case, &note.metadata),
                        None => self.begins(case, self.root(run, place).as_deref(), false),
                    }
                    Recall::Known
                }
            };
            self.recalled(run, place, recall);
        }
    }

    fn root(&self, run: u64, place: usize) -> Option<String> {
        root_of(trace_of(self.runs[&run][place].record())).map(str::to_owned)
    }

    fn recalled(&mut self, run: u64, place: usize, recall: Recall) {
        let event = self.cases[self.runs[&run][place].case].of.event;
        self.story.tell(self.now, event, || format!("run {run} knows of its run: {recall:?}"));
        if let Some(message) = self.runs.get_mut(&run).and_then(|run| run.get_mut(place)) {
            message.recall = recall;
        }
        self.takes(run, place);
    }

    /// The first message of a run that has asked so far, and is of this run.
    fn asking(&self, run: u64, of: &str, recall: Recall) -> Option<Subject> {
        let batch = self.runs.get(&run)?;
        let is_it = |message: &Delivery| {
            message.recall == recall && self.cases[message.case].request_id == *of
        };
        let place = batch.iter().position(is_it)?;
        let Delivery { case, call, .. } = batch[place];
        Some(Subject { run, place, case, call, part: None })
    }

    /// A handler asks for all runs with the payload of this one, because a look-up has shown nothing of it.
    pub fn looks_closer(&mut self, run: u64, key: &Key) -> Option<Subject> {
        let of = self.asking(run, &key.run, Recall::Missed);
        let Some(of) = of.filter(|of| self.noted_key(&self.cases[of.case]) == *key) else {
            let what = format!("run {run} asks for the runs beside {key:?}, which it knows");
            self.violated(Check::FewCalls, None, what);
            return None;
        };
        self.recalled(run, of.place, Recall::Closer);
        Some(of)
    }

    /// A handler has learned what the ledger has about all runs with the payload of this one.
    pub fn told_of_siblings(
        &mut self,
        of: Subject,
        clock: Timestamp,
        answer: &Answer,
        found: &Found,
    ) {
        self.answers += 1;
        let recall = match (answer, found) {
            (Err(refusal), _) => failed(refusal.kind),
            (Ok(()), Found::Siblings(siblings)) => {
                let root = self.root(of.run, of.place);
                self.hears(of.case, root.as_deref(), siblings, clock.timestamp_millis())
            }
            (Ok(()), _) => return,
        };
        if let Recall::Unknown(..) = recall {
            self.tally.count(Seen::Step("waits for notes"));
        }
        let message = self.runs.get_mut(&of.run).and_then(|run| run.get_mut(of.place));
        message.into_iter().for_each(|message| message.heard_at = self.now);
        self.recalled(of.run, of.place, recall);
    }

    /// What these runs say about a failure, to a handler whose clock says `now`.
    fn hears(
        &mut self,
        index: usize,
        root: Option<&str>,
        Siblings { runs, are_all }: &Siblings,
        now: Millis,
    ) -> Recall {
        let case = &self.cases[index];
        let (at, run) = (case.at, case.request_id.to_string());
        let own = runs.iter().find(|(id, _)| *id == run);
        if let Some(note) = own.and_then(|(_, known)| known.note.as_ref()) {
            self.learns(index, &note.metadata);
            return Recall::Known;
        }
        let calls = || runs.iter().flat_map(|(of, it)| it.calls.iter().map(move |call| (of, call)));
        if let Some((_, call)) = calls().find(|(_, it)| it.taken_by.as_ref() == Some(&run)) {
            self.learns(index, &call.metadata);
            return Recall::Known;
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
            return Recall::Unknown((now + SECOND).min(until), (now + waited).min(until));
        }
        if *are_all && !open.is_empty() {
            return Recall::Orphan;
        }
        self.begins(index, root, !are_all);
        Recall::Known
    }

    /// A handler tries to take a call for the failure of this run.
    pub fn asks_to_take(&mut self, run: u64, taker: &str) -> Option<Subject> {
        let of = self.asking(run, taker, Recall::Orphan);
        match of {
            Some(of) => self.recalled(run, of.place, Recall::Taking),
            None => {
                let what = format!("run {run} takes a call for {taker}, and had no reason to");
                self.violated(Check::InheritsNothing, None, what);
            }
        }
        of
    }

    pub fn told_of_taking(
        &mut self,
        of: Subject,
        clock: Timestamp,
        answer: &Answer,
        is_taken: bool,
    ) {
        self.answers += 1;
        let now = clock.timestamp_millis();
        let adopted = self.adopted.get(&self.cases[of.case].request_id).filter(|_| is_taken);
        let recall = match (answer, adopted.cloned()) {
            (Err(refusal), _) => failed(refusal.kind),
            (Ok(()), Some((adopted, _))) => {
                self.learns(of.case, &adopted);
                Recall::Known
            }
            (Ok(()), None) => Recall::Unknown(now, now),
        };
        self.recalled(of.run, of.place, recall);
    }

    /// A handler makes a call that is not about runs, and so it asks no more. It may have asked for half of its time,
    /// and what it doesn't know by then is a fault of the ledger. It judges by what it knows now.
    pub fn is_past_recall(&mut self, run: u64, clock: Timestamp) {
        for place in 0..self.runs.get(&run).map_or(0, Vec::len) {
            let message = &self.runs[&run][place];
            if message.is_past || !self.needs_recall(message) {
                continue;
            }
            let (case, until) = (&self.cases[message.case], message.recalls_until);
            let event = case.of.event;
            if message.recall.is_open() {
                if between(self.now, until).max(between(until, self.now)) > ROUNDING {
                    let what =
                        format!("run {run} asks for its runs no longer, and should until {until}");
                    self.violated(Check::RecallsFirst, event, what);
                }
                self.recalled(run, place, failed(None));
            }
            let recall = self.runs[&run][place].recall;
            let fault = if let Recall::Failed(fault) = recall { Some(fault) } else { None };
            let known_for = self.meets(run, LEDGER, fault);
            let is_noted = self.cases[self.runs[&run][place].case].of.is_unwrapped;
            if fault.is_none() && is_noted {
                self.judged(run, place);
            }
            let has_envelope = {
                let of = &self.cases[self.runs[&run][place].case].of;
                of.initial.is_some() && !of.is_unwrapped
            };
            let (now, answers) = (self.now, self.answers);
            let message = self.runs.get_mut(&run).and_then(|run| run.get_mut(place));
            let Some(message) = message else { continue };
            message.is_past = true;
            if fault.is_some() {
                message.listing.excused = true;
                message.told = answers;
                message.met(fault, known_for, now);
            } else if message.recall == Recall::Known && !has_envelope {
                let at = clock.timestamp_millis();
                let judged_at = at - (now - message.judged_at).num_milliseconds();
                message.listing.is_recalled(at, judged_at);
            }
        }
    }

    /// A handler reads all runs with the payload of one that it is about to claim, whose calls may be answered.
    pub fn compares(&mut self, run: u64, key: &Key) -> Option<Subject> {
        let batch = self.runs.get(&run)?;
        let is_of = |message: &Delivery| {
            let is_known = message.is_read() && self.wait_for_note(message, 0).is_none();
            let is_over = message.put_back || message.claim.is_some();
            is_known && !is_over && self.cases[message.case].request_id == *key.run
        };
        let all = || batch.iter().enumerate().filter(|(_, message)| is_of(message));
        // The claim may change each time it is looked at. A batch may have copies of one message.
        let changed = all().find(|(_, message)| !message.compares && message.looks > 0);
        let place = changed.or(all().find(|(_, message)| !message.compares)).or(all().next());
        let Some((place, _)) = place else {
            let what = format!("run {run} reads the runs beside {key:?}");
            self.violated(Check::FewCalls, None, what);
            return None;
        };
        let Delivery { case, call, .. } = batch[place];
        let is_first = batch[place].written.is_none();
        self.runs.get_mut(&run)?[place].compares = true;
        if is_first {
            self.judge_begin(run, place);
        }
        Some(Subject { run, place, case, call, part: None })
    }

    /// A handler knows whether a failure that it is about to claim was retried.
    pub fn has_compared(&mut self, of: Subject, answer: &Answer) {
        self.answers += 1;
        if let Err(refusal) = answer {
            self.is_not_claimed(of, refusal.kind);
        }
    }
}

/// Whether Lambda has said that it did not accept an invocation.
fn is_refused(answer: &Answer) -> bool {
    answer.as_ref().is_err_and(|refusal| {
        let needs_a_person =
            matches!(refusal.kind, Some(FaultKind::Refused(_) | FaultKind::Configuration));
        needs_a_person || refusal.status == Some(429)
    })
}

fn failed(fault: Option<FaultKind>) -> Recall {
    Recall::Failed(fault.unwrap_or(FaultKind::Transient { retry_after: None }))
}
