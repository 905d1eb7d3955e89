//! The command lines of `comeback attach` and `comeback detach`.

use crate::operate::attach::rules::parse;

use crate::operate::options::Connection;

/// The name of a function, with its alias or version.
pub type QualifiedName = (String, Option<String>);

/// Options of `comeback attach`.
#[derive(Debug, clap::Args)]
pub struct AttachArgs {
    /// The function, by its name or ARN, with an alias or a version if that is what is invoked.
    #[arg(value_name = "FUNCTION[:ALIAS]", value_parser = parse)]
    pub function: QualifiedName,
    /// The retry queue, by its name, URL or ARN [default: the only one that functions share].
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// Replace another on-failure destination.
    #[arg(long)]
    pub replace: bool,
    /// Have this layer take the envelope off, so that the function gets its original payload in every attempt.
    #[arg(long, value_name = "LAYER_ARN")]
    pub transparent: Option<String>,
    #[command(flatten)]
    pub options: CommonOptions,
}

/// Options of `comeback detach`.
#[derive(Debug, clap::Args)]
pub struct DetachArgs {
    /// The function, as it was attached.
    #[arg(value_name = "FUNCTION[:ALIAS]", value_parser = parse)]
    pub function: QualifiedName,
    /// Don't wait until the queue is empty: the function's waiting events are dead-lettered.
    #[arg(long)]
    pub now: bool,
    #[command(flatten)]
    pub options: CommonOptions,
}

/// Options of both commands.
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
