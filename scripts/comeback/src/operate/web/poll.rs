//! Polls the facts of the page, and follows the log of the handler, while a page is open.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

use comeback_core::{
    Timestamp,
    time::{between, earlier},
};

use super::live::{Cloud, Live, Shared, Snapshot};

use crate::{
    account::{
        attached::Attached,
        function::{Function, Unsupported},
        handlers::only,
        names::target_name,
    },
    aws::{attached::attached, reads::functions},
    failure::Failure,
    operate::{
        doctor::{self, rules::diagnose},
        handler_log::log_lines,
        options::SystemOptions,
        status::gather::gather,
        waiting::{register::open_in, rules::visit},
    },
};

/// A page counts as open for this long after its last request.
const OPEN_FOR: Duration = Duration::from_secs(20);

/// How often functions and queues are polled while a page is open: in the local cloud, and in an account.
const POLL_INTERVAL: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(10)];

/// How often the checks of `comeback doctor` run: in the local cloud, and in an account.
const CHECK_INTERVAL: [Duration; 2] = [Duration::from_secs(15), Duration::from_mins(5)];

const LOG_INTERVAL: Duration = Duration::from_secs(2);

/// How much of the log is read again each time, because lines can arrive late.
const LOG_AGAIN: Duration = Duration::from_secs(30);

const LINES: &str = "{ $.request_id EXISTS }";

/// The most hashes of lines to keep, by which a line that is read again is recognized.
const LINES_READ_MAX: usize = 200_000;

const REGISTERED_MAX: usize = 100_000;

impl Live {
    async fn until_a_page_is_open(&self) {
        loop {
            let wanted = self.wanted.notified();
            let is_open =
                self.seen().wanted_at.is_some_and(|at| between(at, (self.now)()) < OPEN_FOR);
            if is_open {
                return;
            }
            wanted.await;
        }
    }

    pub async fn keep_current(self: Shared) {
        let nth = usize::from(!self.is_local());
        loop {
            self.until_a_page_is_open().await;
            if self.cloud.get().is_some() {
                self.note("functions", self.poll().await);
                let now = (self.now)();
                let is_old = |at: Option<Timestamp>, every: Duration| {
                    at.is_none_or(|at| between(at, now) >= every)
                };
                let (registered_at, examined_at) = {
                    let seen = self.seen();
                    (seen.registered_at, seen.examined_at)
                };
                if is_old(registered_at, POLL_INTERVAL[1]) {
                    self.seen().registered_at = Some(now);
                    self.note("register", self.read_register().await);
                }
                if is_old(examined_at, CHECK_INTERVAL[nth]) {
                    self.note("doctor", self.examine().await);
                }
                self.changed();
            }
            tokio::time::sleep(POLL_INTERVAL[nth]).await;
        }
    }

    pub async fn poll(&self) -> Result<(), Failure> {
        let Cloud { aws, handler, .. } = self.cloud()?;
        let functions = functions(aws).await?;
        let handler = only(&functions, handler.as_deref())?;
        let attached: Vec<Attached> = attached(aws, &handler, &functions).await?;
        let (facts, unknown) = gather(aws, &handler, &attached, (self.now)()).await;
        let letters = self.dead_letters().await.map(|queue| queue.visible + queue.hidden);
        let at = (self.now)();
        let mut seen = self.seen();
        if !self.is_local() {
            // In an account nobody reports the runs that end the refusals.
            let runs = facts.iter().filter(|it| it.succeeds && !it.refuses);
            runs.for_each(|it| seen.events.runs_again(&target_name(&it.function)));
        }
        let mut standings = seen.events.standings();
        // Events of a paused function come back after the pause, whatever their due times.
        for it in facts.iter().filter(|it| it.paused_since.is_some()) {
            let standing = standings.get_mut(&*target_name(&it.function));
            standing.into_iter().for_each(|it| it.next = None);
        }
        let has_tenants = |it: &&Function| it.unsupported == Some(Unsupported::TenantIsolation);
        let tenants = functions.iter().filter(has_tenants).map(|it| it.name().to_owned());
        seen.tenants = tenants.collect();
        seen.handler = Some(handler);
        seen.snapshot = Snapshot { at: Some(at), functions: facts, letters: letters?, standings };
        unknown.into_iter().next().map_or(Ok(()), |fault| Err(fault.into()))
    }

    async fn read_register(&self) -> Result<(), Failure> {
        if !self.seen().has_register() {
            return Ok(());
        }
        let register = open_in(self.account()?, &SystemOptions::default()).await?;
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

    pub async fn examine(&self) -> Result<(), Failure> {
        let Cloud { aws, handler, .. } = self.cloud()?;
        self.seen().examining = true;
        let found = doctor::gather::gather(aws, handler.as_deref(), &[]).await;
        let mut seen = self.seen();
        seen.examining = false;
        seen.examined = found?.iter().flat_map(diagnose).collect();
        seen.examined_at = Some((self.now)());
        Ok(())
    }

    pub async fn follow_log(self: Shared, mut from: Timestamp) {
        let mut read = HashSet::new();
        loop {
            self.until_a_page_is_open().await;
            let group = self.seen().handler.as_ref().map(|handler| handler.log_group.clone());
            if let (Some(group), Some(cloud)) = (group, self.cloud.get()) {
                let began = (self.now)();
                if read.len() > LINES_READ_MAX {
                    read.clear();
                }
                let lines = log_lines(&cloud.aws, &group, LINES, from, |line| {
                    let mut hasher = DefaultHasher::new();
                    line.hash(&mut hasher);
                    if read.insert(hasher.finish()) {
                        self.seen().events.line(&line);
                        self.changed();
                    }
                    true
                })
                .await;
                if lines.is_ok() {
                    from = earlier(began, LOG_AGAIN).max(from);
                }
                self.note("log", lines.map_err(Failure::from));
            }
            tokio::time::sleep(LOG_INTERVAL).await;
        }
    }
}
