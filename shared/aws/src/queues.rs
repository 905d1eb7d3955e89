//! The retry queue and the dead-letter queue.

use aws_sdk_sqs::{
    Client,
    error::{BuildError, DisplayErrorContext, SdkError},
    types::{
        BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, MessageAttributeValue,
        SendMessageBatchRequestEntry,
    },
};
use comeback_core::dead_letter::{DATA_TYPE, DeadLetter};
use comeback_flow::ports::{CallFault, Queues, VisibilityChange};

/// The queues of an account.
pub struct SqsQueues {
    client: Client,
    dead_letter_queue_url: String,
}

impl SqsQueues {
    /// The queues that this client reaches, one of them for dead letters.
    pub fn new(client: Client, dead_letter_queue_url: String) -> Self {
        Self { client, dead_letter_queue_url }
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
            Ok(done) => answers(
                changes.len(),
                done.successful().iter().map(|entry| entry.id()),
                done.failed(),
            ),
            Err(error) => vec![Err(call_fault(&error)); changes.len()],
        }
    }

    async fn send_dead_letters(&self, letters: &[&DeadLetter<'_>]) -> Vec<Result<(), CallFault>> {
        let entries = letters.iter().copied().enumerate().map(letter_entry).collect();
        let entries = match entries {
            Ok(entries) => entries,
            Err(fault) => return vec![Err(fault); letters.len()],
        };
        let call = self.client.send_message_batch().queue_url(&self.dead_letter_queue_url);
        match call.set_entries(Some(entries)).send().await {
            Ok(done) => answers(
                letters.len(),
                done.successful().iter().map(|entry| entry.id()),
                done.failed(),
            ),
            Err(error) => vec![Err(call_fault(&error)); letters.len()],
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

/// An answer for each entry, in their order. An entry that SQS does not mention is not done.
fn answers<'a>(
    count: usize,
    successful: impl Iterator<Item = &'a str>,
    failed: &[BatchResultErrorEntry],
) -> Vec<Result<(), CallFault>> {
    let mut answers = vec![Err(CallFault("SQS gave no answer for this entry".to_owned())); count];
    let mut answer = |id: &str, of_entry| {
        let entry = id.parse::<usize>().ok().and_then(|index| answers.get_mut(index));
        if let Some(entry) = entry {
            *entry = of_entry;
        }
    };
    successful.for_each(|id| answer(id, Ok(())));
    for entry in failed {
        let said = entry.message().unwrap_or_default();
        answer(entry.id(), Err(CallFault(format!("{}: {said}", entry.code()))));
    }
    answers
}

fn call_fault<E: std::error::Error + Send + Sync + 'static>(error: &SdkError<E>) -> CallFault {
    CallFault(DisplayErrorContext(error).to_string())
}

fn build_fault(error: BuildError) -> CallFault {
    CallFault(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_entry_has_its_own_answer_and_silence_is_a_failure() {
        let refused = BatchResultErrorEntry::builder()
            .id("1")
            .code("InvalidParameterValue")
            .message("too long")
            .sender_fault(true)
            .build()
            .unwrap();
        let stray =
            BatchResultErrorEntry::builder().id("x").code("c").sender_fault(true).build().unwrap();
        let answers = answers(4, ["0", "3", "9"].into_iter(), &[refused, stray]);
        let refused = |why: &str| Err(CallFault(why.to_owned()));
        assert_eq!(
            answers,
            [
                Ok(()),
                refused("InvalidParameterValue: too long"),
                refused("SQS gave no answer for this entry"),
                Ok(())
            ]
        );
    }
}
