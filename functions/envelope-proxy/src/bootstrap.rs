//! The proxy as the `bootstrap` of a custom runtime, for which Lambda supports no wrapper.
//!
//! This process becomes the real bootstrap, so that the real one receives Lambda's signals and Lambda sees its exit
//! code. Before that, it starts the proxy as a second process and waits until the proxy listens.

use std::{
    env,
    ffi::OsString,
    fs,
    io::{self, BufRead, BufReader},
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use rustix::process::{Signal, set_parent_process_death_signal};

/// The argument that makes the program serve as the proxy.
pub const SERVE: &str = "serve";

/// Why the real bootstrap is not started.
#[derive(Debug, thiserror::Error)]
pub enum NoBootstrap {
    #[error("COMEBACK_BOOTSTRAP must be the path of the program to start, got nothing")]
    Unset,
    #[error("COMEBACK_BOOTSTRAP must be the function's own program, got {0}, which is the proxy")]
    Itself(String),
    /// The proxy ended before it listened, and has logged why.
    #[error("the proxy did not start")]
    NoProxy,
    #[error("{what} can't be started: {error}")]
    NotStarted { what: String, error: io::Error },
}

/// Starts the proxy, then becomes the real bootstrap with these arguments. Returns only on failure.
pub fn become_bootstrap(
    path: Option<&str>,
    arguments: impl Iterator<Item = OsString>,
) -> NoBootstrap {
    let Some(path) = path else { return NoBootstrap::Unset };
    if fs::canonicalize(path).is_ok_and(|path| env::current_exe().is_ok_and(|own| own == path)) {
        return NoBootstrap::Itself(path.to_owned());
    }
    let address = match proxy() {
        Ok(Some(address)) => address,
        Ok(None) => return NoBootstrap::NoProxy,
        Err(error) => return NoBootstrap::NotStarted { what: "the proxy".to_owned(), error },
    };
    let error = Command::new(path).args(arguments).env("AWS_LAMBDA_RUNTIME_API", address).exec();
    NoBootstrap::NotStarted { what: format!("{path} (COMEBACK_BOOTSTRAP)"), error }
}

/// Starts the proxy, and returns its address as soon as it listens.
fn proxy() -> io::Result<Option<String>> {
    let mut proxy = Command::new(env::current_exe()?);
    let mut proxy = proxy.arg(SERVE).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut address = String::new();
    if let Some(stdout) = proxy.stdout.take() {
        BufReader::new(stdout).read_line(&mut address)?;
    }
    Ok(Some(address.trim_end().to_owned()).filter(|address| !address.is_empty()))
}

/// Makes this process, which is the proxy, end with its parent.
pub fn end_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}
