//! Functions that fail for a while instead of running, so that anyone can play an outage.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use comeback_core::Timestamp;
use serde_json::json;

use crate::{model::lambda::run::Outcome, shared::lock};

/// How a function fails.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outage {
    /// It reports an error, as if what it calls were down.
    Error,
    /// It takes longer than its time-out.
    TimeOut,
    /// It has no concurrency. Whoever begins this outage takes that from the function, so no run is begun.
    Throttle,
}

impl Outage {
    /// The outcome of a run of a function with this time-out. `None` if it runs as usual.
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
            // It began before its concurrency was taken.
            Self::Throttle => return None,
        })
    }
}

/// The functions that fail, and until when. All copies are the same.
#[derive(Clone, Debug, Default)]
pub struct Outages(Arc<Mutex<HashMap<String, (Outage, Timestamp)>>>);

impl Outages {
    /// Has a function fail until then. The latest outage of a function counts.
    pub fn begin(&self, function: &str, outage: Outage, until: Timestamp) {
        lock(&self.0).insert(function.to_owned(), (outage, until));
    }

    /// Ends the outage of a function.
    pub fn end(&self, function: &str) {
        lock(&self.0).remove(function);
    }

    /// How a function fails at this time, if it does, and until when.
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
    async fn an_error_of_an_outage_is_reported_as_a_function_reports_its_own() {
        let Some(Outcome::Failed(error)) = Outage::Error.carry_out(Duration::ZERO).await else {
            panic!("expected a failure")
        };
        assert!(error.starts_with(b"{\"errorMessage\":\"503"), "{error:?}");
        let timed_out = Outage::TimeOut.carry_out(Duration::ZERO).await;
        assert!(matches!(timed_out, Some(Outcome::TimedOut)));
    }
}
