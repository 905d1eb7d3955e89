//! The calls of handlers, as the queue, the table and the targets take and answer them.

use std::{collections::BTreeSet, rc::Rc};

use comeback_core::{
    arn::queue_url,
    claim::{State as ClaimState, is_same},
    dead_letter::DeadLetter,
};
use comeback_flow::ports::{Entered, Listed, Stored};
use comeback_local_model::sqs::Outgoing;
use wire::{Answer, Exchange, Found, Invoke, Refusal, Replace, Reply, Request};

use crate::{
    machine::{Input, Millis, RETRY_QUEUE, millis, text_attributes, timestamp},
    rules::{Checked, ensure},
    world::{Act, Content, FUNCTION, Flight, Form, Item, SECOND, State, World, is_retry_queue},
};

/// How a call ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    Answered,
    /// It takes effect, but its answer is an error.
    Lost,
    /// The SDK repeats a write, and finds its own first one.
    Repeated,
    /// It takes no effect.
    Unsent,
    /// SQS refuses the first entry only.
    Partly,
}

/// A call that takes effect.
#[derive(Clone, Copy)]
pub struct Made {
    pub handler: usize,
    /// When the handler has made it.
    pub at: Millis,
    way: Way,
    /// Whether the target that is invoked fails.
    fails: bool,
}

impl Made {
    fn is_lost(self) -> bool {
        self.way == Way::Lost
    }

    /// What the handler learns of the effect on the nth entry.
    fn answer(self, nth: usize) -> Answer {
        if self.takes(nth) && !self.is_lost() { Ok(()) } else { Err(Refusal::default()) }
    }

