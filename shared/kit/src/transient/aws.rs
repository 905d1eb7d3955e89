//! The rule for errors of the AWS SDK.

use std::error::Error;

use aws_smithy_runtime_api::client::{
    orchestrator::HttpResponse,
    result::{ConnectorError, SdkError, ServiceError},
};
use aws_smithy_types::{
    error::{ErrorMetadata, metadata::ProvideErrorMetadata},
    retry::{ErrorKind, ProvideErrorKind},
};
use comeback_core::fault::{conflict_passes, throttles};

use super::{Kind, Opinion, RetryHint, Rule, Verdict, http_status::of_status, judge};

/// The rule for errors of the AWS SDK's operations. Requires the feature `aws`.
///
/// The error code takes precedence, because AWS also uses the status 400 for throttling. Next come the service's
/// model, and then the status. A request that cannot be built is never retried. The verdict contains the service's
/// retry hint, from `x-amz-retry-after` or `Retry-After`.
///
/// `Policy::DYNAMODB` and `Policy::S3` use this rule. Add it to any other policy with
/// `Retry::new(policy).rule(Aws)`. [`Standard`](super::Standard) does not replace it. In an SDK's error, it knows
/// connection errors and the most common codes, but not the SDK's timeouts, the status, or the retry hint.
///
/// To judge an error in a `Box`, downcast it first:
///
/// ```
/// use aws_sdk_dynamodb::{error::SdkError, operation::get_item::GetItemError};
/// use comeback::transient::{Aws, Boxed, Kind, Rule, Verdict};
///
/// let rule = Boxed.under(|error: &lambda_runtime::Error| {
///     match error.downcast_ref::<SdkError<GetItemError>>() {
///         Some(error) => Aws.judge(error),
///         None => Verdict::NoOpinion,
///     }
/// });
/// # let error: SdkError<GetItemError> = SdkError::timeout_error("no answer within 3 s");
/// # assert_eq!(rule.judge(&error.into()), Verdict::retry(Kind::TimedOut));
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Aws;

impl<E> Rule<SdkError<E, HttpResponse>> for Aws
where
    E: Error + ProvideErrorMetadata + ProvideErrorKind + 'static,
{
    fn judge(&self, error: &SdkError<E, HttpResponse>) -> Verdict {
        let headers = error.raw_response().map(HttpResponse::headers);
        let hint = headers.and_then(|headers| RetryHint::among(|name| headers.get(name)));
        let verdict = match error {
            SdkError::ConstructionFailure(_) => Verdict::Never,
            SdkError::TimeoutError(_) => Verdict::retry(Kind::TimedOut),
            // According to the SDK's documentation, most of these responses ended early.
            SdkError::ResponseError(_) => Verdict::retry(Kind::InDoubt),
            SdkError::ServiceError(error) => of_service(error),
            // `judge` knows the causes of a failed dispatch.
            SdkError::DispatchFailure(_) | _ => judge(error),
        };
        verdict.with_hint(hint)
    }
}

fn of_service<E>(error: &ServiceError<E, HttpResponse>) -> Verdict
where
    E: Error + ProvideErrorMetadata + ProvideErrorKind + 'static,
{
    let modelled = || error.err().retryable_error_kind().map(of_kind);
    if let Some(kind) = error.err().meta().code().and_then(of_code).or_else(modelled) {
        return Verdict::retry(kind);
    }
    match error.raw().status().as_u16() {
        // AWS has error codes for transient conflicts, which are judged above.
        409 => Verdict::Never,
        status => of_status(status).or_else(|| judge(error.err())),
    }
}

/// The kind of fault of an error code, for any status.
fn of_code(code: &str) -> Option<Kind> {
    match code.strip_suffix("Exception").unwrap_or(code) {
        code if throttles(code) => Some(Kind::Throttled),
        code if conflict_passes(code) => Some(Kind::Unavailable),
        "RequestTimeout" => Some(Kind::TimedOut),
        // These have a status of 5xx, but the status is not always known.
        "InternalError" | "InternalFailure" | "InternalServer" | "InternalServerError" => {
            Some(Kind::InDoubt)
        }
        "ServiceUnavailable" => Some(Kind::Unavailable),
        _ => None,
    }
}

/// Converts the kind of an error that the service's model or the SDK's connector marks as retryable.
fn of_kind(kind: ErrorKind) -> Kind {
    match kind {
        ErrorKind::ThrottlingError => Kind::Throttled,
        ErrorKind::ClientError => Kind::Unavailable,
        ErrorKind::ServerError | ErrorKind::TransientError | _ => Kind::InDoubt,
    }
}

