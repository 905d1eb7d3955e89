//! The jobs that an operator has started on the page. They go on after the response to the request that started them.
//! Every page shows those that run or have just ended.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use comeback_core::{Timestamp, time::between};
use maud::{Markup, html};

use super::{
    guard::Params,
    html::{Untrusted, csrf},
    live::{Live, Shared},
};
use crate::{
    operate::{
        rules::{Notice, Tone},
        text::count,
    },
    shell::Failure,
};

/// The most jobs to keep, including those that have ended.
const KEPT_MAX: usize = 50;

/// How long the result of a job is shown, unless it is dismissed.
const SHOWN_FOR: Duration = Duration::from_mins(1);

#[derive(Clone, Debug, Default)]
pub struct Job {
    pub title: String,
    /// The approximate number of items, if it is known.
    pub of: Option<u64>,
    pub done: u64,
    /// Whether the operator has asked it to stop after the current step.
    pub is_stopped: bool,
    /// The result and its time, once it has ended: what was done, and any errors.
    pub ended: Option<(Timestamp, Vec<Notice>)>,
    pub undo: Option<Params>,
}

#[derive(Default)]
pub struct Jobs(Mutex<BTreeMap<u64, Job>>);

impl Jobs {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, Job>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks a job to stop after the current step. Dismisses one that has ended.
    pub fn stop(&self, number: u64) {
        let mut all = self.all();
        match all.get_mut(&number) {
            Some(job) if job.ended.is_none() => job.is_stopped = true,
            _ => drop(all.remove(&number)),
        }
    }

    pub fn add(&self, job: Job) -> u64 {
        let mut all = self.all();
        let number = all.last_key_value().map_or(1, |(number, _)| number + 1);
        all.insert(number, job);
        if all.len() > KEPT_MAX {
            all.pop_first();
        }
        number
    }

    pub fn change(&self, number: u64, change: impl FnOnce(&mut Job)) {
        self.all().get_mut(&number).map(change);
    }
}

pub struct Progress {
    live: Shared,
    number: u64,
}

impl Progress {
    /// Reports that this many items are done. Returns false if the job should stop.
    pub fn report(&self, done: u64) -> bool {
        let mut is_stopped = false;
        self.live.jobs.change(self.number, |job| {
            job.done = done;
            is_stopped = job.is_stopped;
        });
        self.live.changed();
        !is_stopped && !self.live.is_ending()
    }
}

pub fn begin<F>(live: &Shared, job: Job, work: impl FnOnce(Shared, Progress) -> F)
where
    F: Future<Output = Result<Vec<Notice>, Failure>> + Send + 'static,
{
    let number = live.jobs.add(job);
    let live = Shared::clone(live);
    let progress = Progress { live: Shared::clone(&live), number };
    let work = work(Shared::clone(&live), progress);
    tokio::spawn(async move {
        let notices = uncancelled(work).await.unwrap_or_else(|failure| vec![Notice::bad(failure)]);
        live.jobs.change(number, |job| job.ended = Some(((live.now)(), notices)));
        live.changed();
    });
}

/// Runs `work` to its end, even if the browser closes the connection, so that received letters become visible again.
pub async fn uncancelled<T: Send + 'static>(
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::spawn(work).await;
    done.unwrap_or_else(|error| Err(format!("the page crashed, which is a bug: {error}").into()))
}

/// A line for each job: how far it is, or what it has done.
pub fn lines(live: &Live, now: Timestamp) -> Markup {
    let all = live.jobs.all();
    let is_shown =
        |job: &Job| job.ended.as_ref().is_none_or(|(at, _)| between(*at, now) < SHOWN_FOR);
    // An earlier command may have been overridden since, so it can't be undone.
    let is_latest = |number: &u64| all.last_key_value().is_some_and(|(latest, _)| latest == number);
    html! {
        @for (number, job) in all.iter().rev().filter(|(_, job)| is_shown(job)) {
            @let notices = job.ended.as_ref().map(|(_, notices)| notices.as_slice());
            @let is_bad = notices.unwrap_or_default().iter().any(|it| it.tone == Tone::Bad);
            @let class = if is_bad { "bad" } else if notices.is_some() { "good" } else { "busy" };
            div id=(format!("job-{number}")) class=(format!("notice {class}")) role=(if is_bad { "alert" } else { "status" }) {
                div {
                    strong { (Untrusted(&job.title)) } ": "
                    @match notices {
                        None => {
                            (count(job.done)) @if let Some(of) = job.of { " of about " (count(of)) }
                            @if job.is_stopped { ", stopping after the current step" }
                            " " progress max=[job.of] value=[job.of.map(|_| job.done)] aria-label=(job.title) {}
                        }
                        Some(notices) => {
                            @for (nth, Notice { text, .. }) in notices.iter().enumerate() {
                                @if nth > 0 { "; " } (Untrusted(text))
                            }
                            @if job.is_stopped { "; stopped before it was done" }
                        }
                    }
                }
                @if let Some(undo) = job.undo.as_ref().filter(|_| notices.is_some() && !is_bad && is_latest(number)) {
                    form method="post" action="/do" {
                        (csrf(live))
                        input type="hidden" name="undoes" value=(number);
                        @for (name, value) in undo.pairs() { input type="hidden" name=(name) value=(value); }
                        button { "Undo" }
                    }
                }
                form method="post" action=(format!("/jobs/{number}/stop")) {
                    (csrf(live))
                    button disabled[job.is_stopped && notices.is_none()] { @if notices.is_some() { "Dismiss" } @else { "Stop" } }
                }
            }
        }
    }
}
