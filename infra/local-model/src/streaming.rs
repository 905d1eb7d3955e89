//! What joins Kinesis and Lambda: mappings invoke functions with batches of records, and put a record of a batch that
//! is given up to its destination.

use std::sync::Arc;

use chrono::SecondsFormat;
use comeback_core::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::{
    Cloud, Payload, REGION,
    delivery::sender_id,
    epoch_seconds,
    kinesis::{Record, SHARD, stream_name},
    lambda::{
        Origin,
        error::LambdaError,
        invoke_config::DestinationKind,
        name::{self, LATEST},
        recursion::TraceHeader,
        run::{Response, Run},
        stream_mapping::{Part, Processed, StreamMapping, StreamSettings},
    },
    polling::failures,
    s3::Put,
    sqs::Outgoing,
};

impl Cloud {
    /// Creates a mapping of the stream with the ARN `event_source_arn` to `function`.
    pub fn create_stream_mapping(
        &mut self,
        now: Timestamp,
        event_source_arn: &str,
        function: &str,
        settings: &StreamSettings,
    ) -> Result<&StreamMapping, LambdaError> {
        let missing = |_| LambdaError::invalid("Function does not exist");
        let function = Arc::clone(&self.lambda.configuration(function).map_err(missing)?.name);
        let stream = stream_name(event_source_arn)
            .and_then(|name| Some((name, self.kinesis.get(name).ok()?)));
        let Some((name, stream)) = stream else {
            return Err(LambdaError::invalid(format_args!("Stream not found: {event_source_arn}")));
        };
        let uuid: Arc<str> = self.lambda.ids.uuid().into();
        let source = (event_source_arn, name);
        let mapping = StreamMapping::new(
            now,
            Arc::clone(&uuid),
            source,
            function,
            stream.numbers(),
            settings,
        )?;
        Ok(self.lambda.stream_mappings.entry(uuid).or_insert(mapping))
    }

    pub(super) fn poll_streams(&mut self, now: Timestamp, runs: &mut Vec<Run>) {
        // Polling borrows the whole cloud, so the mappings are taken out of it meanwhile.
        let mut mappings = std::mem::take(&mut self.lambda.stream_mappings);
        for mapping in mappings.values_mut() {
            runs.extend(self.poll_stream(now, mapping));
        }
        self.lambda.stream_mappings = mappings;
    }

    pub(super) fn next_stream_poll(&self, now: Timestamp) -> Option<Timestamp> {
        let mappings = self.lambda.stream_mappings.values();
        let polling = mappings.filter(|mapping| self.lambda.function(&mapping.function).is_ok());
        let polls = polling.filter_map(|mapping| {
            mapping.next_due(now, self.kinesis.get(&mapping.stream).ok()?.numbers().end)
        });
        polls.min()
    }

    fn poll_stream(&mut self, now: Timestamp, mapping: &mut StreamMapping) -> Option<Run> {
        let configuration = Arc::clone(self.lambda.configuration(&mapping.function).ok()?);
        let stream = self.kinesis.get(&mapping.stream).ok()?;
        let records = mapping.due(now, &stream.numbers())?.records.clone();
        let payload = event(mapping, &configuration.role, stream.records(records.clone()));
        let trace = TraceHeader::parse("");
        if let Err(error) = self.may_run(now, &mapping.function, &trace, None) {
            debug_assert!(matches!(error, LambdaError::TooManyRequests(_)), "{error}");
            mapping.throttled(now);
            return None;
        }
        mapping.started();
        let origin = Origin::Stream { uuid: Arc::clone(&mapping.uuid), records };
        let request_id = self.lambda.ids.uuid().into();
        Some(self.begin(now, configuration, request_id, &trace, payload, origin))
    }

    /// Takes in the outcome of a batch's run, which had this payload and this request id.
    pub(super) fn finish_batch(
        &mut self,
        now: Timestamp,
        uuid: &Arc<str>,
        records: &std::ops::Range<u64>,
        request_id: &str,
        response: &Response,
    ) {
        let Some(mut mapping) = self.lambda.stream_mappings.remove(uuid) else { return };
        let failed_from = if response.is_error() {
            Some(records.start)
        } else if mapping.report_batch_item_failures {
            self.failed_from(&mapping, records, &response.payload)
        } else {
            None
        };
        let processed = failed_from.map_or(Processed::All, Processed::Until);
        if let Some(part) = mapping.finished(now, processed) {
            self.give_up_batch(now, &mapping, &part, request_id, response.is_error());
        }
        self.lambda.stream_mappings.insert(Arc::clone(uuid), mapping);
    }

