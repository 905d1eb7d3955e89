//! The command lines of an environment's processes. Each starts with that of the warden.
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
    process::{Log, Process},
    runtime_api::RuntimeApi,
    runtimes::{BOOTSTRAP, is_executable},
    variables::{Common, for_extensions},
    warden::WARDEN,
};
use crate::{
    journal::Journal,
    model::lambda::function::{Client, Configuration, Program},
};

const EXEC_WRAPPER: &str = "AWS_LAMBDA_EXEC_WRAPPER";

pub(super) struct Plan<'a> {
    pub(super) warden: &'a Path,
    pub(super) common: &'a Common,
    pub(super) configuration: &'a Arc<Configuration>,
    pub(super) log_stream: &'a str,
    pub(super) journal: &'a Journal,
    pub(super) seed: u64,
    /// Each process holds a copy while it runs.
    pub(super) alive: mpsc::Sender<()>,
    /// Each of the function's environments that is being ended holds a receiver.
    pub(super) ending: watch::Sender<()>,
}

impl Plan<'_> {
    pub(super) fn start(&self, command: Command, log: &Log) -> Result<Process, String> {
        let held = (Arc::clone(self.configuration), self.alive.clone());
        Process::start(command, log, held).map_err(|error| format!("can't be started: {error}"))
    }

    pub(super) fn log(&self, api: &Arc<RuntimeApi>) -> Log {
        Log {
            journal: self.journal.clone(),
            function: Arc::clone(&self.configuration.name),
            api: Arc::clone(api),
        }
    }

    pub(super) fn runtime(&self, runtime_api: &str) -> Command {
        let wrapped = |command: Vec<OsString>| {
            let wrapper = wrapper(self.configuration).map(PathBuf::into_os_string);
            wrapper.into_iter().chain(command).collect()
        };
        let program = &self.configuration.code.program;
        let (arguments, folder) = match program {
            Program::Bootstrap(folder) => {
                let folder = folder.path();
                (vec![folder.join(BOOTSTRAP).into_os_string()], Some(folder.to_owned()))
            }
            Program::Handler(folder, client) => {
                let handler = self.configuration.handler.clone().unwrap_or_default();
                let command = client.command.iter().cloned().chain([handler.into()]);
                (wrapped(command.collect()), Some(folder.path().to_owned()))
            }
            Program::Command { command, working_directory } => {
                let command = command.iter().map(OsString::from).collect();
                (wrapped(command), working_directory.clone())
            }
        };
        let task_root = folder.clone().unwrap_or_else(|| PathBuf::from("."));
        let mut variables =
            self.common.of(self.configuration, &task_root, runtime_api, self.log_stream);
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
        let opt = self.configuration.layers.opt.as_ref().map(|opt| opt.path().join(client.layer));
        let folders = given.chain(opt).chain([client.packages.clone()]);
        // A search path can't contain a folder whose name has a colon.
        if let Ok(path) = join_paths(folders) {
            variables.insert(client.search_path.into(), path);
        }
    }

    /// The names and paths of the extensions: all files in the layers' folder `extensions`.
    pub(super) fn extensions(&self) -> Vec<(Arc<str>, PathBuf)> {
        let opt = self.configuration.layers.opt.as_ref();
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
        let mut variables =
            self.common.of(self.configuration, Path::new("/"), runtime_api, self.log_stream);
        for_extensions(&mut variables);
        let mut command = self.guarded(vec![file.into()], variables);
        command.current_dir("/");
        Ok(command)
    }

    /// The warden's command line, with this one as its arguments.
    fn guarded(
        &self,
        arguments: Vec<OsString>,
        variables: BTreeMap<OsString, OsString>,
    ) -> Command {
        let mut command = Command::new(self.warden);
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
