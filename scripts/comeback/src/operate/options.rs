//! Options that several commands share: the retry system that they select, and how an order is carried out.

use comeback_core::Timestamp;

use crate::{
    account::{function::Function, handlers::only, known::Names},
    aws::{Aws, connect::Connection, reads::functions},
    failure::Failure,
};

/// Options that select a retry system.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Where")]
pub struct SystemOptions {
    /// The retry handler, if there are several.
    #[arg(long, value_name = "NAME")]
    pub handler: Option<String>,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Clone, Copy, Debug, clap::Args)]
pub struct OrderOptions {
    /// Select everything. Without a filter, purge and cancel need it.
    #[arg(long)]
    pub all: bool,
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

impl OrderOptions {
    /// Those of an order that a person has confirmed already, after a look at its plan.
    pub fn confirmed() -> Self {
        Self { all: true, yes: true, dry_run: false, json: false }
    }
}

/// A choice of an option, with its name.
pub type Named<T> = (&'static str, T);

pub fn one_of<T: Copy>(all: &[Named<T>], text: &str) -> Result<Named<T>, String> {
    let names = all.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let found = all.iter().find(|(name, _)| *name == text);
    found.copied().ok_or_else(|| format!("expected one of {names}"))
}

/// Refuses names that nothing has, once nothing was found by them: events may be of a function that is gone.
pub async fn refuse_unknown(aws: &Aws, wanted: &[String]) -> Result<(), Failure> {
    if wanted.is_empty() {
        return Ok(());
    }
    // Without the right to list functions, the names can't be checked.
    let Ok(functions) = functions(aws).await else { return Ok(()) };
    Names::of(&functions).check(wanted).map_err(|unknown| Failure::Refused(unknown.to_string()))
}

pub async fn find(
    options: &SystemOptions,
    now: fn() -> Timestamp,
) -> Result<(Aws, Function), Failure> {
    let aws = Aws::connect(&options.connection, now).await?;
    let handler = only(&functions(&aws).await?, options.handler.as_deref())?;
    Ok((aws, handler))
}
