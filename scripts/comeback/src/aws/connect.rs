//! Connects to AWS with the credentials that the AWS CLI would use, or to the local cloud.

use std::{io, sync::Arc, time::Duration};

use aws_config::{
    BehaviorVersion, ConfigLoader, Region, environment::EnvironmentVariableCredentialsProvider,
    meta::credentials::CredentialsProviderChain, retry::RetryConfig, timeout::TimeoutConfig,
};
use aws_sdk_sqs::config::{Credentials, ProvideCredentials, SharedCredentialsProvider};
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use axum::http::Uri;
use comeback_core::Timestamp;
use tokio::{net::TcpStream, sync::Semaphore};

use crate::{
    account::function::Function,
    aws::{Aws, CALLS_MAX, ENDPOINT, TABLE_ENDPOINT, causes},
};

pub const LOCAL: &str = "http://127.0.0.1:4700";

/// The connect timeout. AWS's endpoints accept a connection within milliseconds, or not at all.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// The timeout of one attempt of a call. A receive waits for a second.
const ATTEMPT_MAX: Duration = Duration::from_secs(6);
const CALL_MAX: Duration = Duration::from_secs(15);
/// The same for calls to DynamoDB, which normally take milliseconds. Without its table, commands say what they can.
const TABLE_ATTEMPT_MAX: Duration = Duration::from_secs(2);
const TABLE_CALL_MAX: Duration = Duration::from_secs(5);

/// How often an adaptive client attempts a call, instead of [`ATTEMPTS_DEFAULT`].
const ADAPTIVE_ATTEMPTS_MAX: u32 = 5;
/// The SDK's default number of attempts, which AWS_MAX_ATTEMPTS or the profile can change.
const ATTEMPTS_DEFAULT: u32 = 3;
/// The timeout of a call of an adaptive client, with all its attempts and the waits that its rate limit adds.
const ADAPTIVE_CALL_MAX: Duration = Duration::from_mins(2);

/// Options for the connection to AWS or the local cloud.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Connection {
    /// The local cloud instead of AWS [default: http://127.0.0.1:4700].
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, value_parser = endpoint)]
    pub local: Option<Option<String>>,
    /// The region [default: that of the AWS CLI].
    #[arg(long, value_name = "REGION")]
    pub region: Option<String>,
    /// The profile of the AWS CLI's configuration.
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// If a call to AWS fails, print all its causes.
    #[arg(long)]
    pub verbose: bool,
}

/// The URL of a local cloud; its scheme may be left out.
fn endpoint(text: &str) -> Result<String, &'static str> {
    let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url = Some(url).filter(|url| is_local(url));
    url.ok_or("expected the URL of a local cloud on this machine, such as http://127.0.0.1:4700")
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoClients {
    #[error(
        "no region is set: set AWS_REGION, a region of the profile, or --region; for the local cloud, pass --local"
    )]
    Region,
    #[error(
        "the profile {0} has no region: is there such a profile? Add --region, or choose another --profile"
    )]
    RegionOfProfile(String),
    #[error(
        "there are no AWS credentials: set AWS_PROFILE, sign in, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; for the local cloud, pass --local"
    )]
    Credentials(String),
    #[error(
        "the profile {profile} has no credentials: is there such a profile, and are you signed in (aws sso login --profile {profile})?"
    )]
    CredentialsOfProfile { profile: String, causes: String },
    #[error(
        "can't reach {endpoint}: {source}; start `comeback local`, or check --local and AWS_ENDPOINT_URL"
    )]
    NoServer { endpoint: String, source: io::Error },
}

impl Aws {
    /// Creates the clients, with region, credentials and endpoint from the usual sources of AWS programs.
    pub async fn connect(
        connection: &Connection,
        now: fn() -> Timestamp,
    ) -> Result<Self, NoClients> {
        let mut config = loader(connection).load().await;
        let is_local = config.endpoint_url().is_some_and(is_local);
        if let Some(endpoint) = config.endpoint_url().filter(|_| is_local) {
            // Clients would try for seconds. A server on this machine is there, or not.
            let uri: Uri = endpoint.parse().unwrap_or_default();
            let port = if endpoint.starts_with("https:") { 443 } else { 80 };
            let port = uri.port_u16().unwrap_or(port);
            let address = format!("{}:{port}", uri.host().unwrap_or_default());
            let connected = TcpStream::connect(address).await;
            connected
                .map_err(|source| NoClients::NoServer { endpoint: endpoint.to_owned(), source })?;
        }
        if is_local {
            let local = Credentials::new("local", "local", None, None, "comeback");
            let environment = EnvironmentVariableCredentialsProvider::new();
            let chain = CredentialsProviderChain::first_try("environment", environment)
                .or_else("local", local);
            let region = config.region().cloned();
            let region = region.unwrap_or(Region::from_static(comeback_local::model::REGION));
            let credentials = SharedCredentialsProvider::new(chain);
            let builder = config.into_builder().region(region);
            config = builder.credentials_provider(credentials).build();
        }
        if let Some(endpoint) = config.endpoint_url() {
            let _ = ENDPOINT.set(endpoint.to_owned());
        }
        let profile = connection.profile.clone();
        let region = config.region().map(ToString::to_string);
        let region = region
            .ok_or_else(|| profile.clone().map_or(NoClients::Region, NoClients::RegionOfProfile))?;
        let no_credentials = |causes: String| match profile.clone() {
            Some(profile) => NoClients::CredentialsOfProfile { profile, causes },
            None => NoClients::Credentials(causes),
        };
        let provider = config.credentials_provider();
        let provider = provider.ok_or_else(|| no_credentials("no provider".to_owned()))?;
        let provided = provider.provide_credentials().await;
        provided.map_err(|error| no_credentials(causes(&error)))?;
        Ok(Self {
            cloudwatch: aws_sdk_cloudwatch::Client::new(&config),
            dynamodb: aws_sdk_dynamodb::Client::new(&config),
            iam: aws_sdk_iam::Client::new(&config),
            lambda: aws_sdk_lambda::Client::new(&config),
            logs: aws_sdk_cloudwatchlogs::Client::new(&config),
            sqs: aws_sdk_sqs::Client::new(&config),
            sts: aws_sdk_sts::Client::new(&config),
            region,
            config,
            permits: Arc::new(Semaphore::new(CALLS_MAX)),
            now,
            is_local,
        })
    }

