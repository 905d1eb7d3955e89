//! An order of an operator: it is planned, asked about, carried out and told of.
//!
//! An [`Order`] has one file, with its options, its plan and its [`Work`]. Its faces are the same for all orders: the
//! terminal ([`terminal`]), and for orders that select ([`Selects`]) the page (`web/act.rs`) and an agent
//! (`mcp/changes.rs`). `orders.rs` lists those.

pub mod recorded;
pub mod steps;
pub mod terminal;

use std::{
    collections::{BTreeMap, BTreeSet},
    future::ready,
};

use comeback_core::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    account::{fault::Answer, function::Function},
    aws::{Aws, connect::Connection},
    failure::Failure,
    filter::FailureFilter,
    notice::Notice,
    operate::{
        logbook::{Begun, Ledger},
        options::OrderOptions,
    },
    text::{counted, shortened},
    typed::Rate,
    untrusted,
};

/// How many characters of an id a title has.
pub const ID_MAX: usize = 8;

/// What an order is called, and what the faces have to know of it.
#[derive(Debug)]
pub struct Kind {
    /// The name of the agent's tool, and of the page's command.
    pub name: &'static str,
    /// The command, with `{}` in the place of what it is about: `Retry {} now`.
    pub title: &'static str,
    /// The words of the button that leads to it.
    pub button: &'static str,
    pub noun: Noun,
    /// What has become of an item, beside a number: `redriven`.
    pub done: &'static str,
    pub effect: Effect,
    /// The name of the order that undoes this one.
    pub undo: Option<&'static str>,
    /// What an agent is told, if agents may give this order.
    pub agent: Option<Agent>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Noun {
    Event,
    Letter,
    Target,
    Step,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Effect {
    /// Repeating it changes nothing, and it can be undone.
    Sets,
    /// Functions are invoked, or queues are sent messages.
    Invokes,
    /// No event comes back because of it, and it can't be undone.
    GivesUp,
}

#[derive(Debug)]
pub struct Agent {
    /// The name of the tool that plans the order.
    pub plan: &'static str,
    /// What that tool says of itself, and the one that carries a plan out.
    pub plans: &'static str,
    pub carries_out: &'static str,
    /// The options of the command that the tool doesn't take.
    pub without: &'static [&'static str],
}

impl Noun {
    pub fn word(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Letter => "dead letter",
            Self::Target => "target",
            Self::Step => "step",
        }
    }
}

impl Kind {
    /// What the order does to these items, such as `Retry 3 events now`.
    pub fn title(&self, items: &str) -> String {
        self.title.replace("{}", items)
    }

    /// A number of items, or the only one, by its id.
    pub fn items(&self, ids: &[String], number: u64) -> String {
        let word = self.noun.word();
        match ids {
            [id] => format!("{word} {}", shortened(id, ID_MAX)),
            _ => counted(number, word),
        }
    }
}

/// Where an order is given: the clients, and the retry handler if it is known already.
#[derive(Clone)]
pub struct Account {
    pub aws: Aws,
    pub handler: Option<Function>,
}

impl Account {
    pub async fn connect(connection: &Connection, now: fn() -> Timestamp) -> Result<Self, Failure> {
        let aws = Aws::connect(connection, now).await?;
        Ok(Self { aws, handler: None })
    }
}

/// What was chosen on the page.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    pub ids: Vec<String>,
    pub reasons: Vec<String>,
    pub failures: FailureFilter,
    /// The payload that the operator has edited.
    pub payload: Option<String>,
    /// The name of the retry handler, if there are several.
    pub handler: Option<String>,
}

/// An item that an order selects, in the state in which it was found.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// An item that was changed meanwhile has another key or another state.
    pub key: &'a str,
    pub state: &'a [&'a str],
}

/// Whether a plan goes on after an item.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Go {
    On,
    /// This item is the last one.
    Last,
    /// The plan ends before this item.
    Stop,
}

/// The items that an order would change, counted.
pub trait Plan: Send {
    /// The number of items that it would change.
    fn number(&self) -> u64;

    /// The number of items by function or queue.
    fn targets(&self) -> Option<&BTreeMap<String, u64>> {
        None
    }

    /// Whether an item is selected that can't be changed.
    fn is_stuck(&self) -> bool {
        false
    }

    /// Forgets the items that were not selected.
    fn narrow(&mut self) {}
}

/// The result of an order.
pub trait Tally: Default + Send {
    /// The number of items that were changed.
    fn done(&self) -> u64;

