//! Clients for AWS or the local cloud, how their calls fail, and the calls that read facts. Each may fail independently
//! of the others.

mod connect;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use aws_sdk_cloudwatch::{
    primitives::DateTime,
    types::{Dimension, Metric as CloudWatchMetric, MetricDataQuery, MetricStat},
};
use aws_sdk_dynamodb::types::{KeySchemaElement, TableDescription, TimeToLiveStatus};
use aws_sdk_iam::types::{EvaluationResult, PolicyEvaluationDecisionType};
use aws_sdk_lambda::types::{
    Architecture, CodeSigningPolicy, EventSourceMappingConfiguration, FunctionConfiguration,
    FunctionEventInvokeConfig, FunctionResponseType, LastUpdateStatus, RecursiveLoop,
};
use aws_sdk_sqs::{
    error::{ProvideErrorMetadata, SdkError},
    types::{BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, QueueAttributeName},
};
use comeback_core::{
    Timestamp,
    arn::{self, FunctionArn},
    contract::TABLE,
    fault::{FaultKind, classify, classify_send},
};
use futures_util::future::{OptionFuture, join_all};
use tokio::sync::Semaphore;

use crate::operate::{
    attach::rules::Previous,
    aws::connect::{ENDPOINT, TABLE_ENDPOINT},
    doctor::rules::{
        ACTIONS_ON_KEY, ACTIONS_ON_RETRY_QUEUE, Consumer, EARLIER, InvokeConfig, Keys, KnownBy,
        Layer, Ledger, Mapping, Metric, Queue, QueueAttributes, RetryQueue, Running, Source, State,
        Table, Target, actions_on_ledger,
    },
    rules::{Answer, Clock, Fault, Function, Unsupported, role_name},
};

pub use crate::operate::aws::connect::{Connection, LOCAL, NoClients};

#[derive(Clone)]
pub struct Aws {
    pub cloudwatch: aws_sdk_cloudwatch::Client,
    pub dynamodb: aws_sdk_dynamodb::Client,
    pub iam: aws_sdk_iam::Client,
    pub lambda: aws_sdk_lambda::Client,
    pub logs: aws_sdk_cloudwatchlogs::Client,
    pub sqs: aws_sdk_sqs::Client,
    pub region: String,
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
    /// Makes up to ten messages of a queue visible immediately, and returns a result for each. A message that is
    /// already visible or deleted is a success.
    pub async fn make_visible(
        &self,
        queue_url: &str,
        resource: &str,
        receipt_handles: &[&str],
    ) -> Vec<Answer<()>> {
        const ACTION: &str = "sqs:ChangeMessageVisibility";
        const GONE: [&str; 3] = ["NotInflight", "ReceiptHandle", "InvalidParameterValue"];
        let entry = |(index, handle): (usize, &&str)| {
            ChangeMessageVisibilityBatchRequestEntry::builder()
                .id(index.to_string())
                .receipt_handle(*handle)
                .visibility_timeout(0)
                .build()
                // All required members are set.
                .ok()
        };
        let entries = receipt_handles.iter().enumerate().filter_map(entry).collect();
        let call = self.sqs.change_message_visibility_batch().queue_url(queue_url);
        let answer = call.set_entries(Some(entries)).send().await;
        let failed = answer.map_err(fault(ACTION, resource)).map(|mut answer| {
            answer.failed.retain(|it| !GONE.iter().any(|code| it.code.contains(code)));
            answer.failed
        });
        of_each(ACTION, resource, receipt_handles.len(), failed)
    }

    pub async fn set_queue_attribute(&self, url: &str, attribute: &str, value: &str) -> Answer<()> {
        let call = self.sqs.set_queue_attributes().queue_url(url);
        let call = call.attributes(QueueAttributeName::from(attribute), value);
        call.send().await.map(drop).map_err(fault("sqs:SetQueueAttributes", url))
    }

