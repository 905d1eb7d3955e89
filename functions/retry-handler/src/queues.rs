//! The retry queues, the dead-letter queue, and the queues whose consumers failed.

use aws_sdk_sqs::{
    Client,
    error::{BuildError, DisplayErrorContext, SdkError},
    primitives::Blob,
    types::{
        BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, MessageAttributeValue,
        MessageSystemAttributeNameForSends, MessageSystemAttributeValue, QueueAttributeName,
        SendMessageBatchRequestEntry,
    },
};
use comeback_core::{
    attribute::DATA_TYPE,
    dead_letter::DeadLetter,
    fault::{InvokeFault, classify_send},
};
use comeback_flow::ports::{Attribute, CallFault, Queues, Resent, Value, VisibilityChange};
use tokio::sync::Semaphore;

use crate::clients::fault_of;

/// How many bytes of messages may be on their way to queues at the same time. The SDK copies a message into a request,
/// and then into JSON, where it may be twice as large.
const SENDING_MAX: usize = 4 << 20;

const UNIT: usize = 1 << 10;

pub struct SqsQueues {
    client: Client,
    dead_letter_queue_url: String,
    sending: Semaphore,
}

impl SqsQueues {
    pub fn new(client: Client, dead_letter_queue_url: String) -> Self {
        Self { client, dead_letter_queue_url, sending: Semaphore::new(SENDING_MAX / UNIT) }
    }
}

