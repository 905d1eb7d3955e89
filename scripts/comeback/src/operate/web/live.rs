//! The state behind the page: facts that are polled, and events as they happen.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use comeback_core::{
    Timestamp,
    settings::{Policies, policy::Policy},
};
use comeback_local::Outages;
use comeback_local_client::deploy::HANDLER;
use tokio::sync::{Notify, watch};

use super::{html::Params, jobs::Jobs};

use crate::{
    account::{function::Function, names::target_name},
    activity::{Activity, Kind},
    aws::{Aws, connect::Connection},
    failure::Failure,
    groups::Groups,
    operate::{
        dead_letters::{
            queue::{Queue, QueueOptions},
            rules::Listed,
        },
        doctor::rules::finding::Examined,
        order::Account,
        status::rules::Facts,
        web::rules::{Events, Standing},
    },
};

pub type Shared = Arc<Live>;

#[derive(Clone)]
pub struct Cloud {
    pub aws: Aws,
    pub handler: Option<String>,
    pub connection: Connection,
}

pub struct Live {
    pub now: fn() -> Timestamp,
    /// The region of the account; `None` for the local cloud.
    pub region: Option<String>,
    pub outages: Outages,
    pub token: Option<String>,
    /// The path of all pages, with a `/` at its end. It is secret if there is a token.
    pub root: String,
    pub csrf: String,
    pub jobs: Jobs,
    /// Locked by jobs that read dead letters, because letters that one job has received are hidden from the others.
    pub letters: tokio::sync::Mutex<()>,
    ends: AtomicBool,
    pub(super) cloud: OnceLock<Cloud>,
    seen: Mutex<Seen>,
    version: watch::Sender<u64>,
    pub(super) wanted: Notify,
}

#[derive(Default)]
pub struct Seen {
    pub events: Events,
    pub handler: Option<Function>,
    /// The numbers of the overview, all read at the same time.
    pub snapshot: Snapshot,
    pub examined: Vec<Examined>,
    pub examined_at: Option<Timestamp>,
    pub examining: bool,
    pub faults: BTreeMap<&'static str, String>,
    pub looked: Option<LetterSnapshot>,
    pub looking: Option<u64>,
    pub lesson: Option<Lesson>,
    /// The functions with tenant isolation.
    pub tenants: BTreeSet<String>,
    /// What was sent last to each function and queue.
    pub sent: BTreeMap<String, Params>,
    pub(super) registered_at: Option<Timestamp>,
    pub(super) wanted_at: Option<Timestamp>,
}

/// The facts that were polled last, and the numbers of events at that time.
#[derive(Default)]
pub struct Snapshot {
    /// `None` if nothing was polled yet.
    pub at: Option<Timestamp>,
    pub functions: Vec<Facts>,
    /// The approximate number of letters in the dead-letter queue.
    pub letters: u64,
    /// Where the events of each function stand.
    pub standings: BTreeMap<String, Standing>,
}

impl Seen {
    /// Whether the retries of a function are paused.
    pub fn is_paused(&self, function: &str) -> bool {
        let mut paused = self.snapshot.functions.iter().filter(|it| it.paused_since.is_some());
        paused.any(|it| target_name(&it.function) == function)
    }

    pub fn policies(&self) -> Option<Policies> {
        Some(self.handler.as_ref()?.settings().ok()?.rules.policies)
    }

    /// The policy of a function or a queue.
    pub fn policy(&self, function: &str) -> Option<Policy> {
        Some(self.policies()?.of(function).clone())
    }

    /// Whether there is a register, so that waiting events can be retried and cancelled.
    pub fn has_register(&self) -> bool {
        self.handler.as_ref().is_some_and(|handler| handler.register().is_some())
    }
}

/// What the lesson says at a step, counted from 1.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Lesson {
    /// The time when it began, by which another lesson is recognized.
    pub began: Timestamp,
    pub step: usize,
    pub text: String,
    pub is_bad: bool,
    pub has_ended: bool,
}

pub struct LetterSnapshot {
    pub at: Timestamp,
    pub took: Duration,
    pub letters: u64,
    /// By reason, function and error.
    pub groups: Groups,
    pub listed: Vec<Listed>,
}

