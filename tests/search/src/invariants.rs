//! What must hold in every state. This knows the contract, and shares no code with the handler.
//!
//! A world is *calm* while no fault has hit it and no message was copied. Then waits end exactly when they should, the
//! register lists what waits, and orders are followed at once.

use std::rc::Rc;

use comeback_core::{
    arn::queue_url,
    circuit::{Circuit, Phase},
    claim::{Claim, Order, State as ClaimState},
    dead_letter::DeadLetter,
    lineage::Key,
};
use comeback_flow::ports::Stored;
use comeback_local_model::sqs::Outgoing;
use wire::Invoke;

use crate::{
    calls::Made,
    machine::{Millis, millis, text_attributes, timestamp},
    scopes::Kind,
    world::{
        Broken, Content, FUNCTION, Failure, Form, Message, ORDER_KEPT_UNTIL, QUEUE, RULE, Run,
        SECOND, State, World,
    },
};

pub type Checked<T = ()> = Result<T, Broken>;

/// A probe may be made again once it counts as a success.
const PATIENCE: Millis = 20 * SECOND;

pub fn ensure(holds: bool, rule: &'static str, why: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(Broken(rule, why())) }
}

impl Failure {
    fn last_chance(&self, world: &World) -> Millis {
        self.first_at + world.max_age - (world.max_age / 100).min(60 * SECOND)
    }

    fn due(&self, world: &World) -> Millis {
        (self.at + (world.base << self.attempts)).min(self.last_chance(world))
    }

    pub fn metadata(&self) -> String {
        let initial = timestamp(self.first_at).timestamp();
        let (attempt, id) = (self.attempts + 1, &self.first_id);
        format!(r#"{{"attempt":{attempt},"initial_timestamp":{initial},"request_id":"{id}"}}"#)
    }
}

impl Run {
    /// Whether it holds the claim.
    fn holds(&self, claim: &Claim) -> bool {
        let is_held = matches!(claim.state, ClaimState::Held { .. });
        is_held && claim.token.owner.starts_with(&format!("run-{}/", self.name))
    }
}

impl World {
    pub fn is_calm(&self, state: &State) -> bool {
        (state.left.faults, state.left.copies)
            == (self.scope.limits.faults, self.scope.limits.copies)
    }

    fn claim(&self, state: &State, key: u32) -> Option<Claim> {
        Some(self.known(state, key)?.claim)
    }

    /// The message of the batch to which this applies.
    fn in_batch(
        &self,
        state: &State,
        handler: usize,
        mut is_it: impl FnMut(&Content) -> bool,
        rule: &'static str,
        what: &str,
    ) -> Checked<(Rc<Content>, u32)> {
        let batch = state.handlers[handler].iter().flat_map(|run| &run.batch);
        let mut found = batch.map(|(_, content, _)| (self.contents.get(*content), *content));
        let found = found.find(|(content, _)| is_it(content));
        found.ok_or_else(|| Broken(rule, format!("of no message of the batch: {what}")))
    }

    /// No event is lost, and an order stays until it is followed.
    pub fn check_all(&self, state: &State) -> Checked {
        for (event, fate) in state.fates.iter().enumerate() {
            let is_about = |content: u32| self.contents.get(content).event == event;
            let is_somewhere = state.messages.iter().any(|it| is_about(it.content))
                || state.flights.iter().any(|it| is_about(it.content));
            let is_over = fate.delivered > 0 || fate.letters > 0 || !fate.is_there;
            ensure(is_somewhere || is_over, "NothingIsLost", || format!("event {event} is lost"))?;
        }
        for (key, act) in
            state.acts.iter().filter(|(_, act)| act.order.is_some() && !act.is_followed)
        {
            let claim = self.claim(state, *key);
            let stays =
                |it: &Claim| it.order == act.order && it.expires_at >= timestamp(ORDER_KEPT_UNTIL);
            ensure(claim.as_ref().is_some_and(stays), "OrdersStay", || {
                format!("the order for {} is gone, or ends too soon: {claim:?}", self.run_of(*key))
            })?;
        }
        Ok(())
    }

