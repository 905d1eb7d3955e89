//! What is left in the queues when the story is over.

use std::collections::BTreeMap;

use aws_sdk_sqs::types::{Message, QueueAttributeName};

use crate::deploy::{CallError, Cloud, Queues, failed};

/// What one receive gives at most.
const RECEIVE_MAX: i32 = 10;

/// Longer than reading takes: a message that was read must not be read again.
const READ_SECONDS: i32 = 60;

/// What the queues hold, apart from everything that was told.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Evidence {
    /// How many messages are in the retry queue, visible or not.
    pub retry_queue: u64,
    /// What is in the dead-letter queue.
    pub dead_letters: Vec<DeadLetter>,
}

/// A message of the dead-letter queue.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct DeadLetter {
    /// The original payload.
    pub body: String,
    /// What else is known.
    pub attributes: BTreeMap<String, String>,
}

impl DeadLetter {
    /// Why it is here.
    pub fn reason(&self) -> &str {
        self.attributes.get("Reason").map_or("no reason", String::as_str)
    }

    /// How many attempts were made.
    pub fn attempts(&self) -> Option<u32> {
        self.attributes.get("Attempts")?.parse().ok()
    }
}

impl From<Message> for DeadLetter {
    fn from(message: Message) -> Self {
        let attributes = message.message_attributes.unwrap_or_default().into_iter();
        let text = attributes.filter_map(|(name, value)| Some((name, value.string_value?)));
        Self { body: message.body.unwrap_or_default(), attributes: text.collect() }
    }
}

/// Looks into the queues.
///
/// # Errors
///
/// If a call fails.
pub async fn gather(cloud: &Cloud, queues: &Queues) -> Result<Evidence, CallError> {
    let mut dead_letters = Vec::new();
    loop {
        let call = cloud.sqs.receive_message().queue_url(&queues.dead_letter);
        let call = call.max_number_of_messages(RECEIVE_MAX).visibility_timeout(READ_SECONDS);
        let received = call.message_attribute_names("All").send().await;
        let messages = received.map_err(failed("read the dead letters"))?.messages;
        match messages {
            Some(messages) if !messages.is_empty() => {
                dead_letters.extend(messages.into_iter().map(DeadLetter::from));
            }
            _ => break,
        }
    }
    Ok(Evidence { retry_queue: count(cloud, &queues.retry).await?, dead_letters })
}

/// How many messages a queue holds, in whatever state.
async fn count(cloud: &Cloud, queue: &str) -> Result<u64, CallError> {
    let counts = [
        QueueAttributeName::ApproximateNumberOfMessages,
        QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
        QueueAttributeName::ApproximateNumberOfMessagesDelayed,
    ];
    let call = cloud.sqs.get_queue_attributes().queue_url(queue);
    let answer = call.set_attribute_names(Some(counts.into())).send().await;
    let answer = answer.map_err(failed("count what is left in the retry queue"))?;
    let values = answer.attributes.unwrap_or_default().into_values();
    Ok(values.filter_map(|value| value.parse::<u64>().ok()).sum())
}
