//! Runs jobs, which go on after the response to the request that started them.

use crate::operate::rules::Notice;

use super::{jobs::Job, live::Shared};
use crate::shell::Failure;

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

/// Starts a job. The result of `work` is kept.
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
    done.unwrap_or_else(|error| Err(Failure::Refused(format!("it crashed: {error}"))))
}
