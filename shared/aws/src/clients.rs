//! The configuration of the AWS clients.
//!
//! The SDK's default time-outs suit programs that can wait for minutes. An invocation of the handler has seconds,
//! which hundreds of messages may share. So a call to an endpoint that doesn't answer ends early; the message comes
//! back anyway. `AWS_MAX_ATTEMPTS`, `AWS_RETRY_MODE` and `AWS_ENDPOINT_URL*` work as in every program.

use std::time::Duration;

use aws_config::{
    BehaviorVersion, SdkConfig, stalled_stream_protection::StalledStreamProtectionConfig,
    timeout::TimeoutConfig,
};

/// AWS's endpoints accept a connection within milliseconds, or not at all.
const CONNECT_MAX: Duration = Duration::from_secs(1);

/// One attempt of a call: SQS and Lambda answer these within tens of milliseconds.
const ATTEMPT_MAX: Duration = Duration::from_secs(3);

/// A call with all its attempts: less than a handler with a timeout of ten seconds has.
const CALL_MAX: Duration = Duration::from_secs(6);

/// Reads region, credentials and endpoints from the environment, like every AWS program.
pub async fn connect() -> SdkConfig {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_MAX)
        .operation_attempt_timeout(ATTEMPT_MAX)
        .operation_timeout(CALL_MAX)
        .build();
    let defaults = aws_config::defaults(BehaviorVersion::v2026_01_12());
    #[cfg(not(feature = "https"))]
    let defaults = defaults.http_client(aws_smithy_http_client::Builder::new().build_http());
    defaults
        .timeout_config(timeouts)
        // It is meant for long downloads. The time-outs above cover these short answers.
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .load()
        .await
}
