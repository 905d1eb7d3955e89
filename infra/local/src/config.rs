//! What a local cloud is started with: limits, the settings from the user's environment, and simulated outages. In an
//! outage a function fails for a while instead of running.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::Router;
use comeback_core::Timestamp;
use serde_json::json;

use crate::{
    model::{lambda::run::Outcome, sqs::IN_FLIGHT_MAX},
    present::lock,
};

#[derive(Clone, Debug)]
pub struct Config {
    /// The port on 127.0.0.1 to listen on. 0 takes a free one.
    pub port: u16,
    /// The limit of concurrent runs of functions, and of environments, including idle ones. AWS's default for an
    /// account is 1,000.
    pub concurrency: u32,
    /// The limit of messages in flight in a queue. SQS's quota is [`IN_FLIGHT_MAX`].
    pub in_flight_max: usize,
    pub inherited: Inherited,
    /// The router for requests without a signature, such as those of a browser.
    pub page: Option<Router>,
    /// The router for requests to DynamoDB, which the local cloud itself does not have.
    pub dynamodb: Option<Router>,
    pub outages: Outages,
    /// Whether the processes of a function and its extensions are stopped between events, as on AWS.
    pub freeze: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            port: 0,
            concurrency: 100,
            in_flight_max: IN_FLIGHT_MAX,
            inherited: Inherited::default(),
            page: None,
            dynamodb: None,
            outages: Outages::default(),
            freeze: false,
        }
    }
}

/// The variables that functions inherit from the local cloud's own environment, to find programs and the user's files.
const INHERITED: [&str; 5] = ["HOME", "LANG", "PATH", "TMPDIR", "USER"];

const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";

const TMPDIR_DEFAULT: &str = "/tmp";

const RUNTIMES: &str = "COMEBACK_RUNTIMES";

const RUNTIMES_DEFAULT: &str = ".comeback/runtimes";

/// The settings from the user's environment. The default has none.
#[derive(Clone, Debug, Default)]
pub struct Inherited {
    pub(crate) variables: BTreeMap<OsString, OsString>,
    runtime_clients: Option<PathBuf>,
}

impl Inherited {
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Self {
        let named = INHERITED.iter().filter_map(|name| Some((OsString::from(name), lookup(name)?)));
        let runtime_clients = lookup(RUNTIMES).filter(|named| !named.is_empty()).map(PathBuf::from);
        Self { variables: named.collect(), runtime_clients }
    }

    pub(crate) fn runtime_clients(&self) -> PathBuf {
        self.runtime_clients.clone().unwrap_or_else(|| {
            self.get("HOME").map_or(self.temporary(), Path::new).join(RUNTIMES_DEFAULT)
        })
    }

    pub(crate) fn path(&self) -> &OsStr {
        self.get("PATH").unwrap_or(OsStr::new(PATH_DEFAULT))
    }

    pub(crate) fn temporary(&self) -> &Path {
        Path::new(self.get("TMPDIR").unwrap_or(OsStr::new(TMPDIR_DEFAULT)))
    }

    /// The value of a variable. An empty one counts as unset.
    fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables
            .get(OsStr::new(name))
            .map(OsString::as_os_str)
            .filter(|value| !value.is_empty())
    }
}

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

    #[test]
    fn only_the_variables_that_find_programs_and_files_are_inherited() {
        let inherited = Inherited::from_lookup(|name| Some(format!("{name}'s").into()));
        let names: Vec<_> = inherited.variables.keys().map(|name| name.to_str().unwrap()).collect();
        assert_eq!(names, INHERITED);
        assert_eq!(inherited.runtime_clients(), Path::new("COMEBACK_RUNTIMES's"));
        assert_eq!(inherited.path(), "PATH's");
        assert_eq!(inherited.temporary(), Path::new("TMPDIR's"));
    }

    #[test]
    fn unset_and_empty_variables_have_defaults() {
        for inherited in [Inherited::default(), Inherited::from_lookup(|_| Some(OsString::new()))] {
            assert_eq!(inherited.path(), PATH_DEFAULT);
            assert_eq!(inherited.temporary(), Path::new(TMPDIR_DEFAULT));
            assert_eq!(inherited.runtime_clients(), Path::new("/tmp/.comeback/runtimes"));
        }
        let home = Inherited::from_lookup(|name| (name == "HOME").then(|| "/home/me".into()));
        assert_eq!(home.runtime_clients(), Path::new("/home/me/.comeback/runtimes"));
    }
}
