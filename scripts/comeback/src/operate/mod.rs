//! The commands for operators. What they say is in `comeback_operate`; here are the terminal and the calls to AWS.

pub mod args;
mod attach;
mod attached;
pub mod aws;
mod calls;
mod console;
mod dead_letters;
mod doctor;
mod functions;
mod generated;
mod groups;
mod logs;
pub mod options;
mod simulate;
mod status;
mod text;
mod trace;
mod waiting;
pub mod web;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use args::Operate;
use console::Ended;

use crate::shell::{Failure, INTERRUPTED, Shell};

/// Runs a command.
///
/// # Errors
///
/// If it can't do what it is asked to.
pub async fn run(command: &Operate, shell: &Shell) -> Result<ExitCode, Failure> {
    let ended = match command {
        Operate::Simulate(args) => {
            simulate::run(args, shell).await?;
            Ended::Well
        }
        Operate::Dead(command) => dead_letters::run(command, shell).await?,
        Operate::Status(args) => status::run(args, shell).await?,
        Operate::Trace(args) => trace::run(args, shell).await?,
        Operate::Waiting(args) => waiting::run(args, shell).await?,
        Operate::Pause(args) => waiting::pause(args, true, shell).await?,
        Operate::Resume(args) => waiting::pause(args, false, shell).await?,
        Operate::Doctor(args) => doctor::run(args, shell).await?,
        Operate::Attach(args) => attach::run_attach(args, shell).await?,
        Operate::Detach(args) => attach::run_detach(args, shell).await?,
        Operate::Web(args) => web::run(args, shell).await?,
        Operate::Completions { shell } => {
            io::stdout().write_all(&generated::completions(*shell))?;
            Ended::Well
        }
        Operate::Man { folder } => {
            generated::man(folder)?;
            Ended::Well
        }
    };
    Ok(match ended {
        Ended::Well => ExitCode::SUCCESS,
        Ended::Badly => ExitCode::FAILURE,
        Ended::Interrupted => ExitCode::from(INTERRUPTED),
    })
}
