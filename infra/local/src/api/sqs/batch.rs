//! Batch requests, whose entries succeed or fail independently, and the operations on received messages, each with its
//! batch: DeleteMessage and ChangeMessageVisibility.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Call, queue_name, required};
use crate::model::{
    is_name,
    sqs::{SqsError, bad_visibility},
};

const ENTRIES_MAX: usize = 10;

const ENTRY_ID_MAX: usize = 80;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Batch<E> {
    pub(super) queue_url: Option<String>,
    pub(super) entries: Option<Vec<E>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct BatchResult<T> {
    successful: Vec<Succeeded<T>>,
    failed: Vec<Failed>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Succeeded<T> {
    id: String,
    #[serde(flatten)]
    result: T,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Failed {
    id: String,
    code: String,
    message: String,
    sender_fault: bool,
}

/// Checks the number of entries in a batch and their ids. `action` is the name of the operation.
pub(super) fn check<'a>(
    action: &str,
    ids: impl ExactSizeIterator<Item = &'a Option<String>>,
) -> Result<(), SqsError> {
    match ids.len() {
        0 => return Err(SqsError::EmptyBatchRequest { action: action.to_owned() }),
        1..=ENTRIES_MAX => {}
        sent => return Err(SqsError::TooManyEntriesInBatchRequest { max: ENTRIES_MAX, sent }),
    }
    let mut seen = BTreeSet::new();
    for id in ids {
        let id = id.as_deref().filter(|id| is_name(id, ENTRY_ID_MAX));
        let id = id.ok_or(SqsError::InvalidBatchEntryId)?;
        if !seen.insert(id) {
            return Err(SqsError::BatchEntryIdsNotDistinct { id: id.to_owned() });
        }
    }
    Ok(())
}

/// Performs each entry separately, so that its failure doesn't affect the others.
pub(super) fn perform<E, T>(
    entries: Vec<E>,
    id: impl Fn(&mut E) -> Option<String>,
    mut perform: impl FnMut(E) -> Result<T, SqsError>,
) -> BatchResult<T> {
    let mut done = BatchResult { successful: Vec::new(), failed: Vec::new() };
    for mut entry in entries {
        let id = id(&mut entry).unwrap_or_default();
        match perform(entry) {
            Ok(result) => done.successful.push(Succeeded { id, result }),
            Err(error) => done.failed.push(Failed {
                id,
                code: error.name().code,
                message: error.to_string(),
                sender_fault: true,
            }),
        }
    }
    done
}

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
type Settle = fn(&mut Call<'_>, &str, &HeldMessage) -> Answer;

pub(super) fn one(settle: Settle) -> impl FnOnce(HeldMessage, Call<'_>) -> Answer {
    move |message, mut call| settle(&mut call, queue_name(&message.queue_url)?, &message)
}

/// The operation on each message of a batch. `action` is the name of the operation.
pub(super) fn each(
    action: &str,
    settle: Settle,
) -> impl FnOnce(Batch<HeldMessage>, Call<'_>) -> Result<BatchResult<Value>, SqsError> {
    move |batch, mut call| {
        let queue = queue_name(&batch.queue_url)?;
        let entries = batch.entries.unwrap_or_default();
        check(action, entries.iter().map(|entry| &entry.id))?;
        call.sqs.queue(queue)?;
        let id = |entry: &mut HeldMessage| entry.id.take();
        Ok(perform(entries, id, |entry| settle(&mut call, queue, &entry)))
    }
}

pub(super) fn delete(call: &mut Call<'_>, queue: &str, message: &HeldMessage) -> Answer {
    call.sqs.delete(call.now, queue, required("ReceiptHandle", &message.receipt_handle)?)?;
    Ok(json!({}))
}

pub(super) fn change(call: &mut Call<'_>, queue: &str, message: &HeldMessage) -> Answer {
    let handle = required("ReceiptHandle", &message.receipt_handle)?;
    let seconds = message.visibility_timeout;
    let seconds = seconds.ok_or(SqsError::MissingParameter("VisibilityTimeout"))?;
    let seconds = u32::try_from(seconds).map_err(|_| bad_visibility(seconds))?;
    call.sqs.change_visibility(call.now, queue, handle, seconds)?;
    Ok(json!({}))
}