    /// Nothing happens before the next message is visible.
    pub fn check_rest(&self, state: &State) -> Checked {
        if !self.is_calm(state) || self.scope.is_down {
            return Ok(());
        }
        for message in &state.messages {
            let content = self.contents.get(message.content);
            let key = content.failure.key;
            let act = state.acts.get(&key).copied().unwrap_or_default();
            let order = act.order.filter(|_| !act.is_followed && !act.may_wait);
            ensure(order.is_none() || message.receives == 0, "OrdersFollowed", || {
                format!("{} waits on, although it was ordered: {order:?}", content.id)
            })?;
            if !self.registers() || act.count > 0 || message.is_unknown {
                continue;
            }
            let handle = (message.receives > 0).then(|| message.handle());
            let item = state.items.get(&key).map(|item| self.items.get(*item));
            let is_listed = item.as_ref().is_some_and(|item| {
                let waiting = item.waiting.as_ref();
                let is_due = |due: Millis| match handle {
                    Some(_) => due <= message.visible_at && message.visible_at < due + SECOND,
                    // A delay may be a hop of a longer wait.
                    None => due == content.failure.due(self),
                };
                item.known.claim.state == ClaimState::Waiting
                    && waiting.is_some_and(|(due, listed)| is_due(*due) && *listed == handle)
            });
            ensure(is_listed, "ListsTruly", || {
                format!(
                    "{} waits until {} in {handle:?}, listed is {item:?}",
                    content.id, message.visible_at
                )
            })?;
        }
        Ok(())
    }

    /// The handler's response tells the truth, and its claims are marked or released.
    pub fn check_report(&self, state: &State, handler: usize) -> Checked {
        let Some(run) = state.handlers[handler].as_ref().filter(|run| !run.is_hit) else {
            return Ok(());
        };
        let kept = self.machine.node(run.node).kept.clone().unwrap_or_default();
        for (_, content, _) in &run.batch {
            let content = self.contents.get(*content);
            let (id, key) = (&content.id, content.failure.key);
            let claim = self.claim(state, key);
            let is_done = self.is_marked(state, key);
            let (acted, resent) = (run.acted.contains(&key), run.resent.contains(&key));
            let is_kept = kept.contains(id);
            ensure(is_kept != (acted || resent) || (is_done && !acted), "ReportsTruly", || {
                format!("{id}: kept {is_kept}, acted {acted}, sent again {resent}")
            })?;
            ensure(!acted || is_done || !self.has_ledger(), "MarksAfterActing", || {
                format!("{id} was acted on, and is not marked: {claim:?}")
            })?;
            ensure(
                acted || !claim.is_some_and(|claim| run.holds(&claim)),
                "ReleasesClaims",
                || format!("{id} was not acted on, but its claim is kept"),
            )?;
        }
        Ok(())
    }

    /// A failure is acted on once, under its claim, and as ordered.
    pub fn check_act(&self, state: &State, handler: usize, content: &Content) -> Checked {
        let (id, failure) = (&content.id, &content.failure);
        let act = state.acts.get(&failure.key).copied().unwrap_or_default();
        let may_act =
            act.count == 0 || act.may_repeat || !(self.has_ledger() || self.is_calm(state));
        ensure(may_act, "ActsOnce", || format!("{id} is acted on again"))?;
        let claim = self.claim(state, failure.key);
        let is_held =
            claim.zip(state.handlers[handler].as_ref()).is_some_and(|(it, run)| run.holds(&it));
        ensure(is_held || !self.has_ledger(), "ClaimsFirst", || {
            format!("{id} is acted on without a claim")
        })
    }

    /// A retry is made in time, and not against an operator's order.
    fn check_retry(&self, state: &State, content: &Content, made: Made) -> Checked {
        let (id, failure, now) = (&content.id, &content.failure, made.at);
        let order = state.acts.get(&failure.key).and_then(|act| act.order);
        let is_early = now < failure.due(self) && order.is_none() && !self.scope.is_down;
        ensure(!is_early, "NotBeforeDue", || {
            format!("{id} is retried at {now}, due at {}", failure.due(self))
        })?;
        let expiry = failure.first_at + self.max_age;
        ensure(now <= expiry, "NotAfterAge", || {
            format!("{id} is retried at {now}, its age ended at {expiry}")
        })?;
        let is_allowed = failure.attempts < self.max_attempts;
        ensure(is_allowed, "NotTooOften", || {
            format!("{id} has had {} attempts", failure.attempts)
        })?;
        ensure(order != Some(Order::Cancel), "OrdersFollowed", || {
            format!("{id} was cancelled, and is retried")
        })?;
        let run = state.handlers[made.handler].as_ref();
        let knows = run.is_some_and(|run| run.knows_pause && !run.is_hit);
        let is_held_back =
            knows && order.is_none() && self.scope.events[content.event] != Kind::Queue;
        ensure(!is_held_back, "PausesHold", || {
            format!("{id} is retried, although its function is paused")
        })
    }

