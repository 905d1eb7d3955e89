//! CloudWatch metrics in embedded metric format: log lines from which CloudWatch extracts metrics, without a call.

use serde_json::{Map, Value, json};

use crate::{Timestamp, metric::Metric};

pub const NAMESPACE: &str = "Comeback";

#[derive(Debug, Default)]
pub struct MetricLine {
    definitions: Vec<Value>,
    values: Map<String, Value>,
}

impl MetricLine {
    /// Adds a metric: one number, or a list of them.
    pub fn add(&mut self, name: &str, unit: &str, value: Value) {
        self.definitions.push(json!({ "Name": name, "Unit": unit }));
        self.values.insert(name.to_owned(), value);
    }

    pub fn add_metric(&mut self, metric: Metric, value: Value) {
        self.add(metric.name(), metric.unit(), value);
    }

    /// Renders the line. CloudWatch aggregates its metrics by the first dimension, by the first two, and so on.
    pub fn render(self, dimensions: &[(&str, &str)], now: Timestamp) -> String {
        let Self { definitions, mut values } = self;
        let names: Vec<&str> = dimensions.iter().map(|(name, _)| *name).collect();
        let sets: Vec<&[&str]> = (1..=names.len()).map(|length| &names[..length]).collect();
        let directive =
            json!({ "Namespace": NAMESPACE, "Dimensions": sets, "Metrics": definitions });
        let about =
            json!({ "Timestamp": now.timestamp_millis(), "CloudWatchMetrics": [directive] });
        values.extend(dimensions.iter().map(|(name, value)| ((*name).to_owned(), json!(value))));
        values.insert("_aws".to_owned(), about);
        Value::Object(values).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_counts_by_each_prefix_of_its_dimensions() {
        let mut line = MetricLine::default();
        line.add("Calls", "Count", json!(2));
        let rendered = line.render(&[("Target", "a"), ("Reason", "b")], Timestamp::UNIX_EPOCH);
        assert_eq!(
            serde_json::from_str::<Value>(&rendered).unwrap(),
            json!({
                "_aws": { "Timestamp": 0, "CloudWatchMetrics": [{
                    "Namespace": "Comeback",
                    "Dimensions": [["Target"], ["Target", "Reason"]],
                    "Metrics": [{ "Name": "Calls", "Unit": "Count" }],
                }] },
                "Calls": 2, "Target": "a", "Reason": "b",
            })
        );
    }
}
