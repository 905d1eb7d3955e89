//! Orders for waiting events: retry them now, or cancel them.

use std::collections::{BTreeMap, BTreeSet};

use comeback_core::{claim::Order as Claimed, time::rfc3339};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    account::fault::{Answer, Clock as _},
    aws::connect::Connection,
    failure::Failure,
    filter::NEEDS_ALL,
    notice::Notice,
    operate::{
        logbook::{Begun, Ledger},
        options::{OrderOptions, SystemOptions},
        order::{
            self, Account, Agent, Choice, Effect, Ended, Found, Go, Kind, Noun, Order, Report,
            Selects, Work,
        },
        waiting::{
            filter::Filter,
            register::{DynamoRegister, open_in},
            rules::{Partition, Plan, Selection, Tally, carry_out, visit},
        },
    },
    typed::{Rate, rate},
};

/// The order that `comeback waiting retry-now` gives, and that of `comeback waiting cancel`.
pub type RetryNow = Events<false>;
pub type Cancel = Events<true>;

const RETRY_NOW: Kind = Kind {
    name: "retry_now",
    title: "Retry {} now",
    button: "Retry now",
    noun: Noun::Event,
    done: "ordered",
    effect: Effect::Invokes,
    undo: None,
    agent: Some(Agent {
        plan: "plan_retry_now",
        plans: "Plan to retry waiting events now (`comeback waiting retry-now --dry-run`). Changes nothing. Use it \
         once the cause of the failures is mended. Show the plan to the person who asked, then pass its token to \
         `retry_now`.",
        carries_out: "Carry out a plan of `plan_retry_now`: its events are retried now, each of which counts as an \
         attempt. Use it only after the person who asked has agreed to this plan.",
        without: &[],
    }),
};

const CANCEL: Kind = Kind {
    name: "cancel",
    title: "Cancel {}",
    button: "Cancel",
    noun: Noun::Event,
    done: "ordered",
    effect: Effect::GivesUp,
    undo: None,
    agent: Some(Agent {
        plan: "plan_cancel",
        plans: "Plan to give waiting events up (`comeback waiting cancel --dry-run`). Changes nothing. Use it for \
         events that can never succeed. Show the plan to the person who asked, then pass its token to `cancel`.",
        carries_out: "Carry out a plan of `plan_cancel`: its events become dead letters with the reason \
         `cancelled`. Use it only after the person who asked has agreed to this plan.",
        without: &[],
    }),
};

#[derive(Clone, Debug, clap::Args)]
pub struct EventsArgs {
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

/// Why a waiting event can't be retried with another payload.
const KEEPS_PAYLOAD: &str = "a waiting event keeps its payload. To change it, give the event up, then redrive its dead letter: \
     `comeback waiting cancel` with these filters, then `comeback dead redrive --reason cancelled` with --set or --edit. \
     Nothing was changed";

/// The document of `--json`: the events to order, and how many of each function or queue were ordered.
#[derive(JsonSchema, Serialize)]
pub struct EventsJson {
    handler: String,
    #[serde(flatten)]
    report: Report<Plan, Tally>,
}

/// The events that an order is about, in the register.
pub struct Events<const CANCELS: bool> {
    register: DynamoRegister,
    selection: Selection,
    parts: Vec<Partition>,
    rate: Option<Rate>,
}

impl<const CANCELS: bool> Events<CANCELS> {
    /// What the handler does with an event.
    const ORDER: Claimed = if CANCELS { Claimed::Cancel } else { Claimed::Retry };
}

impl<const CANCELS: bool> Work for Events<CANCELS> {
    type Tally = Tally;

    const KIND: Kind = if CANCELS { CANCEL } else { RETRY_NOW };

    fn ledger(&self) -> Option<Ledger> {
        Some(self.register.ledger())
    }

    fn filter(&self) -> Vec<(&'static str, String)> {
        let Selection { ids, failures, due_before, named: _ } = &self.selection;
        let ids = ids.iter().map(|id| ("id", id.clone()));
        let due_before = due_before.map(|at| ("due-before", rfc3339(at)));
        let rate = self.rate.map(|rate| ("rate", format!("{}/s", rate.per_second())));
        ids.chain(failures.options()).chain(due_before).chain(rate).collect()
    }

