//! Retries without an envelope: what the ledger's table has of their runs, and what must hold about that.
//!
//! The search knows of each failure which call has started its run. A failure may be taken for another run only as the
//! contract says: a call of which nobody knows whether it was accepted may be taken by any record with the same
//! payload, unless their traces differ. And what stands beyond the end of a page counts as not there, once there was
//! time to write it. From then on, the failure is expected to be what it was taken for.

use std::rc::Rc;

use comeback_core::{
    claim::{Claim, State as ClaimState},
    envelope::RetryMetadata,
    lineage::{Call, Key, Known, Siblings},
};
use comeback_flow::ports::Entered;
use wire::{More, Request, Write};

use crate::{
    calls::Made,
    invariants::{Checked, ensure},
    machine::{Millis, millis, since_beginning, timestamp},
    scopes::Kind,
    world::{Content, Failure, Item, SECOND, State, World},
};

const SKEW: Millis = 10 * SECOND;

/// What is written about a run is there this long after its failure, unless its sender has died.
const NOTED_WITHIN: Millis = 20 * SECOND;

/// What a search of all scopes has to come by: the points at which a handler may die, and what is found later.
pub const MUST_SEE: [&str; 26] = [
    "a death before the claim",
    "a death before the call",
    "a death before the note",
    "a death before the delete",
    "a claim whose answer is lost",
    "a claim that is repeated",
    "a call that is refused",
    "an accepted call without an answer, whose run succeeds",
    "an accepted call without an answer, whose run fails",
    "a call that is not accepted, and has no answer",
    "two accepted calls, the first without an answer",
    "two accepted calls without an answer",
    "a call that is not accepted and has no answer, and then an accepted one",
    "an accepted call without an answer, and then a refusal",
    "a call that is not accepted and has no answer, and then a refusal",
    "a note that is refused",
    "a note whose answer is lost",
    "a record before its note",
    "a record after the lease of its dead sender",
    "a record takes its call",
    "a record finds its call taken",
    "two records want one call",
    "a duplicate of what was answered",
    "a takeover beside an open call",
    "a stale miss",
    "a page without the call",
];

/// A call without an envelope.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Sent {
    /// Its handler, and the failure that it retries.
    pub run: u16,
    key: u32,
    /// The request id of the event's first failure.
    first_id: String,
    /// The request ids of its runs.
    accepted: Vec<String>,
    /// How many of its calls Lambda may have accepted, as far as its handler knows, under ids that nobody knows.
    doubts: u8,
    /// Whether a handler may not know, or could not write, what has become of it.
    is_unknown: bool,
    /// The runs that were taken for the one that it has started.
    taken_by: Vec<String>,
}

/// The name of a call whose SDK has made this one before it.
fn base(call: &str) -> &str {
    call.split('#').next().unwrap_or(call)
}

impl Failure {
    /// What an envelope would have said of its run.
    fn metadata_of_run(&self) -> String {
        let initial = timestamp(self.first_at).timestamp();
        let (attempt, id) = (self.attempts, &self.first_id);
        format!(r#"{{"attempt":{attempt},"initial_timestamp":{initial},"request_id":"{id}"}}"#)
    }
}

impl World {
    pub fn run_of(&self, key: u32) -> String {
        self.keys.get(key).run.clone()
    }

    /// The message of a handler's batch for whose failure this is the key.
    fn of_key(&self, state: &State, handler: usize, key: u32) -> Option<Rc<Content>> {
        self.batch_of(state, handler).find(|it| [it.failure.key, it.failure.run_key].contains(&key))
    }

    fn root(&self, event: usize) -> Option<String> {
        let trace = self.trace(event)?;
        let root = trace.split(';').find_map(|part| part.strip_prefix("Root="));
        root.map(str::to_owned)
    }

    pub fn known(&self, state: &State, key: u32) -> Option<Known> {
        Some(self.items.get(*state.items.get(&key)?).known.clone())
    }

