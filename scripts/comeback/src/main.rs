//! `comeback`, the command-line program. It runs the retry loop on this machine, `comeback local` to try it and
//! `comeback demo` to watch it, and has the commands for those who operate one.
//!
//! The first two start the local cloud in this process and deploy the retry loop through AWS's APIs. Then they
//! only observe: what they show comes from the local cloud's journal, the logs of the functions and the queues.
//!
//! Only this file reads the clock and the environment.

mod args;
mod binaries;
mod demo;
mod functions;
mod happening;
mod ledger;
mod local;
mod log;
#[cfg(feature = "operate")]
mod operate;
mod paint;
mod settings;
mod shell;
#[cfg(feature = "operate")]
mod watched;
#[cfg(not(feature = "operate"))]
#[path = "unwatched.rs"]
mod watched;
mod words;

use std::{env, io, process::ExitCode};

use args::{Args, Command};
use clap::Parser;
use comeback_cli::{dead_letters, deploy, journal};
use comeback_core::Timestamp;
use shell::{Ended, Failure, Shell};
use tokio::runtime::Runtime;

fn main() -> ExitCode {
    // The local cloud starts its functions through this program.
    if env::args_os().nth(1).is_some_and(|first| first == comeback_local::WARDEN) {
        return comeback_local::warden(env::args_os().skip(2));
    }
    let args = Args::parse();
    #[allow(
        clippy::disallowed_methods,
        reason = "a program's outermost file reads the environment"
    )]
    let shell = Shell::look(now, |name| env::var(name).ok());
    match start(&args, &shell) {
        Ok(ended) => ended.into(),
        // The reader has closed the pipe, so nobody would see a message.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::FAILURE
        }
        Err(failure) => {
            eprintln!("comeback: {failure}");
            ExitCode::from(failure.code())
        }
    }
}

fn start(args: &Args, shell: &Shell) -> Result<Ended, Failure> {
    let runtime = Runtime::new()?;
    let ended = runtime.block_on(run(args, shell));
    // A write into a pipe that nobody reads must not keep this program running.
    runtime.shutdown_background();
    ended
}

async fn run(args: &Args, shell: &Shell) -> Result<Ended, Failure> {
    match &args.command {
        Command::Local(args) => local::run(args, shell).await.map(|()| Ended::Well),
        Command::Demo(args) => demo::run(args, shell).await,
        #[cfg(feature = "operate")]
        Command::Operate(command) => operate::run(command, shell).await,
    }
}

#[allow(clippy::disallowed_methods, reason = "a program's outermost file reads the clock")]
fn now() -> Timestamp {
    chrono::Utc::now()
}
