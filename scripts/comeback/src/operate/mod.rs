//! The commands for operators. What they say is in `comeback_operate`; here are the terminal and the calls to AWS.

pub mod args;
mod generated;
mod simulate;
mod text;

use std::io::{self, Write};

use args::Operate;

use crate::shell::{Failure, Shell};

/// Runs a command.
///
/// # Errors
///
/// If it can't do what it is asked to.
pub async fn run(command: &Operate, shell: &Shell) -> Result<(), Failure> {
    match command {
        Operate::Simulate(args) => simulate::run(args, shell).await,
        Operate::Completions { shell } => {
            Ok(io::stdout().write_all(&generated::completions(*shell))?)
        }
        Operate::Man { folder } => generated::man(folder),
    }
}
