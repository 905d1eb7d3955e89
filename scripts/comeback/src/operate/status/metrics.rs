//! The metrics of CloudWatch that `comeback status` reads.

use std::{collections::HashMap, time::Duration};

use comeback_core::{
    Timestamp, arn::FunctionArn, emf::NAMESPACE, metric, reason::Reason, target::Target,
    time::earlier,
};

use crate::{
    account::{attached::Attached, fault::Answer, names::is_queue},
    aws::{
        Aws,
        metrics::{MAXIMUM, Query, metric_data, metric_points},
    },
    operate::status::rules::{Flow, Minutes, at_lambda, refuses, whole},
};

/// The time range of the current state.
const RECENT: Duration = Duration::from_mins(5);

const HOUR: Duration = Duration::from_hours(1);

const DAY: Duration = Duration::from_hours(24);

/// No event is in Lambda's queue for longer.
const EVENT_AGE_MAX: Duration = Duration::from_hours(6);

const MINUTE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Metric {
    Throttles,
    LambdaAge,
    Runs,
    Errors,
    Retried,
    Oldest,
    /// Dead letters with a reason, by its index in `Reason::ALL`.
    Dead(usize),
    /// Failures that Lambda could not send to the function's destination.
    Undelivered,
}

pub async fn metrics(
    aws: &Aws,
    attached: &[Attached],
    now: Timestamp,
) -> Answer<HashMap<(usize, Metric), f64>> {
    let until = next_minute(now);
    let mut found = HashMap::new();
    for (length, kinds) in [
        (RECENT, vec![Metric::Throttles, Metric::LambdaAge]),
        (HOUR, vec![Metric::Retried, Metric::Oldest]),
        (DAY, (0..Reason::ALL.len()).map(Metric::Dead).chain([Metric::Undelivered]).collect()),
    ] {
        let all =
            attached.iter().enumerate().flat_map(|it| kinds.iter().map(move |kind| (it, *kind)));
        let asked = |((nth, it), kind): ((usize, &Attached), Metric)| {
            queries(it, kind, length).into_iter().map(move |query| ((nth, kind), query))
        };
        let asked = all.flat_map(asked).collect();
        // A queue may have several consumers.
        for (key, value) in metric_data(aws, asked, earlier(until, length), until).await? {
            *found.entry(key).or_insert(0.0) += value;
        }
    }
    Ok(found)
}

/// The runs of each function in the last hour, by its place.
pub async fn runs(
    aws: &Aws,
    attached: &[Attached],
    now: Timestamp,
) -> Answer<HashMap<usize, Minutes>> {
    let until = next_minute(now);
    let all = attached.iter().enumerate();
    let all = all.flat_map(|it| [Metric::Runs, Metric::Errors].map(|kind| (it, kind)));
    let asked = all.flat_map(|((nth, it), kind)| {
        queries(it, kind, HOUR).into_iter().map(move |query| ((nth, kind), query))
    });
    let mut runs: HashMap<usize, Minutes> = HashMap::new();
    let from = earlier(until, HOUR);
    for ((nth, kind), points) in metric_points(aws, asked.collect(), from, until).await? {
        for (at, value) in points {
            let runs = runs.entry(nth).or_default().0.entry(at).or_default();
            let sum = if kind == Metric::Runs { &mut runs.invocations } else { &mut runs.errors };
            *sum += whole(value);
        }
    }
    Ok(runs)
}

/// The second since which runs are recent.
pub fn recent(now: Timestamp) -> i64 {
    earlier(next_minute(now), RECENT).timestamp()
}

/// The queries for a metric over this length of time. The period is a minute, or an hour for a day. The runs of a queue
/// are those of its consumers.
fn queries(attached: &Attached, kind: Metric, length: Duration) -> Vec<Query> {
    let Attached { arn, consumers, .. } = attached;
    let period = if length > HOUR { HOUR } else { MINUTE };
    let of_lambda = |name: &'static str| {
        let of_consumers = consumers.iter().map(|(name, _)| vec![("FunctionName", name.clone())]);
        let dimensions = of_consumers.chain(function_dimensions(arn));
        dimensions.map(|dimensions| ("AWS/Lambda", name, dimensions)).collect::<Vec<_>>()
    };
    // The handler counts all versions and aliases of a function together.
    let name = Target::parse(arn).map_or(arn.to_owned(), |target| target.name().to_owned());
    let target = || vec![("Target", name.clone())];
    let metrics = match kind {
        Metric::Runs => of_lambda("Invocations"),
        Metric::Errors => of_lambda("Errors"),
        Metric::Throttles => of_lambda("Throttles"),
        Metric::LambdaAge if is_queue(arn) => Vec::new(),
        Metric::LambdaAge => of_lambda("AsyncEventAge"),
        Metric::Undelivered if is_queue(arn) => Vec::new(),
        Metric::Undelivered => of_lambda("DestinationDeliveryFailures"),
        Metric::Retried => vec![(NAMESPACE, metric::Metric::Invoked.name(), target())],
        Metric::Oldest => vec![(NAMESPACE, metric::Metric::EventAge.name(), target())],
        Metric::Dead(reason) => {
            let reason = ("Reason", Reason::ALL[reason].as_str().to_owned());
            let dimensions = [target(), vec![reason]].concat();
            vec![(NAMESPACE, metric::Metric::DeadLettered.name(), dimensions)]
        }
    };
    let is_age = matches!(kind, Metric::Oldest | Metric::LambdaAge);
    let statistic = if is_age { MAXIMUM } else { "Sum" };
    let query =
        |(namespace, name, dimensions)| Query { namespace, name, dimensions, statistic, period };
    metrics.into_iter().map(query).collect()
}

