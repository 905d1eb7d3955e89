//! Clients for AWS or the local cloud, and how their calls fail. The modules below have the calls that several commands
//! make. A call that only one command makes stands with that command.

pub mod attached;
pub mod buckets;
pub mod changes;
pub mod connect;
pub mod events;
pub mod metrics;
pub mod reads;
mod signed;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use aws_config::SdkConfig;
use aws_sdk_sqs::{
    error::{ProvideErrorMetadata, SdkError},
    types::BatchResultErrorEntry,
};
use aws_smithy_http_client::{
    Connector,
    tls::{Provider, rustls_provider::CryptoMode},
};
use aws_smithy_runtime_api::client::http::SharedHttpConnector;
use comeback_core::{
    Timestamp,
    fault::{FaultKind, classify, classify_send},
};
use retry_handler::S3Records;
use tokio::sync::Semaphore;

use crate::account::fault::{Answer, Clock, Fault};

/// The maximum number of concurrent calls of a command that makes many. Lambda allows an account 15 calls a second.
const CALLS_MAX: usize = 16;

#[derive(Clone)]
pub struct Aws {
    pub cloudwatch: aws_sdk_cloudwatch::Client,
    pub dynamodb: aws_sdk_dynamodb::Client,
    pub iam: aws_sdk_iam::Client,
    pub lambda: aws_sdk_lambda::Client,
    pub logs: aws_sdk_cloudwatchlogs::Client,
    pub sqs: aws_sdk_sqs::Client,
    pub sts: aws_sdk_sts::Client,
    pub region: String,
    /// What the clients have in common.
    config: SdkConfig,
    permits: Arc<Semaphore>,
    now: fn() -> Timestamp,
    is_local: bool,
}

impl Clock for Aws {
    fn now(&self) -> Timestamp {
        (self.now)()
    }

    async fn sleep(&self, duration: Duration) {
        if duration > Duration::ZERO {
            tokio::time::sleep(duration).await;
        }
    }
}

impl Aws {
    /// A client that reads failure records in buckets.
    pub fn records(&self) -> S3Records {
        S3Records::over(connector(), &self.config)
    }

    /// Makes a call as soon as fewer than [`CALLS_MAX`] calls are running.
    pub async fn call<T>(&self, call: impl Future<Output = T>) -> T {
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await;
        call.await
    }
}

/// New connections for signed requests to S3.
fn connector() -> SharedHttpConnector {
    let connector = Connector::builder().tls_provider(Provider::Rustls(CryptoMode::Ring));
    SharedHttpConnector::new(connector.build())
}

/// The endpoint of all services and that of DynamoDB, if they are not AWS's own. A program has one connection.
static ENDPOINT: OnceLock<String> = OnceLock::new();
static TABLE_ENDPOINT: OnceLock<String> = OnceLock::new();

pub fn fault<E>(action: &'static str, resource: &str) -> impl FnOnce(SdkError<E>) -> Fault + use<E>
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    let resource = resource.to_owned();
    move |error| {
        let code = error.code().map(str::to_owned);
        let message = match error.message() {
            Some(message) => message.to_owned(),
            None if code.is_some() => String::new(),
            None => not_answered(action, &error),
        };
        let status = error.raw_response().map(|response| response.status().as_u16());
        let kind = match action {
            _ if has_no_connection(&error) => FaultKind::Configuration,
            "sqs:SendMessage" => classify_send(code.as_deref(), status, &message),
            _ => classify(code.as_deref(), status, &message, None),
        };
        Fault {
            action,
            resource,
            kind,
            code,
            message: message.into(),
            causes: causes(&error).into(),
        }
    }
}

/// Why there was no answer, in a sentence for a person.
fn not_answered<E: std::error::Error + 'static>(action: &str, error: &SdkError<E>) -> String {
    let own = TABLE_ENDPOINT.get().filter(|_| action.starts_with("dynamodb:"));
    let endpoint = own.or(ENDPOINT.get()).map_or("AWS", String::as_str);
    if has_no_connection(error) {
        let why = root(error);
        return format!(
            "no connection to {endpoint} ({why}): check the network, and the endpoint that --local, AWS_ENDPOINT_URL or the profile sets"
        );
    }
    if matches!(error, SdkError::TimeoutError(_) | SdkError::DispatchFailure(_)) {
        return format!(
            "no answer from {endpoint} in time: check the network, and whether it works"
        );
    }
    root(error)
}

/// Whether nobody listens at the endpoint, so that there is nothing to wait for.
fn has_no_connection<E>(error: &SdkError<E>) -> bool {
    matches!(error, SdkError::DispatchFailure(why) if why.is_io())
}

/// An error and its causes, the innermost last.
fn chain(error: &(dyn std::error::Error + 'static)) -> impl Iterator<Item = String> {
    std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string)
}

fn root(error: &(dyn std::error::Error + 'static)) -> String {
    chain(error).last().unwrap_or_default()
}

fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    chain(error).collect::<Vec<_>>().join(": ")
}

/// The results of the entries of a batch, whose ids are their indexes, from those that failed.
pub fn of_each(
    action: &'static str,
    resource: &str,
    entries: usize,
    failed: Answer<Vec<BatchResultErrorEntry>>,
) -> Vec<Answer<()>> {
    let failed = match failed {
        Ok(failed) => failed,
        Err(fault) => return vec![Err(fault); entries],
    };
    let mut answers = vec![Ok(()); entries];
    for BatchResultErrorEntry { id, code, message, .. } in failed {
        let index = id.parse().ok().filter(|index: &usize| *index < entries);
        let fault = || Fault::of(action, resource, &code, message.as_deref().unwrap_or_default());
        index.into_iter().for_each(|index| answers[index] = Err(fault()));
    }
    answers
}

/// What was asked for, or `None` if it doesn't exist.
pub fn existing<T>(answer: Answer<T>) -> Answer<Option<T>> {
    const MISSING: [&str; 4] =
        ["NonExistentQueue", "QueueDoesNotExist", "ResourceNotFoundException", "NoSuchEntity"];
    let is_missing = |code: &str| MISSING.iter().any(|part| code.contains(part));
    match answer {
        Err(fault) if fault.code.as_deref().is_some_and(is_missing) => Ok(None),
        answer => answer.map(Some),
    }
}
