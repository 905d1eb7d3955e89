//! What a handler knows and does between the delivery of a batch and its answer, also of claims if there is a ledger.

use std::{collections::BTreeSet, rc::Rc};

use aws_lambda_events::event::sqs::{SqsEvent, SqsMessage};
use comeback_core::{
    Timestamp,
    claim::{Claim, State},
    fault::FaultKind,
};
use comeback_flow::report::{Outcome, Report};
use wire::{Answer, Origin, Refusal, Write};

use super::{
    Known, Open, Subject,
    faults::LEDGER,
    recall::Recall,
    records::Fetch,
    register::{LOOKS_MAX, Listing, Wait},
    split::Split,
};
use crate::{policy::Millis, seen::Seen};

/// A fault, and for how long its handler had known of it when it met it.
pub type Met = (FaultKind, Millis);

/// A message that a handler has received, and what the handler has done about it.
#[derive(Default)]
pub struct Delivery {
    pub case: usize,
    /// The batch, and the message's position in it.
    batch: Rc<SqsEvent>,
    nth: usize,
    pub process: usize,
    pub received_at: Timestamp,
    /// What the handler knows of its record.
    pub fetch: Fetch,
    /// What it knows of its parts, if it is the notice of several objects.
    pub split: Option<Box<Split>>,
    /// When the handler decided whether it is due, and which attempt of what it takes for the next. The batch may wait
    /// for other records and notes after that, and another handler may take the failure for that of another attempt.
    pub judged_at: Timestamp,
    pub next: Option<(Open, u32)>,
    /// When the handler invoked the target, by the handler's clock.
    pub invoked_at: Option<Millis>,
    /// The fault that the handler got as an answer, when, and for how long it had known of it by then.
    pub fault: Option<FaultKind>,
    pub fault_at: Timestamp,
    pub known_for: Millis,
    pub dead_letter_sent: bool,
    /// How often acting on it had an effect, which can't be undone.
    pub acts: u32,
    /// Whether the handler was told that its act failed, and whether there is a permit for an act that took effect.
    pub act_refused: bool,
    pub permitted: bool,
    pub done: bool,
    pub claim: Option<Claim>,
    /// Whether the handler has sent it again, how many copies there are, and whether the handler was told that this
    /// worked or failed.
    pub sent: bool,
    pub copies: u32,
    pub copy_accepted: bool,
    pub copy_refused: bool,
    pub put_back: bool,
    /// How often the handler found another claim than the one that it had seen.
    pub looks: u32,
    /// The claim that the handler wrote last, whether or not it knows the outcome of the write.
    pub written: Option<Claim>,
    /// The number of the last answer about this message, counting all answers.
    pub told: u64,
    /// When another handler's lease on the claim ends, according to this handler's last read.
    pub held_until: Option<Millis>,
    pub held_by_circuit: bool,
    /// The wait that the handler has asked for, and what the handler knows from the register.
    pub wait: Option<Wait>,
    pub listing: Listing,
    /// What the handler knows of the run, and whether it asks no more.
    pub recall: Recall,
    pub is_past: bool,
    /// Whether it has read whether the failure was retried, before it claims it; and the call that it makes.
    pub compares: bool,
    pub call: Option<usize>,
}

impl Delivery {
    pub fn record(&self) -> &SqsMessage {
        &self.batch.records[self.nth]
    }

    pub fn message_id(&self) -> &str {
        self.record().message_id.as_deref().unwrap_or_default()
    }

    pub fn handle(&self) -> &str {
        self.record().receipt_handle.as_deref().unwrap_or_default()
    }

    /// Whether a call is about this message.
    pub fn is_origin(&self, origin: Origin) -> bool {
        Origin::of(Some(trace_of(self.record()))) == origin
    }

    /// The claim that the handler holds or may hold: a handler also releases a claim whose write was never answered.
    pub fn held(&self) -> Option<&Claim> {
        self.claim.as_ref().or(self.written.as_ref())
    }

    /// Records the fault that the handler got as an answer, if any.
    pub fn met(&mut self, fault: Option<FaultKind>, known_for: Millis, now: Timestamp) {
        if fault.is_some() {
            self.fault = fault;
            self.fault_at = now;
            self.known_for = known_for;
        }
    }

    pub fn queue(&self) -> &str {
        let source = self.record().event_source_arn.as_deref().unwrap_or_default();
        source.rsplit(':').next().unwrap_or_default()
    }
}

pub fn trace_of(record: &SqsMessage) -> &str {
    record.attributes.get("AWSTraceHeader").map(String::as_str).unwrap_or_default()
}

/// Whether SQS has moved it from another queue.
pub fn was_moved(record: &SqsMessage) -> bool {
    record.attributes.contains_key("DeadLetterQueueSourceArn")
}

pub fn time_of(record: &SqsMessage, name: &str) -> Millis {
    let time = record.attributes.get(name);
    time.and_then(|time| time.parse().ok()).unwrap_or_default()
}