/// CloudWatch's periods begin at whole minutes. The current minute is included.
fn next_minute(now: Timestamp) -> Timestamp {
    Timestamp::from_timestamp(now.timestamp().div_euclid(60) * 60 + 60, 0).unwrap_or(now)
}

/// How many events of each function Lambda has accepted that have not run to an end, and whether it refuses to run
/// them, by the function's place.
pub async fn backlogs(
    aws: &Aws,
    attached: &[Attached],
    now: Timestamp,
) -> Answer<HashMap<usize, (u64, bool)>> {
    let until = next_minute(now);
    let functions = attached.iter().enumerate();
    let functions = functions.filter_map(|(nth, it)| Some((nth, function_dimensions(&it.arn)?)));
    let mut flows: HashMap<usize, Vec<(i64, Flow, f64)>> = HashMap::new();
    let mut asked = Vec::new();
    for (nth, dimensions) in functions {
        flows.insert(nth, Vec::new());
        asked.extend(Flow::ALL.map(|flow| {
            let (namespace, statistic, period) = ("AWS/Lambda", "Sum", MINUTE);
            let (name, dimensions) = (flow.name(), dimensions.clone());
            ((nth, flow), Query { namespace, name, dimensions, statistic, period })
        }));
    }
    let from = earlier(until, EVENT_AGE_MAX);
    for ((nth, flow), points) in metric_points(aws, asked, from, until).await? {
        let points = points.into_iter().map(|(at, value)| (at, flow, value));
        flows.entry(nth).or_default().extend(points);
    }
    let told = |(nth, counts): (usize, Vec<_>)| {
        let refuses = refuses(&counts, now.timestamp());
        (nth, (at_lambda(counts), refuses))
    };
    Ok(flows.into_iter().map(told).collect())
}

/// The dimensions of a function's own metrics. Lambda has others for versions and aliases, but not for `$LATEST`.
fn function_dimensions(arn: &str) -> Option<Vec<(&'static str, String)>> {
    let function = FunctionArn::parse(arn)?;
    let mut dimensions = vec![("FunctionName", function.name().to_owned())];
    let qualifier = arn.strip_prefix(function.unqualified());
    let qualifier = qualifier.and_then(|rest| rest.strip_prefix(':'));
    if let Some(qualifier) = qualifier.filter(|it| !it.starts_with('$')) {
        dimensions.push(("Resource", format!("{}:{qualifier}", function.name())));
    }
    Some(dimensions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_has_metrics_of_its_own_and_a_queue_has_those_of_its_consumers() {
        let arn = "arn:aws:lambda:us-east-1:123456789012:function:orders";
        let names = |arn: &str, kind| {
            let consumers = vec![("importer".to_owned(), true), ("backup".to_owned(), false)];
            let consumers = if is_queue(arn) { consumers } else { Vec::new() };
            let attached = Attached { arn: arn.to_owned(), queue_arn: String::new(), consumers };
            let name = |Query { name, dimensions, .. }: Query| {
                let dimensions = dimensions.iter().map(|(name, value)| format!(" {name}={value}"));
                name.to_owned() + &dimensions.collect::<String>()
            };
            let names = queries(&attached, kind, HOUR).into_iter().map(name);
            names.collect::<Vec<_>>().join("; ")
        };
        let latest = format!("{arn}:$LATEST");
        let live = format!("{arn}:live");
        let imports = "arn:aws:sqs:us-east-1:123456789012:imports".to_owned();
        for (arn, kind, expected) in [
            (&latest, Metric::Runs, "Invocations FunctionName=orders".to_owned()),
            (&live, Metric::Errors, "Errors FunctionName=orders Resource=orders:live".to_owned()),
            (&live, Metric::Retried, "Invoked Target=orders".to_owned()),
            (&imports, Metric::Retried, "Invoked Target=sqs:imports".to_owned()),
            (
                &imports,
                Metric::Throttles,
                "Throttles FunctionName=importer; Throttles FunctionName=backup".to_owned(),
            ),
            (&imports, Metric::LambdaAge, String::new()),
            (&latest, Metric::LambdaAge, "AsyncEventAge FunctionName=orders".to_owned()),
            (&live, Metric::Dead(2), "DeadLettered Target=orders Reason=not_retryable".to_owned()),
        ] {
            assert_eq!(names(arn, kind), expected);
        }
    }
}