    /// The number of selected items that were looked at.
    fn tried(&self) -> u64;

    /// Whether a selected item was not changed although it should have been.
    fn is_stuck(&self) -> bool;

    /// Forgets the items that were not selected.
    fn narrow(&mut self) {}
}

/// How an order that was carried out has ended.
pub struct Ended<T> {
    pub tally: T,
    pub is_interrupted: bool,
    /// Why it ended early.
    pub error: Option<String>,
}

/// The work of an order: it is asked about by its title, carried out, and told of.
pub trait Work: Sized + Send + Sync + 'static {
    type Tally: Tally;

    const KIND: Kind;

    /// The name of what the order is about, if that isn't a number of items.
    fn target(&self) -> Option<String> {
        None
    }

    /// The ledger that keeps a record of the order, if the retry handler is known.
    fn ledger(&self) -> Option<Ledger>;

    /// What it selects, for that record: names of options, and values without anything of a payload.
    fn filter(&self) -> Vec<(&'static str, String)>;

    /// Changes the selected items until `goes_on` returns false. [`recorded::carry_out`] calls it.
    fn carry_out(
        &self,
        begun: &Begun,
        goes_on: impl FnMut(&Self::Tally) -> bool + Send,
    ) -> impl Future<Output = (Self::Tally, Result<(), Failure>)> + Send;

    fn notices(&self, tally: &Self::Tally) -> Vec<Notice>;
}

/// An order with a plan of its own, and a document about both.
pub trait Order: Work {
    type Plan: Plan;
    /// The document of `--json`.
    type Document: Serialize + Send;

    /// Looks at the items, and calls `found` for each: with `None` if the order doesn't change it.
    fn plan(
        &mut self,
        found: impl FnMut(Option<Found<'_>>) -> Go + Send,
    ) -> impl Future<Output = Answer<Self::Plan>> + Send;

    /// Refuses names that nothing has, once nothing was found by them.
    fn refuse_unknown(&self) -> impl Future<Output = Result<(), Failure>> + Send {
        ready(Ok(()))
    }

    /// What the order is given to, for a heading.
    fn place(&self) -> String;

    /// The approximate number of items to look at, if it is known.
    fn about(&self) -> Option<u64> {
        None
    }

    /// Warnings for the operator, before the items are looked at.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether the order can't be carried out without a plan.
    fn needs_plan(&self) -> bool {
        false
    }

    /// Lets an operator at a terminal change the order, once its plan is known.
    fn edit(&mut self, _: &Self::Plan) -> Result<(), Failure> {
        Ok(())
    }

    fn plan_notices(&self, plan: &Self::Plan) -> Vec<Notice>;

    /// The document about a plan, or about what was done, or both.
    fn document(
        &self,
        plan: Option<Self::Plan>,
        ended: Option<Ended<Self::Tally>>,
    ) -> Self::Document;
}

/// An order for what its options select. The page and agents give such orders, too.
pub trait Selects: Order<Document: JsonSchema> {
    type Args: clap::Args + Clone + Send + Sync + 'static;

    /// How the terminal gives the order.
    fn options(args: &mut Self::Args) -> OrderOptions;

    fn connection(args: &mut Self::Args) -> &mut Connection;

    /// The option for the most items a second, if the order has one.
    fn rate(_: &mut Self::Args) -> Option<&mut Option<Rate>> {
        None
    }

    /// The options that mean what was chosen on the page.
    fn chosen(choice: Choice) -> Self::Args;

    /// Refuses options that can only be slips, before anything is called.
    fn check(_: &mut Self::Args) -> Result<(), Failure> {
        Ok(())
    }

    /// Finds what the order is about.
    fn open(
        args: Self::Args,
        account: Account,
    ) -> impl Future<Output = Result<Self, Failure>> + Send;

    /// Selects only items with these keys, which a plan has named.
    fn only(&mut self, keys: BTreeSet<String>);
}

/// What documents about orders have in common: what was planned, and what was done.
#[derive(JsonSchema, Serialize)]
pub struct Report<P, T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<P>,
    interrupted: bool,
    #[schemars(with = "Option<untrusted::Text>")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    done: Option<T>,
}

impl<P, T> Report<P, T> {
    pub fn of(plan: Option<P>, ended: Option<Ended<T>>) -> Self {
        match ended {
            Some(Ended { tally, is_interrupted: interrupted, error }) => {
                Self { plan, interrupted, error, done: Some(tally) }
            }
            None => Self { plan, interrupted: false, error: None, done: None },
        }
    }
}
