//! The JSON of Lambda's requests and responses.

use std::collections::BTreeMap;

use comeback_core::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    api::without_nulls,
    model::lambda::{
        error::LambdaError,
        function::{Configuration, Program, Settings},
        invoke_config::{Destination, EventInvokeConfig},
        layer::LayerVersion,
        mapping::{Mapping, MappingSettings},
        name::{self, LATEST},
        stream_mapping::{StreamMapping, StreamSettings},
    },
    model::{ACCOUNT, REGION, epoch_seconds},
};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct FunctionRequest {
    pub(super) function_name: Option<String>,
    pub(super) code: CodeRequest,
    pub(super) image_config: Option<ImageConfig>,
    /// The ARNs of layer versions. An empty list removes all layers.
    pub(super) layers: Option<Vec<String>>,
    #[serde(flatten)]
    pub(super) settings: Settings,
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

/// How an image is started. Here, it is the command that stands in for the image.
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

const ARCHITECTURE: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "x86_64" };

pub(super) fn function_configuration(configuration: &Configuration) -> Value {
    let environment = &configuration.environment;
    let layers = configuration.layers.versions.iter();
    let layers: Vec<_> =
        layers.map(|layer| json!({ "Arn": layer.arn(), "CodeSize": layer.content.size })).collect();
    let target = configuration.dead_letter_target.as_ref();
    let image_config = image_config(configuration);
    without_nulls(json!({
        "FunctionName": configuration.name,
        "FunctionArn": configuration.arn,
        "Runtime": configuration.runtime,
        "Role": configuration.role,
        "Handler": configuration.handler,
        "CodeSize": configuration.code.size,
        "Description": configuration.description,
        "Timeout": configuration.timeout_secs,
        "MemorySize": configuration.memory_mb,
        "LastModified": date(configuration.last_modified),
        "CodeSha256": configuration.code.sha256,
        "Version": LATEST,
        "Environment": (!environment.is_empty()).then(|| json!({ "Variables": environment })),
        "Layers": (!layers.is_empty()).then_some(layers),
        "DeadLetterConfig": target.map(|target| json!({ "TargetArn": target })),
        "TenancyConfig": configuration.tenancy,
        "DurableConfig": configuration.durable,
        "ImageConfigResponse": image_config.map(|config| json!({ "ImageConfig": config })),
        "TracingConfig": { "Mode": "PassThrough" },
        "RevisionId": configuration.revision_id,
        "State": "Active",
        "LastUpdateStatus": "Successful",
        "PackageType": configuration.package_type,
        "Architectures": [ARCHITECTURE],
    }))
}

pub(super) fn image_config(configuration: &Configuration) -> Option<ImageConfig> {
    match &configuration.code.program {
        Program::Bootstrap(_) | Program::Handler(..) => None,
        Program::Command { command, working_directory } => Some(ImageConfig {
            entry_point: None,
            command: Some(command.clone()),
            working_directory: working_directory.as_ref().map(|at| at.display().to_string()),
        }),
    }
}

pub(super) fn function(configuration: &Configuration, reserved: Option<u32>) -> Value {
    let location = match &configuration.code.program {
        Program::Bootstrap(folder) | Program::Handler(folder, _) => {
            format!("file://{}", folder.path().display())
        }
        Program::Command { command, .. } => command.join(" "),
    };
    without_nulls(json!({
        "Configuration": function_configuration(configuration),
        "Code": { "RepositoryType": "Local", "Location": location },
        "Concurrency": reserved.map(|reserved| json!({ "ReservedConcurrentExecutions": reserved })),
    }))
}

/// The requests of operations that set one value. Each request has one of these members.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Change {
    pub(super) reserved_concurrent_executions: Option<i64>,
    pub(super) recursive_loop: String,
    pub(super) tags: BTreeMap<String, String>,
}

