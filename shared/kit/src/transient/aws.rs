//! The rule for the errors of an AWS SDK.

use std::error::Error;

use aws_smithy_runtime_api::client::{
    orchestrator::HttpResponse,
    result::{SdkError, ServiceError},
};
use aws_smithy_types::{error::metadata::ProvideErrorMetadata, retry::ProvideErrorKind};

use super::{
    Kind, RetryHint, Rule, Verdict,
    aws_error::{of_code, of_kind},
    http_status::of_status,
    judge,
};

/// The rule for the errors of an AWS SDK's operations. With the feature `aws`.
///
/// A code counts first, since AWS answers throttling with 400 too; then what the service's model says, then the
/// status. A request that can't be built is never retried. What the service says of when to come back is kept, in
/// `x-amz-retry-after` as in `Retry-After`.
///
/// The SDK retries by itself, three attempts by default. Leave the calls to it, or turn that off, or attempts
/// multiply.
///
/// `Policy::DYNAMODB` and `Policy::S3` bring this rule; under another policy it has to be given,
/// `Retry::new(policy).rule(Aws)`. [`Standard`](super::Standard) is no substitute: of an SDK's error it knows what
/// a connection and the best-known codes tell, but neither the SDK's own time-outs, nor the status, nor when to
/// come back.
///
/// ```
/// use aws_sdk_dynamodb::{error::SdkError, operation::get_item::GetItemError};
/// use comeback::transient::{Aws, Kind, Rule, Verdict};
///
/// let error: SdkError<GetItemError> = SdkError::timeout_error("no answer within 3 s");
/// assert_eq!(Aws.judge(&error), Verdict::retry(Kind::TimedOut));
/// ```
///
/// In a `Box` it has to be asked for by its type:
///
/// ```
/// # use aws_sdk_dynamodb::{error::SdkError, operation::get_item::GetItemError};
/// # use comeback::transient::{Aws, Boxed, Kind, Rule, Verdict};
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
            // As the SDK says: most often the answer ended before it was whole.
            SdkError::ResponseError(_) => Verdict::retry(Kind::InDoubt),
            SdkError::ServiceError(error) => of_service(error),
            // Of a dispatch that failed the causes tell.
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
        // AWS tells by their codes which conflicts pass.
        409 => Verdict::Never,
        status => of_status(status).or_else(|| judge(error.err())),
    }
}

#[cfg(test)]
mod tests {
    use std::{io, time::Duration};

    use aws_smithy_runtime_api::{client::result::ConnectorError, http::StatusCode};
    use aws_smithy_types::{body::SdkBody, error::ErrorMetadata, retry::ErrorKind};

    use super::*;
    use crate::transient::Transient;

    type Answer = SdkError<ErrorMetadata, HttpResponse>;

    fn response(status: u16) -> HttpResponse {
        HttpResponse::new(StatusCode::try_from(status).unwrap(), SdkBody::empty())
    }

    fn answer(code: Option<&str>, status: u16) -> Answer {
        let mut error = ErrorMetadata::builder();
        if let Some(code) = code {
            error = error.code(code);
        }
        SdkError::service_error(error.build(), response(status))
    }

    #[test]
    fn every_code_of_throttling_is_retried_though_its_status_is_400() {
        for code in [
            // The list of the AWS SDKs.
            "Throttling",
            "ThrottlingException",
            "ThrottledException",
            "RequestThrottledException",
            "TooManyRequestsException",
            "ProvisionedThroughputExceededException",
            "TransactionInProgressException",
            "RequestLimitExceeded",
            "BandwidthLimitExceeded",
            "LimitExceededException",
            "RequestThrottled",
            "SlowDown",
            "PriorRequestNotComplete",
            "EC2ThrottledException",
        ] {
            for status in [400, 403, 429, 503] {
                let verdict = Aws.judge(&answer(Some(code), status));
                assert_eq!(verdict, Verdict::retry(Kind::Throttled), "{code} {status}");
            }
            let boxed = answer(Some(code), 400).into_source().unwrap();
            assert_eq!(
                judge(&*boxed),
                Verdict::retry(Kind::Throttled),
                "{code} without its answer"
            );
        }
    }

