//! Production's handler, one batch at a time. The world answers its calls at once.

use std::{
    collections::HashMap,
    pin::pin,
    task::{Context as Polling, Poll, Waker},
    time::Duration,
};

use aws_lambda_events::event::sqs::{SqsEvent, SqsMessage, SqsMessageAttribute};
use comeback_core::{arn::Home, settings::Settings, time::later};
use comeback_flow::{batch::Context, ports::Clock as _, report::Outcome};
use comeback_local::model::{
    ACCOUNT, REGION,
    sqs::{AttributeValue, Received},
};

use super::{Outage, target::Kind, world::World};
use wire::AwsHandler;

const TIMEOUT: Duration = Duration::from_secs(30);

#[allow(clippy::expect_used, reason = "the settings are valid")]
pub fn settings(outage: Outage) -> Settings {
    let dead_letters = format!("https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/dead-letters");
    let lookup = |name: &str| match name {
        "DEAD_LETTER_QUEUE_URL" => Some(dead_letters.clone()),
        "IN_FLIGHT_MAX" => Some(outage.in_flight_max.to_string()),
        "LEDGER_TABLE" => (outage.probe || outage.register).then(|| "ledger".to_owned()),
        "PROBE" => Some(outage.probe.to_string()),
        "REGISTER" => Some(outage.register.to_string()),
        "MAX_AGE" if matches!(outage.kind, Kind::Poison | Kind::DownPoison) => {
            Some("1h".to_owned())
        }
        _ => None,
    };
    Settings::from_lookup(lookup).expect("the variables are valid")
}

/// Lets a handler handle a batch, and returns the receipt handles of the messages that are done.
#[allow(clippy::expect_used, reason = "every record has an id")]
pub fn handle(
    world: &mut World,
    handler: &AwsHandler,
    home: &Home,
    mut event: SqsEvent,
) -> Vec<String> {
    let deadline = later(handler.clock.now(), TIMEOUT);
    let context = Context { request_id: "batch", home, deadline };
    let report = {
        let mut working = pin!(handler.handle(&event, &context));
        loop {
            let polled = working.as_mut().poll(&mut Polling::from_waker(Waker::noop()));
            if let Poll::Ready(report) = polled {
                break report.expect("every record has an id");
            }
            for (request, slot) in handler.clock.0.requests.take() {
                if let (Some(slot), Some(answers)) = (slot.upgrade(), world.answer(request)) {
                    slot.answer(answers);
                }
            }
        }
    };
    let World { played, target: function, now, .. } = world;
    played.batches += 1;
    for entry in &report.entries {
        if let Outcome::Invoked { lateness } = entry.outcome {
            let target = usize::from(entry.target.as_deref() == Some("b"));
            if target == 0 {
                function.late(lateness, *now);
            }
            *played.lateness[target].entry(lateness.as_millis() as u64).or_default() += 1;
        }
    }
    let stays = report.response().batch_item_failures;
    let mut stays = stays.iter().map(|failure| &failure.item_identifier).peekable();
    let mut done = Vec::new();
    for record in &mut event.records {
        if stays.next_if(|id| Some(*id) == record.message_id.as_ref()).is_none() {
            done.extend(record.receipt_handle.take());
        }
    }
    done
}

/// A message as Lambda delivers it to the handler, without the fields that the handler doesn't read.
pub fn record(message: Received, queue_arn: &str) -> SqsMessage {
    let mut record = SqsMessage::default();
    record.message_id = Some(message.message_id.as_ref().to_owned());
    record.receipt_handle = Some(message.receipt_handle);
    record.body = Some(message.body.as_ref().to_owned());
    record.event_source_arn = Some(queue_arn.to_owned());
    record.attributes = HashMap::from([
        ("ApproximateReceiveCount".to_owned(), message.receive_count.to_string()),
        ("SentTimestamp".to_owned(), message.sent_at.timestamp_millis().to_string()),
    ]);
    let attributes = message.attributes.iter().filter_map(|(name, attribute)| {
        let AttributeValue::String(text) = &attribute.value else { return None };
        let mut value = SqsMessageAttribute::default();
        value.data_type = Some(attribute.data_type.clone());
        value.string_value = Some(text.clone());
        Some((name.clone(), value))
    });
    record.message_attributes = attributes.collect();
    record
}
