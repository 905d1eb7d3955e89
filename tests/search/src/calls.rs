//! The calls of handlers, as the queue, the table and the targets take and answer them.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use comeback_core::{
    arn::queue_url,
    claim::{State as ClaimState, is_same},
    dead_letter::DeadLetter,
    fault::FaultKind,
    lineage::{Key, Known},
};
use comeback_flow::ports::{Entered, Listed, Listing, Stored};
use comeback_local_model::sqs::Outgoing;
use wire::{Answer, Exchange, Found, Invoke, Refusal, Reply, Request, Write};

use crate::{
    invariants::{Checked, ensure},
    machine::{Input, Millis, Node, RETRY_QUEUE, millis, text_attributes, timestamp},
    recall::is_held,
    world::{Act, Content, FUNCTION, Flight, Form, Item, SECOND, State, World, is_retry_queue},
};

/// How a call ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    Answered,
    /// It takes effect, but its answer is an error.
    Lost,
    /// The SDK repeats a call that has taken effect, and the second one is answered. A write finds its own first one.
    Repeated,
    /// It takes no effect, and its answer is an error that says nothing of that.
    Unsent,
    /// SQS refuses the first entry only.
    Partly,
    /// Lambda says that it has not accepted it.
    Refused,
    /// The SDK repeats a call that took no effect and had no answer.
    Doubted,
    /// The SDK repeats a call that has taken effect, and no call is answered.
    LostTwice,
    /// The SDK repeats a call that has taken effect, and Lambda refuses the second one.
    LostThenRefused,
    /// The SDK repeats a call that took no effect and had no answer, and Lambda refuses the second one.
    UnsentThenRefused,
    /// A read that is not consistent misses the writes of this moment.
    Stale,
    /// A page of a read ends after so many entries.
    Cut(usize),
}

impl Way {
    pub fn takes(self) -> bool {
        !matches!(self, Self::Unsent | Self::Refused | Self::UnsentThenRefused)
    }

    /// How many runs an invocation starts, of which nobody learns the id.
    fn unseen(self) -> u8 {
        let is_one = matches!(self, Self::Lost | Self::LostThenRefused | Self::Repeated);
        if self == Self::LostTwice { 2 } else { u8::from(is_one) }
    }

    fn is_lost(self) -> bool {
        matches!(self, Self::Lost | Self::LostTwice | Self::LostThenRefused)
    }

    /// How many of its calls Lambda may have accepted, as far as a handler learns, without the one that is answered.
    fn doubts(self) -> u8 {
        let is_one = matches!(self, Self::Unsent | Self::UnsentThenRefused | Self::Doubted);
        self.unseen() + u8::from(is_one)
    }

    /// Whether a handler does not learn what its call does.
    fn hits(self) -> bool {
        !matches!(self, Self::Answered | Self::Refused | Self::Stale | Self::Cut(_))
    }

    /// The runs of an invocation that may fail, as sets of bits.
    pub fn failures(self, is_transparent: bool) -> std::ops::Range<u8> {
        let runs = if is_transparent { self.runs() } else { 1 };
        0..1 << if self.takes() { runs } else { 0 }
    }

    fn runs(self) -> u8 {
        self.unseen() + u8::from(self.takes() && !self.is_lost())
    }
}

/// A call that takes effect.
#[derive(Clone, Copy)]
pub struct Made {
    pub handler: usize,
    /// When the handler has made it.
    pub at: Millis,
    way: Way,
    /// Which runs of the target that is invoked fail: a bit for each.
    fails: u8,
}

impl Made {
    fn is_lost(self) -> bool {
        self.way.is_lost()
    }

    /// After how many entries a page ends.
    pub fn page(self) -> Option<usize> {
        if let Way::Cut(count) = self.way { Some(count) } else { None }
    }

    /// What the handler learns of the effect on the nth entry.
    fn answer(self, nth: usize) -> Answer {
        if matches!(self.way, Way::Refused | Way::LostThenRefused | Way::UnsentThenRefused) {
            let kind = FaultKind::Transient { retry_after: None };
            return Err(Refusal::of("TooManyRequestsException", 429, kind));
        }
        if self.takes(nth) && !self.is_lost() { Ok(()) } else { Err(Refusal::default()) }
    }

    pub fn takes(self, nth: usize) -> bool {
        self.way.takes() && (self.way != Way::Partly || nth > 0)
    }

    /// The entries that take effect.
    fn taken<T>(self, entries: &[T]) -> impl Iterator<Item = &T> {
        let taken = entries.iter().enumerate().filter(move |(nth, _)| self.takes(*nth));
        taken.map(|(_, entry)| entry)
    }

