//! The jobs that an operator has started, which go on after their requests have been answered.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use comeback_operate::notice::Notice;

use super::live::Shared;
use crate::shell::Failure;

/// How many jobs are remembered.
const KEPT_MAX: usize = 50;

/// Something that was started.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// What it does.
    pub title: String,
    /// The page that it was started from.
    pub back: &'static str,
    /// How much there is to do, if that is known.
    pub of: Option<u64>,
    /// How much is done.
    pub done: u64,
    /// Whether it was told to end after what it is doing now.
    pub is_stopped: bool,
    /// How it ended: what was done, and why not all of it.
    pub ended: Option<Vec<Notice>>,
}

/// All of them, by their numbers.
#[derive(Default)]
pub struct Jobs(Mutex<BTreeMap<u64, Job>>);

impl Jobs {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, Job>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A job.
    pub fn get(&self, number: u64) -> Option<Job> {
        self.all().get(&number).cloned()
    }

    /// Tells a job to end after what it is doing now.
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

/// How far a job is.
pub struct Progress {
    live: Shared,
    number: u64,
}

impl Progress {
    /// So much is done. Returns whether to go on.
    pub fn is(&self, done: u64) -> bool {
        let mut is_stopped = false;
        self.live.jobs.change(self.number, |job| {
            job.done = done;
            is_stopped = job.is_stopped;
        });
        self.live.changed();
        !is_stopped
    }
}

/// Starts a job, and returns its number. What it says at its end is kept.
pub fn begin<F>(live: &Shared, job: Job, work: impl FnOnce(Shared, Progress) -> F) -> u64
where
    F: Future<Output = Result<Vec<Notice>, Failure>> + Send + 'static,
{
    let number = live.jobs.add(job);
    let live = Shared::clone(live);
    let progress = Progress { live: Shared::clone(&live), number };
    let work = work(Shared::clone(&live), progress);
    tokio::spawn(async move {
        let told = to_the_end(work).await.unwrap_or_else(|failure| vec![Notice::bad(failure)]);
        live.jobs.change(number, |job| job.ended = Some(told));
        live.changed();
    });
    number
}

/// Goes on even if the browser does not wait for the answer: letters that were looked at become visible again.
pub async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::spawn(work).await;
    done.unwrap_or_else(|error| Err(Failure::Refused(format!("it crashed: {error}"))))
}