    pub async fn set_loop(&self, function: &str, allow: bool) -> Answer<()> {
        let value = if allow { RecursiveLoop::Allow } else { RecursiveLoop::Terminate };
        let call = self.lambda.put_function_recursion_config().function_name(function);
        let answer = call.recursive_loop(value).send().await;
        answer.map(drop).map_err(fault("lambda:PutFunctionRecursionConfig", function))
    }

    pub async fn put_role_policy(&self, role: &str, policy: &str, document: &str) -> Answer<()> {
        let call = self.iam.put_role_policy().role_name(role_name(role)).policy_name(policy);
        let call = call.policy_document(document);
        call.send().await.map(drop).map_err(fault("iam:PutRolePolicy", role))
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

pub async fn functions(aws: &Aws) -> Answer<Vec<Function>> {
    let listed = aws.lambda.list_functions().into_paginator().items().send();
    let listed = listed.collect::<Result<Vec<_>, _>>().await;
    Ok(listed.map_err(fault("lambda:ListFunctions", "*"))?.into_iter().map(function).collect())
}

pub fn function(it: FunctionConfiguration) -> Function {
    let name = it.function_name.unwrap_or_default();
    let log_group = it.logging_config.and_then(|logging| logging.log_group);
    let variables = it.environment.and_then(|environment| environment.variables);
    let architecture = it.architectures.unwrap_or_default().into_iter().next();
    let seconds = it.timeout.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or_default();
    let layers = it.layers.unwrap_or_default().into_iter().filter_map(|layer| layer.arn);
    let target = it.dead_letter_config.and_then(|config| config.target_arn);
    let subnets = it.vpc_config.and_then(|vpc| vpc.subnet_ids).unwrap_or_default();
    let tenancy = it.tenancy_config.map(|_| Unsupported::TenantIsolation);
    let unsupported = tenancy.or(it.durable_config.map(|_| Unsupported::Durable));
    Function {
        arn: it.function_arn.unwrap_or_default(),
        role: it.role.unwrap_or_default(),
        environment: variables.unwrap_or_default().into_iter().collect(),
        runtime: it.runtime.map(|runtime| runtime.as_str().to_owned()),
        architecture: architecture.unwrap_or(Architecture::X8664).as_str().to_owned(),
        timeout: Duration::from_secs(seconds),
        layers: layers.collect(),
        in_vpc: !subnets.is_empty(),
        code: it.code_sha256.unwrap_or_default(),
        dead_letter_target: target.filter(|arn| !arn.is_empty()),
        log_group: log_group.unwrap_or_else(|| format!("/aws/lambda/{name}")),
        revision: it.revision_id,
        unsupported,
    }
}

/// The maximum number of concurrent calls of a command that makes many. Lambda allows an account 15 calls a second.
const CALLS_MAX: usize = 16;

const METRICS_MAX: usize = 500;
/// The statistic whose data points are combined by their maximum instead of their sum.
pub const MAXIMUM: &str = "Maximum";
/// The period of a data point. The first data point of a longer period would begin before the requested time.
const METRIC_POINT: Duration = Duration::from_hours(1);

pub type Tags = BTreeMap<String, String>;

/// The actions that a role may not perform, each with its resource.
pub type Denied = Vec<(String, String)>;

impl Aws {
    /// Makes a call as soon as fewer than [`CALLS_MAX`] calls are running.
    pub async fn call<T>(&self, call: impl Future<Output = T>) -> T {
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await;
        call.await
    }

    pub async fn mappings(&self) -> Answer<Vec<Mapping>> {
        let listed = self.lambda.list_event_source_mappings().into_paginator().items().send();
        let listed = self.call(listed.collect::<Result<Vec<_>, _>>()).await;
        let listed = listed.map_err(fault("lambda:ListEventSourceMappings", "*"))?;
        let mut mappings: Vec<_> = listed.iter().map(mapping).collect();
        mappings.retain(|mapping| mapping.queue.contains(":sqs:"));
        mappings.sort_by(|one, other| one.queue.cmp(&other.queue));
        Ok(mappings)
    }

    pub async fn invoke_configs(&self, name: &str) -> Answer<Vec<InvokeConfig>> {
        let call = self.lambda.list_function_event_invoke_configs().function_name(name);
        let listed = call.into_paginator().items().send().collect::<Result<Vec<_>, _>>();
        let listed = self.call(listed).await;
        let listed = listed.map_err(fault("lambda:ListFunctionEventInvokeConfigs", name))?;
        Ok(listed.iter().map(invoke_config).collect())
    }

    /// The names of the queues that a function was attached to, according to its tags.
    pub async fn attached(&self, arn: &str) -> Answer<BTreeSet<String>> {
        let tags = self.call(tags(self, arn)).await?;
        Ok(Previous::queues(&tags).collect())
    }

    /// Those of the functions whose failures a handler has counted in [`EARLIER`].
    pub async fn counted(&self, names: &[String]) -> Answer<BTreeSet<String>> {
        let wanted = names.iter().map(|name| (Metric::EVENT_AGES, name.clone())).collect();
        let values = self.values(wanted, EARLIER).await?;
        Ok(values.into_keys().map(|(_, name)| name).collect())
    }

    /// The facts about a function that ListFunctions doesn't return.
    pub async fn running(&self, name: &str) -> Running {
        let lambda = &self.lambda;
        let (state, recursion, reserved) = tokio::join!(
            self.call(lambda.get_function_configuration().function_name(name).send()),
            self.call(may_loop(self, name)),
            self.call(lambda.get_function_concurrency().function_name(name).send()),
        );
        Running {
            state: state.map_err(fault("lambda:GetFunctionConfiguration", name)).map(|it| State {
                state: it.state.map(|state| state.as_str().to_owned()).unwrap_or_default(),
                reason: it.state_reason,
                failed_update: (it.last_update_status == Some(LastUpdateStatus::Failed))
                    .then(|| it.last_update_status_reason.unwrap_or_default()),
            }),
            may_loop: recursion,
            reserved: reserved
                .map_err(fault("lambda:GetFunctionConcurrency", name))
                .map(|it| it.reserved_concurrent_executions.and_then(|it| u32::try_from(it).ok())),
        }
    }

    pub async fn queue(&self, arn: &str) -> Queue {
        self.queue_at(arn, arn::queue_url(arn).unwrap_or_default()).await
    }

    pub async fn queue_at(&self, arn: &str, url: String) -> Queue {
        let call = self.sqs.get_queue_attributes().queue_url(&url);
        let answer = self.call(call.attribute_names(QueueAttributeName::All).send()).await;
        let answer = answer.map_err(fault("sqs:GetQueueAttributes", arn)).map(|answer| {
            let attributes = answer.attributes.unwrap_or_default().into_iter();
            let attributes = attributes.map(|(name, value)| (name.as_str().to_owned(), value));
            QueueAttributes::read(&attributes.collect())
        });
        Queue { arn: arn.to_owned(), url, attributes: existing(answer) }
    }

    /// The names of the queues whose redrive policy names this queue.
    async fn moved_from(&self, arn: &str) -> Answer<Vec<String>> {
        let url = arn::queue_url(arn).unwrap_or_default();
        let call = self.sqs.list_dead_letter_source_queues().queue_url(url);
        let urls = call.into_paginator().items().send().collect::<Result<Vec<_>, _>>();
        let urls = self.call(urls).await.map_err(fault("sqs:ListDeadLetterSourceQueues", arn));
        let name = |url: &String| url.rsplit('/').next().unwrap_or(url).to_owned();
        Ok(existing(urls)?.iter().flatten().map(name).collect())
    }

    /// Which of these actions on these resources a role may not perform, according to IAM's policy simulator.
    pub async fn denied(
        &self,
        role: &str,
        actions: &[&str],
        resources: Vec<String>,
    ) -> Answer<Denied> {
        if resources.is_empty() {
            return Ok(Denied::new());
        }
        let call = self.iam.simulate_principal_policy().policy_source_arn(role);
        let actions = actions.iter().map(|&action| action.to_owned()).collect();
        let call = call.set_action_names(Some(actions));
        let call = call.set_resource_arns(Some(resources.clone()));
        let results = call.into_paginator().items().send().collect::<Result<Vec<_>, _>>();
        let results =
            self.call(results).await.map_err(fault("iam:SimulatePrincipalPolicy", role))?;
        Ok(results.iter().flat_map(|result| lacking(result, &resources)).collect())
    }

    /// Whether the handler's role may invoke each of the targets. Makes only one call.
    pub async fn invocations(&self, handler: &Function, targets: &[Target]) -> Vec<Answer<bool>> {
        let by_letters = handler.dlq_target();
        let invoked = |target| invoked_arns(target, by_letters.as_ref());
        let all = targets.iter().flat_map(invoked).collect();
        let denied = self.denied(&handler.role, &["lambda:InvokeFunction"], all).await;
        let may_be_invoked = |target| {
            let own = invoked(target);
            denied.clone().map(|denied| denied.iter().all(|(_, on)| !own.contains(on)))
        };
        targets.iter().map(may_be_invoked).collect()
    }

    pub async fn ledger(&self, handler: &Function) -> Option<Ledger> {
        let Function { arn: handler_arn, role, environment, .. } = handler;
        let name = handler.ledger()?.to_owned();
        let arn = if name.starts_with("arn:") {
            name.clone()
        } else {
            let home = handler_arn.split(":function:").next().unwrap_or_default();
            format!("{}:table/{name}", home.replacen(":lambda:", ":dynamodb:", 1))
        };
        let dynamodb = self.dynamodb_of(handler);
        let needed = actions_on_ledger(environment);
        let (table, expiry, denied) = tokio::join!(
            self.call(dynamodb.describe_table().table_name(&name).send()),
            self.call(dynamodb.describe_time_to_live().table_name(&name).send()),
            self.denied(role, &needed, vec![arn.clone()]),
        );
        let table = existing(table.map_err(fault("dynamodb:DescribeTable", &arn)));
        let table = table.map(|answer| answer?.table.as_ref().map(table_of));
        let expiry = expiry.map_err(fault("dynamodb:DescribeTimeToLive", &arn)).map(|answer| {
            let description = answer.time_to_live_description?;
            let is_on = matches!(
                description.time_to_live_status,
                Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling)
            );
            description.attribute_name.filter(|_| is_on)
        });
        Some(Ledger { name, table, expiry, denied: denied.map(actions) })
    }

    pub async fn target(
        &self,
        name: &str,
        function: Option<&Function>,
        known_by: KnownBy,
        configs: Answer<Vec<InvokeConfig>>,
        queues: &BTreeSet<String>,
    ) -> Target {
        let own = configs.iter().flatten().filter_map(|config| config.on_failure.clone());
        let own = own.chain(function.and_then(|it| it.dead_letter_target.clone()));
        let own: BTreeSet<_> = own.filter(|arn| queues.contains(arn)).collect();
        let own = Vec::from_iter(own);
        let layer = function.and_then(Function::own_layer);
        let layer = OptionFuture::from(layer.map(async |arn| self.call(self.layer(arn)).await));
        let (function, may_send, layer) = match function {
            Some(function) => {
                let may_send = self.denied(&function.role, &["sqs:SendMessage"], own.clone());
                let (running, denied, layer) = tokio::join!(self.running(name), may_send, layer);
                let may_send = own.into_iter().map(|arn| {
                    let may = denied.clone().map(|denied| denied.iter().all(|(_, on)| *on != arn));
                    (arn, may)
                });
                (Some((function.clone(), running)), may_send.collect(), layer)
            }
            None => (None, BTreeMap::new(), None),
        };
        let name = name.to_owned();
        Target { name, function, known_by, configs, may_send, may_be_invoked: Ok(true), layer }
    }

    pub async fn layer(&self, arn: &str) -> Answer<Layer> {
        let (layer, version) = arn.rsplit_once(':').unwrap_or((arn, ""));
        let call = self.lambda.get_layer_version().layer_name(layer);
        let call = call.version_number(version.parse().unwrap_or_default());
        let answer = call.send().await.map_err(fault("lambda:GetLayerVersion", arn))?;
        let architectures = answer.compatible_architectures.unwrap_or_default().into_iter();
        Ok(Layer {
            architectures: architectures.map(|it| it.as_str().to_owned()).collect(),
            signer: answer.content.and_then(|content| content.signing_profile_version_arn),
        })
    }

    /// The only signers whose layers a function takes; `None` if it takes all.
    pub async fn signers(&self, name: &str) -> Answer<Option<Vec<String>>> {
        let call = self.lambda.get_function_code_signing_config().function_name(name).send();
        let answer = call.await.map_err(fault("lambda:GetFunctionCodeSigningConfig", name))?;
        let arn = answer.code_signing_config_arn;
        if arn.is_empty() {
            return Ok(None);
        }
        let call = self.lambda.get_code_signing_config().code_signing_config_arn(&arn).send();
        let answer = call.await.map_err(fault("lambda:GetCodeSigningConfig", &arn))?;
        let config = answer.code_signing_config;
        let policies = config.as_ref().and_then(|it| it.code_signing_policies.as_ref());
        let untrusted = policies.and_then(|it| it.untrusted_artifact_on_deployment.as_ref());
        let is_enforced = untrusted == Some(&CodeSigningPolicy::Enforce);
        let signers = config.and_then(|it| it.allowed_publishers);
        Ok(signers.filter(|_| is_enforced).map(|it| it.signing_profile_version_arns))
    }

    /// What the handler and the targets that use these queues lack on the queues' keys.
    pub async fn keys(&self, handler: &Function, queues: &[&Queue], targets: &[Target]) -> Keys {
        let uses = queues.iter().flat_map(|queue| {
            let attributes = queue.attributes.as_ref().ok().and_then(Option::as_ref);
            let key = attributes.and_then(|it| it.key_arn(&handler.arn));
            let senders = targets.iter().filter(|it| it.may_send.contains_key(&queue.arn));
            let senders = senders.filter_map(|it| Some(&it.function.as_ref()?.0));
            let roles = senders.chain([handler]).map(|it| it.role.clone());
            key.into_iter().flat_map(move |key| roles.clone().map(move |role| (key.clone(), role)))
        });
        let uses: BTreeSet<_> = uses.collect();
        let denied = uses.into_iter().map(async |(key, role)| {
            let denied = self.denied(&role, &ACTIONS_ON_KEY, vec![key.clone()]).await;
            (key, role, denied.map(actions))
        });
        join_all(denied).await
    }

    /// The facts about a queue whose messages are retried, with the mappings and functions of its consumers.
    pub async fn source(
        &self,
        handler: &Function,
        arn: String,
        bound: BTreeSet<String>,
        consumers: Vec<(Mapping, Option<Function>)>,
    ) -> Source {
        let consumers = consumers.into_iter().map(async |(mapping, function)| {
            let function = function.map(async |it| {
                let running = self.running(it.name()).await;
                (it, running)
            });
            Consumer { mapping, function: OptionFuture::from(function).await }
        });
        let (queue, consumers, send) = tokio::join!(
            self.queue(&arn),
            join_all(consumers),
            self.denied(&handler.role, &["sqs:SendMessage"], vec![arn.clone()]),
        );
        let attributes = queue.attributes.as_ref().ok().and_then(Option::as_ref);
        let key = attributes.and_then(|it| it.key_arn(&handler.arn)).into_iter().collect();
        let key = self.denied(&handler.role, &ACTIONS_ON_KEY, key).await;
        let denied = send.and_then(|send| Ok([send, key?].concat()));
        Source { queue, bound, consumers, denied }
    }

    pub async fn retry_queue(
        &self,
        arn: &str,
        role: &str,
        other_consumers: Vec<String>,
    ) -> RetryQueue {
        let (queue, moved_from, denied) = tokio::join!(
            self.queue(arn),
            self.moved_from(arn),
            self.denied(role, &ACTIONS_ON_RETRY_QUEUE, vec![arn.to_owned()]),
        );
        RetryQueue { queue, denied: denied.map(actions), other_consumers, moved_from }
    }

    pub async fn metrics(
        &self,
        handler: &Function,
        targets: &[Target],
        sources: &[Source],
        dead_letters: &Queue,
    ) -> Answer<BTreeMap<(Metric, String), f64>> {
        let of_handler = Metric::OF_HANDLER.map(|metric| (metric, handler.name().to_owned()));
        let of_targets = targets.iter().filter(|target| target.function.is_some());
        let of_targets =
            of_targets.flat_map(|it| Metric::OF_TARGET.map(|metric| (metric, it.name.clone())));
        let oldest = (Metric::OLDEST_MESSAGE, dead_letters.name().to_owned());
        let of_sources = sources
            .iter()
            .flat_map(|it| Metric::OF_SOURCE.map(|metric| (metric, it.queue.name().to_owned())));
        let wanted = of_handler.into_iter().chain(of_targets).chain(of_sources).chain([oldest]);
        let wanted = wanted.collect();
        self.values(wanted, Metric::PERIOD).await
    }

    /// The values of metrics in a period until now. Metrics without data points are missing.
    async fn values(
        &self,
        wanted: Vec<(Metric, String)>,
        period: Duration,
    ) -> Answer<BTreeMap<(Metric, String), f64>> {
        let query = |(metric, of): (Metric, String)| {
            let (namespace, name, dimension) = metric.place();
            let (dimensions, statistic) = (vec![(dimension, of.clone())], metric.statistic());
            let query = Query { namespace, name, dimensions, statistic, period: METRIC_POINT };
            ((metric, of), query)
        };
        let asked = wanted.into_iter().map(query).collect();
        let now = self.now();
        let values = self.call(metric_data(self, asked, now - period, now)).await?;
        Ok(values.into_iter().collect())
    }
}

pub async fn tags(aws: &Aws, arn: &str) -> Answer<Tags> {
    let tags = aws.lambda.list_tags().resource(arn).send().await;
    let tags = tags.map_err(fault("lambda:ListTags", arn))?.tags.unwrap_or_default();
    Ok(tags.into_iter().collect())
}

pub async fn may_loop(aws: &Aws, name: &str) -> Answer<bool> {
    let call = aws.lambda.get_function_recursion_config().function_name(name).send();
    let answer = call.await.map_err(fault("lambda:GetFunctionRecursionConfig", name))?;
    Ok(answer.recursive_loop == Some(RecursiveLoop::Allow))
}

pub struct Query {
    pub namespace: &'static str,
    pub name: &'static str,
    pub dimensions: Vec<(&'static str, String)>,
    /// The statistic: [`MAXIMUM`] or `Sum`.
    pub statistic: &'static str,
    pub period: Duration,
}

/// The values of metrics in this time range, by the keys of their queries: the maximum or the sum of the data points.
/// Metrics without data points are missing.
pub async fn metric_data<Key>(
    aws: &Aws,
    asked_for: Vec<(Key, Query)>,
    from: Timestamp,
    until: Timestamp,
) -> Answer<Vec<(Key, f64)>> {
    let asked_for = asked_for.into_iter().map(|(key, query)| ((key, query.statistic), query));
    let all = metric_points(aws, asked_for.collect(), from, until).await?;
    let value = |((key, statistic), points): ((Key, &str), Vec<(i64, f64)>)| {
        let values = points.into_iter().map(|(_, value)| value);
        let merge = if statistic == MAXIMUM { f64::max } else { |sum, value| sum + value };
        Some((key, values.reduce(merge)?))
    };
    Ok(all.into_iter().filter_map(value).collect())
}

/// The data points of metrics in this time range, by the keys of their queries. A point is the second in which its
/// period begins, and its value. They are in no order.
pub async fn metric_points<Key>(
    aws: &Aws,
    asked_for: Vec<(Key, Query)>,
    from: Timestamp,
    until: Timestamp,
) -> Answer<Vec<(Key, Vec<(i64, f64)>)>> {
    let (keys, queries): (Vec<_>, Vec<_>) = asked_for.into_iter().unzip();
    let mut points = vec![Vec::new(); queries.len()];
    for (queries, points) in queries.chunks(METRICS_MAX).zip(points.chunks_mut(METRICS_MAX)) {
        let call = aws
            .cloudwatch
            .get_metric_data()
            .set_metric_data_queries(Some(queries.iter().enumerate().map(asked).collect()))
            .start_time(DateTime::from_secs(from.timestamp()))
            .end_time(DateTime::from_secs(until.timestamp()));
        let mut pages = call.into_paginator().send();
        while let Some(page) = pages.next().await {
            let page = page.map_err(fault("cloudwatch:GetMetricData", "*"))?;
            for result in page.metric_data_results() {
                let index = result.id().and_then(|id| id.strip_prefix('m')?.parse().ok());
                let Some(index) = index.filter(|index: &usize| *index < queries.len()) else {
                    continue;
                };
                let seconds = result.timestamps().iter().map(DateTime::secs);
                points[index].extend(seconds.zip(result.values().iter().copied()));
            }
        }
    }
    Ok(keys.into_iter().zip(points).collect())
}

fn asked((index, query): (usize, &Query)) -> MetricDataQuery {
    let dimension =
        |(name, value): &(&str, String)| Dimension::builder().name(*name).value(value).build();
    let dimensions = query.dimensions.iter().map(dimension).collect();
    let metric = CloudWatchMetric::builder().namespace(query.namespace).metric_name(query.name);
    let stat = MetricStat::builder()
        .metric(metric.set_dimensions(Some(dimensions)).build())
        .period(i32::try_from(query.period.as_secs()).unwrap_or(i32::MAX))
        .stat(query.statistic);
    MetricDataQuery::builder().id(format!("m{index}")).metric_stat(stat.build()).build()
}

/// The resources for which a result of the simulation is a denial. A denial for lack of a condition key's value counts
/// as allowed. A result is either about one resource, or about all, with a decision for each.
fn lacking(result: &EvaluationResult, asked: &[String]) -> Denied {
    let is_no = |decision: &PolicyEvaluationDecisionType, missing: &[String]| {
        *decision != PolicyEvaluationDecisionType::Allowed && missing.is_empty()
    };
    let specific = result.resource_specific_results();
    let named = result.eval_resource_name().unwrap_or_default();
    let resources: Vec<_> = if !specific.is_empty() {
        let no = specific
            .iter()
            .filter(|it| is_no(&it.eval_resource_decision, it.missing_context_values()));
        no.map(|it| it.eval_resource_name.clone()).collect()
    } else if !is_no(&result.eval_decision, result.missing_context_values()) {
        Vec::new()
    } else if asked.iter().any(|resource| resource == named) {
        vec![named.to_owned()]
    } else {
        asked.to_vec()
    };
    resources.into_iter().map(|resource| (result.eval_action_name.clone(), resource)).collect()
}

pub fn actions(denied: Denied) -> Vec<String> {
    denied.into_iter().map(|(action, _)| action).collect()
}

/// The ARNs by which a target is invoked: those in failure records, and that of `DLQ_TARGET`. The ARN of an unqualified
/// function has the version `$LATEST` in records.
fn invoked_arns(target: &Target, by_letters: Option<&FunctionArn>) -> Vec<String> {
    let Some((function, _)) = &target.function else { return Vec::new() };
    let qualifiers = target.configs.iter().flatten().map(|config| config.qualifier.as_deref());
    let arns = qualifiers.map(|it| format!("{}:{}", function.arn, it.unwrap_or("$LATEST")));
    let own = by_letters.filter(|arn| arn.unqualified() == function.arn);
    arns.chain(own.map(|arn| arn.as_str().to_owned())).collect()
}

fn mapping(it: &EventSourceMappingConfiguration) -> Mapping {
    let number =
        |number: Option<i32>| number.and_then(|it| u32::try_from(it).ok()).unwrap_or_default();
    Mapping {
        uuid: it.uuid().unwrap_or_default().to_owned(),
        queue: it.event_source_arn().unwrap_or_default().to_owned(),
        function: it.function_arn().unwrap_or_default().to_owned(),
        state: it.state().unwrap_or_default().to_owned(),
        last_result: it.last_processing_result().map(str::to_owned),
        batch_size: number(it.batch_size()),
        window: Duration::from_secs(number(it.maximum_batching_window_in_seconds()).into()),
        reports_failures: it
            .function_response_types()
            .contains(&FunctionResponseType::ReportBatchItemFailures),
        is_filtered: it.filter_criteria().is_some_and(|filters| !filters.filters().is_empty()),
    }
}

pub fn invoke_config(it: &FunctionEventInvokeConfig) -> InvokeConfig {
    let qualifier = it.function_arn().unwrap_or_default().split(':').nth(7);
    let number = |number: Option<i32>| number.and_then(|it| u32::try_from(it).ok());
    let destinations = it.destination_config();
    let on_failure = destinations.and_then(|it| it.on_failure()).and_then(|it| it.destination());
    let on_success = destinations.and_then(|it| it.on_success()).and_then(|it| it.destination());
    let arn = |arn: Option<&str>| arn.filter(|arn| !arn.is_empty()).map(str::to_owned);
    InvokeConfig {
        qualifier: qualifier.filter(|it| *it != "$LATEST").map(str::to_owned),
        retries: number(it.maximum_retry_attempts()),
        age_max: number(it.maximum_event_age_in_seconds()).map(|it| Duration::from_secs(it.into())),
        on_failure: arn(on_failure),
        on_success: arn(on_success),
    }
}

fn table_of(it: &TableDescription) -> Table {
    let kind = |name: &str| {
        let attribute = it.attribute_definitions().iter().find(|it| it.attribute_name == name);
        format!("{name} {}", attribute.map_or("", |it| it.attribute_type.as_str()))
    };
    let key =
        |schema: &[KeySchemaElement]| schema.iter().map(|it| kind(&it.attribute_name)).collect();
    let waiting =
        it.global_secondary_indexes().iter().find(|it| it.index_name() == Some(TABLE.index));
    Table {
        status: it.table_status().map(|it| it.as_str().to_owned()).unwrap_or_default(),
        key: key(it.key_schema()),
        waiting: waiting.map(|index| {
            let status = index.index_status().map(|it| it.as_str().to_owned()).unwrap_or_default();
            (status, key(index.key_schema()))
        }),
    }
}

#[cfg(test)]
mod tests {
    use PolicyEvaluationDecisionType::{Allowed, ExplicitDeny, ImplicitDeny};
    use aws_sdk_iam::types::ResourceSpecificResult;

