//! `comeback pause` and `resume`: hold back the retries of a function or a queue, and list what is paused.

use std::collections::BTreeSet;

use comeback_core::{Timestamp, time::rfc3339};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::{
    account::{
        fault::{Answer, Clock as _},
        names::target_name,
    },
    aws::connect::Connection,
    failure::Failure,
    notice::Notice,
    operate::{
        logbook::{Begun, Ledger},
        options::{OrderOptions, SystemOptions},
        order::{
            self, Account, Agent, Choice, Effect, Ended, Found, Go, Kind, Noun, Order, Selects,
            Work, terminal,
        },
        waiting::{
            register::{DynamoRegister, open, open_in},
            rules::pauses::{self, pause_done},
        },
    },
    paint::{Line, Style},
    shell::{Outcome, Shell},
    tables::table,
    text::counted,
    typed::not_empty,
    untrusted,
};

/// The order that `comeback pause` gives, and that of `comeback resume`.
pub type Pause = Hold<true>;
pub type Resume = Hold<false>;

const PAUSE: Kind = Kind {
    name: "pause",
    title: "Pause {}",
    button: "Pause",
    noun: Noun::Target,
    done: "paused",
    effect: Effect::Sets,
    undo: Some("resume"),
    agent: Some(Agent {
        plan: "plan_pause",
        plans: "Plan to hold back all retries of a function or a queue (`comeback pause --dry-run`). Changes \
         nothing. Use it to keep events where they are while something is mended, then pass its token to `pause`.",
        carries_out: "Carry out a plan of `plan_pause`: the events of the function wait until it is resumed.",
        without: &[],
    }),
};

const RESUME: Kind = Kind {
    name: "resume",
    title: "Resume {}",
    button: "Resume",
    noun: Noun::Target,
    done: "resumed",
    effect: Effect::Sets,
    undo: Some("pause"),
    agent: Some(Agent {
        plan: "plan_resume",
        plans: "Plan to end a pause (`comeback resume --dry-run`). Changes nothing. Pass its token to `resume`.",
        carries_out: "Carry out a plan of `plan_resume`: the events that were held back come back within 15 \
         minutes.",
        without: &[],
    }),
};

#[derive(Clone, Debug, clap::Args)]
pub struct PauseArgs {
    /// The function or the queue, such as sqs:imports, by its name or ARN. With a version or an alias, only that one;
    /// without, all that are attached. Without a function, all pauses are listed.
    #[arg(value_name = "FUNCTION[:ALIAS]|QUEUE", value_parser = not_empty)]
    pub function: Option<String>,
    #[command(flatten)]
    pub options: PauseOptions,
}

#[derive(Clone, Debug, clap::Args)]
pub struct HoldArgs {
    /// The function or the queue, such as sqs:imports, by its name or ARN. With a version or an alias, only that one;
    /// without, all that are attached or paused.
    #[arg(value_name = "FUNCTION[:ALIAS]|QUEUE", value_parser = not_empty)]
    pub function: String,
    #[command(flatten)]
    pub options: PauseOptions,
}

#[derive(Clone, Debug, clap::Args)]
pub struct PauseOptions {
    /// Do not ask.
    #[arg(long)]
    pub yes: bool,
    /// Show what would be done, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub system: SystemOptions,
}

pub async fn pause(args: &PauseArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let PauseArgs { function, options } = args.clone();
    match function {
        Some(function) => terminal::run::<Pause>(&HoldArgs { function, options }, shell).await,
        None => list_pauses(&options, shell).await,
    }
}

/// The document of `--json`.
#[derive(JsonSchema, Serialize)]
pub struct HoldJson {
    handler: String,
    /// The ARNs of the functions, which have qualifiers, or of the queue.
    functions: Vec<String>,
    /// Since when they are paused now; null after `resume`, and where nothing was done.
    paused_at: Option<String>,
    /// Why others of them were left as they are.
    #[schemars(with = "Option<untrusted::Text>")]
    error: Option<String>,
}

/// What to pause or to resume.
pub struct Hold<const IS_PAUSE: bool> {
    register: DynamoRegister,
    /// The function or the queue, as the operator has named it.
    name: String,
    targets: Vec<String>,
}

/// Each target, with the time since when it is paused.
#[derive(Debug, Default)]
pub struct States(Vec<(String, Option<Timestamp>)>);

/// How many targets were paused, and since when, or resumed.
#[derive(Debug, Default)]
pub struct Held {
    targets: u64,
    since: Option<Timestamp>,
}

impl<const IS_PAUSE: bool> Work for Hold<IS_PAUSE> {
    type Tally = Held;

    const KIND: Kind = if IS_PAUSE { PAUSE } else { RESUME };

    fn target(&self) -> Option<String> {
        Some(target_name(&self.name).into_owned())
    }

    fn ledger(&self) -> Option<Ledger> {
        Some(self.register.ledger())
    }

    fn filter(&self) -> Vec<(&'static str, String)> {
        vec![("function", self.name.clone())]
    }