    pub fn check_invocation(
        &self,
        state: &State,
        Invoke { target, message, .. }: &Invoke,
        made: Made,
    ) -> Checked<(Rc<Content>, u32)> {
        let (sent, traced) = (&*message.body, &message.trace_header);
        let is_it = |content: &Content| {
            if self.is_transparent() || content.failure.is_undelivered {
                return self.payload_of(content) == sent && self.trace(content.event) == *traced;
            }
            let metadata = content.failure.metadata();
            format!(
                r#"{{"_retry_metadata":{metadata},"_original_payload":{}}}"#,
                self.payload_of(content)
            ) == sent
        };
        let (content, number) = self.in_batch(state, made.handler, is_it, "Envelope", sent)?;
        let is_right = &**target == FUNCTION && *traced == self.trace(content.event);
        ensure(is_right, "RightTarget", || {
            format!("{} goes to {target} with {traced:?}", content.id)
        })?;
        self.check_retry(state, &content, made)?;
        Ok((content, number))
    }

    pub fn check_sent_back(
        &self,
        state: &State,
        url: &str,
        sent: &Outgoing,
        made: Made,
    ) -> Checked<Rc<Content>> {
        let text = format!("{sent:?}");
        let is_it = |content: &Content| {
            let mut attributes = vec![("own".to_owned(), "1".to_owned())];
            if !content.failure.is_redriven {
                attributes.insert(0, ("_retry_metadata".to_owned(), content.failure.metadata()));
            }
            *sent.body == self.payload_of(content) && text_attributes(sent) == attributes
        };
        let (content, _) = self.in_batch(state, made.handler, is_it, "SentBack", &text)?;
        let is_right = Some(url) == queue_url(QUEUE).as_deref()
            && sent.trace_header == self.trace(content.event);
        ensure(is_right, "RightTarget", || format!("{} goes to {url}: {text}", content.id))?;
        self.check_retry(state, &content, made)?;
        Ok(content)
    }

    /// A message that is sent again is the same, and comes back in time.
    pub fn check_hop(&self, state: &State, sent: &Outgoing, made: Made) -> Checked<Rc<Content>> {
        let delay = sent.delay.unwrap_or_default();
        let text = format!("{sent:?}");
        let (content, _) = self.in_batch(
            state,
            made.handler,
            |it| *it.body == *sent.body,
            "HopsChangeNothing",
            &text,
        )?;
        let mut own = content.attributes.iter();
        let attributes = text_attributes(sent);
        let has_all = own.all(|it| attributes.contains(it));
        let is_same = has_all && sent.trace_header == self.trace(content.event);
        ensure(is_same, "HopsChangeNothing", || text)?;
        let has_reason =
            (self.scope.is_crowded && content.form != Form::Resent) || !self.is_calm(state);
        ensure(has_reason, "HopsForAReason", || format!("{} is delayed", content.id))?;
        ensure(delay <= 900, "HopsInRange", || format!("{} is delayed by {delay} s", content.id))?;
        let (until, due) = (made.at + Millis::from(delay) * SECOND, content.failure.due(self));
        if let Some(holds) = self.check_wait_for_note(state, made.handler, &content, until) {
            return holds.map(|()| content);
        }
        ensure(until < due + SECOND || due <= made.at, "HopsInRange", || {
            format!("{} is delayed until {until}, due at {due}", content.id)
        })?;
        Ok(content)
    }

