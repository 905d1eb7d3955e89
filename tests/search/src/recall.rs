//! Retries without an envelope: the notes in the table, and what must hold about them.
//!
//! The search knows of each failure which invocation it is of. A failure may be taken for another event's only if a
//! fault has hit the sender of that one, and the other way round. From then on it is expected to be that.

use std::rc::Rc;

use comeback_core::{
    claim::{Claim, State as ClaimState},
    note::{self, Keys},
};
use wire::Noting;

use crate::{
    machine::{Millis, millis},
    rules::{Checked, ensure},
    world::{Content, FUNCTION, Failure, SECOND, State, World},
};

const SKEW: Millis = 10 * SECOND;

/// An invocation without an envelope, as its handler has announced it.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Sent {
    pub run: u16,
    /// The failure that it retries, and the metadata that it has.
    key: u32,
    metadata: u32,
    /// What its own failure would be: how often the event was attempted, and when and as what it has failed first.
    attempts: u32,
    first_id: String,
    first_at: Millis,
    /// The request ids of its invocations, and of those that have a note.
    accepted: Vec<String>,
    noted: Vec<String>,
    /// Whether its sender knows that it was accepted, and whether it may have been twice.
    told: Option<bool>,
    is_there: bool,
    is_left: bool,
    pub is_hit: bool,
    is_taken: bool,
}

fn function() -> &'static str {
    FUNCTION.trim_end_matches(":$LATEST")
}

impl World {
    fn request_id(&self, failure: &Failure) -> String {
        let key = self.keys.get(failure.key);
        key.rsplit('/').next().unwrap_or_default().to_owned()
    }

    fn note_key(&self, failure: &Failure) -> String {
        format!("note/{}/{}", function(), self.request_id(failure))
    }

    /// The messages of a handler for whose failure this is the key of a note.
    fn noted_by(&self, state: &State, handler: usize, key: &str) -> Option<Rc<Content>> {
        let batch = state.handlers[handler].iter().flat_map(|run| &run.batch);
        let mut contents = batch.map(|(_, content, _)| self.contents.get(*content));
        contents.find(|content| self.note_key(&content.failure) == key)
    }

    /// The sending under which this request id was accepted.
    fn own(&self, state: &State, failure: &Failure) -> Option<Sent> {
        let id = self.request_id(failure);
        state.sent.values().find(|sent| sent.accepted.contains(&id)).cloned()
    }

