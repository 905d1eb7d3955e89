//! The JSON shapes of Lambda's API, as far as they are used here.

use std::collections::BTreeMap;

use comeback_core::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::lambda::error::LambdaError;
use crate::model::lambda::function::{Configuration, Program, Settings};
use crate::model::lambda::invoke_config::{Destination, EventInvokeConfig, EventInvokeSettings};
use crate::model::lambda::mapping::{Mapping, MappingSettings};
use crate::model::lambda::name::{self, LATEST};
use crate::model::{ACCOUNT, REGION};

/// A request that creates a function or changes its configuration.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct FunctionRequest {
    pub(super) function_name: Option<String>,
    pub(super) code: CodeRequest,
    pub(super) image_config: Option<ImageConfig>,
    role: Option<String>,
    handler: Option<String>,
    runtime: Option<String>,
    description: Option<String>,
    package_type: Option<String>,
    timeout: Option<i64>,
    memory_size: Option<i64>,
    environment: Option<Environment>,
    dead_letter_config: Option<DeadLetterConfig>,
}

impl FunctionRequest {
    pub(super) fn settings(self) -> Settings {
        Settings {
            role: self.role,
            handler: self.handler,
            runtime: self.runtime,
            description: self.description,
            package_type: self.package_type,
            timeout: self.timeout,
            memory_size: self.memory_size,
            environment: self.environment.map(|environment| environment.variables),
            dead_letter_target: self
                .dead_letter_config
                .map(|config| config.target_arn.unwrap_or_default()),
        }
    }
}

/// Where a function's code is; in a request for new code it stands at the top.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct CodeRequest {
    pub(super) zip_file: Option<String>,
    #[serde(rename = "S3Bucket")]
    pub(super) s3_bucket: Option<String>,
    #[serde(rename = "S3Key")]
    pub(super) s3_key: Option<String>,
    pub(super) image_uri: Option<String>,
}

