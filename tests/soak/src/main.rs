//! `soak [queues | durable | transparent | switching] [EVENTS [SEED]]`, or `soak outage [OPTIONS]`: sends many events
//! through the whole system, with real processes, while handlers are killed. It prints the figures, and fails if
//! anything was lost.
//!
//! Each event fails in the way that its number says. New events are sent as fast as earlier ones end. Meanwhile
//! handlers are killed with SIGKILL at any point of their work, and the memory of the processes is measured. The
//! outcome of each event is read from the local cloud's journal and the dead-letter queue. The run ends when every
//! event has ended and the queues are empty. An event that has not ended by then is lost.
//!
//! With `queues`, the events are messages of two queues, whose consumers are killed, too. With `durable`, the target is
//! a durable function, of which Lambda starts an execution of one name once: the handler has no ledger, and yet no
//! attempt may run twice. With `transparent`, the targets are ten functions that are retried without an envelope.
//! With `switching`, no handler is killed, but its setting `TRANSPARENT` changes while nearly all events wait. With
//! `outage`, events arrive at a steady rate while their function is down, with probes and the register.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test reports a failure by a panic")]

mod outage;
mod queues;
mod run;
mod switching;
mod table;
mod tally;
mod transparent;

use std::{env, fmt::Display, iter, process::ExitCode, time::Instant};

use clap::Parser as _;

use crate::run::soak;

const EVENTS: usize = 20_000;
const SEED: u64 = 1;

/// Long enough for thousands of events to wait at the same time.
const SWITCHING_BACKOFF_SECONDS: i64 = 10;

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = env::args().skip(1).peekable();
    if arguments.next_if(|first| first == "outage").is_some() {
        let name = iter::once("soak outage".to_owned());
        let played = outage::soak(outage::Outage::parse_from(name.chain(arguments))).await;
        println!("{played}");
        return if played.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let is_of_queues = arguments.next_if(|first| first == "queues").is_some();
    let is_durable = arguments.next_if(|first| first == "durable").is_some();
    let is_transparent = arguments.next_if(|first| first == "transparent").is_some();
    let switches = arguments.next_if(|first| first == "switching").is_some();
    let (events, seed) = (arguments.next(), arguments.next());
    let events = events.map_or(Ok(EVENTS), |text| text.parse());
    let seed = seed.map_or(Ok(SEED), |text| text.parse());
    let (Ok(events), Ok(seed)) = (events, seed) else {
        eprintln!(
            "usage: soak [queues | durable | transparent | switching] [EVENTS [SEED]], or soak outage --help"
        );
        return ExitCode::from(2);
    };
    #[allow(clippy::disallowed_methods, reason = "the duration is measured")]
    let started = Instant::now();
    let (soaked, is_good): (Box<dyn Display>, bool) = if is_of_queues {
        let soaked = queues::soak(events, seed).await;
        let is_good = soaked.is_good();
        (Box::new(soaked), is_good)
    } else if is_transparent {
        let soaked = transparent::soak(events, seed).await;
        let is_good = soaked.is_good();
        (Box::new(soaked), is_good)
    } else if switches {
        let switched = switching::soak(events, SWITCHING_BACKOFF_SECONDS).await;
        let is_good = switched.is_good();
        (Box::new(switched), is_good)
    } else {
        let soaked = soak(events, seed, is_durable).await;
        let is_good = soaked.is_good();
        (Box::new(soaked), is_good)
    };
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{events} events in {seconds:.0} s, {:.0} a second, seed {seed}",
        events as f64 / seconds
    );
    println!("{soaked}");
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A soak that is short enough for every test run, and too short to tell whether memory is flat.
#[cfg(test)]
#[tokio::test]
async fn nothing_is_lost_while_handlers_are_killed_at_random() {
    let soaked = soak(300, 7, false).await;
    assert!(soaked.nothing_is_lost(), "{soaked}");
    assert!(soaked.killed > 0, "{soaked}");
}

#[cfg(test)]
#[tokio::test]
async fn of_a_durable_function_nothing_runs_twice_and_nothing_is_lost_while_handlers_are_killed() {
    let soaked = soak(200, 7, true).await;
    assert!(soaked.nothing_is_lost(), "{soaked}");
    assert!(soaked.killed > 0, "{soaked}");
}

#[cfg(test)]
#[tokio::test]
async fn of_queues_nothing_is_lost_while_handlers_are_killed_and_consumers_too() {
    let soaked = queues::soak(200, 7).await;
    assert!(soaked.is_good(), "{soaked}");
    assert!(soaked.killed.iter().sum::<usize>() > 0, "{soaked}");
}

#[cfg(test)]
#[tokio::test]
async fn without_an_envelope_attempts_are_exact_and_nothing_is_lost_while_handlers_are_killed() {
    let soaked = transparent::soak(300, 7).await;
    assert!(soaked.is_good(), "{soaked}");
    assert!(soaked.killed.iter().sum::<usize>() > 0, "{soaked}");
}
