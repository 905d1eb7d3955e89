//! CloudWatch metrics, aggregated by the minute: those in log lines (embedded metric format), and Lambda's own metrics
//! of runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use comeback_core::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Values older than this many minutes are dropped.
const MINUTES_MAX: i64 = 24 * 60;

/// Every line with metrics contains this text.
const MARK: &str = "\"_aws\"";

#[derive(Debug, Default)]
pub struct Emf(BTreeMap<Metric, BTreeMap<i64, Values>>);

/// A metric, as CloudWatch's API names it.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
#[serde(rename_all = "PascalCase")]
pub struct Metric {
    pub namespace: String,
    #[serde(rename = "MetricName")]
    pub name: String,
    #[serde(default)]
    pub dimensions: BTreeSet<Dimension>,
}

#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
#[serde(rename_all = "PascalCase")]
pub struct Dimension {
    pub name: String,
    pub value: String,
}

impl Dimension {
    pub fn new(name: &str, value: &str) -> Self {
        Self { name: name.to_owned(), value: value.to_owned() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Values {
    pub count: f64,
    pub sum: f64,
    pub min: f64,
    pub max: f64,
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "_aws")]
    metadata: Metadata,
    #[serde(flatten)]
    members: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Metadata {
    timestamp: i64,
    cloud_watch_metrics: Vec<Directive>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Directive {
    namespace: String,
    dimensions: Vec<Vec<String>>,
    metrics: Vec<Definition>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Definition {
    name: String,
}

impl Values {
    pub fn of(value: f64) -> Self {
        Self { count: 1.0, sum: value, min: value, max: value }
    }

    pub fn merge(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            sum: self.sum + other.sum,
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }

    pub fn statistic(&self, name: &str) -> Option<f64> {
        match name {
            "SampleCount" => Some(self.count),
            "Sum" => Some(self.sum),
            "Average" => Some(self.sum / self.count),
            "Minimum" => Some(self.min),
            "Maximum" => Some(self.max),
            _ => None,
        }
    }
}

impl Emf {
    pub fn count(&mut self, line: &str) {
        if !line.contains(MARK) {
            return;
        }
        let Ok(Line { metadata, members }) = serde_json::from_str(line) else { return };
        let Some(at) = Timestamp::from_timestamp_millis(metadata.timestamp) else { return };
        for Directive { namespace, dimensions, metrics } in metadata.cloud_watch_metrics {
            if namespace.starts_with("AWS/") {
                // AWS reserves these namespaces for its own services.
                continue;
            }
            for Definition { name } in metrics {
                let Some(values) = members.get(&name).and_then(values) else { continue };
                for dimensions in &dimensions {
                    let value =
                        |name: &String| Some(Dimension::new(name, members.get(name)?.as_str()?));
                    let dimensions = dimensions.iter().filter_map(value).collect();
                    let (namespace, name) = (namespace.clone(), name.clone());
                    self.add(Metric { namespace, name, dimensions }, at, values);
                }
            }
        }
    }

    pub fn run(&mut self, at: Timestamp, function: &str, is_error: bool) {
        self.add_of_function(at, function, "Invocations", 1.0);
        self.add_of_function(at, function, "Errors", f64::from(u8::from(is_error)));
    }

    pub fn accepted(&mut self, at: Timestamp, function: &str) {
        self.add_of_function(at, function, "AsyncEventsReceived", 1.0);
    }

    pub fn throttled(&mut self, at: Timestamp, function: &str) {
        self.add_of_function(at, function, "Throttles", 1.0);
    }

    /// Counts a call of ReceiveMessage by what it got.
    pub fn received(&mut self, at: Timestamp, queue: &str, messages: u32) {
        let of_queue = ("AWS/SQS", "QueueName", queue);
        match messages {
            0 => self.add_of(of_queue, at, "NumberOfEmptyReceives", 1.0),
            _ => self.add_of(of_queue, at, "NumberOfMessagesReceived", messages.into()),
        }
    }

    pub fn given_up(&mut self, at: Timestamp, function: &str) {
        self.add_of_function(at, function, "AsyncEventsDropped", 1.0);
    }

    /// Counts a record or event that could not be sent, in this metric.
    pub fn not_sent(&mut self, at: Timestamp, function: &str, metric: &str) {
        self.add_of_function(at, function, metric, 1.0);
    }

    fn add_of_function(&mut self, at: Timestamp, function: &str, name: &str, value: f64) {
        self.add_of(("AWS/Lambda", "FunctionName", function), at, name, value);
    }

    fn add_of(
        &mut self,
        (namespace, dimension, of): (&str, &str, &str),
        at: Timestamp,
        name: &str,
        value: f64,
    ) {
        let dimensions = [Dimension::new(dimension, of)].into();
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        self.add(Metric { namespace, name, dimensions }, at, Values::of(value));
    }

    fn add(&mut self, metric: Metric, at: Timestamp, values: Values) {
        let minute = at.timestamp().div_euclid(60);
        let minutes = self.0.entry(metric).or_default();
        minutes.retain(|&old, _| old > minute - MINUTES_MAX);
        let sum = minutes.entry(minute);
        sum.and_modify(|sum| *sum = sum.merge(values)).or_insert(values);
    }

    /// The values of a metric by minute, for minutes that began within `time`, in seconds since 1970.
    pub fn of(&self, metric: &Metric, time: &Range<Timestamp>) -> Vec<(i64, Values)> {
        let seconds = time.start.timestamp()..time.end.timestamp();
        let minutes = self.0.get(metric).into_iter().flatten();
        let began = minutes.map(|(minute, values)| (minute * 60, *values));
        began.filter(|(began, _)| seconds.contains(began)).collect()
    }
}

/// The values of a metric in a line, which are a number or a list of numbers.
fn values(value: &Value) -> Option<Values> {
    let several = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    several.iter().filter_map(Value::as_f64).map(Values::of).reduce(Values::merge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metrics_of_lines_are_added_up_by_the_minute() {
        let at = |seconds| Timestamp::from_timestamp(seconds, 0).unwrap();
        let line = |seconds: i64, invoked: u32, age: &str| {
            format!(
                r#"{{"_aws":{{"Timestamp":{},"CloudWatchMetrics":[{{"Namespace":"Comeback","Dimensions":[["Target"],["Target","Reason"]],"Metrics":[{{"Name":"Invoked"}},{{"Name":"EventAge"}},{{"Name":"Absent"}}]}}]}},"Target":"a","Reason":"b","Invoked":{invoked},"EventAge":{age}}}"#,
                seconds * 1000
            )
        };
        let mut emf = Emf::default();
        emf.count(&line(60, 2, "[1.5,4]"));
        emf.count(&line(119, 3, "[]"));
        emf.count(&line(120, 5, "0.5"));
        for other in ["", "{", "{\"_aws\":1}", "text \"_aws\"", "{\"_aws\":{\"Timestamp\":1}}"] {
            emf.count(other);
        }
        emf.count(&line(60, 9, "9").replace("Comeback", "AWS/Lambda"));
        let metric = |name: &str, dimensions: &[(&str, &str)]| Metric {
            namespace: "Comeback".to_owned(),
            name: name.to_owned(),
            dimensions: dimensions
                .iter()
                .map(|(name, value)| Dimension::new(name, value))
                .collect(),
        };
        let invoked = metric("Invoked", &[("Target", "a")]);
        let sums = |metric: &Metric, time| {
            let minutes = emf.of(metric, &time);
            minutes.into_iter().map(|(began, values)| (began, values.sum)).collect::<Vec<_>>()
        };
        assert_eq!(sums(&invoked, at(0)..at(180)), [(60, 5.0), (120, 5.0)]);
        assert_eq!(sums(&invoked, at(61)..at(180)), [(120, 5.0)]);
        assert_eq!(
            sums(&metric("Invoked", &[("Reason", "b"), ("Target", "a")]), at(0)..at(61)),
            [(60, 5.0)]
        );
        assert_eq!(sums(&metric("Invoked", &[]), at(0)..at(180)), []);
        let ages = emf.of(&metric("EventAge", &[("Target", "a")]), &(at(0)..at(180)));
        let statistics = ["SampleCount", "Sum", "Average", "Minimum", "Maximum"];
        let first = statistics.map(|name| ages[0].1.statistic(name).unwrap());
        assert_eq!(first, [2.0, 5.5, 2.75, 1.5, 4.0]);
        assert_eq!(ages[0].1.statistic("p99"), None);
        let awss = Metric { namespace: "AWS/Lambda".to_owned(), ..invoked.clone() };
        assert_eq!(sums(&awss, at(0)..at(180)), [], "a function writes none of AWS's own metrics");
        emf.count(&line(2 * 86_400, 1, "1"));
        assert_eq!(emf.of(&invoked, &(at(0)..at(180))), [], "it was long ago");
    }
}
