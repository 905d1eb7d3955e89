//! Jobs of the operator, which run on after the response to the request that started them.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use comeback_operate::notice::Notice;

use super::live::Shared;
use crate::shell::Failure;

/// The most jobs to keep, including those that have ended.
const KEPT_MAX: usize = 50;

/// A job that runs or has ended.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// The title of the job's page.
    pub title: String,
    /// The path of the page that it was started from.
    pub back: &'static str,
    /// The approximate number of items, if it is known.
    pub of: Option<u64>,
    /// The number of items that are done.
    pub done: u64,
    /// Whether the operator has asked it to stop after the current step.
    pub is_stopped: bool,
    /// The result, once it has ended: what was done, and any errors.
    pub ended: Option<Vec<Notice>>,
}

/// All jobs, by number.
#[derive(Default)]
pub struct Jobs(Mutex<BTreeMap<u64, Job>>);

impl Jobs {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, Job>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The job with this number, unless it is unknown or too old.
    pub fn get(&self, number: u64) -> Option<Job> {
        self.all().get(&number).cloned()
    }

    /// Asks a job to stop after the current step.
    pub fn stop(&self, number: u64) {
        self.change(number, |job| job.is_stopped = true);
    }

    fn add(&self, job: Job) -> u64 {
        let mut all = self.all();
        let number = all.last_key_value().map_or(1, |(number, _)| number + 1);
        all.insert(number, job);
        if all.len() > KEPT_MAX {
            all.pop_first();
        }
        number
    }

    fn change(&self, number: u64, change: impl FnOnce(&mut Job)) {
        self.all().get_mut(&number).map(change);
    }
}

/// Reports the progress of a job.
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
        !is_stopped
    }
}

/// Starts a job and returns its number. The result of `work` is kept.
pub fn begin<F>(live: &Shared, job: Job, work: impl FnOnce(Shared, Progress) -> F) -> u64
where
    F: Future<Output = Result<Vec<Notice>, Failure>> + Send + 'static,
{
    let number = live.jobs.add(job);
    let live = Shared::clone(live);
    let progress = Progress { live: Shared::clone(&live), number };
    let work = work(Shared::clone(&live), progress);
    tokio::spawn(async move {
        let notices = uncancelled(work).await.unwrap_or_else(|failure| vec![Notice::bad(failure)]);
        live.jobs.change(number, |job| job.ended = Some(notices));
        live.changed();
    });
    number
}

/// Runs `work` to its end, even if the browser closes the connection, so that received letters become visible again.
pub async fn uncancelled<T: Send + 'static>(
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::spawn(work).await;
    done.unwrap_or_else(|error| Err(Failure::Refused(format!("it crashed: {error}"))))
}
