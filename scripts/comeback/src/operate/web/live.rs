//! What the page knows: facts that are asked for while somebody looks, and events as they happen.

use std::{
    collections::{BTreeMap, HashSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use comeback_core::{
    Timestamp,
    arn::FunctionArn,
    policy::Policy,
    settings::Settings,
    time::{between, earlier},
};
use comeback_local::Outages;
use comeback_operate::{
    dead_letters::Listed,
    doctor::{Examined, diagnose},
    groups::Groups,
    live::{Events, Run},
    ports::Fault,
    status::Facts,
    systems::{self, Function},
    waiting::visit,
};
use rustix::rand::{GetRandomFlags, getrandom};
use tokio::sync::{Notify, watch};

use super::jobs::Jobs;
use crate::{
    activity::{Activity, Kind},
    operate::{
        attached::{Attached, attached},
        aws::Aws,
        dead_letters::{Queue, QueueOptions},
        doctor,
        functions::functions,
        logs,
        options::Connection,
        status::gather,
        waiting::DynamoRegister,
    },
    shell::Failure,
};

/// After so long without a request nobody looks.
const WATCHED: Duration = Duration::from_secs(20);

/// How often functions and queues are asked about while somebody looks: in the local cloud, and in an account.
const EVERY: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(10)];

/// How often everything is examined as `comeback doctor` does.
const EXAMINED_EVERY: [Duration; 2] = [Duration::from_secs(15), Duration::from_mins(5)];

/// How often the log of an account's handler is read.
const LOG_EVERY: Duration = Duration::from_secs(2);

/// Lines come into the log late, so this much of it is read again.
const LOG_AGAIN: Duration = Duration::from_secs(30);

/// The lines about events.
const LINES: &str = "{ $.request_id EXISTS }";

/// How many lines are remembered as read.
const LINES_READ_MAX: usize = 200_000;

/// How many events of the register are read.
const REGISTERED_MAX: usize = 100_000;

/// What all requests share.
pub type Shared = Arc<Live>;

/// How the page reaches AWS.
#[derive(Clone)]
pub struct Cloud {
    pub aws: Aws,
    /// The handler that was named.
    pub handler: Option<String>,
    pub connection: Connection,
}

/// What the page knows.
pub struct Live {
    pub now: fn() -> Timestamp,
    /// The region of the account; `None` for the local cloud.
    pub region: Option<String>,
    /// The outages that are played in the local cloud.
    pub outages: Outages,
    /// The token of an account's page.
    pub token: Option<String>,
    /// The token of its forms.
    pub csrf: String,
    /// What is under way.
    pub jobs: Jobs,
    /// Held by who works on dead letters: letters that one looks at are hidden from all others.
    pub letters: tokio::sync::Mutex<()>,
    cloud: OnceLock<Cloud>,
    seen: Mutex<Seen>,
    version: watch::Sender<u64>,
    wanted: Notify,
}

/// The facts.
#[derive(Default)]
pub struct Seen {
    /// The events.
    pub events: Events,
    pub handler: Option<Function>,
    /// The functions whose failures are retried.
    pub functions: Vec<Facts>,
    /// How many letters are in the dead-letter queue.
    pub letters: Option<u64>,
    pub examined: Vec<Examined>,
    /// When it did.
    pub examined_at: Option<Timestamp>,
    /// What can't be read, by what it is.
    pub faults: BTreeMap<&'static str, String>,
    /// The dead letters, as they were looked at last.
    pub looked: Option<Looked>,
    /// What the lesson says.
    pub lesson: Option<String>,
    registered_at: Option<Timestamp>,
    wanted_at: Option<Timestamp>,
    closed: bool,
}

impl Seen {
    /// Whether waiting events can be listed and ordered.
    pub fn has_register(&self) -> bool {
        self.handler.as_ref().is_some_and(|handler| handler.register().is_some())
    }
}

/// Dead letters that were looked at.
#[derive(Default)]
pub struct Looked {
    /// When.
    pub at: Option<Timestamp>,
    /// How many there were.
    pub letters: u64,
    /// All of them by reason, function and error.
    pub groups: Groups,
    /// Some of them.
    pub listed: Vec<Listed>,
}

impl Live {
    /// Nothing is known yet.
    pub fn new(
        region: Option<String>,
        now: fn() -> Timestamp,
        token: Option<String>,
    ) -> io::Result<Shared> {
        Ok(Arc::new(Self {
            now,
            region,
            outages: Outages::default(),
            token,
            csrf: secret()?,
            jobs: Jobs::default(),
            letters: tokio::sync::Mutex::default(),
            cloud: OnceLock::new(),
            seen: Mutex::default(),
            version: watch::Sender::new(0),
            wanted: Notify::new(),
        }))
    }

    /// Whether it is about the local cloud.
    pub fn is_local(&self) -> bool {
        self.region.is_none()
    }

    /// From now on AWS can be asked.
    pub fn connect(&self, cloud: Cloud) {
        // There is only one.
        let _ = self.cloud.set(cloud);
        self.changed();
    }

    /// How AWS is reached.
    ///
    /// # Errors
    ///
    /// If the local cloud has not deployed the loop yet.
    pub fn cloud(&self) -> Result<&Cloud, Failure> {
        let starting = || Failure::Refused("the local cloud is still starting".to_owned());
        self.cloud.get().ok_or_else(starting)
    }

    /// The facts. No two of these may be held at a time.
    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells those who look that something has changed.
    pub fn changed(&self) {
        self.version.send_modify(|version| *version += 1);
    }

    /// Changes of anything.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Ends all connections that are kept open.
    pub fn close(&self) {
        self.seen().closed = true;
        self.changed();
    }

    /// Whether it is about to end.
    pub fn is_closed(&self) -> bool {
        self.seen().closed
    }

    /// Somebody looks.
    pub fn look(&self) {
        self.seen().wanted_at = Some((self.now)());
        self.wanted.notify_waiters();
    }

    async fn until_somebody_looks(&self) {
        loop {
            let wanted = self.wanted.notified();
            let is_watched =
                self.seen().wanted_at.is_some_and(|at| between(at, (self.now)()) < WATCHED);
            if is_watched {
                return;
            }
            wanted.await;
        }
    }

    /// What happened in the local cloud.
    pub fn observe(&self, activities: &[Activity], lines: &[&str]) {
        let mut seen = self.seen();
        for line in lines {
            seen.events.line(line);
        }
        for Activity { at, function, kind } in activities {
            match kind {
                Kind::Started(run) if !is_of_the_loop(function) => {
                    let (request_id, event_id) = (&run.request_id, &*run.event_id);
                    let run = Run { request_id, event_id, attempt: run.attempt, function };
                    seen.events.started(&run, *at);
                }
                Kind::Ended { request_id, error, .. } => {
                    let error = error.as_ref().map(|it| (it.kind.clone(), it.message.clone()));
                    seen.events.ended(request_id, *at, error);
                }
                Kind::Started(_)
                | Kind::GivenUpByLambda { .. }
                | Kind::Decided { .. }
                | Kind::Logged(_)
                | Kind::Trouble(_) => {}
            }
        }
        drop(seen);
        if !activities.is_empty() || !lines.is_empty() {
            self.changed();
        }
    }

    /// The policy of a function, as the handler reads its settings.
    pub fn policy(&self, function: &str) -> Option<Policy> {
        let settings = self.seen().handler.as_ref()?.environment.clone();
        let settings = Settings::from_lookup(|name| settings.get(name).cloned()).ok()?;
        Some(settings.rules.policies.of(function).clone())
    }

    /// The register of what waits.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn register(&self) -> Result<DynamoRegister, Failure> {
        let cloud = self.cloud()?;
        let handler = self.seen().handler.clone();
        let handler =
            handler.ok_or_else(|| Failure::Refused("no retry handler was found yet".to_owned()))?;
        DynamoRegister::of(handler, cloud.aws.clone())
    }

    pub async fn dead_letters(&self) -> Result<Queue, Failure> {
        let Cloud { aws, handler, .. } = self.cloud()?.clone();
        Queue::find(aws, &QueueOptions { handler, ..QueueOptions::default() }).await
    }

    /// Asks for facts while somebody looks, without end.
    pub async fn keep_current(self: Shared) {
        let nth = usize::from(!self.is_local());
        loop {
            self.until_somebody_looks().await;
            if self.cloud.get().is_some() {
                self.note("functions", self.ask().await);
                let now = (self.now)();
                let is_old = |at: Option<Timestamp>, every: Duration| {
                    at.is_none_or(|at| between(at, now) >= every)
                };
                let (registered_at, examined_at) = {
                    let seen = self.seen();
                    (seen.registered_at, seen.examined_at)
                };
                if is_old(registered_at, EVERY[1]) {
                    self.seen().registered_at = Some(now);
                    self.note("register", self.read_register().await);
                }
                if is_old(examined_at, EXAMINED_EVERY[nth]) {
                    self.note("doctor", self.examine().await);
                }
                self.changed();
            }
            tokio::time::sleep(EVERY[nth]).await;
        }
    }

    /// Remembers what could not be done, or that it can.
    fn note(&self, what: &'static str, done: Result<(), Failure>) {
        let faults = &mut self.seen().faults;
        match done {
            Ok(()) => drop(faults.remove(what)),
            Err(failure) => drop(faults.insert(what, failure.to_string())),
        }
    }

    /// How functions and queues are.
    async fn ask(&self) -> Result<(), Failure> {
        let Cloud { aws, handler, .. } = self.cloud()?;
        let functions = functions(aws).await?;
        let handler = systems::only(&functions, handler.as_deref())?;
        let attached: Vec<Attached> = attached(aws, &handler, &functions).await?;
        let facts = gather(aws, &handler, &attached, (self.now)()).await?;
        let letters = self.dead_letters().await.map(|queue| queue.visible + queue.hidden);
        let mut seen = self.seen();
        (seen.handler, seen.functions) = (Some(handler), facts);
        seen.letters = Some(letters?);
        Ok(())
    }

    /// What waits, if there is a register.
    async fn read_register(&self) -> Result<(), Failure> {
        if !self.seen().has_register() {
            return Ok(());
        }
        let register = self.register()?;
        let parts = register.parts(&[]).await?;
        let mut entries = Vec::new();
        visit(&parts, &register, |entry| {
            entries.push(entry);
            entries.len() < REGISTERED_MAX
        })
        .await?;
        let now = (self.now)();
        entries.sort_by_key(|entry| entry.first_failure);
        let mut seen = self.seen();
        entries.iter().for_each(|entry| seen.events.registered(entry, now));
        Ok(())
    }

    /// What is wrong.
    pub async fn examine(&self) -> Result<(), Failure> {
        let Cloud { aws, handler, .. } = self.cloud()?;
        let found = doctor::gather(aws, handler.as_deref(), &[]).await?;
        let mut seen = self.seen();
        seen.examined = found.iter().flat_map(diagnose).collect();
        seen.examined_at = Some((self.now)());
        Ok(())
    }

    /// Follows the log of an account's handler while somebody looks, without end.
    pub async fn follow_log(self: Shared, since: Duration) {
        let mut from = earlier((self.now)(), since);
        let mut read = HashSet::new();
        loop {
            self.until_somebody_looks().await;
            let group = self.seen().handler.as_ref().map(|handler| handler.log_group.clone());
            if let (Some(group), Some(cloud)) = (group, self.cloud.get()) {
                let began = (self.now)();
                let lines = self.read_log(&cloud.aws, &group, from, &mut read).await;
                if lines.is_ok() {
                    from = earlier(began, LOG_AGAIN).max(from);
                }
                self.note("log", lines.map_err(Failure::from));
            }
            tokio::time::sleep(LOG_EVERY).await;
        }
    }

    async fn read_log(
        &self,
        aws: &Aws,
        group: &str,
        from: Timestamp,
        read: &mut HashSet<u64>,
    ) -> Result<(), Fault> {
        if read.len() > LINES_READ_MAX {
            read.clear();
        }
        let mut is_news = false;
        logs::lines(aws, group, LINES, from, |line| {
            let mut hasher = DefaultHasher::new();
            line.hash(&mut hasher);
            if read.insert(hasher.finish()) {
                self.seen().events.line(&line);
                is_news = true;
            }
            true
        })
        .await?;
        if is_news {
            self.changed();
        }
        Ok(())
    }
}

/// Whether a function is the retry handler itself.
fn is_of_the_loop(function: &str) -> bool {
    function == crate::deploy::HANDLER
}

/// A text that nobody can guess.
pub fn secret() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

/// The name of a function without its qualifier, by which the handler's policies know it.
pub fn bare_name(arn: &str) -> String {
    FunctionArn::parse(arn).map_or(arn.to_owned(), |function| function.name().to_owned())
}
