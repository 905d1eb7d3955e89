//! `comeback`, the command-line program: it runs the retry loop on this machine, to play with
//! (`comeback local`) and to watch (`comeback demo`).
//!
//! A command starts the local cloud in this process, deploys the retry loop into it through the same
//! AWS calls that deploy it anywhere, and then only looks on: all that it shows and judges comes out
//! of the local cloud's journal, the functions' own logs, and the queues.
//!
//! This file alone reads the clock and the environment's variables.

mod args;
mod binaries;
mod demo;
mod functions;
mod happening;
mod local;
mod log;
mod paint;
mod settings;
mod shell;
mod words;

use std::{env, io, process::ExitCode};

use args::{Args, Command};
use clap::Parser;
use comeback_cli::{dead_letters, deploy, journal};
use comeback_core::Timestamp;
use demo::Outcome;
use shell::{Failure, Shell};
use tokio::runtime::Runtime;

/// What shells answer for a program that ended at Ctrl-C.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    // The local cloud starts its functions through this same program.
    if env::args_os().nth(1).is_some_and(|first| first == comeback_local::WARDEN) {
        return comeback_local::warden(env::args_os().skip(2));
    }
    let args = Args::parse();
    #[allow(clippy::disallowed_methods, reason = "a main is where the environment is read")]
    let shell = Shell::look(now, |name| env::var(name).ok());
    match start(&args, &shell) {
        Ok(code) => code,
        // Who closed the pipe knows.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::FAILURE
        }
        Err(failure) => {
            eprintln!("comeback: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn start(args: &Args, shell: &Shell) -> Result<ExitCode, Failure> {
    let runtime = Runtime::new()?;
    let ended = runtime.block_on(run(args, shell));
    // A write into a pipe that nobody reads must not keep this program.
    runtime.shutdown_background();
    ended
}

async fn run(args: &Args, shell: &Shell) -> Result<ExitCode, Failure> {
    match &args.command {
        Command::Local(args) => local::run(args, shell).await.map(|()| ExitCode::SUCCESS),
        Command::Demo(args) => Ok(match demo::run(args, shell).await? {
            Outcome::AsItShould => ExitCode::SUCCESS,
            Outcome::NotAsItShould => ExitCode::FAILURE,
            Outcome::Interrupted => ExitCode::from(INTERRUPTED),
        }),
    }
}

#[allow(clippy::disallowed_methods, reason = "a main is where the clock is read")]
fn now() -> Timestamp {
    chrono::Utc::now()
}
