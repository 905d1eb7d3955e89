//! The operations of CloudWatch Logs that read functions' log lines: `FilterLogEvents` and `DescribeLogGroups`. The
//! lines come from the journal, so only the latest are kept.

use std::sync::Arc;

use axum::{extract::Request, response::Response};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{json_1_1, read_body, without_nulls};
use crate::{
    journal::Entry,
    model::{ACCOUNT, Event, REGION, What, log_filter::LogFilter},
    shared::Shared,
};

const GROUP_PREFIX: &str = "/aws/lambda/";

/// The largest request, in bytes. A request with AWS's longest filter pattern is smaller.
const BODY_BYTES_MAX: usize = 64 * 1024;

const STREAM: &str = "local";

const LINES_MAX: usize = 10_000;

/// The approximate limit of the lines in one response, in bytes.
const LINES_BYTES_MAX: usize = 1024 * 1024;

/// How many journal entries are read at a time, so that writers don't wait for the lock for long.
const ENTRIES: usize = 1_000;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FilterLogEvents {
    log_group_name: Option<String>,
    log_group_identifier: Option<String>,
    start_time: Option<i64>,
    end_time: Option<i64>,
    filter_pattern: Option<String>,
    next_token: Option<String>,
    limit: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DescribeLogGroups {
    log_group_name_prefix: Option<String>,
}

type Refusal = (&'static str, String);

pub(crate) async fn handle(shared: &Shared, request: Request, action: &str) -> Response {
    let body = read_body(request.into_body(), BODY_BYTES_MAX).await.unwrap_or_default();
    let answer = match action {
        "FilterLogEvents" => read(&body).and_then(|request| filter(shared, &request)),
        "DescribeLogGroups" => read(&body).map(|request| describe(shared, &request)),
        other => {
            Err(("UnknownOperationException", format!("This local cloud does not have {other}.")))
        }
    };
    json_1_1(answer)
}

fn read<R: DeserializeOwned>(body: &[u8]) -> Result<R, Refusal> {
    serde_json::from_slice(body).map_err(|error| ("SerializationException", error.to_string()))
}

fn describe(shared: &Shared, request: &DescribeLogGroups) -> Value {
    let prefix = request.log_group_name_prefix.as_deref().unwrap_or_default();
    let names: Vec<_> = shared.look(|cloud, _| {
        cloud.lambda.functions().map(|configuration| Arc::clone(&configuration.name)).collect()
    });
    let group = |name: Arc<str>| {
        let group = format!("{GROUP_PREFIX}{name}");
        let arn = format!("arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{group}:*");
        group.starts_with(prefix).then(|| json!({ "logGroupName": group, "arn": arn }))
    };
    json!({ "logGroups": names.into_iter().filter_map(group).collect::<Vec<_>>() })
}

fn filter(shared: &Shared, request: &FilterLogEvents) -> Result<Value, Refusal> {
    let invalid = |message: &str| ("InvalidParameterException", message.to_owned());
    let group = request.log_group_name.as_deref().or(request.log_group_identifier.as_deref());
    let group =
        group.ok_or_else(|| invalid("One of logGroupName and logGroupIdentifier is required."))?;
    let group = group.strip_suffix(":*").unwrap_or(group);
    let group = group.rsplit_once(":log-group:").map_or(group, |(_, name)| name);
    let function = group
        .strip_prefix(GROUP_PREFIX)
        .filter(|name| shared.look(|cloud, _| cloud.lambda.configuration(name).is_ok()));
    let Some(function) = function else {
        let message = "The specified log group does not exist.";
        return Err(("ResourceNotFoundException", message.to_owned()));
    };
    let filter = LogFilter::parse(request.filter_pattern.as_deref().unwrap_or_default());
    let filter = filter.ok_or_else(|| invalid("Invalid or unsupported filter pattern."))?;
    let after = request.next_token.as_deref().unwrap_or("0").parse();
    let mut after: u64 = after.map_err(|_| invalid("The specified nextToken is invalid."))?;
    let limit = request.limit.unwrap_or(LINES_MAX).clamp(1, LINES_MAX);
    let times = request.start_time.unwrap_or(0)..request.end_time.unwrap_or(i64::MAX);
    let (mut events, mut bytes) = (Vec::new(), 0);
    let mut next = None;
    'all: loop {
        let entries = shared.0.journal.after(after, ENTRIES);
        let Some(last) = entries.last() else { break };
        let read_to = last.n;
        for Entry { n, event } in entries {
            let Event { at, function: of, what: What::Logged { line }, .. } = event else {
                continue;
            };
            let at = at.timestamp_millis();
            if *of == *function && times.contains(&at) && filter.matches(&line) {
                if events.len() == limit || bytes > LINES_BYTES_MAX {
                    next = Some((n - 1).to_string());
                    break 'all;
                }
                bytes += line.len();
                events.push(json!({
                    "logStreamName": STREAM,
                    "timestamp": at,
                    "ingestionTime": at,
                    "message": line + "\n",
                    "eventId": n.to_string(),
                }));
            }
        }
        after = read_to;
    }
    Ok(without_nulls(json!({ "events": events, "searchedLogStreams": [], "nextToken": next })))
}
