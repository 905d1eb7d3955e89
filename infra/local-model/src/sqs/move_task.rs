//! Message move tasks, which the AWS console calls a dead-letter queue redrive.
//!
//! A task takes messages out of a dead-letter queue, the longest visible first, and sends each to its source queue
//! or to a queue that the caller names. AWS does this with the ordinary receive, send and delete operations, so
//! the moved message is a new one: it has a new id, a new sent time and a receive count of zero, and keeps its
//! body and attributes. A message that was *sent* to the dead-letter queue has no source queue. Without a named
//! destination, such a message fails the task.
//!
//! AWS does not document what happens to messages that arrive while a task runs. Here a task moves only as many
//! messages as it counted at its start. Otherwise it would never end when the moved messages fail again and come
//! back.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use comeback_core::{Timestamp, time};
use serde::{Deserialize, Serialize};

use super::{Sqs, SqsError, message::Texts};

/// The highest rate that a caller may set, in messages a second: AWS's limit.
const RATE_MAX: u32 = 500;

/// `ListMessageMoveTasks` returns at most this many tasks of a queue, the latest ones.
pub const TASKS_LISTED_MAX: usize = 10;

#[derive(Debug)]
pub struct MoveTask {
    pub handle: String,
    source: Arc<str>,
    pub destination: Option<Arc<str>>,
    pub per_second: Option<u32>,
    pub started_at: Timestamp,
    /// How many messages were visible in the source when the task started.
    pub to_move: usize,
    pub moved: usize,
    pub status: MoveStatus,
}

/// The status of a task. A cancelled task stops at once, so AWS's status `CANCELLING` does not occur here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveStatus {
    Running,
    Completed,
    Cancelled,
    Failed(&'static str),
}

impl MoveStatus {
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Completed => "COMPLETED",
            Self::Cancelled => "CANCELLED",
            Self::Failed(_) => "FAILED",
        }
    }
}

/// The content of a task handle, before base64. Recorded responses of AWS have the same format.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Handle {
    task_id: String,
    source_arn: String,
}

impl Handle {
    fn encode(&self) -> String {
        // A struct of strings always serializes.
        STANDARD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// The ARN of the source queue in a handle, or `None` if the handle is invalid.
    fn source_arn(handle: &str) -> Option<String> {
        let json = STANDARD.decode(handle).ok()?;
        serde_json::from_slice::<Self>(&json).ok().map(|handle| handle.source_arn)
    }
}

impl MoveTask {
    pub(super) fn is_from(&self, queue: &str) -> bool {
        *self.source == *queue
    }

    fn next_at(&self) -> Option<Timestamp> {
        if self.status != MoveStatus::Running {
            return None;
        }
        let moved = Duration::from_secs(self.moved as u64);
        let pace = self.per_second.map_or(Duration::ZERO, |rate| moved / rate);
        Some(time::later(self.started_at, pace))
    }
}

impl Sqs {
    /// Starts a task and returns its handle. Without a rate limit, the task moves all messages at once.
    pub fn start_move_task(
        &mut self,
        now: Timestamp,
        source_arn: &str,
        destination_arn: Option<&str>,
        per_second: Option<i64>,
    ) -> Result<String, SqsError> {
        let per_second = per_second.map(check_rate).transpose()?;
        let source = self.resource("SourceArn", source_arn)?.clone();
        if self.dead_letter_sources(&source, None)?.next().is_none() {
            return Err(invalid("Source queue must be configured as a Dead Letter Queue."));
        }
        let destination =
            destination_arn.map(|arn| self.resource("DestinationArn", arn).cloned()).transpose()?;
        if destination.as_ref() == Some(&source) {
            return Err(invalid("Source queue arn and destination queue arn cannot be the same."));
        }
        if self.tasks_of(&source).any(|task| task.status == MoveStatus::Running) {
            return Err(invalid(
                "There is already a task running. Only one active task is allowed for a source queue arn at a given time.",
            ));
        }
        let forgotten =
            self.tasks_of(&source).nth(TASKS_LISTED_MAX - 1).map(|task| task.handle.clone());
        self.move_tasks.retain(|task| Some(&task.handle) != forgotten.as_ref());
        let handle =
            Handle { task_id: self.ids.uuid(), source_arn: source_arn.to_owned() }.encode();
        let to_move = self.queue_mut(&source)?.places(now).visible.len();
        self.move_tasks.push(MoveTask {
            handle: handle.clone(),
            source,
            destination,
            per_second,
            started_at: now,
            to_move,
            moved: 0,
            status: MoveStatus::Running,
        });
        self.move_due(now);
        Ok(handle)
    }

