//! Simulated outages: a function fails for a while instead of running.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use comeback_core::Timestamp;
use serde_json::json;

use crate::{model::lambda::run::Outcome, present::lock};

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
pub struct Outages(Arc<Mutex<BTreeMap<String, (Outage, Timestamp)>>>);

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

    pub fn all(&self, now: Timestamp) -> BTreeMap<String, (Outage, Timestamp)> {
        let mut all = lock(&self.0).clone();
        all.retain(|_, (_, until)| now < *until);
        all
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
        assert_eq!(outages.now("orders", at(9)), Some((Outage::Error, at(10))));
        assert_eq!(outages.all(at(9)).len(), 1);
        assert_eq!(outages.now("orders", at(10)), None);
        assert_eq!(outages.all(at(10)).len(), 0);
        assert_eq!(outages.now("others", at(0)), None);
        outages.end("orders");
        assert_eq!(outages.now("orders", at(0)), None);
    }
}
