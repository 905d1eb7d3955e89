//! `soak [EVENTS [SEED]]`: prints the figures, and fails if anything was lost.

use std::{env, process::ExitCode, time::Instant};

use soak::run::soak;

const EVENTS: usize = 20_000;
const SEED: u64 = 1;

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let (events, seed) = (arguments.next(), arguments.next());
    let events = events.map_or(Ok(EVENTS), |text| text.parse());
    let seed = seed.map_or(Ok(SEED), |text| text.parse());
    let (Ok(events), Ok(seed)) = (events, seed) else {
        eprintln!("usage: soak [EVENTS [SEED]]");
        return ExitCode::from(2);
    };
    #[allow(clippy::disallowed_methods, reason = "the duration is measured")]
    let started = Instant::now();
    let soaked = soak(events, seed).await;
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{events} events in {seconds:.0} s, {:.0} a second, seed {seed}",
        events as f64 / seconds
    );
    println!("{soaked}");
    if soaked.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
