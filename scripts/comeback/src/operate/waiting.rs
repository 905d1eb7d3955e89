//! `comeback waiting`, `pause` and `resume`: waiting events, and an operator's orders for them.

pub mod args;
mod list;
mod orders;
mod pause;
mod register;
pub mod rules;

use args::{Action, WaitingArgs};
use comeback_core::claim::Order;
pub use pause::pause;
pub use register::DynamoRegister;

use crate::shell::{Failure, Outcome, Shell};

pub async fn run(args: &WaitingArgs, shell: &Shell) -> Result<Outcome, Failure> {
    match &args.action {
        None => list::run(&args.list, shell).await,
        Some(Action::RetryNow(args)) => orders::run(Order::Retry, args, shell).await,
        Some(Action::Cancel(args)) => orders::run(Order::Cancel, args, shell).await,
    }
}
