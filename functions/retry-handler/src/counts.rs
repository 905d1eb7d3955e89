//! CloudWatch's counts of a function's invocations, whoever makes them.

use std::{collections::BTreeMap, time::Duration};

use aws_sdk_cloudwatch::{
    Client,
    error::DisplayErrorContext,
    primitives::DateTime,
    types::{Dimension, Metric, MetricDataQuery, MetricDataResult, MetricStat},
};
use comeback_core::{Timestamp, arn::FunctionArn, circuit::Minute};
use comeback_flow::ports::CallFault;

const INVOCATIONS: &str = "Invocations";
const ERRORS: &str = "Errors";

const MINUTE: Duration = Duration::from_secs(60);

/// The minutes between these times for which there are counts.
pub(crate) async fn minutes(
    metrics: &Client,
    function: &FunctionArn,
    from: Timestamp,
    until: Timestamp,
) -> Result<Vec<Minute>, CallFault> {
    let call = metrics
        .get_metric_data()
        .metric_data_queries(query("invocations", INVOCATIONS, function))
        .metric_data_queries(query("errors", ERRORS, function))
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
