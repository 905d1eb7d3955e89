//! Reads the dead-letter queue.

use std::collections::BTreeMap;

use aws_sdk_sqs::types::Message;

use crate::deploy::{CallError, Cloud, failed};

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct DeadLetter {
    pub body: String,
    pub attributes: BTreeMap<String, String>,
}

impl DeadLetter {
    /// Why the event was given up.
    pub fn reason(&self) -> &str {
        self.attributes.get("Reason").map_or("no reason", String::as_str)
    }
}

impl From<Message> for DeadLetter {
    fn from(message: Message) -> Self {
        let attributes = message.message_attributes.unwrap_or_default().into_iter();
        let text = attributes.filter_map(|(name, value)| Some((name, value.string_value?)));
        Self { body: message.body.unwrap_or_default(), attributes: text.collect() }
    }
}

impl Cloud {
    /// Receives and deletes up to `max` messages of a dead-letter queue. Waits up to `wait_seconds` for the first.
    pub async fn take_dead_letters(
        &self,
        queue: &str,
        max: i32,
        wait_seconds: i32,
    ) -> Result<Vec<DeadLetter>, CallError> {
        let call = self.sqs.receive_message().queue_url(queue).message_attribute_names("All");
        let call = call.max_number_of_messages(max).wait_time_seconds(wait_seconds);
        let received = call.send().await.map_err(failed("receive the dead letters"))?;
        let messages = received.messages.unwrap_or_default();
        for message in &messages {
            let call = self.sqs.delete_message().queue_url(queue);
            let deleted = call.set_receipt_handle(message.receipt_handle.clone()).send().await;
            deleted.map_err(failed("delete a dead letter"))?;
        }
        Ok(messages.into_iter().map(DeadLetter::from).collect())
    }
}