    /// What a conditional write has found instead of what was seen, if its handler learns that: what it has written
    /// itself before, or what is there.
    fn found<T>(self, is_seen: bool, first: T, there: T) -> Option<T> {
        match (self.way, is_seen) {
            (Way::Repeated, true) => Some(first),
            (Way::Answered | Way::Repeated, false) => Some(there),
            _ => None,
        }
    }
}

impl World {
    pub fn call(
        &mut self,
        state: &mut State,
        handler: usize,
        nth: usize,
        way: Way,
        fails: u8,
    ) -> Checked {
        let Some(run) = &mut state.handlers[handler] else { return Ok(()) };
        run.is_hit |= way.hits();
        run.is_refused |= way == Way::Refused;
        state.left.faults -= u8::from(way != Way::Answered);
        let number = run.node;
        let node = self.machine.node(number);
        let Some((_, at, call)) = node.calls.iter().find(|(other, ..)| *other == nth) else {
            return Ok(());
        };
        let made = Made { handler, at: *at, way, fails };
        let takes = made.takes(1);
        let mut entries = vec![made.answer(1)];
        let mut found = Found::Nothing;
        if way.hits() {
            let name = run.name;
            self.doubt(state, name);
        }
        self.see(call, made);
        match call {
            Request::Sleep(_) | Request::Minutes { .. } => {}
            Request::Read(location) => {
                let record = self.record(state, handler, location);
                ensure(record.is_some(), "ReadsOwn", || format!("{location:?} is of no message"))?;
                let record = record.filter(|_| takes);
                found = record.map_or(Found::Nothing, |it| Found::Record(it.into_bytes().into()));
            }
            Request::Hide { .. } | Request::Again { .. } | Request::Letters(_) => {
                entries = self.entries(state, call, made)?
            }
            Request::Invoke(invoke) => found = self.invoke(state, invoke, made)?,
            Request::Siblings { key, only_children } => {
                if takes {
                    found =
                        Found::Siblings(self.read_siblings(state, key, *only_children, made)?);
                }
            }
            Request::Take { key, call, run } => {
                if takes {
                    found = Found::Taken(self.take_call(state, made, key, call, run)?);
                }
            }
            Request::Note { key, known } => {
                if takes {
                    self.note(state, handler, key, known)?;
                } else {
                    self.cannot_mark(state, handler, known);
                }
            }
            Request::Count { .. } => {
                found = Found::Count(if self.scope.is_crowded { 5 } else { 0 })
            }
            Request::LookUp { runs, targets } => {
                if takes {
                    found = self.look_up(state, made, runs, targets)?;
                }
            }
            Request::Write(write) => entries = vec![self.change(state, write, made)?],
            Request::Exchange(exchange) => {
                if let Some(stored) = self.exchange(state, exchange, made, &node)? {
                    found = Found::Circuit(stored);
                    entries = vec![Err(Refusal { found: Some(None), ..Refusal::default() })];
                }
            }
            Request::List { after, count, .. } => {
                let waiting =
                    state.items.values().filter_map(|it| self.items.get(*it).waiting.clone());
                let mut waiting: Vec<_> =
                    waiting.filter(|(due, _)| *due > millis(*after)).collect();
                waiting.sort_unstable();
                let queue_url = queue_url(RETRY_QUEUE).unwrap_or_default();
                let mut listing = Listing::default();
                for (_, handle) in waiting {
                    if listing.in_flight.len() >= *count as usize {
                        break;
                    }
                    match handle {
                        Some(receipt_handle) => {
                            let queue_url = queue_url.clone();
                            listing.in_flight.push(Listed { queue_url, receipt_handle });
                        }
                        None => listing.has_delays = true,
                    }
                }
                found = Found::Listed(listing);
            }
        }
        let input = Input::Reply(nth, Reply { entries, found });
        let node = self.machine.go_on(number, state.now, input);
        state.handlers[handler].iter_mut().for_each(|run| run.node = node);
        Ok(())
    }

