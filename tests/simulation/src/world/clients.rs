//! The senders of messages: clients, strangers, topics and buses. And the targets: how their runs end, and what the
//! judge learns about that.

use std::{rc::Rc, sync::Arc, time::Duration};

use comeback_core::{Timestamp, error_type::ErrorReport, time::rfc3339};
use comeback_local_model::{
    Ending, Event, Invocation, InvocationType, Invoked, What,
    lambda::{
        name::qualified_arn,
        run::{Exit, Outcome, Run},
    },
    queue_arn,
    sqs::{MessageAttribute, Outgoing},
};
use serde_json::Value;

use super::{World, build::relay_queue};
use crate::{
    choices::{Of, SENT_AFTER, TARGET},
    faults::Fault,
    judge::Stranger,
    payload::{self, Foreign, METADATA, envelope, metadata},
    plan::{Attack, Form, Outage, TargetPlan},
    policy::NEVER,
    seen::Seen,
};

/// The size of an event, in bytes, that fits into a message by itself but not within its envelope.
const TOO_LARGE: usize = 1_048_500;

/// The root of events that are sent in one trace.
const SHARED_ROOT: &str = "Root=1-69813980-000000000000000000000001";

/// The share of forged envelopes among a target's events, if a caller forges some.
const FORGED: f64 = 0.5;

impl World {
    /// Spreads the next of `count` steps over the time of sending.
    pub fn plan_sending(&mut self, of: Of, count: u64, step: fn(&mut Self)) {
        let gap = self.plan.sending / (count as u32).max(1);
        let delay = self.choices.within(of, SENT_AFTER, Duration::ZERO, 2 * gap);
        self.after(delay, step);
    }

    pub fn send(&mut self) {
        let sent = self.plan.events - self.unsent;
        let of = Of::event(sent);
        self.unsent -= 1;
        if self.unsent > 0 {
            self.plan_sending(Of::event(sent + 1), self.plan.events, Self::send);
        }
        let forging = self.targets.values().position(|&target| self.plan.forging == Some(target));
        let nth = match (self.plan.outage, forging) {
            // Now and then it is an event of the other function.
            (Some(Outage { rate, neighbour, .. }), _) => {
                usize::from(self.choices.number(of, TARGET, 1..=rate + neighbour) > rate)
            }
            (None, Some(nth)) if self.choices.happens(of, "to the forged", 0.9) => nth,
            (None, _) => self.choices.index(of, TARGET, self.targets.len()),
        };
        let Some((name, &target)) = self.targets.iter().nth(nth) else { return };
        let name = Arc::clone(name);
        if self.choices.happens(of, "undelivered", self.plan.undelivered) {
            return self.send_undelivered(of, target);
        }
        if let Form::Bucket(notices) = self.plan.targets[target].form
            && self.choices.happens(of, "given up by a mapping", self.plan.batches)
        {
            return self.give_up_batch(of, target, notices);
        }
        let (event, second) = (self.judge.known.events.len(), self.now.timestamp());
        if self.plan.targets[target].is_queue() {
            return self.send_message(of, target, event, second);
        }
        let is_forged =
            self.plan.forging == Some(target) && self.choices.happens(of, "forged", FORGED);
        let payload = if is_forged {
            self.judge.known.tally.count(Seen::Step("forgeries"));
            payload::forgery(event, second, of, &mut self.choices)
        } else {
            self.payload_of(of, event, second)
        };
        let trace = self.trace_of_event(of);
        let invocation = Invocation {
            function: &name,
            invocation_type: InvocationType::Event,
            payload: payload.text.as_bytes(),
            trace_header: Some(&trace),
            ..Invocation::default()
        };
        // If Lambda refuses the invocation, the client knows that, and there is no event.
        if let Ok(Invoked::Accepted(request_id)) = self.cloud.invoke(self.now, invocation) {
            self.judge.known.sent(target, payload, &request_id, &trace);
            self.note_sender(of);
        }
    }

