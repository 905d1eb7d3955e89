//! The commands for operators. Each has its arguments, the calls to AWS that fetch its facts, its `rules` (facts in,
//! findings and texts out), and what it shows.

pub mod args;
pub mod attach;
mod attached;
pub mod aws;
pub mod dead_letters;
pub mod doctor;
pub mod options;
pub mod rules;
pub mod simulate;
pub mod status;
mod text;
mod trace;
pub mod waiting;
pub mod web;

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use args::Operate;
use clap::CommandFactory;

use crate::{
    args::Args,
    shell::{Failure, Outcome, Shell},
};

pub async fn run(command: &Operate, shell: &Shell) -> Result<Outcome, Failure> {
    match command {
        Operate::Simulate(args) => simulate::run(args, shell).await,
        Operate::Dead(command) => dead_letters::run(command, shell).await,
        Operate::Status(args) => status::run(args, shell).await,
        Operate::Trace(args) => trace::run(args, shell).await,
        Operate::Waiting(args) => waiting::run(args, shell).await,
        Operate::Pause(args) => waiting::pause(args, true, shell).await,
        Operate::Resume(args) => waiting::pause(args, false, shell).await,
        Operate::Doctor(args) => doctor::run(args, shell).await,
        Operate::Attach(args) => attach::run_attach(args, shell).await,
        Operate::Detach(args) => attach::run_detach(args, shell).await,
        Operate::Web(args) => web::run(args, shell).await,
        Operate::Completions { shell } => completions(*shell),
        Operate::Man { folder } => man(folder),
    }
}

fn completions(shell: clap_complete::Shell) -> Result<Outcome, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "comeback", &mut script);
    io::stdout().write_all(&script)?;
    Ok(Outcome::Success)
}

/// Writes a man page for each command into a folder.
fn man(folder: &Path) -> Result<Outcome, Failure> {
    fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Args::command(), folder))
        .map_err(|source| Failure::File { path: folder.to_owned(), source })?;
    Ok(Outcome::Success)
}
