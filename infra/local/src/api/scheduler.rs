//! EventBridge Scheduler's REST API: schedules of the default group.

use axum::{
    extract::Request,
    http::{Method, StatusCode, Uri, header},
    response::{IntoResponse as _, Response},
};
use comeback_core::Timestamp;
use serde_json::{Value, json};

use super::{read_body, without_nulls};
use crate::{
    model::{
        Cloud,
        bridge::{
            error::BridgeError,
            schedule::{GROUP, Schedule},
        },
        epoch_seconds,
    },
    shared::Shared,
};

const PATH: &str = "/schedules";

/// The largest request, in bytes. A schedule's input may have 256 KB.
const BODY_BYTES_MAX: usize = 1024 * 1024;

pub(crate) fn is_scheduler_request(uri: &Uri) -> bool {
    uri.path().strip_prefix(PATH).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

pub(crate) async fn handle(shared: &Shared, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let name = head.uri.path().strip_prefix(PATH).unwrap_or_default().trim_matches('/');
    let answer = match read_body(body, BODY_BYTES_MAX).await {
        Ok(body) => shared.step(|cloud, now| answer(&head.method, name, &body, cloud, now)),
        Err(_) => Err(BridgeError::Validation("the request is too long, or broken".to_owned())),
    };
    let json = [(header::CONTENT_TYPE, "application/json")];
    match answer {
        Ok(body) => (json, body.to_string()).into_response(),
        Err(error) => {
            let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::BAD_REQUEST);
            let code = [("x-amzn-errortype", error.code())];
            (status, code, json, json!({ "Message": error.to_string() }).to_string())
                .into_response()
        }
    }
}

fn answer(
    method: &Method,
    name: &str,
    body: &[u8],
    cloud: &mut Cloud,
    now: Timestamp,
) -> Result<Value, BridgeError> {
    let schedules = &mut cloud.bridge.schedules;
    let read =
        || serde_json::from_slice(body).map_err(|error| BridgeError::Validation(error.to_string()));
    match (method.as_str(), name) {
        ("GET", "") => Ok(json!({ "Schedules": schedules.all().map(summary).collect::<Vec<_>>() })),
        ("POST", name) => Ok(json!({ "ScheduleArn": schedules.create(now, name, read()?)?.arn })),
        ("PUT", name) => Ok(json!({ "ScheduleArn": schedules.update(now, name, read()?)?.arn })),
        ("GET", name) => schedules.get(name).map(shape),
        ("DELETE", name) => schedules.delete(name).map(|()| json!({})),
        (method, name) => Err(BridgeError::UnknownOperation(format!("{method} {PATH}/{name}"))),
    }
}

fn shape(schedule: &Schedule) -> Value {
    without_nulls(json!({
        "Name": schedule.name,
        "Arn": schedule.arn,
        "GroupName": GROUP,
        "ScheduleExpression": schedule.expression,
        "ScheduleExpressionTimezone": "UTC",
        "FlexibleTimeWindow": { "Mode": "OFF" },
        "Target": schedule.target,
        "Description": schedule.description,
        "State": state(schedule),
        "ActionAfterCompletion": "NONE",
        "CreationDate": epoch_seconds(schedule.created),
        "LastModificationDate": epoch_seconds(schedule.last_modified),
    }))
}

fn summary(schedule: &Schedule) -> Value {
    json!({
        "Name": schedule.name,
        "Arn": schedule.arn,
        "GroupName": GROUP,
        "State": state(schedule),
        "Target": { "Arn": schedule.target.arn },
        "CreationDate": epoch_seconds(schedule.created),
        "LastModificationDate": epoch_seconds(schedule.last_modified),
    })
}

fn state(schedule: &Schedule) -> &'static str {
    if schedule.is_enabled { "ENABLED" } else { "DISABLED" }
}
