//! The calls that start retries without an envelope: what each makes, which runs it has started, and who has taken it.

use std::{num::NonZero, sync::Arc};

use comeback_core::{
    envelope::RetryMetadata,
    lineage::{self, Call},
};
use rustc_hash::FxHashMap;
use wire::{Found, Write};

use super::{
    Known, Open, Subject,
    cases::Case,
    deliveries::trace_of,
    recall::{FAILS_WITHIN, HOUR, SKEW},
};
use crate::{ids::Id, policy::Millis, seen::Seen};

/// How long SQS keeps the record of a failure.
const RETENTION: Millis = 14 * 24 * HOUR;

/// An item keeps at least this many open calls.
const CALLS_MIN: usize = 12;

/// All of them, which one has started each run, and what runs have taken: its metadata, and whether its event came in
/// a caller's envelope.
#[derive(Default)]
pub struct Calls {
    all: Vec<Sent>,
    by_run: FxHashMap<Id, usize>,
    adopted: FxHashMap<Id, (RetryMetadata, bool)>,
}

/// A call without an envelope, as the claim for it says.
pub struct Sent {
    /// The attempt that it makes.
    pub of: Open,
    pub name: String,
    /// The root of the trace that it sends.
    root: Option<String>,
    since: Millis,
    /// How many runs Lambda has accepted.
    accepted: u32,
    /// Whether its sender knows that there may be runs that it has no id of, or that there is none.
    is_unseen: bool,
    /// Whether it was removed because there were too many.
    is_pruned: bool,
    /// The runs that have taken it.
    taken: Vec<Id>,
}

/// The root of a trace header.
pub fn root_of(header: &str) -> Option<&str> {
    header.split(';').find_map(|member| member.strip_prefix("Root="))
}

impl Calls {
    pub fn sent(&self, call: usize) -> &Sent {
        &self.all[call]
    }

    /// The call that has started a run.
    pub fn started(&self, run: &Id) -> Option<usize> {
        self.by_run.get(run).copied()
    }

    /// A call is about to be made, maybe in the place of another.
    fn make(&mut self, before: Option<usize>, sent: Sent) -> usize {
        if let Some(before) = before {
            self.all[before] = sent;
            return before;
        }
        self.all.push(sent);
        self.all.len() - 1
    }

    /// The call with this name. The SDK's repeats of a call have its name, and a number.
    pub fn named(&self, name: &str) -> Option<usize> {
        let name = name.split('#').next();
        self.all.iter().rposition(|sent| Some(&*sent.name) == name)
    }

    /// A call has started a run. Returns what that is.
    fn accepted(&mut self, call: usize, run: Id) -> Open {
        self.by_run.insert(run, call);
        self.all[call].accepted += 1;
        self.all[call].of.clone()
    }

    /// A run has taken a call.
    fn take(&mut self, call: usize, run: Id, said: &RetryMetadata) {
        let sent = &mut self.all[call];
        sent.taken.push(run.clone());
        self.adopted.insert(run, (said.clone(), sent.of.is_foreign));
    }

    /// The metadata that a run has taken over, and whether it is foreign.
    pub fn adopted(&self, run: &Id) -> Option<&(RetryMetadata, bool)> {
        self.adopted.get(run)
    }

    /// Whether nobody can know that a run is a retry, if it has no note: another run was taken for it, its call is not
    /// kept any more, or its trace does not tell.
    pub fn may_begin_anew(&self, case: &Case, root: Option<&str>, now: Millis) -> bool {
        let sent = self.by_run.get(&case.request_id).map(|call| &self.all[*call]);
        sent.is_some_and(|sent| {
            let is_another = match (sent.root.as_deref(), root) {
                (Some(sent), Some(root)) => sent != root,
                (None, _) | (_, None) => sent.is_unseen || sent.accepted > 1,
            };
            let is_late = case.at > sent.since + FAILS_WITHIN
                || now > sent.since + FAILS_WITHIN + RETENTION - SKEW;
            let is_taken = sent.taken.iter().any(|by| *by != case.request_id);
            is_another || is_late || is_taken || sent.is_pruned
        })
    }
}

