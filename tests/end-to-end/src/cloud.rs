//! A local cloud for one test, in a process of its own.

use std::{
    ops::Deref,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use comeback_local_client::deploy;
pub use comeback_local_client::deploy::{Code, Function};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::journal::Journal;

/// The path of a binary of this workspace. Cargo puts binaries into one folder, and tests into a folder below it.
pub fn binary(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let mut folders = own.ancestors().skip(1).take(2).map(|folder| folder.join(name));
    let missing = || panic!("{name} is missing: run `cargo build --workspace --bins`");
    folders.find(|path| path.exists()).unwrap_or_else(missing)
}

pub fn example(name: &str) -> PathBuf {
    let path = binary("examples").join(name);
    assert!(
        path.exists(),
        "{name} is missing: run `cargo build --workspace --examples --all-features`"
    );
    path
}

/// A function that runs a binary of this workspace.
pub fn function(name: &str, binary_name: &str) -> Function {
    Function::of(name, &binary(binary_name), Duration::from_secs(10))
}

/// The code of a function that runs a command in the folder for temporary files.
pub fn command<T: Into<String>>(words: impl IntoIterator<Item = T>) -> Code {
    let words = words.into_iter().map(Into::into).collect();
    Code::Command { words, folder: std::env::temp_dir() }
}

/// SQS and Lambda on a free port. Dropping it kills the process.
pub struct Cloud {
    pub process: Child,
    pub endpoint: String,
    client: deploy::Cloud,
}

impl Deref for Cloud {
    type Target = deploy::Cloud;

    fn deref(&self) -> &deploy::Cloud {
        &self.client
    }
}

impl Cloud {
    /// Starts a cloud. `runtimes` is a folder of runtime clients.
    pub async fn start(runtimes: Option<&Path>, freeze: bool) -> Self {
        let mut command = Command::new(binary("comeback-local"));
        Self::spawn(command.args(freeze.then_some("--freeze")).arg("0"), runtimes).await
    }

    /// Starts a cloud in which a queue has at most `most` messages in flight.
    pub async fn with_in_flight_max(most: u32) -> Self {
        let mut command = Command::new(binary("comeback"));
        command.args(["local", "--empty", "--port", "0", "--max-processes", "100"]);
        Self::spawn(command.args(["--in-flight-max", &most.to_string()]), None).await
    }

    /// Starts a cloud that also has DynamoDB, with so many processes for each function.
    pub async fn with_tables(max_processes: u32) -> Self {
        let mut command = Command::new(binary("comeback"));
        command.args(["local", "--empty", "--port", "0"]);
        Self::spawn(command.args(["--max-processes", &max_processes.to_string()]), None).await
    }

    async fn spawn(command: &mut Command, runtimes: Option<&Path>) -> Self {
        let mut process = command
            .envs(runtimes.map(|folder| ("COMEBACK_RUNTIMES", folder)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let endpoint = loop {
            let line =
                lines.next_line().await.unwrap().expect("an endpoint before the end of output");
            if let Some(at) = line.find("http://127.0.0.1:") {
                break line[at..].split_whitespace().next().unwrap().to_owned();
            }
        };
        // Keep reading, so that the pipe never fills up.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { process, client: deploy::Cloud::at(&endpoint), endpoint }
    }

    pub fn journal(&self) -> Journal {
        Journal::of(&self.endpoint)
    }
}
