//! `comeback dead`: what is in the dead-letter queue, and how it leaves it.

pub mod args;
mod export;
mod list;
mod queue;
mod work;

use std::{
    io::{self, IsTerminal},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use args::{Dead, Which};
use comeback_operate::{
    dead_letters::{Letter, look},
    ports::Fault,
};
use indicatif::{ProgressBar, ProgressStyle};
use queue::Queue;

use super::{args::Connection, aws::Aws, text::count};
use crate::shell::{Failure, Shell, Signals};

/// How often the progress is drawn.
const TICK: Duration = Duration::from_millis(100);

/// How a command ended that did not fail.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ended {
    /// As it should.
    Well,
    /// It found a problem, or nothing was done.
    Badly,
    /// It was interrupted.
    Interrupted,
}

/// Runs a command.
///
/// # Errors
///
/// If it can't do what it is asked to.
pub async fn run(command: &Dead, shell: &Shell) -> Result<Ended, Failure> {
    match command {
        Dead::List(args) => list::list(args, shell).await,
        Dead::Show(args) => list::show(args, shell).await,
        Dead::Redrive(args) => work::redrive(args, shell).await,
        Dead::Purge(args) => work::purge(args, shell).await,
        Dead::Export(args) => export::run(args, shell).await,
    }
}

async fn open(connection: &Connection, which: &Which, shell: &Shell) -> Result<Queue, Failure> {
    let queue = Queue::find(Aws::connect(connection).await?, which, shell.now).await?;
    if let Some(policy) = &queue.redrive_policy {
        eprintln!(
            "comeback: {} has a redrive policy, {policy}: SQS moves letters away that are looked at too often",
            queue.name()
        );
    }
    if queue.hidden > 0 {
        eprintln!(
            "comeback: {} more letters of {} are hidden: somebody else looks at them, or a program was killed. They come back within minutes",
            count(queue.hidden),
            queue.name(),
        );
    }
    Ok(queue)
}

/// Set by the first SIGINT or SIGTERM. The second one ends the program.
fn interrupted() -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let mut signals = Signals::listen()?;
    let set = Arc::clone(&flag);
    tokio::spawn(async move {
        signals.any().await;
        set.store(true, Ordering::Relaxed);
        signals.any().await;
        std::process::exit(super::INTERRUPTED.into());
    });
    Ok(flag)
}

/// Looks at every letter, with the progress on standard error.
async fn look_at_all(
    queue: &Queue,
    interrupted: &AtomicBool,
    mut visit: impl FnMut(Letter) -> bool,
) -> Result<u64, Fault> {
    let bar = progress(queue.visible, "looked at");
    let mut seen = 0;
    let looked = look(queue, queue, |letter| {
        seen += 1;
        bar.set_position(seen);
        visit(letter) && !interrupted.load(Ordering::Relaxed)
    });
    let looked = looked.await;
    bar.finish_and_clear();
    looked.map(|()| seen)
}

/// A progress bar on standard error, if that is a terminal.
fn progress(letters: u64, what: &str) -> ProgressBar {
    let bar = ProgressBar::new(letters);
    if !io::stderr().is_terminal() {
        bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
    }
    // As wide as the terminal, and without colours.
    let template = "{wide_bar} {pos}/{len} {msg}, {per_sec}, {eta} left";
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style);
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(TICK);
    bar
}
