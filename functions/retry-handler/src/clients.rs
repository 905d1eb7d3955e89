//! The configuration of the AWS clients.
//!
//! The SDK's default time-outs suit programs that can wait for minutes. An invocation of the handler has seconds,
//! which hundreds of messages may share. So a call to an endpoint that doesn't answer ends early; the message comes
//! back anyway. `AWS_MAX_ATTEMPTS`, `AWS_RETRY_MODE` and `AWS_ENDPOINT_URL*` work as in every program.

use std::{sync::LazyLock, time::Duration};

use aws_config::{
    BehaviorVersion, SdkConfig, stalled_stream_protection::StalledStreamProtectionConfig,
    timeout::TimeoutConfig,
};
use aws_sdk_sqs::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
#[cfg(feature = "https")]
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_http_client::{Connector, proxy::ProxyConfig};
use aws_smithy_runtime_api::client::http::{
    HttpConnectorSettings, SharedHttpConnector, http_client_fn,
};

/// AWS's endpoints accept a connection within milliseconds, or not at all.
const CONNECT_MAX: Duration = Duration::from_secs(1);

/// The limit for one attempt of a call. SQS and Lambda answer within tens of milliseconds.
const ATTEMPT_MAX: Duration = Duration::from_secs(3);

/// The limit for a call with all its attempts: less time than a handler with a timeout of ten seconds has.
pub(crate) const CALL_MAX: Duration = Duration::from_secs(6);

/// Reads region, credentials and endpoints from the environment, like every AWS program.
pub async fn connect() -> SdkConfig {
    // Parsing the CA certificates takes most of the start. Lambda gives an initialization more CPU than the invocations
    // of a small function, so they are parsed now and not at the first call.
    LazyLock::force(&CONNECTOR);
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_MAX)
        .operation_attempt_timeout(ATTEMPT_MAX)
        .operation_timeout(CALL_MAX)
        .build();
    aws_config::defaults(BehaviorVersion::v2026_01_12())
        .http_client(http_client_fn(|_, _| CONNECTOR.clone()))
        .timeout_config(timeouts)
        // This protection is meant for long downloads. The time-outs above are enough for short answers.
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .load()
        .await
}

/// One connector for the clients of all services.
///
/// The SDK's own HTTP client builds two for each service and discards one of them, and each copies the CA certificates
/// of the system.
pub(crate) static CONNECTOR: LazyLock<SharedHttpConnector> = LazyLock::new(|| {
    let settings = HttpConnectorSettings::builder().connect_timeout(CONNECT_MAX).build();
    let builder =
        Connector::builder().connector_settings(settings).proxy_config(ProxyConfig::from_env());
    #[cfg(feature = "https")]
    let connector = builder.tls_provider(Provider::Rustls(CryptoMode::AwsLc)).build();
    #[cfg(not(feature = "https"))]
    let connector = builder.build_http();
    SharedHttpConnector::new(connector)
});

/// AWS's code, the HTTP status and the message of an error, as far as there was an answer.
pub(crate) fn fault_of<E>(error: &SdkError<E>) -> (Option<String>, Option<u16>, String)
where
    E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
{
    let status = error.raw_response().map(|response| response.status().as_u16());
    let message = error.message();
    let message = message.map_or_else(|| DisplayErrorContext(error).to_string(), str::to_owned);
    (error.code().map(str::to_owned), status, message)
}
