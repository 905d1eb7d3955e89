//! The jobs that an operator has started on the page.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::operate::rules::notice::Notice;

/// The most jobs to keep, including those that have ended.
const KEPT_MAX: usize = 50;

/// A job that runs or has ended.
#[derive(Clone, Debug, Default)]
pub struct Job {
    pub title: String,
    /// The path of the page that it was started from.
    pub back: &'static str,
    /// The approximate number of items, if it is known.
    pub of: Option<u64>,
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