/// The opinion on an SDK error if the operation's error type is not known.
pub(super) fn opinion(error: &(dyn Error + 'static)) -> Option<Opinion> {
    if let Some(error) = error.downcast_ref::<ConnectorError>() {
        return of_connector(error);
    }
    let kind = match error.downcast_ref::<ErrorMetadata>() {
        Some(error) => error.code().and_then(of_code),
        None => of_message(&error.to_string()),
    };
    kind.map(|kind| Opinion::Certain(Verdict::retry(kind)))
}

/// The kind of a modelled error. Its type is defined in the service's crate and not known here, but its message
/// starts with the code and a colon.
fn of_message(message: &str) -> Option<Kind> {
    of_code(message.split_once(": ").map_or(message, |(code, _)| code))
}

fn of_connector(error: &ConnectorError) -> Option<Opinion> {
    if error.is_timeout() {
        Some(Opinion::Certain(Verdict::retry(Kind::TimedOut)))
    } else if error.is_user() {
        Some(Opinion::Certain(Verdict::Never))
    } else if error.is_io() {
        Some(Opinion::UnlessCauseKnown(Verdict::retry(Kind::InDoubt)))
    } else {
        error.as_other().map(|kind| Opinion::UnlessCauseKnown(Verdict::retry(of_kind(kind))))
    }
}

#[cfg(test)]
mod tests {
    use std::{io, time::Duration};

    use aws_smithy_runtime_api::http::StatusCode;
    use aws_smithy_types::body::SdkBody;

    use super::*;
    use crate::transient::Transient;

    type GenericError = SdkError<ErrorMetadata, HttpResponse>;

    fn response(status: u16) -> HttpResponse {
        HttpResponse::new(StatusCode::try_from(status).unwrap(), SdkBody::empty())
    }

    fn service_error(code: Option<&str>, status: u16) -> GenericError {
        let mut error = ErrorMetadata::builder();
        if let Some(code) = code {
            error = error.code(code);
        }
        SdkError::service_error(error.build(), response(status))
    }

    #[test]
    fn a_known_code_decides_whatever_the_status_is() {
        // The codes of throttling and of conflicts are a list of the core.
        for (code, kind) in [
            ("ThrottlingException", Kind::Throttled),
            ("RequestTimeout", Kind::TimedOut),
            ("TransactionConflictException", Kind::Unavailable),
            ("InternalServerException", Kind::InDoubt),
            ("ServiceUnavailable", Kind::Unavailable),
        ] {
            for status in [400, 429, 503] {
                let verdict = Aws.judge(&service_error(Some(code), status));
                assert_eq!(verdict, Verdict::retry(kind), "{code} {status}");
            }
            let source = service_error(Some(code), 400).into_source().unwrap();
            assert_eq!(judge(&*source), Verdict::retry(kind), "{code} without its response");
        }
        for (status, verdict) in [
            (400, Verdict::Never),
            (409, Verdict::Never),
            (429, Verdict::retry(Kind::Throttled)),
            (502, Verdict::retry(Kind::InDoubt)),
        ] {
            for code in [None, Some("ValidationException"), Some("AccessDeniedException")] {
                assert_eq!(Aws.judge(&service_error(code, status)), verdict, "{code:?} {status}");
            }
        }
    }

    #[test]
    fn each_kind_of_connector_error_has_its_verdict() {
        let reset = || io::Error::from(io::ErrorKind::ConnectionReset).into();
        let refused = || io::Error::from(io::ErrorKind::InvalidData).into();
        let in_doubt = Verdict::retry(Kind::InDoubt);
        let throttled = Some(ErrorKind::ThrottlingError);
        for (error, verdict) in [
            (ConnectorError::timeout("over".into()), Verdict::retry(Kind::TimedOut)),
            (ConnectorError::io("closed".into()), in_doubt),
            (ConnectorError::io(refused()), Verdict::Never),
            (ConnectorError::user(reset()), Verdict::Never),
            (ConnectorError::other("x".into(), None), Verdict::NoOpinion),
            (ConnectorError::other(reset(), None), in_doubt),
            (ConnectorError::other("x".into(), Some(ErrorKind::TransientError)), in_doubt),
            (ConnectorError::other("x".into(), throttled), Verdict::retry(Kind::Throttled)),
        ] {
            let error = GenericError::dispatch_failure(error);
            assert_eq!(Aws.judge(&error), verdict, "{error:?}");
        }
    }

    /// An error that its service's model marks as retryable.
    #[derive(Debug, thiserror::Error)]
    #[error("modelled")]
    struct Modelled(ErrorMetadata, ErrorKind);

    impl ProvideErrorMetadata for Modelled {
        fn meta(&self) -> &ErrorMetadata {
            &self.0
        }
    }

    impl ProvideErrorKind for Modelled {
        fn retryable_error_kind(&self) -> Option<ErrorKind> {
            Some(self.1)
        }

        fn code(&self) -> Option<&str> {
            self.0.code()
        }
    }

    #[test]
    fn the_service_model_outweighs_the_status() {
        for (kind, expected) in [
            (ErrorKind::ThrottlingError, Kind::Throttled),
            (ErrorKind::TransientError, Kind::InDoubt),
            (ErrorKind::ServerError, Kind::InDoubt),
            (ErrorKind::ClientError, Kind::Unavailable),
        ] {
            let error = Modelled(ErrorMetadata::builder().code("Busy").build(), kind);
            let error = SdkError::service_error(error, response(400));
            assert_eq!(Aws.judge(&error), Verdict::retry(expected), "{kind}");
        }
    }

    #[test]
    fn a_verdict_carries_the_retry_hint_of_the_service_and_the_header_of_aws_comes_first() {
        let judged = |headers: &[(&'static str, &'static str)], status| {
            let mut raw = response(status);
            for (name, value) in headers {
                raw.headers_mut().insert(*name, *value);
            }
            Aws.judge(&SdkError::service_error(ErrorMetadata::builder().build(), raw))
        };
        let hinted = |kind, millis| {
            let hint = RetryHint::In(Duration::from_millis(millis));
            Verdict::Retry(Transient::new(kind).with_hint(hint))
        };
        let (millis, seconds) = (("x-amz-retry-after", "1500"), ("retry-after", "2"));
        let soon = |name| (name, "soon");
        for (headers, status, verdict) in [
            (&[seconds, millis][..], 500, hinted(Kind::InDoubt, 1500)),
            (&[seconds, soon(millis.0)], 429, hinted(Kind::Throttled, 2000)),
            (&[soon(seconds.0)], 503, Verdict::retry(Kind::Unavailable)),
            (&[seconds], 404, Verdict::Never),
        ] {
            assert_eq!(judged(headers, status), verdict, "{headers:?}");
        }
    }
}
