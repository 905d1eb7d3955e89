//! The life of an event as a trace in OTLP's JSON, which any OpenTelemetry collector accepts.
//!
//! The event is one span. Its runs and waits are spans in it, and what else happened to it are its events. The names of
//! attributes are those of OpenTelemetry's semantic conventions for FaaS and messaging.

use comeback_core::Timestamp;
use serde_json::{Value, json};

use crate::{
    account::names::target_name,
    life::{Life, Next},
    operate::attempts::{Note, attempts},
};

/// Values of OTLP's enumerations.
const INTERNAL: u8 = 1;
const CLIENT: u8 = 3;
const PRODUCER: u8 = 4;
const ERROR: u8 = 2;

/// The body of a request to a collector, `POST /v1/traces`.
pub fn request(life: &Life, now: Timestamp) -> Value {
    let function = life.function.as_deref().unwrap_or_default();
    let resource = json!({"attributes": [attribute("service.name", &target_name(function))]});
    let scope = json!({"name": "comeback", "version": env!("CARGO_PKG_VERSION")});
    let spans = spans(life, function, now);
    json!({"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]})
}

fn spans(life: &Life, function: &str, now: Timestamp) -> Vec<Value> {
    let trace_id = trace_id(&life.event_id);
    let end = match &life.next {
        Next::Waits { .. } | Next::Unknown => now,
        Next::Retried | Next::Succeeded | Next::Delivered | Next::GivenUp { .. } => {
            life.steps.last().map_or(now, |step| step.at)
        }
    };
    let began = life.steps.first().map_or(end, |step| step.at);
    let (mut spans, mut events) = (Vec::new(), Vec::new());
    let mut add =
        |name: &str, kind: u8, start: Timestamp, end: Timestamp, attributes: Vec<Value>| {
            let nth = spans.len() + ROOT;
            let mut span = json!({
                "traceId": trace_id, "spanId": format!("{nth:016x}"), "name": name, "kind": kind,
                "startTimeUnixNano": nanos(start), "endTimeUnixNano": nanos(end.max(start)),
                "attributes": attributes,
            });
            if nth > ROOT {
                span["parentSpanId"] = json!(format!("{ROOT:016x}"));
            }
            spans.push(span);
            nth - ROOT
        };
    add("event", INTERNAL, began, end, vec![attribute("messaging.message.id", &life.event_id)]);
    let name = target_name(function);
    let queue = name.strip_prefix("sqs:");
    let (act, kind) = if queue.is_some() { ("send", PRODUCER) } else { ("invoke", CLIENT) };
    let acted = match queue {
        Some(queue) => vec![
            attribute("messaging.system", "aws_sqs"),
            attribute("messaging.destination.name", queue),
        ],
        None => {
            let invoked = [("faas.invoked_name", &*name), ("faas.invoked_provider", "aws")];
            let region = function.split(':').nth(3).map(|region| ("faas.invoked_region", region));
            let all = invoked.into_iter().chain(region);
            all.map(|(key, value)| attribute(key, value)).collect()
        }
    };
    let mut failed = Vec::new();
    for it in attempts(began, &life.steps) {
        let mut attributes = acted.clone();
        attributes.extend(it.late_ms.map(|late| whole("comeback.lateness_ms", late)));
        if it.attempt > 0 {
            attributes.push(whole("comeback.attempt", it.attempt));
        } else if let Some((Some(error_type), _)) = &it.error {
            attributes.push(attribute("error.type", error_type));
        }
        if let Some(condition) = &it.not_run {
            attributes.push(attribute("comeback.not_run", condition));
        }
        if let Some(source) = &it.undelivered_by {
            attributes.push(attribute("comeback.undelivered_by", source));
        }
        let nth = add(act, kind, it.began, it.ended.unwrap_or(it.began), attributes);
        failed.extend(it.error.map(|(error_type, _)| (nth, error_type.unwrap_or_default())));
        if let Some(wait) = it.wait {
            let mut attributes = vec![
                attribute("messaging.system", "aws_sqs"),
                whole("comeback.receives", wait.again + 1),
            ];
            attributes
                .extend(wait.due_at.map(|due| whole("comeback.due_time", due.timestamp_millis())));
            attributes.push(whole("comeback.attempt", it.attempt + 1));
            let end = it.given_up.as_ref().map_or(wait.until, |(at, _)| *at);
            add("wait", INTERNAL, wait.from, end, attributes);
        }
        if let Some((at, reason)) = &it.given_up {
            events.push(event(*at, "given up", vec![attribute("comeback.reason", reason)]));
        }
        events.extend(it.notes.iter().map(|Note { at, text, error, .. }| {
            let error = error.as_deref().map(|error| attribute("comeback.error", error));
            event(*at, text, error.into_iter().collect())
        }));
    }
    for (nth, error_type) in failed {
        spans[nth]["status"] = json!({"code": ERROR, "message": error_type});
    }
    let root = &mut spans[0];
    root["events"] = json!(events);
    root["links"] = json!(life.trace.as_deref().and_then(link).into_iter().collect::<Vec<_>>());
    if let Next::GivenUp { reason } = &life.next {
        root["status"] = json!({"code": ERROR, "message": reason});
    }
    spans
}

const ROOT: usize = 1;

fn event(at: Timestamp, name: &str, attributes: Vec<Value>) -> Value {
    json!({"timeUnixNano": nanos(at), "name": name, "attributes": attributes})
}

fn attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// OTLP's JSON has whole numbers as texts.
fn whole(key: &str, value: impl ToString) -> Value {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}

fn nanos(at: Timestamp) -> String {
    (i128::from(at.timestamp_millis()) * 1_000_000).to_string()
}

/// Sixteen bytes: the event's id, which Lambda makes a UUID.
fn trace_id(event_id: &str) -> String {
    let hex: String = event_id.chars().filter(|&c| c != '-').collect();
    let is_id = hex.len() == 32 && hex.bytes().all(|c| c.is_ascii_hexdigit());
    if is_id {
        return hex.to_ascii_lowercase();
    }
    let bytes = event_id.bytes().chain(std::iter::repeat(1)).take(16);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

/// A link to the trace that X-Ray has of the event, from a header such as `Root=1-5759e988-bd862e3fe1be46a994272793;
/// Parent=53995c3f42cd8ad8;Sampled=1`.
fn link(header: &str) -> Option<Value> {
    let part = |name: &str| header.split(';').find_map(|part| part.trim().strip_prefix(name));
    let trace: String = part("Root=1-")?.chars().filter(|&c| c != '-').collect();
    let (trace, span) = (trace.as_str(), part("Parent=")?);
    let is_hex =
        |text: &str, len: usize| text.len() == len && text.bytes().all(|c| c.is_ascii_hexdigit());
    (is_hex(trace, 32) && is_hex(span, 16)).then(|| json!({"traceId": trace, "spanId": span}))
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::{life::tests::at, operate::trace::tests::life};

    #[test]
    fn a_life_is_a_trace_whose_spans_are_runs_and_waits() {
        let request = request(&life(), at(30));
        let spans = request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
        let second = |span: &Value, name: &str| {
            let nanos: i64 = span[name].as_str().unwrap().parse().unwrap();
            nanos / 1_000_000_000 - at(0).timestamp()
        };
        let seen: Vec<_> = spans
            .iter()
            .map(|span| {
                assert_eq!(span["traceId"], "3b72eb0b000040008000000000000007");
                let times = (second(span, "startTimeUnixNano"), second(span, "endTimeUnixNano"));
                (span["name"].as_str().unwrap(), times, span["status"]["message"].as_str())
            })
            .collect();
        let expected = [
            ("event", (1, 9), Some("max_attempts_exceeded")),
            ("invoke", (1, 1), Some("Down")),
            ("wait", (1, 6), None),
            ("invoke", (6, 9), Some("")),
        ];
        assert_eq!(seen, expected);
        let ids: std::collections::BTreeSet<_> =
            spans.iter().map(|span| span["spanId"].to_string()).collect();
        assert_eq!(ids.len(), spans.len());
        let late = whole("comeback.lateness_ms", 350);
        assert!(spans[3]["attributes"].as_array().unwrap().contains(&late), "{}", spans[3]);
        assert_eq!(spans[0]["links"][0]["traceId"], "5759e988bd862e3fe1be46a994272793");
        assert_eq!(spans[0]["events"][0]["name"], "given up");
        assert!(spans[1..].iter().all(|span| span["parentSpanId"] == spans[0]["spanId"]));
        assert_eq!(link("Root=1-x;Parent=y"), None);
        assert_eq!(trace_id("x"), "78010101010101010101010101010101");
    }
}
