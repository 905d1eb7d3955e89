//! The command lines of an environment's processes, and their environment variables: Lambda's own, overridden by those
//! in the function's configuration. Each command line starts with that of the warden.
//!
//! A runtime client or a command on this machine stands in for one of Lambda's own runtimes, and is started through the
//! wrapper script that `AWS_LAMBDA_EXEC_WRAPPER` names. A `bootstrap` is started without it, as with AWS's runtimes
//! `provided.*`. There is no real `/opt` here. A wrapper script below `/opt` is taken from the folder that stands for
//! it, and must find the files beside it by its own path (`$0`).
//!
//! Every file in the layers' folder `extensions` is started as an extension.

use std::{
    collections::BTreeMap,
    env::{join_paths, split_paths},
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
};

use tokio::{
    process::Command,
    sync::{mpsc, watch},
};

use super::{
    Host,
    log::Log,
    process::Process,
    program::{BOOTSTRAP, is_executable},
    warden::WARDEN,
};
use crate::model::{
    REGION,
    lambda::{
        function::{Client, Configuration, Program},
        name::LATEST,
        run::Run,
    },
};

const EXEC_WRAPPER: &str = "AWS_LAMBDA_EXEC_WRAPPER";

pub(super) struct Plan<'a> {
    pub(super) host: &'a Host,
    /// The first run of the environment.
    pub(super) run: &'a Run,
    pub(super) log_stream: &'a str,
    /// Each process holds a copy while it runs.
    pub(super) alive: mpsc::Sender<()>,
    /// Each of the function's environments that is being ended holds a receiver.
    pub(super) ending: watch::Sender<()>,
}

impl Plan<'_> {
    pub(super) fn start(&self, command: Command, log: &Log) -> Result<Process, String> {
        let held = (Arc::clone(&self.run.configuration), self.alive.clone());
        Process::start(command, log, held).map_err(|error| format!("can't be started: {error}"))
    }

    pub(super) fn runtime(&self, runtime_api: &str) -> Command {
        let configuration = &self.run.configuration;
        let wrapped = |command: Vec<OsString>| {
            let wrapper = wrapper(configuration).map(PathBuf::into_os_string);
            wrapper.into_iter().chain(command).collect()
        };
        let program = &configuration.code.program;
        let (arguments, folder) = match program {
            Program::Bootstrap(folder) => {
                let folder = folder.path();
                (vec![folder.join(BOOTSTRAP).into_os_string()], Some(folder.to_owned()))
            }
            Program::Handler(folder, client) => {
                let handler = configuration.handler.clone().unwrap_or_default();
                let command = client.command.iter().cloned().chain([handler.into()]);
                (wrapped(command.collect()), Some(folder.path().to_owned()))
            }
            Program::Command { command, working_directory } => {
                let command = command.iter().map(OsString::from).collect();
                (wrapped(command), working_directory.clone())
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

    /// The names and paths of the extensions: all files in the layers' folder `extensions`.
    pub(super) fn extensions(&self) -> Vec<(Arc<str>, PathBuf)> {
        let opt = self.run.configuration.layers.opt.as_ref();
        let folder = opt.map(|opt| opt.path().join("extensions"));
        // Without layers or without the folder, there are no extensions.
        let entries = folder.and_then(|folder| fs::read_dir(folder).ok());
        let mut files: Vec<_> = entries
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| !entry.path().is_dir())
            .map(|entry| (entry.file_name().to_string_lossy().into(), entry.path()))
            .collect();
        files.sort();
        files
    }

    pub(super) fn extension(&self, file: &Path, runtime_api: &str) -> Result<Command, String> {
        if !is_executable(file) {
            return Err("permission denied".to_owned());
        }
        let mut variables = self.variables(Path::new("/"), runtime_api);
        variables.retain(|name, _| !RUNTIME_ONLY.iter().any(|own| name == own));
        let mut command = self.guarded(vec![file.into()], variables);
        command.current_dir("/");
        Ok(command)
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

/// The wrapper script, if one is set. If it can't be started, the warden exits with status 127, as the shell does on
/// AWS.
fn wrapper(configuration: &Configuration) -> Option<PathBuf> {
    let named = configuration.environment.get(EXEC_WRAPPER).filter(|named| !named.is_empty())?;
    let opt = configuration.layers.opt.as_ref();
    Some(match (Path::new(named).strip_prefix("/opt"), opt) {
        (Ok(below), Some(opt)) => opt.path().join(below),
        (Ok(_), None) | (Err(_), _) => PathBuf::from(named),
    })
}

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
