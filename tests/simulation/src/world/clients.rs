//! The senders of messages: clients, strangers, topics and buses. And the targets: how their runs end, and what the
//! judge learns about that.

use std::{rc::Rc, sync::Arc, time::Duration};

use comeback_core::{error_type::ErrorReport, time::rfc3339};
use comeback_local::{
    journal::{Ending, Event, What},
    model::{
        Invocation, InvocationType, Invoked,
        lambda::run::{Exit, Outcome, Run},
        sqs::{MessageAttribute, MessageAttributes, Outgoing},
    },
};
use serde_json::Value;

use super::{World, build::relay_queue};
use crate::{
    dice::Dice,
    judge::qualified,
    notes::{Fault, Seen},
    payload,
    plan::{Form, TargetPlan},
    rules::NEVER,
};

/// The size of an event, in bytes, that fits into a message by itself but not within its envelope.
const TOO_LARGE: usize = 1_048_500;

/// A stranger's message: its body, the body of its dead letter, and the reason if it is given up at once.
type Strange = (String, String, Option<&'static str>);

impl World {
    /// Spreads the next of `count` steps over the time of sending.
    pub fn plan_sending(&mut self, count: u64, step: fn(&mut Self)) {
        let gap = self.plan.sending / (count as u32).max(1);
        let delay = self.dice.within(Duration::ZERO, 2 * gap);
        self.after(delay, step);
    }

    /// A client sends an event.
    pub fn send(&mut self) {
        self.unsent -= 1;
        if self.unsent > 0 {
            self.plan_sending(self.plan.events, Self::send);
        }
        let nth = self.dice.index(self.targets.len());
        let Some((name, &target)) = self.targets.iter().nth(nth) else { return };
        let name = Arc::clone(name);
        let (event, second) = (self.judge.events.len(), self.now.timestamp());
        let payload = match self.dice.happens(self.plan.large) {
            true => payload::large(event, &mut self.dice),
            false => payload::payload(event, second, &mut self.dice),
        };
        let trace = self.trace();
        let invocation = Invocation {
            function: &name,
            invocation_type: InvocationType::Event,
            payload: payload.text.as_bytes(),
            trace_header: Some(&trace),
            client_context: None,
        };
        // If Lambda refuses the invocation, the client knows that, and there is no event.
        if let Ok(Invoked::Accepted(request_id)) = self.cloud.invoke(self.now, invocation) {
            self.judge.sent(target, payload, &request_id, trace.into());
        }
    }

    /// A new trace header, for a new chain of requests.
    fn trace(&mut self) -> String {
        let (second, root, parent) = (self.now.timestamp(), self.dice.seed(), self.dice.seed());
        format!("Root=1-{second:08x}-00000000{root:016x};Parent={parent:016x};Sampled=0")
    }

    /// A stranger, and not Lambda, sends a message to a retry queue.
    pub fn send_strange(&mut self) {
        self.strange -= 1;
        if self.strange > 0 {
            self.plan_sending(self.plan.strangers, Self::send_strange);
        }
        let plan = Rc::clone(&self.plan);
        let number = self.dice.index(plan.targets.len());
        let target = &plan.targets[number];
        let mut message = Outgoing::default();
        let id = format!("stranger-{}", self.judge.events.len());
        let (body, original, over) = self.strange_body(number, target, &id, &mut message);
        message.body = body.as_str().into();
        let trace = self.trace();
        message.trace_header = Some(trace.clone());
        // If the queue refuses the message, there is none.
        let queue = &plan.queues[target.queue].name;
        if let Ok(sent) = self.cloud.sqs.send(self.now, queue, message) {
            let request_id =
                if body.contains(&id) { id.into() } else { Arc::clone(&sent.message_id) };
            self.judge.stranger(number, request_id, original, over, trace.into());
            self.judge.tally.count(Seen::Fault(Fault::Poison));
        }
    }

    fn strange_body(
        &mut self,
        number: usize,
        target: &TargetPlan,
        id: &str,
        message: &mut Outgoing,
    ) -> Strange {
        let arn = qualified(&target.name);
        let now = rfc3339(self.now);
        let payload = format!(r#"{{"strange":{number}}}"#);
        let record = |time: &str, context: &str, rest: &str| {
            format!(r#"{{"timestamp":"{time}","requestContext":{{{context}}}{rest}}}"#)
        };
        let context =
            format!(r#""requestId":"{id}","functionArn":"{arn}","condition":"SomethingNew""#);
        let carried = format!(r#","requestPayload":{payload}"#);
        let given_up = |body: String, reason| (body.clone(), body, Some(reason));
        match self.dice.number(0..=9) {
            9 | 0 if self.dice.happens(self.plan.large) => {
                given_up(format!("no JSON, {id}, {}", "x".repeat(TOO_LARGE)), "unreadable")
            }
            0 => given_up(format!("no JSON, {id}"), "unreadable"),
            1 => given_up(format!(r#"{{"no":"function","id":"{id}"}}"#), "unreadable"),
            2 => given_up(record(&now, r#""functionArn":"orders""#, &carried), "unreadable"),
            3 => {
                let foreign = match self.neighbour(number) {
                    Some(neighbour) => context.replace(&arn, &qualified(neighbour)),
                    None => context.replace("000000000000", "999999999999"),
                };
                (record(&now, &foreign, &carried), payload, Some("target_not_allowed"))
            }
            4 => given_up(record(&now, &context, ""), "payload_missing"),
            5 => (record("2101-01-01T00:00:00.000Z", &context, &carried), payload, None),
            6 => {
                let nameless = format!(r#""functionArn":"{arn}""#);
                (record(&now, &nameless, &carried), payload, None)
            }
            7 => {
                let forged = self.dice.pick(&["", "tomorrow", "2101-01-01T00:00:00Z"]);
                if !forged.is_empty() {
                    let forged = ("FailedAt".to_owned(), MessageAttribute::string(forged));
                    message.attributes = MessageAttributes::from([forged]);
                }
                (record("yesterday", &context, &carried), payload, None)
            }
            // It belongs to the only function whose own dead-letter queue this handler serves.
            8 if target.form == Form::Bare && self.dice.happens(self.plan.large) => {
                let id_attribute = ("RequestID".to_owned(), MessageAttribute::string(id));
                message.attributes = MessageAttributes::from([id_attribute]);
                let reason = match target.is_allowed() {
                    true => "payload_too_large",
                    false => "target_not_allowed",
                };
                given_up(format!(r#""{id}{}""#, "x".repeat(TOO_LARGE - id.len() - 2)), reason)
            }
            _ => (record(&now, &context, &carried), payload, None),
        }
    }

    /// A target of another queue, if the handler binds queues to functions: it must not be invoked from this queue.
    fn neighbour(&self, number: usize) -> Option<&str> {
        let queue = self.plan.targets[number].queue;
        let others = self.plan.targets.iter().filter(|target| target.queue != queue);
        let mut bound = others.filter(|_| self.plan.handler_of(number).binds_queues);
        bound.next().map(|target| &*target.name)
    }

    /// Forwards the records that topics and buses have received.
    pub fn relay(&mut self) {
        let plan = Rc::clone(&self.plan);
        for target in &plan.targets {
            if matches!(target.form, Form::Record | Form::Bare) {
                continue;
            }
            let relay = relay_queue(&plan.queues[target.queue].name, target.form);
            let next = self.cloud.sqs.next_visible_at(&relay, self.now);
            if next.is_none_or(|at| at > self.now) {
                continue;
            }
            for message in self.receive_all(&relay) {
                let onward = Outgoing {
                    body: wrapped(target.form, &message.body).into(),
                    trace_header: message.trace_header.as_deref().map(str::to_owned),
                    ..Outgoing::default()
                };
                let delay = self.dice.millis(20..=400);
                let queue = target.queue;
                self.after(delay, move |world| world.forward(queue, onward));
            }
        }
    }

    /// A message reaches a retry queue.
    pub fn forward(&mut self, queue: usize, message: Outgoing) {
        let trace: Arc<str> = message.trace_header.as_deref().unwrap_or_default().into();
        let queue = &self.plan.queues[queue].name;
        // If the message around a record is too large, the record is lost, as on AWS.
        if self.cloud.sqs.send(self.now, queue, message).is_err() {
            self.judge.tally.count(Seen::Fault(Fault::RecordTooLarge));
            self.judge.lost_on_its_way(&trace);
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
        let outcome = self.outcome(target, run);
        let lasts = match matches!(outcome, Outcome::TimedOut) {
            true => run.configuration.timeout(),
            false => self.dice.millis(5..=2_000),
        };
        let run = run.id;
        self.after(lasts, move |world| {
            world.cloud.finish(world.now, run, outcome);
            world.observe();
        });
    }

    fn outcome(&mut self, target: usize, run: &Run) -> Outcome {
        let event = self.judge.open.get(&run.request_id).map_or(0, |open| open.event);
        // Drawn once per event, not for each of its runs.
        let is_hopeless = || {
            let seed = self.plan.seed.wrapping_add(event as u64);
            Dice::seeded(seed).unit() < self.plan.hopeless
        };
        let fails = if self.plan.hopeless > 0.0 && is_hopeless() {
            true
        } else if self.is_calm {
            false
        } else {
            let is_down = self.is_down(target);
            is_down.unwrap_or_else(|| self.dice.happens(self.plan.targets[target].failing))
        };
        if fails { self.failure() } else { Outcome::Returned(b"null".to_vec()) }
    }

    fn failure(&mut self) -> Outcome {
        let count = self.dice.number(1..=300);
        let unit = self.dice.pick(&["s", "s", "s", "", "m", "h"]);
        let (error_type, message) = match self.dice.number(self.plan.failures_from..=99) {
            0..=5 => {
                self.judge.tally.count(Seen::Fault(Fault::TargetCrashed));
                return Outcome::Exited(Exit::Status(1));
            }
            6..=9 => {
                self.judge.tally.count(Seen::Fault(Fault::TargetTimedOut));
                return Outcome::TimedOut;
            }
            10..=12 => {
                let odd = ["\"no\"", "[1]", "{\"errorType\":7}", "null", "<html>"];
                return Outcome::Failed(self.dice.pick(&odd).as_bytes().to_vec());
            }
            13..=20 => {
                self.judge.tally.count(Seen::Fault(Fault::TargetAskedToWait));
                let error_type = self.dice.pick(&["RetryAfter", "kit::RetryAfter"]);
                (error_type, format!("{count}{unit}: the upstream says 429"))
            }
            21..=22 => ("RetryAfter", "soon: no duration".to_owned()),
            23..=25 => {
                (self.dice.pick(&["PermanentFailure", "app.PermanentFailure"]), String::new())
            }
            26..=29 => (self.dice.pick(&NEVER).1, "it never heals".to_owned()),
            30..=32 => ("NotPermanentFailure", "é".repeat(800)),
            33..=34 => ("Error", "\\u0001 \\uffff".to_owned()),
            _ => ("Error", "the upstream is down".to_owned()),
        };
        let report = format!(r#"{{"errorType":"{error_type}","errorMessage":"{message}"}}"#);
        Outcome::Failed(report.into_bytes())
    }

    /// Reports to the judge what has happened in the cloud.
    pub fn observe(&mut self) {
        let mut happened = self.cloud.take_happened().into_iter().peekable();
        // The cloud reports the error of a failed run before the fate of its record.
        let mut error = ErrorReport::default();
        while let Some(event) = happened.next() {
            let Some(request_id) = event.request_id else { continue };
            if let What::Finished { outcome, response } = event.what {
                if outcome == Ending::Succeeded {
                    self.judge.succeeded(&request_id);
                } else if self.judge.open.contains_key(&request_id) {
                    error = read(response.get());
                }
            } else if let What::GivenUp { condition, .. } = event.what {
                let delivery = happened.next_if(|next| is_delivery_of(next, &request_id));
                match delivery.map(|delivery| delivery.what) {
                    Some(What::DestinationSent { .. }) => {
                        self.judge.failed(&request_id, condition, std::mem::take(&mut error));
                    }
                    Some(_) => {
                        self.judge.tally.count(Seen::Fault(Fault::RecordTooLarge));
                        self.judge.lost(&request_id, "its record is too large");
                    }
                    None => self.judge.lost(&request_id, "its function is gone"),
                }
            }
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

/// A record as a topic or a bus delivers it.
fn wrapped(form: Form, record: &str) -> String {
    match form {
        Form::Notification => {
            let message = Value::from(record);
            format!(r#"{{"Type":"Notification","MessageId":"1","Message":{message}}}"#)
        }
        Form::EventBridge => format!(
            r#"{{"version":"0","detail-type":"Lambda Function Invocation Result - Failure","source":"lambda","detail":{record}}}"#
        ),
        Form::Record | Form::Bare => record.to_owned(),
    }
}
