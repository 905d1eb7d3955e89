//! The jobs that an operator has started: how far each is, and how it ended.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use comeback_operate::told::Told;

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

    pub(super) fn begin(&self, title: &str, back: &str, of: Option<u64>) -> (u64, Arc<AtomicBool>) {
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

    pub(super) fn change(&self, number: u64, change: impl FnOnce(&mut Job)) {
        if let Some(job) = self.all().get_mut(&number) {
            change(job);
        }
    }
}