    use super::*;

    #[test]
    fn a_simulation_result_is_about_one_resource_or_about_each() {
        let asked = ["a", "b"].map(str::to_owned);
        let result = |decision| {
            EvaluationResult::builder().eval_action_name("sqs:SendMessage").eval_decision(decision)
        };
        let specific = |resource: &str, decision| {
            let result = ResourceSpecificResult::builder().eval_resource_name(resource);
            result.eval_resource_decision(decision).build().unwrap()
        };
        let of_each = result(ImplicitDeny)
            .eval_resource_name("*")
            .resource_specific_results(specific("a", Allowed))
            .resource_specific_results(specific("b", ExplicitDeny));
        for (result, expected) in [
            (result(Allowed).eval_resource_name("a"), [].as_slice()),
            (result(ImplicitDeny).eval_resource_name("a"), &["a"]),
            (result(ExplicitDeny).eval_resource_name("*"), &["a", "b"]),
            (result(ImplicitDeny).missing_context_values("aws:SourceVpc"), &[]),
            (of_each, &["b"]),
        ] {
            let denied = lacking(&result.build().unwrap(), &asked);
            let on: Vec<_> = denied.iter().map(|(_, resource)| resource.as_str()).collect();
            assert_eq!(on, expected, "{denied:?}");
        }
    }
}
