//! Who sends: clients to their functions, strangers to the retry queues, topics and buses onward.

use std::{rc::Rc, sync::Arc, time::Duration};

use comeback_core::time::rfc3339;
use comeback_local::model::{
    Invocation, InvocationType, Invoked,
    sqs::{MessageAttribute, MessageAttributes, Outgoing},
};

use super::{Step, World, build::relay_queue};
use crate::{
    judge::{Stranger, qualified},
    payload,
    plan::{Form, TargetPlan},
    tally::Fault,
};

/// A bare event that a message can carry and its envelope can't.
const TOO_LARGE: usize = 1_048_500;

impl World {
    /// Plans the next of so many things that are spread over the time of sending.
    pub(super) fn plan_sending(&mut self, count: u64, step: Step) {
        let gap = self.plan.sending / u32::try_from(count).unwrap_or(u32::MAX).max(1);
        let delay = self.draw.within(Duration::ZERO, 2 * gap);
        self.agenda.plan(self.after(delay), step);
    }

    /// A client sends an event.
    pub(super) fn send(&mut self) {
        self.unsent -= 1;
        if self.unsent > 0 {
            self.plan_sending(self.plan.events, Step::Send);
        }
        let plan = Rc::clone(&self.plan);
        let present: Vec<_> = self.targets.values().copied().collect();
        let target = *self.draw.pick(&present);
        let (event, second) = (self.judge.next_event(), self.now.timestamp());
        let payload = match self.draw.happens(plan.large) {
            true => payload::large(event, &mut self.draw),
            false => payload::payload(event, second, &mut self.draw),
        };
        let trace = self.trace();
        let invocation = Invocation {
            function: &plan.targets[target].name,
            invocation_type: InvocationType::Event,
            payload: payload.text.as_bytes(),
            trace_header: Some(&trace),
            client_context: None,
        };
        // What Lambda does not accept, its client knows of: it is no event.
        if let Ok(Invoked::Accepted(request_id)) = self.cloud.invoke(self.now, invocation) {
            self.judge.sent(self.now, target, payload, &request_id, trace.into());
        }
    }

    /// Where a new chain of requests begins.
    fn trace(&mut self) -> String {
        let (root, parent) = (self.draw.seed(), self.draw.seed());
        format!(
            "Root=1-{:08x}-00000000{root:016x};Parent={parent:016x};Sampled=0",
            self.now.timestamp()
        )
    }

    /// Somebody puts a message into a retry queue that Lambda did not write.
    pub(super) fn send_strange(&mut self) {
        self.strange -= 1;
        if self.strange > 0 {
            self.plan_sending(self.plan.strangers, Step::Strange);
        }
        let plan = Rc::clone(&self.plan);
        let number = self.draw.index(plan.targets.len());
        let target = &plan.targets[number];
        let mut message = Outgoing::default();
        let id = format!("stranger-{}", self.judge.next_event());
        let (body, original, over) = self.strange_body(number, target, &id, &mut message);
        message.body = body.as_str().into();
        let trace = self.trace();
        message.trace_header = Some(trace.clone());
        let queue = &plan.queues[target.queue].name;
        // A message that its queue refuses was never there.
        if let Ok(sent) = self.cloud.sqs.send(self.now, queue, message) {
            let request_id = if body.contains(&id) { id } else { sent.message_id };
            let stranger = Stranger { target: number, request_id, body: original, over };
            self.judge.stranger(&plan, self.now, stranger, trace.into());
            self.judge.tally.fault(Fault::Poison);
        }
    }

    /// The message, what its dead letter has for a body, and the reason if it is given up at once.
    fn strange_body(
        &mut self,
        number: usize,
        target: &TargetPlan,
        id: &str,
        message: &mut Outgoing,
    ) -> (String, String, Option<&'static str>) {
        let arn = qualified(&target.name);
        let now = rfc3339(self.now);
        let payload = format!(r#"{{"strange":{number}}}"#);
        let record = |time: &str, context: &str, rest: &str| {
            format!(r#"{{"timestamp":"{time}","requestContext":{{{context}}}{rest}}}"#)
        };
        let whole =
            format!(r#""requestId":"{id}","functionArn":"{arn}","condition":"SomethingNew""#);
        let carried = format!(r#","requestPayload":{payload}"#);
        let given_up = |body: String, reason| (body.clone(), body, Some(reason));
        match self.draw.number(0..=9) {
            9 | 0 if self.draw.happens(self.plan.large) => {
                given_up(format!("no JSON, {id}, {}", "x".repeat(TOO_LARGE)), "unreadable")
            }
            0 => given_up(format!("no JSON, {id}"), "unreadable"),
            1 => given_up(format!(r#"{{"no":"function","id":"{id}"}}"#), "unreadable"),
            2 => given_up(record(&now, r#""functionArn":"orders""#, &carried), "unreadable"),
            3 => {
                let abroad = whole.replace("000000000000", "999999999999");
                (record(&now, &abroad, &carried), payload, Some("target_not_allowed"))
            }
            4 => given_up(record(&now, &whole, ""), "payload_missing"),
            5 => (record("2101-01-01T00:00:00.000Z", &whole, &carried), payload, None),
            6 => {
                let nameless = format!(r#""functionArn":"{arn}""#);
                (record(&now, &nameless, &carried), payload, None)
            }
            7 => (record("yesterday", &whole, &carried), payload, None),
            8 if target.form == Form::Bare && self.draw.happens(self.plan.large) => {
                too_large(target, id, message)
            }
            _ => (record(&now, &whole, &carried), payload, None),
        }
    }

    /// Passes on what topics and buses have taken.
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
                let delay = self.draw.millis(20..=400);
                self.agenda.plan(self.after(delay), Step::Forward(target.queue, Box::new(onward)));
            }
        }
    }

    /// A message reaches a retry queue.
    pub(super) fn forward(&mut self, queue: usize, message: Outgoing) {
        let plan = Rc::clone(&self.plan);
        // One that is too large for its new clothes is lost, as on AWS.
        let trace: Arc<str> = message.trace_header.as_deref().unwrap_or_default().into();
        if self.cloud.sqs.send(self.now, &plan.queues[queue].name, message).is_err() {
            self.judge.tally.fault(Fault::RecordTooLarge);
            self.judge.lost_on_its_way(self.now, &trace);
        }
    }

    /// A message is visible again while a handler has it.
    pub(super) fn redeliver(&mut self, queue: usize, handle: &str) {
        let plan = Rc::clone(&self.plan);
        // It may be gone, or visible, by now.
        let _ = self.cloud.sqs.change_visibility(self.now, &plan.queues[queue].name, handle, 0);
    }
}

/// A bare event near the limit: it belongs to the one function that its handler knows for that.
fn too_large(
    target: &TargetPlan,
    id: &str,
    message: &mut Outgoing,
) -> (String, String, Option<&'static str>) {
    message.attributes =
        MessageAttributes::from([("RequestID".to_owned(), MessageAttribute::string(id))]);
    let body = format!(r#""{id}{}""#, "x".repeat(TOO_LARGE - id.len() - 2));
    let reason = if target.allowed { "payload_too_large" } else { "target_not_allowed" };
    (body.clone(), body, Some(reason))
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
