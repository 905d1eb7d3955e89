//! One call of a tool: what it may do, and whether it goes on.

use std::{
    any::Any,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use comeback_core::Timestamp;

use crate::{
    aws::{Aws, connect::Connection},
    operate::mcp::{
        options::McpArgs,
        refusal::Refusal,
        rules::plans::{BadToken, Plan, Plans},
    },
    typed::Rate,
};

/// A call that reads stops reading after this time, and says what it has found.
pub const READ_MAX: Duration = Duration::from_secs(10);

/// A call answers within this time if the account is away. People don't wait for longer.
pub const ANSWER_MAX: Duration = Duration::from_secs(14);

/// A call that reads may take this long in an account that answers: Lambda allows 15 calls a second, and `doctor` makes
/// several for each function. Clients wait for a minute.
pub const SLOW_MAX: Duration = Duration::from_secs(55);

/// A plan names only so many events that its change takes no longer than this: clients give a call up after a minute.
const CHANGE_MAX: Duration = Duration::from_secs(40);

/// What a plan keeps for the tool that carries it out. Its type is that of the order's options.
pub type AnyWork = Box<dyn Any + Send>;

/// What the calls of a server have in common.
pub struct Session {
    pub args: McpArgs,
    pub now: fn() -> Timestamp,
    pub plans: Mutex<Plans<AnyWork>>,
    /// Whether the input has ended, or the program was asked to end.
    pub has_ended: Arc<AtomicBool>,
}

#[derive(Clone)]
pub struct Call {
    session: Arc<Session>,
    is_stopped: Arc<AtomicBool>,
    /// How many events it has changed, and how many it is to change.
    progress: Arc<[AtomicU64; 2]>,
}

impl Call {
    pub fn of(session: Arc<Session>) -> Self {
        Self { session, is_stopped: Arc::default(), progress: Arc::default() }
    }

    /// Lets the call end soon, with what it has.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    pub fn goes_on(&self) -> bool {
        let flags = [&self.is_stopped, &self.session.has_ended];
        flags.iter().all(|flag| !flag.load(Ordering::Relaxed))
    }

    /// Notes how far the change is, and returns whether it goes on.
    pub fn goes_on_after(&self, done: u64, all: u64) -> bool {
        for (number, value) in self.progress.iter().zip([done, all]) {
            number.store(value, Ordering::Relaxed);
        }
        self.goes_on() && done < all
    }

    /// How many events were changed, of how many.
    pub fn progress(&self) -> (u64, u64) {
        let [done, all] = &*self.progress;
        (done.load(Ordering::Relaxed), all.load(Ordering::Relaxed))
    }

    /// Refuses to change anything if the call was stopped while its plan was checked.
    pub fn still(&self) -> Result<(), Refusal> {
        if self.goes_on() { Ok(()) } else { Err(Refusal::Stopped) }
    }

    /// Whether the account answers at all, also if it refuses.
    pub async fn is_there(&self) -> bool {
        let Ok(aws) = Aws::connect(&self.connection(), self.now()).await else { return false };
        let answer = aws.lambda.list_functions().max_items(1).send().await;
        answer.as_ref().err().is_none_or(|error| error.as_service_error().is_some())
    }

    pub fn now(&self) -> fn() -> Timestamp {
        self.session.now
    }

    pub fn connection(&self) -> Connection {
        self.session.args.connection.clone()
    }

    pub fn events_max(&self) -> usize {
        self.session.args.max_events as usize
    }

    /// The most events that a plan names which changes so many a second.
    pub fn events_max_at(&self, rate: Rate) -> usize {
        let in_time = (rate.per_second() * CHANGE_MAX.as_secs_f64()) as usize;
        self.events_max().min(in_time.max(1))
    }

    pub fn allows_changes(&self) -> bool {
        self.session.args.allow_changes
    }

    /// The number of events to list, unless that is too many.
    pub fn limit(&self, wanted: usize) -> Result<(), Refusal> {
        let max = self.events_max();
        if wanted <= max {
            return Ok(());
        }
        Err(Refusal::Usage(format!("limit must be at most {max}, got {wanted}")))
    }

    /// The events a second: as many as may be, if no rate is wanted.
    pub fn rate(&self, wanted: Option<Rate>) -> Result<Rate, Refusal> {
        let number = self.session.args.max_rate;
        let max = Rate::new(number.into());
        match wanted.or(max) {
            Some(rate) if Some(rate) <= max => Ok(rate),
            rate => {
                let rate = rate.map_or(0.0, Rate::per_second);
                Err(Refusal::Usage(format!("rate must be at most {number}/s, got {rate}/s")))
            }
        }
    }

    /// Keeps a plan, if changes are allowed and it names something. Returns its token, and until when it holds.
    pub fn keep(&self, plan: Plan<AnyWork>) -> Result<Option<(String, Timestamp)>, Refusal> {
        if !self.session.args.allow_changes || plan.number == 0 {
            return Ok(None);
        }
        let mut random = [0; 16];
        getrandom::fill(&mut random)
            .map_err(|error| Refusal::Failed(format!("there is no randomness: {error}")))?;
        let mut plans = self.session.plans.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Some(plans.keep(plan, (self.session.now)(), random)))
    }

    pub fn take(&self, token: &str, tool: &str) -> Result<Plan<AnyWork>, BadToken> {
        let mut plans = self.session.plans.lock().unwrap_or_else(PoisonError::into_inner);
        plans.take(token, tool, (self.session.now)())
    }
}

/// The result of a call that reads, or that there was no answer in time.
pub async fn in_time<T, E: Into<Refusal>>(
    reads: impl Future<Output = Result<T, E>>,
) -> Result<T, Refusal> {
    match tokio::time::timeout(ANSWER_MAX, reads).await {
        Ok(read) => read.map_err(Into::into),
        Err(_) => Err(Refusal::NoAnswer(ANSWER_MAX.as_secs())),
    }
}