    async fn carry_out(
        &self,
        _: &Begun,
        mut goes_on: impl FnMut(&Held) -> bool + Send,
    ) -> (Held, Result<(), Failure>) {
        let since = IS_PAUSE.then(|| self.register.now());
        let mut held = Held { targets: 0, since };
        for target in &self.targets {
            if let Err(fault) = self.register.pause(target, since).await {
                return (held, Err(fault.into()));
            }
            held.targets += 1;
            if !goes_on(&held) {
                break;
            }
        }
        (held, Ok(()))
    }

    fn notices(&self, held: &Held) -> Vec<Notice> {
        if held.targets == 0 {
            return vec![Notice::nothing_done()];
        }
        vec![Notice::good(pause_done(&target_name(&self.name), IS_PAUSE))]
    }
}

impl<const IS_PAUSE: bool> Order for Hold<IS_PAUSE> {
    type Plan = States;
    type Document = HoldJson;

    async fn plan(
        &mut self,
        mut found: impl FnMut(Option<Found<'_>>) -> Go + Send,
    ) -> Answer<States> {
        let mut states = States::default();
        for target in &self.targets {
            let since = self.register.paused_at(target).await?;
            let go =
                found(Some(Found { key: target, state: &[&since.map_or(String::new(), rfc3339)] }));
            if go != Go::Stop {
                states.0.push((target.clone(), since));
            }
            if go != Go::On {
                break;
            }
        }
        Ok(states)
    }

    fn place(&self) -> String {
        self.register.place()
    }

    fn needs_plan(&self) -> bool {
        true
    }

    fn plan_notices(&self, States(states): &States) -> Vec<Notice> {
        let states = states.iter().map(|(target, since)| {
            let state =
                since.map_or("not paused".to_owned(), |at| format!("paused since {}", rfc3339(at)));
            Notice::plain(format!("{}: {state}", target_name(target)))
        });
        let means = if IS_PAUSE {
            "events that are due wait until it is resumed; their age still grows, and retry-now is not held back"
        } else {
            "the events that were held back come back within 15 minutes"
        };
        states.chain([Notice::plain(means)]).collect()
    }

    fn document(&self, _: Option<States>, ended: Option<Ended<Held>>) -> HoldJson {
        let handler = self.register.handler().to_owned();
        let Some(Ended { tally, error, .. }) = ended else {
            let functions = self.targets.clone();
            return HoldJson { handler, functions, paused_at: None, error: None };
        };
        let done = self.targets.iter().take(tally.targets as usize);
        let paused_at = tally.since.filter(|_| tally.targets > 0).map(rfc3339);
        HoldJson { handler, functions: done.cloned().collect(), paused_at, error }
    }
}

impl<const IS_PAUSE: bool> Selects for Hold<IS_PAUSE> {
    type Args = HoldArgs;

    fn options(args: &mut HoldArgs) -> OrderOptions {
        let PauseOptions { yes, dry_run, json, .. } = args.options;
        OrderOptions { all: false, yes, dry_run, json }
    }

    fn connection(args: &mut HoldArgs) -> &mut Connection {
        &mut args.options.system.connection
    }

    fn chosen(choice: Choice) -> HoldArgs {
        let function = choice.failures.functions.into_iter().next().unwrap_or_default();
        let system = SystemOptions { handler: choice.handler, connection: Connection::default() };
        HoldArgs {
            function,
            options: PauseOptions { yes: true, dry_run: false, json: false, system },
        }
    }

    async fn open(args: HoldArgs, account: Account) -> Result<Self, Failure> {
        let HoldArgs { function: name, options } = args;
        let register = open_in(account, &options.system).await?;
        let targets = if IS_PAUSE {
            register.to_pause(&name).await?
        } else {
            register.to_resume(&name, &register.pauses().await?).await?
        };
        Ok(Self { register, name, targets })
    }

    fn only(&mut self, keys: BTreeSet<String>) {
        self.targets.retain(|target| keys.contains(target));
    }
}

impl order::Plan for States {
    fn number(&self) -> u64 {
        self.0.len() as u64
    }
}

impl order::Tally for Held {
    fn done(&self) -> u64 {
        self.targets
    }

    fn tried(&self) -> u64 {
        self.targets
    }

    fn is_stuck(&self) -> bool {
        false
    }
}

async fn list_pauses(options: &PauseOptions, shell: &Shell) -> Result<Outcome, Failure> {
    let register = open(&options.system, shell.now).await?;
    let pauses = register.pauses().await?;
    if options.json {
        let pause =
            |it: &pauses::Pause| json!({ "function": it.target, "paused_at": rfc3339(it.since) });
        let pauses: Vec<_> = pauses.iter().map(pause).collect();
        let document = json!({ "handler": register.handler(), "pauses": pauses });
        shell.print_json(&document).await?;
        return Ok(Outcome::Success);
    }
    let number = counted(pauses.len() as u64, "pause");
    let mut lines = vec![Line::of(Style::Strong, format!("{number} at {}", register.place()))];
    if !pauses.is_empty() {
        let header = ["function", "paused since"].map(str::to_owned);
        let row =
            |it: &pauses::Pause| vec![target_name(&it.target).into_owned(), rfc3339(it.since)];
        let rows: Vec<_> = pauses.iter().map(row).collect();
        lines.extend(table(&header, &rows, shell.width()));
    }
    shell.print(&lines).await?;
    Ok(Outcome::Success)
}
