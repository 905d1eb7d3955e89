//! Asynchronous invocations, and CloudWatch's counts of all invocations.

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use aws_config::SdkConfig;
use aws_sdk_cloudwatch::{
    error::DisplayErrorContext,
    primitives::DateTime,
    types::{Dimension, Metric, MetricDataQuery, MetricDataResult, MetricStat},
};
use aws_sdk_lambda::{
    Client, error::SdkError, operation::invoke::InvokeError, primitives::Blob,
    types::InvocationType,
};
use comeback_core::{
    Timestamp,
    arn::FunctionArn,
    circuit::Minute,
    fault::{InvokeFault, classify},
};
use comeback_flow::ports::{CallFault, Functions, Invocation};

use crate::clients::fault_of;

/// The header by which X-Ray and Lambda's recursive-loop detection follow an event.
const TRACE_HEADER: &str = "x-amzn-trace-id";

pub struct LambdaFunctions {
    lambda: Client,
    /// For CloudWatch's counts of a function's invocations, whoever makes them.
    metrics: Option<aws_sdk_cloudwatch::Client>,
}

impl LambdaFunctions {
    /// The functions of this configuration's account, with their CloudWatch metrics if they are probed.
    pub fn new(aws: &SdkConfig, probes: bool) -> Self {
        let metrics = probes.then(|| aws_sdk_cloudwatch::Client::new(aws));
        Self { lambda: Client::new(aws), metrics }
    }
}

impl Functions for LambdaFunctions {
    async fn invoke(&self, invocation: Invocation<'_>) -> Result<(), InvokeFault> {
        let trace = invocation.trace_header.map(str::to_owned);
        let call = self
            .lambda
            .invoke()
            .function_name(invocation.function)
            .invocation_type(InvocationType::Event)
            .set_tenant_id(invocation.tenant_id.map(Cow::into_owned))
            .set_durable_execution_name(invocation.execution_name)
            .payload(Blob::new(invocation.payload));
        // The SDK would send the trace of the batch, which contains other events too.
        let traced = call.customize().mutate_request(move |request| {
            let headers = request.headers_mut();
            headers.remove(TRACE_HEADER);
            // A trace that is not a valid header value is dropped.
            let _ = trace.clone().map(|trace| headers.try_insert(TRACE_HEADER, trace));
        });
        traced.send().await.map(drop).map_err(|error| fault(&error))
    }

    async fn minutes(
        &self,
        function: &str,
        from: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<Minute>, CallFault> {
        let (Some(metrics), Some(function)) = (&self.metrics, FunctionArn::parse(function)) else {
            return Ok(Vec::new());
        };
        let call = metrics
            .get_metric_data()
            .metric_data_queries(query("invocations", INVOCATIONS, &function))
            .metric_data_queries(query("errors", ERRORS, &function))
            // CloudWatch begins its periods at whole minutes.
            .start_time(DateTime::from_secs(from.timestamp().div_euclid(60) * 60))
            .end_time(DateTime::from_secs(until.timestamp()));
        let answer = call.send().await;
        let answer = answer.map_err(|error| CallFault(DisplayErrorContext(error).to_string()))?;
        let mut minutes: BTreeMap<i64, Minute> = BTreeMap::new();
        for result in answer.metric_data_results() {
            for (began, sum) in values(result)? {
                let Some(at) = Timestamp::from_timestamp(began, 0) else { continue };
                let none = Minute { began: at, invocations: 0, errors: 0 };
                let minute = minutes.entry(began).or_insert(none);
                match result.id() {
                    Some("errors") => minute.errors = sum,
                    _ => minute.invocations = sum,
                }
            }
        }
        Ok(minutes.into_values().collect())
    }
}

fn fault(error: &SdkError<InvokeError>) -> InvokeFault {
    let (code, status, message) = fault_of(error);
    let kind = classify(code.as_deref(), status, &message, retry_after(error));
    InvokeFault { kind, code, message }
}

/// Lambda has this time in the error or in a header.
fn retry_after(error: &SdkError<InvokeError>) -> Option<Duration> {
    let in_error = match error.as_service_error() {
        Some(InvokeError::TooManyRequestsException(throttled)) => throttled.retry_after_seconds(),
        _ => None,
    };
    let in_header = || error.raw_response()?.headers().get("retry-after");
    Some(Duration::from_secs(in_error.or_else(in_header)?.parse().ok()?))
}

const INVOCATIONS: &str = "Invocations";
const ERRORS: &str = "Errors";

const MINUTE: Duration = Duration::from_secs(60);

/// A query for the sums of one of a function's metrics, minute by minute.
fn query(id: &str, name: &str, function: &FunctionArn) -> MetricDataQuery {
    let dimension = |name: &str, value: &str| Dimension::builder().name(name).value(value).build();
    let mut metric = Metric::builder()
        .namespace("AWS/Lambda")
        .metric_name(name)
        .dimensions(dimension("FunctionName", function.name()));
    let qualifier = function.as_str().strip_prefix(function.unqualified());
    let qualifier = qualifier.and_then(|rest| rest.strip_prefix(':'));
    // Lambda has separate metrics for versions and aliases, but not for `$LATEST`.
    if let Some(qualifier) = qualifier.filter(|it| !it.starts_with('$')) {
        let resource = format!("{}:{qualifier}", function.name());
        metric = metric.dimensions(dimension("Resource", &resource));
    }
    let period = i32::try_from(MINUTE.as_secs()).unwrap_or(i32::MAX);
    let stat = MetricStat::builder().metric(metric.build()).period(period).stat("Sum");
    MetricDataQuery::builder().id(id).metric_stat(stat.build()).build()
}

/// The sums of a result, each with the second at which its minute began. CloudWatch has them in two lists.
fn values(
    result: &MetricDataResult,
) -> Result<impl Iterator<Item = (i64, u32)> + use<'_>, CallFault> {
    let (times, sums) = (result.timestamps(), result.values());
    if times.len() != sums.len() {
        let (times, sums) = (times.len(), sums.len());
        return Err(CallFault(format!("expected a value for each of {times} minutes, got {sums}")));
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float saturates, and counts are whole"
    )]
    let sums = sums.iter().map(|&sum| sum as u32);
    Ok(times.iter().map(DateTime::secs).zip(sums))
}
