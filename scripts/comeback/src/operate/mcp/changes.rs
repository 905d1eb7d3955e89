//! The tools that plan a change, and those that carry a plan out.
//!
//! To check a plan, what it names is read again in the same way. Then the command's own order is carried out, for
//! exactly these events.

use std::collections::{BTreeMap, BTreeSet};

use comeback_core::{Timestamp, claim::Order, register::Entry, time::rfc3339};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    account::fault::{Answer, Fault},
    failure::Failure,
    operate::{
        dead_letters::{
            order::{self as dead, RedriveArgs},
            queue::{Queue, QueueOptions, look_at_all},
            rules::{self as letters, Action, Pace, Redrive, Step},
        },
        mcp::{
            call::{Call, in_time},
            refusal::Refusal,
            rules::plans::{BadToken, Digest, Plan},
            work::Work,
        },
        options::SystemOptions,
        waiting::{
            order::{OrderArgs, OrderJson, Selected, refuse_everything},
            pause::{Held, HeldJson, PauseArgs, ResumeArgs},
            rules::{self as waiting, Selection},
        },
    },
};

pub const RETRY_NOW: &str = "retry_now";
pub const CANCEL: &str = "cancel";
pub const PAUSE: &str = "pause";
pub const RESUME: &str = "resume";
pub const REDRIVE: &str = "redrive";

const NO_CHANGES: &str = "this server changes nothing: it was started without --allow-changes. A person can run the command";

/// What `--dry-run` of the command says, and the token with which its change can be made.
#[derive(JsonSchema, Serialize)]
pub struct Planned<D> {
    #[serde(flatten)]
    command: D,
    /// How many events, letters or functions the plan names.
    names: u64,
    /// Whether there are more that one plan may not name, or that were not read in time.
    more: bool,
    /// For the tool that carries this plan out.
    token: Option<String>,
    /// Why there is no token.
    why_no_token: Option<&'static str>,
    holds_until: Option<String>,
}

impl<D> Planned<D> {
    fn of(command: D, more: bool, call: &Call, plan: Plan<Work>) -> Result<Self, Refusal> {
        let names = plan.number;
        let (token, until) = call.keep(plan)?.unzip();
        let why_no_token = match token {
            Some(_) => None,
            None if !call.allows_changes() => Some(NO_CHANGES),
            None => Some("the plan names nothing"),
        };
        let holds_until = until.map(rfc3339);
        Ok(Self { command, names, more, token, why_no_token, holds_until })
    }
}

#[derive(clap::Args)]
pub struct TokenArgs {
    /// The token of the plan, as the tool that made it has returned it.
    #[arg(long, required = true)]
    pub token: String,
}

/// The events or letters that a plan names, with what it found of each.
struct Named<P> {
    plan: P,
    states: BTreeMap<String, String>,
    more: bool,
}

impl<P: Default> Named<P> {
    fn new() -> Self {
        Self { plan: P::default(), states: BTreeMap::new(), more: false }
    }
}

impl<P> Named<P> {
    fn number(&self) -> u64 {
        self.states.len() as u64
    }

    fn keys(&self) -> BTreeSet<String> {
        self.states.keys().cloned().collect()
    }

    fn digest(&self) -> Digest {
        Digest::of(self.states.iter().flat_map(|(key, state)| [key.as_str(), state]))
    }

    /// Refuses a plan if this is not what it named.
    fn check<W>(&self, plan: &Plan<W>) -> Result<(), BadToken> {
        if self.digest() == plan.digest { Ok(()) } else { Err(BadToken::Changed) }
    }
}

/// An event's key has the request id of its last failure, so it differs once the event was retried and failed again.
async fn events(selected: &Selected, most: usize, call: &Call) -> Answer<Named<waiting::Plan>> {
    let mut named: Named<waiting::Plan> = Named::new();
    let count = |event: Entry| {
        let state = event.order.map_or(String::new(), |order| format!("{order:?}"));
        named.states.insert(event.key.to_string(), state);
        named.plan.count(event);
    };
    named.more = visit(selected, most, call, count).await?;
    Ok(named)
}

