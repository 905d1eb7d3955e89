//! The environment variables that a function is given: Lambda's own, and over them its
//! configuration's.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::model::REGION;
use crate::model::lambda::function::Configuration;
use crate::model::lambda::name::LATEST;

/// What a function has of the local cloud's own environment, to find programs and its user's files.
const INHERITED: [&str; 5] = ["HOME", "LANG", "PATH", "TMPDIR", "USER"];

/// Where programs are looked for if the local cloud's own environment doesn't say.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";

/// What all functions have in common.
#[derive(Debug)]
pub(crate) struct Common {
    inherited: BTreeMap<OsString, OsString>,
    endpoint: String,
}

impl Common {
    /// `lookup` reads the local cloud's own environment; `endpoint` is where functions find it.
    pub(crate) fn new(lookup: impl Fn(&str) -> Option<OsString>, endpoint: &str) -> Self {
        let mut inherited: BTreeMap<OsString, OsString> = INHERITED
            .iter()
            .filter_map(|name| Some((OsString::from(name), lookup(name)?)))
            .collect();
        inherited.entry("PATH".into()).or_insert_with(|| PATH_DEFAULT.into());
        Self { inherited, endpoint: endpoint.to_owned() }
    }

    /// Where programs are looked for.
    pub(crate) fn path(&self) -> &OsStr {
        self.inherited.get(OsStr::new("PATH")).map_or(OsStr::new(PATH_DEFAULT), OsString::as_os_str)
    }

    /// All the variables of one environment of a function.
    pub(crate) fn of(
        &self,
        configuration: &Configuration,
        task_root: &Path,
        runtime_api: &str,
        log_stream: &str,
    ) -> BTreeMap<OsString, OsString> {
        let mut variables = self.inherited.clone();
        let name = &*configuration.name;
        let memory = configuration.memory_mb.to_string();
        let log_group = format!("/aws/lambda/{name}");
        for (variable, value) in [
            ("AWS_ACCESS_KEY_ID", "local"),
            ("AWS_DEFAULT_REGION", REGION),
            // A client without a setting of its own finds this machine's cloud, never AWS.
            ("AWS_ENDPOINT_URL", &self.endpoint),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", &memory),
            ("AWS_LAMBDA_FUNCTION_NAME", name),
            ("AWS_LAMBDA_FUNCTION_VERSION", LATEST),
            ("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand"),
            ("AWS_LAMBDA_LOG_GROUP_NAME", &log_group),
            ("AWS_LAMBDA_LOG_STREAM_NAME", log_stream),
            ("AWS_LAMBDA_RUNTIME_API", runtime_api),
            ("AWS_REGION", REGION),
            ("AWS_SECRET_ACCESS_KEY", "local"),
            ("AWS_SESSION_TOKEN", "local"),
            ("TZ", ":UTC"),
        ] {
            variables.insert(variable.into(), value.into());
        }
        variables.insert("LAMBDA_TASK_ROOT".into(), task_root.into());
        if let Some(handler) = &configuration.handler {
            variables.insert("_HANDLER".into(), handler.into());
        }
        for (variable, value) in &configuration.environment {
            variables.insert(variable.into(), value.into());
        }
        variables
    }
}
