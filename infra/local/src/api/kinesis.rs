//! The operations of Kinesis that put records, in the protocol AWS JSON 1.1. Only mappings read them.

use axum::{extract::Request, response::Response};
use comeback_core::Timestamp;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{json_1_1, read_body};
use crate::{
    model::{
        Cloud, epoch_seconds,
        kinesis::{Entry, KinesisError, SHARD, stream_name},
    },
    shared::Shared,
};

/// The largest request, in bytes: AWS's limit of the records in one is 5 MB, and base64 is longer.
const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How many records a request may have.
const ENTRIES_MAX: usize = 500;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct OfStream {
    stream_name: Option<String>,
    #[serde(rename = "StreamARN")]
    stream_arn: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Records {
    records: Vec<Entry>,
}

pub(crate) async fn handle(shared: &Shared, request: Request, action: &str) -> Response {
    let answer = match read_body(request.into_body(), BODY_BYTES_MAX).await {
        Ok(body) => shared.step(|cloud, now| answer(action, &body, cloud, now)),
        Err(_) => Err(KinesisError::Invalid("the request is too long, or broken".to_owned())),
    };
    json_1_1(answer.map_err(|error| (error.code(), error.to_string())))
}

fn answer(
    action: &str,
    body: &[u8],
    cloud: &mut Cloud,
    now: Timestamp,
) -> Result<Value, KinesisError> {
    let kinesis = &mut cloud.kinesis;
    let name = || {
        let OfStream { stream_name: name, stream_arn } = read(body)?;
        let arn = stream_arn.as_deref().and_then(stream_name).map(str::to_owned);
        let missing = "StreamName or StreamARN is required.";
        name.or(arn).ok_or_else(|| KinesisError::Invalid(missing.to_owned()))
    };
    match action {
        "CreateStream" => kinesis.create(now, &name()?).map(|()| json!({})),
        "DeleteStream" => kinesis.delete(&name()?).map(|()| json!({})),
        "ListStreams" => {
            let names: Vec<_> = kinesis.names().collect();
            Ok(json!({ "StreamNames": names, "HasMoreStreams": false }))
        }
        "DescribeStreamSummary" => {
            let name = name()?;
            let stream = kinesis.get(&name)?;
            Ok(json!({
                "StreamDescriptionSummary": {
                    "StreamName": name,
                    "StreamARN": stream.arn,
                    "StreamStatus": "ACTIVE",
                    "RetentionPeriodHours": 24,
                    "StreamCreationTimestamp": epoch_seconds(stream.created),
                    "EnhancedMonitoring": [],
                    "OpenShardCount": 1,
                }
            }))
        }
        "PutRecord" => {
            let number = kinesis.put(now, &name()?, read(body)?)?;
            Ok(json!({ "ShardId": SHARD, "SequenceNumber": number }))
        }
        "PutRecords" => {
            let (name, Records { records }) = (name()?, read(body)?);
            if records.is_empty() || records.len() > ENTRIES_MAX {
                let why = format!("Records must be 1 to {ENTRIES_MAX}, got {}", records.len());
                return Err(KinesisError::Invalid(why));
            }
            let put = |record| {
                let number = kinesis.put(now, &name, record)?;
                Ok(json!({ "ShardId": SHARD, "SequenceNumber": number }))
            };
            let records = records.into_iter().map(put).collect::<Result<Vec<_>, _>>()?;
            Ok(json!({ "FailedRecordCount": 0, "Records": records }))
        }
        other => Err(KinesisError::UnknownOperation(other.to_owned())),
    }
}

fn read<R: DeserializeOwned>(body: &[u8]) -> Result<R, KinesisError> {
    serde_json::from_slice(body).map_err(|error| KinesisError::Invalid(error.to_string()))
}
