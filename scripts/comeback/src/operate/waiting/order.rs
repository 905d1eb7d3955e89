//! Orders for waiting events: retry them now, or cancel them.

use comeback_core::{Timestamp, claim::Order, register::Entry};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    account::fault::Answer,
    failure::Failure,
    filter::NEEDS_ALL,
    notice::Notice,
    operate::{
        options::{OrderOptions, SystemOptions},
        waiting::{
            filter::Filter,
            register::{DynamoRegister, open},
            rules::{Partition, Plan, Selection, Tally, carry_out, visit},
        },
    },
    paint::{Line, Style},
    shell::{Outcome, Shell, confirm, progress, spinner, uninterrupted},
    text::events,
    typed::{Rate, rate},
    untrusted,
};

#[derive(Debug, clap::Args)]
pub struct OrderArgs {
    /// The most events, such as 20, 0.5/s or 90/m [default: as many as possible].
    #[arg(long, value_name = "NUMBER[/UNIT]", value_parser = rate)]
    pub rate: Option<Rate>,
    /// An option of `dead redrive`. It is refused with what to do instead.
    #[arg(long, hide = true)]
    pub edit: bool,
    /// As `edit`.
    #[arg(long, hide = true, value_name = "/POINTER=VALUE")]
    pub set: Vec<String>,
    #[command(flatten)]
    pub options: OrderOptions,
    #[command(flatten)]
    pub filter: Filter,
    #[command(flatten)]
    pub system: SystemOptions,
}

/// Refuses to give everything up, unless somebody said so.
pub fn refuse_everything(order: Order, selection: &Selection, all: bool) -> Result<(), Failure> {
    if order == Order::Cancel && !all && *selection == Selection::default() {
        return Err(NEEDS_ALL.into());
    }
    Ok(())
}

/// Why a waiting event can't be retried with another payload.
const KEEPS_PAYLOAD: &str = "a waiting event keeps its payload. To change it, give the event up, then redrive its dead letter: \
     `comeback waiting cancel` with these filters, then `comeback dead redrive --reason cancelled` with --set or --edit. \
     Nothing was changed";

/// The document of `--json`.
#[derive(JsonSchema, Serialize)]
pub struct OrderJson {
    pub handler: String,
    /// The events to order: how many of each function or queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    pub interrupted: bool,
    #[schemars(with = "Option<untrusted::Text>")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<Tally>,
}

/// The events that an order is about, in the register.
pub struct Selected {
    order: Order,
    register: DynamoRegister,
    pub selection: Selection,
    parts: Vec<Partition>,
}

impl Selected {
    pub async fn find(
        order: Order,
        selection: Selection,
        system: &SystemOptions,
        now: fn() -> Timestamp,
    ) -> Result<Self, Failure> {
        if order == Order::Cancel {
            selection.failures.refuse_everything()?;
        }
        let register = open(system, now).await?;
        let parts = register.parts(&selection.failures.functions).await?;
        Ok(Self { order, register, selection, parts })
    }

    /// Visits the events until `visit` returns false. It is called with `None` for an event that is not selected.
    pub async fn visit(&self, mut visit: impl FnMut(Option<Entry>) -> bool) -> Answer<()> {
        self::visit(&self.parts, &self.register, |event| {
            visit(Some(event).filter(|event| self.selection.matches(event)))
        })
        .await
    }

    pub async fn carry_out(
        &self,
        rate: Option<Rate>,
        goes_on: impl FnMut(&Tally) -> bool,
    ) -> (Tally, Answer<()>) {
        let Self { order, register, selection, parts } = self;
        carry_out(*order, selection, parts, rate, register, goes_on).await
    }

    /// Refuses names that nothing has, once nothing was found by them.
    pub async fn refuse_unknown(&self) -> Result<(), Failure> {
        self.register.refuse_unknown(&self.selection.failures.functions).await
    }

    pub fn document(&self, plan: Option<Plan>) -> OrderJson {
        let handler = self.register.handler().to_owned();
        OrderJson { handler, plan, interrupted: false, error: None, done: None }
    }
}

pub async fn order(order: Order, args: &OrderArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let OrderOptions { all, yes, dry_run, json: is_json } = args.options;
    if args.edit || !args.set.is_empty() {
        return Err(KEEPS_PAYLOAD.into());
    }
    let selection = args.filter.selection((shell.now)());
    refuse_everything(order, &selection, all)?;
    let selected = Selected::find(order, selection, &args.system, shell.now).await?;
    let goes_on = uninterrupted()?;
    let mut plan = None;
    if !yes || dry_run {
        let mut planned = Plan::default();
        let spinner = spinner("events read");
        let visited = selected.visit(|event| {
            spinner.inc(1);
            if let Some(event) = event {
                planned.count(event);
            }
            goes_on()
        });
        visited.await?;
        spinner.finish_and_clear();
        if !goes_on() {
            return Ok(Outcome::Interrupted);
        }
        plan = Some(planned);
    }
    let planned = plan.as_ref().map_or(0, Plan::all);
    if plan.is_some() && planned == 0 {
        selected.refuse_unknown().await?;
    }
    let mut document = selected.document(plan);
    if let Some(plan) = &document.plan {
        if !is_json {
            shell.print(&[Line::of(Style::Strong, selected.register.place())]).await?;
            shell.print_notices(&plan.notices(order)).await?;
        }
        if dry_run || planned == 0 {
            if is_json {
                shell.print_json(&document).await?;
            }
            return Ok(Outcome::Success);
        }
        confirm(&match order {
            Order::Retry => format!("Retry {} now?", events(planned)),
            Order::Cancel => format!("Give up {}?", events(planned)),
        })?;
    }
    let bar = if planned > 0 { progress(planned, "ordered") } else { spinner("ordered") };
    let carried_out = selected.carry_out(args.rate, |tally| {
        bar.set_position(tally.ordered());
        goes_on()
    });
    let (tally, ended) = carried_out.await;
    bar.finish_and_clear();
    let is_stuck = tally.failed + tally.not_shown > 0;
    if tally.tried() == 0 && goes_on() {
        selected.refuse_unknown().await?;
    }
    if is_json {
        document.interrupted = !goes_on();
        document.error = ended.as_ref().err().map(ToString::to_string);
        document.done = Some(tally);
        shell.print_json(&document).await?;
    } else {
        let mut notices = tally.notices(order);
        if !goes_on() {
            notices.push(Notice::stopped(&match planned.saturating_sub(tally.tried()) {
                0 => "an unknown number of events".to_owned(),
                left => events(left),
            }));
        }
        shell.print_notices(&notices).await?;
    }
    ended?;
    Ok(match () {
        () if !goes_on() => Outcome::Interrupted,
        () if is_stuck => Outcome::Unsuccessful,
        () => Outcome::Success,
    })
}
