//! Deploys the retry loop into the local cloud, with the same API calls as on AWS.
//!
//! ```text
//! target ──fails──▶ retry queue ──mapping──▶ retry handler ──gives up──▶ dead-letter queue
//! ```
//!
//! A deployment on AWS needs all of these values too: the retention, the maximum number of receives, partial
//! batch failures, and `RecursiveLoop`.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    path::{Path, PathBuf},
    time::Duration,
};

use aws_sdk_lambda::{
    operation::RequestId,
    primitives::Blob,
    types::{
        DeadLetterConfig, DestinationConfig, DurableConfig, Environment, FunctionCode,
        FunctionResponseType, ImageConfig, InvocationType, LayerVersionContentInput, OnFailure,
        PackageType, RecursiveLoop, Runtime, TenancyConfig, TenantIsolationMode,
    },
};
use aws_sdk_sqs::{
    config::{BehaviorVersion, Credentials, Region, SharedCredentialsProvider},
    error::{DisplayErrorContext, ProvideErrorMetadata, SdkError},
    types::QueueAttributeName,
};
use aws_types::SdkConfig;
use comeback_core::arn::QUEUE_PREFIX;
use comeback_local_model::{ACCOUNT, REGION};

/// The name under which the retry handler is deployed.
pub const HANDLER: &str = "retry-handler";

const RETRY_QUEUE: &str = "retry";
const DEAD_LETTER_QUEUE: &str = "dead-letters";

/// The handler's setting with the URL of the dead-letter queue.
pub const DEAD_LETTER_QUEUE_URL: &str = "DEAD_LETTER_QUEUE_URL";

/// The handler's setting with the functions that may use each queue.
const QUEUE_TARGETS: &str = "QUEUE_TARGETS";

/// The longest retention that SQS offers.
const RETENTION: Duration = Duration::from_hours(14 * 24);

/// The maximum of SQS. Every wait and every throttled delivery counts as a receive, and a broken deployment of the
/// handler must not lose events.
const MAX_RECEIVE_COUNT: u32 = 1_000;

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

#[derive(Debug, thiserror::Error)]
#[error("can't {what}: {cause}")]
pub struct CallError {
    what: String,
    cause: String,
}