    /// The items with the same target and payload.
    pub fn siblings<'s>(
        &'s self,
        state: &'s State,
        key: &'s Key,
    ) -> impl Iterator<Item = (String, Rc<Item>)> + 's {
        let all = state.items.iter().map(|(key, item)| (self.keys.get(*key), *item));
        let siblings = all.filter(move |(other, _)| other.id == key.id);
        siblings.map(|(other, item)| (other.run.clone(), self.items.get(item)))
    }

    /// Whether the table says that this failure was acted on.
    pub fn is_marked(&self, state: &State, key: u32) -> bool {
        let is_done =
            self.known(state, key).is_some_and(|known| known.claim.state == ClaimState::Done);
        let key = self.keys.get(key);
        let is_child = |known: &Known| {
            let parent = known.note.as_ref().and_then(|note| note.parent.as_ref());
            parent.is_some_and(|parent| parent.run == key.run)
        };
        is_done || self.siblings(state, &key).any(|(_, item)| is_child(&item.known))
    }

    /// Nobody knows any more what becomes of the calls of this handler.
    pub fn doubt(&self, state: &mut State, run: u16) {
        state.sent.values_mut().filter(|it| it.run == run).for_each(|it| it.is_unknown = true);
    }

    /// A handler dies.
    pub fn see_death(&mut self, state: &State, handler: usize) {
        let Some(run) = state.handlers[handler].as_ref().filter(|_| self.is_transparent()) else {
            return;
        };
        let node = self.machine.node(run.node);
        for (.., call) in &node.calls {
            let is_claim = matches!(call, Request::Write(it) if is_held(it.next.as_ref()));
            let is_call = matches!(call, Request::Invoke(_));
            let is_note = matches!(call, Request::Note { .. });
            self.seen.extend(is_claim.then_some("a death before the claim"));
            self.seen.extend(is_call.then_some("a death before the call"));
            self.seen.extend(is_note.then_some("a death before the note"));
        }
        let is_noted = run.acted.iter().any(|key| self.is_marked(state, *key));
        if node.kept.is_some() && is_noted {
            self.seen.insert("a death before the delete");
        }
    }

    /// From now on, a failure is expected to be that of a run with this metadata, or a first one.
    fn continues(&mut self, state: &mut State, key: u32, metadata: Option<&RetryMetadata>) {
        let mut renamed = Vec::new();
        for number in state.messages.iter().map(|message| message.content) {
            let content = self.contents.get(number);
            let is_its = [content.failure.key, content.failure.run_key].contains(&key);
            if !is_its || renamed.iter().any(|(from, _)| *from == number) {
                continue;
            }
            let failure = match metadata {
                Some(metadata) => Failure {
                    attempts: metadata.attempt.get(),
                    first_id: metadata.request_id.clone().unwrap_or_default(),
                    first_at: since_beginning(metadata.initial_timestamp),
                    ..content.failure.clone()
                },
                None => Failure {
                    attempts: 0,
                    first_id: self.run_of(key),
                    first_at: content.failure.at,
                    ..content.failure.clone()
                },
            };
            let next = self.contents.number(Content { failure, ..(*content).clone() });
            renamed.push((number, next));
        }
        let rename = |number: &mut u32| {
            let next = renamed.iter().find(|(from, _)| from == number);
            next.iter().for_each(|(_, to)| *number = *to);
        };
        state.messages.iter_mut().for_each(|message| rename(&mut message.content));
        let runs = state.handlers.iter_mut().flatten();
        runs.flat_map(|run| &mut run.batch).for_each(|(_, content, _)| rename(content));
    }

    /// A handler has looked the runs of its batch up.
    pub fn looked_up(
        &mut self,
        state: &mut State,
        handler: usize,
        key: &Key,
        entered: Option<&Entered>,
    ) -> Checked {
        let number = self.keys.number(key.clone());
        let content = self.of_key(state, handler, number).filter(|_| self.is_transparent());
        // The claim of what is left of a batch says nothing about its run.
        let is_of_run = |it: &Rc<Content>| it.failure.run_key == number && !it.failure.is_redriven;
        let Some(content) = content.filter(is_of_run) else {
            return Ok(());
        };
        let Some(entered) = entered else {
            let has_note = self.known(state, number).is_some_and(|known| known.note.is_some());
            self.seen.extend(has_note.then_some("a stale miss"));
            return Ok(());
        };
        if let Some(note) = &entered.known.note {
            self.continues(state, number, Some(&note.metadata));
            return Ok(());
        }
        ensure(content.failure.attempts == 0, "RecallsTruly", || {
            format!("{} is found without its note: {entered:?}", content.id)
        })
    }

    /// A handler reads the runs with one payload.
    pub fn read_siblings(
        &mut self,
        state: &mut State,
        key: &Key,
        only_children: bool,
        made: Made,
    ) -> Checked<Siblings> {
        let mut runs: Vec<_> =
            self.siblings(state, key).map(|(run, item)| (run, item.known.clone())).collect();
        runs.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let page =
            made.page().or(self.scope.page).filter(|page| !only_children && *page <= runs.len());
        let count = page.unwrap_or(runs.len());
        let is_read = |nth: usize, run: &str| nth < count || *run == key.run;
        let runs = runs.into_iter().enumerate().filter(|(nth, (run, _))| is_read(*nth, run));
        let runs = runs.map(|(_, run)| run).collect();
        let siblings = Siblings { runs, are_all: page.is_none() };
        let number = self.keys.number(key.clone());
        let content = self.of_key(state, made.handler, number);
        ensure(content.is_some(), "LooksUpOwn", || format!("{key:?} is of no message"))?;
        if only_children {
            let is_answered = self.is_marked(state, number);
            self.seen.extend(is_answered.then_some("a duplicate of what was answered"));
        } else if let Some(content) = content {
            self.check_recalled(state, made, &content, &siblings)?;
        }
        Ok(siblings)
    }

    /// Whether this call may have started the run of a failure, as far as the table says.
    fn may_be_its(
        &self,
        siblings: &Siblings,
        content: &Content,
        parent: &str,
        call: &Call,
    ) -> bool {
        let run = self.run_of(content.failure.key);
        let answers = |known: &Known| {
            let of = known.note.as_ref().and_then(|note| note.parent.as_ref());
            of.is_some_and(|of| of.run == parent && of.call == call.name)
        };
        call.taken_by.is_none()
            && self.is_of_trace(content, call)
            && millis(call.since) <= content.failure.at + SKEW
            && call.metadata.request_id.as_ref() != Some(&run)
            && !siblings.runs.iter().any(|(_, known)| answers(known))
    }

    fn is_of_trace(&self, content: &Content, call: &Call) -> bool {
        match (&call.root, self.root(content.event)) {
            (Some(sent), Some(received)) => *sent == received,
            _ => !call.is_repeated,
        }
    }

    fn check_recalled(
        &mut self,
        state: &mut State,
        made: Made,
        content: &Content,
        siblings: &Siblings,
    ) -> Checked {
        let (failure, key) = (&content.failure, content.failure.key);
        let id = self.run_of(key);
        if let Some(note) = siblings.own(&id).and_then(|known| known.note.as_ref()) {
            self.continues(state, key, Some(&note.metadata));
            return Ok(());
        }
        let calls =
            siblings.runs.iter().flat_map(|(run, it)| it.calls.iter().map(move |it| (run, it)));
        let calls: Vec<_> = calls.collect();
        if let Some((_, call)) = calls.iter().find(|(_, call)| call.taken_by.as_ref() == Some(&id))
        {
            self.continues(state, key, Some(&call.metadata));
            return Ok(());
        }
        let open = calls.iter().filter(|(run, it)| self.may_be_its(siblings, content, run, it));
        let open: Vec<_> = open.map(|(_, call)| millis(call.until)).collect();
        let noted_until = open.iter().copied().filter(|until| *until > made.at).max();
        let read_until =
            Some(failure.at + NOTED_WITHIN).filter(|it| !siblings.are_all && made.at < *it);
        let own = state.sent.values().find(|sent| sent.accepted.contains(&id)).cloned();
        if let Some(until) = noted_until.max(read_until) {
            let is_own =
                own.is_some_and(|it| state.handlers.iter().flatten().any(|run| run.name == it.run));
            self.seen.extend(is_own.then_some("a record before its note"));
            let runs = state.handlers[made.handler].iter_mut();
            runs.for_each(|run| run.unknown.push((key, until)));
            return Ok(());
        }
        if failure.attempts == 0 || (!open.is_empty() && siblings.are_all) {
            return Ok(());
        }
        // Nothing says what this run is.
        if !siblings.are_all {
            self.seen.insert("a page without the call");
        } else {
            let taken = own.as_ref().is_some_and(|own| !own.taken_by.is_empty());
            let has_root = self.root(content.event).is_some();
            let is_unseen = own.as_ref().is_some_and(|own| own.accepted.len() > 1 && !has_root);
            ensure(taken || is_unseen, "RecallsTruly", || {
                format!("{} has no note, and its call is gone: {own:?}", content.id)
            })?;
            self.seen.insert("a record finds its call taken");
        }
        self.continues(state, key, None);
        Ok(())
    }

    /// A message whose note may come waits no longer than that. Returns nothing if it does not wait for one.
    pub fn check_wait_for_note(
        &self,
        state: &State,
        handler: usize,
        content: &Content,
        until: Millis,
    ) -> Option<Checked> {
        let run = state.handlers[handler].as_ref()?;
        let (_, most) = run.unknown.iter().find(|(key, _)| *key == content.failure.key)?;
        // Its call may have been under way for long.
        let is_in_time = run.is_hit || until <= (*most).max(state.now) + SECOND;
        Some(ensure(is_in_time, "WaitsForNote", || {
            format!("{} waits until {until}, and a note comes by {most}", content.id)
        }))
    }

    /// The name of the call with which a handler retries a failure.
    fn call_name(&self, state: &State, handler: usize, key: u32) -> Option<String> {
        let run = state.handlers[handler].as_ref()?;
        let is_it =
            |(_, content, _): &(u16, u32, u8)| self.contents.get(*content).failure.key == key;
        Some(format!("run-{}/{}", run.name, run.batch.iter().position(is_it)?))
    }

    /// A handler is about to make a call, or makes it.
    fn sent<'s>(
        &self,
        state: &'s mut State,
        handler: usize,
        content: &Content,
    ) -> Option<&'s mut Sent> {
        let failure = &content.failure;
        let name = self.call_name(state, handler, failure.key)?;
        let run = state.handlers[handler].as_ref()?.name;
        let sent = state.sent.entry(name);
        Some(sent.or_insert_with(|| Sent {
            run,
            key: failure.key,
            first_id: failure.first_id.clone(),
            ..Sent::default()
        }))
    }

    /// Lambda accepts an invocation. Returns its request id.
    pub fn accept(&self, state: &mut State, handler: usize, content: &Content) -> String {
        let request_id = format!("r-{}", state.accepted);
        state.accepted += 1;
        let sent = self.sent(state, handler, content);
        sent.into_iter().for_each(|sent| sent.accepted.push(request_id.clone()));
        request_id
    }

    /// A handler has made a call, which Lambda may have accepted so often without an answer.
    pub fn doubts(&self, state: &mut State, handler: usize, content: &Content, doubts: u8) {
        let sent = self.sent(state, handler, content);
        sent.into_iter().for_each(|sent| {
            sent.doubts = doubts;
            sent.is_unknown |= doubts > 0;
        });
    }

    /// A write to the item of a run takes effect.
    pub fn write_run(&mut self, state: &mut State, handler: usize, write: &Write) -> Checked {
        let key = self.keys.number(write.key.clone());
        let Some(next) = &write.next else {
            self.write(state, key, None);
            return Ok(());
        };
        let there = self.known(state, key);
        let mut more = there.as_ref().map_or_else(More::default, More::of);
        let content = self.of_key(state, handler, key);
        if is_held(Some(next)) {
            let is_undelivered = content.as_ref().is_some_and(|it| it.failure.is_undelivered);
            ensure(write.calls.is_empty() || !is_undelivered, "OwnAttempts", || {
                format!("{:?}: a call is noted, and the event was never delivered", write.key)
            })?;
            let is_beside = more.calls.iter().any(|call| call.taken_by.is_none());
            self.seen.extend(is_beside.then_some("a takeover beside an open call"));
            for (call, content) in write.calls.iter().zip(content.clone()) {
                let expected = content.failure.metadata();
                ensure(call.metadata.to_json() == expected, "OwnAttempts", || {
                    format!("{}: expected {expected}, got {call:?}", content.id)
                })?;
                self.sent(state, handler, &content);
            }
        }
        if let Some(metadata) = &write.metadata {
            let expected = content.map(|it| it.failure.metadata_of_run()).unwrap_or_default();
            ensure(metadata.to_json() == expected, "OwnAttempts", || {
                format!("{:?}: expected {expected}, got {metadata:?}", write.key)
            })?;
        }
        more.write(write);
        if !is_held(Some(next)) {
            self.check_open(state, handler, key, &more.calls)?;
        }
        let waiting =
            write.waiting.as_ref().map(|entry| (millis(entry.due), entry.receipt_handle.clone()));
        let next = self.items.number(Item { known: known(more, next.clone()), waiting });
        self.write(state, key, Some(next));
        Ok(())
    }

    /// Of the calls of a handler, only those stay open that Lambda may have accepted under ids that nobody knows.
    fn check_open(&self, state: &State, handler: usize, key: u32, calls: &[Call]) -> Checked {
        let Some(name) = self.call_name(state, handler, key) else { return Ok(()) };
        let doubts = state.sent.get(&name).map_or(0, |sent| sent.doubts);
        let open = calls.iter().filter(|call| base(&call.name) == name).count();
        ensure(open <= usize::from(doubts), "OnlyUnknownIsOpen", || {
            format!("{doubts} calls of {name} have no answer, and open are {calls:?}")
        })
    }

    /// A handler notes the run that it has started.
    pub fn note(&mut self, state: &mut State, handler: usize, key: &Key, noted: &Known) -> Checked {
        let number = self.keys.number(key.clone());
        let note = noted.note.as_ref();
        let call = note.and_then(|note| note.parent.as_ref()).map(|it| it.call.clone());
        let sent = call.as_ref().and_then(|call| state.sent.get(call)).cloned().unwrap_or_default();
        let content = self.of_key(state, handler, sent.key);
        let expected = content.map(|content| content.failure.metadata()).unwrap_or_default();
        let parent = self.keys.get(sent.key);
        let is_right = sent.accepted.last() == Some(&key.run)
            && note.is_some_and(|note| note.metadata.to_json() == expected)
            && note.and_then(|note| note.parent.as_ref()).is_some_and(|it| it.run == parent.run)
            && key.id == parent.id
            && noted.claim.state == ClaimState::Noted;
        ensure(is_right, "NotesTruly", || {
            format!("{key:?}: {noted:?} of {sent:?}, expected {expected}")
        })?;
        self.check_open(state, handler, sent.key, &noted.calls)?;
        let there = state.items.get(&number).map(|item| self.items.get(*item));
        let item = match there.as_deref() {
            Some(Item { known: there, waiting }) => {
                let mut more = More::of(there);
                more.note(noted);
                Item { known: known(more, there.claim.clone()), waiting: waiting.clone() }
            }
            None => Item { known: noted.clone(), waiting: None },
        };
        let item = self.items.number(item);
        self.write(state, number, Some(item));
        // The failure is marked as retried.
        state.acts.entry(sent.key).or_default().may_repeat = false;
        Ok(())
    }

    /// A failure takes a call for the one that has started its run. Returns whether it is its own now.
    pub fn take_call(
        &mut self,
        state: &mut State,
        made: Made,
        of: &Key,
        call: &str,
        run: &str,
    ) -> Checked<bool> {
        let parent = self.keys.number(of.clone());
        let Some(Item { known, waiting }) =
            state.items.get(&parent).map(|item| (*self.items.get(*item)).clone())
        else {
            return Ok(false);
        };
        let Some(open) = known.calls.iter().find(|it| it.name == call) else { return Ok(false) };
        if open.taken_by.as_ref().is_some_and(|by| by != run) {
            self.seen.insert("two records want one call");
            return Ok(false);
        }
        let taker = self.keys.number(Key { id: of.id.clone(), run: run.to_owned() });
        let content = self.of_key(state, made.handler, taker);
        let sent = state.sent.get(base(call)).cloned();
        let (Some(content), Some(sent)) = (content, sent) else {
            ensure(false, "TakesOrphans", || format!("{run} takes {open:?} of nobody"))?;
            return Ok(false);
        };
        ensure(millis(open.until) <= made.at, "TakesOrphans", || {
            format!("{run} takes {open:?}, whose sender may live")
        })?;
        let is_answered = self.siblings(state, of).any(|(_, item)| {
            let note = item.known.note.as_ref();
            let parent = note.and_then(|note| note.parent.as_ref());
            parent.is_some_and(|parent| parent.run == of.run && parent.call == call)
        });
        ensure(!is_answered && sent.first_id != run, "TakesOrphans", || {
            format!("{run} takes {open:?}, whose run is known")
        })?;
        ensure(self.is_of_trace(&content, open), "TakesOrphans", || {
            format!("{run} takes {open:?} of another trace than that of event {}", content.event)
        })?;
        let is_own = sent.accepted.iter().any(|it| it == run);
        let is_excused = sent.is_unknown && !self.scope.is_exact;
        ensure(is_own || is_excused, "RecallsTruly", || format!("{run} is taken for {sent:?}"))?;
        self.seen.extend(is_own.then_some("a record takes its call"));
        let was_alive = sent.doubts == 0 && is_own;
        self.seen.extend(was_alive.then_some("a record after the lease of its dead sender"));
        let metadata = open.metadata.clone();
        let mut more = More::of(&known);
        more.take(call, run);
        let known = more.known(known.claim);
        let item = self.items.number(Item { known, waiting });
        self.write(state, parent, Some(item));
        if let Some(sent) = state.sent.get_mut(base(call)) {
            sent.taken_by.push(run.to_owned());
        }
        self.continues(state, taker, Some(&metadata));
        Ok(true)
    }

    /// The functions of these events have messages that may be those of retries without an envelope.
    pub fn is_recalled(&self, content: &Content) -> bool {
        self.is_transparent()
            && self.scope.events[content.event] != Kind::Queue
            && !content.failure.is_undelivered
            && !content.failure.is_of_mapping
            && !content.failure.is_redriven
    }
}

pub fn is_held(claim: Option<&Claim>) -> bool {
    claim.is_some_and(|claim| matches!(claim.state, ClaimState::Held { .. }))
}

/// What is known of a run. Its calls are in one order, so that equal states look equal.
fn known(mut more: More, claim: Claim) -> Known {
    more.calls.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    more.known(claim)
}
