//! `comeback mcp`: the commands as tools of the Model Context Protocol, on standard input and output.
//!
//! A tool is a command: its arguments are the command's options, its result is the document of `--json`, and both
//! schemas are derived from these types. A tool that changes something takes the token of a plan, which another tool
//! has made by reading. `rules` decides, [`tools`] says which tools there are, [`changes`] makes plans and carries them
//! out, and [`server`] speaks the protocol.

mod call;
mod changes;
mod lines;
pub mod options;
mod prompts;
mod refusal;
mod rules;
mod server;
mod tools;

use crate::{
    failure::Failure,
    operate::mcp::options::McpArgs,
    shell::{Outcome, Shell},
};

pub async fn run(args: &McpArgs, shell: &Shell) -> Result<Outcome, Failure> {
    server::serve(args.clone(), shell.now).await
}
