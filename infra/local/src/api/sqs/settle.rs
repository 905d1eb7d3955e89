//! What a receiver does with a message: DeleteMessage, ChangeMessageVisibility and their batches.

use serde::Deserialize;

use super::{
    Call,
    batch::{self, BatchResult},
    queue_name, required,
};
use crate::model::sqs::{SqsError, bad_visibility};

/// The parameters of a request on one message, or with an id, an entry of a batch.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct HeldMessage {
    queue_url: Option<String>,
    id: Option<String>,
    receipt_handle: Option<String>,
    visibility_timeout: Option<i64>,
}

/// The parameters of either batch.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct HeldMessages {
    queue_url: Option<String>,
    entries: Option<Vec<HeldMessage>>,
}

/// Serializes as `{}`.
#[derive(Debug, serde::Serialize)]
pub(super) struct Empty {}

type Answer = Result<Empty, SqsError>;

pub(super) fn delete_one(message: HeldMessage, mut call: Call<'_>) -> Answer {
    delete(&mut call, queue_name(&message.queue_url)?, &message)
}

pub(super) fn change_one(message: HeldMessage, mut call: Call<'_>) -> Answer {
    change(&mut call, queue_name(&message.queue_url)?, &message)
}

pub(super) fn delete_batch(
    messages: HeldMessages,
    call: Call<'_>,
) -> Result<BatchResult<Empty>, SqsError> {
    messages.settle("DeleteMessageBatchRequestEntry", call, delete)
}

pub(super) fn change_batch(
    messages: HeldMessages,
    call: Call<'_>,
) -> Result<BatchResult<Empty>, SqsError> {
    messages.settle("ChangeMessageVisibilityBatchRequestEntry", call, change)
}

impl HeldMessages {
    /// Settles each message by itself, in a batch whose entries AWS calls `entry`.
    fn settle(
        self,
        entry: &'static str,
        mut call: Call<'_>,
        settle: impl Fn(&mut Call<'_>, &str, &HeldMessage) -> Answer,
    ) -> Result<BatchResult<Empty>, SqsError> {
        let queue = queue_name(&self.queue_url)?;
        let entries = self.entries.unwrap_or_default();
        batch::check(entry, entries.iter().map(|entry| &entry.id))?;
        call.sqs.queue(queue)?;
        let id = |entry: &mut HeldMessage| entry.id.take();
        Ok(batch::perform(entries, id, |entry| settle(&mut call, queue, &entry)))
    }
}

fn delete(call: &mut Call<'_>, queue: &str, message: &HeldMessage) -> Answer {
    call.sqs.delete(call.now, queue, required("ReceiptHandle", &message.receipt_handle)?)?;
    Ok(Empty {})
}

fn change(call: &mut Call<'_>, queue: &str, message: &HeldMessage) -> Answer {
    let handle = required("ReceiptHandle", &message.receipt_handle)?;
    let seconds = message.visibility_timeout;
    let seconds = seconds.ok_or(SqsError::MissingParameter("VisibilityTimeout"))?;
    let seconds = u32::try_from(seconds).map_err(|_| bad_visibility(seconds))?;
    call.sqs.change_visibility(call.now, queue, handle, seconds)?;
    Ok(Empty {})
}
