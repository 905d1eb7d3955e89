//! Event source mappings of queues and of streams.

use axum::{
    body::Bytes,
    extract::State,
    http::{StatusCode, Uri},
};
use serde_json::{Value, json};

use super::{
    Answer, Params, answer, parse,
    shapes::{self, MappingRequest, StreamRequest},
};
use crate::{
    api::query_values,
    model::{
        kinesis::stream_name,
        lambda::{mapping::Mapping, name::resolve, stream_mapping::StreamMapping},
    },
    shared::Shared,
};

const OK: StatusCode = StatusCode::OK;

pub(super) async fn create(State(shared): State<Shared>, body: Bytes) -> Answer {
    let request: MappingRequest = parse(&body)?;
    let function = resolve(request.function_name.as_deref().unwrap_or_default(), None)?;
    let arn = request.event_source_arn.as_deref().unwrap_or_default();
    if stream_name(arn).is_some() {
        let settings = parse::<StreamRequest>(&body)?.settings()?;
        return shared.step(|cloud, now| {
            let mapping = cloud.create_stream_mapping(now, arn, &function, &settings)?;
            Ok(answer(StatusCode::ACCEPTED, &shapes::stream_mapping(mapping)))
        });
    }
    let settings = request.settings()?;
    shared.step(|cloud, now| {
        let mapping = cloud.create_mapping(now, arn, &function, settings)?;
        Ok(answer(StatusCode::ACCEPTED, &shapes::mapping(mapping, mapping.state(now))))
    })
}

pub(super) async fn list(State(shared): State<Shared>, uri: Uri) -> Answer {
    let arn = query_values(&uri, "EventSourceArn").next();
    let function = query_values(&uri, "FunctionName").next();
    let function = function.map(|name| resolve(&name, None)).transpose()?;
    let is_wanted = |source: &str, of: &str| {
        arn.as_deref().is_none_or(|arn| arn == source)
            && function.as_deref().is_none_or(|name| name == of)
    };
    shared.look(|cloud, now| {
        let of_queue = |it: &Mapping| {
            let is_wanted = is_wanted(&it.event_source_arn, &it.function);
            is_wanted.then(|| shapes::mapping(it, it.state(now)))
        };
        let of_stream = |it: &StreamMapping| {
            let is_wanted = is_wanted(&it.event_source_arn, &it.function);
            is_wanted.then(|| shapes::stream_mapping(it))
        };
        let streams = cloud.lambda.stream_mappings.values().filter_map(of_stream);
        let mappings = cloud.lambda.mappings.values().filter_map(of_queue).chain(streams);
        Ok(answer(OK, &json!({ "EventSourceMappings": mappings.collect::<Vec<_>>() })))
    })
}

pub(super) async fn get(State(shared): State<Shared>, Params(uuid): Params<String>) -> Answer {
    shared.look(|cloud, now| {
        if let Ok(mapping) = cloud.lambda.stream_mapping(&uuid) {
            return Ok(answer(OK, &shapes::stream_mapping(mapping)));
        }
        let mapping = cloud.lambda.mapping(&uuid)?;
        Ok(answer(OK, &shapes::mapping(mapping, mapping.state(now))))
    })
}

pub(super) async fn update(
    State(shared): State<Shared>,
    Params(uuid): Params<String>,
    body: Bytes,
) -> Answer {
    if shared.look(|cloud, _| cloud.lambda.stream_mapping(&uuid).is_ok()) {
        let settings = parse::<StreamRequest>(&body)?.settings()?;
        return shared.step(|cloud, now| {
            let mapping = cloud.lambda.update_stream_mapping(now, &uuid, &settings)?;
            Ok(answer(StatusCode::ACCEPTED, &shapes::stream_mapping(mapping)))
        });
    }
    let request: MappingRequest = parse(&body)?;
    let function = request.function_name.as_deref();
    let function = function.map(|name| resolve(name, None)).transpose()?;
    let settings = request.settings()?;
    shared.step(|cloud, now| {
        let mapping = cloud.lambda.update_mapping(now, &uuid, function.as_deref(), settings)?;
        Ok(answer(StatusCode::ACCEPTED, &shapes::mapping(mapping, mapping.state(now))))
    })
}

pub(super) async fn delete(State(shared): State<Shared>, Params(uuid): Params<String>) -> Answer {
    shared.step(|cloud, _| {
        let state = |mut shape: Value| {
            // AWS returns the state of a mapping that is being deleted.
            shape["State"] = "Deleting".into();
            answer(StatusCode::ACCEPTED, &shape)
        };
        if let Some(mapping) = cloud.lambda.stream_mappings.remove(&*uuid) {
            return Ok(state(shapes::stream_mapping(&mapping)));
        }
        let mapping = cloud.lambda.delete_mapping(&uuid)?;
        Ok(state(shapes::mapping(&mapping, "")))
    })
}
