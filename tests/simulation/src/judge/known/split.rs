//! Notices of several objects: a handler sends the notice of each object by itself, and then the whole
//! notice is done.
//!
//! Each part is the message of a failure of its own. The judge knows all parts of a notice, and counts what the queue
//! accepts. If a part is refused, or its handler dies between two of them, the notice comes back, and parts may be
//! there twice. A notice of which not every part was accepted must not be reported as done.

use std::sync::Arc;

use comeback_core::fault::FaultKind;
use comeback_local_model::sqs::{AttributeValue, Outgoing};
use wire::{Answer, Request};

use super::{Delivery, Known, Stranger, Subject, records::Fetch};
use crate::seen::Seen;

/// The attribute of a message that is about a part of a batch.
const PART: &str = "BatchPart";

/// What becomes of a notice of several objects.
pub const SPLIT: &str = "its parts";

/// The notice of one object of several, or of a part of a batch.
pub struct Part {
    of: PartOf,
    /// None for a part of a batch whose notice no queue has accepted yet.
    case: Option<usize>,
    trace: Arc<str>,
    /// Whether no other message about this failure has been there.
    is_first: bool,
}

enum PartOf {
    /// An object, by its notice.
    Objects(String),
    /// The records at these places of a batch. Its notice is that of the batch.
    Batch(String),
}

/// What a handler knows of the parts of a notice.
#[derive(Default)]
pub struct Split {
    parts: Vec<Sent>,
    /// The first fault that it was told.
    fault: Option<FaultKind>,
}

#[derive(Clone, Copy, Default, Eq, PartialEq)]
enum Sent {
    #[default]
    No,
    Asked,
    Accepted,
    Refused,
}

impl Known {
    /// A bucket tells of several objects at once. Each part is its body, and the trace of the failure that it is about.
    pub fn joins(
        &mut self,
        target: usize,
        notice: Stranger,
        trace: &str,
        parts: Vec<(String, Arc<str>)>,
    ) {
        self.stranger(target, Stranger { over: Some(SPLIT), ..notice }, trace);
        let mut joined: Vec<Part> = Vec::with_capacity(parts.len());
        for (body, trace) in parts {
            let Some(case) = self.case_with(&trace) else { continue };
            let is_first = joined.iter().all(|part| part.case != Some(case));
            joined.push(Part { of: PartOf::Objects(body), case: Some(case), trace, is_first });
            self.story
                .tell(self.now, self.cases[case].of.event, || "it is told with others".into());
        }
        if let Some(whole) = self.case_with(trace) {
            self.joined.insert(whole, joined);
        }
    }

    /// The batch with this trace is to be sent in parts, with traces of their own.
    pub fn is_to_be_divided(&mut self, trace: &str, traces: Vec<Arc<str>>) {
        let Some(index) = self.case_with(trace).filter(|_| !traces.is_empty()) else { return };
        let batch = self.events[self.event_of(index)].batch();
        let names = batch.into_iter().flat_map(|batch| batch.parts());
        let names = names.map(|part| format!("{}-{}", part.start(), part.end()));
        let parts = names.zip(traces).map(|(name, trace)| Part {
            of: PartOf::Batch(name),
            case: None,
            trace,
            is_first: true,
        });
        self.joined.insert(index, parts.collect());
    }

    /// What a handler that has just received the message of this case knows of its parts, if it has several. Those of a
    /// batch are known once its record was read.
    pub fn unsplit(&self, case: usize) -> Option<Box<Split>> {
        let parts = vec![Sent::No; self.joined.get(&case)?.len()];
        Some(Box::new(Split { parts, fault: None }))
    }

    /// Whether this call sends the parts of notices.
    pub fn splits(&self, request: &Request) -> bool {
        let Request::Again { messages, .. } = request else { return false };
        messages.iter().any(|message| {
            let trace = message.trace_header.as_deref().unwrap_or_default();
            let case = self.case_with(trace).filter(|case| self.joined.contains_key(case));
            let names_part = message.attributes.contains_key(PART);
            case.is_some_and(|case| !self.cases[case].is_of_mapping() || names_part)
        })
    }

    /// Whether this call sends the parts of batches, whose records are read by then.
    pub fn divides(&self, request: &Request) -> bool {
        let Request::Again { messages, .. } = request else { return false };
        self.splits(request) && messages.iter().any(|it| it.attributes.contains_key(PART))
    }

    /// Whether a handler may send nothing but the parts of this message. A batch has a failure, so it may wait as a
    /// delay if its parts can't be sent.
    pub fn is_to_be_split(&self, message: &Delivery) -> bool {
        let may_be_delayed =
            self.cases[message.case].is_of_mapping() && matches!(message.fetch, Fetch::Failed(_));
        message.split.is_some() && !may_be_delayed
    }