    /// A dead letter has the payload and the right reason.
    pub fn check_letter(
        &self,
        state: &State,
        handler: usize,
        DeadLetter { body, attributes }: &DeadLetter<'_>,
    ) -> Checked<Rc<Content>> {
        let is_it = |it: &Content| self.payload_of(it) == *body;
        let (content, _) = self.in_batch(state, handler, is_it, "OriginalBytes", body)?;
        let (failure, now) = (&content.failure, state.now);
        let has =
            |name: &str, value: &str| attributes.iter().any(|it| it.0 == name && it.1 == value);
        let target = match self.scope.events[content.event] {
            Kind::Function | Kind::Delivery | Kind::Batch | Kind::Large | Kind::Part(_) => {
                has("FunctionArn", FUNCTION) && has("SourceArn", RULE) == failure.is_undelivered
            }
            Kind::Queue => {
                has("SourceQueueArn", QUEUE)
                    && has("OriginalAttributes", r#"{"own":{"type":"String","value":"1"}}"#)
            }
        };
        let tells = target
            && has("RequestId", &failure.first_id)
            && has("Attempts", &failure.attempts.to_string());
        ensure(tells, "LetterTells", || format!("{attributes:?}"))?;
        // An event that was refused near the end of its age is given up before.
        let run = state.handlers[handler].as_ref();
        let is_hit = run.is_some_and(|run| run.is_hit || run.is_refused);
        let is_old = failure.at + self.base > failure.last_chance(self)
            || now > failure.first_at + self.max_age;
        let order = state.acts.get(&failure.key).and_then(|act| act.order);
        let is_right = if order == Some(Order::Cancel) {
            has("Reason", "cancelled")
        } else if failure.attempts >= self.max_attempts {
            has("Reason", "max_attempts_exceeded")
        } else {
            (is_old || is_hit) && has("Reason", "max_age_exceeded")
        };
        ensure(is_right, "RightReason", || {
            format!("{} after {} attempts at {now}: {attributes:?}", content.id, failure.attempts)
        })?;
        Ok(content)
    }

    /// A claim is replaced by its holder, or after its lease.
    pub fn check_write(
        &self,
        state: &State,
        handler: usize,
        key: u32,
        there: Option<&Claim>,
        next: Option<&Claim>,
    ) -> Checked {
        let name = self.run_of(key);
        let is_it = |it: &Content| it.failure.key == key;
        let (content, _) = self.in_batch(state, handler, is_it, "ClaimsFirst", &name)?;
        let target = self.target(content.event).trim_end_matches(":$LATEST");
        ensure(self.keys.get(key).id.starts_with(target), "ClaimsFirst", || {
            format!("{name} is claimed for another target than {target}")
        })?;
        let run = state.handlers[handler].as_ref();
        let is_locked = there.is_some_and(|claim| match claim.state {
            ClaimState::Held { until } => {
                state.now < millis(until) && !run.is_some_and(|run| run.holds(claim))
            }
            ClaimState::Done => true,
            ClaimState::Noted | ClaimState::Waiting => false,
        });
        ensure(!is_locked, "ClaimsHold", || format!("{name}: {there:?} is replaced by {next:?}"))?;
        let acted = state.acts.get(&key).is_some_and(|act| act.count > 0);
        let is_true = acted || next.is_none_or(|next| next.state != ClaimState::Done);
        ensure(is_true, "MarksAfterActing", || format!("{name} is marked before it was acted on"))
    }

    /// A message is put back until its event is due.
    pub fn check_wait(
        &self,
        state: &State,
        handler: usize,
        message: &Message,
        until: Millis,
    ) -> Checked {
        let content = self.contents.get(message.content);
        let (due, now) = (content.failure.due(self), state.now);
        let most = 12 * 60 * 60 * SECOND;
        ensure(until <= now + most, "WaitsUntilDue", || {
            format!("{} waits until {until}", content.id)
        })?;
        let act = state.acts.get(&content.failure.key).copied().unwrap_or_default();
        let run = state.handlers[handler].as_ref();
        if let Some(holds) = self.check_wait_for_note(state, handler, &content, until) {
            return holds;
        }
        let knows_pause =
            run.is_some_and(|run| run.knows_pause && !run.is_hit) && self.is_calm(state);
        let (ordered, is_function) =
            (self.scope.limits.orders != state.left.orders, content.form != Form::Moved);
        if knows_pause && is_function && act.order.is_none() && due <= now && until > now {
            let is_long = until >= (now + 12 * 60 * SECOND).min(content.failure.last_chance(self));
            return ensure(is_long, "PausesHold", || {
                format!("{} is put back until {until}", content.id)
            });
        }
        if ordered || self.scope.is_down || !self.is_calm(state) {
            return Ok(());
        }
        // The first events wait for their first receive, which is a reason to ask how many messages are in flight. What
        // fails later is received at once.
        let is_place_taken = self.scope.is_crowded
            && message.receives == 1
            && content.failure.at == 0
            && matches!(
                content.form,
                Form::Record | Form::Moved | Form::Undelivered | Form::InBucket
            );
        ensure(!is_place_taken, "KeepsPlacesFree", || format!("{} waits in flight", content.id))?;
        let is_exact = due <= until && until < due + SECOND;
        ensure(is_exact, "WaitsUntilDue", || {
            format!("{} waits until {until}, due at {due}", content.id)
        })
    }

    /// Orders are looked up for what comes back, and only for that. What may be a retry without an envelope is looked
    /// up before anything is done about it.
    pub fn check_look_up(&self, state: &State, handler: usize, runs: &[Key]) -> Checked {
        let batch = || state.handlers[handler].iter().flat_map(|run| &run.batch);
        let is_recalled = |content| self.is_recalled(&self.contents.get(content));
        let recalls = batch().any(|(_, content, _)| {
            is_recalled(*content)
                && runs.contains(&self.keys.get(self.contents.get(*content).failure.run_key))
        });
        for (_, content, receive) in batch() {
            let content_of = self.contents.get(*content);
            let Failure { key, run_key, .. } = content_of.failure;
            let is_asked = runs.contains(&self.keys.get(if recalls { run_key } else { key }));
            let came_back = *receive > 1 || content_of.form == Form::Resent;
            // What is left of a batch is claimed by that, and its run is known by the whole.
            let is_expected = match is_recalled(*content) && (recalls || key == run_key) {
                true => recalls,
                false => came_back && self.registers() && !recalls,
            };
            ensure(is_asked == is_expected, "LooksUpOrders", || {
                format!("{}, received {receive} times, is looked up: {is_asked}", content_of.id)
            })?;
        }
        Ok(())
    }

    /// A probe is made when it is time.
    pub fn check_turn(&self, state: &State, there: &Stored, next: &Stored) -> Checked {
        let phase = |stored: &Stored| Some(Circuit::read(stored.text.as_deref()?)?.phase);
        let (Some(Phase::Open { next_at, .. }), Some(Phase::Probing { .. })) =
            (phase(there), phase(next))
        else {
            return Ok(());
        };
        ensure(millis(next_at) <= state.now, "ProbesInTime", || {
            format!("a probe at {}, due at {next_at}", state.now)
        })
    }

    /// While a target is down, one probe at a time is made.
    pub fn check_probe(&self, state: &State, handler: usize, content: &Content) -> Checked<bool> {
        // A handler that could not read the circuit retries what is due.
        let Some(run) = state.handlers[handler].as_ref().filter(|run| !run.is_hit) else {
            return Ok(false);
        };
        let stored = self.circuits.get(run.circuit);
        let circuit = stored.text.as_deref().and_then(Circuit::read);
        let is_ordered =
            state.acts.get(&content.failure.key).is_some_and(|act| act.order.is_some());
        let Some(circuit) = circuit.filter(|_| self.scope.is_down && !is_ordered) else {
            return Ok(false);
        };
        let is_open = matches!(circuit.phase, Phase::Open { .. });
        ensure(!is_open, "ProbesAlone", || {
            format!("{} is retried while its target is down", content.id)
        })?;
        if !matches!(circuit.phase, Phase::Probing { .. }) {
            return Ok(false);
        }
        let of = comeback_core::circuit::EventAttempt {
            event: content.failure.first_id.clone(),
            attempt: content.failure.attempts + 1,
        };
        ensure(circuit.is_probing(&of), "ProbesAlone", || {
            format!("{} is not the probe", content.id)
        })?;
        let mut others =
            state.flights.iter().filter(|it| it.is_probe && it.since + PATIENCE > state.now);
        let other = others.find(|it| {
            let other = self.contents.get(it.content);
            // A probe that could not be marked may be made twice.
            let is_single = state.acts.get(&other.failure.key).is_some_and(|act| act.count == 1);
            other.event != content.event && is_single
        });
        ensure(other.is_none(), "ProbesAlone", || format!("{} is a second probe", content.id))?;
        Ok(true)
    }
}
