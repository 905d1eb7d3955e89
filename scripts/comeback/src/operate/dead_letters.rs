//! `comeback dead`: lists, redrives, exports and deletes the letters in a dead-letter queue.

mod editor;
mod export;
pub mod list;
pub mod order;
pub mod queue;
pub mod rules;
pub mod show;

use clap::Subcommand;

use crate::{
    failure::Failure,
    operate::{
        dead_letters::{
            export::ExportArgs,
            list::ListArgs,
            order::{LettersArgs, Purge, Redrive, RedriveArgs},
            show::ShowArgs,
        },
        order::terminal,
    },
    shell::{Outcome, Shell},
};

pub async fn run(command: &Dead, shell: &Shell) -> Result<Outcome, Failure> {
    match command {
        Dead::List(args) => list::list(args, shell).await,
        Dead::Show(args) => show::show(args, shell).await,
        Dead::Redrive(args) => terminal::run::<Redrive>(args, shell).await,
        Dead::Purge(args) => terminal::run::<Purge>(args, shell).await,
        Dead::Export(args) => export::export(args, shell).await,
    }
}

/// The commands for dead letters.
#[derive(Debug, Subcommand)]
pub enum Dead {
    /// List or count the letters.
    #[command(after_help = "Example: comeback dead list --function orders --group-by reason,error")]
    List(ListArgs),
    /// Show what is known about a letter.
    #[command(after_help = "Example: comeback dead show e4b46cbf --payload")]
    Show(ShowArgs),
    /// Invoke the letters' functions again, with the original payloads. Messages go to their queues again.
    ///
    /// Each letter is deleted after Lambda or SQS has accepted its event. Ctrl-C ends the command cleanly: run it again
    /// to redrive the rest. If it is killed, the events of up to --batches batches of ten may be invoked twice. Letters
    /// that arrive after the command began stay in the queue.
    #[command(
        after_help = "Example: comeback dead redrive --error PaymentError --where /order/country=DE --rate 50"
    )]
    Redrive(RedriveArgs),
    /// Write letters into a file, a line of JSON for each: message_id, sent_at, attributes and body.
    #[command(after_help = "Example: comeback dead export --reason not_retryable letters.jsonl")]
    Export(ExportArgs),
    /// Delete letters for good.
    #[command(after_help = "Example: comeback dead purge --older-than 7d")]
    Purge(LettersArgs),
}
