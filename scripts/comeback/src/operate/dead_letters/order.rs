//! Orders for dead letters: redrive them, or delete them.

use std::{
    collections::{BTreeMap, BTreeSet},
    marker::PhantomData,
};

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    account::fault::{Answer, Clock as _},
    aws::connect::Connection,
    failure::Failure,
    filter::NEEDS_ALL,
    notice::Notice,
    operate::{
        dead_letters::{
            editor::edit,
            queue::{Queue, QueueOptions},
            rules::{
                self, Action, Facts, Pace, Plan, PointerValue, Selection, Step, Tally, carry_out,
                look,
            },
        },
        logbook::{Begun, Ledger},
        options::OrderOptions,
        order::{
            self, Account, Agent, Choice, Effect, Ended, Found, Go, Kind, Noun, Order, Report,
            Selects, Work,
        },
    },
    text::{count, exact_span},
    typed::{Rate, not_empty, rate},
};

/// The order that `comeback dead redrive` gives, and that of `comeback dead purge`.
pub type Redrive = Letters<Redriven>;
pub type Purge = Letters<Purged>;

/// What is done with a letter.
pub trait Deed: Send + Sync + 'static {
    type Args: clap::Args + Clone + Send + Sync + 'static;
    const KIND: Kind;

    fn letters(args: &mut Self::Args) -> &mut LettersArgs;

    fn rate(args: &mut Self::Args) -> Option<&mut Option<Rate>>;

    fn chosen(letters: LettersArgs, payload: Option<String>) -> Self::Args;

    fn parts(args: Self::Args) -> Parts;
}

/// The options of an order, taken apart.
pub struct Parts {
    letters: LettersArgs,
    action: Action,
    pace: Pace,
    /// Whether an operator edits the payload.
    edits: bool,
}

pub enum Redriven {}

impl Deed for Redriven {
    type Args = RedriveArgs;

    const KIND: Kind = Kind {
        name: "redrive",
        title: "Redrive {}",
        button: "Redrive",
        noun: Noun::Letter,
        done: "redriven",
        effect: Effect::Invokes,
        undo: None,
        agent: Some(Agent {
            plan: "plan_redrive",
            plans: "Plan to bring dead letters back (`comeback dead redrive --dry-run`): their functions are invoked \
             with the original payloads, and their queues get the original messages. Changes nothing. Use it after \
             `dead_list`, once the cause is mended, with a filter. Show the plan to the person who asked, then pass \
             its token to `redrive`.",
            carries_out: "Carry out a plan of `plan_redrive`: its letters' functions are invoked, and each letter is \
             deleted once its event was accepted. Use it only after the person who asked has agreed to this plan.",
            // An agent changes neither a payload nor where it goes.
            without: &["to", "set", "edit", "batches"],
        }),
    };

    fn letters(args: &mut RedriveArgs) -> &mut LettersArgs {
        &mut args.letters
    }

    fn rate(args: &mut RedriveArgs) -> Option<&mut Option<Rate>> {
        Some(&mut args.rate)
    }

    fn chosen(letters: LettersArgs, payload: Option<String>) -> RedriveArgs {
        let (to, set, edit, rate, batches) = (None, Vec::new(), false, None, BATCHES);
        RedriveArgs { to, set, edit, payload, rate, batches, letters }
    }

    fn parts(args: RedriveArgs) -> Parts {
        let RedriveArgs { to, set, edit: edits, payload, rate, batches, letters } = args;
        let action = Action::Redrive { to, set, payload };
        Parts { letters, action, pace: Pace { rate, batches: batches.into() }, edits }
    }
}

pub enum Purged {}

impl Deed for Purged {
    type Args = LettersArgs;

    const KIND: Kind = Kind {
        name: "purge",
        title: "Delete {}",
        button: "Delete",
        noun: Noun::Letter,
        done: "deleted",
        effect: Effect::GivesUp,
        undo: None,
        agent: None,
    };

    fn letters(args: &mut LettersArgs) -> &mut LettersArgs {
        args
    }

    fn rate(_: &mut LettersArgs) -> Option<&mut Option<Rate>> {
        None
    }

    fn chosen(letters: LettersArgs, _: Option<String>) -> LettersArgs {
        letters
    }

    fn parts(letters: LettersArgs) -> Parts {
        let pace = Pace { rate: None, batches: BATCHES.into() };
        Parts { letters, action: Action::Purge, pace, edits: false }
    }
}

/// The number of batches of ten that are deleted, or redriven from the page, concurrently.
const BATCHES: u8 = 4;

#[derive(Clone, Debug, clap::Args)]
pub struct LettersArgs {
    #[command(flatten)]
    pub options: OrderOptions,
    #[command(flatten)]
    pub selection: Selection,
    #[command(flatten)]
    pub queue: QueueOptions,
}

