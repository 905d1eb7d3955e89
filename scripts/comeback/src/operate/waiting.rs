//! `comeback waiting`, `pause` and `resume`: waiting events, and an operator's orders for them.

mod filter;
pub mod list;
pub mod order;
pub mod pause;
mod queues;
pub mod register;
pub mod rules;

use clap::Subcommand;

use crate::{
    failure::Failure,
    operate::{
        order::terminal,
        waiting::{
            list::{ListArgs, list},
            order::{Cancel, EventsArgs, RetryNow},
        },
    },
    shell::{Outcome, Shell},
};

pub async fn run(args: &WaitingArgs, shell: &Shell) -> Result<Outcome, Failure> {
    match &args.action {
        None => list(&args.list, shell).await,
        Some(Action::RetryNow(args)) => terminal::run::<RetryNow>(args, shell).await,
        Some(Action::Cancel(args)) => terminal::run::<Cancel>(args, shell).await,
    }
}

#[derive(Debug, clap::Args)]
pub struct WaitingArgs {
    /// What to do with the events. Without it, they are listed.
    #[command(subcommand)]
    pub action: Option<Action>,
    #[command(flatten)]
    pub list: ListArgs,
}

/// Orders for waiting events.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Retry events now, before they are due.
    ///
    /// Each retry counts as an attempt. A delayed message can't be made visible sooner, so its event comes back within
    /// 15 minutes. An event that the handler has retried in the meantime is not retried again.
    #[command(
        after_help = "Example: comeback waiting retry-now --function orders --error PaymentError --rate 20"
    )]
    RetryNow(EventsArgs),
    /// Give events up. They become dead letters with the reason cancelled.
    #[command(after_help = "Example: comeback waiting cancel --function orders --error BadRequest")]
    Cancel(EventsArgs),
}
