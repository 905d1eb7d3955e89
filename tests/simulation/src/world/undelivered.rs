//! Events that EventBridge or its Scheduler could not deliver. The dead-letter queue of a rule's target, or of a
//! schedule's, is a retry queue. Anybody who may send to it may write the same.

use std::rc::Rc;

use comeback_core::error_type::ErrorReport;
use comeback_local_model::{
    ACCOUNT, REGION,
    lambda::name::{arn, qualified_arn},
    queue_arn,
};
use serde_json::{Value, json};

use super::World;
use crate::{
    choices::Of,
    judge::{Stranger, Undelivered, named},
    payload::{self, Payload},
    plan::TargetPlan,
    policy::{CODES, NEVER, STOPPED},
};

/// The codes of events whose dead letters have them in cipher.
const OF_ENCRYPTION: [&str; 2] = ["EVENT_ENCRYPTION_FAILURE", "ACTION_DECRYPTION_FAILURE"];

/// Attributes that nobody knows: as many as a rule's message may have beside its own.
const UNKNOWN: [&str; 5] = ["a", "b", "c", "d", "e"];

/// What a message says of its event, beside the event's target.
#[derive(Clone)]
struct Said {
    is_schedule: bool,
    source: String,
    code: &'static str,
    message: String,
}

impl Said {
    /// The attributes of EventBridge, or of its Scheduler.
    fn attributes(&self, target: &str, is_truncated: bool) -> Vec<(&'static str, String)> {
        let Self { is_schedule, source, code, message } = self;
        let of_both = [
            (if *is_schedule { "SCHEDULE_ARN" } else { "RULE_ARN" }, source.as_str()),
            ("TARGET_ARN", target),
            ("ERROR_CODE", code),
            ("ERROR_MESSAGE", message),
            ("RETRY_ATTEMPTS", "185"),
        ];
        let of_schedule = [
            ("EXECUTION_ID", "1"),
            ("EXHAUSTED_RETRY_CONDITION", "MaximumRetryAttempts"),
            ("IS_PAYLOAD_TRUNCATED", if is_truncated { "true" } else { "false" }),
            ("SCHEDULED_TIME", "2026-02-02T00:00:00Z"),
        ];
        let of_schedule = of_schedule.into_iter().filter(|_| *is_schedule);
        of_both.into_iter().chain(of_schedule).map(|(name, it)| (name, it.to_owned())).collect()
    }

    /// Those of the dead letter of an event that was never delivered.
    fn of_letter(&self, reason: &str, id: &str, target: &str) -> Vec<(&'static str, String)> {
        let is_queue = target.contains(":sqs:");
        [
            ("Reason", reason),
            (if is_queue { "SourceQueueArn" } else { "FunctionArn" }, target),
            ("RequestId", id),
            ("SourceArn", &self.source),
            ("ErrorType", self.code),
            ("ErrorMessage", &self.message),
            ("Attempts", "0"),
        ]
        .map(|(name, value)| (name, value.to_owned()))
        .to_vec()
    }
}

/// An event that was not delivered, and how its message names the target.
struct Lost {
    event: usize,
    said: Said,
    arn: String,
    is_plain: bool,
    is_of_queue: bool,
    payload: Payload,
}

impl Lost {
    fn says(&self, said: &Said) -> Undelivered {
        let end = said.message.floor_char_boundary(1024);
        Undelivered {
            source: said.source.clone(),
            error: ErrorReport {
                error_type: Some(said.code.to_owned()),
                message: Some(said.message[..end].to_owned()),
            },
            is_plain: self.is_plain,
            is_of_queue: self.is_of_queue,
            ..Undelivered::default()
        }
    }

    /// A message with this body, which is not the event as it is.
    fn odd(&self, kind: &'static str, body: &str, said: &Said) -> Stranger {
        Stranger {
            attributes: said.attributes(&self.arn, false),
            undelivered: Some(self.says(said)),
            ..Stranger::new(kind, body.to_owned(), "", body)
        }
    }

    /// The same, of which no target can be read.
    fn nothing(&self, over: &'static str, stranger: Stranger) -> Stranger {
        let says = Undelivered { says_nothing: true, ..self.says(&self.said) };
        let is_refused = over != "unreadable";
        Stranger { over: Some(over), is_refused, undelivered: Some(says), ..stranger }
    }

    /// A message from which the event can be read as it is.
    fn whole(&self, kind: &'static str, body: &str) -> Stranger {
        let Payload { text, envelope, .. } = &self.payload;
        let original = envelope.as_ref().map_or(text, |foreign| &foreign.original);
        let (letter, envelope) = (original.clone(), envelope.clone());
        Stranger { letter, envelope, ..self.odd(kind, body, &self.said) }
    }

