//! A policy to simulate.

use comeback_core::{
    duration::format,
    policy::Policy,
    settings::{BadSettings, Settings},
};

/// A placeholder: the settings require a dead-letter queue, which a simulation doesn't use.
const ANY_QUEUE: (&str, &str) =
    ("DEAD_LETTER_QUEUE_URL", "https://sqs.us-east-1.amazonaws.com/0/any");

/// A policy to simulate, and its name.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The policy's name in tables and charts.
    pub name: String,
    pub policy: Policy,
    /// The maximum number of messages of a queue that wait in flight.
    pub in_flight_max: u32,
}

impl Candidate {
    /// Parses the settings of a retry handler, as the handler does it.
    pub fn read(name: &str, lookup: impl Fn(&str) -> Option<String>) -> Result<Self, BadSettings> {
        let (queue, any) = ANY_QUEUE;
        let settings = Settings::from_lookup(|name| {
            lookup(name).or_else(|| (name == queue).then(|| any.to_owned()))
        })?;
        Ok(Self {
            name: name.to_owned(),
            // No function has an empty name, so this is the general policy.
            policy: settings.rules.policies.of("").clone(),
            in_flight_max: settings.in_flight_max.get(),
        })
    }

    pub(super) fn settings(&self) -> Vec<(&'static str, String)> {
        let Policy { backoff, max_age, max_attempts, .. } = &self.policy;
        let attempts = max_attempts.map_or("none".to_owned(), |max| max.to_string());
        vec![
            ("BASE_BACKOFF", format(backoff.base)),
            ("MAX_BACKOFF", format(backoff.max)),
            ("MAX_AGE", format(*max_age)),
            ("MAX_ATTEMPTS", attempts),
            ("JITTER", format!("{:?}", backoff.jitter).to_lowercase()),
            ("IN_FLIGHT_MAX", self.in_flight_max.to_string()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_by_the_rules_of_the_handler() {
        let read = |values: &[(&str, &str)]| {
            Candidate::read("mine", |name| {
                let value = values.iter().find(|(given, _)| *given == name);
                value.map(|(_, value)| (*value).to_owned())
            })
        };
        let settings = read(&[("MAX_AGE", "7d"), ("JITTER", "none"), ("IN_FLIGHT_MAX", "5")]);
        let expected = [
            ("BASE_BACKOFF", "1s"),
            ("MAX_BACKOFF", "12h"),
            ("MAX_AGE", "7d"),
            ("MAX_ATTEMPTS", "none"),
            ("JITTER", "none"),
            ("IN_FLIGHT_MAX", "5"),
        ];
        let expected = expected.map(|(name, value)| (name, value.to_owned()));
        assert_eq!(settings.unwrap().settings(), expected);
        let bad = read(&[("MAX_AGE", "soon"), ("JITTER", "some")]).unwrap_err();
        assert_eq!(bad.names().collect::<Vec<_>>(), ["MAX_AGE", "JITTER"]);
    }
}
