//! `comeback status`: the state of each function and queue, from SQS, CloudWatch and the ledger.

pub mod gather;
mod metrics;
pub mod over;
pub mod rules;
pub mod table;

use std::time::Duration;

use comeback_core::{Timestamp, pattern};
use futures_util::future::join;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    account::{
        attached::Attached,
        fault::Fault,
        function::Function,
        handlers::only,
        known::Names,
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
        status::{gather::gather, over::Over, rules::Facts, table::Stated},
    },
    shell::{Outcome, Screen, Shell, Signals},
    typed::{duration, not_empty},
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
    let every = duration(text).ok().filter(|every| *every >= Duration::from_secs(1));
    every.ok_or("expected a duration of at least 1s, such as 5s or 1m")
}

/// The document of `--json`.
#[derive(JsonSchema, Serialize)]
pub struct StatusJson {
    handler: String,
    /// About how many dead letters there are now.
    letters: Option<u64>,
    over: Over,
    functions: Vec<Stated>,
    /// Why some of this is not known: what a function lacks stands in its own `unknown`, and without the ledger's table
    /// there are no circuits, pauses and due times.
    #[schemars(with = "Vec<untrusted::Text>")]
    unknown: Vec<String>,
}

pub async fn document(args: &StatusArgs, now: fn() -> Timestamp) -> Result<StatusJson, Failure> {
    let system = System::find(args, now).await?;
    Ok(system.look(now()).await.document(&system))
}

pub async fn run(args: &StatusArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let system = System::find(args, shell.now).await?;
    let mut signals = Signals::listen()?;
    let mut screen = if args.watch && shell.terminal { Some(Screen::take()?) } else { None };
    let interrupted = if args.watch { Outcome::Success } else { Outcome::Interrupted };
    loop {
        let now = (shell.now)();
        let seen = tokio::select! {
            seen = system.look(now) => seen,
            () = signals.any() => return Ok(interrupted),
        };
        if args.json {
            shell.print_json(&seen.document(&system)).await?;
        } else {
            let title = table::title(system.handler.name(), &seen.facts, seen.letters);
            let lines = table::report(title, &seen.facts, &seen.unknown, now, shell.width());
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
    unknown: Vec<Fault>,
    letters: Option<u64>,
}

impl System {
    async fn find(args: &StatusArgs, now: fn() -> Timestamp) -> Result<Self, Failure> {
        let aws = Aws::connect(&args.system.connection, now).await?;
        let functions = functions(&aws).await?;
        let handler = only(&functions, args.system.handler.as_deref())?;
        let mut attached = attached(&aws, &handler, &functions).await?;
        if attached.is_empty() {
            let none = "no function sends its failures to the retry queues of";
            return Err(format!("{none} {}", handler.name()).into());
        }
        let is_of = |it: &Attached, wanted: &str| pattern::matches(wanted, &target_name(&it.arn));
        let mut wanted = args.functions.iter();
        if let Some(name) = wanted.find(|wanted| !attached.iter().any(|it| is_of(it, wanted))) {
            Names::of(&functions).check([name]).map_err(|unknown| unknown.to_string())?;
            return Err(format!("{name} is not attached to {}", handler.name()).into());
        }
        if !args.functions.is_empty() {
            attached.retain(|it| args.functions.iter().any(|wanted| is_of(it, wanted)));
        }
        Ok(Self { aws, handler, attached })
    }

    async fn look(&self, now: Timestamp) -> Seen {
        let Self { aws, handler, attached } = self;
        let gathered = gather(aws, handler, attached, now);
        let ((facts, unknown), letters) = join(gathered, letters_now(aws, handler)).await;
        Seen { facts, unknown, letters }
    }
}

impl Seen {
    fn document(self, system: &System) -> StatusJson {
        StatusJson {
            handler: system.handler.name().to_owned(),
            letters: self.letters,
            over: Over::of(&self.facts),
            functions: self.facts.into_iter().map(Stated::of).collect(),
            unknown: self.unknown.iter().map(ToString::to_string).collect(),
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
