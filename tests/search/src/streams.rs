//! Batches of a stream: what their mapping puts into a bucket, the parts of a batch that is too large for one
//! invocation, and what a function answers that has processed only some of the records.

use std::rc::Rc;

use comeback_core::notice::Location;
use comeback_local_model::sqs::Outgoing;

use crate::{
    calls::Made,
    invariants::{Checked, ensure},
    machine::{Millis, text_attributes},
    scopes::Kind,
    world::{Content, FUNCTION, Failure, Form, State, World, time},
};

const BUCKET: &str = "records";

/// The setting that names it.
pub const BUCKETS: (&str, &str) = ("RECORD_BUCKETS", BUCKET);

/// The keys of records, up to their ids.
const KEYS: &str = "aws/lambda/4aa76e6b-7b23-4e8d-8b4d-0d6f9c3f7f0e/shardId-000000000000/2026/02/01/2026-02-01T12.00.00-";

/// How many records a batch has, and which one a function names.
const COUNT: usize = 3;
const NAMED: usize = 1;

/// The size of a record in a large batch, of which one invocation carries one, and how many it has.
const LARGE: usize = 600 << 10;
const PARTS: usize = 2;

/// The records of a batch.
pub fn batch(event: usize, kind: Kind, is_rest: bool) -> String {
    let is_large = matches!(kind, Kind::Large | Kind::Part(_));
    let (size, count) = if is_large { (LARGE, PARTS) } else { (0, COUNT) };
    let first = if is_rest { NAMED } else { 0 };
    let records = if let Kind::Part(nth) = kind { nth..nth + 1 } else { first..count };
    let record = |nth: usize| {
        let (id, data) = (name(event, nth), "x".repeat(size));
        format!(
            r#"{{"eventSource":"aws:kinesis","kinesis":{{"sequenceNumber":"{id}","data":"{data}"}}, "exact": 1.0}}"#
        )
    };
    let records: Vec<_> = records.map(record).collect();
    format!(r#"{{"Records": [{}], "window": 1.0 }}"#, records.join(" ,"))
}

fn name(event: usize, nth: usize) -> String {
    format!("{event}{nth}")
}

/// The answer of a function that has processed only the first record.
pub fn answer(event: usize) -> String {
    let name = name(event, NAMED);
    format!(r#"{{"batchItemFailures":[{{"itemIdentifier":"{name}"}}]}}"#)
}

/// What S3 says about the record with this id.
pub fn notice(id: &str) -> String {
    format!(
        r#"{{"Records":[{{"eventVersion":"2.1","eventSource":"aws:s3","eventName":"ObjectCreated:Put","s3":{{"bucket":{{"name":"{BUCKET}"}},"object":{{"key":"{KEYS}{id}"}}}}}}]}}"#
    )
}

/// The record of a batch that a mapping has given up.
fn record(id: &str, at: Millis, payload: &str) -> String {
    let (at, payload) = (time(at), payload.replace('"', "\\\""));
    format!(
        r#"{{"timestamp":"{at}","requestContext":{{"requestId":"{id}","functionArn":"{FUNCTION}","condition":"RetryAttemptsExhausted"}},"KinesisBatchInfo":{{}},"payload":"{payload}"}}"#
    )
}

impl World {
    /// The record that lies there, if a handler's message is about it.
    pub fn record(&self, state: &State, handler: usize, location: &Location) -> Option<String> {
        let id = location.key.strip_prefix(KEYS)?;
        let body = notice(id);
        let content = self.batch_of(state, handler).find(|it| it.body == body)?;
        let is_part = matches!(self.scope.events[content.event], Kind::Part(_));
        let whole = if is_part { 0 } else { content.event };
        Some(record(id, content.failure.at, &self.payload(whole, false)))
    }

    /// The message of the batch of which these are the parts, if they are.
    pub fn whole(&self, state: &State, handler: usize, parts: &[Outgoing]) -> Option<Rc<Content>> {
        let are_parts = parts.iter().all(|it| it.attributes.contains_key("BatchPart"));
        let is_whole = |it: &Rc<Content>| self.scope.events[it.event] == Kind::Large;
        self.batch_of(state, handler).find(is_whole).filter(|_| are_parts)
    }

    /// A handler sends a message for each part of a batch instead of that of the whole.
    pub fn send_parts(
        &mut self,
        state: &mut State,
        whole: &Content,
        parts: &[Outgoing],
        made: Made,
    ) -> Checked {
        ensure(parts.len() == PARTS, "PartsOfBatches", || format!("not in {PARTS}: {parts:?}"))?;
        for (nth, sent) in parts.iter().enumerate().filter(|(nth, _)| made.takes(*nth)) {
            let attributes = text_attributes(sent);
            let is_right = *sent.body == whole.body
                && attributes == [("BatchPart".to_owned(), format!("{nth}-{nth}"))]
                && sent.trace_header == self.trace(whole.event)
                && sent.delay.unwrap_or_default() == 0;
            ensure(is_right, "PartsOfBatches", || format!("part {nth}: {sent:?}"))?;
            let event = whole.event + 1 + nth;
            let first_id = format!("{}.{nth}-{nth}", whole.failure.first_id);
            let key = self.key(event, false, &first_id);
            let failure = Failure { key, run_key: key, first_id, ..whole.failure.clone() };
            let part =
                Content { event, attributes, form: Form::InBucket, failure, ..whole.clone() };
            self.send(state, part, 0);
            state.fates[event].is_there = true;
        }
        if (0..PARTS).all(|nth| made.takes(nth)) {
            state.fates[whole.event].delivered += 1;
            let runs = state.handlers[made.handler].iter_mut();
            runs.for_each(|run| run.resent.push(whole.failure.key));
        }
        Ok(())
    }
}
