//! The calls of handlers, as the queue, the table and the targets take and answer them.

use std::rc::Rc;

use comeback_core::{
    arn::queue_url,
    claim::{Claim, State as ClaimState, is_same},
};
use comeback_flow::ports::{Entered, Listed, NotExchanged, NotReplaced, Stored};

use crate::{
    machine::{
        Answer, Attributes, Call, Found, Input, Millis, RETRY_QUEUE, Sent, store_fault, timestamp,
    },
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

    /// Whether the handler learns of the effect on the nth entry.
    fn answer(self, nth: usize) -> bool {
        self.takes(nth) && !self.is_lost()
    }

    fn takes(self, nth: usize) -> bool {
        self.way != Way::Unsent && (self.way != Way::Partly || nth > 0)
    }

    /// The result of a conditional write.
    fn result<E>(self, is_seen: bool, [fault, first, there]: [E; 3]) -> Result<(), E> {
        match (self.way, is_seen) {
            (Way::Lost | Way::Unsent, _) => Err(fault),
            (Way::Repeated, true) => Err(first),
            (Way::Answered | Way::Repeated | Way::Partly, false) => Err(there),
            (Way::Answered | Way::Partly, true) => Ok(()),
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
        let answer = match call {
            Call::Visibility(_) | Call::Send(..) | Call::Letters(_) | Call::Invoke { .. } => {
                self.entries(state, call, made)?
            }
            Call::Count => {
                Answer::Count(takes.then_some(if self.scope.is_crowded { 5 } else { 0 }))
            }
            Call::Minutes => Answer::Minutes(takes),
            Call::LookUp { events, targets } if takes => {
                Answer::Notes(Some(self.look_up(state, handler, events, targets)?))
            }
            Call::LookUp { .. } => Answer::Notes(None),
            Call::Replace { key, seen, next, waiting } => {
                let item = next.clone().map(|claim| Item { claim, waiting: waiting.clone() });
                self.replace(state, key, seen.as_ref(), item, made)?
            }
            Call::Exchange { seen, next } => {
                let there = self.circuits.get(state.circuit);
                let is_seen = there.version == *seen;
                let written = Stored { version: seen + 1, text: Some(next.clone()) };
                if takes && is_seen {
                    self.check_turn(state, &there, &written)?;
                    state.circuit = self.circuits.number(written.clone());
                }
                let runs = state.handlers[handler].iter_mut().filter(|_| made.answer(1));
                runs.for_each(|run| run.circuit = state.circuit);
                let (first, there) =
                    (NotExchanged::Changed(written), NotExchanged::Changed((*there).clone()));
                Answer::Exchanged(
                    made.result(is_seen, [NotExchanged::Fault(store_fault()), first, there]),
                )
            }
            Call::List { after, count } => {
                let waiting =
                    state.items.values().filter_map(|it| self.items.get(*it).waiting.clone());
                let in_flight = waiting.filter_map(|(due, handle)| Some((due, handle?)));
                let mut listed: Vec<_> = in_flight.filter(|(due, _)| due > after).collect();
                listed.sort_unstable();
                listed.truncate(*count as usize);
                let queue_url = queue_url(RETRY_QUEUE).unwrap_or_default();
                let listed = listed.into_iter().map(|(_, receipt_handle)| Listed {
                    queue_url: queue_url.clone(),
                    receipt_handle,
                });
                Answer::Listed(takes.then(|| listed.collect()))
            }
        };
        let node = self.machine.go_on(number, state.now, Input::Answer(nth, answer));
        state.handlers[handler].iter_mut().for_each(|run| run.node = node);
        Ok(())
    }

    /// A call to SQS or Lambda, which has entries.
    fn entries(&mut self, state: &mut State, call: &Call, made: Made) -> Checked<Answer> {
        let mut answers = Vec::new();
        if let Call::Visibility(changes) = call {
            for (nth, (handle, timeout)) in changes.iter().enumerate() {
                let done =
                    made.takes(nth) && self.change_visibility(state, handle, *timeout, made)?;
                answers.push(done && made.answer(nth));
            }
        }
        if let Call::Send(url, messages) = call {
            for (nth, message) in messages.iter().enumerate() {
                match made.takes(nth) {
                    true if is_retry_queue(url) => self.send_again(state, message, made)?,
                    true => {
                        let content = self.check_sent_back(state, url, message, made)?;
                        self.act(state, &content, made)?;
                        self.end(
                            state,
                            &content,
                            &message.body,
                            message.attributes.clone(),
                            made.fails,
                        );
                    }
                    false => {}
                }
                answers.push(made.answer(nth));
            }
        }
        if let Call::Letters(letters) = call {
            for (nth, (body, attributes)) in letters.iter().enumerate() {
                if made.takes(nth) {
                    self.give_up(state, body, attributes, made)?;
                }
                answers.push(made.answer(nth));
            }
        }
        if let Call::Invoke { function, payload, trace } = call {
            if made.takes(0) {
                let call = [function, payload, trace.as_deref().unwrap_or_default()];
                self.invoke(state, call, made)?;
            }
            answers.push(made.answer(0));
        }
        Ok(Answer::Entries(answers))
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

    fn send_again(&mut self, state: &mut State, sent: &Sent, made: Made) -> Checked {
        let content = self.check_hop(state, sent, made)?;
        state.handlers[made.handler]
            .iter_mut()
            .for_each(|run| run.resent.push(content.failure.key));
        let (body, attributes) = (sent.body.clone(), sent.attributes.clone());
        let next = Content { body, attributes, form: Form::Resent, ..(*content).clone() };
        self.send(state, next, Millis::from(sent.delay) * SECOND);
        Ok(())
    }

    fn give_up(
        &mut self,
        state: &mut State,
        body: &str,
        attributes: &Attributes,
        made: Made,
    ) -> Checked {
        let content = self.check_letter(state, made.handler, body, attributes)?;
        self.act(state, &content, made)?;
        state.fates[content.event].letters += 1;
        let (body, attributes) = (body.to_owned(), attributes.clone());
        state.letters.push(self.contents.number(Content {
            body,
            attributes,
            ..(*content).clone()
        }));
        Ok(())
    }

    fn invoke(&mut self, state: &mut State, call: [&str; 3], made: Made) -> Checked {
        let (content, number) = self.check_invocation(state, call, made)?;
        // If the answer is lost, its handler gives the probe back.
        let is_probe = self.check_probe(state, made.handler, &content)? && !made.is_lost();
        self.act(state, &content, made)?;
        let [_, payload, _] = call;
        if self.scope.is_down {
            let payload = self.keys.number(payload.to_owned());
            state.flights.push(Flight { content: number, payload, since: state.now, is_probe });
        } else {
            self.end(state, &content, payload, Vec::new(), made.fails);
        }
        Ok(())
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

    fn replace(
        &mut self,
        state: &mut State,
        key: &str,
        seen: Option<&Claim>,
        item: Option<Item>,
        made: Made,
    ) -> Checked<Answer> {
        let key = self.keys.number(key.to_owned());
        let next = item.as_ref().map(|item| item.claim.clone());
        let marks = next.as_ref().is_some_and(|it| it.state == ClaimState::Done);
        if !made.takes(1) && marks {
            state.acts.entry(key).or_default().may_repeat = true;
        }
        let there = state.items.get(&key).map(|item| self.items.get(*item).claim.clone());
        let is_seen = is_same(there.as_ref(), seen);
        if made.takes(1) && is_seen {
            self.check_write(state, made.handler, key, there.as_ref(), next.as_ref())?;
            let is_listed = item.as_ref().is_some_and(|item| item.waiting.is_some());
            ensure(!is_listed || self.registers(), "ListsTruly", || {
                "listed without a register".to_owned()
            })?;
            match item {
                Some(item) => state.items.insert(key, self.items.number(item)),
                None => state.items.remove(&key),
            };
        }
        let (first, there) = (NotReplaced::Changed(next), NotReplaced::Changed(there));
        Ok(Answer::Replaced(
            made.result(is_seen, [NotReplaced::Fault(store_fault()), first, there]),
        ))
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
        let found = Found {
            paused: paused.cloned().collect(),
            circuits: targets
                .iter()
                .filter(is_function)
                .map(|it| (it.clone(), (*self.circuits.get(state.circuit)).clone()))
                .collect(),
            events: events
                .iter()
                .filter_map(|key| {
                    let number = self.keys.number(key.clone());
                    let item = self.items.get(*state.items.get(&number)?);
                    let delayed_until =
                        item.waiting.as_ref().filter(|(_, handle)| handle.is_none());
                    let delayed_until = delayed_until.map(|(due, _)| timestamp(*due));
                    Some((key.clone(), Entered { claim: item.claim.clone(), delayed_until }))
                })
                .collect(),
        };
        let circuit = state.circuit;
        if let Some(run) = &mut state.handlers[handler] {
            run.knows_pause |= !found.paused.is_empty();
            run.circuit = circuit;
        }
        Ok(found)
    }
}

/// How this call may end.
pub fn ways(call: &Call) -> &'static [Way] {
    match call {
        Call::Visibility(entries) if entries.len() > 1 => {
            &[Way::Answered, Way::Lost, Way::Unsent, Way::Partly]
        }
        Call::Letters(entries) if entries.len() > 1 => {
            &[Way::Answered, Way::Lost, Way::Unsent, Way::Partly]
        }
        Call::Send(_, entries) if entries.len() > 1 => {
            &[Way::Answered, Way::Lost, Way::Unsent, Way::Partly]
        }
        Call::Visibility(_) | Call::Letters(_) | Call::Send(..) | Call::Invoke { .. } => {
            &[Way::Answered, Way::Lost, Way::Unsent]
        }
        Call::Replace { .. } | Call::Exchange { .. } => {
            &[Way::Answered, Way::Lost, Way::Repeated, Way::Unsent]
        }
        Call::Count | Call::Minutes | Call::LookUp { .. } | Call::List { .. } => {
            &[Way::Answered, Way::Unsent]
        }
    }
}
