//! The command line of an environment's runtime, and its environment variables: Lambda's own, overridden by those in
//! the function's configuration. The command line starts with that of the warden.
//!
//! A runtime client or a command on this machine stands in for one of Lambda's own runtimes. There is no real `/opt`
//! here: only packages are taken from the folder that stands for it.

use std::{
    collections::BTreeMap,
    env::{join_paths, split_paths},
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
};

use tokio::{process::Command, sync::mpsc};

use super::{Host, log::Log, process::Process, program::BOOTSTRAP, warden::WARDEN};
use crate::model::{
    REGION,
    lambda::{
        function::{Client, Program},
        name::LATEST,
        run::Run,
    },
};

pub(super) struct Plan<'a> {
    pub(super) host: &'a Host,
    /// The first run of the environment.
    pub(super) run: &'a Run,
    pub(super) log_stream: &'a str,
    /// Each process holds a copy while it runs.
    pub(super) alive: mpsc::Sender<()>,
}

impl Plan<'_> {
    /// Starts the runtime with the Runtime API at this address.
    pub(super) fn start(&self, runtime_api: &str, log: &Log) -> Result<Process, String> {
        let held = (Arc::clone(&self.run.configuration), self.alive.clone());
        Process::start(self.runtime(runtime_api), log, held)
            .map_err(|error| format!("can't be started: {error}"))
    }

    fn runtime(&self, runtime_api: &str) -> Command {
        let configuration = &self.run.configuration;
        let program = &configuration.code.program;
        let (arguments, folder) = match program {
            Program::Bootstrap(folder) => {
                let folder = folder.path();
                (vec![folder.join(BOOTSTRAP).into_os_string()], Some(folder.to_owned()))
            }
            Program::Handler(folder, client) => {
                let handler = configuration.handler.clone().unwrap_or_default();
                let command = client.command.iter().cloned().chain([handler.into()]);
                (command.collect(), Some(folder.path().to_owned()))
            }
            Program::Command { command, working_directory } => {
                let command = command.iter().map(OsString::from).collect();
                (command, working_directory.clone())
            }
        };
        let task_root = folder.clone().unwrap_or_else(|| PathBuf::from("."));
        let mut variables = self.variables(&task_root, runtime_api);
        if let Program::Handler(_, client) = program {
            self.set_search_path(client, &mut variables);
        }
        let mut command = self.guarded(arguments, variables);
        if let Some(folder) = folder {
            command.current_dir(folder);
        }
        command
    }

    /// Sets the search path for packages: first the function's own setting, then its layers, then the client's folder.
    fn set_search_path(&self, client: &Client, variables: &mut BTreeMap<OsString, OsString>) {
        let given = variables.get(OsStr::new(client.search_path)).into_iter().flat_map(split_paths);
        let opt = self.run.configuration.layers.opt.as_ref();
        let opt = opt.map(|opt| opt.path().join(client.layer));
        let folders = given.chain(opt).chain([client.packages.clone()]);
        // A search path can't contain a folder whose name has a colon.
        if let Ok(path) = join_paths(folders) {
            variables.insert(client.search_path.into(), path);
        }
    }

    fn variables(&self, task_root: &Path, runtime_api: &str) -> BTreeMap<OsString, OsString> {
        let Self {
            host: Host { inherited, endpoint, .. },
            run: Run { configuration, .. },
            log_stream,
            ..
        } = self;
        let mut variables = inherited.variables.clone();
        variables.insert("PATH".into(), inherited.path().into());
        let name = &*configuration.name;
        let memory = configuration.memory_mb.to_string();
        let log_group = format!("/aws/lambda/{name}");
        for (variable, value) in [
            ("AWS_ACCESS_KEY_ID", "local"),
            ("AWS_DEFAULT_REGION", REGION),
            // Clients use the local cloud by default, never AWS.
            ("AWS_ENDPOINT_URL", endpoint),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", &memory),
            ("AWS_LAMBDA_FUNCTION_NAME", name),
            ("AWS_LAMBDA_FUNCTION_VERSION", LATEST),
            ("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand"),
            ("AWS_LAMBDA_LOG_GROUP_NAME", &log_group),
            ("AWS_LAMBDA_LOG_STREAM_NAME", log_stream),
            ("AWS_LAMBDA_RUNTIME_API", runtime_api),
            ("AWS_REGION", REGION),
            ("AWS_SECRET_ACCESS_KEY", "local"),
            // Requests say by it which function makes them.
            ("AWS_SESSION_TOKEN", name),
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

    /// The warden's command line, with this one as its arguments.
    fn guarded(
        &self,
        arguments: Vec<OsString>,
        variables: BTreeMap<OsString, OsString>,
    ) -> Command {
        let mut command = Command::new(&self.host.warden);
        command
            .arg(WARDEN)
            .args(arguments)
            .env_clear()
            .envs(variables)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        command
    }
}