    /// A handler replaces the circuit, if that is still the one that it has seen. Returns what is there instead, as
    /// far as the handler learns that.
    fn exchange(
        &mut self,
        state: &mut State,
        Exchange { seen, next, .. }: &Exchange,
        made: Made,
        node: &Node,
    ) -> Checked<Option<Stored>> {
        let (takes, there) = (made.takes(1), self.circuits.get(state.circuit));
        let is_seen = there.version == *seen;
        let written = Stored { version: seen + 1, text: Some(next.clone()) };
        if takes && is_seen {
            self.check_turn(state, &there, &written)?;
            state.circuit = self.circuits.number(written.clone());
        }
        // A handler that has begun to act on an event has decided, whatever it learns now.
        let is_act = |it: &Request| matches!(it, Request::Write(_) | Request::Invoke(_));
        let acts = node.calls.iter().any(|(.., call)| is_act(call));
        let learns = takes && !made.is_lost() && !acts;
        let runs = state.handlers[made.handler].iter_mut().filter(|_| learns);
        runs.for_each(|run| run.circuit = state.circuit);
        Ok(made.found(is_seen, written, (*there).clone()))
    }

    /// A call to SQS or Lambda, which has entries.
    fn entries(&mut self, state: &mut State, call: &Request, made: Made) -> Checked<Vec<Answer>> {
        let mut count = 1;
        if let Request::Hide { changes, .. } = call {
            let change = |(nth, (handle, timeout)): (usize, &(String, u32))| {
                let done =
                    made.takes(nth) && self.change_visibility(state, handle, *timeout, made)?;
                Ok(if done { made.answer(nth) } else { Err(Refusal::default()) })
            };
            return changes.iter().enumerate().map(change).collect();
        } else if let Request::Again { queue_url, messages, .. } = call {
            count = messages.len();
            let whole = self.whole(state, made.handler, messages);
            if let Some(whole) = &whole {
                self.send_parts(state, whole, messages, made)?;
            }
            for message in made.taken(messages).filter(|_| whole.is_none()) {
                if is_retry_queue(queue_url) {
                    self.send_again(state, message, made)?;
                    continue;
                }
                let content = self.check_sent_back(state, queue_url, message, made)?;
                self.act(state, &content, made)?;
                let attributes = text_attributes(message);
                self.end(state, &content, None, &message.body, attributes, made.fails > 0);
            }
        } else if let Request::Letters(letters) = call {
            count = letters.len();
            for letter in made.taken(letters) {
                self.give_up(state, letter, made)?;
            }
        }
        Ok((0..count).map(|nth| made.answer(nth)).collect())
    }

    fn change_visibility(
        &mut self,
        state: &mut State,
        handle: &str,
        timeout: u32,
        made: Made,
    ) -> Checked<bool> {
        let is_it = |handle: &str, number| handle.starts_with(&format!("m{number}#"));
        let Some(nth) = state.messages.iter().position(|it| is_it(handle, it.number)) else {
            return Ok(false);
        };
        let until = state.now + Millis::from(timeout) * SECOND;
        self.check_wait(state, made.handler, &state.messages[nth], until)?;
        let key = self.contents.get(state.messages[nth].content).failure.key;
        let run = state.handlers[made.handler].as_ref();
        let is_unknown = run.is_some_and(|run| run.unknown.iter().any(|(other, _)| *other == key));
        state.messages[nth].is_unknown = is_unknown;
        state.messages[nth].visible_at = until;
        Ok(true)
    }

    fn send_again(&mut self, state: &mut State, sent: &Outgoing, made: Made) -> Checked {
        let content = self.check_hop(state, sent, made)?;
        state.handlers[made.handler]
            .iter_mut()
            .for_each(|run| run.resent.push(content.failure.key));
        let (body, attributes) = (sent.body.to_string(), text_attributes(sent));
        let next = Content { body, attributes, form: Form::Resent, ..(*content).clone() };
        self.send(state, next, Millis::from(sent.delay.unwrap_or_default()) * SECOND);
        Ok(())
    }

    fn give_up(&mut self, state: &mut State, letter: &DeadLetter<'_>, made: Made) -> Checked {
        let content = self.check_letter(state, made.handler, letter)?;
        self.act(state, &content, made)?;
        state.fates[content.event].letters += 1;
        let attributes = letter.attributes.iter();
        let attributes = attributes.map(|(name, value)| ((*name).to_owned(), value.clone()));
        let (body, attributes) = (letter.body.to_string(), attributes.collect());
        let content = Content { body, attributes, ..(*content).clone() };
        state.letters.push(self.contents.number(content));
        Ok(())
    }