    /// The DynamoDB that this handler uses. With the local cloud, it has an endpoint of its own.
    pub fn dynamodb_of(&self, handler: &Function) -> aws_sdk_dynamodb::Client {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(CONNECT_MAX)
            .operation_attempt_timeout(TABLE_ATTEMPT_MAX)
            .operation_timeout(TABLE_CALL_MAX);
        let config = self.dynamodb.config().to_builder().timeout_config(timeouts.build());
        let endpoint = handler.environment.get("AWS_ENDPOINT_URL_DYNAMODB");
        let config = match endpoint.filter(|endpoint| self.is_local && is_local(endpoint)) {
            Some(endpoint) => {
                let _ = TABLE_ENDPOINT.set(endpoint.clone());
                config.endpoint_url(endpoint)
            }
            None => config,
        };
        aws_sdk_dynamodb::Client::from_conf(config.build())
    }

    /// The same clients, but those of Lambda and IAM slow down when throttled. A command with hundreds of calls needs
    /// them, because Lambda allows only 15 calls a second for most kinds.
    #[must_use]
    pub fn adaptive(&self) -> Self {
        let configured = self.lambda.config().retry_config().map(RetryConfig::max_attempts);
        let attempts = configured.filter(|attempts| *attempts != ATTEMPTS_DEFAULT);
        let attempts = attempts.unwrap_or(ADAPTIVE_ATTEMPTS_MAX);
        let retries = RetryConfig::adaptive().with_max_attempts(attempts);
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(CONNECT_MAX)
            .operation_attempt_timeout(ATTEMPT_MAX)
            .operation_timeout(ADAPTIVE_CALL_MAX)
            .build();
        let lambda = self.lambda.config().to_builder();
        let lambda = lambda.retry_config(retries.clone()).timeout_config(timeouts.clone());
        let iam = self.iam.config().to_builder();
        let iam = iam.retry_config(retries).timeout_config(timeouts);
        Self {
            lambda: aws_sdk_lambda::Client::from_conf(lambda.build()),
            iam: aws_sdk_iam::Client::from_conf(iam.build()),
            ..self.clone()
        }
    }
}

fn loader(connection: &Connection) -> ConfigLoader {
    let http = aws_smithy_http_client::Builder::new();
    let http = http.tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https();
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_MAX)
        .operation_attempt_timeout(ATTEMPT_MAX)
        .operation_timeout(CALL_MAX);
    let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
        .http_client(http)
        .timeout_config(timeouts.build());
    if let Some(profile) = &connection.profile {
        loader = loader.profile_name(profile);
    }
    if let Some(region) = &connection.region {
        loader = loader.region(Region::new(region.clone()));
    }
    if let Some(local) = &connection.local {
        loader = loader.endpoint_url(local.as_deref().unwrap_or(LOCAL));
    }
    loader
}

/// Whether an endpoint is on this machine, and so accepts any credentials.
fn is_local(endpoint: &str) -> bool {
    let uri: Uri = endpoint.parse().unwrap_or_default();
    uri.host().is_some_and(|host| ["127.0.0.1", "localhost", "[::1]"].contains(&host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_local_cloud_is_on_this_machine_and_its_scheme_may_be_left_out() {
        assert_eq!(endpoint("127.0.0.1:4800"), Ok("http://127.0.0.1:4800".to_owned()));
        assert_eq!(endpoint("http://localhost:1"), Ok("http://localhost:1".to_owned()));
        for text in ["", "4800", "example.com:4700", "http://192.168.0.7:4700"] {
            assert!(endpoint(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_endpoint_of_this_machine_is_local() {
        for (endpoint, expected) in [
            ("http://127.0.0.1:4700", true),
            ("http://localhost/", true),
            ("http://[::1]:4700", true),
            ("http://localhost.example.com", false),
            ("https://sqs.us-east-1.amazonaws.com", false),
        ] {
            assert_eq!(is_local(endpoint), expected, "{endpoint}");
        }
    }
}
