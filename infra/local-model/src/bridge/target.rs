//! What takes events: functions and queues. And what they answer.

use serde::{Deserialize, Serialize};

use super::error::BridgeError;
use crate::{
    Payload,
    lambda::{error::LambdaError, name},
    queue_name,
    sqs::SqsError,
};

#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct DeadLetterConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arn: Option<String>,
}

/// What takes events: a function, which is invoked asynchronously, or a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    Function(String),
    Queue(String),
}

impl Destination {
    pub fn parse(arn: &str) -> Result<Self, BridgeError> {
        let queue = || queue_name(arn).map(|queue| Self::Queue(queue.to_owned()));
        let function = arn.starts_with("arn:aws:lambda:").then(|| name::resolve(arn, None).ok());
        function.flatten().map(Self::Function).or_else(queue).ok_or_else(|| {
            BridgeError::Validation(format!(
                "a target must be a function or a queue of this account and region here, got {arn}"
            ))
        })
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Function(name) | Self::Queue(name) => name,
        }
    }
}

/// Why a target did not take an event, for EventBridge and for Scheduler.
pub(super) struct Refusal {
    /// EventBridge's code.
    pub(super) code: &'static str,
    /// The code of the target's API.
    pub(super) api_code: String,
    pub(super) message: String,
}

impl From<LambdaError> for Refusal {
    fn from(error: LambdaError) -> Self {
        let is_gone = matches!(error, LambdaError::ResourceNotFound(_));
        let code = if is_gone { "NO_RESOURCE" } else { "ERROR_FROM_TARGET" };
        Self { code, api_code: error.code().to_owned(), message: error.to_string() }
    }
}

impl From<SqsError> for Refusal {
    fn from(error: SqsError) -> Self {
        let is_gone = error == SqsError::QueueDoesNotExist;
        let code = if is_gone { "NO_RESOURCE" } else { "ERROR_FROM_TARGET" };
        Self { code, api_code: error.name().code, message: error.to_string() }
    }
}

/// The JSON text of `body`, or the refusal of text that is no JSON.
pub(super) fn json_text(what: &str, body: &str) -> Result<Payload, BridgeError> {
    Payload::parse(body.as_bytes())
        .map_err(|error| BridgeError::Validation(format!("{what} must be JSON: {error}")))
}
