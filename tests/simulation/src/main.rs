//! Plays worlds: many, one again, or one that is large.

use std::{process::ExitCode, time::Instant};

use clap::{Parser, Subcommand};
use simulation::{
    plan::Plan,
    run::{report, worlds},
    world::play,
};

/// With the system's allocator a fifth of a world's time goes to it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The retry loop in virtual time, with every fault drawn from a seed.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Plays many worlds, and says what there was in them.
    Run {
        /// How many.
        #[arg(long, default_value_t = 2_000)]
        seeds: u64,
        /// The first seed.
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// How many side by side.
        #[arg(long, default_value_t = 1)]
        threads: usize,
    },
    /// Plays one world again and tells its story.
    Replay {
        /// Its seed.
        seed: u64,
        /// The one event to be told of.
        #[arg(long)]
        event: Option<usize>,
    },
    /// Plays one world of so many events in 24 hours.
    Day {
        /// How many.
        #[arg(long, default_value_t = 1_000_000)]
        events: u64,
        /// Its seed.
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
}

fn main() -> ExitCode {
    let good = match Arguments::parse().command {
        Command::Run { seeds, from, threads } => run(seeds, from, threads),
        Command::Replay { seed, event } => replay(seed, event),
        Command::Day { events, seed } => day(events, seed),
    };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(seeds: u64, from: u64, threads: usize) -> bool {
    let started = now();
    let summary = worlds(from..from.saturating_add(seeds), threads);
    let took = started.elapsed().as_secs_f64();
    print!("{}", summary.counts());
    if let Some((seed, violation)) = summary.failed.first() {
        println!("\n{}", report(*seed, violation));
    }
    let uneven = summary.uneven_draws();
    uneven.iter().for_each(|what| println!("{what}"));
    println!(
        "{} worlds in {took:.1} s, {:.0} a second, {:.0} a second of one core; {} failed",
        summary.worlds,
        summary.worlds as f64 / took,
        summary.worlds as f64 / cpu_seconds().unwrap_or(took),
        summary.failed.len()
    );
    summary.failed.is_empty() && uneven.is_none()
}

fn replay(seed: u64, event: Option<usize>) -> bool {
    let ended = play(Plan::of(seed), true);
    let about = event.or(ended.violation.as_ref().and_then(|violation| violation.event));
    print!("{}", ended.story.of(about));
    match &ended.violation {
        Some(violation) => println!("{violation}"),
        None => println!("all rules held"),
    }
    ended.violation.is_none()
}

fn day(events: u64, seed: u64) -> bool {
    let started = now();
    let ended = play(Plan::day_of(events, seed), false);
    let took = started.elapsed().as_secs_f64();
    let summary = simulation::run::Summary { worlds: 1, tally: ended.tally, failed: Vec::new() };
    print!("{}", summary.counts());
    if let Some(violation) = &ended.violation {
        println!("{violation}");
    }
    println!(
        "{events} events over {:.1} virtual hours in {took:.1} s ({:.1} s of one core), with {} MiB at the peak",
        ended.covered.as_secs_f64() / 3600.0,
        cpu_seconds().unwrap_or(took),
        peak_mib().unwrap_or_default()
    );
    ended.violation.is_none()
}

#[allow(clippy::disallowed_methods, reason = "how long a run takes is measured here alone")]
fn now() -> Instant {
    Instant::now()
}

/// How long this process has computed: the machine may have others to serve.
fn cpu_seconds() -> Option<f64> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND)
}

fn peak_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    peak.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib / 1024)
}