pub(super) fn event_invoke_config(function: &str, config: &EventInvokeConfig) -> Value {
    let target = |destination: &Option<Destination>| match destination {
        Some(destination) => json!({ "Destination": destination.arn }),
        None => json!({}),
    };
    without_nulls(json!({
        "LastModified": epoch_seconds(config.last_modified),
        "FunctionArn": name::qualified_arn(function),
        "MaximumRetryAttempts": config.maximum_retry_attempts,
        "MaximumEventAgeInSeconds": config.maximum_event_age_in_seconds,
        "DestinationConfig": {
            "OnSuccess": target(&config.on_success),
            "OnFailure": target(&config.on_failure),
        },
    }))
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct LayerRequest {
    pub(super) content: CodeRequest,
    pub(super) description: String,
}

pub(super) fn layer_version(version: &LayerVersion) -> Value {
    let content = &version.content;
    json!({
        "LayerArn": version.layer_arn(),
        "LayerVersionArn": version.arn(),
        "Version": version.version,
        "Description": version.description,
        "CreatedDate": date(version.created),
        "Content": {
            "Location": format!("file://{}", content.folder.path().display()),
            "CodeSize": content.size,
            "CodeSha256": content.sha256,
        },
    })
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct MappingRequest {
    pub(super) event_source_arn: Option<String>,
    pub(super) function_name: Option<String>,
    filter_criteria: Option<Value>,
    destination_config: Option<Value>,
    #[serde(flatten)]
    settings: MappingSettings,
}

impl MappingRequest {
    pub(super) fn settings(&self) -> Result<&MappingSettings, LambdaError> {
        if self.filter_criteria.is_some() {
            return Err(LambdaError::invalid(
                "this local cloud has no event filtering (FilterCriteria)",
            ));
        }
        if self.destination_config.is_some() {
            return Err(LambdaError::invalid(
                "Unsupported DestinationConfig parameter for given event source mapping type.",
            ));
        }
        Ok(&self.settings)
    }
}

/// A mapping of a stream. AWS's other settings are refused, because a setting without effect would mislead.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct StreamRequest {
    filter_criteria: Option<Value>,
    maximum_batching_window_in_seconds: Option<i64>,
    parallelization_factor: Option<i64>,
    maximum_record_age_in_seconds: Option<i64>,
    tumbling_window_in_seconds: Option<i64>,
    #[serde(flatten)]
    settings: StreamSettings,
}

impl StreamRequest {
    pub(super) fn settings(self) -> Result<StreamSettings, LambdaError> {
        for (name, is_given) in [
            ("FilterCriteria", self.filter_criteria.is_some()),
            (
                "MaximumBatchingWindowInSeconds",
                self.maximum_batching_window_in_seconds.is_some_and(|secs| secs != 0),
            ),
            ("ParallelizationFactor", self.parallelization_factor.is_some_and(|it| it != 1)),
            (
                "MaximumRecordAgeInSeconds",
                self.maximum_record_age_in_seconds.is_some_and(|secs| secs != -1),
            ),
            ("TumblingWindowInSeconds", self.tumbling_window_in_seconds.is_some_and(|it| it != 0)),
        ] {
            if is_given {
                let why = format!("this local cloud has no {name} for streams");
                return Err(LambdaError::invalid(why));
            }
        }
        Ok(self.settings)
    }
}

pub(super) fn stream_mapping(mapping: &StreamMapping) -> Value {
    let uuid = &mapping.uuid;
    let arn = format!("arn:aws:lambda:{REGION}:{ACCOUNT}:event-source-mapping:{uuid}");
    let report = mapping.report_batch_item_failures.then_some("ReportBatchItemFailures");
    let on_failure = mapping.on_failure.as_ref();
    json!({
        "UUID": uuid,
        "BatchSize": mapping.batch_size,
        "BisectBatchOnFunctionError": mapping.bisects,
        "MaximumRetryAttempts": mapping.retries_max.map_or(-1, i64::from),
        "MaximumRecordAgeInSeconds": -1,
        "MaximumBatchingWindowInSeconds": 0,
        "ParallelizationFactor": 1,
        "TumblingWindowInSeconds": 0,
        "DestinationConfig": {
            "OnFailure": on_failure.map_or(json!({}), |it| json!({ "Destination": it.arn })),
        },
        "EventSourceArn": mapping.event_source_arn,
        "EventSourceMappingArn": arn,
        "FunctionArn": name::arn(&mapping.function),
        "LastModified": epoch_seconds(mapping.last_modified),
        "State": if mapping.enabled { "Enabled" } else { "Disabled" },
        "StateTransitionReason": "USER_INITIATED",
        "FunctionResponseTypes": Vec::from_iter(report),
    })
}

pub(super) fn mapping(mapping: &Mapping, state: &str) -> Value {
    let uuid = &mapping.uuid;
    let arn = format!("arn:aws:lambda:{REGION}:{ACCOUNT}:event-source-mapping:{uuid}");
    let report = mapping.report_batch_item_failures.then_some("ReportBatchItemFailures");
    let maximum = mapping.maximum_concurrency;
    without_nulls(json!({
        "UUID": uuid,
        "BatchSize": mapping.batch_size,
        "MaximumBatchingWindowInSeconds": mapping.window.as_secs(),
        "EventSourceArn": mapping.event_source_arn,
        "EventSourceMappingArn": arn,
        "FunctionArn": name::arn(&mapping.function),
        "LastModified": epoch_seconds(mapping.last_modified),
        "State": state,
        "StateTransitionReason": "USER_INITIATED",
        "FunctionResponseTypes": Vec::from_iter(report),
        "ScalingConfig": maximum.map(|maximum| json!({ "MaximumConcurrency": maximum })),
    }))
}

fn date(at: Timestamp) -> String {
    at.format("%FT%T%.3f+0000").to_string()
}