#[derive(Clone, Debug, clap::Args)]
pub struct RedriveArgs {
    /// The function or the queue, such as sqs:imports, in place of each letter's own, by its name or ARN. A function
    /// may have a version or an alias.
    #[arg(long, value_name = "FUNCTION[:ALIAS]|QUEUE", value_parser = not_empty)]
    pub to: Option<String>,
    /// Set a value in the payload, by a JSON pointer. A key that an object lacks is added. The value is JSON, or the
    /// text of a string; repeatable.
    #[arg(long, value_name = "/POINTER=VALUE", value_parser = PointerValue::parse)]
    pub set: Vec<PointerValue>,
    /// Edit the payload of the only selected letter in $VISUAL or $EDITOR.
    #[arg(long)]
    pub edit: bool,
    #[arg(skip)]
    pub payload: Option<String>,
    /// The most letters to redrive, such as 20, 0.5/s or 90/m [default: as many as possible].
    #[arg(long, value_name = "NUMBER[/UNIT]", value_parser = rate)]
    pub rate: Option<Rate>,
    /// How many batches of ten are redriven concurrently. More are faster when calls are slow, but if the command is
    /// killed, that many batches may be redriven twice.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=50))]
    pub batches: u8,
    #[command(flatten)]
    pub letters: LettersArgs,
}

/// The document of `--json`: how many letters are redriven to each function or queue, how many are deleted, and why
/// others stay.
#[derive(JsonSchema, Serialize)]
pub struct LettersJson {
    /// The URL of the queue.
    queue: String,
    #[serde(flatten)]
    report: Report<Plan, Tally>,
}

/// The letters that an order is about, in their queue.
pub struct Letters<D> {
    queue: Queue,
    order: rules::Order,
    pace: Pace,
    edits: bool,
    is_confirmed: bool,
    /// What is known of the last letter of the plan, if its payload is to be edited.
    last: Option<Facts>,
    deed: PhantomData<D>,
}

impl<D: Deed> Work for Letters<D> {
    type Tally = Tally;

    const KIND: Kind = D::KIND;

    fn ledger(&self) -> Option<Ledger> {
        self.queue.ledger()
    }

    fn filter(&self) -> Vec<(&'static str, String)> {
        let Selection {
            ids,
            reasons,
            failures,
            older_than,
            newer_than,
            attempts,
            places,
            named: _,
        } = &self.order.selection;
        let each = |name, values: &[String]| {
            values.iter().map(move |it| (name, it.clone())).collect::<Vec<_>>()
        };
        let ages = [("older-than", older_than), ("newer-than", newer_than)];
        let ages = ages.into_iter().filter_map(|(name, age)| Some((name, exact_span((*age)?))));
        let attempts =
            attempts.iter().map(|it| ("attempts", format!("{}..{}", it.start(), it.end())));
        let options =
            [each("id", ids), each("reason", reasons), failures.options()].into_iter().flatten();
        let mut all: Vec<_> = options.chain(ages).chain(attempts).collect();
        // The places of values, and not the values: these are parts of payloads.
        all.extend(places.iter().map(|it| ("where", it.pointer.to_string())));
        all.push(("queue", self.queue.name().to_owned()));
        if let Action::Redrive { to, set, payload } = &self.order.action {
            all.extend(to.iter().map(|to| ("to", to.clone())));
            all.extend(set.iter().map(|it| ("set", it.pointer.to_string())));
            all.extend(payload.iter().map(|_| ("edit", "the payload".to_owned())));
        }
        all
    }

    async fn carry_out(
        &self,
        _: &Begun,
        goes_on: impl FnMut(&Tally) -> bool + Send,
    ) -> (Tally, Result<(), Failure>) {
        let (tally, ended) = carry_out(&self.order, self.pace, &self.queue, goes_on).await;
        (tally, ended.map_err(Failure::from))
    }

    fn notices(&self, tally: &Tally) -> Vec<Notice> {
        tally.notices()
    }
}

impl<D: Deed> Order for Letters<D> {
    type Plan = Plan;
    type Document = LettersJson;

