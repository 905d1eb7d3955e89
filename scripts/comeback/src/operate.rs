//! The commands for operators. Each has its arguments, the calls to AWS that fetch its facts, its `rules` (facts in,
//! findings and texts out), and what it shows.

pub mod attach;
mod attempts;
pub mod dead_letters;
pub mod doctor;
mod handler_log;
pub mod history;
mod logbook;
pub mod mcp;
pub mod options;
mod order;
mod orders;
mod plot;
pub mod policy;
pub mod simulate;
pub mod status;
mod trace;
pub mod waiting;
pub mod web;

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use clap::Subcommand;

use crate::{
    failure::Failure,
    shell::{Outcome, Shell},
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
    Simulate(simulate::SimulateArgs),
    /// See what is in the dead-letter queue, redrive it, export it or delete it.
    ///
    /// By default, the queue is that of the only retry handler in the account and region; --handler or --queue chooses
    /// another one. Letters are hidden from other consumers while a command reads the queue.
    #[command(subcommand)]
    Dead(Box<dead_letters::Dead>),
    /// Show the state of each function: whether it fails, how many events wait, and how its events ended.
    ///
    /// The numbers of runs come from CloudWatch, which is a minute or two late. Runs of a function are all of its
    /// invocations, also those that have nothing to do with retries.
    #[command(after_help = "Example: comeback status --watch")]
    Status(status::StatusArgs),
    /// Show the policy that is in force for a function or a queue, and for one of its errors.
    ///
    /// Reads the settings of the retry handler: how long events wait, how often they are retried, when they are given
    /// up, and which errors have a policy of their own.
    #[command(after_help = "Example: comeback policy orders --error app.RateLimited")]
    Policy(policy::PolicyArgs),
    /// See the life of one event: its failures, waits and attempts, and what happens next.
    ///
    /// Reads the log of the retry handler, which contains no payloads.
    #[command(after_help = "Example: comeback trace 6f5e4d3c")]
    Trace(trace::TraceArgs),
    /// List waiting events, retry them now, or cancel them.
    ///
    /// Reads the register of the retry handler (REGISTER=true), or the last day of its log if there is none. Neither
    /// contains payloads. `retry-now` and `cancel` need the register.
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = "Example: comeback waiting --due-before 15m --group-by function,error"
    )]
    Waiting(Box<waiting::WaitingArgs>),
    /// Hold back all retries of a function, until it is resumed, or list what is paused.
    ///
    /// Events keep waiting when they are due: no attempt is counted, but their age still grows.
    /// `comeback waiting retry-now` retries events in spite of the pause. Needs REGISTER=true.
    #[command(after_help = "Example: comeback pause orders")]
    Pause(waiting::pause::PauseArgs),
    /// End the pause of a function. The events that were held back come back within 15 minutes.
    #[command(after_help = "Example: comeback resume orders")]
    Resume(waiting::pause::HoldArgs),
    /// See who has given which orders, and how they ended.
    ///
    /// Each order of an operator, from the terminal, the page or an agent, leaves a record in the ledger before it
    /// begins, and another one at its end. This lists them, the latest first. Needs REGISTER=true.
    #[command(after_help = "Example: comeback history --since 30d --who alice")]
    History(history::HistoryArgs),
    /// Find problems in the retry systems, and how to fix them.
    ///
    /// Examines the retry handlers of the account and region, their mappings and queues, the functions whose failures
    /// they retry, permissions, and what CloudWatch counted in the last day. A problem (✗) loses events or keeps them
    /// from coming back. A warning (!) does not. A check that is not possible (?) names the missing permission.
    #[command(after_help = "Example: comeback doctor orders --fix")]
    Doctor(doctor::DoctorArgs),
    /// Attach a function or a queue that no template manages: retry its failures.
    ///
    /// Sets what CDK's `attach` sets: Lambda's own retries off, the on-failure destination, permissions, settings of
    /// the handler, and RecursiveLoop. Shows a plan and asks. The previous configuration is saved in tags of the
    /// function, and `comeback detach` restores it. If a step fails, run the same command again to continue.
    ///
    /// With --queue and no function, messages come back that the consumer of a queue could not process. Creates a retry
    /// queue for it, and sets its redrive policy last.
    #[command(after_help = "Example: comeback attach orders:live")]
    Attach(Box<attach::AttachArgs>),
    /// Detach a function or a queue, and restore its previous configuration.
    ///
    /// As long as its retry queue has messages, only the destination and Lambda's own retries are restored, so that no
    /// new failure arrives there. Run the command again when the queue is empty, or pass --now.
    #[command(after_help = "Example: comeback detach orders:live")]
    Detach(attach::DetachArgs),
    /// Watch failed events come back, on a page in your browser.
    ///
    /// Shows the functions and the loop, each event with its next attempt, the dead letters and what is wrong, while
    /// it changes. Events can be retried, cancelled and redriven. Only this machine can open it, with the token that is
    /// printed. AWS is asked only while the page is open. `comeback local` has the same page at its own address.
    #[command(after_help = "Example: comeback web --since 6h")]
    Web(web::WebArgs),
    /// Serve these commands to an agent: the Model Context Protocol.
    ///
    /// The program of an agent starts it, and speaks with it on standard input and output. Each tool is a command, and
    /// its result is what --json says. Without options, an agent can only read, and sees no payloads. With
    /// --allow-changes, a change takes the token of a plan: it says what and how many, holds for ten minutes and one
    /// use, and is refused if what it names has changed. Texts that come from functions and events are marked as data.
    #[command(after_help = "Example: claude mcp add comeback -- comeback mcp --allow-changes")]
    Mcp(mcp::options::McpArgs),
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

/// Runs a command. `program` is the whole program's command line.
pub async fn run(
    command: &Operate,
    program: fn() -> clap::Command,
    shell: &Shell,
) -> Result<Outcome, Failure> {
    match command {
        Operate::Simulate(args) => simulate::run(args, shell).await,
        Operate::Dead(command) => dead_letters::run(command, shell).await,
        Operate::Status(args) => status::run(args, shell).await,
        Operate::Policy(args) => policy::run(args, shell).await,
        Operate::Trace(args) => trace::run(args, shell).await,
        Operate::Waiting(args) => waiting::run(args, shell).await,
        Operate::Pause(args) => waiting::pause::pause(args, shell).await,
        Operate::Resume(args) => order::terminal::run::<waiting::pause::Resume>(args, shell).await,
        Operate::History(args) => history::run(args, shell).await,
        Operate::Doctor(args) => doctor::run(args, shell).await,
        Operate::Attach(args) => attach::run_attach(args, shell).await,
        Operate::Detach(args) => attach::run_detach(args, shell).await,
        Operate::Web(args) => web::run(args, shell).await,
        Operate::Mcp(args) => mcp::run(args, shell).await,
        Operate::Completions { shell } => completions(*shell, program()),
        Operate::Man { folder } => man(folder, program()),
    }
}

fn completions(
    shell: clap_complete::Shell,
    mut program: clap::Command,
) -> Result<Outcome, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, "comeback", &mut script);
    io::stdout().write_all(&script)?;
    Ok(Outcome::Success)
}

fn man(folder: &Path, program: clap::Command) -> Result<Outcome, Failure> {
    fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(program, folder))
        .map_err(|source| Failure::File { path: folder.to_owned(), source })?;
    Ok(Outcome::Success)
}
