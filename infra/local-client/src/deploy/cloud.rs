//! A client of the local cloud: its calls for functions, layers, mappings and queues.

use std::path::Path;

use aws_sdk_lambda::{
    operation::RequestId,
    primitives::Blob,
    types::{
        DurableConfig, Environment, FunctionCode, FunctionResponseType, ImageConfig,
        InvocationType, LayerVersionContentInput, PackageType, RecursiveLoop, Runtime,
        TenancyConfig, TenantIsolationMode,
    },
};
use aws_sdk_sqs::{
    config::{BehaviorVersion, Credentials, Region, SharedCredentialsProvider},
    types::QueueAttributeName,
};
use aws_types::SdkConfig;
use comeback_local_model::REGION;

use super::{
    call::{CallError, failed},
    function::{Code, Function},
};

/// SQS changes or sends up to ten messages in one call.
const BATCH_SIZE: i32 = 10;

/// With any batching window, the messages of a quiet queue may be delayed by up to 20 s.
const BATCHING_WINDOW_SECONDS: i32 = 0;

/// The role that Lambda requires. The local cloud checks only the format.
const ROLE: &str = "arn:aws:iam::000000000000:role/local";

/// The image URI that makes the local cloud run a command on this machine.
const LOCAL_COMMAND: &str = "local-command";

/// The bucket name that makes the local cloud read a folder on this machine.
const LOCAL_FOLDER: &str = "local-folder";

/// The program that Lambda starts in a folder or a zip without a runtime.
const BOOTSTRAP: &str = "bootstrap";

/// How long a durable execution may take: a day.
const EXECUTION_SECONDS: i32 = 86_400;

/// The SDK configuration for an endpoint on this machine, which accepts any credentials.
pub fn config(endpoint: &str) -> SdkConfig {
    let credentials = Credentials::new("local", "local", None, None, "comeback");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::from_static(REGION))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .endpoint_url(endpoint)
        .build()
}

pub struct Cloud {
    pub sqs: aws_sdk_sqs::Client,
    pub lambda: aws_sdk_lambda::Client,
}

impl Cloud {
    /// A client of the local cloud at `endpoint`.
    pub fn at(endpoint: &str) -> Self {
        let config = config(endpoint);
        Self {
            sqs: aws_sdk_sqs::Client::new(&config),
            lambda: aws_sdk_lambda::Client::new(&config),
        }
    }

    pub async fn invoke(&self, function: &str, payload: &str) -> Result<String, CallError> {
        let call = self.lambda.invoke().function_name(function).payload(Blob::new(payload));
        // A durable function is only invoked by a qualified name.
        let call = call.qualifier("$LATEST");
        let accepted = call.invocation_type(InvocationType::Event).send().await;
        let accepted = accepted.map_err(failed(&format!("invoke {function}")))?;
        let request_id = accepted.request_id().map(str::to_owned);
        request_id.ok_or_else(|| {
            let what = format!("get the request id of an invocation of {function}");
            CallError::of(&what, "none".to_owned())
        })
    }

    /// Pauses a function: sets its reserved concurrency to 0.
    pub async fn pause(&self, function: &str) -> Result<(), CallError> {
        let call = self.lambda.put_function_concurrency().function_name(function);
        let paused = call.reserved_concurrent_executions(0).send().await;
        paused.map(drop).map_err(failed(&format!("pause {function}")))
    }

    pub async fn resume(&self, function: &str) -> Result<(), CallError> {
        let call = self.lambda.delete_function_concurrency().function_name(function);
        call.send().await.map(drop).map_err(failed(&format!("resume {function}")))
    }

    pub(super) async fn queue(
        &self,
        name: &str,
        attributes: Vec<(QueueAttributeName, String)>,
    ) -> Result<String, CallError> {
        let what = format!("create the queue {name}");
        let attributes = attributes.into_iter().collect();
        let call = self.sqs.create_queue().queue_name(name).set_attributes(Some(attributes));
        let created = call.send().await.map_err(failed(&what))?;
        created.queue_url.ok_or_else(|| CallError::of(&what, "no URL".to_owned()))
    }

