//! Reads the metrics of CloudWatch that the doctor needs.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    account::{
        fault::{Answer, Clock},
        function::Function,
        queue::Queue,
    },
    aws::{
        Aws,
        metrics::{Query, metric_data},
    },
    operate::doctor::rules::{
        facts::{EARLIER, Source, Target},
        metric::Metric,
    },
};

/// The period of a data point. The first data point of a longer period would begin before the requested time.
const METRIC_POINT: Duration = Duration::from_hours(1);

pub async fn metrics(
    aws: &Aws,
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
    values(aws, wanted, Metric::PERIOD).await
}

/// Those of the functions whose failures a handler has counted in [`EARLIER`].
pub async fn counted(aws: &Aws, names: &[String]) -> Answer<BTreeSet<String>> {
    let wanted = names.iter().map(|name| (Metric::EVENT_AGES, name.clone())).collect();
    let values = values(aws, wanted, EARLIER).await?;
    Ok(values.into_keys().map(|(_, name)| name).collect())
}

/// The values of metrics in a period until now. Metrics without data points are missing.
async fn values(
    aws: &Aws,
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
    let now = aws.now();
    let values = aws.call(metric_data(aws, asked, now - period, now)).await?;
    Ok(values.into_iter().collect())
}
