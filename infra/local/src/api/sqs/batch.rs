//! Batch requests, whose entries succeed or fail independently.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::fault;
use crate::model::{arn::is_name, sqs::SqsError};

const ENTRIES_MAX: usize = 10;

/// The longest id of an entry, in characters.
const ENTRY_ID_MAX: usize = 80;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Batch<E> {
    pub(super) queue_url: Option<String>,
    pub(super) entries: Option<Vec<E>>,
}

/// The results of a batch's entries. The request itself succeeds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct BatchResult<T> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    successful: Vec<Succeeded<T>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
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

/// Checks the number of entries in a batch and their ids. `entry` is AWS's name of the entries, for the error.
pub(super) fn check<'a>(
    entry: &'static str,
    ids: impl ExactSizeIterator<Item = &'a Option<String>>,
) -> Result<(), SqsError> {
    match ids.len() {
        0 => return Err(SqsError::EmptyBatchRequest { entry }),
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
                code: fault::name(&error).code,
                message: error.to_string(),
                sender_fault: true,
            }),
        }
    }
    done
}
