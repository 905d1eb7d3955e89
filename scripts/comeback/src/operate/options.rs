//! Options that several commands share.

use std::collections::BTreeMap;

use serde::Serialize;

/// Options that select a retry system.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Where")]
pub struct SystemOptions {
    /// The retry handler, if there are several.
    #[arg(long, value_name = "NAME")]
    pub handler: Option<String>,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Debug, clap::Args)]
pub struct OrderOptions {
    /// Start at once: don't ask, and don't count first what is selected.
    #[arg(long)]
    pub yes: bool,
    /// Show what would be done, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

/// What `--json` prints about an order.
#[derive(Serialize)]
pub struct Ordered<'a, Plan, Tally> {
    /// The queue or the handler.
    #[serde(flatten)]
    pub of: BTreeMap<&'static str, &'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<&'a Plan>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<&'a Tally>,
    pub interrupted: bool,
    pub error: Option<String>,
}

/// Options for the connection to AWS or the local cloud.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Connection {
    /// The local cloud instead of AWS [default: http://127.0.0.1:4700].
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true)]
    pub local: Option<Option<String>>,
    /// The region [default: that of the AWS CLI].
    #[arg(long, value_name = "REGION")]
    pub region: Option<String>,
    /// The profile of the AWS CLI's configuration.
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// If a call to AWS fails, print all its causes.
    #[arg(long)]
    pub verbose: bool,
}

/// A choice of an option, with its name.
pub type Named<T> = (&'static str, T);

pub fn one_of<T: Copy>(all: &[Named<T>], text: &str) -> Result<Named<T>, String> {
    let names = all.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let found = all.iter().find(|(name, _)| *name == text);
    found.copied().ok_or_else(|| format!("expected one of {names}"))
}
