//! `comeback status`: the state of each function and queue, from SQS, CloudWatch and the ledger.

pub mod gather;
mod metrics;
pub mod rules;
pub mod table;

use std::time::Duration;

use comeback_core::{duration, pattern};
use futures_util::future::join;
use serde_json::json;

use crate::{
    account::{
        function::Function,
        handlers::only,
        names::{queue_arn, target_name},
        queue::QueueAttributes,
    },
    aws::{
        Aws,
        attached::attached,
        reads::{self, functions},
    },
    failure::Failure,
    operate::{options::SystemOptions, status::gather::gather},
    shell::{Outcome, Screen, Shell, Signals},
    typed::not_empty,
};

#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// Functions, by their names; * matches any characters [default: all that are attached].
    #[arg(value_name = "FUNCTION", value_parser = not_empty)]
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

pub async fn run(args: &StatusArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let aws = Aws::connect(&args.system.connection, shell.now).await?;
    let functions = functions(&aws).await?;
    let handler = only(&functions, args.system.handler.as_deref())?;
    let mut attached = attached(&aws, &handler, &functions).await?;
    if !args.functions.is_empty() {
        attached.retain(|it| {
            let name = target_name(&it.arn);
            args.functions.iter().any(|wanted| pattern::matches(wanted, &name))
        });
    }
    if attached.is_empty() {
        let none = "no function sends its failures to the retry queues of";
        return Err(format!("{none} {}", handler.name()).into());
    }
    let mut signals = Signals::listen()?;
    let mut screen = if args.watch && shell.terminal { Some(Screen::take()?) } else { None };
    let interrupted = if args.watch { Outcome::Success } else { Outcome::Interrupted };
    loop {
        let now = (shell.now)();
        let (gathered, letters) = tokio::select! {
            found = join(gather(&aws, &handler, &attached, now), letters_now(&aws, &handler)) => found,
            () = signals.any() => return Ok(interrupted),
        };
        let (facts, unknown) = gathered?;
        let title = table::title(handler.name(), &facts, letters);
        let lines = table::report(title, &facts, unknown.as_ref(), now, shell.width());
        if args.json {
            let functions: Vec<_> = facts.iter().map(table::json_of).collect();
            let unknown = unknown.map(|fault| fault.to_string());
            let document = json!({
                "handler": handler.name(), "letters": letters, "functions": functions,
                "unknown": unknown,
            });
            shell.print_json(&document).await?;
        } else if let Some(screen) = &mut screen {
            screen.draw(&lines, shell.colour).await?;
        } else {
            shell.print(&lines).await?;
        }
        if !args.watch {
            return Ok(Outcome::Success);
        }
        tokio::select! {
            () = tokio::time::sleep(args.every) => {}
            () = signals.any() => return Ok(interrupted),
        }
    }
}

/// The approximate number of letters in the dead-letter queue, if that can be read.
async fn letters_now(aws: &Aws, handler: &Function) -> Option<u64> {
    let arn = queue_arn(handler.dead_letter_queue_url()?, &handler.arn);
    let QueueAttributes { visible, in_flight, delayed, .. } =
        reads::queue(aws, &arn).await.attributes.ok()??;
    Some(visible + in_flight + delayed)
}