    /// From now on, a failure is expected to be taken for this.
    fn continues(&mut self, state: &mut State, key: u32, as_sent: Option<&Sent>) {
        let mut renamed = Vec::new();
        for number in state.messages.iter().map(|message| message.content) {
            let content = self.contents.get(number);
            if content.failure.key != key || renamed.iter().any(|(from, _)| *from == number) {
                continue;
            }
            let failure = match as_sent {
                Some(sent) => Failure {
                    attempts: sent.attempts,
                    first_id: sent.first_id.clone(),
                    first_at: sent.first_at,
                    ..content.failure.clone()
                },
                None => Failure {
                    attempts: 0,
                    first_id: self.request_id(&content.failure),
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

    /// A handler reads what there is for these failures.
    pub fn recall(
        &mut self,
        state: &mut State,
        handler: usize,
        keys: &[Keys],
    ) -> Checked<Vec<note::Found>> {
        let mut all = Vec::new();
        for Keys { note, sendings } in keys {
            let (note_key, sendings_key) = (note, sendings);
            let note = state.notes.get(&self.keys.number(note_key.clone())).copied();
            let sendings = state.sendings.get(&self.keys.number(sendings_key.clone()));
            let sendings: Vec<_> = sendings.into_iter().flatten().collect();
            let sendings = sendings.into_iter().map(|(_, it)| (*self.sendings.get(*it)).clone());
            let found = note::Found {
                note: note.map(|note| (*self.metadata.get(note)).clone()),
                sendings: sendings.collect(),
            };
            self.check_recalled(state, handler, note_key, &found)?;
            all.push(found);
        }
        Ok(all)
    }

    fn check_recalled(
        &mut self,
        state: &mut State,
        handler: usize,
        note_key: &str,
        found: &note::Found,
    ) -> Checked {
        let Some(content) = self.noted_by(state, handler, note_key) else { return Ok(()) };
        let failure = &content.failure;
        let own = self.own(state, failure);
        if found.note.is_some() {
            return Ok(());
        }
        let (now, id) = (state.now, self.request_id(failure));
        let may_be_its = |sending: &&note::Sending| {
            let first = sending.metadata.request_id.as_deref();
            millis(sending.since) <= failure.at + SKEW && first != Some(&*id)
        };
        let candidates: Vec<_> = found.sendings.iter().filter(may_be_its).collect();
        let leases = candidates.iter().map(|sending| millis(sending.until));
        if let Some(until) = leases.filter(|until| *until > now).max() {
            let runs = state.handlers[handler].iter_mut();
            runs.for_each(|run| run.unknown.push((failure.key, until)));
        } else if candidates.is_empty()
            && let Some(own) = own
        {
            ensure(own.is_taken, "RecallsTruly", || {
                format!("{} has no note, and its sending is gone: {own:?}", content.id)
            })?;
            self.continues(state, failure.key, None);
        }
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

    /// Lambda accepts an invocation. Returns its request id.
    pub fn accept(&self, state: &mut State, handler: usize, content: &Content) -> Checked<String> {
        let name = state.handlers[handler].as_ref().map(|run| run.name);
        let request_id = format!("r-{}", state.accepted);
        state.accepted += 1;
        let is_it = |it: &&mut Sent| Some(it.run) == name && it.key == content.failure.key;
        let sent = state.sent.values_mut().find(is_it);
        let sent = sent.filter(|sent| sent.is_there || sent.is_taken);
        ensure(sent.is_some(), "NotesFirst", || format!("{} is sent without a note", content.id))?;
        sent.into_iter().for_each(|sent| sent.accepted.push(request_id.clone()));
        Ok(request_id)
    }

    /// A handler learns that Lambda has accepted its invocation, unless the answer is lost.
    pub fn tell_of(
        &self,
        state: &mut State,
        handler: usize,
        content: &Content,
        is_repeated: bool,
        is_lost: bool,
    ) {
        let name = state.handlers[handler].as_ref().map(|run| run.name);
        let is_it = |it: &&mut Sent| Some(it.run) == name && it.key == content.failure.key;
        let sent = state.sent.values_mut().find(is_it).filter(|_| !is_lost);
        sent.into_iter().for_each(|sent| sent.told = Some(is_repeated));
    }

    /// A claim is written, with this change of the notes.
    pub fn note(
        &mut self,
        state: &mut State,
        handler: usize,
        key: u32,
        next: Option<&Claim>,
        noting: &Noting,
    ) -> Checked {
        if next.is_some_and(|next| matches!(next.state, ClaimState::Held { .. })) {
            self.announce(state, handler, key, noting)?;
        } else {
            self.check_noted(state, noting)?;
        }
        self.write_note(state, noting);
        Ok(())
    }

    fn write_note(&mut self, state: &mut State, noting: &Noting) {
        if let Some((key, metadata)) = &noting.note {
            let note = self.metadata.number(metadata.clone());
            state.notes.insert(self.keys.number(key.clone()), note);
        }
        let senders = state.sendings.entry(self.keys.number(noting.sendings.clone())).or_default();
        match &noting.sending {
            Some(sending) => {
                senders.insert(noting.sender.clone(), self.sendings.number(sending.clone()));
            }
            None => drop(senders.remove(&noting.sender)),
        }
    }

    fn announce(
        &mut self,
        state: &mut State,
        handler: usize,
        key: u32,
        noting: &Noting,
    ) -> Checked {
        let name = self.keys.get(key);
        let batch = state.handlers[handler].iter().flat_map(|run| &run.batch);
        let mut contents = batch.map(|(_, content, _)| self.contents.get(*content));
        let content = contents.find(|content| content.failure.key == key);
        let run = state.handlers[handler].as_ref().map_or(0, |run| run.name);
        let (Some(content), Some(sending), None) = (content, &noting.sending, &noting.note) else {
            return ensure(false, "NotesTruly", || format!("{name}: {noting:?}"));
        };
        let failure = &content.failure;
        let is_right = sending.metadata.to_json() == failure.metadata();
        ensure(is_right, "NotesTruly", || {
            format!("{name}: expected {}, got {noting:?}", failure.metadata())
        })?;
        let sent = Sent {
            run,
            key,
            metadata: self.metadata.number(sending.metadata.clone()),
            attempts: failure.attempts + 1,
            first_id: failure.first_id.clone(),
            first_at: failure.first_at.div_euclid(SECOND) * SECOND,
            is_there: true,
            ..Sent::default()
        };
        state.sent.insert(noting.sender.clone(), sent);
        Ok(())
    }

    fn check_noted(&mut self, state: &mut State, noting: &Noting) -> Checked {
        let metadata = noting.note.as_ref().map(|(_, it)| self.metadata.number(it.clone()));
        let Some(sent) = state.sent.get_mut(&noting.sender) else {
            return ensure(false, "NotesTruly", || format!("nobody has announced {noting:?}"));
        };
        if let Some((key, _)) = &noting.note {
            let is_it = |id: &&String| *key == format!("note/{}/{id}", function());
            let id = sent.accepted.iter().find(is_it).cloned();
            ensure(id.is_some() && metadata == Some(sent.metadata), "NotesTruly", || {
                format!("{noting:?} of {sent:?}")
            })?;
            sent.noted.extend(id);
        }
        let is_kept = noting.sending.is_some();
        let unnoted = sent.accepted.iter().any(|id| !sent.noted.contains(id));
        ensure(is_kept || !unnoted, "SendingsStay", || format!("{noting:?} removes {sent:?}"))?;
        let is_needless = is_kept && noting.note.is_some() && sent.told == Some(false);
        ensure(!is_needless, "SendingsStay", || format!("{noting:?} keeps {sent:?}"))?;
        sent.is_left |= is_kept;
        sent.is_there = is_kept;
        Ok(())
    }

    /// A claim that ends also ends what was announced with it.
    pub fn check_ends_sending(
        &self,
        state: &State,
        handler: usize,
        key: u32,
        next: Option<&Claim>,
        noting: Option<&Noting>,
    ) -> Checked {
        let is_end = !next.is_some_and(|next| matches!(next.state, ClaimState::Held { .. }));
        let name = state.handlers[handler].as_ref().map(|run| run.name);
        let is_open = |sent: &&Sent| sent.key == key && Some(sent.run) == name;
        let open = state.sent.values().find(is_open).filter(|_| is_end);
        let has_note = noting.is_some_and(|noting| noting.note.is_some());
        let is_ended = |sent: &Sent| noting.is_some() && (sent.told.is_none() || has_note);
        ensure(open.is_none_or(is_ended), "SendingsStay", || format!("{open:?}: {noting:?}"))
    }

    /// A failure takes a sending, if it is still there.
    pub fn adopt(&mut self, state: &mut State, handler: usize, noting: &Noting) -> Checked<bool> {
        let senders = state.sendings.get(&self.keys.number(noting.sendings.clone()));
        if !senders.is_some_and(|senders| senders.contains_key(&noting.sender)) {
            return Ok(false);
        }
        let content = noting.note.as_ref().and_then(|(key, _)| self.noted_by(state, handler, key));
        let (Some(content), Some(sent)) = (content, state.sent.get(&noting.sender).cloned()) else {
            ensure(false, "AdoptsOrphans", || format!("nobody's is {noting:?}"))?;
            return Ok(false);
        };
        let id = self.request_id(&content.failure);
        let mut runs = state.handlers.iter().flatten();
        let is_at_work = runs.any(|run| run.name == sent.run) && !sent.is_left;
        ensure(!is_at_work, "AdoptsOrphans", || format!("its sender is at work: {sent:?}"))?;
        let metadata = noting.note.as_ref().map(|(_, it)| self.metadata.number(it.clone()));
        let is_true = metadata == Some(sent.metadata) && noting.sending.is_none();
        ensure(is_true && sent.first_id != id, "AdoptsOrphans", || {
            format!("{id} takes {sent:?} as {noting:?}")
        })?;
        let is_own = sent.accepted.contains(&id);
        let is_excused = sent.is_hit && !self.is_calm(state) && !self.scope.is_exact;
        ensure(is_own || is_excused, "RecallsTruly", || format!("{id} is taken for {sent:?}"))?;
        self.continues(state, content.failure.key, Some(&sent));
        self.write_note(state, noting);
        if let Some(sent) = state.sent.get_mut(&noting.sender) {
            sent.is_there = false;
            sent.is_taken = true;
            sent.noted.extend(is_own.then_some(id));
        }
        Ok(true)
    }
}
