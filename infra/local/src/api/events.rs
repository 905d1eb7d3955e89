//! EventBridge's API in the protocol AWS JSON 1.1: rules of the default bus, their targets, and events.

use axum::{extract::Request, response::Response};
use comeback_core::Timestamp;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{json_1_1, read_body, without_nulls};
use crate::{
    model::{
        Cloud,
        bridge::{
            error::BridgeError,
            rule::{Entry, PutRule, Rule, Target},
        },
    },
    shared::Shared,
};

/// The largest request, in bytes: AWS's limit of the events in one.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// How many events a request may have.
const ENTRIES_MAX: usize = 10;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct OfRule {
    #[serde(alias = "Rule")]
    name: String,
    event_bus_name: Option<String>,
    #[serde(default)]
    targets: Vec<Target>,
    #[serde(default)]
    ids: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct List {
    #[serde(default)]
    name_prefix: String,
    target_arn: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PutEvents {
    entries: Vec<Entry>,
}

pub(crate) async fn handle(shared: &Shared, request: Request, action: &str) -> Response {
    let answer = match read_body(request.into_body(), BODY_BYTES_MAX).await {
        Ok(body) => shared.step(|cloud, now| answer(action, &body, cloud, now)),
        Err(_) => Err(BridgeError::Validation("the request is too long, or broken".to_owned())),
    };
    json_1_1(answer.map_err(|error| (error.code(), error.to_string())))
}

fn answer(
    action: &str,
    body: &[u8],
    cloud: &mut Cloud,
    now: Timestamp,
) -> Result<Value, BridgeError> {
    let rules = &mut cloud.bridge.rules;
    match action {
        "PutRule" => {
            let rule = rules.put(read::<PutRule>(body)?)?;
            Ok(json!({ "RuleArn": rule.arn }))
        }
        "DescribeRule" => {
            let OfRule { name, event_bus_name, .. } = read(body)?;
            Ok(shape(rules.get(&name, event_bus_name.as_deref())?))
        }
        "DeleteRule" => {
            let OfRule { name, .. } = read(body)?;
            rules.delete(&name).map(|()| json!({}))
        }
        "ListRules" => {
            let List { name_prefix, .. } = read(body)?;
            Ok(json!({ "Rules": rules.named(&name_prefix).map(shape).collect::<Vec<_>>() }))
        }
        "ListEventBuses" => Ok(json!({ "EventBuses": [{ "Name": "default" }] })),
        "ListRuleNamesByTarget" => {
            let List { target_arn, .. } = read(body)?;
            let wanted = target_arn.unwrap_or_default();
            let has = |rule: &&Rule| rule.targets.iter().any(|target| target.arn == wanted);
            let names: Vec<_> = rules.named("").filter(has).map(|rule| &rule.name).collect();
            Ok(json!({ "RuleNames": names }))
        }
        "PutTargets" => {
            let OfRule { name, event_bus_name, targets, .. } = read(body)?;
            rules.put_targets(&name, event_bus_name.as_deref(), targets)?;
            Ok(json!({ "FailedEntryCount": 0, "FailedEntries": [] }))
        }
        "RemoveTargets" => {
            let OfRule { name, ids, .. } = read(body)?;
            rules.remove_targets(&name, &ids)?;
            Ok(json!({ "FailedEntryCount": 0, "FailedEntries": [] }))
        }
        "ListTargetsByRule" => {
            let OfRule { name, event_bus_name, .. } = read(body)?;
            Ok(json!({ "Targets": rules.get(&name, event_bus_name.as_deref())?.targets }))
        }
        "PutEvents" => {
            let PutEvents { entries } = read(body)?;
            put_events(cloud, now, &entries)
        }
        other => Err(BridgeError::UnknownOperation(other.to_owned())),
    }
}

/// Each event is put, or refused alone.
fn put_events(cloud: &mut Cloud, now: Timestamp, entries: &[Entry]) -> Result<Value, BridgeError> {
    if entries.is_empty() || entries.len() > ENTRIES_MAX {
        return Err(BridgeError::Validation(format!(
            "Entries must have 1 to {ENTRIES_MAX} events, got {}",
            entries.len()
        )));
    }
    let put: Vec<_> = entries.iter().map(|entry| cloud.put_event(now, entry)).collect();
    let failed = put.iter().filter(|put| put.is_err()).count();
    let shape = |put: Result<String, BridgeError>| match put {
        Ok(id) => json!({ "EventId": id }),
        Err(error) => json!({ "ErrorCode": error.code(), "ErrorMessage": error.to_string() }),
    };
    let entries: Vec<_> = put.into_iter().map(shape).collect();
    Ok(json!({ "FailedEntryCount": failed, "Entries": entries }))
}

fn shape(rule: &Rule) -> Value {
    without_nulls(json!({
        "Name": rule.name,
        "Arn": rule.arn,
        "EventPattern": rule.pattern,
        "Description": rule.description,
        "State": if rule.is_enabled { "ENABLED" } else { "DISABLED" },
        "EventBusName": "default",
    }))
}

fn read<R: DeserializeOwned>(body: &[u8]) -> Result<R, BridgeError> {
    serde_json::from_slice(body).map_err(|error| BridgeError::Validation(error.to_string()))
}
