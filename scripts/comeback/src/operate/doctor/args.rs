//! The command line of `comeback doctor`.

use crate::operate::rules::permissions;
use clap::builder::PossibleValuesParser;

use crate::operate::options::Connection;

/// Options of `comeback doctor`.
#[derive(Debug, clap::Args)]
pub struct DoctorArgs {
    /// Examine only these functions of the retry systems, by name.
    #[arg(value_name = "FUNCTION")]
    pub functions: Vec<String>,
    /// Examine only the system of this retry handler.
    #[arg(long, value_name = "NAME")]
    pub handler: Option<String>,
    /// Ask, then run the commands that fix the findings.
    ///
    /// Commands that need a decision by a person are only printed.
    #[arg(long)]
    pub fix: bool,
    /// Don't ask.
    #[arg(long, requires = "fix")]
    pub yes: bool,
    /// Print the IAM policy that a command needs, and do nothing else.
    ///
    /// It allows nothing but that. Put the names of your functions, queues and roles in the place of the asterisks.
    #[arg(
        long,
        value_name = "COMMAND",
        num_args = 0..=1,
        default_missing_value = "doctor",
        conflicts_with_all = ["functions", "handler", "fix", "json"],
        value_parser = PossibleValuesParser::new(permissions::commands()),
    )]
    pub policy: Option<String>,
    /// Print one JSON document instead of lines.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connection: Connection,
}
