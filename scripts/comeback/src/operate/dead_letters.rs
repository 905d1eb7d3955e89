//! `comeback dead`: lists, redrives, exports and deletes the letters in a dead-letter queue.

mod list;
mod queue;
mod redrive;
pub mod rules;

use clap::Subcommand;

use crate::{
    operate::{
        dead_letters::{
            list::{ExportArgs, ListArgs, ShowArgs},
            redrive::{OrderArgs, RedriveArgs},
        },
        options::Connection,
    },
    shell::{Failure, Outcome, Shell},
};

pub use crate::operate::dead_letters::queue::Queue;

pub async fn run(command: &Dead, shell: &Shell) -> Result<Outcome, Failure> {
    match command {
        Dead::List(args) => list::list(args, shell).await,
        Dead::Show(args) => list::show(args, shell).await,
        Dead::Redrive(args) => redrive::redrive(args, shell).await,
        Dead::Purge(args) => redrive::purge(args, shell).await,
        Dead::Export(args) => list::export(args, shell).await,
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
    Purge(OrderArgs),
}

/// Options that select a dead-letter queue.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Where")]
pub struct QueueOptions {
    /// The dead-letter queue of this retry handler.
    #[arg(long, value_name = "NAME", conflicts_with = "queue")]
    pub handler: Option<String>,
    /// A dead-letter queue, by its name or URL; also a function's own.
    #[arg(long, value_name = "NAME|URL")]
    pub queue: Option<String>,
    #[command(flatten)]
    pub connection: Connection,
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use comeback_core::time;

    use crate::operate::dead_letters::rules::{
        Selection,
        tests::{bare, given_up},
    };

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        selection: Selection,
    }

    #[test]
    fn every_filter_must_match_and_of_a_repeated_one_a_value() {
        let letter = given_up(r#"{"order":{"country":"DE"}}"#, &[]);
        let empty = bare("no JSON", &[]);
        let now = time::parse("2026-01-01T12:00:00Z").unwrap();
        for (options, is_letter, is_empty) in [
            ("", true, true),
            ("--id mess", true, true),
            ("--id x --id first-id", true, false),
            ("--id essage", false, false),
            ("--reason max_age_exceeded", true, false),
            ("--reason not_retryable --reason none", false, true),
            ("--function orders", true, false),
            ("--function ord*", true, false),
            ("--function arn:aws:lambda:us-east-1:123456789012:function:orders", true, false),
            ("--function *:live", false, false),
            ("--function *", true, false),
            ("--function none", false, true),
            ("--error PaymentError", true, false),
            ("--error app.*", true, false),
            ("--error Payment", false, false),
            ("--error none", false, true),
            ("--message DECLINED", true, false),
            ("--message approved", false, false),
            // The age of a letter without a failure counts from when it was sent.
            ("--older-than 1h", true, true),
            ("--older-than 2h", true, false),
            ("--older-than 3h", false, false),
            ("--newer-than 2h", true, true),
            ("--newer-than 1h", false, false),
            ("--attempts 7", true, false),
            ("--attempts 7..", true, false),
            ("--attempts 0..", true, false),
            ("--attempts ..6", false, false),
            ("--attempts 6..7", true, false),
            ("--where /order/country=DE", true, false),
            ("--where /order/country=DE --where /x=1", false, false),
            ("--id mess --reason none", false, true),
        ] {
            let line = Line::parse_from(["dead"].into_iter().chain(options.split_whitespace()));
            let found = [&letter, &empty].map(|it| line.selection.matches(it, &it.facts(), now));
            assert_eq!(found, [is_letter, is_empty], "{options}");
        }
        for text in ["5..3", "..", "x", ""] {
            assert!(Line::try_parse_from(["dead", "--attempts", text]).is_err(), "{text:?}");
        }
    }
}
