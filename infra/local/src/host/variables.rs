//! The environment variables of a function: Lambda's own, overridden by those in its configuration.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use crate::model::{
    REGION,
    lambda::{
        function::{Configuration, Program},
        name::LATEST,
    },
};

/// The variables that functions inherit from the local cloud's own environment, to find programs and the user's files.
const INHERITED: [&str; 5] = ["HOME", "LANG", "PATH", "TMPDIR", "USER"];

/// Variables of the runtime that extensions don't get.
const RUNTIME_ONLY: [&str; 10] = [
    "AWS_EXECUTION_ENV",
    "AWS_LAMBDA_LOG_GROUP_NAME",
    "AWS_LAMBDA_LOG_STREAM_NAME",
    "AWS_XRAY_CONTEXT_MISSING",
    "AWS_XRAY_DAEMON_ADDRESS",
    "LAMBDA_RUNTIME_DIR",
    "LAMBDA_TASK_ROOT",
    "_AWS_XRAY_DAEMON_ADDRESS",
    "_AWS_XRAY_DAEMON_PORT",
    "_HANDLER",
];

const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";

const TMPDIR_DEFAULT: &str = "/tmp";

const RUNTIMES: &str = "COMEBACK_RUNTIMES";

const RUNTIMES_DEFAULT: &str = ".comeback/runtimes";

/// The settings from the user's environment. The default has none.
#[derive(Clone, Debug, Default)]
pub struct Inherited {
    pub(super) variables: BTreeMap<OsString, OsString>,
    runtime_clients: Option<PathBuf>,
}

impl Inherited {
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Self {
        let named = INHERITED.iter().filter_map(|name| Some((OsString::from(name), lookup(name)?)));
        let runtime_clients = lookup(RUNTIMES).filter(|named| !named.is_empty()).map(PathBuf::from);
        Self { variables: named.collect(), runtime_clients }
    }

    pub(super) fn runtime_clients(&self) -> PathBuf {
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

pub(super) fn for_extensions(variables: &mut BTreeMap<OsString, OsString>) {
    variables.retain(|name, _| !RUNTIME_ONLY.iter().any(|own| name == own));
}

#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) inherited: Inherited,
    endpoint: String,
}

impl Common {
    pub(crate) fn new(inherited: Inherited, endpoint: &str) -> Self {
        Self { inherited, endpoint: endpoint.to_owned() }
    }

    pub(crate) fn of(
        &self,
        configuration: &Configuration,
        task_root: &Path,
        runtime_api: &str,
        log_stream: &str,
    ) -> BTreeMap<OsString, OsString> {
        let mut variables = self.inherited.variables.clone();
        variables.insert("PATH".into(), self.inherited.path().into());
        let name = &*configuration.name;
        let memory = configuration.memory_mb.to_string();
        let log_group = format!("/aws/lambda/{name}");
        for (variable, value) in [
            ("AWS_ACCESS_KEY_ID", "local"),
            ("AWS_DEFAULT_REGION", REGION),
            // Clients use the local cloud by default, never AWS.
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
        if let (Program::Handler(..), Some(runtime)) =
            (&configuration.code.program, &configuration.runtime)
        {
            variables.insert("AWS_EXECUTION_ENV".into(), format!("AWS_Lambda_{runtime}").into());
        }
        for (variable, value) in &configuration.environment {
            variables.insert(variable.into(), value.into());
        }
        variables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
