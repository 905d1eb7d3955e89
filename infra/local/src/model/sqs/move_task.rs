//! Message move tasks: what the console calls a redrive of a dead-letter queue.
//!
//! A task takes messages out of a dead-letter queue, those that have been visible longest first, and sends each to
//! the queue that gave it up or to one that the caller names. AWS does so with the operations that every caller
//! has, so what arrives is a new message: with another id and another time, never received before, and with the
//! body and the attributes of the old one. A message that was *sent* to the dead-letter queue was given up by no
//! queue; without a named destination it fails the task.
//!
//! AWS does not say what becomes of messages that arrive while a task runs. Here it moves as many as it counted at
//! its start, so that it ends even where its destination gives the same messages up again.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use comeback_core::{Timestamp, time};
use serde::{Deserialize, Serialize};

use super::{QueueName, Sqs, SqsError};

/// A task moves at most so many messages a second, where it is given a rate.
const RATE_MAX: u32 = 500;

/// SQS tells of the last tasks of a queue, up to this many.
pub const TASKS_TOLD_MAX: usize = 10;

/// A task.
#[derive(Debug)]
pub struct MoveTask {
    handle: String,
    source: QueueName,
    /// Where the messages go, if the caller named it.
    pub destination: Option<QueueName>,
    /// How many messages are moved a second at most, if the caller said it.
    pub per_second: Option<u32>,
    /// When it was started.
    pub started_at: Timestamp,
    /// How many messages there were to be moved at its start.
    pub to_move: usize,
    /// How many of them have been moved.
    pub moved: usize,
    /// How far it has come.
    pub status: MoveStatus,
}

/// How far a task has come. A cancelled task stops at once, so AWS's `CANCELLING` is never seen here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveStatus {
    /// It moves messages.
    Running,
    /// It has moved them.
    Completed,
    /// It was cancelled.
    Cancelled,
    /// It can't go on, for this reason.
    Failed(&'static str),
}

impl MoveStatus {
    /// The word for it in AWS's answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Completed => "COMPLETED",
            Self::Cancelled => "CANCELLED",
            Self::Failed(_) => "FAILED",
        }
    }
}

/// What a task's handle tells, in base64. AWS's is recorded to be the same.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Handle {
    task_id: String,
    source_arn: String,
}

impl Handle {
    fn encode(&self) -> String {
        // A struct of texts always serializes.
        STANDARD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// Which queue a handle's task takes messages from; none where the text is no handle.
    fn source_arn(handle: &str) -> Option<String> {
        let json = STANDARD.decode(handle).ok()?;
        serde_json::from_slice::<Self>(&json).ok().map(|handle| handle.source_arn)
    }
}

impl MoveTask {
    /// What a caller names the task by to cancel it.
    pub fn handle(&self) -> String {
        self.handle.clone()
    }

    /// Whether it takes messages out of this queue.
    pub(super) fn is_from(&self, queue: &QueueName) -> bool {
        self.source == *queue
    }

    /// When it moves its next message; none once it has ended.
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
    /// Starts a task and returns its handle. Without a rate it is done at once.
    ///
    /// # Errors
    ///
    /// If the source is no dead-letter queue of another queue or has a task already, if the destination does not
    /// exist or is the source, or if the rate can't be.
    pub fn start_move_task(
        &mut self,
        now: Timestamp,
        source_arn: &str,
        destination_arn: Option<&str>,
        per_second: Option<i64>,
    ) -> Result<String, SqsError> {
        let per_second = per_second.map(check_rate).transpose()?;
        let source = self.resource("SourceArn", source_arn)?.clone();
        if self.dead_letter_sources(source.as_str(), None)?.next().is_none() {
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
        let forgotten = self.tasks_of(&source).nth(TASKS_TOLD_MAX - 1).map(MoveTask::handle);
        self.move_tasks.retain(|task| Some(&task.handle) != forgotten.as_ref());
        let handle =
            Handle { task_id: self.ids.uuid(), source_arn: source_arn.to_owned() }.encode();
        let to_move = self.queue_mut(source.as_str())?.counts(now).visible;
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

    /// The last tasks whose source is the queue with this ARN, the latest first.
    ///
    /// # Errors
    ///
    /// If there is no such queue.
    pub fn move_tasks(
        &self,
        source_arn: &str,
    ) -> Result<impl Iterator<Item = &MoveTask>, SqsError> {
        Ok(self.tasks_of(self.resource("SourceArn", source_arn)?))
    }

    /// Ends a running task; how many messages it has moved.
    ///
    /// # Errors
    ///
    /// If the handle isn't one, if there is no such task, or if it doesn't run.
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

    /// Moves every message whose time has come.
    pub(crate) fn move_due(&mut self, now: Timestamp) {
        // Out of `self` while they work, because their work needs the queues.
        let mut tasks = std::mem::take(&mut self.move_tasks);
        for task in &mut tasks {
            while task.next_at().is_some_and(|at| at <= now) {
                self.move_next(now, task);
            }
        }
        self.move_tasks = tasks;
    }

    /// When a task moves its next message.
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
            (Some(named), _) => self.queue(named.as_str()).ok().cloned(),
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
        self.move_one(now, &task.source, number, &destination);
        task.moved += 1;
        if task.moved == task.to_move {
            task.status = MoveStatus::Completed;
        }
    }

    fn move_one(
        &mut self,
        now: Timestamp,
        source: &QueueName,
        number: u64,
        destination: &QueueName,
    ) {
        let (id, new_number) = (self.ids.uuid(), self.number());
        let message = self.queues.get_mut(source).and_then(|queue| queue.remove(number));
        let destination = self.queues.get_mut(destination);
        if let (Some(message), Some(destination)) = (message, destination) {
            let delay = destination.attributes.delay;
            destination.admit(now, new_number, message.sent_again(now, id), delay);
            self.redriven = true;
        }
    }

    /// The tasks whose source is this queue, the latest first.
    fn tasks_of(&self, source: &QueueName) -> impl Iterator<Item = &MoveTask> {
        self.move_tasks.iter().rev().filter(move |task| task.is_from(source))
    }

    fn resource(&self, parameter: &'static str, arn: &str) -> Result<&QueueName, SqsError> {
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
