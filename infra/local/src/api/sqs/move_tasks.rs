//! The operations on message move tasks.

use serde::{Deserialize, Serialize};

use super::{Call, Operation, fault::SqsFault, required};
use crate::model::sqs::{MoveStatus, MoveTask, Sqs, SqsError, TASKS_TOLD_MAX};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct StartMessageMoveTask {
    source_arn: Option<String>,
    destination_arn: Option<String>,
    max_number_of_messages_per_second: Option<i64>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct StartedAnswer {
    task_handle: String,
}

impl Operation for StartMessageMoveTask {
    type Answer = StartedAnswer;

    fn perform(self, Call { sqs, now, .. }: Call<'_>) -> Result<StartedAnswer, SqsFault> {
        let source = required("SourceArn", &self.source_arn)?;
        let destination = self.destination_arn.as_deref();
        let per_second = self.max_number_of_messages_per_second;
        Ok(StartedAnswer {
            task_handle: sqs.start_move_task(now, source, destination, per_second)?,
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ListMessageMoveTasks {
    source_arn: Option<String>,
    max_results: Option<i64>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct TasksAnswer {
    results: Vec<TaskAnswer>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct TaskAnswer {
    approximate_number_of_messages_moved: usize,
    approximate_number_of_messages_to_move: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination_arn: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_number_of_messages_per_second: Option<u32>,
    source_arn: String,
    /// In milliseconds.
    started_timestamp: i64,
    status: &'static str,
    /// As on AWS, only a task that can be cancelled has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    task_handle: Option<String>,
}

impl TaskAnswer {
    fn new(sqs: &Sqs, source_arn: &str, task: &MoveTask) -> Self {
        let (failure_reason, task_handle) = match task.status {
            MoveStatus::Running => (None, Some(task.handle())),
            MoveStatus::Failed(reason) => (Some(reason), None),
            MoveStatus::Completed | MoveStatus::Cancelled => (None, None),
        };
        Self {
            approximate_number_of_messages_moved: task.moved,
            approximate_number_of_messages_to_move: task.to_move,
            destination_arn: task.destination.as_ref().map(|queue| sqs.arn(queue.as_str())),
            failure_reason,
            max_number_of_messages_per_second: task.per_second,
            source_arn: source_arn.to_owned(),
            started_timestamp: task.started_at.timestamp_millis(),
            status: task.status.name(),
            task_handle,
        }
    }
}

impl Operation for ListMessageMoveTasks {
    type Answer = TasksAnswer;

    fn perform(self, Call { sqs, .. }: Call<'_>) -> Result<TasksAnswer, SqsFault> {
        let source_arn = required("SourceArn", &self.source_arn)?;
        let max = self.max_results.unwrap_or(1);
        let max = usize::try_from(max)
            .ok()
            .filter(|max| (1..=TASKS_TOLD_MAX).contains(max))
            .ok_or_else(|| {
                let reason = format!("Must be between 1 and {TASKS_TOLD_MAX}, if provided.");
                SqsError::invalid("MaxResults", max, reason)
            })?;
        let tasks = sqs.move_tasks(source_arn)?.take(max);
        let results = tasks.map(|task| TaskAnswer::new(sqs, source_arn, task)).collect();
        Ok(TasksAnswer { results })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct CancelMessageMoveTask {
    task_handle: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct CancelledAnswer {
    approximate_number_of_messages_moved: usize,
}

impl Operation for CancelMessageMoveTask {
    type Answer = CancelledAnswer;

    fn perform(self, Call { sqs, .. }: Call<'_>) -> Result<CancelledAnswer, SqsFault> {
        let handle = required("TaskHandle", &self.task_handle)?;
        let moved = sqs.cancel_move_task(handle)?;
        Ok(CancelledAnswer { approximate_number_of_messages_moved: moved })
    }
}
