//! The operations on queues and on message move tasks.

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, queue_name, required, up_to};
use crate::{
    api::without_nulls,
    model::{
        ACCOUNT, queue_arn,
        sqs::{Attributes, MoveStatus, MoveTask, STORED, SqsError, TASKS_LISTED_MAX},
    },
};

const RESULTS_MAX: usize = 1000;

type Answer = Result<Value, SqsError>;
type Tags = BTreeMap<String, String>;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Request {
    queue_name: Option<String>,
    queue_url: Option<String>,
    #[serde(rename = "QueueOwnerAWSAccountId")]
    owner: Option<String>,
    queue_name_prefix: Option<String>,
    attributes: Option<Attributes>,
    attribute_names: Option<Vec<String>>,
    tags: Option<Tags>,
    /// AWS writes this member of `CreateQueue` in lower case.
    #[serde(rename = "tags")]
    first_tags: Option<Tags>,
    tag_keys: Option<Vec<String>>,
    max_results: Option<i64>,
    next_token: Option<String>,
    source_arn: Option<String>,
    destination_arn: Option<String>,
    max_number_of_messages_per_second: Option<i64>,
    task_handle: Option<String>,
}

pub(super) fn create(request: Request, call: Call<'_>) -> Answer {
    let name = required("QueueName", &request.queue_name)?;
    let attributes = request.attributes.unwrap_or_default();
    call.sqs.create_queue(call.now, name, &attributes)?;
    call.sqs.tags(name)?.extend(request.first_tags.unwrap_or_default());
    Ok(json!({ "QueueUrl": call.queue_url(name) }))
}

pub(super) fn get_url(request: Request, call: Call<'_>) -> Answer {
    let name = required("QueueName", &request.queue_name)?;
    if request.owner.is_some_and(|owner| owner != ACCOUNT) {
        return Err(SqsError::QueueDoesNotExist);
    }
    Ok(json!({ "QueueUrl": call.queue_url(call.sqs.queue(name)?) }))
}

pub(super) fn list(request: Request, call: Call<'_>) -> Answer {
    let after = request.after()?;
    let prefix = request.queue_name_prefix.as_deref().unwrap_or_default();
    let (urls, next) = request.page(call.sqs.queues(prefix, after.as_deref()), &call)?;
    let urls = (!urls.is_empty()).then_some(urls);
    Ok(without_nulls(json!({ "QueueUrls": urls, "NextToken": next })))
}

/// AWS writes the member `queueUrls` in lower camel case here.
pub(super) fn list_sources(request: Request, call: Call<'_>) -> Answer {
    let after = request.after()?;
    let queue = queue_name(&request.queue_url)?;
    let sources = call.sqs.dead_letter_sources(queue, after.as_deref())?;
    let (urls, next) = request.page(sources, &call)?;
    Ok(without_nulls(json!({ "queueUrls": urls, "NextToken": next })))
}

impl Request {
    /// The last queue of the previous page, which is the token's content.
    fn after(&self) -> Result<Option<String>, SqsError> {
        let Some(token) = &self.next_token else { return Ok(None) };
        let name = STANDARD.decode(token).ok().and_then(|name| String::from_utf8(name).ok());
        name.map(Some).ok_or_else(|| {
            SqsError::invalid("NextToken", token, "It must be one that was returned.")
        })
    }

    /// The URLs of the first `queues`, and the token of the next page. As on AWS, there is no token without
    /// `MaxResults`.
    fn page<'a>(
        &self,
        mut queues: impl Iterator<Item = &'a Arc<str>>,
        call: &Call<'_>,
    ) -> Result<(Vec<String>, Option<String>), SqsError> {
        let max = self.max_results.map(|max| up_to(RESULTS_MAX, "MaxResults", max)).transpose()?;
        let page: Vec<_> = queues.by_ref().take(max.unwrap_or(RESULTS_MAX)).collect();
        let next = page.last().filter(|_| max.is_some() && queues.next().is_some());
        let next_token = next.map(|last| STANDARD.encode(last.as_bytes()));
        Ok((page.into_iter().map(|name| call.queue_url(name)).collect(), next_token))
    }
}

