//! The metrics that CloudWatch would have of a world, as log lines in embedded metric format: those of the handlers,
//! and equivalent lines for the metrics of AWS.

use std::time::Duration;

use comeback_core::{Timestamp, time::later};
use comeback_flow::{metrics, report::Report};
use serde_json::{Value, json};

use super::World;
use crate::plan::QueuePlan;

/// SQS publishes the metrics of a queue at this interval.
const INTERVAL: Duration = Duration::from_mins(1);

/// The metrics of a retry queue and the attributes that hold their values. Dead-letter queues have none: a world
/// empties them at once, and SQS publishes nothing for idle queues.
const OF_QUEUES: [(&str, &str); 3] = [
    ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesVisible"),
    ("ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesNotVisible"),
    ("ApproximateNumberOfMessagesDelayed", "ApproximateNumberOfMessagesDelayed"),
];

impl World {
    /// A handler is invoked or fails.
    pub fn publish_run(&mut self, handler: usize, metric: &str) {
        if self.plan.has_metrics {
            let name = &self.plan.handlers[handler].name;
            let line = line("AWS/Lambda", ("FunctionName", name), &[(metric, 1)], self.now);
            self.judge.known.figures.metrics.push(line);
        }
    }

    /// A handler has answered. `now` is by its clock.
    pub fn publish_report(&mut self, report: &Report, now: Timestamp) {
        if self.plan.has_metrics {
            self.judge.known.figures.metrics.extend(metrics::lines(report, now));
        }
    }

    /// Publishes the queues' metrics up to this time. Nothing happens before it, so the queues don't change.
    pub fn publish_queues(&mut self, until: Timestamp) {
        while self.plan.has_metrics && self.queues_published < until {
            let at = self.queues_published;
            for QueuePlan { name, .. } in &self.plan.queues {
                let counts = self.cloud.sqs.attributes(at, name).unwrap_or_default();
                let count = |attribute| counts.get(attribute).and_then(|count| count.parse().ok());
                let values =
                    OF_QUEUES.map(|(attribute, metric)| (metric, count(attribute).unwrap_or(0)));
                self.judge.known.figures.metrics.push(line(
                    "AWS/SQS",
                    ("QueueName", name),
                    &values,
                    at,
                ));
            }
            self.queues_published = later(at, INTERVAL);
        }
    }
}

fn line(namespace: &str, of: (&str, &str), values: &[(&str, u64)], at: Timestamp) -> String {
    let names: Vec<Value> = values.iter().map(|(name, _)| json!({ "Name": name })).collect();
    let directive = json!({ "Namespace": namespace, "Dimensions": [[of.0]], "Metrics": names });
    let about = json!({ "Timestamp": at.timestamp_millis(), "CloudWatchMetrics": [directive] });
    let mut line = json!({ "_aws": about, of.0: of.1 });
    values.iter().for_each(|&(name, value)| line[name] = value.into());
    line.to_string()
}
