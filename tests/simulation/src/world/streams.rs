//! Batches of streams: what a mapping that has given one up puts into the bucket of its function, and which records
//! functions name in their answers.

use std::rc::Rc;

use comeback_core::time::rfc3339;
use comeback_local_model::lambda::name::{arn, qualified_arn};
use serde_json::{Value, json};

use super::{World, clients::record};
use crate::{
    choices::Of,
    judge::{Place, Stranger},
    plan::Notices,
    stream::Batch,
};

/// The UUID of a mapping.
const MAPPING: &str = "4aa76e6b-7b23-4e8d-8b4d-0d6f9c3f7f0e";

/// What Lambda puts between the mapping and the date. Nobody documents it for Kafka.
const SHARDS: [&str; 3] = ["shardId-000000000001", "orders/0", "2026/02/01"];

/// The share of batches with large records, where there are few events.
const LARGE: f64 = 0.3;

/// How often a run that has not failed names records of its batch.
const NAMES: f64 = 0.4;

impl World {
    /// The mapping of a stream has given up a batch for this function.
    pub fn give_up_batch(&mut self, of: Of, number: usize, notices: Notices) {
        let plan = Rc::clone(&self.plan);
        let target = &plan.targets[number];
        let bucket = target.bucket().unwrap_or_default();
        // The function may not be deployed yet.
        if self.cloud.s3.check_bucket(&bucket).is_err() {
            return;
        }
        let event = self.judge.known.events.len();
        let id = format!("batch-{event}");
        let is_equal = self.choices.happens(of, "equal", plan.equal);
        let number_of_batch = if is_equal { 0 } else { event };
        let is_large = plan.events <= 25 && self.choices.happens(of, "large", LARGE);
        let batch = Batch::draw(number_of_batch, is_large, of, &mut self.choices);
        let text = batch.text();
        let shard = self.choices.pick(of, "shard", &SHARDS);
        let place = |mapping: &str| Place {
            bucket: bucket.clone(),
            key: format!("aws/lambda/{mapping}/{shard}/2026/02/02/2026-02-02T03.04.05-{id}"),
            version: None,
        };
        let about = |arn: &str, payload: &str| {
            let context = format!(
                r#""requestId":"{id}","functionArn":"{arn}","condition":"RetryAttemptsExhausted""#
            );
            let info = format!(r#","{}":{{"batchSize":{}}}"#, batch.source.info(), batch.len());
            record(&rfc3339(self.now), &context, &format!("{info}{payload}"))
        };
        let is_text = self.choices.happens(of, "batch in a string", 0.5);
        let carried = if is_text { Value::from(text.as_str()).to_string() } else { text.clone() };
        let carried = format!(r#","payload":{carried}"#);
        let good = about(&arn(&target.name), &carried);
        let stranger = |kind| Stranger {
            batch: Some(batch.clone().into()),
            ..Stranger::new(kind, String::new(), &id, &text)
        };
        let over = |kind, reason| Stranger { over: Some(reason), ..stranger(kind) };
        let (bytes, stranger) = match self.choices.kind(of, "batch as", 0..=15, 15) {
            0 => (about(&arn(&target.name), ""), over("a batch is missing", "payload_missing")),
            1 => {
                let bytes = about(&arn(&target.name), r#","payload":"{\"Records\":[""#);
                (bytes, over("a batch that is no JSON", "unreadable"))
            }
            2 => {
                let context = format!(
                    r#""requestId":"{id}","functionArn":"{}","condition":"RetriesExhausted""#,
                    qualified_arn(&target.name)
                );
                let payload = format!(r#","requestPayload":{text}"#);
                let bytes = record(&rfc3339(self.now), &context, &payload);
                (bytes, over("a batch of no mapping", "unreadable"))
            }
            3 => {
                let other = self.neighbour(number).map(arn);
                let abroad = || arn(&target.name).replace("000000000000", "999999999999");
                let bytes = about(&other.unwrap_or_else(abroad), &carried);
                let kind = "a batch of another function";
                (bytes, Stranger { is_refused: true, ..over(kind, "target_not_allowed") })
            }
            4 => {
                let body = self.notice_of(notices, &place("mapping"));
                let stranger = over("a key of no mapping", "unreadable");
                return self.tell(of, number, Stranger { letter: body.clone(), body, ..stranger });
            }
            _ => (good, stranger("a batch that was given up")),
        };
        self.put_record_of(of, number, &place(MAPPING), &bytes, stranger);
    }

    /// The answer of a run that has not failed.
    pub fn answer_of(&mut self, of: Of, request_id: &str) -> String {
        let nothing = || "null".to_owned();
        let Some(batch) = self.judge.known.batch_of_run(request_id).map(Rc::clone) else {
            return nothing();
        };
        if self.is_calm || !self.choices.happens(of, "names records", NAMES) {
            return self.choices.pick(of, "answer", &["null", "{}", FULL[0], FULL[1]]).to_owned();
        }
        let item = |id: &str| json!({ "itemIdentifier": id });
        let nth = self.choices.index(of, "record", batch.len());
        let items = match self.choices.kind(of, "names", 0..=7, 7) {
            0 => json!([item("unknown")]),
            1 => json!([item(batch.id(nth)), item("")]),
            2 => json!([{ "id": batch.id(nth) }]),
            3 => json!("all"),
            4 => json!([item(batch.id(batch.len() - 1)), item(batch.id(nth))]),
            _ => json!([item(batch.id(nth))]),
        };
        json!({ "batchItemFailures": items }).to_string()
    }
}

/// Answers that name nothing.
const FULL: [&str; 2] = [r#"{"batchItemFailures":[]}"#, r#"{"batchItemFailures":null}"#];
