//! Plays an outage of one function, and tells what was seen of it.

use std::{
    io::{self, Write},
    time::Duration,
};

use comeback_core::time::{at_millis, between, later};
use serde_json::{Value, json};

use crate::{
    judge::Judge,
    plan::{Outage, Plan},
    world::{BEGAN_AT, play},
};

/// How long after an outage this many percent of its events have succeeded that had failed.
pub fn recovered_after(ended: &Judge, outage: Outage, percent: usize) -> Option<Duration> {
    let until = later(at_millis(BEGAN_AT), outage.lasts());
    let at =
        ended.known.figures.recovered.get(ended.known.figures.recovered.len() * percent / 100)?;
    Some(between(until, *at))
}

/// Writes the figures of an outage. Returns whether all rules held.
///
/// # Errors
///
/// If they can't be written.
pub fn play_and_tell(
    out: &mut impl Write,
    outage: Outage,
    seed: u64,
    as_json: bool,
) -> io::Result<bool> {
    let ended = play(Plan::of_outage(outage, seed), false);
    if as_json {
        writeln!(out, "{}", figures(&ended, outage))?;
    } else {
        tell(out, &ended, outage, seed)?;
    }
    if let Some(violation) = &ended.violation {
        writeln!(out, "{violation}")?;
    }
    Ok(ended.violation.is_none())
}

fn tell(out: &mut impl Write, ended: &Judge, outage: Outage, seed: u64) -> io::Result<()> {
    let after = |share| recovered_after(ended, outage, share).unwrap_or_default().as_secs();
    writeln!(
        out,
        "seed {seed}: {} events, {} waited at once; {} retries while down; first success {} s after the outage, 95 % {} s; a step {} ms late at most",
        ended.known.events.len(),
        ended.known.figures.waiting.most,
        ended.known.figures.retried_while_down,
        after(0),
        after(95),
        ended.known.figures.late_step.as_millis(),
    )?;
    for (target, lateness) in &ended.known.figures.lateness {
        writeln!(
            out,
            "  function {target}: {} attempts; late by {:.1} s (p50), {:.1} s (p99), {:.1} s at most; no place for a batch for {:.1} s at most",
            lateness.attempts(),
            lateness.at(50).as_secs_f64(),
            lateness.at(99).as_secs_f64(),
            lateness.at(100).as_secs_f64(),
            ended.known.figures.backlogs[*target].longest.as_secs_f64(),
        )?;
    }
    Ok(())
}

fn figures(ended: &Judge, outage: Outage) -> Value {
    let after = |share| recovered_after(ended, outage, share).map(|after| after.as_secs());
    let late = |target: usize, percent| {
        ended.known.figures.lateness.get(&target).map(|lateness| lateness.at(percent).as_secs_f64())
    };
    json!({
        "events": ended.known.events.len(),
        "waited_at_once": ended.known.figures.waiting.most,
        "retries_while_down": ended.known.figures.retried_while_down,
        "first_success_after": after(0),
        "recovered_after": after(95),
        "a_late_p50": late(0, 50),
        "a_late_p99": late(0, 99),
        "a_late_max": late(0, 100),
        "b_late_max": late(1, 100),
    })
}