    /// How Scheduler names the target, if it reaches it by a request.
    fn request(&self) -> &'static str {
        match self.is_of_queue {
            true => "arn:aws:scheduler:::aws-sdk:sqs:sendMessage",
            false => "arn:aws:scheduler:::aws-sdk:lambda:invoke",
        }
    }
}

impl World {
    /// An event for this target could not be delivered, and its message is in the retry queue.
    pub fn send_undelivered(&mut self, of: Of, target: usize) {
        let plan = Rc::clone(&self.plan);
        let TargetPlan { name, queue, .. } = &plan.targets[target];
        let is_of_queue = plan.targets[target].is_queue();
        let is_plain = !is_of_queue && self.choices.happens(of, "named without a version", 0.4);
        let arn = if is_plain { arn(name) } else { named(&plan.targets[target]) };
        let event = self.judge.known.events.len();
        let payload = self.payload_of_undelivered(of, event, is_of_queue);
        let lost = Lost { event, said: self.says(of), arn, is_plain, is_of_queue, payload };
        let stranger = match self.choices.kind(of, "undelivered as", 0..=23, 23) {
            kind @ 0..=7 => self.never_delivered(of, kind, target, &lost),
            kind => self.deliverable(of, kind, name, &lost),
        };
        let trace = self.trace_of_event(of);
        if let Some(request_id) = self.post(*queue, &stranger, &trace) {
            self.judge.known.stranger(target, Stranger { request_id, ..stranger }, &trace);
            self.note_sender(of);
        }
    }