    /// The part of the notice at this place that a handler sends.
    pub fn part_sent(&self, (run, place): (u64, usize), sent: &Outgoing) -> Subject {
        let message = &self.runs[&run][place];
        let case = message.case;
        let knows = message.split.as_deref().map(|split| &*split.parts).unwrap_or_default();
        let mut parts = self.joined[&case].iter().zip(knows);
        let is_it = |of: &PartOf| match of {
            PartOf::Objects(body) => **body == *sent.body,
            PartOf::Batch(name) => {
                let named = sent.attributes.get(PART).map(|it| &it.value);
                let body = message.record().body.as_deref();
                matches!(named, Some(AttributeValue::String(it)) if it == name)
                    && body == Some(&*sent.body)
            }
        };
        let part = parts.position(|(part, known)| *known == Sent::No && is_it(&part.of));
        Subject { run, place, case, call: None, part }
    }

    /// A handler sends a part of a notice.
    pub fn sends_part(&mut self, of: Subject) {
        let split = self.message_mut(of.run, of.place).and_then(|it| it.split.as_deref_mut());
        if let (Some(split), Some(part)) = (split, of.part) {
            split.parts[part] = Sent::Asked;
        }
    }

    /// The trace of the message that a queue accepts. SQS keeps a trace as it is, but the judge tells failures apart by
    /// their traces, so each part gets that of its own failure.
    pub fn trace_of_part(&self, of: Subject) -> Option<&str> {
        Some(&self.joined.get(&of.case)?.get(of.part?)?.trace)
    }

    /// Whether a queue may refuse a message that is sent again. With each part that it refuses, the others come twice.
    pub fn may_refuse(&self, of: Subject) -> bool {
        of.part.is_none() || self.may_be_repeated(of.case)
    }

    /// Whether a failure, and each of those that its notice tells of, may have a fault that repeats its message.
    pub fn may_be_repeated(&self, index: usize) -> bool {
        let may = |case: usize| self.events[self.cases[case].of.event].may_fork();
        let parts = self.joined.get(&index);
        may(index) && parts.is_none_or(|parts| parts.iter().filter_map(|part| part.case).all(may))
    }

    /// A queue has accepted a part. Returns the case of which it is one more message.
    pub fn has_part(&mut self, of: Subject, nth: usize) -> Option<usize> {
        let part = self.joined.get_mut(&of.case)?.get_mut(nth)?;
        let (case, is_first) = (part.case, std::mem::take(&mut part.is_first));
        let case = match (case, &part.of) {
            (None, PartOf::Batch(name)) => {
                let (name, trace) = (name.clone(), Arc::clone(&part.trace));
                let case = self.has_part_of_batch(of.case, nth, &name, &trace)?;
                self.joined.get_mut(&of.case)?[nth].case = Some(case);
                case
            }
            (case, _) => case?,
        };
        let event = self.event_of(case);
        self.story
            .tell(self.now, event, || format!("run {}: its notice is sent by itself", of.run));
        if is_first {
            return None;
        }
        self.tally.count(Seen::Step("parts of notices sent twice"));
        let whole = self.event_of(of.case);
        self.events[whole].copies += 1;
        Some(case)
    }

    /// A handler received the answer to a part that it has sent. It waits for all of them. Returns whether this was the
    /// last part of a batch. No mark in the ledger says that a batch was sent in parts, so it may be sent again.
    pub fn told_of_part(&mut self, of: Subject, nth: usize, answer: &Answer) -> bool {
        let message = self.runs.get_mut(&of.run).and_then(|run| run.get_mut(of.place));
        let Some(message) = message else { return false };
        let Some(split) = message.split.as_deref_mut() else { return false };
        split.parts[nth] = if answer.is_ok() { Sent::Accepted } else { Sent::Refused };
        if let Err(refusal) = answer {
            self.tally.count(Seen::Step("parts of notices refused"));
            let kind = match refusal.kind {
                Some(FaultKind::Configuration) => FaultKind::Configuration,
                _ => FaultKind::Transient { retry_after: None },
            };
            split.fault.get_or_insert(kind);
        }
        if split.parts.iter().any(|part| matches!(part, Sent::No | Sent::Asked)) {
            return false;
        }
        let fault = split.fault;
        let event = self.cases[of.case].of.event;
        self.story.tell(self.now, event, || format!("run {} has split it: {fault:?}", of.run));
        if fault.is_some() {
            self.is_not_split(of.run, of.place, fault);
            return false;
        }
        message.done = true;
        let case = &mut self.cases[of.case];
        let is_batch = case.is_of_mapping();
        if !is_batch {
            message.fetch = Fetch::Read;
        }
        if case.acts == 0 {
            case.acts = 1;
            self.events[event].ends += 1;
            let step = if is_batch { "batches sent in parts" } else { "notices split" };
            self.tally.count(Seen::Step(step));
        }
        is_batch
    }

    /// A handler could not send every part because of this fault of the queue, and the notice is to wait.
    pub fn is_not_split(&mut self, run: u64, place: usize, fault: Option<FaultKind>) {
        let whose = format!("queue {}", self.runs[&run][place].queue());
        let known_for = self.meets(run, &whose, fault);
        let now = self.now;
        let (Some(message), Some(kind)) = (self.message_mut(run, place), fault) else { return };
        message.fetch = Fetch::Failed(kind);
        message.met(fault, known_for, now);
    }
}