/// Visits at most this many of the selected events. Returns whether there may be more.
async fn visit(
    selected: &Selected,
    most: usize,
    call: &Call,
    mut count: impl FnMut(Entry),
) -> Answer<bool> {
    let (mut left, mut more) = (most, false);
    let visited = selected.visit(|event| {
        match event {
            Some(_) if left == 0 => more = true,
            Some(event) => {
                left -= 1;
                count(event);
            }
            None => {}
        }
        !more && call.goes_on()
    });
    visited.await?;
    Ok(more || !call.goes_on())
}

pub async fn plan_order(
    order: Order,
    mut args: OrderArgs,
    call: Call,
) -> Result<Planned<OrderJson>, Refusal> {
    let rate = call.rate(args.rate)?;
    args.system.connection = call.connection();
    let selection = args.filter.selection(call.now()());
    refuse_everything(order, &selection, args.options.all)?;
    let selected = Selected::find(order, selection.clone(), &args.system, call.now()).await?;
    let named = events(&selected, call.events_max_at(rate), &call).await.map_err(Failure::from)?;
    if named.states.is_empty() {
        selected.refuse_unknown().await?;
    }
    let tool = if order == Order::Retry { RETRY_NOW } else { CANCEL };
    let selection = Selection { named: Some(named.keys()), ..selection };
    let (number, digest) = (named.number(), named.digest());
    let work = Work::Order { order, selection, system: args.system, rate };
    let plan = Plan { tool, number, digest, work };
    Planned::of(selected.document(Some(named.plan)), named.more, &call, plan)
}

pub async fn order(tool: &str, args: TokenArgs, call: Call) -> Result<OrderJson, Refusal> {
    let plan = call.take(&args.token, tool)?;
    let Work::Order { order, selection, system, rate } = &plan.work else {
        return Err(BadToken::Unknown.into());
    };
    let reads = async {
        let selected = Selected::find(*order, selection.clone(), system, call.now()).await?;
        let named = events(&selected, selection.names(), &call).await?;
        Ok::<_, Failure>((selected, named))
    };
    let (selected, named) = in_time(reads).await?;
    call.still()?;
    named.check(&plan)?;
    let goes_on = |tally: &waiting::Tally| call.goes_on_after(tally.tried(), plan.number);
    let (tally, ended) = selected.carry_out(Some(*rate), goes_on).await;
    let mut document = selected.document(Some(named.plan));
    document.interrupted = !call.goes_on();
    document.error = text_of(ended);
    document.done = Some(tally);
    Ok(document)
}

fn text_of(ended: Answer<()>) -> Option<String> {
    ended.err().map(|fault: Fault| fault.to_string())
}

/// The targets of a pause in their state.
fn digest(held: &Held) -> Digest {
    let state = |at: Option<Timestamp>| at.map_or(String::new(), rfc3339);
    let states: Vec<_> = held.targets.iter().map(|(target, at)| (target, state(*at))).collect();
    Digest::of(states.iter().flat_map(|(target, state)| [target.as_str(), state]))
}

async fn plan_hold_back(
    function: String,
    mut system: SystemOptions,
    is_pause: bool,
    call: Call,
) -> Result<Planned<HeldJson>, Refusal> {
    system.connection = call.connection();
    let held = Held::find(&function, &system, is_pause, call.now()).await?;
    let tool = if is_pause { PAUSE } else { RESUME };
    let (number, digest) = (held.targets.len() as u64, digest(&held));
    let work = Work::HoldBack { function, system, is_pause };
    let plan = Plan { tool, number, digest, work };
    Planned::of(held.document(None), false, &call, plan)
}

pub async fn plan_pause(args: PauseArgs, call: Call) -> Result<Planned<HeldJson>, Refusal> {
    let function = args.function.ok_or_else(|| Refusal::Usage("function is missing".to_owned()))?;
    plan_hold_back(function, args.options.system, true, call).await
}

pub async fn plan_resume(args: ResumeArgs, call: Call) -> Result<Planned<HeldJson>, Refusal> {
    plan_hold_back(args.function, args.options.system, false, call).await
}