/// How an image is started: here, a command.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct ImageConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) entry_point: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) command: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) working_directory: Option<String>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
struct Environment {
    variables: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
struct DeadLetterConfig {
    target_arn: Option<String>,
}

/// A function's configuration, as it is answered.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct FunctionConfiguration<'a> {
    function_name: &'a str,
    function_arn: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    runtime: Option<&'a str>,
    role: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    handler: Option<&'a str>,
    code_size: u64,
    description: &'a str,
    timeout: u32,
    memory_size: u32,
    last_modified: String,
    code_sha256: &'a str,
    version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<Variables<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_letter_config: Option<DeadLetterConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image_config_response: Option<ImageConfigResponse>,
    tracing_config: TracingConfig,
    revision_id: &'a str,
    state: &'static str,
    last_update_status: &'static str,
    package_type: &'a str,
    architectures: [&'static str; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Variables<'a> {
    variables: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ImageConfigResponse {
    image_config: ImageConfig,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct TracingConfig {
    mode: &'static str,
}

/// This machine's architecture by AWS's name.
const ARCHITECTURE: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "x86_64" };

impl<'a> FunctionConfiguration<'a> {
    pub(super) fn new(configuration: &'a Configuration) -> Self {
        let image_config = match &configuration.code.program {
            Program::Bootstrap(_) => None,
            Program::Command { command, working_directory } => Some(ImageConfig {
                entry_point: None,
                command: Some(command.clone()),
                working_directory: working_directory.as_ref().map(|at| at.display().to_string()),
            }),
        };
        let environment = &configuration.environment;
        Self {
            function_name: &configuration.name,
            function_arn: configuration.arn(),
            runtime: configuration.runtime.as_deref(),
            role: &configuration.role,
            handler: configuration.handler.as_deref(),
            code_size: configuration.code.size,
            description: &configuration.description,
            timeout: configuration.timeout_secs,
            memory_size: configuration.memory_mb,
            last_modified: configuration.last_modified.format("%FT%T%.3f+0000").to_string(),
            code_sha256: &configuration.code.sha256,
            version: LATEST,
            environment: (!environment.is_empty()).then_some(Variables { variables: environment }),
            dead_letter_config: configuration
                .dead_letter_target
                .as_deref()
                .map(|target| DeadLetterConfig { target_arn: Some(target.to_owned()) }),
            image_config_response: image_config
                .map(|image_config| ImageConfigResponse { image_config }),
            tracing_config: TracingConfig { mode: "PassThrough" },
            revision_id: &configuration.revision_id,
            state: "Active",
            last_update_status: "Successful",
            package_type: &configuration.package_type,
            architectures: [ARCHITECTURE],
        }
    }
}

/// The answer to `GetFunction`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct FunctionResponse<'a> {
    configuration: FunctionConfiguration<'a>,
    code: CodeLocation,
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency: Option<Concurrency>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct CodeLocation {
    repository_type: &'static str,
    location: String,
}

impl<'a> FunctionResponse<'a> {
    pub(super) fn new(configuration: &'a Configuration, reserved: Option<u32>) -> Self {
        let location = match &configuration.code.program {
            Program::Bootstrap(folder) => format!("file://{}", folder.path().display()),
            Program::Command { command, .. } => command.join(" "),
        };
        Self {
            configuration: FunctionConfiguration::new(configuration),
            code: CodeLocation { repository_type: "Local", location },
            concurrency: reserved.map(|reserved| Concurrency {
                reserved_concurrent_executions: Some(reserved.into()),
            }),
        }
    }
}

/// Reserved concurrency, in requests and answers.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Concurrency {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reserved_concurrent_executions: Option<i64>,
}

/// `RecursiveLoop`, in requests and answers.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Recursion {
    pub(super) recursive_loop: String,
}

/// A request that sets an event invoke config.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct EventInvokeRequest {
    maximum_retry_attempts: Option<i64>,
    maximum_event_age_in_seconds: Option<i64>,
    destination_config: Destinations,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
struct Destinations {
    on_success: Option<Target>,
    on_failure: Option<Target>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
struct Target {
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<String>,
}

impl EventInvokeRequest {
    pub(super) fn settings(self) -> EventInvokeSettings {
        // An empty target takes the destination away.
        let arn = |target: Option<Target>| target.map(|t| t.destination.unwrap_or_default());
        EventInvokeSettings {
            maximum_retry_attempts: self.maximum_retry_attempts,
            maximum_event_age_in_seconds: self.maximum_event_age_in_seconds,
            on_success: arn(self.destination_config.on_success),
            on_failure: arn(self.destination_config.on_failure),
        }
    }
}

/// An event invoke config, as it is answered.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct EventInvokeResponse {
    last_modified: f64,
    function_arn: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    maximum_retry_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    maximum_event_age_in_seconds: Option<u32>,
    destination_config: Destinations,
}

impl EventInvokeResponse {
    pub(super) fn new(function: &str, config: &EventInvokeConfig) -> Self {
        let target = |destination: Option<&Destination>| {
            Some(Target { destination: destination.map(|destination| destination.arn.to_string()) })
        };
        Self {
            last_modified: epoch_seconds(config.last_modified),
            function_arn: name::qualified_arn(function),
            maximum_retry_attempts: config.maximum_retry_attempts,
            maximum_event_age_in_seconds: config.maximum_event_age_in_seconds,
            destination_config: Destinations {
                on_success: target(config.on_success.as_ref()),
                on_failure: target(config.on_failure.as_ref()),
            },
        }
    }
}

/// A request that creates or changes an event source mapping.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct MappingRequest {
    pub(super) event_source_arn: Option<String>,
    pub(super) function_name: Option<String>,
    batch_size: Option<i64>,
    maximum_batching_window_in_seconds: Option<i64>,
    function_response_types: Option<Vec<String>>,
    scaling_config: Option<ScalingConfig>,
    enabled: Option<bool>,
    filter_criteria: Option<serde_json::Value>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
struct ScalingConfig {
    maximum_concurrency: Option<i64>,
}

impl MappingRequest {
    /// # Errors
    /// If it asks for what isn't done here, and would be missed.
    pub(super) fn settings(&self) -> Result<MappingSettings, LambdaError> {
        if self.filter_criteria.is_some() {
            return Err(LambdaError::InvalidParameterValue(
                "this local cloud has no event filtering (FilterCriteria)".to_owned(),
            ));
        }
        Ok(MappingSettings {
            batch_size: self.batch_size,
            maximum_batching_window_in_seconds: self.maximum_batching_window_in_seconds,
            function_response_types: self.function_response_types.clone(),
            maximum_concurrency: self
                .scaling_config
                .as_ref()
                .map(|config| config.maximum_concurrency),
            enabled: self.enabled,
        })
    }
}

/// An event source mapping, as it is answered.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct MappingResponse {
    #[serde(rename = "UUID")]
    uuid: String,
    batch_size: u32,
    maximum_batching_window_in_seconds: u64,
    event_source_arn: String,
    event_source_mapping_arn: String,
    function_arn: String,
    last_modified: f64,
    state: &'static str,
    state_transition_reason: &'static str,
    function_response_types: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scaling_config: Option<ScalingConfig>,
}

impl MappingResponse {
    pub(super) fn new(mapping: &Mapping) -> Self {
        let uuid = mapping.uuid.to_string();
        Self {
            batch_size: mapping.batch_size,
            maximum_batching_window_in_seconds: mapping.window.as_secs(),
            event_source_arn: mapping.event_source_arn.to_string(),
            event_source_mapping_arn: format!(
                "arn:aws:lambda:{REGION}:{ACCOUNT}:event-source-mapping:{uuid}"
            ),
            function_arn: name::arn(&mapping.function),
            last_modified: epoch_seconds(mapping.last_modified),
            state: if mapping.enabled { "Enabled" } else { "Disabled" },
            state_transition_reason: "USER_INITIATED",
            function_response_types: mapping
                .report_batch_item_failures
                .then_some("ReportBatchItemFailures")
                .into_iter()
                .collect(),
            scaling_config: mapping
                .maximum_concurrency
                .map(|maximum| ScalingConfig { maximum_concurrency: Some(maximum.into()) }),
            uuid,
        }
    }

    /// The state that AWS answers while it deletes.
    pub(super) fn deleting(mapping: &Mapping) -> Self {
        Self { state: "Deleting", ..Self::new(mapping) }
    }
}

/// A time as AWS writes it in JSON: seconds since 1970, with milliseconds.
#[allow(
    clippy::cast_precision_loss,
    reason = "milliseconds of our time are far below what a double holds exactly"
)]
fn epoch_seconds(at: Timestamp) -> f64 {
    at.timestamp_millis() as f64 / 1000.0
}
