//! The report of a batch as CloudWatch metrics.
//!
//! There is one line for each target, and one more for each reason of its dead letters.

use std::{collections::BTreeMap, time::Duration};

use comeback_core::{Timestamp, emf::MetricLine, metric::Metric, reason::Reason};
use serde_json::json;

use crate::report::{Entry, Obstacle, Outcome, Report, TargetReport};

/// The `Target` of messages that name no function, or one that they may not name: otherwise, a sender could write the
/// metrics of others, and invent targets without end.
const NO_TARGET: &str = "unknown";

/// CloudWatch accepts this many values of one metric in a line.
const VALUES_MAX: usize = 100;

pub fn lines(report: &Report, now: Timestamp) -> Vec<String> {
    let mut targets: BTreeMap<&str, Tally> = BTreeMap::new();
    for entry in &report.entries {
        targets.entry(entry.target.as_deref().unwrap_or(NO_TARGET)).or_default().count(entry);
    }
    for circuit in &report.targets {
        targets.entry(&circuit.target).or_default().add_circuit(circuit);
    }
    targets.iter().flat_map(|(target, tally)| tally.lines(target, now)).collect()
}

#[derive(Default)]
struct Tally {
    counts: BTreeMap<Metric, u64>,
    dead_letters: BTreeMap<Reason, u64>,
    latenesses_ms: Vec<f64>,
    ages_seconds: Vec<f64>,
}

impl Tally {
    fn count(&mut self, entry: &Entry) {
        let mut add = |name| *self.counts.entry(name).or_default() += 1;
        match entry.outcome {
            Outcome::Waits { .. } | Outcome::Delayed { .. } => add(Metric::Waited),
            Outcome::Invoked { .. } => add(Metric::Invoked),
            Outcome::Duplicate => add(Metric::Duplicates),
            Outcome::DeadLetterNotSent { .. } => add(Metric::DeadLettersNotSent),
            Outcome::DeadLettered(_)
            | Outcome::Tested
            | Outcome::Succeeded
            | Outcome::Split
            | Outcome::LeftToQueue(_)
            | Outcome::NotReached => {}
        }
        match entry.obstacle {
            Some(Obstacle::Throttled) => add(Metric::Throttled),
            Some(Obstacle::Configuration) => add(Metric::ConfigurationFaults),
            Some(Obstacle::Ledger) => add(Metric::LedgerFaults),
            None => {}
        }
        if let Outcome::Invoked { lateness, .. } = entry.outcome {
            self.latenesses_ms.push(milliseconds(lateness));
        }
        if let Outcome::DeadLettered(reason) = entry.outcome {
            *self.dead_letters.entry(reason).or_default() += 1;
        }
        self.ages_seconds.extend(entry.age.map(|age| milliseconds(age) / 1000.0));
    }

    fn add_circuit(&mut self, circuit: &TargetReport) {
        self.counts.insert(Metric::CircuitOpen, circuit.is_open.into());
        for (name, count) in
            [(Metric::Probes, circuit.probes), (Metric::BroughtForward, circuit.brought_forward)]
        {
            if count > 0 {
                self.counts.insert(name, count.into());
            }
        }
    }