    /// The latest tasks whose source is the queue with this ARN, newest first.
    pub fn move_tasks(
        &self,
        source_arn: &str,
    ) -> Result<impl Iterator<Item = &MoveTask>, SqsError> {
        Ok(self.tasks_of(self.resource("SourceArn", source_arn)?))
    }

    pub fn cancel_move_task(&mut self, handle: &str) -> Result<usize, SqsError> {
        let source_arn = Handle::source_arn(handle)
            .ok_or_else(|| invalid("Value for parameter TaskHandle is invalid."))?;
        self.resource("SourceArn", &source_arn)?;
        let task = self.move_tasks.iter_mut().find(|task| task.handle == handle);
        let task = task.ok_or(SqsError::TaskDoesNotExist)?;
        if task.status != MoveStatus::Running {
            let reason = "Only a message movement task whose status is RUNNING can be cancelled.";
            return Err(SqsError::UnsupportedOperation(reason.to_owned()));
        }
        task.status = MoveStatus::Cancelled;
        Ok(task.moved)
    }

    pub(crate) fn move_due(&mut self, now: Timestamp) {
        // Moving a message borrows all queues, so the tasks are taken out of `self` meanwhile.
        let mut tasks = std::mem::take(&mut self.move_tasks);
        for task in &mut tasks {
            while task.next_at().is_some_and(|at| at <= now) {
                self.move_next(now, task);
            }
        }
        self.move_tasks = tasks;
    }

    pub(crate) fn next_move_at(&self) -> Option<Timestamp> {
        self.move_tasks.iter().filter_map(MoveTask::next_at).min()
    }

    fn move_next(&mut self, now: Timestamp, task: &mut MoveTask) {
        let source = self.queues.get_mut(&task.source);
        let next = source.and_then(|queue| queue.longest_visible(now));
        let Some((number, given_up_by)) = next.filter(|_| task.moved < task.to_move) else {
            task.status = MoveStatus::Completed;
            return;
        };
        let destination = match (&task.destination, given_up_by) {
            (Some(named), _) => self.queue(named).ok().cloned(),
            (None, Some(arn)) => self.queue_by_arn(&arn).cloned(),
            (None, None) => {
                task.status = MoveStatus::Failed("CouldNotDetermineMessageSource");
                return;
            }
        };
        let Some(destination) = destination else {
            task.status = MoveStatus::Failed("AWS.SimpleQueueService.NonExistentQueue");
            return;
        };
        let (id, new_number) = (self.ids.uuid().into(), self.number());
        let message = self.queues.get_mut(&task.source).and_then(|queue| queue.remove(number));
        if let (Some(message), Some(to)) = (message, self.queues.get_mut(&destination)) {
            let texts = Texts { message_id: id, ..message.texts() };
            to.send(now, new_number, texts, to.attributes.delay);
            self.redriven = true;
        }
        task.moved += 1;
        if task.moved == task.to_move {
            task.status = MoveStatus::Completed;
        }
    }

    fn tasks_of(&self, source: &str) -> impl Iterator<Item = &MoveTask> {
        self.move_tasks.iter().rev().filter(move |task| task.is_from(source))
    }

    fn resource(&self, parameter: &'static str, arn: &str) -> Result<&Arc<str>, SqsError> {
        if arn.split(':').count() != 6 || !arn.starts_with("arn:") {
            return Err(SqsError::InvalidRequest(format!(
                "You must use this format to specify the {parameter}: arn:<partition>:<service>:<region>:<account-id>:<resource-id>"
            )));
        }
        self.queue_by_arn(arn).ok_or(SqsError::ResourceNotFound { parameter })
    }
}

fn check_rate(per_second: i64) -> Result<u32, SqsError> {
    u32::try_from(per_second).ok().filter(|rate| (1..=RATE_MAX).contains(rate)).ok_or_else(|| {
        let reason = format!("Must be between 1 and {RATE_MAX}, if provided.");
        SqsError::invalid("MaxNumberOfMessagesPerSecond", per_second, reason)
    })
}

fn invalid(reason: &str) -> SqsError {
    SqsError::InvalidRequest(reason.to_owned())
}
