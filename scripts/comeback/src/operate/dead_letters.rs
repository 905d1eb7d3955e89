//! `comeback dead`: lists, redrives, exports and deletes the letters in a dead-letter queue.

pub mod args;
mod export;
mod list;
mod queue;
pub mod rules;
mod work;

use crate::operate::{
    dead_letters::rules::{Letter, WORK_HOLD, hold, look},
    rules::ports::Fault,
};
use args::Dead;
pub use args::QueueOptions;
pub use queue::Queue;

use super::{
    aws::Aws,
    console::progress,
    text::{count, span},
};
use crate::shell::{Failure, Outcome, Shell};

pub async fn run(command: &Dead, shell: &Shell) -> Result<Outcome, Failure> {
    match command {
        Dead::List(args) => list::list(args, shell).await,
        Dead::Show(args) => list::show(args, shell).await,
        Dead::Redrive(args) => work::redrive(args, shell).await,
        Dead::Purge(args) => work::purge(args, shell).await,
        Dead::Export(args) => export::run(args, shell).await,
    }
}

async fn open(options: &QueueOptions, shell: &Shell) -> Result<Queue, Failure> {
    let queue = Queue::find(Aws::connect(&options.connection, shell.now).await?, options).await?;
    if let Some(policy) = &queue.redrive_policy {
        eprintln!(
            "comeback: {} has a redrive policy, {policy}: each look at a letter is a receive, and SQS moves letters away after maxReceiveCount receives",
            queue.name()
        );
    }
    if queue.hidden > 0 {
        eprintln!(
            "comeback: {} more letters of {} are hidden: another consumer has received them, or an earlier command was killed. What a killed command has hidden is visible again within {}",
            count(queue.hidden),
            queue.name(),
            span(hold(queue.letters()).max(WORK_HOLD).as_secs_f64()),
        );
    }
    Ok(queue)
}

/// Visits every letter and shows the progress on standard error. Returns the number of letters visited.
async fn look_at_all(
    queue: &Queue,
    goes_on: &impl Fn() -> bool,
    mut visit: impl FnMut(Letter) -> bool,
) -> Result<u64, Fault> {
    let bar = progress(queue.visible, "looked at");
    let mut seen = 0;
    let looked = look(queue, queue.letters(), |letter| {
        seen += 1;
        bar.set_position(seen);
        visit(letter) && goes_on()
    });
    let looked = looked.await;
    bar.finish_and_clear();
    looked.map(|()| seen)
}
