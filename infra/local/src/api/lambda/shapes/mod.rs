//! The JSON shapes of Lambda's API that are used here.

mod layer;
mod mapping;

use std::collections::BTreeMap;

use comeback_core::Timestamp;
pub(super) use layer::{LayerRequest, LayerResponse};
pub(super) use mapping::{MappingRequest, MappingResponse};
use serde::{Deserialize, Serialize};

use crate::model::lambda::{
    error::LambdaError,
    function::{Configuration, Program, Settings},
    invoke_config::{Destination, EventInvokeConfig, EventInvokeSettings},
    layer::Layered,
    name::{self, LATEST},
};

/// A request that creates a function or changes its configuration.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct FunctionRequest {
    pub(super) function_name: Option<String>,
    pub(super) code: CodeRequest,
    pub(super) image_config: Option<ImageConfig>,
    /// The ARNs of layers' versions; an empty list takes them all away.
    pub(super) layers: Option<Vec<String>>,
    role: Option<String>,
    pub(super) handler: Option<String>,
    pub(super) runtime: Option<String>,
    description: Option<String>,
    package_type: Option<String>,
    timeout: Option<i64>,
    memory_size: Option<i64>,
    environment: Option<Environment>,
    dead_letter_config: Option<DeadLetterConfig>,
}

impl FunctionRequest {
    /// `layers` are the request's layers, prepared.
    pub(super) fn settings(self, layers: Option<Layered>) -> Settings {
        Settings {
            layers,
            role: self.role,
            handler: self.handler,
            runtime: self.runtime,
            description: self.description,
            package_type: self.package_type,
            timeout: self.timeout,
            memory_size: self.memory_size,
            environment: self.environment.map(|environment| environment.variables),
            // As on AWS, a config without a target leaves things as they are.
            dead_letter_target: self.dead_letter_config.and_then(|config| config.target_arn),
        }
    }
}

/// A function's code. In `UpdateFunctionCode`, these are the request's own members.
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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    layers: Vec<Layer>,
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

/// A layer of a function.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Layer {
    arn: String,
    code_size: u64,
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
            Program::Bootstrap(_) | Program::Handler(..) => None,
            Program::Command { command, working_directory } => Some(ImageConfig {
                entry_point: None,
                command: Some(command.clone()),
                working_directory: working_directory.as_ref().map(|at| at.display().to_string()),
            }),
        };
        let environment = &configuration.environment;
        let layers = configuration.layers.versions.iter();
        let layers = layers.map(|of| Layer { arn: of.arn(), code_size: of.content.size });
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
            last_modified: date(configuration.last_modified),
            code_sha256: &configuration.code.sha256,
            version: LATEST,
            environment: (!environment.is_empty()).then_some(Variables { variables: environment }),
            layers: layers.collect(),
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
            Program::Bootstrap(folder) | Program::Handler(folder, _) => {
                format!("file://{}", folder.path().display())
            }
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
    destination_config: Option<Destinations>,
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
    /// # Errors
    ///
    /// If it sets nothing.
    pub(super) fn settings(self) -> Result<EventInvokeSettings, LambdaError> {
        let Self { maximum_retry_attempts, maximum_event_age_in_seconds, destination_config } =
            self;
        let limits = maximum_retry_attempts.or(maximum_event_age_in_seconds);
        if limits.is_none() && destination_config.is_none() {
            return Err(LambdaError::InvalidParameterValue(
                "You must specify at least one of error handling or destination setting."
                    .to_owned(),
            ));
        }
        let destinations = destination_config.unwrap_or_default();
        // An empty target removes the destination.
        let arn = |target: Option<Target>| target.map(|t| t.destination.unwrap_or_default());
        Ok(EventInvokeSettings {
            maximum_retry_attempts,
            maximum_event_age_in_seconds,
            on_success: arn(destinations.on_success),
            on_failure: arn(destinations.on_failure),
        })
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

/// A time as AWS writes it in JSON: seconds since 1970, with milliseconds.
#[allow(
    clippy::cast_precision_loss,
    reason = "milliseconds of our time are far below what a double holds exactly"
)]
fn epoch_seconds(at: Timestamp) -> f64 {
    at.timestamp_millis() as f64 / 1000.0
}

/// A time as AWS writes it of functions and of layers.
fn date(at: Timestamp) -> String {
    at.format("%FT%T%.3f+0000").to_string()
}
