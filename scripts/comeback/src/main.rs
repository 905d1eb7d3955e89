//! `comeback`, the command-line program. `comeback local` and `comeback demo` run the retry loop on this machine. The
//! other commands are for operators.
//!
//! `local` and `demo` start the local cloud in this process and deploy the retry loop through AWS's APIs. Then they
//! only observe: all their output comes from the local cloud's journal, the functions' logs and the queues. The retry
//! handler and the example function are part of this program, so it needs no other file.
//!
//! Without the feature `operate`, only `demo` is there.
//!
//! Only this file reads the clock and the environment.

#![cfg_attr(
    not(feature = "operate"),
    allow(dead_code, reason = "what commands share is used by those that are left out")
)]

mod account;
mod activity;
mod args;
#[cfg(feature = "operate")]
mod aws;
mod demo;
mod dynamodb;
mod events_of_runs;
mod failure;
#[cfg(feature = "operate")]
mod filter;
mod functions;
#[cfg(feature = "operate")]
mod groups;
mod life;
#[cfg(feature = "operate")]
mod local;
#[cfg(feature = "operate")]
mod log;
mod notice;
#[cfg(feature = "operate")]
mod operate;
mod paint;
mod quantiles;
mod shell;
mod spelling;
#[cfg(feature = "operate")]
mod tables;
mod text;
mod typed;
mod untrusted;

use std::{
    env,
    ffi::OsString,
    io::{self, IsTerminal as _},
    path::PathBuf,
    process::ExitCode,
};

use args::{Args, Command};
use clap::{CommandFactory as _, Parser as _};
use comeback_core::Timestamp;
use failure::Failure;
use shell::{Outcome, Shell};
use tokio::runtime::Runtime;

fn main() -> ExitCode {
    // The local cloud starts its functions through this program.
    if let Some(first) = env::args_os().nth(1) {
        if first == comeback_local::WARDEN {
            return comeback_local::warden(env::args_os().skip(2));
        }
        if let Some(ended) = functions::run(&first) {
            return ended;
        }
    }
    let args = match env::args_os().map(OsString::into_string).collect::<Result<Vec<_>, _>>() {
        Ok(line) => Args::parse_from(spelling::as_in_help(&Args::command(), line)),
        // Clap refuses what is not UTF-8, unless it is a path.
        Err(_) => Args::parse(),
    };
    #[allow(
        clippy::disallowed_methods,
        reason = "a program's outermost file reads the environment"
    )]
    let shell = {
        let started = env::args_os().next().map_or_else(|| "comeback".into(), PathBuf::from);
        let program = shell::program(&started, &env::current_dir().unwrap_or_default());
        Shell::of(now, io::stdout().is_terminal(), program, |name| env::var(name).ok())
    };
    match start(&args, &shell) {
        Ok(outcome) => outcome.into(),
        // The reader has closed the pipe, so an error message would not be seen.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::FAILURE
        }
        Err(failure) => {
            complain(&failure.to_string());
            if let Some(causes) = failure.causes()
                && env::args_os().any(|argument| argument == "--verbose")
            {
                complain(causes);
            }
            ExitCode::from(failure.code())
        }
    }
}

/// Prints an error. It may have text of others.
fn complain(text: &str) {
    let is_hidden = |c: char| c != '\n' && paint::is_hidden(c);
    eprintln!("comeback: {}", text.replace(is_hidden, "\u{fffd}"));
}

fn start(args: &Args, shell: &Shell) -> Result<Outcome, Failure> {
    let runtime = Runtime::new()?;
    let outcome = runtime.block_on(run(args, shell));
    // A write that is blocked by a full pipe must not keep this program running.
    runtime.shutdown_background();
    outcome
}

async fn run(args: &Args, shell: &Shell) -> Result<Outcome, Failure> {
    match &args.command {
        #[cfg(not(feature = "operate"))]
        Command::Other(command) => Err(args::left_out(command).into()),
        #[cfg(feature = "operate")]
        Command::Local(args) => local::run(args, shell).await.map(|()| Outcome::Success),
        Command::Demo(args) => demo::run(args, shell).await,
        #[cfg(feature = "operate")]
        Command::Operate(command) => operate::run(command, Args::command, shell).await,
    }
}

#[allow(clippy::disallowed_methods, reason = "a program's outermost file reads the clock")]
fn now() -> Timestamp {
    chrono::Utc::now()
}
