//! Reads what Lambda writes about batches of streams that their functions could not process.
//!
//! | written by | where | the batch |
//! |---|---|---|
//! | the event source mapping that gave up a batch | its on-failure destination, a bucket | `payload` |
//! | the same | its on-failure destination, a queue or a topic | missing |
//! | an asynchronous invocation that succeeded | the function's on-success destination | `requestPayload` |
//!
//! AWS documents `payload` as JSON in a string, and others have recorded it as an object. So both are read.
//!
//! A mapping invokes its function itself, so its record is about the first run of an event. The function is then
//! invoked asynchronously with the same event. If it answers with `batchItemFailures`, it has succeeded in Lambda's
//! eyes, and only the record of that success says what has failed.
//!
//! The key of a record in a bucket names the mapping, and not the function. So whether the retry queue may speak for
//! the function is all that the record's function has to pass.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{Unreadable, failed_at, request_id};
use crate::{
    arn::FunctionArn,
    batch::{Batch, PART_MAX, Part, Unprocessed},
    envelope::{Envelope, INVOCATION_MAX},
    error_type::ErrorReport,
    failure::{Condition, Event, Failure, Wrapping},
    json::Object,
    message::Message,
    settings::{Policies, policy::Policy},
    target::Target,
    time,
};

/// The members of a record that describe the batch of an event source mapping.
const ABOUT_BATCH: [&str; 3] = ["KinesisBatchInfo", "DDBStreamBatchInfo", "KafkaBatchInfo"];

/// The most bytes that an envelope has beside its payload. A request id has at most 256 characters, each of which may
/// need six bytes.
const ENVELOPE_MAX: usize = 2 << 10;

/// Whether an event source mapping has written this record.
pub(super) fn is_of_mapping(record: &Object) -> bool {
    ABOUT_BATCH.iter().any(|name| record.get(name).is_some())
}

/// Reads the record of an event source mapping.
pub(super) fn read<'a>(
    message: &Message,
    record: &Object<'a>,
    (function, id): (FunctionArn, Option<&str>),
    policies: &Policies,
) -> Result<Failure<'a>, Unreadable> {
    let payload = record.get("payload").map(|payload| match payload.get().starts_with('"') {
        true => {
            let text: String =
                serde_json::from_str(payload.get()).map_err(|_| Unreadable::NoBatch)?;
            let payload = RawValue::from_string(text).map_err(|_| Unreadable::NoBatch)?;
            Ok(Cow::Owned(payload))
        }
        false => Ok(Cow::Borrowed(payload)),
    });
    let recorded_at = record.text("timestamp").and_then(|text| time::parse(&text));
    Ok(Failure {
        is_transparent: policies.of(function.name()).transparent,
        target: Target::Function(function).qualified(),
        request_id: request_id(message, id),
        failed_at: failed_at(message, recorded_at)?,
        condition: Condition::OfBatch,
        error: ErrorReport::default(),
        event: payload.transpose()?.map(Event::Fresh),
        undelivered_by: None,
        wrapping: Wrapping::Own,
    })
}

/// What the message is about of a batch that lies in a bucket: the whole batch, its parts if it is too large for one
/// invocation, or the part that the message names. Each part is an event with an id of its own.
pub(super) fn divided<'a>(
    failure: Failure<'a>,
    message: &Message,
) -> Result<Failure<'a>, Unreadable> {
    let Some(Event::Fresh(payload)) = &failure.event else { return Ok(failure) };
    if let Some(part) = message.attributes.batch_part {
        let part = Part::parse(part).ok_or(Unreadable::NoPart)?;
        let cut = Batch::read(payload.get()).and_then(|batch| batch.cut(part));
        let payload = RawValue::from_string(cut.ok_or(Unreadable::NoPart)?);
        let payload = payload.map_err(|_| Unreadable::NoPart)?;
        let id = format!("{}.{part}", failure.request_id);
        let event = Some(Event::Fresh(Cow::Owned(payload)));
        return Ok(Failure { event, request_id: request_id(message, Some(&id)), ..failure });
    }
    let beside = if failure.is_sent_bare() { 0 } else { ENVELOPE_MAX };
    if payload.get().len() + beside <= INVOCATION_MAX {
        return Ok(failure);
    }
    let parts = Batch::read(payload.get()).map_or_else(Vec::new, |batch| batch.parts(PART_MAX));
    match parts.len() {
        0 | 1 => Ok(failure),
        _ => Ok(Failure { event: Some(Event::InParts(parts)), ..failure }),
    }
}

/// The records that a function has not processed, of the event with which it was invoked, by its answer. `None`: it has
/// processed all, or the event is not a stream's.
pub(super) fn unprocessed<'a>(
    payload: &'a RawValue,
    (event, wrapping): (Event<'a>, Wrapping<'a>),
    answer: &RawValue,
    policy: &Policy,
) -> Option<(Event<'a>, Wrapping<'a>)> {
    let batch = Batch::read(event.payload()).filter(Batch::is_of_stream)?;
    let part = match batch.unprocessed(answer.get())? {
        Unprocessed::All => return Some((event, wrapping)),
        Unprocessed::Only(part) => part,
    };
    let cut = Cow::Owned(RawValue::from_string(batch.cut(part)?).ok()?);
    match (event, wrapping) {
        // As long as it is unknown whether the envelope is one, so is what has failed of the event in it.
        (event, wrapping @ Wrapping::Unknown(_)) => Some((event, wrapping)),
        (Event::Retried(Envelope { metadata, .. }), wrapping) => {
            Some((Event::Retried(Envelope { metadata, payload: cut }), wrapping))
        }
        (_, wrapping) => {
            let whole = Cow::Borrowed(payload);
            let wrapping = if policy.transparent { Wrapping::Cut(whole) } else { wrapping };
            Some((Event::Fresh(cut), wrapping))
        }
    }
}

#[cfg(test)]
mod tests;