impl CallError {
    /// The error of a call whose purpose is `what`, such as "create the queue retry".
    pub fn of(what: &str, cause: String) -> Self {
        Self { what: what.to_owned(), cause }
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Function {
    pub name: String,
    pub code: Code,
    pub timeout: Duration,
    /// Its environment variables. If a name occurs more than once, the last value wins.
    pub environment: Vec<(String, String)>,
    pub layers: Vec<PathBuf>,
    /// The runtime of a folder or a zip that has no `bootstrap`.
    pub runtime: Option<String>,
    /// The entry point that the runtime calls.
    pub handler: Option<String>,
    pub tenants: bool,
    /// Whether it is durable. At most one of the functions of a handler can be.
    pub durable: bool,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Code {
    Folder(PathBuf),
    Zip(Vec<u8>),
    Command { words: Vec<String>, folder: PathBuf },
}

impl Function {
    pub fn of(name: &str, binary: &Path, timeout: Duration) -> Self {
        let words = vec![binary.to_string_lossy().into_owned()];
        let folder = binary.parent().unwrap_or(Path::new("/")).to_owned();
        Self {
            name: name.to_owned(),
            code: Code::Command { words, folder },
            timeout,
            environment: Vec::new(),
            layers: Vec::new(),
            runtime: None,
            handler: None,
            tenants: false,
            durable: false,
        }
    }
}

/// A queue whose messages come back after its consumer failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SourceQueue {
    pub name: String,
    /// The function that the queue is mapped to, which exists. Other consumers just receive messages.
    pub consumer: Option<String>,
    pub visibility: Duration,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Queues {
    /// The URL of the retry queue that functions share.
    pub retry: String,
    /// The URL of the queue for events that were given up.
    pub dead_letter: String,
}

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

    /// Deploys the retry loop: the handler, and the targets whose failures it retries. `visibility` is the
    /// visibility timeout of the retry queue.
    pub async fn deploy(
        &self,
        mut handler: Function,
        visibility: Duration,
        targets: &[Function],
    ) -> Result<Queues, CallError> {
        handler.environment.splice(0..0, of_durable(targets));
        let retention = (QueueAttributeName::MessageRetentionPeriod, seconds(RETENTION));
        let dead_letter = self.queue(DEAD_LETTER_QUEUE, vec![retention]).await?;
        // Comes first, so that the caller can override it.
        handler.environment.insert(0, (DEAD_LETTER_QUEUE_URL.to_owned(), dead_letter.clone()));
        self.create(&handler).await?;
        let (retry, arn) = self.retry_queue(RETRY_QUEUE, &dead_letter, visibility).await?;
        for target in targets {
            self.create(target).await?;
            self.send_failures(target, &arn).await?;
        }
        Ok(Queues { retry, dead_letter })
    }

    /// Deploys the retry loop like [`Cloud::deploy`], but with a retry queue for each target and each of these queues,
    /// as the deployments on AWS do. [`Queues::retry`] is for functions that are attached later, which share it.
    pub async fn deploy_each(
        &self,
        mut handler: Function,
        visibility: Duration,
        targets: &[Function],
        sources: &[SourceQueue],
    ) -> Result<Queues, CallError> {
        let own = targets.iter().map(|target| (queue_of(&target.name), [target.name.clone()]));
        let own_of_queues = sources
            .iter()
            .map(|SourceQueue { name, .. }| (queue_of(name), [format!("{QUEUE_PREFIX}{name}")]));
        let shared = (RETRY_QUEUE.to_owned(), ["*".to_owned()]);
        let bound: BTreeMap<_, _> = own.chain(own_of_queues).chain([shared]).collect();
        let bound = serde_json::json!(bound).to_string();
        handler.environment.splice(0..0, of_durable(targets));
        handler.environment.insert(0, (QUEUE_TARGETS.to_owned(), bound));
        let queues = self.deploy(handler, visibility, &[]).await?;
        for target in targets {
            let name = queue_of(&target.name);
            let (_, arn) = self.retry_queue(&name, &queues.dead_letter, visibility).await?;
            self.create(target).await?;
            self.send_failures(target, &arn).await?;
        }
        for source in sources {
            let name = queue_of(&source.name);
            let (url, arn) = self.retry_queue(&name, &queues.dead_letter, visibility).await?;
            self.source_queue(source, &url, &arn).await?;
        }
        Ok(queues)
    }

    /// Creates a queue whose failed messages SQS moves to this retry queue, which no other queue may use for that.
    async fn source_queue(
        &self,
        SourceQueue { name, consumer, visibility }: &SourceQueue,
        retry_url: &str,
        retry_arn: &str,
    ) -> Result<(), CallError> {
        let (_, arn) = self.redriven_queue(name, *visibility, retry_arn, 1).await?;
        let allow = serde_json::json!({ "redrivePermission": "byQueue", "sourceQueueArns": [arn] });
        let call = self.sqs.set_queue_attributes().queue_url(retry_url);
        let call = call.attributes(QueueAttributeName::RedriveAllowPolicy, allow.to_string());
        call.send().await.map_err(failed(&format!("let only {name} use {retry_url}")))?;
        match consumer {
            Some(consumer) => self.map(&arn, consumer).await,
            None => Ok(()),
        }
    }

    /// Creates a retry queue from which the handler receives. Returns its URL and its ARN.
    async fn retry_queue(
        &self,
        name: &str,
        dead_letter: &str,
        visibility: Duration,
    ) -> Result<(String, String), CallError> {
        let dead_letter = self.queue_arn(dead_letter).await?;
        let queue = self.redriven_queue(name, visibility, &dead_letter, MAX_RECEIVE_COUNT).await?;
        self.map(&queue.1, HANDLER).await?;
        Ok(queue)
    }

    /// Creates a queue from which SQS moves messages to the queue with the ARN `to` after `receives` receives. Returns
    /// its URL and its ARN.
    async fn redriven_queue(
        &self,
        name: &str,
        visibility: Duration,
        to: &str,
        receives: u32,
    ) -> Result<(String, String), CallError> {
        let redrive = serde_json::json!({ "deadLetterTargetArn": to, "maxReceiveCount": receives });
        let attributes = vec![
            (QueueAttributeName::MessageRetentionPeriod, seconds(RETENTION)),
            (QueueAttributeName::VisibilityTimeout, seconds(visibility)),
            (QueueAttributeName::RedrivePolicy, redrive.to_string()),
        ];
        let url = self.queue(name, attributes).await?;
        let arn = self.queue_arn(&url).await?;
        Ok((url, arn))
    }

    pub async fn invoke(&self, function: &str, payload: &str) -> Result<String, CallError> {
        let call = self.lambda.invoke().function_name(function).payload(Blob::new(payload));
        // A durable function is only invoked by a qualified name.
        let call = call.qualifier("$LATEST");
        let accepted = call.invocation_type(InvocationType::Event).send().await;
        let accepted = accepted.map_err(failed(&format!("invoke {function}")))?;
        let request_id = accepted.request_id().map(str::to_owned);
        request_id.ok_or_else(|| CallError {
            what: format!("get the request id of an invocation of {function}"),
            cause: "none".to_owned(),
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

    async fn queue(
        &self,
        name: &str,
        attributes: Vec<(QueueAttributeName, String)>,
    ) -> Result<String, CallError> {
        let what = format!("create the queue {name}");
        let attributes = attributes.into_iter().collect();
        let call = self.sqs.create_queue().queue_name(name).set_attributes(Some(attributes));
        let created = call.send().await.map_err(failed(&what))?;
        created.queue_url.ok_or(CallError { what, cause: "no URL".to_owned() })
    }

    pub async fn queue_arn(&self, url: &str) -> Result<String, CallError> {
        let what = format!("get the ARN of {url}");
        let call = self.sqs.get_queue_attributes().queue_url(url);
        let answer = call.attribute_names(QueueAttributeName::QueueArn).send().await;
        let attributes = answer.map_err(failed(&what))?.attributes.unwrap_or_default();
        let arn = attributes.get(&QueueAttributeName::QueueArn).cloned();
        arn.ok_or(CallError { what, cause: "none".to_owned() })
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
        version.ok_or(CallError { what, cause: "no ARN".to_owned() })
    }

    async fn map(&self, queue_arn: &str, function: &str) -> Result<(), CallError> {
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

    /// Sends the failures of a function to a queue, and turns off Lambda's own two retries, which would delay the first
    /// failure record by three minutes. The queue becomes the dead-letter queue of a durable function, whose failures
    /// have no other way.
    async fn send_failures(&self, function: &Function, queue_arn: &str) -> Result<(), CallError> {
        let Function { name: function, durable, .. } = function;
        let what = format!("send failures of {function} to {queue_arn}");
        if *durable {
            let queue = DeadLetterConfig::builder().target_arn(queue_arn).build();
            let call = self.lambda.update_function_configuration().function_name(function);
            let updated = call.dead_letter_config(queue).send().await;
            return updated.map(drop).map_err(failed(&what));
        }
        let queue = OnFailure::builder().destination(queue_arn).build();
        let call = self.lambda.put_function_event_invoke_config().function_name(function);
        let put = call
            .maximum_retry_attempts(0)
            .destination_config(DestinationConfig::builder().on_failure(queue).build())
            .send()
            .await;
        put.map(drop).map_err(failed(&what))
    }
}

/// The handler's settings for a durable function among these. Lambda invokes one only by a qualified ARN.
fn of_durable(functions: &[Function]) -> Vec<(String, String)> {
    let Some(Function { name, .. }) = functions.iter().find(|function| function.durable) else {
        return Vec::new();
    };
    let target = format!("arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}:$LATEST");
    let policies = serde_json::json!({ name: { "DURABLE": "true" } }).to_string();
    [("DLQ_TARGET", target), ("POLICIES", policies)]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
}

/// The name of the retry queue of one function or queue.
pub fn queue_of(target: &str) -> String {
    format!("{RETRY_QUEUE}-{target}")
}

fn seconds(duration: Duration) -> String {
    duration.as_secs().to_string()
}

/// Converts the error of a call: to AWS's code and message, or to the chain of causes if there was no response.
pub fn failed<E, R>(what: &str) -> impl FnOnce(SdkError<E, R>) -> CallError
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
    R: Debug,
{
    let what = what.to_owned();
    move |error| {
        let said = error.code().zip(error.message());
        let cause = match said {
            Some((code, message)) => format!("{code}: {message}"),
            None => DisplayErrorContext(&error).to_string(),
        };
        CallError { what, cause }
    }
}
