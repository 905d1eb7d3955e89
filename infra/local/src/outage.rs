//! Simulated outages: functions that fail for a while instead of running.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use comeback_core::Timestamp;
use serde_json::json;

use crate::{model::lambda::run::Outcome, shared::lock};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outage {
    /// It reports an error, as if a service that it calls were down.
    Error,
    TimeOut,
    /// It has no concurrency, so no run starts. The caller of [`Outages::begin`] must set its reserved concurrency to
    /// 0.
    Throttle,
}

impl Outage {
    /// The outcome of a run during the outage. `limit` is the function's timeout. `None` if the run happens as usual.
    pub(crate) async fn carry_out(self, limit: Duration) -> Option<Outcome> {
        Some(match self {
            Self::Error => {
                let error = json!({
                    "errorType": "UpstreamUnavailable",
                    "errorMessage": "503: an outage that is played in the local cloud",
                });
                Outcome::Failed(error.to_string().into_bytes())
            }
            Self::TimeOut => {
                tokio::time::sleep(limit).await;
                Outcome::TimedOut
            }
            // The run began before the concurrency was set to 0.
            Self::Throttle => return None,
        })
    }
}

/// The functions with an outage, and when it ends. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct Outages(Arc<Mutex<HashMap<String, (Outage, Timestamp)>>>);

impl Outages {
    /// Makes a function fail until this time. This replaces an earlier outage of the function.
    pub fn begin(&self, function: &str, outage: Outage, until: Timestamp) {
        lock(&self.0).insert(function.to_owned(), (outage, until));
    }

    pub fn end(&self, function: &str) {
        lock(&self.0).remove(function);
    }

    /// The outage of a function at this time, if there is one, and when it ends.
    pub fn now(&self, function: &str, now: Timestamp) -> Option<(Outage, Timestamp)> {
        lock(&self.0).get(function).copied().filter(|(_, until)| now < *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_fails_until_its_outage_is_over() {
        let outages = Outages::default();
        let at = |second| Timestamp::UNIX_EPOCH + Duration::from_secs(second);
        outages.begin("orders", Outage::Error, at(10));
        for (function, second, expected) in [
            ("orders", 0, Some(Outage::Error)),
            ("orders", 9, Some(Outage::Error)),
            ("orders", 10, None),
            ("others", 0, None),
        ] {
            let outage = outages.now(function, at(second)).map(|(outage, _)| outage);
            assert_eq!(outage, expected, "{function} at {second}");
        }
        outages.end("orders");
        assert_eq!(outages.now("orders", at(0)), None);
    }

    #[tokio::test]
    async fn an_error_of_an_outage_has_the_format_of_a_functions_error() {
        let Some(Outcome::Failed(error)) = Outage::Error.carry_out(Duration::ZERO).await else {
            panic!("expected a failure")
        };
        assert!(error.starts_with(b"{\"errorMessage\":\"503"), "{error:?}");
        let timed_out = Outage::TimeOut.carry_out(Duration::ZERO).await;
        assert!(matches!(timed_out, Some(Outcome::TimedOut)));
    }
}