pub fn receive_count(record: &SqsMessage) -> u32 {
    let count = record.attributes.get("ApproximateReceiveCount");
    count.and_then(|count| count.parse().ok()).unwrap_or_default()
}

impl Known {
    /// A handler has received a batch. Returns the case of each message, and whether another handler has it too.
    pub fn delivered(&mut self, run: u64, event: &Rc<SqsEvent>) -> Vec<(Option<usize>, bool)> {
        let mut batch = Vec::with_capacity(event.records.len());
        let mut received = Vec::with_capacity(event.records.len());
        for (nth, record) in event.records.iter().enumerate() {
            let Some(case) = self.receives(record) else {
                received.push((None, false));
                continue;
            };
            let receive_count = receive_count(record);
            self.story.tell(self.now, self.cases[case].of.event, || {
                format!("received by run {run}, for the {receive_count}. time")
            });
            let message_id = record.message_id.clone().unwrap_or_default();
            let holders = self.holders.entry(message_id).or_default();
            *holders += 1;
            received.push((Some(case), *holders > 1));
            let split = self.unsplit(case).filter(|_| !self.cases[case].is_of_mapping());
            let is_whole = split.is_none() && self.cases[case].place().is_none();
            batch.push(Delivery {
                case,
                batch: Rc::clone(event),
                nth,
                received_at: self.now,
                fetch: if is_whole { Fetch::Read } else { Fetch::Unread },
                split,
                ..Delivery::default()
            });
        }
        self.runs.insert(run, batch);
        received
    }

    /// A handler has answered. Returns the failures whose due times it has shown to the millisecond, and these times.
    pub fn shown_by(&mut self, run: u64, report: &Report) -> Vec<(usize, Millis)> {
        let mut shown = Vec::new();
        for (message, entry) in self.runs.get(&run).into_iter().flatten().zip(&report.entries) {
            let Outcome::Invoked { lateness, .. } = entry.outcome else { continue };
            if self.plan.outage.is_some() {
                let target = self.cases[message.case].of.target;
                self.figures.lateness.entry(target).or_default().add(lateness);
            }
            let at = message.invoked_at.filter(|_| !lateness.is_zero());
            shown.extend(at.map(|at| (message.case, at - lateness.as_millis() as Millis)));
        }
        shown
    }

    /// An invocation has shown its due time to the millisecond.
    pub fn shown_exactly(&mut self, index: usize, due: Millis) {
        let case = &mut self.cases[index];
        let Ok(next) = case.verdict() else { return };
        let before = case.is_due_at(due);
        let (low, high) = next.due;
        let is_even = next.is_even && high - low >= 10_000 && (low..=high).contains(&due);
        if before.is_none() && is_even {
            self.tally.draws[((due - low) * 10 / (high - low + 1)) as usize] += 1;
        }
    }

    /// A handler has answered, and so it is done with what it has dropped.
    pub fn drops(&mut self, run: u64, report: &Report) {
        let response = report.response();
        let kept: BTreeSet<&str> =
            response.batch_item_failures.iter().map(|item| item.item_identifier.as_str()).collect();
        let mut batch = self.runs.remove(&run).unwrap_or_default();
        batch.iter_mut().for_each(|message| self.is_of_nothing(message));
        for message in &mut batch {
            // A failure that the ledger showed as done needn't be claimed.
            let compared = message.compares && message.claim.is_none() && !message.done;
            if (message.listing.is_done() || compared)
                && !message.put_back
                && !kept.contains(message.message_id())
            {
                message.done = true;
                self.tally.count(Seen::Step("duplicates dropped"));
            }
        }
        self.runs.insert(run, batch);
    }

    /// A run is over. Returns what it had received.
    pub fn ends(&mut self, run: u64) -> Vec<Delivery> {
        self.circuits.remove(&run);
        self.runs.remove(&run).unwrap_or_default()
    }

    /// A run that is over has a message no more. Returns whether the ledger lacks the mark of an act, so that the
    /// failure may be acted on again.
    pub fn let_go(&mut self, run: u64, message: &Delivery, comes_back: bool) -> bool {
        let case = &self.cases[message.case];
        let has_no_mark = if case.claimed { !case.marked } else { comes_back };
        let may_repeat = has_no_mark && message.acts > 0 && !message.permitted;
        if may_repeat {
            self.tally.count(Seen::Step("acts without their mark"));
        }
        self.story.tell(self.now, case.of.event, || {
            let fate = if comes_back { "comes back" } else { "is done" };
            format!("run {run} is over: the message {fate}")
        });
        may_repeat
    }

    /// A handler has a message no more. Returns whether another one still has it.
    pub fn is_still_held(&mut self, message: &Delivery) -> bool {
        let Some(holders) = self.holders.get_mut(message.message_id()) else { return false };
        *holders -= 1;
        if *holders == 0 {
            self.holders.remove(message.message_id());
        }
        self.holders.contains_key(message.message_id())
    }