impl Queues for SqsQueues {
    async fn change_visibility(
        &self,
        queue_url: &str,
        changes: &[VisibilityChange<'_>],
    ) -> Vec<Result<(), CallFault>> {
        let entries = changes.iter().enumerate().map(visibility_entry).collect();
        let entries = match entries {
            Ok(entries) => entries,
            Err(fault) => return vec![Err(fault); changes.len()],
        };
        let call = self.client.change_message_visibility_batch().queue_url(queue_url);
        match call.set_entries(Some(entries)).send().await {
            Ok(done) => {
                let changed = done.successful().iter().map(|entry| entry.id());
                let in_words = |fault: InvokeFault| CallFault(fault.to_string());
                let answers = answers(changes.len(), changed, done.failed()).into_iter();
                answers.map(|answer| answer.map_err(in_words)).collect()
            }
            Err(error) => vec![Err(call_fault(&error)); changes.len()],
        }
    }

    async fn in_flight(&self, queue_url: &str) -> Result<u64, CallFault> {
        const NAME: QueueAttributeName = QueueAttributeName::ApproximateNumberOfMessagesNotVisible;
        let call = self.client.get_queue_attributes().queue_url(queue_url).attribute_names(NAME);
        let answer = call.send().await.map_err(|error| call_fault(&error))?;
        let count = answer.attributes().and_then(|attributes| attributes.get(&NAME));
        count.and_then(|count| count.parse().ok()).ok_or_else(|| {
            CallFault(format!("expected a whole number as {}, got {count:?}", NAME.as_str()))
        })
    }

    async fn send_again(
        &self,
        queue_url: &str,
        messages: &[&Resent<'_>],
    ) -> Vec<Result<(), InvokeFault>> {
        let size = messages.iter().map(|message| message.size()).sum();
        let entries = messages.iter().copied().enumerate().map(resent_entry);
        self.send(queue_url, size, entries).await
    }

    async fn send_dead_letters(&self, letters: &[&DeadLetter<'_>]) -> Vec<Result<(), InvokeFault>> {
        let size = letters.iter().map(|letter| letter.size()).sum();
        let entries = letters.iter().copied().enumerate().map(letter_entry);
        self.send(&self.dead_letter_queue_url, size, entries).await
    }
}

impl SqsQueues {
    async fn send(
        &self,
        queue_url: &str,
        size: usize,
        entries: impl ExactSizeIterator<Item = Result<SendMessageBatchRequestEntry, CallFault>>,
    ) -> Vec<Result<(), InvokeFault>> {
        let units = u32::try_from(size.clamp(1, SENDING_MAX).div_ceil(UNIT)).unwrap_or(u32::MAX);
        // It is never closed.
        let _sending = self.sending.acquire_many(units).await;
        let count = entries.len();
        let entries = match entries.collect() {
            Ok(entries) => entries,
            Err(CallFault(fault)) => return vec![Err(unanswered(fault)); count],
        };
        let call = self.client.send_message_batch().queue_url(queue_url);
        match call.set_entries(Some(entries)).send().await {
            Ok(done) => {
                answers(count, done.successful().iter().map(|entry| entry.id()), done.failed())
            }
            Err(error) => {
                let (code, status, message) = fault_of(&error);
                let kind = classify_send(code.as_deref(), status, &message);
                vec![Err(InvokeFault { kind, code, message }); count]
            }
        }
    }
}

fn visibility_entry(
    (index, change): (usize, &VisibilityChange<'_>),
) -> Result<ChangeMessageVisibilityBatchRequestEntry, CallFault> {
    ChangeMessageVisibilityBatchRequestEntry::builder()
        .id(index.to_string())
        .receipt_handle(change.receipt_handle)
        .visibility_timeout(i32::try_from(change.timeout).unwrap_or(i32::MAX))
        .build()
        .map_err(build_fault)
}

fn letter_entry(
    (index, letter): (usize, &DeadLetter<'_>),
) -> Result<SendMessageBatchRequestEntry, CallFault> {
    let mut entry =
        SendMessageBatchRequestEntry::builder().id(index.to_string()).message_body(&*letter.body);
    for (name, value) in &letter.attributes {
        let value = MessageAttributeValue::builder().data_type(DATA_TYPE).string_value(value);
        entry = entry.message_attributes(*name, value.build().map_err(build_fault)?);
    }
    entry.build().map_err(build_fault)
}

fn resent_entry(
    (index, message): (usize, &Resent<'_>),
) -> Result<SendMessageBatchRequestEntry, CallFault> {
    let mut entry = SendMessageBatchRequestEntry::builder()
        .id(index.to_string())
        .message_body(message.body)
        .set_message_group_id(message.group_id.map(str::to_owned))
        .delay_seconds(i32::try_from(message.delay).unwrap_or(i32::MAX));
    for Attribute { name, data_type, value } in &message.attributes {
        let builder = MessageAttributeValue::builder().data_type(&**data_type);
        let builder = match value {
            Value::Text(text) => builder.string_value(&**text),
            Value::Binary(bytes) => builder.binary_value(Blob::new(&**bytes)),
        };
        entry = entry.message_attributes(&**name, builder.build().map_err(build_fault)?);
    }
    if let Some(trace_header) = message.trace_header {
        let value = MessageSystemAttributeValue::builder().data_type(DATA_TYPE);
        let value = value.string_value(trace_header).build().map_err(build_fault)?;
        let name = MessageSystemAttributeNameForSends::AwsTraceHeader;
        entry = entry.message_system_attributes(name, value);
    }
    entry.build().map_err(build_fault)
}

/// The answers for the entries, in order. An entry that SQS does not mention counts as failed.
fn answers<'a>(
    count: usize,
    successful: impl Iterator<Item = &'a str>,
    failed: &[BatchResultErrorEntry],
) -> Vec<Result<(), InvokeFault>> {
    let silence = unanswered("SQS gave no answer for this entry".to_owned());
    let mut answers = vec![Err(silence); count];
    let mut answer = |id: &str, of_entry| {
        let entry = id.parse::<usize>().ok().and_then(|index| answers.get_mut(index));
        if let Some(entry) = entry {
            *entry = of_entry;
        }
    };
    successful.for_each(|id| answer(id, Ok(())));
    for entry in failed {
        let (code, message) = (Some(entry.code().to_owned()), entry.message().unwrap_or_default());
        // An entry has no HTTP status, but says whose fault it is.
        let status = if entry.sender_fault() { 400 } else { 500 };
        let kind = classify_send(code.as_deref(), Some(status), message);
        answer(entry.id(), Err(InvokeFault { kind, code, message: message.to_owned() }));
    }
    answers
}

/// A message without an answer may have been sent.
fn unanswered(message: String) -> InvokeFault {
    InvokeFault { kind: classify_send(None, None, &message), code: None, message }
}

fn call_fault<E: std::error::Error + Send + Sync + 'static>(error: &SdkError<E>) -> CallFault {
    CallFault(DisplayErrorContext(error).to_string())
}

fn build_fault(error: BuildError) -> CallFault {
    CallFault(error.to_string())
}
