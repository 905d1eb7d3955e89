//! Reads metrics of CloudWatch.

use std::time::Duration;

use aws_sdk_cloudwatch::{
    primitives::DateTime,
    types::{Dimension, Metric as CloudWatchMetric, MetricDataQuery, MetricStat},
};
use comeback_core::Timestamp;

use crate::{
    account::fault::Answer,
    aws::{Aws, fault},
};

const METRICS_MAX: usize = 500;

/// The statistic whose data points are combined by their maximum instead of their sum.
pub const MAXIMUM: &str = "Maximum";

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
