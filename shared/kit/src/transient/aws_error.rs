//! AWS error codes, and the parts of an SDK error that have no type of one operation.

use std::error::Error;

use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::{error::ErrorMetadata, retry::ErrorKind};
use comeback_core::fault::{conflict_passes, throttles};

use super::{Kind, Verdict, opinion::Opinion};

/// The kind of fault that an error code stands for, whatever the status is.
pub(super) fn of_code(code: &str) -> Option<Kind> {
    match code.strip_suffix("Exception").unwrap_or(code) {
        code if throttles(code) => Some(Kind::Throttled),
        code if conflict_passes(code) => Some(Kind::Unavailable),
        "RequestTimeout" => Some(Kind::TimedOut),
        // These come with a status of 5xx, which is not always known.
        "InternalError" | "InternalFailure" | "InternalServer" | "InternalServerError" => {
            Some(Kind::InDoubt)
        }
        "ServiceUnavailable" => Some(Kind::Unavailable),
        _ => None,
    }
}

/// The kind of an error that a service's model or the SDK's connector marks as retryable.
pub(super) fn of_kind(kind: ErrorKind) -> Kind {
    match kind {
        ErrorKind::ThrottlingError => Kind::Throttled,
        ErrorKind::ClientError => Kind::Unavailable,
        ErrorKind::ServerError | ErrorKind::TransientError | _ => Kind::InDoubt,
    }
}

/// What is known of an SDK's error without the operation's error type.
pub(super) fn opinion(error: &(dyn Error + 'static)) -> Option<Opinion> {
    if let Some(error) = error.downcast_ref::<ConnectorError>() {
        return of_connector(error);
    }
    let kind = match error.downcast_ref::<ErrorMetadata>() {
        Some(error) => error.code().and_then(of_code),
        None => of_words(&error.to_string()),
    };
    kind.map(|kind| Opinion::Certain(Verdict::retry(kind)))
}

/// The kind of a modelled error. Its type belongs to the service's own crate and is not known here, but its
/// message starts with its code and a colon.
fn of_words(words: &str) -> Option<Kind> {
    of_code(words.split_once(": ").map_or(words, |(code, _)| code))
}

fn of_connector(error: &ConnectorError) -> Option<Opinion> {
    if error.is_timeout() {
        Some(Opinion::Certain(Verdict::retry(Kind::TimedOut)))
    } else if error.is_user() {
        Some(Opinion::Certain(Verdict::Never))
    } else if error.is_io() {
        Some(Opinion::UnlessItsCauseSays(Verdict::retry(Kind::InDoubt)))
    } else {
        error.as_other().map(|kind| Opinion::UnlessItsCauseSays(Verdict::retry(of_kind(kind))))
    }
}
