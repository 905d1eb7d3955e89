//! The operations on event source mappings.

use axum::{
    body::Bytes,
    extract::State,
    http::{StatusCode, Uri},
};
use serde_json::json;

use super::{
    Answer, Params, answer, parse,
    shapes::{self, MappingRequest},
};
use crate::{api::query_values, model::lambda::name::resolve, shared::Shared};

pub(super) async fn create(State(shared): State<Shared>, body: Bytes) -> Answer {
    let request: MappingRequest = parse(&body)?;
    let function = resolve(request.function_name.as_deref().unwrap_or_default(), None)?;
    let arn = request.event_source_arn.as_deref().unwrap_or_default();
    let settings = request.settings()?;
    shared.step(|cloud, now| {
        let mapping = cloud.create_mapping(now, arn, &function, settings)?;
        Ok(answer(StatusCode::ACCEPTED, &shapes::mapping(mapping, mapping.state(now))))
    })
}

/// All mappings, or those of the queue and the function that the query names.
pub(super) async fn list(State(shared): State<Shared>, uri: Uri) -> Answer {
    let arn = query_values(&uri, "EventSourceArn").next();
    let function = query_values(&uri, "FunctionName").next();
    let function = function.map(|name| resolve(&name, None)).transpose()?;
    shared.look(|cloud, now| {
        let mappings: Vec<_> = cloud
            .lambda
            .mappings()
            .filter(|it| arn.as_ref().is_none_or(|arn| **arn == *it.event_source_arn))
            .filter(|it| function.as_ref().is_none_or(|name| **name == *it.function))
            .map(|it| shapes::mapping(it, it.state(now)))
            .collect();
        Ok(answer(StatusCode::OK, &json!({ "EventSourceMappings": mappings })))
    })
}

pub(super) async fn get(State(shared): State<Shared>, Params(uuid): Params<String>) -> Answer {
    shared.look(|cloud, now| {
        let mapping = cloud.lambda.mapping(&uuid)?;
        Ok(answer(StatusCode::OK, &shapes::mapping(mapping, mapping.state(now))))
    })
}

pub(super) async fn update(
    State(shared): State<Shared>,
    Params(uuid): Params<String>,
    body: Bytes,
) -> Answer {
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
        // AWS returns the state of a mapping that is being deleted.
        let mapping = cloud.lambda.delete_mapping(&uuid)?;
        Ok(answer(StatusCode::ACCEPTED, &shapes::mapping(&mapping, "Deleting")))
    })
}