    /// A handler is about to write a claim, and may make other calls at the same time. Returns its message, if the
    /// handler begins to act on it with that.
    pub fn claims(&mut self, run: u64, write: &Write) -> Option<Subject> {
        let of = self.subject_of(run, write)?;
        let message = self.runs.get_mut(&run)?.get_mut(of.place)?;
        let Some(Claim { state: State::Held { .. }, .. }) = &write.next else { return None };
        let is_first = message.written.is_none() && !message.compares;
        message.written.clone_from(&write.next);
        is_first.then_some(of)
    }

    /// A handler writes to the ledger. Returns the message that the write is about.
    pub fn writes(&mut self, run: u64, write: &Write) -> Option<Subject> {
        let subject = self.subject_of(run, write)?;
        if let Some(call) = write.calls.first().filter(|_| is_claim(write)) {
            self.is_sent(run, subject.place, call);
        }
        let call = self.runs[&run][subject.place].call;
        Some(Subject { call, ..subject })
    }

    /// The message that a write to the ledger is about. If a batch has several copies of one message, the owner's name
    /// tells the position.
    fn subject_of(&self, run: u64, write: &Write) -> Option<Subject> {
        let claim = write.next.as_ref().or(write.seen.as_ref())?;
        let named = claim.token.owner.rsplit('/').next().and_then(|nth| nth.parse::<usize>().ok());
        let batch = self.runs.get(&run)?;
        let is_it = |place: &usize| {
            let message = batch.get(*place);
            message.is_some_and(|message| self.cases[message.case].has_key(&write.key, &self.plan))
        };
        let place = named.filter(is_it).or_else(|| (0..batch.len()).find(is_it))?;
        let Delivery { case, call, .. } = batch[place];
        let is_right = self.key(&self.cases[case]) == write.key || self.is_outdated(&batch[place]);
        is_right.then_some(Subject { run, place, case, call, part: None })
    }

    /// The ledger has the mark of a case that was acted on.
    pub fn marked(&mut self, of: Subject) {
        let case = &mut self.cases[of.case];
        case.marked = true;
        case.order = None;
        self.story.tell(self.now, case.of.event, || format!("run {}: marked as done", of.run));
    }

    /// A handler received the answer to a write to the ledger.
    pub fn told_of_claim(&mut self, of: Subject, write: &Write, answer: &Answer) {
        self.answers += 1;
        let event = self.event_of(of.case);
        let message = self.runs.get_mut(&of.run).and_then(|run| run.get_mut(of.place));
        let (Some(message), Some(next)) = (message, &write.next) else { return };
        self.story.tell(self.now, event, || format!("run {}: the ledger says {answer:?}", of.run));
        match next.state {
            State::Held { .. } => {}
            State::Waiting => return self.told_of_listing(of, write, answer),
            State::Noted | State::Done => return,
        }
        message.held_until = None;
        message.looks += u32::from(answer.as_ref().is_err_and(|refusal| refusal.found.is_some()));
        let transient = FaultKind::Transient { retry_after: None };
        let fault = match answer {
            _ if message.looks == LOOKS_MAX => Some(transient),
            Err(Refusal { found: None, kind, .. }) => Some(kind.unwrap_or(transient)),
            Ok(()) | Err(_) => None,
        };
        if fault.is_some() {
            return self.is_not_claimed(of, fault);
        }
        match answer.as_ref().map_err(|refusal| &refusal.found) {
            Ok(()) => {
                message.told = self.answers;
                message.claim = Some(next.clone());
            }
            Err(Some(Some(there))) if there.claim.token.owner == next.token.owner => {
                message.told = self.answers;
                message.claim = Some(there.claim.clone());
            }
            Err(Some(Some(there))) => match there.claim.state {
                State::Held { until } => {
                    message.listing.excused = true;
                    message.told = self.answers;
                    message.held_until = Some(until.timestamp_millis());
                }
                State::Noted | State::Waiting => {}
                State::Done => {
                    message.done = true;
                    self.tally.count(Seen::Step("duplicates dropped"));
                }
            },
            Err(Some(None) | None) => {}
        }
    }

    /// A handler could not claim a failure, because of this fault of the ledger.
    pub fn is_not_claimed(&mut self, of: Subject, fault: Option<FaultKind>) {
        let fault = fault.or(Some(FaultKind::Transient { retry_after: None }));
        let known_for = self.meets(of.run, LEDGER, fault);
        let (now, answers) = (self.now, self.answers);
        let message = self.runs.get_mut(&of.run).and_then(|run| run.get_mut(of.place));
        let Some(message) = message else { return };
        message.listing.excused = true;
        message.told = answers;
        message.met(fault, known_for, now);
    }
}

/// Whether a write claims a failure.
pub fn is_claim(write: &Write) -> bool {
    write.next.as_ref().is_some_and(|next| matches!(next.state, State::Held { .. }))
}