    pub async fn queue_arn(&self, url: &str) -> Result<String, CallError> {
        let what = format!("get the ARN of {url}");
        let call = self.sqs.get_queue_attributes().queue_url(url);
        let answer = call.attribute_names(QueueAttributeName::QueueArn).send().await;
        let attributes = answer.map_err(failed(&what))?.attributes.unwrap_or_default();
        let arn = attributes.get(&QueueAttributeName::QueueArn).cloned();
        arn.ok_or_else(|| CallError::of(&what, "none".to_owned()))
    }

    /// Creates a function that may be part of a recursive loop.
    pub async fn create(&self, function: &Function) -> Result<(), CallError> {
        let Function { name, code, timeout, environment, layers, runtime, handler, .. } = function;
        let durable = || DurableConfig::builder().execution_timeout(EXECUTION_SECONDS).build();
        let per_tenant = || {
            TenancyConfig::builder().tenant_isolation_mode(TenantIsolationMode::PerTenant).build()
        };
        let variables = environment.iter().cloned().collect();
        let environment = Environment::builder().set_variables(Some(variables)).build();
        let mut versions = Vec::new();
        for folder in layers {
            versions.push(self.publish_layer(folder).await?);
        }
        let create = self
            .lambda
            .create_function()
            .function_name(name)
            .role(ROLE)
            .timeout(i32::try_from(timeout.as_secs()).unwrap_or(i32::MAX))
            .environment(environment)
            .set_tenancy_config(function.tenants.then(per_tenant).and_then(Result::ok))
            .set_durable_config(function.durable.then(durable))
            .set_layers(Some(versions));
        let runtime = runtime.as_deref().map_or(Runtime::Providedal2023, Runtime::from);
        let handler = handler.as_deref().unwrap_or(BOOTSTRAP);
        let source = FunctionCode::builder();
        let create = match code {
            Code::Folder(folder) => {
                let source = source.s3_bucket(LOCAL_FOLDER).s3_key(folder.to_string_lossy());
                create.runtime(runtime).handler(handler).code(source.build())
            }
            Code::Zip(zip) => {
                let source = source.zip_file(Blob::new(zip.as_slice()));
                create.runtime(runtime).handler(handler).code(source.build())
            }
            Code::Command { words, folder } => {
                let command = ImageConfig::builder().set_command(Some(words.clone()));
                create
                    .package_type(PackageType::Image)
                    .code(source.image_uri(LOCAL_COMMAND).build())
                    .image_config(command.working_directory(folder.to_string_lossy()).build())
            }
        };
        create.send().await.map_err(failed(&format!("create the function {name}")))?;
        // The loop of function and queue is intended, and the handler limits it.
        let allow = self.lambda.put_function_recursion_config().function_name(name);
        let allowed = allow.recursive_loop(RecursiveLoop::Allow).send().await;
        allowed.map(drop).map_err(failed(&format!("allow {name} a recursive loop")))
    }

    async fn publish_layer(&self, folder: &Path) -> Result<String, CallError> {
        let what = format!("publish the layer {}", folder.display());
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let content = LayerVersionContentInput::builder()
            .s3_bucket(LOCAL_FOLDER)
            .s3_key(folder.to_string_lossy());
        let call = self.lambda.publish_layer_version().layer_name(name).content(content.build());
        let version = call.send().await.map_err(failed(&what))?.layer_version_arn;
        version.ok_or_else(|| CallError::of(&what, "no ARN".to_owned()))
    }

    pub(super) async fn map(&self, queue_arn: &str, function: &str) -> Result<(), CallError> {
        let call = self.lambda.create_event_source_mapping().function_name(function);
        let mapped = call
            .event_source_arn(queue_arn)
            .batch_size(BATCH_SIZE)
            .maximum_batching_window_in_seconds(BATCHING_WINDOW_SECONDS)
            .function_response_types(FunctionResponseType::ReportBatchItemFailures)
            .send()
            .await;
        mapped.map(drop).map_err(failed(&format!("map {queue_arn} to {function}")))
    }
}