    fn lines(&self, target: &str, now: Timestamp) -> Vec<String> {
        let part =
            |values: &[f64], nth: usize| values.chunks(VALUES_MAX).nth(nth).map(<[f64]>::to_vec);
        let longest = self.ages_seconds.len().max(self.latenesses_ms.len());
        let parts = longest.div_ceil(VALUES_MAX).max(usize::from(!self.counts.is_empty()));
        let mut lines: Vec<String> = (0..parts)
            .map(|nth| {
                let mut line = MetricLine::default();
                if nth == 0 {
                    for (name, count) in &self.counts {
                        line.add_metric(*name, json!(count));
                    }
                }
                if let Some(values) = part(&self.latenesses_ms, nth) {
                    line.add_metric(Metric::InvokeLateness, json!(values));
                }
                if let Some(values) = part(&self.ages_seconds, nth) {
                    line.add_metric(Metric::EventAge, json!(values));
                }
                line.render(&[("Target", target)], now)
            })
            .collect();
        for (reason, count) in &self.dead_letters {
            let mut line = MetricLine::default();
            line.add_metric(Metric::DeadLettered, json!(count));
            let dimensions = [("Target", target), ("Reason", reason.as_str())];
            lines.push(line.render(&dimensions, now));
        }
        lines
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::ports::CallFault;

    fn entry(target: Option<&str>, outcome: Outcome, obstacle: Option<Obstacle>) -> Entry {
        Entry {
            message_id: "id".into(),
            target: target.map(str::to_owned),
            age: target.map(|_| Duration::from_millis(2500)),
            outcome,
            obstacle,
        }
    }

    const WAITS: Outcome = Outcome::Waits { delay: Duration::from_secs(1) };

    fn rendered(entries: Vec<Entry>) -> Vec<Value> {
        let lines = lines(&Report { entries, targets: Vec::new() }, Timestamp::UNIX_EPOCH);
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn each_target_has_its_numbers_and_each_reason_a_line() {
        let not_sent = Outcome::DeadLetterNotSent {
            reason: Reason::NotRetryable,
            queue_url: "https://sqs.us-east-1.amazonaws.com/123456789012/dead".into(),
            fault: CallFault("no".into()),
        };
        let invoked = Outcome::Invoked { lateness: Duration::from_millis(12), run: None };
        let lines = rendered(vec![
            entry(Some("a"), WAITS, None),
            entry(Some("a"), WAITS, Some(Obstacle::Throttled)),
            entry(Some("a"), WAITS, Some(Obstacle::Ledger)),
            entry(Some("a"), Outcome::Duplicate, None),
            entry(Some("a"), invoked, None),
            entry(
                Some("b"),
                Outcome::LeftToQueue(CallFault("no".into())),
                Some(Obstacle::Configuration),
            ),
            entry(Some("b"), Outcome::DeadLettered(Reason::NotRetryable), None),
            entry(Some("b"), not_sent, None),
            entry(None, Outcome::DeadLettered(Reason::Unreadable), None),
        ]);
        let metric = |name: &str, unit: &str| json!({ "Name": name, "Unit": unit });
        assert_eq!(
            lines[0],
            json!({
                "_aws": { "Timestamp": 0, "CloudWatchMetrics": [{
                    "Namespace": "Comeback",
                    "Dimensions": [["Target"]],
                    "Metrics": [
                        metric("Waited", "Count"), metric("Invoked", "Count"), metric("Throttled", "Count"),
                        metric("Duplicates", "Count"), metric("LedgerFaults", "Count"),
                        metric("InvokeLateness", "Milliseconds"), metric("EventAge", "Seconds"),
                    ],
                }] },
                "Target": "a", "Duplicates": 1, "Invoked": 1, "LedgerFaults": 1, "Throttled": 1, "Waited": 3,
                "InvokeLateness": [12.0], "EventAge": [2.5, 2.5, 2.5, 2.5, 2.5],
            })
        );
        assert_eq!(
            (&lines[1]["Target"], &lines[1]["ConfigurationFaults"]),
            (&json!("b"), &json!(1))
        );
        assert_eq!(lines[1]["DeadLettersNotSent"], json!(1));
        assert_eq!(
            (&lines[2]["Reason"], &lines[2]["DeadLettered"]),
            (&json!("not_retryable"), &json!(1))
        );
        assert_eq!(
            lines[2]["_aws"]["CloudWatchMetrics"][0]["Dimensions"],
            json!([["Target"], ["Target", "Reason"]])
        );
        assert_eq!(
            (&lines[3]["Target"], &lines[3]["Reason"]),
            (&json!("unknown"), &json!("unreadable"))
        );
        assert_eq!(lines.len(), 4);
    }

    #[test]
    fn a_circuit_that_was_read_is_open_or_not() {
        let circuit = |is_open, probes, brought_forward| TargetReport {
            target: "a".to_owned(),
            is_open,
            probes,
            brought_forward,
        };
        for (circuit, expected) in [
            (circuit(true, 1, 3), json!([1, 1, 3])),
            (circuit(false, 0, 0), json!([0, null, null])),
        ] {
            let report = Report { entries: Vec::new(), targets: vec![circuit] };
            let [line] = &lines(&report, Timestamp::UNIX_EPOCH)[..] else { panic!("one line") };
            let line: Value = serde_json::from_str(line).unwrap();
            let told = json!([line["CircuitOpen"], line["Probes"], line["BroughtForward"]]);
            assert_eq!((&line["Target"], told), (&json!("a"), expected));
        }
    }

    #[test]
    fn no_line_has_more_values_than_cloudwatch_takes() {
        let lines = rendered(vec![entry(Some("a"), WAITS, None); 250]);
        let counted: Vec<_> =
            lines.iter().map(|line| line["EventAge"].as_array().unwrap().len()).collect();
        assert_eq!(counted, [100, 100, 50]);
        assert_eq!(lines[0]["Waited"], json!(250));
        assert_eq!(lines[1]["Waited"], Value::Null);
    }
}
