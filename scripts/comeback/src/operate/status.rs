//! `comeback status`: the state of each function and queue, from SQS, CloudWatch and the ledger.

pub mod gather;
mod metrics;
pub mod rules;
pub mod table;

use std::time::Duration;

use comeback_core::{Timestamp, duration, pattern};
use futures_util::future::join;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    account::{
        attached::Attached,
        fault::Fault,
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
    operate::{
        options::SystemOptions,
        status::{gather::gather, rules::Facts, table::Stated},
    },
    shell::{Outcome, Screen, Shell, Signals},
    typed::not_empty,
    untrusted,
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

/// The document of `--json`.
#[derive(JsonSchema, Serialize)]
pub struct StatusJson {
    handler: String,
    /// About how many dead letters there are now.
    letters: Option<u64>,
    functions: Vec<Stated>,
    /// Why circuits, pauses and due times are not known.
    #[schemars(with = "Option<untrusted::Text>")]
    unknown: Option<String>,
}

pub async fn document(args: &StatusArgs, now: fn() -> Timestamp) -> Result<StatusJson, Failure> {
    let system = System::find(args, now).await?;
    Ok(system.look(now()).await?.document(&system))
}

pub async fn run(args: &StatusArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let system = System::find(args, shell.now).await?;
    let mut signals = Signals::listen()?;
    let mut screen = if args.watch && shell.terminal { Some(Screen::take()?) } else { None };
    let interrupted = if args.watch { Outcome::Success } else { Outcome::Interrupted };
    loop {
        let now = (shell.now)();
        let seen = tokio::select! {
            seen = system.look(now) => seen?,
            () = signals.any() => return Ok(interrupted),
        };
        if args.json {
            shell.print_json(&seen.document(&system)).await?;
        } else {
            let title = table::title(system.handler.name(), &seen.facts, seen.letters);
            let (facts, unknown) = (&seen.facts, seen.unknown.as_ref());
            let lines = table::report(title, facts, unknown, now, shell.width());
            match &mut screen {
                Some(screen) => screen.draw(&lines, shell.colour).await?,
                None => shell.print(&lines).await?,
            }
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

/// A retry handler, and what is attached to it.
struct System {
    aws: Aws,
    handler: Function,
    attached: Vec<Attached>,
}

struct Seen {
    facts: Vec<Facts>,
    unknown: Option<Fault>,
    letters: Option<u64>,
}

impl System {
    async fn find(args: &StatusArgs, now: fn() -> Timestamp) -> Result<Self, Failure> {
        let aws = Aws::connect(&args.system.connection, now).await?;
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
        Ok(Self { aws, handler, attached })
    }

    async fn look(&self, now: Timestamp) -> Result<Seen, Failure> {
        let Self { aws, handler, attached } = self;
        let gathered = gather(aws, handler, attached, now);
        let (gathered, letters) = join(gathered, letters_now(aws, handler)).await;
        let (facts, unknown) = gathered?;
        Ok(Seen { facts, unknown, letters })
    }
}

impl Seen {
    fn document(self, system: &System) -> StatusJson {
        StatusJson {
            handler: system.handler.name().to_owned(),
            letters: self.letters,
            functions: self.facts.into_iter().map(Stated::of).collect(),
            unknown: self.unknown.map(|fault| fault.to_string()),
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
