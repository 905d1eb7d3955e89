//! Options of `comeback attach` and of `comeback detach`.

use crate::{aws::connect::Connection, operate::options::OrderOptions};

#[derive(Debug, clap::Args)]
pub struct CommonOptions {
    /// The retry handler [default: the only one].
    #[arg(long, value_name = "NAME")]
    pub handler: Option<String>,
    /// Show the plan and change nothing.
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// Don't ask.
    #[arg(long)]
    pub yes: bool,
    /// Print one JSON document instead of lines.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connection: Connection,
}

impl CommonOptions {
    /// How the order is given.
    pub fn order(&self) -> OrderOptions {
        OrderOptions { all: false, yes: self.yes, dry_run: self.dry_run, json: self.json }
    }
}
