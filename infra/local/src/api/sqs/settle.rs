//! The operations on received messages: DeleteMessage, ChangeMessageVisibility and their batches.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Call,
    batch::{self, Batch, BatchResult},
    queue_name, required,
};
use crate::model::sqs::{SqsError, bad_visibility};

/// The parameters of a request about one message. An entry of a batch also has an id.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct HeldMessage {
    queue_url: Option<String>,
    id: Option<String>,
    receipt_handle: Option<String>,
    visibility_timeout: Option<i64>,
}

type Answer = Result<Value, SqsError>;

pub(super) fn delete_one(message: HeldMessage, mut call: Call<'_>) -> Answer {
    delete(&mut call, queue_name(&message.queue_url)?, &message)
}

pub(super) fn change_one(message: HeldMessage, mut call: Call<'_>) -> Answer {
    change(&mut call, queue_name(&message.queue_url)?, &message)
}

pub(super) fn delete_batch(
    batch: Batch<HeldMessage>,
    call: Call<'_>,
) -> Result<BatchResult<Value>, SqsError> {
    settle(batch, "DeleteMessageBatchRequestEntry", call, delete)
}

pub(super) fn change_batch(
    batch: Batch<HeldMessage>,
    call: Call<'_>,
) -> Result<BatchResult<Value>, SqsError> {
    settle(batch, "ChangeMessageVisibilityBatchRequestEntry", call, change)
}

/// Performs `settle` for each message of a batch. `entry` is AWS's name of the entries, for the error.
fn settle(
    batch: Batch<HeldMessage>,
    entry: &'static str,
    mut call: Call<'_>,
    settle: impl Fn(&mut Call<'_>, &str, &HeldMessage) -> Answer,
) -> Result<BatchResult<Value>, SqsError> {
    let queue = queue_name(&batch.queue_url)?;
    let entries = batch.entries.unwrap_or_default();
    batch::check(entry, entries.iter().map(|entry| &entry.id))?;
    call.sqs.queue(queue)?;
    let id = |entry: &mut HeldMessage| entry.id.take();
    Ok(batch::perform(entries, id, |entry| settle(&mut call, queue, &entry)))
}

fn delete(call: &mut Call<'_>, queue: &str, message: &HeldMessage) -> Answer {
    call.sqs.delete(call.now, queue, required("ReceiptHandle", &message.receipt_handle)?)?;
    Ok(json!({}))
}

fn change(call: &mut Call<'_>, queue: &str, message: &HeldMessage) -> Answer {
    let handle = required("ReceiptHandle", &message.receipt_handle)?;
    let seconds = message.visibility_timeout;
    let seconds = seconds.ok_or(SqsError::MissingParameter("VisibilityTimeout"))?;
    let seconds = u32::try_from(seconds).map_err(|_| bad_visibility(seconds))?;
    call.sqs.change_visibility(call.now, queue, handle, seconds)?;
    Ok(json!({}))
}