    /// The payload of an event for a function.
    pub fn payload_of(&mut self, of: Of, event: usize, second: i64) -> payload::Payload {
        if self.plan.outage.is_some() {
            payload::plain(event)
        } else if self.choices.happens(of, "large", self.plan.large) {
            payload::large(event, of, &mut self.choices)
        } else if self.choices.happens(of, "equal", self.plan.equal) {
            self.judge.known.tally.count(Seen::Step("equal payloads"));
            payload::equal(of, &mut self.choices)
        } else if self.choices.happens(of, "nested", self.plan.nested) {
            payload::nested(event, second, of, &mut self.choices)
        } else {
            payload::payload(event, second, of, &mut self.choices)
        }
    }

    /// A producer sends a message to a source queue.
    fn send_message(&mut self, of: Of, target: usize, event: usize, second: i64) {
        if self.is_gone(target) {
            return;
        }
        let is_large = self.choices.happens(of, "large", self.plan.large);
        let (payload, forged) = payload::message(event, second, is_large, of, &mut self.choices);
        let trace = self.trace();
        let mut message = payload.message.as_deref().cloned().unwrap_or_default();
        message.attributes.extend(forged.map(|forged| (METADATA.to_owned(), forged)));
        message.trace_header = Some(trace.clone());
        let queue = &self.plan.targets[target].name;
        // If the queue refuses the message, there is none.
        if let Ok(sent) = self.cloud.sqs.send(self.now, queue, message) {
            let id = Arc::clone(&sent.message_id);
            self.judge.known.sent(target, payload, &id, &trace);
            self.note_sender(of);
        }
    }

    /// Consumers receive what their queues have for them. What has failed stays, until SQS moves it.
    pub fn consume(&mut self) {
        let plan = Rc::clone(&self.plan);
        for (number, target) in plan.targets.iter().enumerate().filter(|(_, it)| it.is_queue()) {
            let is_due = |world: &mut Self| {
                let next = world.cloud.unchanged().sqs.next_visible_at(&target.name, world.now);
                next.is_some_and(|at| at <= world.now)
            };
            while is_due(self) {
                let received = self.cloud.sqs.receive(self.now, &target.name, 10, None);
                for message in received.unwrap_or_default() {
                    if self.fails(number, &message.message_id) {
                        continue;
                    }
                    let of = self.of_request(&message.message_id);
                    let lasts = self.choices.millis(of, "runs for", 5..=1_500);
                    let (id, handle) = (message.message_id, message.receipt_handle);
                    self.after(lasts, move |world| {
                        let queue = &world.plan.targets[number].name;
                        // The handle is valid until the message is shown again.
                        let _ = world.cloud.sqs.delete(world.now, queue, &handle);
                        world.judge.known.succeeded(&id);
                    });
                }
            }
        }
    }

    /// When a consumer will next receive something.
    pub fn next_consumed(&mut self) -> Option<Timestamp> {
        let queues = self.plan.targets.iter().filter(|target| target.is_queue());
        let next =
            queues.filter_map(|it| self.cloud.unchanged().sqs.next_visible_at(&it.name, self.now));
        next.min()
    }

    /// A new trace header, for a new chain of requests.
    pub fn trace(&mut self) -> String {
        let parent = self.choices.seed();
        self.trace_with(format!("Parent={parent:016x};Sampled=0"))
    }

    /// A trace header with a new root.
    pub fn trace_with(&mut self, rest: String) -> String {
        let (second, root) = (self.now.timestamp(), self.choices.seed());
        format!("Root=1-{second:08x}-00000000{root:016x};{rest}")
    }

    /// The trace header of an event that a client sends. Some have no root, and some one that others have too.
    pub fn trace_of_event(&mut self, of: Of) -> String {
        let trace = self.trace();
        let (root, rest) = trace.split_once(';').unwrap_or_default();
        if self.choices.happens(of, "without a root", self.plan.rootless) {
            self.judge.known.tally.count(Seen::Step("events without a root"));
            rest.to_owned()
        } else if self.choices.happens(of, "shares its root", self.plan.shared) {
            self.judge.known.tally.count(Seen::Step("events that share a root"));
            format!("{SHARED_ROOT};{rest}")
        } else {
            format!("{root};{rest}")
        }
    }

