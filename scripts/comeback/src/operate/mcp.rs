//! `comeback mcp`: the commands as tools of the Model Context Protocol, on standard input and output.
//!
//! A tool is a command: its arguments are the command's options, its result is the document of `--json`, and both
//! schemas are derived from these types. A tool that changes something takes the token of a plan, which another tool
//! has made by reading. `rules` decides, [`tools`] says which tools there are, [`changes`] makes plans and carries them
//! out, and [`server`] speaks the protocol.

mod call;
mod changes;
mod input;
mod prompts;
mod refusal;
mod rules;
mod server;
mod tools;

use clap::value_parser;

use crate::{
    aws::connect::Connection,
    failure::Failure,
    shell::{Outcome, Shell},
};

/// The most events of one call, and the most a second.
pub const EVENTS_MAX: u32 = 1_000;
pub const RATE_MAX: u32 = 50;

#[derive(Clone, Debug, clap::Args)]
pub struct McpArgs {
    /// Offer the tools that change something: retry now, cancel, pause, resume and redrive.
    ///
    /// Each takes the token of a plan, which holds for ten minutes and one use.
    #[arg(long)]
    pub allow_changes: bool,
    /// Let the tools for dead letters show payloads.
    #[arg(long)]
    pub payload: bool,
    /// The most events that one call lists or changes.
    #[arg(long, value_name = "N", default_value_t = EVENTS_MAX, value_parser = value_parser!(u32).range(1..=i64::from(EVENTS_MAX)))]
    pub max_events: u32,
    /// The most events a second that a call changes.
    #[arg(long, value_name = "N", default_value_t = RATE_MAX, value_parser = value_parser!(u32).range(1..=i64::from(RATE_MAX)))]
    pub max_rate: u32,
    #[command(flatten)]
    pub connection: Connection,
}

pub async fn run(args: &McpArgs, shell: &Shell) -> Result<Outcome, Failure> {
    server::serve(args.clone(), shell.now).await
}