impl LetterSnapshot {
    pub fn has_reason(&self, reason: &str) -> bool {
        self.groups.largest_first().iter().any(|(key, _)| key[0] == reason)
    }
}

impl Live {
    pub fn new(
        region: Option<String>,
        now: fn() -> Timestamp,
        token: Option<String>,
    ) -> io::Result<Shared> {
        Ok(Arc::new(Self {
            now,
            region,
            outages: Outages::default(),
            root: if token.is_some() { format!("/{}/", secret()?) } else { "/".to_owned() },
            token,
            csrf: secret()?,
            jobs: Jobs::default(),
            letters: tokio::sync::Mutex::default(),
            ends: AtomicBool::new(false),
            cloud: OnceLock::new(),
            seen: Mutex::default(),
            version: watch::Sender::new(0),
            wanted: Notify::new(),
        }))
    }

    /// Asks all jobs to stop and closes the streams of all open pages, because the program ends.
    pub fn end(&self) {
        self.ends.store(true, Ordering::Relaxed);
        self.changed();
    }

    pub fn is_ending(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    pub fn is_local(&self) -> bool {
        self.region.is_none()
    }

    /// Sets the connection, which may happen only once.
    pub fn connect(&self, cloud: Cloud) {
        let _ = self.cloud.set(cloud);
        self.changed();
    }

    pub fn cloud(&self) -> Result<&Cloud, Failure> {
        let starting = "the local cloud is still starting: try again in a few seconds";
        Ok(self.cloud.get().ok_or(starting)?)
    }

    /// Locks the facts. A thread that already holds the lock would deadlock.
    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn changed(&self) {
        self.version.send_modify(|version| *version += 1);
    }

    pub fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Records a request of an open page, so that polling goes on.
    pub fn touch(&self) {
        self.seen().wanted_at = Some((self.now)());
        self.wanted.notify_waiters();
    }

    /// Takes in new activities of the local cloud, and lines of the handler's log.
    pub fn observe(&self, activities: &[Activity], lines: &[&str]) {
        let mut seen = self.seen();
        for activity in activities {
            if let Kind::Accepted(run) = &activity.kind {
                seen.events.knows(run);
            }
        }
        for line in lines {
            seen.events.line(line);
        }
        let of_targets = activities.iter().filter(|it| *it.function != *HANDLER);
        for Activity { at, function, kind } in of_targets {
            match kind {
                Kind::Accepted(run) => seen.events.accepted(run, function, *at),
                Kind::Started(run) => seen.events.started(run, function, *at),
                Kind::Ended { run, error, .. } => {
                    let error = error.as_ref().map(|it| (it.kind.clone(), it.message.clone()));
                    seen.events.ended(run, *at, error);
                }
                Kind::GivenUpByLambda { request_id, run, condition, lost } => {
                    let run = run.as_ref();
                    seen.events.given_up_by_lambda(request_id, run, *at, condition, *lost);
                }
                Kind::Decided { .. } | Kind::Logged(_) | Kind::Trouble { .. } => {}
            }
        }
        drop(seen);
        if !activities.is_empty() || !lines.is_empty() {
            self.changed();
        }
    }

    pub fn policies(&self) -> Option<Policies> {
        self.seen().policies()
    }

    pub fn policy(&self, function: &str) -> Option<Policy> {
        self.seen().policy(function)
    }

    /// Where orders are given.
    pub fn account(&self) -> Result<Account, Failure> {
        let cloud = self.cloud()?;
        let handler = self.seen().handler.clone();
        let handler = handler.ok_or(
            "no retry handler was found yet: try again in a few seconds, or see `comeback doctor`",
        )?;
        Ok(Account { aws: cloud.aws.clone(), handler: Some(handler) })
    }

    pub async fn dead_letters(&self) -> Result<Queue, Failure> {
        let Cloud { aws, handler, .. } = self.cloud()?.clone();
        Queue::find(aws, &QueueOptions { handler, ..QueueOptions::default() }).await
    }

    pub fn note(&self, what: &'static str, done: Result<(), Failure>) {
        let faults = &mut self.seen().faults;
        match done {
            Ok(()) => drop(faults.remove(what)),
            Err(failure) => drop(faults.insert(what, failure.to_string())),
        }
    }
}

/// A random token of 128 bits.
pub fn secret() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}
