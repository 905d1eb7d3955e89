//! An agent as a face of orders: a tool that plans each, and one that carries a plan out.
//!
//! To check a plan, what it names is read again in the same way. Then the order is carried out, for exactly these
//! items.

use std::collections::{BTreeMap, BTreeSet};

use comeback_core::time::rfc3339;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    account::fault::Answer,
    failure::Failure,
    operate::{
        logbook::{self, rules::Through},
        mcp::{
            call::{AnyWork, Call, in_time},
            refusal::Refusal,
            rules::plans::{BadToken, Digest, Plan},
        },
        order::{Account, Ended, Found, Go, Plan as _, Selects, Tally as _, recorded},
    },
};

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
    /// Why the change will leave no record in `history`, if it leaves none.
    why_no_record: Option<String>,
}

#[derive(clap::Args)]
pub struct TokenArgs {
    /// The token of the plan, as the tool that made it has returned it.
    #[arg(long, required = true)]
    pub token: String,
}

/// What a plan keeps for the tool that carries it out: the options `A` of the order, and the items that it names.
struct Work<A> {
    args: A,
    keys: BTreeSet<String>,
}

/// The items that a plan names, with what it found of each.
struct Named<P> {
    plan: P,
    states: BTreeMap<String, Digest>,
    more: bool,
}

impl<P> Named<P> {
    fn digest(&self) -> Digest {
        let parts = self.states.iter().map(|(key, state)| [key.as_bytes(), state.as_ref()]);
        Digest::of(parts.flatten())
    }
}

/// Reads at most this many of the selected items. `is_known` if there are no more of them.
async fn named<O: Selects>(
    order: &mut O,
    most: usize,
    is_known: bool,
    call: &Call,
) -> Answer<Named<O::Plan>> {
    let (mut states, mut more) = (BTreeMap::new(), false);
    let looked = order.plan(|found| {
        if let Some(Found { key, state }) = found {
            if states.len() == most {
                more = true;
                return Go::Stop;
            }
            states.insert(key.to_owned(), Digest::of(state));
        }
        if !call.goes_on() || is_known && states.len() == most { Go::Last } else { Go::On }
    });
    let mut plan = looked.await?;
    // How many others there are is not known, because the last item that the plan names ends the look.
    plan.narrow();
    more |= !call.goes_on();
    Ok(Named { plan, states, more })
}

async fn open<O: Selects>(mut args: O::Args, call: &Call) -> Result<O, Failure> {
    let account = Account::connect(O::connection(&mut args), call.now()).await?;
    O::open(args, account).await
}

pub async fn plan<O: Selects>(
    mut args: O::Args,
    call: Call,
) -> Result<Planned<O::Document>, Refusal> {
    let mut most = call.events_max();
    if let Some(wanted) = O::rate(&mut args) {
        let rate = call.rate(*wanted)?;
        (*wanted, most) = (Some(rate), call.events_max_at(rate));
    }
    *O::connection(&mut args) = call.connection();
    O::check(&mut args)?;
    let mut order = open::<O>(args.clone(), &call).await?;
    let named = named(&mut order, most, false, &call).await.map_err(Failure::from)?;
    if named.states.is_empty() {
        order.refuse_unknown().await?;
    }
    let (number, digest) = (named.states.len() as u64, named.digest());
    let work: AnyWork = Box::new(Work { args, keys: named.states.into_keys().collect() });
    let kept = call.keep(Plan { tool: O::KIND.name, number, digest, work })?;
    let (token, until) = kept.unzip();
    let why_no_token = match token {
        Some(_) => None,
        None if !call.allows_changes() => Some(NO_CHANGES),
        None => Some("the plan names nothing"),
    };
    Ok(Planned {
        command: order.document(Some(named.plan), None),
        names: number,
        more: named.more,
        token,
        why_no_token,
        holds_until: until.map(rfc3339),
        why_no_record: logbook::without(order.ledger()),
    })
}

pub async fn carry_out<O: Selects>(args: TokenArgs, call: Call) -> Result<O::Document, Refusal> {
    let plan = call.take(&args.token, O::KIND.name)?;
    let work = plan.work.downcast::<Work<O::Args>>().map_err(|_| BadToken::Unknown)?;
    let Work { args, keys } = *work;
    let reads = async {
        let mut order = open::<O>(args, &call).await?;
        let most = keys.len();
        order.only(keys);
        let named = named(&mut order, most, true, &call).await?;
        Ok::<_, Failure>((order, named))
    };
    let (order, named) = in_time(reads).await?;
    call.still()?;
    if named.digest() != plan.digest {
        return Err(BadToken::Changed.into());
    }
    let goes_on = |tally: &O::Tally| call.goes_on_after(tally.tried(), plan.number);
    let carried_out = recorded::carry_out(&order, Through::Agent, Some(plan.number), goes_on);
    let (mut tally, result) = carried_out.await;
    tally.narrow();
    // A failure before the first change is the failure of the tool, with its name.
    let error = match result {
        Err(failure) if tally.tried() == 0 => return Err(failure.into()),
        result => result.err().map(|failure| failure.to_string()),
    };
    let ended = Ended { tally, is_interrupted: !call.goes_on(), error };
    Ok(order.document(Some(named.plan), Some(ended)))
}