    async fn carry_out(
        &self,
        _: &Begun,
        goes_on: impl FnMut(&Tally) -> bool + Send,
    ) -> (Tally, Result<(), Failure>) {
        let Self { register, selection, parts, rate, .. } = self;
        let (tally, ended) =
            carry_out(Self::ORDER, selection, parts, *rate, register, goes_on).await;
        (tally, ended.map_err(Failure::from))
    }

    fn notices(&self, tally: &Tally) -> Vec<Notice> {
        tally.notices(Self::ORDER)
    }
}

impl<const CANCELS: bool> Order for Events<CANCELS> {
    type Plan = Plan;
    type Document = EventsJson;

    /// An event's key has the request id of its last failure, so it differs once the event has failed again.
    async fn plan(
        &mut self,
        mut found: impl FnMut(Option<Found<'_>>) -> Go + Send,
    ) -> Answer<Plan> {
        let mut plan = Plan::default();
        visit(&self.parts, &self.register, |event| {
            if !self.selection.matches(&event) {
                return found(None) == Go::On;
            }
            let state = event.order.map_or(String::new(), |order| format!("{order:?}"));
            let go = found(Some(Found { key: &event.key.to_string(), state: &[&state] }));
            if go != Go::Stop {
                plan.count(event);
            }
            go == Go::On
        })
        .await?;
        Ok(plan)
    }

    async fn refuse_unknown(&self) -> Result<(), Failure> {
        self.register.refuse_unknown(&self.selection.failures.functions).await
    }

    fn place(&self) -> String {
        self.register.place()
    }

    fn plan_notices(&self, plan: &Plan) -> Vec<Notice> {
        plan.notices(Self::ORDER)
    }

    fn document(&self, plan: Option<Plan>, ended: Option<Ended<Tally>>) -> EventsJson {
        let handler = self.register.handler().to_owned();
        EventsJson { handler, report: Report::of(plan, ended) }
    }
}

impl<const CANCELS: bool> Selects for Events<CANCELS> {
    type Args = EventsArgs;

    fn options(args: &mut EventsArgs) -> OrderOptions {
        args.options
    }

    fn connection(args: &mut EventsArgs) -> &mut Connection {
        &mut args.system.connection
    }

    fn rate(args: &mut EventsArgs) -> Option<&mut Option<Rate>> {
        Some(&mut args.rate)
    }

    fn chosen(choice: Choice) -> EventsArgs {
        let Choice { ids, failures, handler, .. } = choice;
        let selection = Selection { ids, failures, ..Selection::default() };
        EventsArgs {
            rate: None,
            edit: false,
            set: Vec::new(),
            options: OrderOptions::confirmed(),
            filter: Filter { selection, due_before: None },
            system: SystemOptions { handler, connection: Connection::default() },
        }
    }

    fn check(args: &mut EventsArgs) -> Result<(), Failure> {
        if args.edit || !args.set.is_empty() {
            return Err(KEEPS_PAYLOAD.into());
        }
        if CANCELS {
            if !args.options.all && args.filter.is_empty() {
                return Err(NEEDS_ALL.into());
            }
            args.filter.selection.failures.refuse_everything()?;
        }
        Ok(())
    }

    async fn open(args: EventsArgs, account: Account) -> Result<Self, Failure> {
        let selection = args.filter.selection(account.aws.now());
        let register = open_in(account, &args.system).await?;
        let parts = register.parts(&selection.failures.functions).await?;
        Ok(Self { register, selection, parts, rate: args.rate })
    }

    fn only(&mut self, keys: BTreeSet<String>) {
        self.selection.named = Some(keys);
    }
}

impl order::Plan for Plan {
    fn number(&self) -> u64 {
        self.all()
    }

    fn targets(&self) -> Option<&BTreeMap<String, u64>> {
        Some(&self.events)
    }
}

impl order::Tally for Tally {
    fn done(&self) -> u64 {
        self.ordered()
    }

    fn tried(&self) -> u64 {
        self.ordered() + self.too_late + self.failed
    }

    fn is_stuck(&self) -> bool {
        self.failed + self.not_shown > 0
    }
}
