//! The commands for operators. What they say is in `comeback_operate`; here are the terminal and the calls to AWS.

pub mod args;
pub mod aws;
mod dead_letters;
mod functions;
mod generated;
mod simulate;
mod text;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use args::Operate;
use dead_letters::Ended;

use crate::{
    INTERRUPTED,
    shell::{Failure, Shell},
};

/// Runs a command.
///
/// # Errors
///
/// If it can't do what it is asked to.
pub async fn run(command: &Operate, shell: &Shell) -> Result<ExitCode, Failure> {
    match command {
        Operate::Simulate(args) => simulate::run(args, shell).await?,
        Operate::Dead(command) => {
            return Ok(match dead_letters::run(command, shell).await? {
                Ended::Well => ExitCode::SUCCESS,
                Ended::Badly => ExitCode::FAILURE,
                Ended::Interrupted => ExitCode::from(INTERRUPTED),
            });
        }
        Operate::Completions { shell } => {
            io::stdout().write_all(&generated::completions(*shell))?;
        }
        Operate::Man { folder } => generated::man(folder)?,
    }
    Ok(ExitCode::SUCCESS)
}
