//! Calls that read facts from AWS. Each may fail independently of the others.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use crate::operate::{
    attach::rules::Previous,
    doctor::rules::{
        EARLIER, Fact, InvokeConfig, Ledger, Mapping, Metric, Queue, QueueAttributes, Running,
        State, Table, Target, actions_on_ledger,
    },
    rules::Function,
    rules::{Clock, Fault},
};
use aws_sdk_cloudwatch::{
    primitives::DateTime,
    types::{Dimension, Metric as CloudWatchMetric, MetricDataQuery, MetricStat},
};
use aws_sdk_dynamodb::types::{KeySchemaElement, TableDescription, TimeToLiveStatus};
use aws_sdk_iam::types::{EvaluationResult, PolicyEvaluationDecisionType};
use aws_sdk_lambda::types::{
    EventSourceMappingConfiguration, FunctionEventInvokeConfig, FunctionResponseType,
    LastUpdateStatus, RecursiveLoop,
};
use aws_sdk_sqs::types::QueueAttributeName;
use comeback_core::{Timestamp, contract::TABLE};
use tokio::sync::Semaphore;

use super::aws::{Aws, fault};

/// The maximum number of concurrent calls. Lambda allows an account 15 calls a second.
const CALLS_MAX: usize = 16;

const METRICS_MAX: usize = 500;
/// The statistic whose data points are combined by their maximum instead of their sum.
pub const MAXIMUM: &str = "Maximum";
/// The period of a data point. The first data point of a longer period would begin before the requested time.
const METRIC_POINT: Duration = Duration::from_hours(1);

pub type Tags = BTreeMap<String, String>;

/// The actions that a role may not perform, each with its resource.
pub type Denied = Vec<(String, String)>;

/// The clients, with a limit on concurrent calls.
#[derive(Clone)]
pub struct Calls {
    /// The clients, which slow down when AWS throttles them.
    pub aws: Aws,
    permits: Arc<Semaphore>,
}

impl Calls {
    pub fn new(aws: &Aws) -> Self {
        Self { aws: aws.adaptive(), permits: Arc::new(Semaphore::new(CALLS_MAX)) }
    }

    /// Makes a call as soon as fewer than [`CALLS_MAX`] calls are running.
    pub async fn call<T>(&self, call: impl Future<Output = T>) -> T {
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await;
        call.await
    }

    /// All event source mappings of SQS queues, by the queue.
    pub async fn mappings(&self) -> Fact<Vec<Mapping>> {
        let mut mappings = Vec::new();
        let mut pages = self.aws.lambda.list_event_source_mappings().into_paginator().send();
        while let Some(page) = self.call(pages.next()).await {
            let page = page.map_err(fault("lambda:ListEventSourceMappings", "*"))?;
            mappings.extend(page.event_source_mappings.unwrap_or_default().iter().map(mapping));
        }
        mappings.retain(|mapping| mapping.queue.contains(":sqs:"));
        mappings.sort_by(|one, other| one.queue.cmp(&other.queue));
        Ok(mappings)
    }

    /// The event invoke configs of a function, its aliases and its versions.
    pub async fn invoke_configs(&self, name: &str) -> Fact<Vec<InvokeConfig>> {
        let mut configs = Vec::new();
        let call = self.aws.lambda.list_function_event_invoke_configs().function_name(name);
        let mut pages = call.into_paginator().send();
        while let Some(page) = self.call(pages.next()).await {
            let page = page.map_err(fault("lambda:ListFunctionEventInvokeConfigs", name))?;
            configs.extend(page.function_event_invoke_configs.unwrap_or_default());
        }
        Ok(configs.iter().map(invoke_config).collect())
    }

    /// The names of the queues that a function was attached to, according to its tags.
    pub async fn attached(&self, arn: &str) -> Fact<BTreeSet<String>> {
        let tags = self.call(tags(&self.aws, arn)).await?;
        Ok(Previous::queues(&tags).collect())
    }

    /// Those of the functions whose failures a handler has counted in [`EARLIER`].
    pub async fn counted(&self, names: &[String]) -> Fact<BTreeSet<String>> {
        let wanted = names.iter().map(|name| (Metric::EventAges, name.clone())).collect();
        let values = self.values(wanted, EARLIER).await?;
        Ok(values.into_keys().map(|(_, name)| name).collect())
    }

