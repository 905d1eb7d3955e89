//! The command lines of operators.

use std::path::PathBuf;

use clap::Subcommand;

use super::{
    attach::args::{AttachArgs, DetachArgs},
    dead_letters::args::Dead,
    doctor::args::DoctorArgs,
    simulate::args::SimulateArgs,
    status::args::StatusArgs,
    trace::args::TraceArgs,
    waiting::args::{PauseArgs, WaitingArgs},
    web::args::WebArgs,
};

/// The commands for operators.
#[derive(Debug, Subcommand)]
pub enum Operate {
    /// See what a policy means before you deploy it.
    ///
    /// Plays an event that never succeeds, and an outage of your function, with the retry handler's own rules: when
    /// attempts are made, how much load retries put on the function, how many events wait, when all have come back,
    /// and what that costs. Several policies are compared side by side. Nothing is deployed or called.
    #[command(
        after_help = "Example: comeback simulate --outage 1h --rate 10/s --policy 'calm: BASE_BACKOFF=10s' --policy 'eager: MAX_BACKOFF=1m'"
    )]
    Simulate(SimulateArgs),
    /// See what is in the dead-letter queue, redrive it, export it or delete it.
    ///
    /// The queue is that of the only retry handler of the account and region; --handler or --queue names another one.
    /// A letter that is only looked at is visible again at once.
    #[command(subcommand)]
    Dead(Box<Dead>),
    /// See how each function is: whether it fails, what waits, and what became of its events.
    ///
    /// The numbers of runs come from CloudWatch, which is a minute or two late. Runs of a function are all of its
    /// invocations, also those that have nothing to do with retries.
    #[command(after_help = "Example: comeback status --watch")]
    Status(StatusArgs),
    /// See the life of one event: its failures, waits and attempts, and what happens next.
    ///
    /// It is told from the log of the retry handler. No payload is in it.
    #[command(after_help = "Example: comeback trace 6f5e4d3c")]
    Trace(TraceArgs),
    /// List what waits and when it is due, have it retried now, or cancel it.
    ///
    /// Reads the register of the retry handler (REGISTER=true). No payload is in it.
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = "Example: comeback waiting --due-before 15m --group-by function,error"
    )]
    Waiting(Box<WaitingArgs>),
    /// Hold back all retries of a function, until it is resumed.
    ///
    /// Events that are due wait again; no attempt is counted, and their age goes on. Events that are ordered one by
    /// one with `comeback waiting retry-now` are retried all the same. Needs REGISTER=true.
    #[command(after_help = "Example: comeback pause orders")]
    Pause(PauseArgs),
    /// End the pause of a function. The events that were held back come back within 15 minutes.
    #[command(after_help = "Example: comeback resume orders")]
    Resume(PauseArgs),
    /// Find what is wrong with the retry systems, and how to mend it.
    ///
    /// Examines the retry handlers of the account and region, their mappings and queues, the functions whose failures
    /// they retry, permissions, and what CloudWatch counted in the last day. A problem (✗) loses events or keeps them
    /// from coming back. A warning (!) does not. What can't be checked (?) names the permission that is missing.
    #[command(after_help = "Example: comeback doctor orders --fix")]
    Doctor(DoctorArgs),
    /// Have the failures of a function retried that no template manages.
    ///
    /// Sets what CDK's `attach` sets: the on-failure destination and no retries of Lambda's own, permissions, settings
    /// of the handler, and RecursiveLoop. Shows a plan and asks. What was before is kept in tags of the function, and
    /// `comeback detach` restores it. If a step fails, the same command goes on.
    #[command(after_help = "Example: comeback attach orders:live")]
    Attach(Box<AttachArgs>),
    /// Restore what was before a function was attached.
    ///
    /// While its queue has messages, only new failures are kept from it.
    #[command(after_help = "Example: comeback detach orders:live")]
    Detach(DetachArgs),
    /// Watch failures come back, on a page in your browser.
    ///
    /// Shows the functions and the loop, each event with its next attempt, the dead letters and what is wrong, while
    /// it changes. Events can be retried, cancelled and redriven. Only this machine can open it, with the token that is
    /// printed. AWS is asked only while the page is open. `comeback local` has the same page at its own address.
    #[command(after_help = "Example: comeback web --since 6h")]
    Web(WebArgs),
    /// Print the completions for a shell.
    #[command(
        after_help = "Example: comeback completions bash > ~/.local/share/bash-completion/completions/comeback"
    )]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write a man page for each command into a folder.
    #[command(after_help = "Example: comeback man ~/.local/share/man/man1")]
    Man {
        /// The folder, which is created if there is none.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}
