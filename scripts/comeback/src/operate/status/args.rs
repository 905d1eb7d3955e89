//! The command line of `comeback status`.

use std::time::Duration;

use comeback_core::duration;

use crate::operate::options::SystemOptions;

/// Options of `comeback status`.
#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// Functions, by their names; * matches any characters [default: all that are attached].
    #[arg(value_name = "FUNCTION")]
    pub functions: Vec<String>,
    /// Refresh the table until Ctrl-C. In a pipe, print one table after the other.
    #[arg(long, conflicts_with = "json")]
    pub watch: bool,
    /// How often --watch refreshes.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = every, requires = "watch")]
    pub every: Duration,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub system: SystemOptions,
}

fn every(text: &str) -> Result<Duration, &'static str> {
    duration::parse(text)
        .filter(|every| *every >= Duration::from_secs(1))
        .ok_or("expected a duration of at least 1s, such as 5s or 1m")
}