    /// A message about an event that never reaches a target.
    fn never_delivered(&mut self, of: Of, kind: u64, target: usize, lost: &Lost) -> Stranger {
        let &Lost { event, ref said, is_of_queue, .. } = lost;
        let schedule = Said { is_schedule: true, ..said.clone() };
        match kind {
            0 => {
                let code = self.choices.pick(of, "code", &OF_ENCRYPTION);
                let said = Said { code, is_schedule: false, ..said.clone() };
                let body = format!(r#"{{"source":"aws.events","encrypted-payload":"{event}"}}"#);
                let stranger = lost.odd("undelivered: in cipher", &body, &said);
                Stranger { over: Some("payload_missing"), ..stranger }
            }
            1 | 2 => {
                let text = &lost.payload.text;
                let part = &text[..text.floor_char_boundary(text.len().div_ceil(2))];
                let says = Undelivered { is_truncated: true, ..lost.says(&schedule) };
                let (attributes, undelivered) = (schedule.attributes(&lost.arn, true), Some(says));
                let stranger = lost.odd("undelivered: only a part", part, &schedule);
                Stranger { attributes, undelivered, ..stranger }
            }
            3 if !is_of_queue => {
                let body = format!("no JSON, {event}");
                let stranger = lost.odd("undelivered: no JSON", &body, said);
                Stranger { over: Some("unreadable"), ..stranger }
            }
            5 => {
                let (body, topic) = (event.to_string(), arn("orders").replace(":lambda:", ":sns:"));
                let attributes = said.attributes(&topic, false);
                let stranger = lost.odd("undelivered: to no target", &body, said);
                lost.nothing("target_not_allowed", Stranger { attributes, ..stranger })
            }
            6 => {
                let attributes = schedule.attributes(lost.request(), true);
                let part = r#"{"FunctionName":"#;
                let stranger = lost.odd("undelivered: a part of a request", part, &schedule);
                lost.nothing("payload_truncated", Stranger { attributes, ..stranger })
            }
            7 => {
                let attributes = schedule.attributes(lost.request(), false);
                let body = match is_of_queue {
                    // With anything else in it, the message would not be the same.
                    true => {
                        let request =
                            self.request(of, &self.plan.targets[target].name.clone(), lost);
                        request.replacen('{', r#"{"MessageGroupId":"blue","#, 1)
                    }
                    false => format!(r#"{{"FunctionName":"orders","Input":{event}}}"#),
                };
                let stranger = lost.odd("undelivered: no request", &body, &schedule);
                lost.nothing("unreadable", Stranger { attributes, ..stranger })
            }
            _ => {
                let (kind, arn) = self.forged_target(of, target);
                let is_of_queue = arn.contains(":sqs:");
                let undelivered = Some(Undelivered { is_of_queue, ..lost.says(said) });
                let (over, attributes) = (Some("target_not_allowed"), said.attributes(&arn, false));
                let stranger = lost.odd(kind, &event.to_string(), said);
                Stranger { over, is_refused: true, attributes, undelivered, ..stranger }
            }
        }
    }

    /// A message from which the event can be read as it is.
    fn deliverable(&mut self, of: Of, kind: u64, name: &str, lost: &Lost) -> Stranger {
        let (said, text) = (&lost.said, &lost.payload.text);
        match kind {
            8..=11 => {
                let said = Said { is_schedule: true, ..said.clone() };
                let body = self.request(of, name, lost);
                let attributes = said.attributes(lost.request(), false);
                Stranger { attributes, ..lost.whole("undelivered: as a request", &body) }
            }
            12..=14 => {
                let reasons = ["max_age_exceeded", "not_retryable", "payload_truncated"];
                let reason = self.choices.pick(of, "reason", &reasons);
                let id = format!("letter-{}", lost.event);
                let attributes = said.of_letter(reason, &id, &lost.arn);
                let is_truncated = reason == "payload_truncated";
                let says = Undelivered { is_truncated, letter_of: Some(id), ..lost.says(said) };
                let stranger = lost.whole("undelivered: a letter comes back", text);
                Stranger { attributes, undelivered: Some(says), ..stranger }
            }
            15 => {
                let said = Said { is_schedule: false, ..said.clone() };
                let unknown = UNKNOWN.map(|name| (name, "?".to_owned()));
                let attributes = said.attributes(&lost.arn, false).into_iter().chain(unknown);
                let attributes = attributes.collect();
                Stranger { attributes, ..lost.whole("undelivered: ten attributes", text) }
            }
            _ => lost.whole("undelivered: as it is", text),
        }
    }

    fn payload_of_undelivered(&mut self, of: Of, event: usize, is_of_queue: bool) -> Payload {
        let second = self.now.timestamp();
        if !is_of_queue {
            return self.payload_of(of, event, second);
        }
        let is_large = self.choices.happens(of, "large", self.plan.large);
        // Only the body: an event has no attributes of its own.
        let (payload, _) = payload::message(event, second, is_large, of, &mut self.choices);
        Payload { envelope: None, message: None, ..payload }
    }

    fn says(&mut self, of: Of) -> Said {
        let is_schedule = self.choices.happens(of, "of a schedule", 0.5);
        let source = match is_schedule {
            true => format!("arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule/default/nightly"),
            false => format!("arn:aws:events:{REGION}:{ACCOUNT}:rule/orders"),
        };
        let code = match self.choices.kind(of, "kind of code", 0..=9, 9) {
            0 => self.choices.pick(of, "code", &STOPPED),
            1 => self.choices.pick(of, "code", &NEVER).1,
            _ => self.choices.pick(of, "code", &CODES),
        };
        let is_long = self.choices.happens(of, "long message", 0.2);
        let message = if is_long { "é".repeat(800) } else { "it was not delivered".to_owned() };
        Said { is_schedule, source, code, message }
    }

    /// A target that this target's queue must not name, and what it is.
    fn forged_target(&mut self, of: Of, number: usize) -> (&'static str, String) {
        let plan = Rc::clone(&self.plan);
        let handler = plan.handler_of(number);
        let TargetPlan { name, queue, .. } = &plan.targets[number];
        let neighbour = self.neighbour(number).map(qualified_arn);
        match (self.choices.kind(of, "forged target", 0..=4, 4), neighbour) {
            (0, _) => ("undelivered: to a handler", arn(&handler.name)),
            (1, _) => {
                ("undelivered: to a dead-letter queue", queue_arn(&handler.dead_letter_queue))
            }
            (2, _) => ("undelivered: to a retry queue", queue_arn(&plan.queues[*queue].name)),
            (3, Some(neighbour)) => ("undelivered: to a target of another queue", neighbour),
            _ => {
                let abroad = arn(name).replace(ACCOUNT, "999999999999");
                ("undelivered: to another account", abroad)
            }
        }
    }

    /// The request that Scheduler has made of a target.
    fn request(&mut self, of: Of, name: &str, lost: &Lost) -> String {
        let Lost { arn, is_of_queue, payload: Payload { text, .. }, .. } = lost;
        if *is_of_queue {
            let url = format!("https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{name}");
            return json!({ "QueueUrl": url, "MessageBody": text }).to_string();
        }
        let function = match (arn.strip_suffix(":$LATEST"), self.choices.index(of, "named", 2)) {
            (_, 0) => format!(r#""FunctionName":"{arn}""#),
            (Some(_), _) => format!(r#""FunctionName":"{name}","Qualifier":"$LATEST""#),
            (None, _) => format!(r#""FunctionName":"{name}""#),
        };
        // A payload that is JSON's string would be taken for JSON in a string.
        let is_text = text.starts_with('"') || self.choices.happens(of, "payload in a string", 0.5);
        let payload = if is_text { Value::from(&**text).to_string() } else { text.clone() };
        format!(r#"{{{function},"InvocationType":"Event","Payload":{payload}}}"#)
    }
}