    /// A stranger, and not Lambda, sends a message to a retry queue.
    pub fn send_strange(&mut self) {
        let sent = self.plan.strangers - self.strange;
        let of = Of::stranger(sent);
        self.strange -= 1;
        if self.strange > 0 {
            self.plan_sending(Of::stranger(sent + 1), self.plan.strangers, Self::send_strange);
        }
        let plan = Rc::clone(&self.plan);
        let id = format!("stranger-{}", self.judge.known.events.len());
        let (number, queue, stranger) = match plan.attack {
            Some(attack) => self.hostile(of, attack, &id),
            None => {
                let number = self.choices.index(of, TARGET, plan.targets.len());
                let target = &plan.targets[number];
                if let Form::Bucket(notices) = target.form {
                    return self.put_strange(of, number, notices, &id);
                }
                // Strangers write about functions.
                if target.is_queue() {
                    return;
                }
                (number, target.queue, self.strange(of, number, target, &id))
            }
        };
        let trace = self.trace();
        if let Some(id) = self.post(queue, &stranger, &trace) {
            let is_named = stranger.body.contains(&*stranger.request_id);
            let is_letter = !stranger.attributes.is_empty() && stranger.is_refused;
            let request_id =
                if is_named || is_letter { Arc::clone(&stranger.request_id) } else { id };
            self.judge.known.stranger(number, Stranger { request_id, ..stranger }, &trace);
            self.note_sender(of);
            self.judge.known.tally.count(Seen::Fault(Fault::Poison));
        }
    }

    /// Sends a message to a retry queue, and returns its id. If the queue refuses the message, there is none.
    pub fn post(&mut self, queue: usize, stranger: &Stranger, trace: &str) -> Option<Arc<str>> {
        let attribute =
            |(name, value): &(&str, String)| ((*name).to_owned(), MessageAttribute::string(value));
        let message = Outgoing {
            body: stranger.body.as_str().into(),
            attributes: stranger.attributes.iter().map(attribute).collect(),
            trace_header: Some(trace.to_owned()),
            ..Outgoing::default()
        };
        let sent = self.cloud.sqs.send(self.now, &self.plan.queues[queue].name, message);
        sent.ok().map(|sent| Arc::clone(&sent.message_id))
    }

