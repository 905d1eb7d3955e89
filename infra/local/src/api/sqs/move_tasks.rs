//! The operations on message move tasks.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, required, up_to};
use crate::{
    api::without_nulls,
    model::{
        queue_arn,
        sqs::{MoveStatus, MoveTask, SqsError, TASKS_LISTED_MAX},
    },
};

type Answer = Result<Value, SqsError>;

/// The parameters of all operations on message move tasks.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Request {
    source_arn: Option<String>,
    destination_arn: Option<String>,
    max_number_of_messages_per_second: Option<i64>,
    max_results: Option<i64>,
    task_handle: Option<String>,
}

pub(super) fn start(request: Request, Call { sqs, now, .. }: Call<'_>) -> Answer {
    let source = required("SourceArn", &request.source_arn)?;
    let per_second = request.max_number_of_messages_per_second;
    let handle =
        sqs.start_move_task(now, source, request.destination_arn.as_deref(), per_second)?;
    Ok(json!({ "TaskHandle": handle }))
}

pub(super) fn list(request: Request, Call { sqs, .. }: Call<'_>) -> Answer {
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
        "DestinationArn": task.destination.as_ref().map(|queue| queue_arn(queue.as_str())),
        "FailureReason": failure_reason,
        "MaxNumberOfMessagesPerSecond": task.per_second,
        "SourceArn": source_arn,
        "StartedTimestamp": task.started_at.timestamp_millis(),
        "Status": task.status.name(),
        "TaskHandle": task_handle,
    }))
}

pub(super) fn cancel(request: Request, Call { sqs, .. }: Call<'_>) -> Answer {
    let moved = sqs.cancel_move_task(required("TaskHandle", &request.task_handle)?)?;
    Ok(json!({ "ApproximateNumberOfMessagesMoved": moved }))
}
