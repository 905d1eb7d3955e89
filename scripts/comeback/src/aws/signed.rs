//! How single signed requests, to services that have no client here, are timed, and how they fail.

use std::time::Duration;

use comeback_core::fault::{FaultKind, classify};
use retry_handler::{Failed, NoAnswer, Refused};

use crate::{
    account::fault::{Answer, Fault},
    aws::Aws,
};

/// If the profile sets no timeout.
const CALL_MAX: Duration = Duration::from_secs(15);

/// A code with which emulators answer.
const NOT_IMPLEMENTED: &str = "NotImplemented";

/// The answer of a call, if it comes in time.
pub async fn within<T>(
    aws: &Aws,
    action: &'static str,
    resource: &str,
    call: impl Future<Output = Result<T, Failed>>,
) -> Answer<T> {
    let timeouts = aws.config.timeout_config();
    let max = timeouts.and_then(|it| it.operation_timeout()).unwrap_or(CALL_MAX);
    match tokio::time::timeout(max, call).await {
        Ok(answer) => answer.map_err(|failed| fault(action, resource, failed)),
        Err(_) => {
            let message = format!("there was no whole answer within {max:?}");
            Err(fault(action, resource, Failed::Broken(message)))
        }
    }
}

pub fn fault(action: &'static str, resource: &str, failed: Failed) -> Fault {
    let (kind, code, message) = match failed {
        Failed::Refused(Refused { status, code, message }) => {
            let message =
                message.unwrap_or_else(|| format!("AWS answered with HTTP status {status}"));
            let kind = match code.as_deref() {
                Some(NOT_IMPLEMENTED) => FaultKind::Configuration,
                code => classify(code, Some(status), &message, None),
            };
            (kind, code, message)
        }
        Failed::NoAnswer(NoAnswer::Unsent(message)) => (FaultKind::Configuration, None, message),
        Failed::NoAnswer(NoAnswer::Unanswered(message)) | Failed::Broken(message) => {
            (classify(None, None, &message, None), None, message)
        }
    };
    let (resource, message) = (resource.to_owned(), message.into_boxed_str());
    Fault { action, resource, kind, code, causes: message.clone(), message }
}
