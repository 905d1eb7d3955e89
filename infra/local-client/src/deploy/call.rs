//! The error of a call.

use std::fmt::Debug;

use aws_sdk_sqs::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};

#[derive(Debug, thiserror::Error)]
#[error("can't {what}: {cause}")]
pub struct CallError {
    what: String,
    cause: String,
}

impl CallError {
    /// The error of a call whose purpose is `what`, such as "create the queue retry".
    pub fn of(what: &str, cause: String) -> Self {
        Self { what: what.to_owned(), cause }
    }
}

/// Converts the error of a call: to AWS's code and message, or to the chain of causes if there was no response.
pub fn failed<E, R>(what: &str) -> impl FnOnce(SdkError<E, R>) -> CallError
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
    R: Debug,
{
    let what = what.to_owned();
    move |error| {
        let said = error.code().zip(error.message());
        let cause = match said {
            Some((code, message)) => format!("{code}: {message}"),
            None => DisplayErrorContext(&error).to_string(),
        };
        CallError { what, cause }
    }
}