    /// Returns what the handler learns of it, beside whether it was accepted.
    fn invoke(&mut self, state: &mut State, invoke: &Invoke, made: Made) -> Checked<Found> {
        let (content, number) = self.check_invocation(state, invoke, made)?;
        let (handler, doubts) = (made.handler, made.way.doubts());
        let is_noted = self.is_transparent() && !content.failure.is_undelivered;
        if is_noted {
            self.doubts(state, handler, &content, doubts);
        }
        if !made.takes(1) {
            let earlier = u32::from(made.way == Way::UnsentThenRefused);
            return Ok(Found::Unanswered(earlier));
        }
        // If the answer is lost, its handler gives the probe back.
        let is_probe = self.check_probe(state, handler, &content)? && !made.is_lost();
        self.act(state, &content, made)?;
        let payload = &invoke.message.body;
        if self.scope.is_down {
            let payload = self.payloads.number(payload.to_string());
            state.flights.push(Flight { content: number, payload, since: state.now, is_probe });
        } else if is_noted {
            let mut request_id = String::new();
            for nth in 0..made.way.runs() {
                request_id = self.accept(state, handler, &content);
                let fails = made.fails & (1 << nth) > 0;
                self.end(state, &content, Some(&request_id), payload, Vec::new(), fails);
            }
            return Ok(match (made.way, u32::from(doubts)) {
                (Way::LostTwice | Way::LostThenRefused, _) => Found::Unanswered(1),
                (Way::Lost, _) => Found::Nothing,
                (_, unanswered) => Found::Accepted { request_id, unanswered },
            });
        } else {
            // The SDK may have repeated the call.
            for nth in 0..made.way.runs().max(1) {
                let fails = made.fails & (1 << nth) > 0;
                self.end(state, &content, None, payload, Vec::new(), fails);
            }
        }
        Ok(Found::Nothing)
    }

    /// A handler acts on a failure.
    fn act(&mut self, state: &mut State, content: &Rc<Content>, made: Made) -> Checked {
        self.check_act(state, made.handler, content)?;
        let key = content.failure.key;
        let act = state.acts.entry(key).or_default();
        *act = Act { count: act.count + 1, may_repeat: made.is_lost(), is_followed: true, ..*act };
        let run = state.handlers[made.handler].as_mut().filter(|_| !made.is_lost());
        run.into_iter().for_each(|run| run.acted.push(key));
        Ok(())
    }

    fn change(&mut self, state: &mut State, write: &Write, made: Made) -> Checked<Answer> {
        let Write { key, seen, next, waiting, .. } = write;
        let key = self.keys.number(key.clone());
        let marks = next.as_ref().is_some_and(|it| it.state == ClaimState::Done);
        if !made.takes(1) && marks {
            state.acts.entry(key).or_default().may_repeat = true;
        }
        let there = self.known(state, key);
        let claim = there.as_ref().map(|known| &known.claim);
        let is_seen = is_same(claim, seen.as_ref());
        if made.takes(1) && is_seen {
            self.check_write(state, made.handler, key, claim, next.as_ref())?;
            ensure(waiting.is_none() || self.registers(), "ListsTruly", || {
                "listed without a register".to_owned()
            })?;
            self.write_run(state, made.handler, write)?;
        }
        let found = made.found(is_seen, self.known(state, key).map(Box::new), there.map(Box::new));
        Ok(match found {
            Some(_) => Err(Refusal { found, ..Refusal::default() }),
            None => made.answer(1),
        })
    }

    /// A note that could not be written was to mark a failure.
    fn cannot_mark(&self, state: &mut State, handler: usize, known: &Known) {
        let parent = known.note.as_ref().and_then(|note| note.parent.as_ref());
        let acted = state.handlers[handler].iter().flat_map(|run| run.acted.clone());
        let is_it = |key: &u32| parent.is_some_and(|it| it.run == self.run_of(*key));
        let acted: Vec<_> = acted.filter(is_it).collect();
        for key in acted {
            state.acts.entry(key).or_default().may_repeat = true;
        }
    }

    fn look_up(
        &mut self,
        state: &mut State,
        made: Made,
        runs: &[Key],
        targets: &[String],
    ) -> Checked<Found> {
        let handler = made.handler;
        self.check_look_up(state, handler, runs)?;
        let mut found = BTreeMap::new();
        for key in runs {
            let number = self.keys.number(key.clone());
            let stale = state.stale.get(&number).filter(|_| made.way == Way::Stale);
            let item = stale.copied().unwrap_or_else(|| state.items.get(&number).copied());
            let entered = item.map(|item| {
                let Item { known, waiting } = &*self.items.get(item);
                let delayed_until = waiting.as_ref().filter(|(_, handle)| handle.is_none());
                let delayed_until = delayed_until.map(|(due, _)| timestamp(*due));
                Entered { known: known.clone(), delayed_until }
            });
            self.looked_up(state, handler, key, entered.as_ref())?;
            found.extend(entered.map(|entered| (key.clone(), entered)));
        }
        let is_function = |it: &&String| *it == FUNCTION;
        let paused = targets.iter().filter(is_function).filter(|_| state.is_paused);
        let circuit = (*self.circuits.get(state.circuit)).clone();
        let circuits = targets.iter().filter(is_function);
        let circuits = circuits.map(|it| (it.clone(), circuit.clone())).collect();
        let paused: BTreeSet<_> = paused.cloned().collect();
        let circuit = state.circuit;
        if let Some(run) = &mut state.handlers[handler] {
            run.knows_pause |= !paused.is_empty();
            run.circuit = circuit;
        }
        Ok(Found::LookedUp { runs: found, paused, circuits })
    }

