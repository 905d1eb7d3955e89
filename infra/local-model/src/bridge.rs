//! EventBridge's default bus and EventBridge Scheduler: what they deliver, and what becomes of an event whose target
//! is gone.
//!
//! Of AWS's targets there are functions and queues. A delivery can fail for good only: then the event goes to the
//! target's dead-letter queue at once, with the attributes of AWS's documentation. Nothing throttles a delivery.

pub mod error;
pub mod rule;
pub mod schedule;
pub mod target;

use std::sync::Arc;

use chrono::SecondsFormat;
use comeback_core::Timestamp;
use error::BridgeError;
use rule::{Entry, Rule, Rules};
use schedule::{Schedule, Schedules};
use serde_json::json;
use target::{DeadLetterConfig, Destination, Refusal};

use super::{
    Cloud, Event, Ids, Invocation, InvocationType, What, queue_name,
    sqs::{MessageAttribute, MessageAttributes, Outgoing},
};

#[derive(Debug)]
pub struct Bridge {
    pub ids: Ids,
    pub rules: Rules,
    pub schedules: Schedules,
}

impl Bridge {
    pub fn new(seed: u64) -> Self {
        Self { ids: Ids::new(seed), rules: Rules::default(), schedules: Schedules::default() }
    }
}

impl Cloud {
    /// Puts an event on the default bus, and delivers it to the targets of all rules that match it. Returns its id.
    pub fn put_event(&mut self, now: Timestamp, entry: &Entry) -> Result<String, BridgeError> {
        let id = self.bridge.ids.uuid();
        let event = entry.event(now, &id)?;
        let matching: Vec<_> = self.bridge.rules.matching(&event).cloned().collect();
        for Rule { arn, targets, .. } in matching {
            for target in &targets {
                // Its ARN was checked when it was put.
                let Ok(to) = Destination::parse(&target.arn) else { continue };
                let Err(refusal) = self.deliver(now, &to, event.get()) else { continue };
                let attributes = attributes([
                    ("RULE_ARN", &*arn),
                    ("TARGET_ARN", &target.arn),
                    ("ERROR_CODE", refusal.code),
                    ("ERROR_MESSAGE", &refusal.message),
                    ("RETRY_ATTEMPTS", "0"),
                ]);
                let message = message(event.get(), attributes);
                let queue = target.dead_letter_config.as_ref();
                self.give_up(
                    now,
                    Lost { source: &arn, to: &to, refusal: &refusal },
                    queue,
                    message,
                );
            }
        }
        Ok(id)
    }

    pub(super) fn run_schedules(&mut self, now: Timestamp) {
        while let Some((at, schedule)) = self.bridge.schedules.take_due(now) {
            self.run_schedule(now, at, &schedule);
        }
    }

    fn run_schedule(&mut self, now: Timestamp, at: Timestamp, schedule: &Schedule) {
        let Schedule { arn, target, .. } = schedule;
        let Ok(to) = Destination::parse(&target.arn) else { return };
        let Err(refusal) = self.deliver(now, &to, &target.input) else { return };
        // As Scheduler's guide shows it, the target is an API and the body is the request.
        let (api, request) = match &to {
            Destination::Function(_) => (
                "lambda:invoke",
                json!({ "FunctionName": target.arn, "InvocationType": "Event", "Payload": target.input }),
            ),
            Destination::Queue(_) => (
                "sqs:sendMessage",
                json!({
                    "MessageBody": target.input,
                    "QueueUrl": comeback_core::arn::queue_url(&target.arn),
                }),
            ),
        };
        let attributes = attributes([
            ("SCHEDULE_ARN", &**arn),
            ("TARGET_ARN", &format!("arn:aws:scheduler:::aws-sdk:{api}")),
            ("EXECUTION_ID", &self.bridge.ids.uuid()),
            ("SCHEDULED_TIME", &at.to_rfc3339_opts(SecondsFormat::Secs, true)),
            ("ERROR_CODE", &refusal.api_code),
            ("ERROR_MESSAGE", &refusal.message),
            ("RETRY_ATTEMPTS", "0"),
            ("IS_PAYLOAD_TRUNCATED", "false"),
        ]);
        let message = message(&request.to_string(), attributes);
        let queue = target.dead_letter_config.as_ref();
        self.give_up(now, Lost { source: arn, to: &to, refusal: &refusal }, queue, message);
    }

    fn deliver(&mut self, now: Timestamp, to: &Destination, body: &str) -> Result<(), Refusal> {
        match to {
            Destination::Function(function) => {
                let invocation = Invocation {
                    function,
                    invocation_type: InvocationType::Event,
                    payload: body.as_bytes(),
                    ..Invocation::default()
                };
                Ok(self.invoke(now, invocation).map(drop)?)
            }
            Destination::Queue(queue) => {
                let message = message(body, MessageAttributes::new());
                Ok(self.sqs.send(now, queue, message).map(drop)?)
            }
        }
    }

    /// Sends what could not be delivered to the target's dead-letter queue. Without one, it is lost.
    fn give_up(
        &mut self,
        now: Timestamp,
        Lost { source, to, refusal }: Lost<'_>,
        queue: Option<&DeadLetterConfig>,
        message: Outgoing,
    ) {
        let queue = queue.and_then(|config| queue_name(config.arn.as_deref()?));
        let is_kept = queue.is_some_and(|queue| self.sqs.send(now, queue, message).is_ok());
        let what = What::Undelivered {
            source: Arc::clone(source),
            reason: format!("{}: {}", refusal.code, refusal.message),
            lost: !is_kept,
        };
        self.happened.push(Event::new(now, &to.name().into(), None, what));
    }
}

/// A delivery that its target has refused.
struct Lost<'a> {
    /// The ARN of the rule or the schedule.
    source: &'a Arc<str>,
    to: &'a Destination,
    refusal: &'a Refusal,
}

fn message(body: &str, attributes: MessageAttributes) -> Outgoing {
    Outgoing { body: body.into(), attributes, ..Outgoing::default() }
}

fn attributes<const N: usize>(pairs: [(&str, &str); N]) -> MessageAttributes {
    pairs.map(|(name, value)| (name.to_owned(), MessageAttribute::string(value))).into()
}

#[cfg(test)]
mod tests;
