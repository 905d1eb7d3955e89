//! Who sends messages: clients, strangers, topics and buses.

use std::{rc::Rc, sync::Arc, time::Duration};

use comeback_core::time::rfc3339;
use comeback_local::model::{
    Invocation, InvocationType, Invoked,
    sqs::{MessageAttribute, MessageAttributes, Outgoing},
};

use super::{Step, World, build::relay_queue};
use crate::{
    judge::qualified,
    payload,
    plan::{Form, TargetPlan},
    tally::{Fault, Seen},
};

/// The size of a bare event that fits into a message although its envelope does not, in bytes.
const TOO_LARGE: usize = 1_048_500;

/// A stranger's message: its body, the body of its dead letter, and the reason if it is given up at once.
type Strange = (String, String, Option<&'static str>);

impl World {
    /// Plans the next of so many things that are spread over the time of sending.
    pub(super) fn plan_sending(&mut self, count: u64, step: Step) {
        let gap = self.plan.sending / (count as u32).max(1);
        let delay = self.dice.within(Duration::ZERO, 2 * gap);
        self.after(delay, step);
    }

    /// A client sends an event.
    pub(super) fn send(&mut self) {
        self.unsent -= 1;
        if self.unsent > 0 {
            self.plan_sending(self.plan.events, Step::Send);
        }
        let nth = self.dice.index(self.targets.len());
        let Some((name, &target)) = self.targets.iter().nth(nth) else { return };
        let name = Arc::clone(name);
        let (event, second) = (self.judge.next_event(), self.now.timestamp());
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
        // If Lambda does not accept it, its client knows, and there is no event.
        if let Ok(Invoked::Accepted(request_id)) = self.cloud.invoke(self.now, invocation) {
            self.judge.sent(target, payload, &request_id, trace.into());
        }
    }

    /// Begins a new chain of requests.
    fn trace(&mut self) -> String {
        let (second, root, parent) = (self.now.timestamp(), self.dice.seed(), self.dice.seed());
        format!("Root=1-{second:08x}-00000000{root:016x};Parent={parent:016x};Sampled=0")
    }

    /// Somebody else than Lambda puts a message into a retry queue.
    pub(super) fn send_strange(&mut self) {
        self.strange -= 1;
        if self.strange > 0 {
            self.plan_sending(self.plan.strangers, Step::Strange);
        }
        let plan = Rc::clone(&self.plan);
        let number = self.dice.index(plan.targets.len());
        let target = &plan.targets[number];
        let mut message = Outgoing::default();
        let id = format!("stranger-{}", self.judge.next_event());
        let (body, original, over) = self.strange_body(number, target, &id, &mut message);
        message.body = body.as_str().into();
        let trace = self.trace();
        message.trace_header = Some(trace.clone());
        // If its queue refuses the message, there is none.
        let queue = &plan.queues[target.queue].name;
        if let Ok(sent) = self.cloud.sqs.send(self.now, queue, message) {
            let request_id = if body.contains(&id) { id } else { sent.message_id };
            self.judge.stranger(number, request_id.into(), original, over, trace.into());
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
                let abroad = context.replace("000000000000", "999999999999");
                (record(&now, &abroad, &carried), payload, Some("target_not_allowed"))
            }
            4 => given_up(record(&now, &context, ""), "payload_missing"),
            5 => (record("2101-01-01T00:00:00.000Z", &context, &carried), payload, None),
            6 => {
                let nameless = format!(r#""functionArn":"{arn}""#);
                (record(&now, &nameless, &carried), payload, None)
            }
            7 => (record("yesterday", &context, &carried), payload, None),
            // It belongs to the one function whose own dead-letter queue its handler knows.
            8 if target.form == Form::Bare && self.dice.happens(self.plan.large) => {
                let id_attribute = ("RequestID".to_owned(), MessageAttribute::string(id));
                message.attributes = MessageAttributes::from([id_attribute]);
                let reason = match target.allowed {
                    true => "payload_too_large",
                    false => "target_not_allowed",
                };
                given_up(format!(r#""{id}{}""#, "x".repeat(TOO_LARGE - id.len() - 2)), reason)
            }
            _ => (record(&now, &context, &carried), payload, None),
        }
    }

    /// Passes on what topics and buses have received.
    pub(super) fn relay(&mut self) {
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
                self.after(delay, Step::Forward(target.queue, Box::new(onward)));
            }
        }
    }

    /// A message reaches a retry queue.
    pub(super) fn forward(&mut self, queue: usize, message: Outgoing) {
        let trace: Arc<str> = message.trace_header.as_deref().unwrap_or_default().into();
        let queue = &self.plan.queues[queue].name;
        // If the message around a record is too large, it is lost, as on AWS.
        if self.cloud.sqs.send(self.now, queue, message).is_err() {
            self.judge.tally.count(Seen::Fault(Fault::RecordTooLarge));
            self.judge.lost_on_its_way(&trace);
        }
    }

    /// A message is visible again while a handler has it.
    pub(super) fn redeliver(&mut self, queue: usize, handle: &str) {
        let queue = &self.plan.queues[queue].name;
        // It may be gone, or visible, by now.
        let _ = self.cloud.sqs.change_visibility(self.now, queue, handle, 0);
    }
}

/// A record as a topic or a bus delivers it.
fn wrapped(form: Form, record: &str) -> String {
    match form {
        Form::Notification => {
            let message = serde_json::Value::from(record);
            format!(r#"{{"Type":"Notification","MessageId":"1","Message":{message}}}"#)
        }
        Form::EventBridge => format!(
            r#"{{"version":"0","detail-type":"Lambda Function Invocation Result - Failure","source":"lambda","detail":{record}}}"#
        ),
        Form::Record | Form::Bare => record.to_owned(),
    }
}