    /// Notes the rare things that this step has shown.
    fn see(&mut self, call: &Request, made: Made) {
        let (is_lost, is_repeated) = (made.way == Way::Lost, made.way == Way::Repeated);
        let is_claim = matches!(call, Request::Write(write) if is_held(write.next.as_ref()));
        let is_note = matches!(call, Request::Note { .. });
        let seen = [
            (is_claim && is_lost, "a claim whose answer is lost"),
            (is_claim && is_repeated, "a claim that is repeated"),
            (is_note && is_lost, "a note whose answer is lost"),
            (is_note && made.way == Way::Unsent, "a note that is refused"),
        ];
        self.seen.extend(seen.into_iter().filter(|(is_seen, _)| *is_seen).map(|(_, what)| what));
        if !matches!(call, Request::Invoke(_)) {
            return;
        }
        let what = match made.way {
            Way::Refused => "a call that is refused",
            Way::Lost if made.fails == 0 => {
                "an accepted call without an answer, whose run succeeds"
            }
            Way::Lost => "an accepted call without an answer, whose run fails",
            Way::Unsent => "a call that is not accepted, and has no answer",
            Way::Repeated => "two accepted calls, the first without an answer",
            Way::LostTwice => "two accepted calls without an answer",
            Way::Doubted => {
                "a call that is not accepted and has no answer, and then an accepted one"
            }
            Way::LostThenRefused => "an accepted call without an answer, and then a refusal",
            Way::UnsentThenRefused => {
                "a call that is not accepted and has no answer, and then a refusal"
            }
            Way::Answered | Way::Partly | Way::Stale | Way::Cut(_) => return,
        };
        self.seen.insert(what);
    }

    /// How this call may end.
    pub fn ways(&self, state: &State, call: &Request) -> Vec<Way> {
        let entries = match call {
            Request::Hide { changes, .. } => changes.len(),
            Request::Again { messages, .. } => messages.len(),
            Request::Letters(letters) => letters.len(),
            Request::Invoke(_) if self.is_transparent() => {
                let known = [Way::Answered, Way::Lost, Way::Unsent, Way::Refused];
                let repeated = [Way::Repeated, Way::Doubted, Way::LostTwice];
                let refused = [Way::LostThenRefused, Way::UnsentThenRefused];
                return [&known[..], &repeated, &refused].concat();
            }
            Request::Invoke(_) => 1,
            Request::Write(_) | Request::Exchange(_) => {
                return vec![Way::Answered, Way::Lost, Way::Repeated, Way::Unsent];
            }
            Request::Note { .. } | Request::Take { .. } => {
                return vec![Way::Answered, Way::Lost, Way::Unsent];
            }
            Request::LookUp { runs, .. } => {
                let mut ways = vec![Way::Answered, Way::Unsent];
                ways.extend(self.may_be_stale(state, runs).then_some(Way::Stale));
                return ways;
            }
            Request::Siblings { key, only_children } => {
                let mut ways = vec![Way::Answered, Way::Unsent];
                // A page of one is that of the run which was the first to fail.
                let mut others = self.siblings(state, key).filter(|(it, _)| *it != key.run);
                let is_long =
                    !only_children && self.scope.page.is_none() && others.next().is_some();
                ways.extend([0, 1].into_iter().filter(|_| is_long).map(Way::Cut));
                return ways;
            }
            Request::Sleep(_)
            | Request::Read(_)
            | Request::Count { .. }
            | Request::Minutes { .. }
            | Request::List { .. } => return vec![Way::Answered, Way::Unsent],
        };
        let all = [Way::Answered, Way::Lost, Way::Unsent, Way::Partly];
        if entries > 1 { all.to_vec() } else { all[..3].to_vec() }
    }

    fn may_be_stale(&self, state: &State, runs: &[Key]) -> bool {
        let is_stale = |(key, before): (&u32, &Option<u32>)| {
            runs.contains(&self.keys.get(*key)) && state.items.get(key).copied() != *before
        };
        state.stale.iter().any(is_stale)
    }
}
