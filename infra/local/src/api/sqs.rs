//! SQS's API in the protocol AWS JSON 1.0.
//!
//! A request names its operation in a header and has its parameters as JSON. Each operation is a function of the
//! parameters, the model and the time. The operations are in [`queues`], [`messages`] and [`mod@batch`]. Only [`http`]
//! handles HTTP and long polls.

mod batch;
mod http;
mod messages;
mod queues;

use batch::{change, delete};
use comeback_core::Timestamp;
pub(crate) use http::{handle, is_query_request, refuse_query};
use serde::{Serialize, de::DeserializeOwned};

use crate::model::{
    ACCOUNT,
    sqs::{Sqs, SqsError},
};

struct Call<'a> {
    sqs: &'a mut Sqs,
    now: Timestamp,
    /// The host in the request, which queue URLs repeat.
    host: &'a str,
    /// The trace header of the request, which is also that of the messages that it sends.
    trace_header: Option<&'a str>,
}

impl Call<'_> {
    fn queue_url(&self, name: &str) -> String {
        format!("http://{}/{ACCOUNT}/{name}", self.host)
    }
}

fn answer(action: &str, body: &[u8], call: Call<'_>) -> Result<Vec<u8>, SqsError> {
    match action {
        "CancelMessageMoveTask" => perform(body, call, queues::cancel_move_task),
        "ChangeMessageVisibility" => perform(body, call, batch::one(change)),
        "ChangeMessageVisibilityBatch" => perform(body, call, batch::each(action, change)),
        "CreateQueue" => perform(body, call, queues::create),
        "DeleteMessage" => perform(body, call, batch::one(delete)),
        "DeleteMessageBatch" => perform(body, call, batch::each(action, delete)),
        "DeleteQueue" => perform(body, call, queues::delete),
        "GetQueueAttributes" => perform(body, call, queues::get_attributes),
        "GetQueueUrl" => perform(body, call, queues::get_url),
        "ListDeadLetterSourceQueues" => perform(body, call, queues::list_sources),
        "ListMessageMoveTasks" => perform(body, call, queues::list_move_tasks),
        "ListQueueTags" => perform(body, call, queues::list_tags),
        "ListQueues" => perform(body, call, queues::list),
        "PurgeQueue" => perform(body, call, queues::purge),
        "SendMessage" => perform(body, call, messages::send),
        "SendMessageBatch" => perform(body, call, messages::send_batch),
        "SetQueueAttributes" => perform(body, call, queues::set_attributes),
        "StartMessageMoveTask" => perform(body, call, queues::start_move_task),
        "TagQueue" => perform(body, call, queues::tag),
        "UntagQueue" => perform(body, call, queues::untag),
        "AddPermission" | "RemovePermission" => {
            Err(SqsError::UnsupportedOperation(format!("This local cloud does not have {action}.")))
        }
        _ => Err(SqsError::UnknownOperation(action.to_owned())),
    }
}

fn perform<R: DeserializeOwned, A: Serialize>(
    body: &[u8],
    call: Call<'_>,
    operation: impl FnOnce(R, Call<'_>) -> Result<A, SqsError>,
) -> Result<Vec<u8>, SqsError> {
    write(&operation(read(body)?, call)?)
}

fn read<R: DeserializeOwned>(body: &[u8]) -> Result<R, SqsError> {
    serde_json::from_slice(body).map_err(|error| SqsError::Serialization(error.to_string()))
}

fn write(answer: &impl Serialize) -> Result<Vec<u8>, SqsError> {
    serde_json::to_vec(answer).map_err(|error| SqsError::Serialization(error.to_string()))
}

fn up_to(max: usize, name: &'static str, value: i64) -> Result<usize, SqsError> {
    usize::try_from(value).ok().filter(|value| (1..=max).contains(value)).ok_or_else(|| {
        SqsError::invalid(name, value, format!("Must be between 1 and {max}, if provided."))
    })
}

fn required<'a>(name: &'static str, value: &'a Option<String>) -> Result<&'a str, SqsError> {
    let value = value.as_deref().filter(|value| !value.is_empty());
    value.ok_or(SqsError::MissingParameter(name))
}

/// The queue name in a URL. As on AWS, a bare name works as well.
fn queue_name(url: &Option<String>) -> Result<&str, SqsError> {
    let url = required("QueueUrl", url)?;
    let Some((_, address)) = url.split_once("://") else { return Ok(url) };
    let mut parts = address.split('/').skip(1);
    match (parts.next(), parts.next(), parts.next()) {
        (Some(ACCOUNT), Some(name), None) => Ok(name),
        _ => Err(SqsError::QueueDoesNotExist),
    }
}