pub(super) fn get_attributes(request: Request, Call { sqs, now, .. }: Call<'_>) -> Answer {
    let mut attributes = sqs.attributes(now, queue_name(&request.queue_url)?)?;
    let names = request.attribute_names.unwrap_or_default();
    let is_attribute = |name: &str| {
        let unset = ["All", "RedrivePolicy"].contains(&name) || STORED.contains(&name);
        unset || attributes.contains_key(name)
    };
    if let Some(name) = names.iter().find(|name| !is_attribute(name)) {
        return Err(SqsError::InvalidAttributeName { name: name.clone() });
    }
    if !names.iter().any(|name| name == "All") {
        attributes.retain(|name, _| names.contains(name));
    }
    let attributes = (!attributes.is_empty()).then_some(attributes);
    Ok(without_nulls(json!({ "Attributes": attributes })))
}

pub(super) fn set_attributes(request: Request, Call { sqs, now, .. }: Call<'_>) -> Answer {
    let queue = queue_name(&request.queue_url)?;
    let changes = request.attributes.ok_or(SqsError::MissingParameter("Attributes"))?;
    sqs.set_attributes(now, queue, &changes)?;
    Ok(json!({}))
}

pub(super) fn delete(request: Request, Call { sqs, now, .. }: Call<'_>) -> Answer {
    sqs.delete_queue(now, queue_name(&request.queue_url)?)?;
    Ok(json!({}))
}

pub(super) fn purge(request: Request, Call { sqs, now, .. }: Call<'_>) -> Answer {
    sqs.purge_queue(now, queue_name(&request.queue_url)?)?;
    Ok(json!({}))
}

pub(super) fn list_tags(request: Request, Call { sqs, .. }: Call<'_>) -> Answer {
    let tags = sqs.tags(queue_name(&request.queue_url)?)?;
    let tags = (!tags.is_empty()).then_some(tags);
    Ok(without_nulls(json!({ "Tags": tags })))
}

pub(super) fn tag(request: Request, Call { sqs, .. }: Call<'_>) -> Answer {
    let tags = request.tags.ok_or(SqsError::MissingParameter("Tags"))?;
    sqs.tags(queue_name(&request.queue_url)?)?.extend(tags);
    Ok(json!({}))
}

pub(super) fn untag(request: Request, Call { sqs, .. }: Call<'_>) -> Answer {
    let keys = request.tag_keys.ok_or(SqsError::MissingParameter("TagKeys"))?;
    sqs.tags(queue_name(&request.queue_url)?)?.retain(|key, _| !keys.contains(key));
    Ok(json!({}))
}

pub(super) fn start_move_task(request: Request, Call { sqs, now, .. }: Call<'_>) -> Answer {
    let source = required("SourceArn", &request.source_arn)?;
    let per_second = request.max_number_of_messages_per_second;
    let handle =
        sqs.start_move_task(now, source, request.destination_arn.as_deref(), per_second)?;
    Ok(json!({ "TaskHandle": handle }))
}

pub(super) fn list_move_tasks(request: Request, Call { sqs, .. }: Call<'_>) -> Answer {
    let source_arn = required("SourceArn", &request.source_arn)?;
    let max = up_to(TASKS_LISTED_MAX, "MaxResults", request.max_results.unwrap_or(1))?;
    let tasks = sqs.move_tasks(source_arn)?.take(max);
    let results: Vec<_> = tasks.map(|task| task_answer(source_arn, task)).collect();
    Ok(json!({ "Results": results }))
}

/// A task in a response. As on AWS, only a task that can be cancelled has a handle.
fn task_answer(source_arn: &str, task: &MoveTask) -> Value {
    let (failure_reason, task_handle) = match task.status {
        MoveStatus::Running => (None, Some(&task.handle)),
        MoveStatus::Failed(reason) => (Some(reason), None),
        MoveStatus::Completed | MoveStatus::Cancelled => (None, None),
    };
    without_nulls(json!({
        "ApproximateNumberOfMessagesMoved": task.moved,
        "ApproximateNumberOfMessagesToMove": task.to_move,
        "DestinationArn": task.destination.as_ref().map(|queue| queue_arn(queue)),
        "FailureReason": failure_reason,
        "MaxNumberOfMessagesPerSecond": task.per_second,
        "SourceArn": source_arn,
        "StartedTimestamp": task.started_at.timestamp_millis(),
        "Status": task.status.name(),
        "TaskHandle": task_handle,
    }))
}

pub(super) fn cancel_move_task(request: Request, Call { sqs, .. }: Call<'_>) -> Answer {
    let moved = sqs.cancel_move_task(required("TaskHandle", &request.task_handle)?)?;
    Ok(json!({ "ApproximateNumberOfMessagesMoved": moved }))
}
