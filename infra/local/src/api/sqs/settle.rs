//! What a receiver does with a message: DeleteMessage, ChangeMessageVisibility and their batches.

use comeback_core::Timestamp;
use serde::Deserialize;

use super::{
    Call, Empty, Operation,
    batch::{self, BatchResult},
    fault::SqsFault,
    queue_name, required,
};
use crate::model::sqs::{Sqs, SqsError, bad_visibility};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct DeleteMessage {
    queue_url: Option<String>,
    receipt_handle: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct DeleteMessageBatch(HeldMessages);

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ChangeMessageVisibility {
    queue_url: Option<String>,
    receipt_handle: Option<String>,
    visibility_timeout: Option<i64>,
}

#[derive(Deserialize)]
pub(super) struct ChangeMessageVisibilityBatch(HeldMessages);

/// The parameters of either batch.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HeldMessages {
    queue_url: Option<String>,
    entries: Option<Vec<HeldMessage>>,
}

/// One entry of either batch.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HeldMessage {
    id: Option<String>,
    receipt_handle: Option<String>,
    visibility_timeout: Option<i64>,
}

impl Operation for DeleteMessage {
    type Answer = Empty;

    fn perform(self, Call { sqs, now, .. }: Call<'_>) -> Result<Empty, SqsFault> {
        delete(sqs, now, queue_name(&self.queue_url)?, &self.receipt_handle)
    }
}

impl Operation for DeleteMessageBatch {
    type Answer = BatchResult<Empty>;

    fn perform(self, Call { sqs, now, .. }: Call<'_>) -> Result<Self::Answer, SqsFault> {
        self.0.perform("DeleteMessageBatchRequestEntry", sqs, |sqs, queue, entry| {
            delete(sqs, now, queue, &entry.receipt_handle)
        })
    }
}

impl Operation for ChangeMessageVisibility {
    type Answer = Empty;

    fn perform(self, Call { sqs, now, .. }: Call<'_>) -> Result<Empty, SqsFault> {
        let queue = queue_name(&self.queue_url)?;
        change(sqs, now, queue, &self.receipt_handle, self.visibility_timeout)
    }
}

impl Operation for ChangeMessageVisibilityBatch {
    type Answer = BatchResult<Empty>;

    fn perform(self, Call { sqs, now, .. }: Call<'_>) -> Result<Self::Answer, SqsFault> {
        self.0.perform("ChangeMessageVisibilityBatchRequestEntry", sqs, |sqs, queue, entry| {
            change(sqs, now, queue, &entry.receipt_handle, entry.visibility_timeout)
        })
    }
}

impl HeldMessages {
    /// Settles each message by itself, in a batch whose entries AWS calls `entry`.
    fn perform(
        self,
        entry: &'static str,
        sqs: &mut Sqs,
        settle: impl Fn(&mut Sqs, &str, HeldMessage) -> Result<Empty, SqsFault>,
    ) -> Result<BatchResult<Empty>, SqsFault> {
        let queue = queue_name(&self.queue_url)?;
        let entries = self.entries.unwrap_or_default();
        batch::check(entry, entries.iter().map(|entry| &entry.id))?;
        sqs.queue(queue)?;
        let id = |entry: &mut HeldMessage| entry.id.take();
        Ok(batch::perform(entries, id, |entry| settle(sqs, queue, entry)))
    }
}

fn delete(
    sqs: &mut Sqs,
    now: Timestamp,
    queue: &str,
    handle: &Option<String>,
) -> Result<Empty, SqsFault> {
    sqs.delete(now, queue, required("ReceiptHandle", handle)?)?;
    Ok(Empty {})
}

fn change(
    sqs: &mut Sqs,
    now: Timestamp,
    queue: &str,
    handle: &Option<String>,
    seconds: Option<i64>,
) -> Result<Empty, SqsFault> {
    let handle = required("ReceiptHandle", handle)?;
    let seconds = seconds.ok_or(SqsError::MissingParameter("VisibilityTimeout"))?;
    let seconds = u32::try_from(seconds).map_err(|_| bad_visibility(seconds))?;
    sqs.change_visibility(now, queue, handle, seconds)?;
    Ok(Empty {})
}