    /// A letter never changes, but what a redrive would do with it depends on the handler's settings, too.
    async fn plan(
        &mut self,
        mut found: impl FnMut(Option<Found<'_>>) -> Go + Send,
    ) -> Answer<Plan> {
        let Self { queue, order, edits, last, .. } = self;
        let mut plan = Plan::default();
        look(&*queue, queue.letters(), |letter| {
            let step = order.step(&letter, order.given_at);
            let key = &*letter.id;
            let go = match &step {
                Step::Redrive(rules::Redrive { target, payload, call }) => {
                    let state = [&**target, &format!("{call:?}"), payload];
                    found(Some(Found { key, state: &state }))
                }
                Step::Delete => found(Some(Found { key, state: &[] })),
                Step::Leave(_) => found(None),
            };
            if go != Go::Stop {
                plan.count(&step);
                if *edits && matches!(step, Step::Redrive(_)) {
                    *last = Some(order.facts(&letter));
                }
            }
            go == Go::On
        })
        .await?;
        Ok(plan)
    }

    async fn refuse_unknown(&self) -> Result<(), Failure> {
        self.queue.refuse_unknown(&self.order.selection.failures.functions).await
    }

    fn place(&self) -> String {
        format!("{} ({})", self.queue.name(), self.queue.region())
    }

    fn about(&self) -> Option<u64> {
        Some(self.queue.visible)
    }

    fn warnings(&self) -> Vec<String> {
        self.queue.warnings()
    }

    fn needs_plan(&self) -> bool {
        self.edits
    }

    fn edit(&mut self, plan: &Plan) -> Result<(), Failure> {
        if self.edits
            && let Action::Redrive { payload, .. } = &mut self.order.action
        {
            *payload = Some(edited(plan, self.last.take(), self.is_confirmed)?);
        }
        Ok(())
    }

    fn plan_notices(&self, plan: &Plan) -> Vec<Notice> {
        plan.notices()
    }

    fn document(&self, plan: Option<Plan>, ended: Option<Ended<Tally>>) -> LettersJson {
        LettersJson { queue: self.queue.url.clone(), report: Report::of(plan, ended) }
    }
}

impl<D: Deed> Selects for Letters<D> {
    type Args = D::Args;

    fn options(args: &mut D::Args) -> OrderOptions {
        D::letters(args).options
    }

    fn connection(args: &mut D::Args) -> &mut Connection {
        &mut D::letters(args).queue.connection
    }

    fn rate(args: &mut D::Args) -> Option<&mut Option<Rate>> {
        D::rate(args)
    }

    fn chosen(choice: Choice) -> D::Args {
        let Choice { ids, reasons, failures, payload, handler } = choice;
        let selection = Selection { ids, reasons, failures, ..Selection::default() };
        let queue = QueueOptions { handler, ..QueueOptions::default() };
        D::chosen(LettersArgs { options: OrderOptions::confirmed(), selection, queue }, payload)
    }

    fn check(args: &mut D::Args) -> Result<(), Failure> {
        let LettersArgs { options, selection, .. } = D::letters(args);
        if D::KIND.effect == Effect::GivesUp {
            if !options.all && *selection == Selection::default() {
                return Err(NEEDS_ALL.into());
            }
            selection.failures.refuse_everything()?;
        }
        Ok(())
    }

    async fn open(args: D::Args, account: Account) -> Result<Self, Failure> {
        let Parts { letters, action, pace, edits } = D::parts(args);
        let given_at = account.aws.now();
        let mut queue = Queue::find(account.aws, &letters.queue).await?;
        queue.list_functions().await?;
        let policies = queue.policies_for(&action)?;
        let order = rules::Order { selection: letters.selection, given_at, action, policies };
        let is_confirmed = letters.options.yes;
        Ok(Self { queue, order, pace, edits, is_confirmed, last: None, deed: PhantomData })
    }

    fn only(&mut self, keys: BTreeSet<String>) {
        self.order.selection.named = Some(keys);
    }
}

impl order::Plan for Plan {
    fn number(&self) -> u64 {
        self.letters()
    }

    fn targets(&self) -> Option<&BTreeMap<String, u64>> {
        Some(&self.redrive)
    }

    fn is_stuck(&self) -> bool {
        self.leave.keys().any(|left| left.is_selected())
    }

    fn narrow(&mut self) {
        self.leave.retain(|stays, _| stays.is_selected());
    }
}

impl order::Tally for Tally {
    fn done(&self) -> u64 {
        self.done()
    }

    fn tried(&self) -> u64 {
        self.done() + self.kept_back()
    }

    fn is_stuck(&self) -> bool {
        self.kept_back() > 0
    }

    fn narrow(&mut self) {
        self.left.retain(|stays, _| stays.is_selected());
    }
}

/// The payload of the only selected letter, as the operator has edited it. If it was not changed, the operator has to
/// confirm.
fn edited(plan: &Plan, facts: Option<Facts>, is_confirmed: bool) -> Result<String, Failure> {
    let (Some(facts), 1) = (facts, plan.letters()) else {
        let stays = plan.leave.keys().find(|reason| reason.is_selected());
        return Err(match stays.filter(|_| plan.letters() == 0) {
            Some(reason) => format!("there is no letter to edit: {}", reason.text()),
            None => {
                let letters = count(plan.letters());
                format!(
                    "expected one letter for --edit, got {letters}: pass --id or another filter"
                )
            }
        }
        .into());
    };
    let before = facts.payload.as_deref().unwrap_or_default();
    let after = edit(before).map_err(|error| format!("can't edit the payload: {error}"))?;
    if after == before {
        let text = "the payload was not changed";
        if is_confirmed {
            return Err(format!("{text}, so nothing is redriven: leave out --edit").into());
        }
        eprintln!("comeback: {text}");
    }
    Ok(after)
}
