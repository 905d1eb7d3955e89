//! SQS as SDKs speak to it: AWS JSON 1.0.
//!
//! A request names its operation in a header and has its parameters as JSON. Each operation is a type that is read
//! from the JSON and performs itself on the model. The operations are in [`queues`], [`send`], [`receive`],
//! [`settle`] and [`move_tasks`]; refusals are in [`fault`]. All of this is a function of the request, the model and
//! the time. Only [`http`] knows HTTP, and receives that wait.

mod batch;
mod fault;
mod http;
mod move_tasks;
pub(crate) mod query;
mod queues;
mod receive;
mod send;
mod settle;
#[cfg(test)]
mod tests;

use comeback_core::Timestamp;
use fault::SqsFault;
pub(crate) use http::{handle, is_meant};
use serde::{Serialize, de::DeserializeOwned};

use crate::model::{
    ACCOUNT,
    sqs::{QueueName, Sqs, SqsError},
};

/// What a request has besides its operation and its parameters.
struct Caller<'a> {
    /// The host of the request, which queue URLs have too.
    host: &'a str,
    /// The trace of the request and of the messages that it sends.
    trace_header: Option<&'a str>,
}

impl Caller<'_> {
    fn queue_url(&self, name: &QueueName) -> String {
        format!("http://{}/{ACCOUNT}/{name}", self.host)
    }
}

/// What an operation is performed on.
struct Call<'a> {
    sqs: &'a mut Sqs,
    now: Timestamp,
    caller: &'a Caller<'a>,
}

/// One of SQS's operations, with its parameters.
trait Operation: DeserializeOwned {
    /// What AWS answers to it.
    type Answer: Serialize;

    fn perform(self, call: Call<'_>) -> Result<Self::Answer, SqsFault>;
}

/// An empty answer.
#[derive(Debug, Serialize)]
struct Empty {}

/// Performs `action` with the parameters in `body`.
fn answer(action: &str, body: &[u8], call: Call<'_>) -> Result<Vec<u8>, SqsFault> {
    let perform = match action {
        "CancelMessageMoveTask" => perform::<move_tasks::CancelMessageMoveTask>,
        "ChangeMessageVisibility" => perform::<settle::ChangeMessageVisibility>,
        "ChangeMessageVisibilityBatch" => perform::<settle::ChangeMessageVisibilityBatch>,
        "CreateQueue" => perform::<queues::CreateQueue>,
        "DeleteMessage" => perform::<settle::DeleteMessage>,
        "DeleteMessageBatch" => perform::<settle::DeleteMessageBatch>,
        "DeleteQueue" => perform::<queues::DeleteQueue>,
        "GetQueueAttributes" => perform::<queues::GetQueueAttributes>,
        "GetQueueUrl" => perform::<queues::GetQueueUrl>,
        "ListDeadLetterSourceQueues" => perform::<queues::ListDeadLetterSourceQueues>,
        "ListMessageMoveTasks" => perform::<move_tasks::ListMessageMoveTasks>,
        "ListQueueTags" => perform::<queues::ListQueueTags>,
        "ListQueues" => perform::<queues::ListQueues>,
        "PurgeQueue" => perform::<queues::PurgeQueue>,
        "ReceiveMessage" => perform::<receive::ReceiveMessage>,
        "SendMessage" => perform::<send::SendMessage>,
        "SendMessageBatch" => perform::<send::SendMessageBatch>,
        "SetQueueAttributes" => perform::<queues::SetQueueAttributes>,
        "StartMessageMoveTask" => perform::<move_tasks::StartMessageMoveTask>,
        "TagQueue" => perform::<queues::TagQueue>,
        "UntagQueue" => perform::<queues::UntagQueue>,
        "AddPermission" | "RemovePermission" => return Err(unsupported(action)),
        _ => return Err(SqsFault::UnknownOperation(action.to_owned())),
    };
    perform(body, call)
}

fn perform<O: Operation>(body: &[u8], call: Call<'_>) -> Result<Vec<u8>, SqsFault> {
    write(&read::<O>(body)?.perform(call)?)
}

fn read<O: Operation>(body: &[u8]) -> Result<O, SqsFault> {
    serde_json::from_slice(body).map_err(|error| SqsFault::Serialization(error.to_string()))
}

fn write(answer: &impl Serialize) -> Result<Vec<u8>, SqsFault> {
    serde_json::to_vec(answer).map_err(|error| SqsFault::Serialization(error.to_string()))
}

fn unsupported(action: &str) -> SqsFault {
    SqsError::UnsupportedOperation(format!("This local cloud does not have {action}.")).into()
}

/// A required parameter.
fn required<'a>(name: &'static str, value: &'a Option<String>) -> Result<&'a str, SqsFault> {
    let value = value.as_deref().filter(|value| !value.is_empty());
    Ok(value.ok_or(SqsError::MissingParameter(name))?)
}

/// The name of the queue that a URL leads to. AWS takes the bare name as well.
fn queue_name(url: &Option<String>) -> Result<&str, SqsFault> {
    let url = required("QueueUrl", url)?;
    let Some((_, address)) = url.split_once("://") else { return Ok(url) };
    let mut parts = address.split('/').skip(1);
    match (parts.next(), parts.next(), parts.next()) {
        (Some(ACCOUNT), Some(name), None) => Ok(name),
        _ => Err(SqsError::QueueDoesNotExist.into()),
    }
}