    #[test]
    fn every_transient_code_is_retried_though_its_status_is_400() {
        for (code, kind) in [
            ("RequestTimeout", Kind::TimedOut),
            ("RequestTimeoutException", Kind::TimedOut),
            ("TransactionConflictException", Kind::Unavailable),
            ("ReplicatedWriteConflictException", Kind::Unavailable),
            ("InternalError", Kind::InDoubt),
            ("InternalFailure", Kind::InDoubt),
            ("InternalServerError", Kind::InDoubt),
            ("InternalServerException", Kind::InDoubt),
            ("ServiceUnavailable", Kind::Unavailable),
            ("ServiceUnavailableException", Kind::Unavailable),
        ] {
            assert_eq!(Aws.judge(&answer(Some(code), 400)), Verdict::retry(kind), "{code}");
        }
    }

    #[test]
    fn an_answer_without_a_code_that_is_known_counts_by_its_status() {
        for (status, verdict) in [
            (400, Verdict::Never),
            (401, Verdict::Never),
            (403, Verdict::Never),
            (404, Verdict::Never),
            (408, Verdict::retry(Kind::TimedOut)),
            (409, Verdict::Never),
            (429, Verdict::retry(Kind::Throttled)),
            (500, Verdict::retry(Kind::InDoubt)),
            (502, Verdict::retry(Kind::InDoubt)),
            (503, Verdict::retry(Kind::Unavailable)),
            (504, Verdict::retry(Kind::TimedOut)),
            (509, Verdict::retry(Kind::Throttled)),
        ] {
            for code in [None, Some("ValidationException"), Some("AccessDeniedException")] {
                assert_eq!(Aws.judge(&answer(code, status)), verdict, "{code:?} {status}");
            }
        }
    }

    #[test]
    fn each_kind_of_the_sdks_errors_has_its_verdict() {
        let reset = || io::Error::from(io::ErrorKind::ConnectionReset).into();
        let refused = || io::Error::from(io::ErrorKind::InvalidData).into();
        let dispatch = |error| Answer::dispatch_failure(error);
        let in_doubt = Verdict::retry(Kind::InDoubt);
        let throttled = Some(ErrorKind::ThrottlingError);
        for (error, verdict) in [
            (Answer::construction_failure("no bucket"), Verdict::Never),
            (Answer::timeout_error("over"), Verdict::retry(Kind::TimedOut)),
            (dispatch(ConnectorError::timeout("over".into())), Verdict::retry(Kind::TimedOut)),
            (dispatch(ConnectorError::io("closed".into())), in_doubt),
            (dispatch(ConnectorError::io(reset())), in_doubt),
            (dispatch(ConnectorError::io(refused())), Verdict::Never),
            (dispatch(ConnectorError::user(reset())), Verdict::Never),
            (dispatch(ConnectorError::other("x".into(), None)), Verdict::NoOpinion),
            (dispatch(ConnectorError::other(reset(), None)), in_doubt),
            (
                dispatch(ConnectorError::other("x".into(), Some(ErrorKind::TransientError))),
                in_doubt,
            ),
            (
                dispatch(ConnectorError::other("x".into(), throttled)),
                Verdict::retry(Kind::Throttled),
            ),
            (Answer::response_error("no XML", response(200)), in_doubt),
        ] {
            assert_eq!(Aws.judge(&error), verdict, "{error:?}");
        }
    }

    /// An error that its service's model marks as one to retry.
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
    fn what_the_model_marks_as_retryable_outweighs_the_status() {
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
    fn when_the_service_wants_to_be_asked_again_is_kept() {
        let asked = |name: &'static str, value: &'static str, status| {
            let mut raw = response(status);
            raw.headers_mut().insert(name, value);
            Aws.judge(&SdkError::service_error(ErrorMetadata::builder().build(), raw))
        };
        let hinted = |kind, millis| {
            let hint = RetryHint::In(Duration::from_millis(millis));
            Verdict::Retry(Transient::new(kind).with_hint(hint))
        };
        assert_eq!(asked("x-amz-retry-after", "1500", 500), hinted(Kind::InDoubt, 1500));
        assert_eq!(asked("retry-after", "2", 429), hinted(Kind::Throttled, 2000));
        assert_eq!(asked("retry-after", "soon", 503), Verdict::retry(Kind::Unavailable));
        assert_eq!(asked("retry-after", "2", 404), Verdict::Never);
    }
}
