//! Work that goes on after its request has been answered.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use comeback_operate::told::Told;
use tokio::runtime::Handle;

use super::live::Shared;
use crate::shell::Failure;

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
    done.unwrap_or_else(|error| Err(Failure::Refused(format!("it crashed: {error}"))))
}
