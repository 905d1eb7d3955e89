//! Jobs go on after the response to the request that started them.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use comeback_core::Timestamp;

use super::html::Params;

use crate::{failure::Failure, notice::Notice};

/// The most jobs to keep, including those that have ended.
const KEPT_MAX: usize = 50;

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
    pub fn all(&self) -> MutexGuard<'_, BTreeMap<u64, Job>> {
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

/// Runs `work` to its end, even if the browser closes the connection, so that received letters become visible again.
pub async fn uncancelled<T: Send + 'static>(
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::spawn(work).await;
    done.unwrap_or_else(|error| Err(format!("the page crashed, which is a bug: {error}").into()))
}
