//! CloudWatch's operation `GetMetricData`, for the metrics `Invocations`, `Errors`, `Throttles`, `AsyncEventsReceived`,
//! `AsyncEventsDropped`, `DestinationDeliveryFailures` and `DeadLetterErrors` of functions, for the receives of queues,
//! and for the metrics in functions' log lines. The protocol is Smithy's RPC v2 with CBOR.

use std::collections::BTreeMap;

use axum::{
    extract::Request,
    http::{StatusCode, Uri},
    response::{IntoResponse as _, Response},
};
use chrono::DateTime;
use comeback_core::Timestamp;
use minicbor::{
    Decoder, Encoder,
    data::{IanaTag, Type},
    decode, encode,
};
use serde::Deserialize;
use serde_json::{Map, Number, Value};

use super::read_body;
use crate::{
    model::emf::{Emf, Metric, Values},
    shared::Shared,
};

const SERVICE: &str = "/service/GraniteServiceVersion20100801/operation/";

/// The largest request, in bytes. A request with AWS's maximum of queries is smaller.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// The deepest nesting in a request. Valid requests are not nested that deeply.
const DEPTH_MAX: u32 = 16;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GetMetricData {
    metric_data_queries: Vec<Query>,
    start_time: f64,
    end_time: f64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Query {
    id: String,
    metric_stat: Option<Stat>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Stat {
    metric: Metric,
    period: u32,
    stat: String,
}

pub(crate) fn is_cloudwatch_request(uri: &Uri) -> bool {
    uri.path().starts_with(SERVICE)
}

pub(crate) async fn handle(shared: &Shared, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let operation = head.uri.path().strip_prefix(SERVICE).unwrap_or_default();
    if operation != "GetMetricData" {
        let why = format!("This local cloud does not have {operation}.");
        return refuse("UnsupportedOperation", &why);
    }
    let Ok(body) = read_body(body, BODY_BYTES_MAX).await else {
        return refuse("SerializationException", "The request can't be read.");
    };
    match read(&body) {
        Ok(request) => {
            let answer = shared.0.journal.metrics(|emf| answer(&request, emf));
            respond(StatusCode::OK, answer.unwrap_or_default())
        }
        Err(why) => refuse("SerializationException", &why),
    }
}

fn read(body: &[u8]) -> Result<GetMetricData, String> {
    let value = value(&mut Decoder::new(body), 0).map_err(|error| error.to_string())?;
    serde_json::from_value(value).map_err(|error| error.to_string())
}

/// Decodes a value to JSON. Tags, which only mark a value as a time for example, are ignored.
fn value(decoder: &mut Decoder<'_>, depth: u32) -> Result<Value, decode::Error> {
    if depth > DEPTH_MAX {
        return Err(decode::Error::message("nested too deep"));
    }
    let number = |number: f64| Number::from_f64(number).map_or(Value::Null, Value::Number);
    Ok(match decoder.datatype()? {
        Type::Tag => {
            decoder.tag()?;
            value(decoder, depth + 1)?
        }
        Type::Bool => decoder.bool()?.into(),
        Type::U8 | Type::U16 | Type::U32 | Type::U64 => decoder.u64()?.into(),
        Type::I8 | Type::I16 | Type::I32 | Type::I64 => decoder.i64()?.into(),
        Type::F16 | Type::F32 | Type::F64 => number(decoder.f64()?),
        Type::String => decoder.str()?.into(),
        Type::StringIndef => decoder.str_iter()?.collect::<Result<String, _>>()?.into(),
        Type::Array | Type::ArrayIndef => {
            let length = decoder.array()?;
            let mut items = Vec::new();
            while has_more(decoder, length, items.len())? {
                items.push(value(decoder, depth + 1)?);
            }
            Value::Array(items)
        }
        Type::Map | Type::MapIndef => {
            let length = decoder.map()?;
            let (mut members, mut read) = (Map::new(), 0);
            while has_more(decoder, length, read)? {
                members.insert(decoder.str()?.to_owned(), value(decoder, depth + 1)?);
                read += 1;
            }
            Value::Object(members)
        }
        Type::Null | Type::Undefined => {
            decoder.skip()?;
            Value::Null
        }
        other @ (Type::Int
        | Type::Simple
        | Type::Bytes
        | Type::BytesIndef
        | Type::Break
        | Type::Unknown(_)) => return Err(decode::Error::type_mismatch(other)),
    })
}

/// Whether a list or a map of this length has more items. One without a length ends with a break, which this consumes.
fn has_more(
    decoder: &mut Decoder<'_>,
    length: Option<u64>,
    read: usize,
) -> Result<bool, decode::Error> {
    match length {
        Some(length) => Ok((read as u64) < length),
        None if decoder.datatype()? == Type::Break => decoder.skip().map(|()| false),
        None => Ok(true),
    }
}

type Encoded = Result<Vec<u8>, encode::Error<std::convert::Infallible>>;

fn answer(request: &GetMetricData, emf: &Emf) -> Encoded {
    let mut encoder = Encoder::new(Vec::new());
    encoder.map(2)?.str("Messages")?.array(0)?;
    encoder.str("MetricDataResults")?.array(request.metric_data_queries.len() as u64)?;
    for query in &request.metric_data_queries {
        let values = values(query, request, emf);
        let metric = query.metric_stat.as_ref().map_or("", |stat| &stat.metric.name);
        encoder.map(5)?.str("Id")?.str(&query.id)?;
        encoder.str("Label")?.str(metric)?;
        encoder.str("StatusCode")?.str("Complete")?;
        encoder.str("Timestamps")?.array(values.len() as u64)?;
        for (began, _) in &values {
            encoder.tag(IanaTag::Timestamp)?.i64(*began)?;
        }
        encoder.str("Values")?.array(values.len() as u64)?;
        for (_, value) in &values {
            encoder.f64(*value)?;
        }
    }
    Ok(encoder.into_writer())
}

/// The values that a query requests, the latest first. Metrics that the local cloud does not count have no values.
fn values(query: &Query, request: &GetMetricData, emf: &Emf) -> Vec<(i64, f64)> {
    let Some(Stat { metric, period, stat }) = &query.metric_stat else { return Vec::new() };
    let (Some(start), Some(end)) = (at(request.start_time), at(request.end_time)) else {
        return Vec::new();
    };
    if *period == 0 || !period.is_multiple_of(60) {
        return Vec::new();
    }
    let mut periods: BTreeMap<i64, Values> = BTreeMap::new();
    for (began, values) in emf.of(metric, &(start..end)) {
        let period = began - began.rem_euclid(i64::from(*period));
        let sum = periods.entry(period);
        sum.and_modify(|sum| *sum = sum.merge(values)).or_insert(values);
    }
    let values = periods.into_iter().rev();
    values.filter_map(|(began, values)| Some((began, values.statistic(stat)?))).collect()
}

#[allow(clippy::cast_possible_truncation, reason = "a float saturates")]
fn at(seconds: f64) -> Option<Timestamp> {
    DateTime::from_timestamp_millis((seconds * 1000.0) as i64)
}

fn refuse(code: &str, why: &str) -> Response {
    let body = || {
        let mut encoder = Encoder::new(Vec::new());
        encoder.map(2)?.str("__type")?.str(code)?.str("message")?.str(why)?;
        Encoded::Ok(encoder.into_writer())
    };
    respond(StatusCode::BAD_REQUEST, body().unwrap_or_default())
}

fn respond(status: StatusCode, body: Vec<u8>) -> Response {
    let cbor = [("content-type", "application/cbor"), ("smithy-protocol", "rpc-v2-cbor")];
    (status, cbor, body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_decoded_or_refused() {
        assert!(read(b"").is_err());
        assert!(read(b"{}").is_err());
        assert!(read(&[0xa0]).unwrap_err().contains("MetricDataQueries"));
        assert!(read(&[0x81; 100]).unwrap_err().contains("nested too deep"));
        // Maps and lists with and without a length, a half float and a tag.
        let mut body = vec![0xbf, 0x71];
        body.extend(b"MetricDataQueries");
        body.extend([0x9f, 0xa1, 0x62]);
        body.extend(b"Id");
        body.extend([0x61, b'q', 0xff, 0x69]);
        body.extend(b"StartTime");
        body.extend([0xc1, 0x18, 0x3c, 0x67]);
        body.extend(b"EndTime");
        body.extend([0xf9, 0x3c, 0x00, 0xff]);
        let request = read(&body).unwrap();
        assert_eq!(request.metric_data_queries[0].id, "q");
        assert_eq!((request.start_time, request.end_time), (60.0, 1.0));
    }
}
