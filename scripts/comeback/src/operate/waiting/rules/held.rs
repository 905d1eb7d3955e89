//! An event whose wait is over, and that the circuit of its function holds back.

use comeback_core::{
    Timestamp,
    circuit::{Circuit, Phase},
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::text::due;

/// What holds an event back. A retry handler that dies, or whose write fails, leaves an old due time in the register.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Held {
    /// The state of the circuit: `suspected`, `open`, `probing` or `ramping`.
    pub circuit: &'static str,
    /// When the circuit takes its next step: if it is open, when the next probe is made.
    pub next_step_at: Option<Timestamp>,
    #[serde(skip)]
    says: &'static str,
}

impl Held {
    /// What holds back the events that come back now, or `None` if nothing does.
    pub fn by(circuit: &Circuit) -> Option<Self> {
        let says = match circuit.phase {
            Phase::Closed { .. } => return None,
            Phase::Open { .. } => "next probe",
            Phase::Probing { .. } => "a probe runs, its end",
            Phase::Suspected { .. } | Phase::Ramping { .. } => "few retries a second, next step",
        };
        Some(Self { circuit: circuit.name(), next_step_at: circuit.step_at(), says })
    }

    pub fn says(&self, now: Timestamp) -> String {
        match self.next_step_at {
            Some(at) if at > now => format!("by the circuit, {} {}", self.says, due(at, now)),
            // A step is taken by the next event of the function that a handler sees.
            _ => format!("by the circuit, {} now", self.says),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operate::waiting::rules::stand_in::second;

    fn circuit(phase: &str) -> Circuit {
        let text = format!(r#"{{"by":"","patience_seconds":20,"phase":{phase}}}"#);
        Circuit::read(&text).unwrap()
    }

    #[test]
    fn a_circuit_that_is_not_closed_says_what_it_holds_events_back_for() {
        let probe = r#"{"of":{"event":"e","attempt":1},"at":0}"#;
        let slice = r#"{"began":0,"rate":1,"taken":0,"failed":0}"#;
        for (phase, expected) in [
            (
                r#"{"closed":{"counts":{"since":0,"invoked":0,"failed":0},"cleared":null}}"#
                    .to_owned(),
                None,
            ),
            (
                r#"{"open":{"since":0,"next_at":12000,"interval_seconds":10}}"#.to_owned(),
                Some("by the circuit, next probe in 12 s"),
            ),
            (
                r#"{"open":{"since":0,"next_at":0,"interval_seconds":10}}"#.to_owned(),
                Some("by the circuit, next probe now"),
            ),
            (
                format!(r#"{{"probing":{{"since":0,"interval_seconds":10,"probe":{probe}}}}}"#),
                Some("by the circuit, a probe runs, its end in 20 s"),
            ),
            (
                format!(r#"{{"suspected":{{"since":0,"ask_at":0,"slice":{slice}}}}}"#),
                Some("by the circuit, few retries a second, next step in 10 s"),
            ),
        ] {
            let held = Held::by(&circuit(&phase));
            let says = held.map(|held| held.says(second(0)));
            assert_eq!(says.as_deref(), expected, "{phase}");
        }
    }
}
