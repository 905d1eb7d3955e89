//! The rules for a handler between the delivery of a batch and its answer, and for its claims if there is a ledger.

use std::{collections::BTreeSet, rc::Rc};

use aws_lambda_events::event::sqs::{SqsEvent, SqsMessage};
use comeback_core::{
    Timestamp,
    claim::{Claim, State},
    fault::FaultKind,
    lineage::Key,
};
use comeback_flow::report::{Outcome, Report};
use wire::{Answer, Origin, Refusal, Write};

use super::{
    Judge, Open, Subject,
    faults::LEDGER,
    promises::Happens,
    recall::Recall,
    records::Fetch,
    register::{LOOKS_MAX, Listing, Wait},
    split::Split,
};
use crate::{
    notes::{Check, Seen},
    rules::Millis,
};

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
    /// Since when its mapping had had no place for it, if it had none.
    pub behind_since: Option<Timestamp>,
    /// What the handler knows of its record.
    pub fetch: Fetch,
    /// What it knows of its parts, if it is the notice of several objects.
    pub split: Option<Box<Split>>,
    /// When the handler decided whether it is due, and which attempt of what it takes for the next. The batch may wait
    /// for other records and notes after that, and another handler may take the failure for that of another attempt.
    pub judged_at: Timestamp,
    pub next: Option<(Open, u32)>,
    /// When the handler begins no more acts.
    pub acts_until: Timestamp,
    /// When the handler invoked the target, by the handler's clock.
    pub invoked_at: Option<Millis>,
    /// The fault that the handler got as an answer, when, and for how long it had known of it by then.
    pub fault: Option<FaultKind>,
    pub fault_at: Timestamp,
    pub known_for: Millis,
    pub dead_letter_sent: bool,
    /// How often acting on it had an effect, which can't be undone.
    pub acts: u32,
    /// Whether the answer to an act is on its way to the handler.
    pub is_answered: bool,
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
    /// Whether the handler has marked or released its claim.
    pub concluded: bool,
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

impl Judge {
    pub fn delivered(&mut self, run: u64, event: &Rc<SqsEvent>) {
        let mut batch = Vec::with_capacity(event.records.len());
        for (nth, record) in event.records.iter().enumerate() {
            let Some(case) = self.receives(record) else {
                let what = format!("a message with an unknown trace, {}", trace_of(record));
                self.violated(Check::NothingUnexplained, None, what);
                continue;
            };
            let receive_count = receive_count(record);
            self.cases[case].receives += 1;
            self.story.tell(self.now, self.cases[case].of.event, || {
                format!("received by run {run}, for the {receive_count}. time")
            });
            let message_id = record.message_id.clone().unwrap_or_default();
            let holders = self.holders.entry(message_id.clone()).or_default();
            *holders += 1;
            if *holders > 1 {
                let case = &mut self.cases[case];
                case.permits += u16::from(!case.claimed);
            }
            let queue = self.plan.targets[self.cases[case].of.target].queue;
            let split = self.unsplit(case);
            let is_whole = split.is_none() && self.cases[case].place().is_none();
            batch.push(Delivery {
                case,
                batch: Rc::clone(event),
                nth,
                received_at: self.now,
                behind_since: self.figures.backlogs[queue].since,
                fetch: if is_whole { Fetch::Read } else { Fetch::Unread },
                split,
                ..Delivery::default()
            });
        }
        self.runs.insert(run, batch);
    }

    /// A handler has answered. `stays` tells whether the message with this handle is still in the queue. A message may
    /// stay although the handler is done with it: the answer was lost, or SQS has delivered it again meanwhile. Returns
    /// the keys of the failures that are over.
    pub fn answered(
        &mut self,
        run: u64,
        report: &Report,
        stays: impl Fn(&str) -> bool,
    ) -> Vec<Key> {
        let mut over = Vec::new();
        let Some(mut batch) = self.runs.remove(&run) else { return over };
        for (message, entry) in batch.iter().zip(&report.entries) {
            let Outcome::Invoked { lateness, .. } = entry.outcome else { continue };
            if self.plan.outage.is_some() {
                let target = self.cases[message.case].of.target;
                self.figures.lateness.entry(target).or_default().add(lateness);
            }
            if !lateness.is_zero()
                && let Some(at) = message.invoked_at
            {
                self.shown_exactly(message.case, at - lateness.as_millis() as Millis);
            }
        }
        self.concludes(run, &batch, report);
        batch.iter_mut().for_each(|message| self.is_tested(message));
        for (message, entry) in batch.iter().zip(&report.entries) {
            let case = &self.cases[message.case];
            // As long as a record is unread, only its notice can be judged.
            let is_known = message.is_read() || !case.strange;
            if case.is_refused && is_known && (entry.target.is_some() || entry.age.is_some()) {
                let what = format!("run {run} counts it for {:?}", entry.target);
                self.violated(Check::RefusedCountsForNone, case.of.event, what);
            }
        }
        let response = report.response();
        let kept: BTreeSet<&str> =
            response.batch_item_failures.iter().map(|item| item.item_identifier.as_str()).collect();
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
        for message in &batch {
            // What follows a fault may begin too late.
            if message.is_answered && message.fault.is_none() {
                let what = format!("run {run} has answered, and an answer was on its way to it");
                let event = self.cases[message.case].of.event;
                self.violated(Check::AwaitsAnswers, event, what);
            }
        }
        // If a message is in a batch twice, both stay or neither.
        let undone = batch.iter().filter(|message| !message.done);
        let undone: BTreeSet<&str> = undone.map(Delivery::message_id).collect();
        for message in &batch {
            let event = self.cases[message.case].of.event;
            let id = message.message_id();
            if kept.contains(id) != undone.contains(id) {
                let (is, said) = match message.done {
                    true => ("done", "stays in the queue"),
                    false => ("not done", "is done"),
                };
                let what = format!("a message is {is}, and run {run} says that it {said}");
                self.violated(Check::ReportsTruly, event, what);
            }
            let is_over = message.done || message.put_back;
            if message.claim.is_some() && is_over && !message.concluded {
                let what = format!("run {run} has acted or put it back, and leaves its claim");
                self.violated(Check::ClaimsEnd, event, what);
            }
            if self.is_unlisted(message) {
                let what = format!("run {run} lets it wait, and does not list it");
                self.violated(Check::ListsTruly, event, what);
            }
            let comes_back = stays(message.handle());
            self.let_go(run, message, comes_back);
            let is_held = self.holders.contains_key(message.message_id());
            if !comes_back && !is_held {
                over.extend(self.gone(message.case));
            }
        }
        over
    }

