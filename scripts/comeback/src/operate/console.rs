//! Terminal functions of several commands: interruption, confirmation and progress.

use std::{
    io::{self, IsTerminal},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use dialoguer::Confirm;
use indicatif::{ProgressBar, ProgressStyle};

use crate::shell::{Failure, INTERRUPTED, Signals};

/// How often the progress is redrawn.
const TICK: Duration = Duration::from_millis(100);

/// Returns a function that is true until the first SIGINT or SIGTERM. The second signal ends the program.
pub fn uninterrupted() -> io::Result<impl Fn() -> bool> {
    let flag = Arc::new(AtomicBool::new(false));
    let mut signals = Signals::listen()?;
    let set = Arc::clone(&flag);
    tokio::spawn(async move {
        signals.any().await;
        set.store(true, Ordering::Relaxed);
        signals.any().await;
        std::process::exit(INTERRUPTED.into());
    });
    Ok(move || !flag.load(Ordering::Relaxed))
}

/// A progress bar on standard error, if that is a terminal.
pub fn progress(length: u64, what: &str) -> ProgressBar {
    let template = "{wide_bar} {pos}/{len} {msg}, {per_sec}, {eta} left";
    drawn(ProgressBar::new(length), template, what)
}

/// A counter of items read, on standard error if that is a terminal.
pub fn spinner(what: &str) -> ProgressBar {
    drawn(ProgressBar::no_length(), "{spinner} {human_pos} {msg}, {per_sec}", what)
}

/// Starts to draw a bar. The bar hides itself if standard error is not a terminal.
fn drawn(bar: ProgressBar, template: &str, what: &str) -> ProgressBar {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(TICK);
    bar
}

pub fn confirm(question: &str) -> Result<(), Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let text = "there is no terminal to ask on: add --yes. Nothing was changed";
        return Err(Failure::Refused(text.to_owned()));
    }
    match Confirm::new().with_prompt(question).default(false).interact_opt() {
        Ok(Some(true)) => Ok(()),
        Ok(Some(false) | None) | Err(_) => Err(Failure::Refused("nothing was changed".to_owned())),
    }
}