    fn takes(self, nth: usize) -> bool {
        self.way != Way::Unsent && (self.way != Way::Partly || nth > 0)
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
            (Way::Answered | Way::Repeated | Way::Partly, false) => Some(there),
            (Way::Lost | Way::Unsent, _) | (Way::Answered | Way::Partly, true) => None,
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
        fails: bool,
    ) -> Checked {
        let Some(run) = &mut state.handlers[handler] else { return Ok(()) };
        run.is_hit |= way != Way::Answered;
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
        if way != Way::Answered {
            let name = state.handlers[handler].as_ref().map(|run| run.name);
            let own = state.sent.values_mut().filter(|it| Some(it.run) == name);
            own.for_each(|it| it.is_hit = true);
        }
        match call {
            // No record of these systems lies in a bucket.
            Request::Sleep(_) | Request::Minutes { .. } | Request::Read(_) => {}
            Request::Hide { .. } | Request::Again { .. } | Request::Letters(_) => {
                entries = self.entries(state, call, made)?
            }
            Request::Invoke(invoke) => {
                if takes {
                    let accepted = self.invoke(state, invoke, made)?;
                    found = accepted.filter(|_| !made.is_lost()).unwrap_or_default();
                }
            }
            Request::Recall(keys) => {
                if takes {
                    found = Found::Recalled(self.recall(state, handler, keys)?);
                }
            }
            Request::Adopt(noting) => {
                if takes {
                    let is_there = self.adopt(state, handler, noting)?;
                    let first = way != Way::Repeated;
                    found = Found::Adopted(is_there && first && !made.is_lost());
                }
            }
            Request::Count { .. } => {
                found = Found::Count(if self.scope.is_crowded { 5 } else { 0 })
            }
            Request::LookUp { events, targets } => {
                if takes {
                    found = self.look_up(state, handler, events, targets)?;
                }
            }
            Request::Replace(replace) => entries = vec![self.replace(state, replace, made)?],
            Request::Exchange(Exchange { seen, next, .. }) => {
                let there = self.circuits.get(state.circuit);
                let is_seen = there.version == *seen;
                let written = Stored { version: seen + 1, text: Some(next.clone()) };
                if takes && is_seen {
                    self.check_turn(state, &there, &written)?;
                    state.circuit = self.circuits.number(written.clone());
                }
                let runs = state.handlers[handler].iter_mut().filter(|_| takes && !made.is_lost());
                runs.for_each(|run| run.circuit = state.circuit);
                if let Some(stored) = made.found(is_seen, written, (*there).clone()) {
                    found = Found::Circuit(stored);
                    entries = vec![Err(Refusal { found: Some(None), ..Refusal::default() })];
                }
            }
            Request::List { after, count, .. } => {
                let waiting =
                    state.items.values().filter_map(|it| self.items.get(*it).waiting.clone());
                let in_flight = waiting.filter_map(|(due, handle)| Some((due, handle?)));
                let mut listed: Vec<_> =
                    in_flight.filter(|(due, _)| *due > millis(*after)).collect();
                listed.sort_unstable();
                listed.truncate(*count as usize);
                let queue_url = queue_url(RETRY_QUEUE).unwrap_or_default();
                let listed = listed.into_iter().map(|(_, receipt_handle)| Listed {
                    queue_url: queue_url.clone(),
                    receipt_handle,
                });
                found = Found::Listed(listed.collect());
            }
        }
        let input = Input::Reply(nth, Reply { entries, found });
        let node = self.machine.go_on(number, state.now, input);
        state.handlers[handler].iter_mut().for_each(|run| run.node = node);
        Ok(())
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
            for message in made.taken(messages) {
                if is_retry_queue(queue_url) {
                    self.send_again(state, message, made)?;
                    continue;
                }
                let content = self.check_sent_back(state, queue_url, message, made)?;
                self.act(state, &content, made)?;
                let attributes = text_attributes(message);
                self.end(state, &content, None, &message.body, attributes, made.fails);
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

    /// Returns what the answer says about it, if that matters.
    fn invoke(&mut self, state: &mut State, invoke: &Invoke, made: Made) -> Checked<Option<Found>> {
        let (content, number) = self.check_invocation(state, invoke, made)?;
        // If the answer is lost, its handler gives the probe back.
        let is_probe = self.check_probe(state, made.handler, &content)? && !made.is_lost();
        self.act(state, &content, made)?;
        let payload = &invoke.message.body;
        if self.scope.is_down {
            let payload = self.keys.number(payload.to_string());
            state.flights.push(Flight { content: number, payload, since: state.now, is_probe });
        } else if self.is_transparent() {
            let is_repeated = made.way == Way::Repeated;
            if is_repeated {
                // It is accepted twice. Nobody knows the id of the first time.
                let unseen = self.accept(state, made.handler, &content)?;
                self.end(state, &content, Some(&unseen), payload, Vec::new(), made.fails);
            }
            let request_id = self.accept(state, made.handler, &content)?;
            let fails = made.fails && !is_repeated;
            self.end(state, &content, Some(&request_id), payload, Vec::new(), fails);
            self.tell_of(state, made.handler, &content, is_repeated, made.is_lost());
            return Ok(Some(Found::Accepted { request_id, is_repeated }));
        } else {
            self.end(state, &content, None, payload, Vec::new(), made.fails);
        }
        Ok(None)
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

    fn replace(&mut self, state: &mut State, replace: &Replace, made: Made) -> Checked<Answer> {
        let Replace { key, seen, next, waiting, noting } = replace;
        let key = self.keys.number(key.clone());
        let marks = next.as_ref().is_some_and(|it| it.state == ClaimState::Done);
        if !made.takes(1) && marks {
            state.acts.entry(key).or_default().may_repeat = true;
        }
        let there = state.items.get(&key).map(|item| self.items.get(*item).claim.clone());
        let is_seen = is_same(there.as_ref(), seen.as_ref());
        if made.takes(1) && is_seen {
            self.check_write(state, made.handler, key, there.as_ref(), next.as_ref())?;
            ensure(waiting.is_none() || self.registers(), "ListsTruly", || {
                "listed without a register".to_owned()
            })?;
            if let Some(noting) = noting {
                self.note(state, made.handler, key, next.as_ref(), noting)?;
            }
            self.check_ends_sending(state, made.handler, key, next.as_ref(), noting.as_ref())?;
            let waiting =
                waiting.as_ref().map(|entry| (millis(entry.due), entry.receipt_handle.clone()));
            match next.clone() {
                Some(claim) => state.items.insert(key, self.items.number(Item { claim, waiting })),
                None => state.items.remove(&key),
            };
        }
        let found = made.found(is_seen, next.clone(), there);
        Ok(match found {
            Some(_) => Err(Refusal { found, ..Refusal::default() }),
            None => made.answer(1),
        })
    }

    fn look_up(
        &mut self,
        state: &mut State,
        handler: usize,
        events: &[String],
        targets: &[String],
    ) -> Checked<Found> {
        self.check_look_up(state, handler, events)?;
        let is_function = |it: &&String| *it == FUNCTION;
        let paused = targets.iter().filter(is_function).filter(|_| state.is_paused);
        let events = events.iter().filter_map(|key| {
            let number = self.keys.number(key.clone());
            let item = self.items.get(*state.items.get(&number)?);
            let delayed_until = item.waiting.as_ref().filter(|(_, handle)| handle.is_none());
            let delayed_until = delayed_until.map(|(due, _)| timestamp(*due));
            Some((key.clone(), Entered { claim: item.claim.clone(), delayed_until }))
        });
        let events = events.collect();
        let circuit = (*self.circuits.get(state.circuit)).clone();
        let circuits = targets.iter().filter(is_function);
        let circuits = circuits.map(|it| (it.clone(), circuit.clone())).collect();
        let paused: BTreeSet<_> = paused.cloned().collect();
        let circuit = state.circuit;
        if let Some(run) = &mut state.handlers[handler] {
            run.knows_pause |= !paused.is_empty();
            run.circuit = circuit;
        }
        Ok(Found::Notes { events, paused, circuits })
    }
}

/// How this call may end.
pub fn ways(call: &Request, is_transparent: bool) -> &'static [Way] {
    let entries = match call {
        Request::Hide { changes, .. } => changes.len(),
        Request::Again { messages, .. } => messages.len(),
        Request::Letters(letters) => letters.len(),
        Request::Invoke(_) if is_transparent => {
            return &[Way::Answered, Way::Lost, Way::Repeated, Way::Unsent];
        }
        Request::Invoke(_) => 1,
        Request::Replace(_) | Request::Exchange(_) | Request::Adopt(_) => {
            return &[Way::Answered, Way::Lost, Way::Repeated, Way::Unsent];
        }
        Request::Sleep(_)
        | Request::Read(_)
        | Request::Count { .. }
        | Request::Minutes { .. }
        | Request::LookUp { .. }
        | Request::Recall(_)
        | Request::List { .. } => return &[Way::Answered, Way::Unsent],
    };
    let all = &[Way::Answered, Way::Lost, Way::Unsent, Way::Partly];
    if entries > 1 { all } else { &all[..3] }
}
