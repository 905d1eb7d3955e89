//! CloudWatch's counts of a function's invocations, whoever makes them.

use std::{collections::BTreeMap, time::Duration};

use aws_config::SdkConfig;
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

pub(crate) struct Metrics(Client);

impl Metrics {
    pub(crate) fn new(aws: &SdkConfig) -> Self {
        Self(Client::new(aws))
    }

    /// The minutes between these times that have data, by one call.
    pub(crate) async fn minutes(
        &self,
        function: &str,
        from: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<Minute>, CallFault> {
        let Some(function) = FunctionArn::parse(function) else { return Ok(Vec::new()) };
        let call = self
            .0
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
            for (began, sum) in values(result) {
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

fn values(result: &MetricDataResult) -> impl Iterator<Item = (i64, u32)> {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float saturates, and counts are whole"
    )]
    let sums = result.values().iter().map(|&sum| sum as u32);
    result.timestamps().iter().map(DateTime::secs).zip(sums)
}
