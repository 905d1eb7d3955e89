//! What an operator has started: how far it is, and how it is ended.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use comeback_operate::told::Told;
use tokio::runtime::Handle;

use super::live::Shared;
use crate::shell::Failure;

/// How many jobs are remembered.
const KEPT_MAX: usize = 50;

/// Something that was started.
#[derive(Clone, Debug)]
pub struct Job {
    /// What it does.
    pub title: String,
    /// How much is done.
    pub done: u64,
    /// How much there is to do, if that is known.
    pub of: Option<u64>,
    /// How it ended: what was done, and why not all of it.
    pub ended: Option<Vec<Told>>,
    /// The page that it was started from.
    pub back: String,
    stop: Arc<AtomicBool>,
}

impl Job {
    /// Whether it was told to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
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
        if let Some(job) = self.all().get(&number) {
            job.stop.store(true, Ordering::Relaxed);
        }
    }

    fn begin(&self, title: &str, back: &str, of: Option<u64>) -> (u64, Arc<AtomicBool>) {
        let mut all = self.all();
        let number = all.last_key_value().map_or(1, |(number, _)| number + 1);
        let stop = Arc::new(AtomicBool::new(false));
        let (title, back) = (title.to_owned(), back.to_owned());
        all.insert(number, Job { title, done: 0, of, ended: None, back, stop: Arc::clone(&stop) });
        if all.len() > KEPT_MAX {
            all.pop_first();
        }
        (number, stop)
    }

    fn change(&self, number: u64, change: impl FnOnce(&mut Job)) {
        if let Some(job) = self.all().get_mut(&number) {
            change(job);
        }
    }
}

/// How far a job is.
#[derive(Clone)]
pub struct Progress {
    live: Shared,
    number: u64,
    stop: Arc<AtomicBool>,
}

impl Progress {
    /// So much is done. Returns whether to go on.
    pub fn is(&self, done: u64) -> bool {
        self.live.jobs.change(self.number, |job| job.done = done);
        self.live.changed();
        !self.stop.load(Ordering::Relaxed)
    }
}

/// Starts a job, and returns its number. What it says at its end is kept.
pub fn begin<F>(
    live: &Shared,
    title: &str,
    back: &str,
    of: Option<u64>,
    work: impl FnOnce(Shared, Progress) -> F + Send + 'static,
) -> u64
where
    F: Future<Output = Result<Vec<Told>, Failure>>,
{
    let (number, stop) = live.jobs.begin(title, back, of);
    let live = Arc::clone(live);
    tokio::spawn(async move {
        let progress = Progress { live: Arc::clone(&live), number, stop };
        let shared = Arc::clone(&live);
        let ended = on_a_thread(move || work(shared, progress)).await;
        let told = ended.unwrap_or_else(|failure| vec![Told::bad(failure)]);
        live.jobs.change(number, |job| job.ended = Some(told));
        live.changed();
    });
    number
}

/// Waits for a future that is not `Send`, on a thread of its own.
///
/// # Errors
///
/// Those of the future.
pub async fn on_a_thread<F, T>(work: impl FnOnce() -> F + Send + 'static) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
    T: Send + 'static,
{
    let runtime = Handle::current();
    let done = tokio::task::spawn_blocking(move || runtime.block_on(work())).await;
    done.unwrap_or_else(|error| Err(Failure::Refused(format!("it broke off: {error}"))))
}