    /// The first record that a report names. A report that names a record of no batch fails all.
    fn failed_from(
        &self,
        mapping: &StreamMapping,
        records: &std::ops::Range<u64>,
        report: &[u8],
    ) -> Option<u64> {
        let stream = self.kinesis.get(&mapping.stream).ok()?;
        let numbers: Vec<_> =
            stream.records(records.clone()).map(|record| &*record.sequence_number).collect();
        let Some(failed) = failures(report, |id| numbers.contains(&id)) else {
            return Some(records.start);
        };
        let first = numbers.iter().position(|number| failed.iter().any(|id| id == number))?;
        // Records are numbered without gaps.
        Some(records.end - (numbers.len() - first) as u64)
    }

    /// Puts a record of a batch to the mapping's destination: with the batch into a bucket, without it to a queue.
    fn give_up_batch(
        &mut self,
        now: Timestamp,
        mapping: &StreamMapping,
        part: &Part,
        request_id: &str,
        is_error: bool,
    ) {
        let Some(destination) = &mapping.on_failure else { return };
        let Ok(configuration) = self.lambda.configuration(&mapping.function).cloned() else {
            return;
        };
        let Ok(stream) = self.kinesis.get(&mapping.stream) else { return };
        let records: Vec<_> = stream.records(part.records.clone()).collect();
        let (Some(first), Some(last)) = (records.first(), records.last()) else { return };
        let mut record = json!({
            "requestContext": {
                "requestId": request_id,
                "functionArn": name::arn(&mapping.function),
                "condition": "RetryAttemptsExhausted",
                "approximateInvokeCount": part.failures,
            },
            "responseContext": {
                "statusCode": 200,
                "executedVersion": LATEST,
                "functionError": is_error.then_some("Unhandled"),
            },
            "version": "1.0",
            "timestamp": millis(now),
            "KinesisBatchInfo": {
                "shardId": SHARD,
                "startSequenceNumber": first.sequence_number,
                "endSequenceNumber": last.sequence_number,
                "approximateArrivalOfFirstRecord": millis(first.arrived_at),
                "approximateArrivalOfLastRecord": millis(last.arrived_at),
                "batchSize": records.len(),
                "streamArn": mapping.event_source_arn,
            },
        });
        let sender = sender_id(now, &configuration.role);
        // As on AWS, nobody is told of a record that can't be put.
        match &destination.kind {
            DestinationKind::Bucket(bucket) => {
                let payload = event(mapping, &configuration.role, records.into_iter());
                record["payload"] = payload.get().into();
                let key = record_key(now, &mapping.uuid, &self.lambda.ids.uuid());
                let ids = self.s3.request_ids();
                let put = Put {
                    bucket,
                    key: &key,
                    bytes: record.to_string().into_bytes().into(),
                    content_type: None,
                    principal: &sender,
                    trace_header: None,
                };
                drop(self.put_object(now, &put, &ids));
            }
            DestinationKind::Queue(queue) => {
                let body = record.to_string().into();
                let message = Outgoing { body, sender_id: Some(sender), ..Outgoing::default() };
                drop(self.sqs.send(now, queue, message));
            }
            DestinationKind::Function(_) => {}
        }
    }
}

/// The key of a batch's record, as Lambda's documentation says.
fn record_key(now: Timestamp, mapping: &str, id: &str) -> String {
    format!("aws/lambda/{mapping}/{SHARD}/{}-{id}", now.format("%Y/%m/%d/%Y-%m-%dT%H.%M.%S"))
}

fn millis(at: Timestamp) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// An event with these records, in AWS's order of members.
fn event<'a>(
    mapping: &StreamMapping,
    role: &str,
    records: impl Iterator<Item = &'a Record>,
) -> Payload {
    #[derive(Serialize)]
    #[serde(rename_all = "PascalCase")]
    struct Event<'a> {
        records: Vec<Item<'a>>,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Item<'a> {
        kinesis: Data<'a>,
        event_source: &'static str,
        event_version: &'static str,
        #[serde(rename = "eventID")]
        event_id: String,
        event_name: &'static str,
        invoke_identity_arn: &'a str,
        aws_region: &'static str,
        #[serde(rename = "eventSourceARN")]
        event_source_arn: &'a str,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Data<'a> {
        kinesis_schema_version: &'static str,
        partition_key: &'a str,
        sequence_number: &'a str,
        data: &'a str,
        approximate_arrival_timestamp: f64,
    }
    let item = |record: &'a Record| Item {
        kinesis: Data {
            kinesis_schema_version: "1.0",
            partition_key: &record.partition_key,
            sequence_number: &record.sequence_number,
            data: &record.data,
            approximate_arrival_timestamp: epoch_seconds(record.arrived_at),
        },
        event_source: "aws:kinesis",
        event_version: "1.0",
        event_id: format!("{SHARD}:{}", record.sequence_number),
        event_name: "aws:kinesis:record",
        invoke_identity_arn: role,
        aws_region: REGION,
        event_source_arn: &mapping.event_source_arn,
    };
    Payload::of(&Event { records: records.map(item).collect() })
}