pub async fn hold_back(tool: &str, args: TokenArgs, call: Call) -> Result<HeldJson, Refusal> {
    let plan = call.take(&args.token, tool)?;
    let Work::HoldBack { function, system, is_pause } = &plan.work else {
        return Err(BadToken::Unknown.into());
    };
    let held = in_time(Held::find(function, system, *is_pause, call.now())).await?;
    call.still()?;
    if digest(&held) != plan.digest {
        return Err(BadToken::Changed.into());
    }
    let since = is_pause.then(|| call.now()());
    held.hold_back(since).await?;
    Ok(held.document(since))
}

/// A letter never changes, but what a redrive would do with it depends on the handler's settings, too.
async fn redrives(
    queue: &Queue,
    order: &letters::Order,
    most: usize,
    is_all: bool,
    call: &Call,
) -> Answer<Named<letters::Plan>> {
    let mut named: Named<letters::Plan> = Named::new();
    look_at_all(queue, |letter| {
        let step = order.step(&letter, order.given_at);
        if let Step::Redrive(Redrive { target, payload, call }) = &step {
            if named.states.len() == most {
                named.more = true;
                return false;
            }
            named.states.insert(letter.id, format!("{target} {call:?} {payload}"));
        }
        // How many others there are is not known, because the visit ends with the last that the plan names.
        if !matches!(step, Step::Leave(stays) if !stays.is_selected()) {
            named.plan.count(&step);
        }
        call.goes_on() && !(is_all && named.states.len() == most)
    })
    .await?;
    named.more |= !call.goes_on();
    Ok(named)
}

/// The action of a redrive as it is: an agent changes neither a payload nor where it goes.
fn as_it_is() -> Action {
    Action::Redrive { to: None, set: Vec::new(), payload: None }
}

pub async fn plan_redrive(
    args: RedriveArgs,
    call: Call,
) -> Result<Planned<dead::OrderJson>, Refusal> {
    let rate = call.rate(args.rate)?;
    let connection = call.connection();
    let options = QueueOptions { connection, ..args.order.queue };
    let selection = args.order.selection;
    let prepared = dead::prepare(selection.clone(), as_it_is(), &options, call.now());
    let (queue, order) = prepared.await?;
    let named = redrives(&queue, &order, call.events_max_at(rate), false, &call);
    let named = named.await.map_err(Failure::from)?;
    if named.plan.letters() == 0 {
        queue.refuse_unknown(&selection.failures.functions).await?;
    }
    let selection = letters::Selection { named: Some(named.keys()), ..selection };
    let (number, digest) = (named.number(), named.digest());
    let work = Work::Redrive { selection, queue: options, rate };
    let plan = Plan { tool: REDRIVE, number, digest, work };
    Planned::of(dead::OrderJson::of(&queue, Some(named.plan)), named.more, &call, plan)
}

pub async fn redrive(args: TokenArgs, call: Call) -> Result<dead::OrderJson, Refusal> {
    let plan = call.take(&args.token, REDRIVE)?;
    let Work::Redrive { selection, queue: options, rate } = &plan.work else {
        return Err(BadToken::Unknown.into());
    };
    let most = selection.named.as_ref().map_or(0, BTreeSet::len);
    let reads = async {
        let prepared = dead::prepare(selection.clone(), as_it_is(), options, call.now());
        let (queue, order) = prepared.await?;
        let named = redrives(&queue, &order, most, true, &call).await?;
        Ok::<_, Failure>((queue, order, named))
    };
    let (queue, order, named) = in_time(reads).await?;
    call.still()?;
    named.check(&plan)?;
    let pace = Pace { rate: Some(*rate), batches: 1 };
    let goes_on = |tally: &letters::Tally| call.goes_on_after(tally.tried(), plan.number);
    let (mut tally, ended) = letters::carry_out(&order, pace, &queue, goes_on).await;
    tally.left.retain(|stays, _| stays.is_selected());
    let mut document = dead::OrderJson::of(&queue, Some(named.plan));
    document.interrupted = !call.goes_on();
    document.error = text_of(ended);
    document.done = Some(tally);
    Ok(document)
}