    /// A handler has ended without an answer.
    pub fn killed(&mut self, run: u64) {
        for message in self.runs.remove(&run).unwrap_or_default() {
            self.let_go(run, &message, true);
        }
        self.shows(None, Happens::Ends(run));
    }

    fn let_go(&mut self, run: u64, message: &Delivery, comes_back: bool) {
        if let Some(holders) = self.holders.get_mut(message.message_id()) {
            *holders -= 1;
            if *holders == 0 {
                self.holders.remove(message.message_id());
            }
        }
        if comes_back && message.copies > 0 && !message.copy_refused {
            self.stays_beside_its_copy(message.case);
        }
        let case = &mut self.cases[message.case];
        let has_no_mark = if case.claimed { !case.marked } else { comes_back };
        if has_no_mark && message.acts > 0 && !message.permitted {
            case.permits += 1;
            self.tally.count(Seen::Step("acts without their mark"));
        }
        self.story.tell(self.now, case.of.event, || {
            let fate = if comes_back { "comes back" } else { "is done" };
            format!("run {run} is over: the message {fate}")
        });
    }

    /// An invocation has shown its due time to the millisecond.
    fn shown_exactly(&mut self, index: usize, due: Millis) {
        let case = &mut self.cases[index];
        let Ok(next) = case.verdict() else { return };
        let event = case.of.event;
        let before = case.is_due_at(due);
        let (low, high) = next.due;
        if !(low..=high).contains(&due) {
            let what = format!("due at {due}, expected from {low} to {high}");
            self.violated(Check::BackoffInRange, event, what);
        } else if before.is_none() && next.is_even && high - low >= 10_000 {
            self.tally.draws[((due - low) * 10 / (high - low + 1)) as usize] += 1;
        }
    }

    /// A handler is about to write a claim, and may make other calls at the same time.
    pub fn claims(&mut self, run: u64, write: &Write) {
        let Some(of) = self.subject_of(run, write) else { return };
        if let (Some(batch), Some(Claim { state: State::Held { .. }, .. })) =
            (self.runs.get_mut(&run), &write.next)
        {
            let message = &mut batch[of.place];
            let is_first = message.written.is_none() && !message.compares;
            message.written.clone_from(&write.next);
            if is_first {
                self.judge_begin(run, of.place);
            }
        }
    }

    /// A handler begins to act on a message: it claims its failure, or retries it without a claim.
    pub fn judge_begin(&mut self, run: u64, place: usize) {
        let message = &self.runs[&run][place];
        let case = &self.cases[message.case];
        if self.is_guessed(message) {
            let (event, knows) = (case.of.event, message.recall);
            let what = format!("run {run} acts on it, and knows of its run: {knows:?}");
            return self.violated(Check::RecallsTruly, event, what);
        }
        if self.now > message.acts_until {
            let (event, until) = (case.of.event, message.acts_until);
            let what =
                format!("run {run} begins to act on it, and had time for that until {until}");
            self.violated(Check::ActsInTime, event, what);
        }
    }

    /// A handler writes to the ledger. Returns the message that the write is about.
    pub fn writes(&mut self, run: u64, write: &Write) -> Option<Subject> {
        let subject = self.subject_of(run, write)?;
        let is_claim = |next: &Claim| matches!(next.state, State::Held { .. });
        let is_claim = write.next.as_ref().is_some_and(is_claim);
        if let Some(call) = write.calls.first().filter(|_| is_claim) {
            self.is_sent(run, subject.place, call);
        }
        let call = self.runs[&run][subject.place].call;
        let subject = Subject { call, ..subject };
        if !is_claim {
            self.runs.get_mut(&run)?.get_mut(subject.place)?.concluded = true;
        }
        if let Some(entry) = &write.waiting {
            self.lists(subject, entry);
        }
        self.cases[subject.case].writes += 1;
        Some(subject)
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
        let is_refused = answer.as_ref().is_err_and(|refusal| refusal.found.is_some());
        let case = &mut self.cases[of.case];
        // Two runs may have received an event that others have brought forward, and one of them is refused.
        case.writes -= u16::from(is_refused);
        let event = case.of.event;
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
