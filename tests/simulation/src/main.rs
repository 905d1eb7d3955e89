//! The program: plays worlds, and tells what was seen in them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Parser;
use comeback_core::time::{at_millis, between};
use simulation::{
    outages,
    plan::{Outage, Plan},
    run::{report, worlds},
    script::Script,
    shorten::shortest,
    world::{BEGAN_AT, play},
};

/// The retry loop in virtual time, with every fault drawn from a seed.
#[derive(Parser)]
enum Command {
    /// Plays many worlds and counts what happens in them.
    Run {
        /// How many worlds.
        #[arg(long, default_value_t = 2_000)]
        seeds: u64,
        /// The first seed.
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// How many worlds are played at the same time.
        #[arg(long, default_value_t = 1)]
        threads: usize,
        /// Don't look for a short script of a world that fails.
        #[arg(long)]
        brief: bool,
    },
    /// Plays one world again and tells its story.
    Replay {
        /// Its seed.
        seed: u64,
        /// Tell only of this event.
        #[arg(long)]
        event: Option<usize>,
    },
    /// Prints a short script of a world: of the rule that it breaks, or of what is seen in it.
    Shorten {
        /// Its seed.
        seed: u64,
        /// What must be seen, as `run` counts it, for example "fault: AnswerLost".
        #[arg(long)]
        see: Vec<String>,
    },
    /// Plays the worlds of scripts, and tells the story of a single one.
    Play {
        #[arg(required = true)]
        scripts: Vec<PathBuf>,
    },
    /// Plays outages of one function.
    Outage {
        /// How many seeds are played.
        #[arg(long, default_value_t = 1)]
        seeds: u64,
        /// Print the figures as JSON, one line for each seed.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        outage: Outage,
    },
    /// Plays one world in which many events are sent in 24 hours.
    Day {
        /// How many events.
        #[arg(long, default_value_t = 1_000_000)]
        events: u64,
        /// Its seed.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Only functions fail, and nothing else.
        #[arg(long)]
        flawless: bool,
        /// For how many hours the first function is down, from the third hour on.
        #[arg(long, default_value_t = 0, requires = "flawless")]
        down: u64,
        /// Write what CloudWatch shows into this file, as lines in embedded metric format.
        #[arg(long)]
        metrics: Option<PathBuf>,
    },
}

#[allow(clippy::disallowed_methods, reason = "only the duration of a run is measured")]
fn main() -> ExitCode {
    let started = Instant::now();
    let good = match Command::parse() {
        Command::Run { seeds, from, threads, brief } => run(started, seeds, from, threads, brief),
        Command::Shorten { seed, see } => shorten(seed, see),
        Command::Play { scripts } => play_scripts(&scripts),
        Command::Replay { seed, event } => replay(seed, event),
        Command::Day { events, seed, flawless, down, metrics } => {
            let plan = Plan::day_of(events, seed);
            let plan = if flawless { plan.flawless(Duration::from_hours(down)) } else { plan };
            day(started, plan, metrics.as_deref())
        }
        Command::Outage { seeds, json, outage } => {
            (0..seeds).all(|seed| outages::play_and_tell(outage, seed, json))
        }
    };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(started: Instant, seeds: u64, from: u64, threads: usize, brief: bool) -> bool {
    let summary = worlds(from..from.saturating_add(seeds), threads);
    let seconds = started.elapsed().as_secs_f64();
    print!("{}", summary.tally.counts());
    if let Some((seed, violation)) = &summary.failed {
        println!("\n{}", report(*seed, violation));
        if !brief {
            shorten(*seed, Vec::new());
        }
    }
    let uneven = summary.tally.uneven_draws();
    uneven.iter().for_each(|what| println!("{what}"));
    let rate = summary.worlds as f64 / seconds;
    println!("{} worlds in {seconds:.1} s, {rate:.0} a second", summary.worlds);
    summary.failed.is_none() && uneven.is_none()
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

fn shorten(seed: u64, see: Vec<String>) -> bool {
    let wanted = see.join(", ");
    let shortest = shortest(&Plan::of(seed), see.into_iter().collect());
    match &shortest {
        Some(script) => print!("{script}"),
        None => println!("expected to see {wanted:?} in world {seed}, got nothing of it"),
    }
    shortest.is_some()
}

fn play_scripts(files: &[PathBuf]) -> bool {
    let played = files.iter().filter(|file| play_script(file, files.len() == 1));
    played.count() == files.len()
}

fn play_script(file: &Path, is_story_told: bool) -> bool {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => {
            println!("can't read {}: {error}", file.display());
            return false;
        }
    };
    let script = match Script::parse(&text) {
        Ok(script) => script,
        Err(bad) => {
            bad.iter().for_each(|line| println!("{}, {line}", file.display()));
            return false;
        }
    };
    let played = script.play(is_story_told);
    if is_story_told {
        let about = played.judge.violation.as_ref().and_then(|violation| violation.event);
        print!("{}{}", played.judge.story.of(about), played.judge.tally.counts());
    }
    let violation = played.judge.violation.as_ref().map(ToString::to_string);
    let wrong: Vec<_> = violation.into_iter().chain(played.complaints(&script)).collect();
    wrong.iter().for_each(|wrong| println!("{}: {wrong}", file.display()));
    println!("{}: {}", file.display(), if wrong.is_empty() { "all rules held" } else { "failed" });
    wrong.is_empty()
}

fn day(started: Instant, plan: Plan, metrics: Option<&Path>) -> bool {
    let events = plan.events;
    let ended = play(Plan { has_metrics: metrics.is_some(), ..plan }, false);
    let seconds = started.elapsed().as_secs_f64();
    print!("{}", ended.tally.counts());
    if let Some(violation) = &ended.violation {
        println!("{violation}");
    }
    let hours = between(at_millis(BEGAN_AT), ended.now).as_secs_f64() / 3600.0;
    println!("{events} events over {hours:.1} virtual hours in {seconds:.1} s");
    let unwritten = metrics.and_then(|file| fs::write(file, ended.metrics.join("\n")).err());
    if let Some(error) = &unwritten {
        println!("can't write metrics: {error}");
    }
    ended.violation.is_none() && unwritten.is_none()
}
