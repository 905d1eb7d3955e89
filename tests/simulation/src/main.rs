//! The program: plays worlds, and tells what was seen in them.

use std::{
    fs,
    io::{self, ErrorKind, Write},
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
    match obey(Command::parse(), Instant::now(), &mut io::stdout().lock()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // The reader has closed the pipe, so an error message would not be seen.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("simulation: can't write the output: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether all was as it must be.
fn obey(command: Command, started: Instant, out: &mut impl Write) -> io::Result<bool> {
    match command {
        Command::Run { seeds, from, threads, brief } => {
            run(out, started, seeds, from, threads, brief)
        }
        Command::Shorten { seed, see } => shorten(out, seed, see),
        Command::Play { scripts } => play_scripts(out, &scripts),
        Command::Replay { seed, event } => replay(out, seed, event),
        Command::Day { events, seed, flawless, down, metrics } => {
            let plan = Plan::day_of(events, seed);
            let plan = if flawless { plan.flawless(Duration::from_hours(down)) } else { plan };
            day(out, started, plan, metrics.as_deref())
        }
        Command::Outage { seeds, json, outage } => {
            for seed in 0..seeds {
                if !outages::play_and_tell(out, outage, seed, json)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }
}

fn run(
    out: &mut impl Write,
    started: Instant,
    seeds: u64,
    from: u64,
    threads: usize,
    brief: bool,
) -> io::Result<bool> {
    let summary = worlds(from..from.saturating_add(seeds), threads);
    let seconds = started.elapsed().as_secs_f64();
    write!(out, "{}", summary.tally.counts())?;
    if let Some((seed, violation)) = &summary.failed {
        writeln!(out, "\n{}", report(*seed, violation))?;
        if !brief {
            shorten(out, *seed, Vec::new())?;
        }
    }
    let uneven = summary.tally.uneven_draws();
    if let Some(what) = &uneven {
        writeln!(out, "{what}")?;
    }
    let rate = summary.worlds as f64 / seconds;
    writeln!(out, "{} worlds in {seconds:.1} s, {rate:.0} a second", summary.worlds)?;
    Ok(summary.failed.is_none() && uneven.is_none())
}

fn replay(out: &mut impl Write, seed: u64, event: Option<usize>) -> io::Result<bool> {
    let ended = play(Plan::of(seed), true);
    let about = event.or(ended.violation.as_ref().and_then(|violation| violation.event));
    write!(out, "{}", ended.known.story.of(about))?;
    match &ended.violation {
        Some(violation) => writeln!(out, "{violation}")?,
        None => writeln!(out, "all rules held")?,
    }
    Ok(ended.violation.is_none())
}

fn shorten(out: &mut impl Write, seed: u64, see: Vec<String>) -> io::Result<bool> {
    let wanted = see.join(", ");
    let shortest = shortest(&Plan::of(seed), see.into_iter().collect());
    match &shortest {
        Some(script) => write!(out, "{script}")?,
        None => writeln!(out, "expected to see {wanted:?} in world {seed}, got nothing of it")?,
    }
    Ok(shortest.is_some())
}

fn play_scripts(out: &mut impl Write, files: &[PathBuf]) -> io::Result<bool> {
    let mut is_good = true;
    for file in files {
        is_good &= play_script(out, file, files.len() == 1)?;
    }
    Ok(is_good)
}

fn play_script(out: &mut impl Write, file: &Path, is_story_told: bool) -> io::Result<bool> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => {
            writeln!(out, "can't read {}: {error}", file.display())?;
            return Ok(false);
        }
    };
    let script = match Script::parse(&text) {
        Ok(script) => script,
        Err(bad) => {
            for line in bad {
                writeln!(out, "{}, {line}", file.display())?;
            }
            return Ok(false);
        }
    };
    let played = script.play(is_story_told);
    if is_story_told {
        let about = played.judge.violation.as_ref().and_then(|violation| violation.event);
        write!(out, "{}{}", played.judge.known.story.of(about), played.judge.known.tally.counts())?;
    }
    let violation = played.judge.violation.as_ref().map(ToString::to_string);
    let wrong: Vec<_> = violation.into_iter().chain(played.complaints(&script)).collect();
    for wrong in &wrong {
        writeln!(out, "{}: {wrong}", file.display())?;
    }
    writeln!(
        out,
        "{}: {}",
        file.display(),
        if wrong.is_empty() { "all rules held" } else { "failed" }
    )?;
    Ok(wrong.is_empty())
}

fn day(
    out: &mut impl Write,
    started: Instant,
    plan: Plan,
    metrics: Option<&Path>,
) -> io::Result<bool> {
    let events = plan.events;
    let ended = play(Plan { has_metrics: metrics.is_some(), ..plan }, false);
    let seconds = started.elapsed().as_secs_f64();
    write!(out, "{}", ended.known.tally.counts())?;
    if let Some(violation) = &ended.violation {
        writeln!(out, "{violation}")?;
    }
    let hours = between(at_millis(BEGAN_AT), ended.known.now).as_secs_f64() / 3600.0;
    writeln!(out, "{events} events over {hours:.1} virtual hours in {seconds:.1} s")?;
    let unwritten =
        metrics.and_then(|file| fs::write(file, ended.known.figures.metrics.join("\n")).err());
    if let Some(error) = &unwritten {
        writeln!(out, "can't write metrics: {error}")?;
    }
    Ok(ended.violation.is_none() && unwritten.is_none())
}
