//! How this program talks to AWS.
//!
//! The defaults of the SDK are made for programs that may wait for minutes. An invocation of the
//! handler has seconds, and hundreds of messages may share them, so an endpoint that doesn't answer is
//! given up early: the message comes back anyway. `AWS_MAX_ATTEMPTS`, `AWS_RETRY_MODE` and
//! `AWS_ENDPOINT_URL*` are the SDK's own and work as everywhere.

use std::time::Duration;

use aws_config::{
    BehaviorVersion, SdkConfig, stalled_stream_protection::StalledStreamProtectionConfig,
    timeout::TimeoutConfig,
};

/// AWS's endpoints accept a connection within milliseconds, or not at all.
const CONNECT_MAX: Duration = Duration::from_secs(1);

/// One attempt of a call: SQS and Lambda answer these within tens of milliseconds.
const ATTEMPT_MAX: Duration = Duration::from_secs(3);

/// A call with all its attempts, which is less than a handler with ten seconds has.
const CALL_MAX: Duration = Duration::from_secs(6);

/// Reads region, credentials and endpoints as every program on AWS does.
pub async fn connect() -> SdkConfig {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_MAX)
        .operation_attempt_timeout(ATTEMPT_MAX)
        .operation_timeout(CALL_MAX)
        .build();
    aws_config::defaults(BehaviorVersion::v2026_01_12())
        .timeout_config(timeouts)
        // Meant for long downloads; the time-outs above cover these short answers.
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .load()
        .await
}