    /// A message that a stranger sends by mistake, about a target.
    fn strange(&mut self, of: Of, number: usize, target: &TargetPlan, id: &str) -> Stranger {
        let arn = qualified_arn(&target.name);
        let now = rfc3339(self.now);
        let payload = format!(r#"{{"strange":{number}}}"#);
        let context =
            format!(r#""requestId":"{id}","functionArn":"{arn}","condition":"SomethingNew""#);
        let carried = format!(r#","requestPayload":{payload}"#);
        let good = |body: String| Stranger::new("by mistake", body, id, &payload);
        let given_up = |body: String, reason| Stranger {
            letter: body.clone(),
            over: Some(reason),
            ..good(body)
        };
        match self.choices.kind(of, "kind", 0..=9, 9) {
            9 | 0 if self.choices.happens(of, "large", self.plan.large) => {
                given_up(format!("no JSON, {id}, {}", "x".repeat(TOO_LARGE)), "unreadable")
            }
            0 => given_up(format!("no JSON, {id}"), "unreadable"),
            1 => given_up(format!(r#"{{"no":"function","id":"{id}"}}"#), "unreadable"),
            2 => given_up(record(&now, r#""functionArn":"orders""#, &carried), "unreadable"),
            3 => {
                let foreign = match self.neighbour(number) {
                    Some(neighbour) => context.replace(&arn, &qualified_arn(neighbour)),
                    None => context.replace("000000000000", "999999999999"),
                };
                let over = Some("target_not_allowed");
                Stranger { over, is_refused: true, ..good(record(&now, &foreign, &carried)) }
            }
            4 => given_up(record(&now, &context, ""), "payload_missing"),
            5 => good(record("2101-01-01T00:00:00.000Z", &context, &carried)),
            6 => good(record(&now, &format!(r#""functionArn":"{arn}""#), &carried)),
            7 => {
                let times = ["", "tomorrow", "2101-01-01T00:00:00Z"];
                let forged = self.choices.pick(of, "FailedAt", &times);
                let forged = Some(("FailedAt", forged.to_owned())).filter(|(_, at)| !at.is_empty());
                let attributes = forged.into_iter().collect();
                Stranger { attributes, ..good(record("yesterday", &context, &carried)) }
            }
            // It belongs to the only function whose own dead-letter queue this handler serves.
            8 if target.form == Form::Bare
                && self.choices.happens(of, "large", self.plan.large) =>
            {
                let reason = match target.is_allowed() {
                    true => "payload_too_large",
                    false => "target_not_allowed",
                };
                let body = format!(r#""{id}{}""#, "x".repeat(TOO_LARGE - id.len() - 2));
                let attributes = vec![("RequestID", id.to_owned())];
                Stranger { attributes, ..given_up(body, reason) }
            }
            _ => good(record(&now, &context, &carried)),
        }
    }

    /// A message from a function that an attacker has taken over. Returns the target and the queue to send it to.
    fn hostile(&mut self, of: Of, attack: Attack, id: &str) -> (usize, usize, Stranger) {
        let Attack { by, on, open_queue } = attack;
        let plan = Rc::clone(&self.plan);
        let own_queue = plan.targets[by].queue;
        let (own, victim) =
            (qualified_arn(&plan.targets[by].name), qualified_arn(&plan.targets[on].name));
        let now = rfc3339(self.now);
        let payload = format!(r#"{{"hostile":"{id}"}}"#);
        let about = |arn: &str, id: &str, rest: &str| {
            let context = format!(
                r#""requestId":"{id}","functionArn":"{arn}","condition":"RetriesExhausted""#
            );
            record(&now, &context, rest)
        };
        let carrying = |payload: &str| format!(r#","requestPayload":{payload}"#);
        let hostile = |kind, body: String| Stranger::new(kind, body, id, &payload);
        let refused = |stranger: Stranger| Stranger {
            over: Some("target_not_allowed"),
            is_refused: true,
            ..stranger
        };
        let initial = self.now.timestamp() - 1;
        match self.choices.kind(of, "kind", 0..=6, 6) {
            0 => {
                let size = self.choices.number(of, "bytes", 1_048_500..=1_048_576) as usize;
                let start = format!("{id}: {}", about(&victim, id, &carrying(&payload)));
                let body = format!("{start}{}", " ".repeat(size - start.len()));
                let (letter, over) = (body.clone(), Some("unreadable"));
                let stranger = hostile("hostile: leaves a letter no room", body);
                (by, own_queue, Stranger { letter, over, ..stranger })
            }
            1 => {
                let (kind, named, arn) = self.letter_target(of, attack, victim);
                let attributes =
                    [("Reason", "target_not_allowed"), (named, &*arn), ("RequestId", id)];
                let attributes = attributes.map(|(name, value)| (name, value.to_owned())).to_vec();
                let stranger = hostile(kind, payload.clone());
                (on, open_queue, refused(Stranger { attributes, ..stranger }))
            }
            2 => {
                let theirs = self.judge.known.victims_request(on, by, of, &mut self.choices);
                let theirs = theirs.unwrap_or(id.into());
                let body = about(&own, &theirs, &carrying(&payload));
                let stranger = hostile("hostile: the victim's request id", body);
                (by, own_queue, Stranger { request_id: theirs, ..stranger })
            }
            3 => {
                let members = self.choices.number(of, "members", 1_500..=20_000) as usize;
                let members = r#","m":1"#.repeat(members * 2);
                let payload = envelope(&metadata(1, initial, None, &members), &payload);
                let body = about(&own, id, &carrying(&payload));
                let stranger = hostile("hostile: metadata with thousands of members", body);
                (by, own_queue, Stranger { letter: payload, ..stranger })
            }
            4 => {
                let size = self.choices.number(of, "size of its id", 257..=12_000) as usize;
                let others = format!(r#","request_id":"{}""#, "x".repeat(size));
                let foreign = Foreign {
                    attempt: 1,
                    initial,
                    request_id: None,
                    others,
                    original: payload.clone(),
                    inner: None,
                };
                let body = about(&own, id, &carrying(&envelope(&foreign.metadata(), &payload)));
                let stranger = hostile("hostile: an id of kilobytes", body);
                (by, own_queue, Stranger { envelope: Some(foreign), ..stranger })
            }
            5 => {
                let body = about(&victim, id, "");
                let rest = self.choices.number(of, "bytes", 1_048_300..=1_048_576) as usize;
                let rest = rest - body.len();
                let is_large = self.choices.happens(of, "large", 0.5);
                let body = body + &" ".repeat(rest * usize::from(is_large));
                let stranger =
                    hostile("hostile: the victim's record without a payload", body.clone());
                let over = Some("payload_missing");
                (by, own_queue, Stranger { letter: body, over, ..refused(stranger) })
            }
            _ => {
                let envelope = envelope(&metadata(1, initial, Some(id), ""), &payload);
                let body = about(&victim, id, &carrying(&envelope));
                let foreign = Foreign {
                    attempt: 1,
                    initial,
                    request_id: Some(id.to_owned()),
                    others: String::new(),
                    original: payload.clone(),
                    inner: None,
                };
                let stranger = hostile("hostile: the victim's retry has failed", body);
                (by, own_queue, refused(Stranger { envelope: Some(foreign), ..stranger }))
            }
        }
    }

    /// The kind of a refused letter, and the attribute that names its target: the victim, or a queue that the same
    /// handler retries.
    fn letter_target(
        &mut self,
        of: Of,
        attack: Attack,
        victim: String,
    ) -> (&'static str, &'static str, String) {
        let plan = Rc::clone(&self.plan);
        let handler_of = |target: &TargetPlan| plan.queues[target.queue].handler;
        let handler = handler_of(&plan.targets[attack.by]);
        let is_it = |target: &&TargetPlan| target.is_queue() && handler_of(target) == handler;
        let queue = plan.targets.iter().find(is_it);
        match queue.filter(|_| self.choices.happens(of, "of a queue", 0.5)) {
            Some(queue) => (
                "hostile: a refused letter of a queue comes back",
                "SourceQueueArn",
                queue_arn(&queue.name),
            ),
            None => ("hostile: a refused letter comes back", "FunctionArn", victim),
        }
    }

    /// A target of another queue, if the handler binds queues to functions: it must not be invoked from this queue.
    pub fn neighbour(&self, number: usize) -> Option<&str> {
        let queue = self.plan.targets[number].queue;
        let others = self.plan.targets.iter().filter(|target| target.queue != queue);
        let mut bound = others.filter(|_| self.plan.handler_of(number).binds_queues);
        bound.next().map(|target| &*target.name)
    }

    /// Forwards the records that topics and buses have received.
    pub fn relay(&mut self) {
        let plan = Rc::clone(&self.plan);
        for target in &plan.targets {
            if !matches!(target.form, Form::Notification | Form::EventBridge) {
                continue;
            }
            let relay = relay_queue(&plan.queues[target.queue].name, target.form);
            let next = self.cloud.unchanged().sqs.next_visible_at(&relay, self.now);
            if next.is_none_or(|at| at > self.now) {
                continue;
            }
            for message in self.receive_all(&relay) {
                let onward = Outgoing {
                    body: wrapped(target.form, &message.body).into(),
                    trace_header: message.trace_header.as_deref().map(str::to_owned),
                    ..Outgoing::default()
                };
                let of = self.of_trace(onward.trace_header.as_deref().unwrap_or_default());
                let delay = self.choices.millis(of, "relayed after", 20..=400);
                let queue = target.queue;
                self.after(delay, move |world| world.forward(queue, onward));
            }
        }
    }

    pub fn forward(&mut self, queue: usize, message: Outgoing) {
        let trace: Arc<str> = message.trace_header.as_deref().unwrap_or_default().into();
        let queue = &self.plan.queues[queue].name;
        // If the message around a record is too large, the record is lost, as on AWS.
        if self.cloud.sqs.send(self.now, queue, message).is_err() {
            self.judge.known.tally.count(Seen::Fault(Fault::RecordTooLarge));
            self.judge.known.lost_on_its_way(&trace);
        }
    }

    /// SQS delivers a message again while a handler has it.
    pub fn redeliver(&mut self, queue: usize, handle: &str) {
        let queue = &self.plan.queues[queue].name;
        // The message may be deleted or visible by now.
        let _ = self.cloud.sqs.change_visibility(self.now, queue, handle, 0);
    }

    /// Begins a run of a target. Its outcome is drawn now and takes effect later.
    pub fn run_target(&mut self, run: &Run) {
        let Some(&target) = self.targets.get(&run.configuration.name) else { return };
        self.judge.began(&run.request_id, run.payload.get(), &run.trace_header);
        let of = self.of_request(&run.request_id);
        let is_forged =
            self.plan.forging == Some(target) && self.judge.known.is_forged(&run.request_id);
        let outcome = match self.fails(target, &run.request_id) {
            // It never comes back, so no handler has anything to do with it.
            _ if is_forged => Outcome::Failed(br#"{"errorType":"PermanentFailure"}"#.to_vec()),
            true => self.failure(of),
            false => Outcome::Returned(self.answer_of(of, &run.request_id).into_bytes()),
        };
        let lasts = match matches!(outcome, Outcome::TimedOut) {
            true => run.configuration.timeout(),
            false if self.choices.happens(of, "fast", self.plan.fast) => {
                self.choices.millis(of, "runs for", 1..=5)
            }
            false => self.choices.millis(of, "runs for", 5..=2_000),
        };
        let run = run.id;
        self.after(lasts, move |world| {
            world.cloud.finish(world.now, run, outcome);
            world.observe();
        });
    }

    /// Whether a target fails to process this invocation or message.
    fn fails(&mut self, target: usize, id: &str) -> bool {
        if let Some(outage) = self.plan.outage {
            if target != 0 {
                return self.judge.known.open.get(id).is_some_and(|open| open.attempt == 0);
            }
            let second = self.now.timestamp();
            self.second =
                if self.second.0 == second { (second, self.second.1 + 1) } else { (second, 1) };
            let fails = self.is_down(target) == Some(true) || self.second.1 > outage.capacity;
            let (invocations, errors) = self.minutes.entry(second / 60).or_default();
            (*invocations, *errors) = (*invocations + 1, *errors + u32::from(fails));
            return fails;
        }
        let event = self.judge.known.open.get(id).map_or(0, |open| open.event);
        if self.is_hopeless(event) {
            true
        } else if self.is_calm {
            false
        } else {
            let of = self.of_request(id);
            let failing = self.plan.targets[target].failing;
            let is_down = self.is_down(target);
            is_down.unwrap_or_else(|| self.choices.happens(of, "fails", failing))
        }
    }

    fn failure(&mut self, of: Of) -> Outcome {
        let count = self.choices.number(of, "asks for", 1..=300);
        let unit = self.choices.pick(of, "asks in", &["s", "s", "s", "", "m", "h"]);
        let kinds = self.plan.failures_from..=99;
        let (error_type, message) = match self.choices.kind(of, "failure", kinds, 99) {
            0..=5 => {
                self.judge.known.tally.count(Seen::Fault(Fault::TargetCrashed));
                return Outcome::Exited(Exit::Status(1));
            }
            6..=9 => {
                self.judge.known.tally.count(Seen::Fault(Fault::TargetTimedOut));
                return Outcome::TimedOut;
            }
            10..=12 => {
                let odd = ["\"no\"", "[1]", "{\"errorType\":7}", "null", "<html>"];
                let odd = self.choices.pick(of, "odd error", &odd);
                return Outcome::Failed(odd.as_bytes().to_vec());
            }
            13..=20 => {
                self.judge.known.tally.count(Seen::Fault(Fault::TargetAskedToWait));
                let error_type = self.choices.pick(of, "error", &["RetryAfter", "kit::RetryAfter"]);
                (error_type, format!("{count}{unit}: the upstream says 429"))
            }
            21..=22 => ("RetryAfter", "soon: no duration".to_owned()),
            23..=25 => {
                let errors = ["PermanentFailure", "app.PermanentFailure"];
                (self.choices.pick(of, "error", &errors), String::new())
            }
            26..=29 => (self.choices.pick(of, "error", &NEVER).1, "it never heals".to_owned()),
            30..=32 => ("NotPermanentFailure", "é".repeat(800)),
            33..=34 => ("Error", "\\u0001 \\uffff".to_owned()),
            _ => ("Error", "the upstream is down".to_owned()),
        };
        let report = format!(r#"{{"errorType":"{error_type}","errorMessage":"{message}"}}"#);
        Outcome::Failed(report.into_bytes())
    }

    /// Reports to the judge what has happened in the cloud.
    pub fn observe(&mut self) {
        let mut happened = self.cloud.unchanged().take_happened().into_iter().peekable();
        // The cloud reports the error of a failed run before the fate of its record.
        let mut error = ErrorReport::default();
        while let Some(event) = happened.next() {
            let Some(request_id) = event.request_id else { continue };
            if let What::Finished { outcome, response } = event.what {
                if outcome == Ending::Succeeded {
                    let delivery = happened.next_if(|next| is_delivery_of(next, &request_id));
                    self.succeeded(&request_id, response.get(), delivery.map(|it| it.what));
                } else if self.judge.known.open.contains_key(&request_id) {
                    error = read(response.get());
                }
            } else if let What::GivenUp { condition, .. } = event.what {
                let delivery = happened.next_if(|next| is_delivery_of(next, &request_id));
                match delivery.map(|delivery| delivery.what) {
                    Some(What::DestinationSent { .. }) => {
                        self.judge.failed(&request_id, condition, std::mem::take(&mut error));
                    }
                    Some(_) => {
                        self.judge.known.tally.count(Seen::Fault(Fault::RecordTooLarge));
                        self.judge.known.lost(&request_id, "its record is too large");
                    }
                    None => self.judge.known.lost(&request_id, "its function is gone"),
                }
            }
        }
    }
}

impl World {
    /// A run has succeeded with this answer. The record of that may have been sent.
    fn succeeded(&mut self, request_id: &Arc<str>, answer: &str, delivery: Option<What>) {
        match delivery {
            Some(What::DestinationSent { .. }) => self.judge.success_recorded(request_id, answer),
            Some(_) if self.judge.known.success_lost(request_id, answer) => {
                self.judge.known.tally.count(Seen::Fault(Fault::RecordTooLarge));
            }
            Some(_) => {}
            None => self.judge.known.succeeded(request_id),
        }
    }
}

fn is_delivery_of(event: &Event, of: &Arc<str>) -> bool {
    let delivered =
        matches!(event.what, What::DestinationSent { .. } | What::DestinationFailed { .. });
    delivered && event.request_id.as_ref() == Some(of)
}

/// The error that a failed run reported, or an empty one if it can't be parsed.
fn read(response: &str) -> ErrorReport {
    let response: Value = serde_json::from_str(response).unwrap_or_default();
    let text = |name| response.get(name).and_then(Value::as_str).map(str::to_owned);
    ErrorReport { error_type: text("errorType"), message: text("errorMessage") }
}

pub fn record(time: &str, context: &str, rest: &str) -> String {
    format!(r#"{{"timestamp":"{time}","requestContext":{{{context}}}{rest}}}"#)
}

/// A record as a topic or a bus delivers it.
pub fn wrapped(form: Form, record: &str) -> String {
    match form {
        Form::Notification => {
            let message = Value::from(record);
            format!(r#"{{"Type":"Notification","MessageId":"1","Message":{message}}}"#)
        }
        Form::EventBridge => format!(
            r#"{{"version":"0","detail-type":"Lambda Function Invocation Result - Failure","source":"lambda","detail":{record}}}"#
        ),
        Form::Record | Form::Bare | Form::Queue { .. } | Form::Bucket(_) => record.to_owned(),
    }
}