    /// The facts about a function that ListFunctions doesn't return.
    pub async fn running(&self, name: &str) -> Running {
        let lambda = &self.aws.lambda;
        let (state, recursion, reserved) = tokio::join!(
            self.call(lambda.get_function_configuration().function_name(name).send()),
            self.call(may_loop(&self.aws, name)),
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

    pub async fn queue(&self, arn: String, url: String) -> Queue {
        let call = self.aws.sqs.get_queue_attributes().queue_url(&url);
        let answer = self.call(call.attribute_names(QueueAttributeName::All).send()).await;
        let attributes = match answer.map_err(fault("sqs:GetQueueAttributes", &arn)) {
            Ok(answer) => {
                let attributes = answer.attributes.unwrap_or_default().into_iter();
                let attributes = attributes.map(|(name, value)| (name.as_str().to_owned(), value));
                Ok(Some(QueueAttributes::read(&attributes.collect())))
            }
            Err(fault) if is_missing(&fault) => Ok(None),
            Err(fault) => Err(fault),
        };
        Queue { arn, url, attributes }
    }

    /// The names of the queues whose redrive policy names this queue.
    pub async fn moved_from(&self, arn: &str, url: String) -> Fact<Vec<String>> {
        let mut names = Vec::new();
        let call = self.aws.sqs.list_dead_letter_source_queues().queue_url(url);
        let mut pages = call.into_paginator().send();
        while let Some(page) = self.call(pages.next()).await {
            match page.map_err(fault("sqs:ListDeadLetterSourceQueues", arn)) {
                Ok(page) => {
                    let name = |url: &String| url.rsplit('/').next().unwrap_or(url).to_owned();
                    names.extend(page.queue_urls.iter().map(name));
                }
                Err(fault) if is_missing(&fault) => break,
                Err(fault) => return Err(fault),
            }
        }
        Ok(names)
    }

    /// Which of these actions on these resources a role may not perform, according to IAM's policy simulator.
    pub async fn denied(
        &self,
        role: &str,
        actions: &[&str],
        resources: Vec<String>,
    ) -> Fact<Denied> {
        let mut denied = Vec::new();
        if resources.is_empty() {
            return Ok(denied);
        }
        let call = self.aws.iam.simulate_principal_policy().policy_source_arn(role);
        let actions = actions.iter().map(|&action| action.to_owned()).collect();
        let call = call.set_action_names(Some(actions));
        let call = call.set_resource_arns(Some(resources.clone()));
        let mut pages = call.into_paginator().send();
        while let Some(page) = self.call(pages.next()).await {
            let page = page.map_err(fault("iam:SimulatePrincipalPolicy", role))?;
            let results = page.evaluation_results.unwrap_or_default();
            denied.extend(results.iter().flat_map(|result| lacking(result, &resources)));
        }
        Ok(denied)
    }

    /// Whether the handler's role may invoke each of the targets. Makes only one call.
    pub async fn invocations(&self, role: &str, targets: &[Target]) -> Vec<Fact<bool>> {
        let all = targets.iter().flat_map(invoked_arns).collect();
        let denied = self.denied(role, &["lambda:InvokeFunction"], all).await;
        let may_be_invoked = |target| {
            let own = invoked_arns(target);
            denied.clone().map(|denied| denied.iter().all(|(_, on)| !own.contains(on)))
        };
        targets.iter().map(may_be_invoked).collect()
    }

    /// The ledger of this handler, if it has one.
    pub async fn ledger(&self, handler: &Function) -> Option<Ledger> {
        let Function { arn: handler_arn, role, environment, .. } = handler;
        let name = environment.get("LEDGER_TABLE").filter(|name| !name.trim().is_empty())?.clone();
        let arn = if name.starts_with("arn:") {
            name.clone()
        } else {
            let home = handler_arn.split(":function:").next().unwrap_or_default();
            format!("{}:table/{name}", home.replacen(":lambda:", ":dynamodb:", 1))
        };
        let dynamodb = self.aws.dynamodb_of(handler);
        let actions = actions_on_ledger(environment);
        let (table, expiry, denied) = tokio::join!(
            self.call(dynamodb.describe_table().table_name(&name).send()),
            self.call(dynamodb.describe_time_to_live().table_name(&name).send()),
            self.denied(role, &actions, vec![arn.clone()]),
        );
        let table = match table.map_err(fault("dynamodb:DescribeTable", &arn)) {
            Ok(answer) => Ok(answer.table.as_ref().map(table_of)),
            Err(fault) if is_missing(&fault) => Ok(None),
            Err(fault) => Err(fault),
        };
        let expiry = expiry.map_err(fault("dynamodb:DescribeTimeToLive", &arn)).map(|answer| {
            let description = answer.time_to_live_description?;
            let is_on = matches!(
                description.time_to_live_status,
                Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling)
            );
            description.attribute_name.filter(|_| is_on)
        });
        let denied = denied.map(|denied| denied.into_iter().map(|(action, _)| action).collect());
        Some(Ledger { name, table, expiry, denied })
    }

    /// The metrics of the handler, the targets and the dead-letter queue.
    pub async fn metrics(
        &self,
        handler: &Function,
        targets: &[Target],
        dead_letters: &Queue,
    ) -> Fact<BTreeMap<(Metric, String), f64>> {
        let of_handler = Metric::OF_HANDLER.map(|metric| (metric, handler.name().to_owned()));
        let of_targets = targets.iter().filter(|target| target.function.is_some());
        let of_targets =
            of_targets.flat_map(|it| Metric::OF_TARGET.map(|metric| (metric, it.name.clone())));
        let oldest = (Metric::OldestMessage, dead_letters.name().to_owned());
        let wanted = of_handler.into_iter().chain(of_targets).chain([oldest]).collect();
        self.values(wanted, Metric::PERIOD).await
    }

    /// The values of metrics in a period until now. Metrics without data points are missing.
    async fn values(
        &self,
        wanted: Vec<(Metric, String)>,
        period: Duration,
    ) -> Fact<BTreeMap<(Metric, String), f64>> {
        let query = |(metric, of): &(Metric, String)| {
            let (namespace, name, dimension) = metric.place();
            let (dimensions, statistic) = (vec![(dimension, of.clone())], metric.statistic());
            Query { namespace, name, dimensions, statistic, period: METRIC_POINT }
        };
        let queries: Vec<_> = wanted.iter().map(query).collect();
        let now = self.aws.now();
        let values = self.call(metric_data(&self.aws, &queries, now - period, now)).await?;
        let found = wanted.into_iter().zip(values);
        Ok(found.filter_map(|(key, value)| Some((key, value?))).collect())
    }
}

pub async fn tags(aws: &Aws, arn: &str) -> Fact<Tags> {
    let tags = aws.lambda.list_tags().resource(arn).send().await;
    let tags = tags.map_err(fault("lambda:ListTags", arn))?.tags.unwrap_or_default();
    Ok(tags.into_iter().collect())
}

/// Whether a function's `RecursiveLoop` is `Allow`.
pub async fn may_loop(aws: &Aws, name: &str) -> Fact<bool> {
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

/// The values of metrics in this time range, in the order of the queries: the maximum or the sum of the data points, or
/// None if there are no data points.
pub async fn metric_data(
    aws: &Aws,
    queries: &[Query],
    from: Timestamp,
    until: Timestamp,
) -> Result<Vec<Option<f64>>, Fault> {
    let mut values = vec![None; queries.len()];
    for (queries, values) in queries.chunks(METRICS_MAX).zip(values.chunks_mut(METRICS_MAX)) {
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
                let points = values[index].into_iter().chain(result.values().iter().copied());
                values[index] = if queries[index].statistic == MAXIMUM {
                    points.reduce(f64::max)
                } else {
                    points.reduce(|sum, point| sum + point)
                };
            }
        }
    }
    Ok(values)
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

/// The ARNs of a target in failure records. The ARN of an unqualified function has the version `$LATEST`.
fn invoked_arns(target: &Target) -> Vec<String> {
    let Some((function, _)) = &target.function else { return Vec::new() };
    let qualifiers = target.configs.iter().flatten().map(|config| config.qualifier.as_deref());
    qualifiers.map(|it| format!("{}:{}", function.arn, it.unwrap_or("$LATEST"))).collect()
}

/// Whether a fault means that the queue or table doesn't exist.
fn is_missing(fault: &Fault) -> bool {
    let code = fault.code.as_deref().unwrap_or_default();
    code.contains("NonExistentQueue")
        || code.contains("QueueDoesNotExist")
        || code == "ResourceNotFoundException"
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