impl Known {
    /// A handler claims a failure, and names the call that it is about to make.
    pub fn is_sent(&mut self, run: u64, place: usize, call: &Call) {
        let Some(message) = self.runs.get(&run).and_then(|run| run.get(place)) else { return };
        let case = &self.cases[message.case];
        let next = || Some((case.of.clone(), case.verdict().ok()?.attempt));
        let Some((of, attempt)) = message.next.clone().or_else(next) else { return };
        let initial = NonZero::new(of.first_failure(case.at).div_euclid(1000));
        let sent = Sent {
            of: Open { attempt, initial, is_unwrapped: true, ..of },
            name: call.name.clone(),
            root: root_of(trace_of(message.record())).map(str::to_owned),
            since: self.now.timestamp_millis(),
            accepted: 0,
            is_unseen: false,
            is_pruned: false,
            taken: Vec::new(),
        };
        // It may take several looks at the claim to replace it.
        let message = self.runs.get_mut(&run).and_then(|run| run.get_mut(place));
        let Some(message) = message else { return };
        message.call = Some(self.calls.make(message.call, sent));
    }

    /// Lambda has accepted an invocation. Returns the run as it is known from now on.
    pub fn accepted_unwrapped(&mut self, of: Subject, request_id: &Arc<str>, open: Open) -> Open {
        let Some(index) = of.call else {
            return Open { is_unwrapped: self.cases[of.case].is_transparent, ..open };
        };
        let of = self.calls.accepted(index, Id::from(&**request_id));
        Open { event: open.event, target: open.target, trace: open.trace, ..of }
    }

    /// A handler has learned what became of its invocation.
    pub fn told_of_request(&mut self, of: Subject, found: &Found) {
        let Some(sent) = of.call.map(|sent| &mut self.calls.all[sent]) else { return };
        if let Found::Accepted { unanswered: earlier, .. } | Found::Unanswered(earlier) = found {
            sent.is_unseen |= *earlier > 0;
        }
    }

    /// The ledger has taken a write about the run of this subject. There were so many calls in its item before.
    pub fn has_written(&mut self, write: &Write, of: Option<Subject>, before: usize) {
        let own = of.and_then(|of| of.call);
        for name in &write.removed {
            let sent = self.calls.named(name).filter(|sent| Some(*sent) != own);
            if let Some(sent) = sent {
                self.calls.all[sent].is_pruned |= before >= CALLS_MIN;
            }
        }
    }

    /// The message whose failure was retried, if a handler notes the run that it has started with that.
    pub fn notes(&self, run: u64, known: &lineage::Known) -> Option<Subject> {
        let parent = known.note.as_ref()?.parent.as_ref()?;
        let place: usize = parent.call.rsplit('/').next()?.parse().ok()?;
        let message = self.batch(run).get(place)?;
        let (case, call) = (message.case, message.call);
        let is_it = self.cases[case].request_id == *parent.run;
        is_it.then_some(Subject { run, place, case, call, part: None })
    }

    /// The ledger has a note of a run, which marks the failure of its parent as retried.
    pub fn has_noted(&mut self, of: Option<Subject>) {
        self.tally.count(Seen::Step("notes"));
        of.into_iter().for_each(|of| self.marked(of));
    }

    /// The failure of a run has taken this call.
    pub fn has_taken(&mut self, call: &Call, taker: &str) {
        self.tally.count(Seen::Step("adoptions"));
        let id = Id::from(taker);
        let Some(taken) = self.calls.named(&call.name) else { return };
        let own = self.calls.started(&id);
        self.calls.take(taken, id, &call.metadata);
        let (event, said) = (self.calls.sent(taken).of.event, call.metadata.to_json());
        self.story.tell(self.now, event, || format!("{taker} takes {}: {said}", call.name));
        let attempt = |call: usize| self.calls.sent(call).of.attempt;
        if own.is_none_or(|own| attempt(own) != attempt(taken)) {
            self.tally.count(Seen::Step("attempts swapped"));
        }
    }
}
