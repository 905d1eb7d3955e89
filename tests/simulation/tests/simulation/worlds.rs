//! Worlds of many seeds.

use std::thread;

use clap::ValueEnum;
use simulation::{
    faults::{Fault, Trouble},
    judge::REASONS,
    plan::Plan,
    run::{report, worlds},
    seen::{Seen, Tally},
    world::play,
};

/// Enough worlds to see every fault.
const WORLDS: u64 = 2_000;

/// How often each fault and each reason must have been seen at least.
const SEEN_MIN: u64 = 5;

/// The faults, the reasons, and the steps that only a ledger, a register, probes or an attacker cause, that were
/// seen less than `least` times, each with its count.
fn unseen(tally: &Tally, least: u64) -> Vec<String> {
    let steps = [
        "duplicates dropped",
        "acts without their mark",
        "forks",
        "delays",
        "hops",
        "copies of delays",
        "orders to retry",
        "orders to cancel",
        "orders that came too late",
        "turns of circuits",
        "events held back",
        "brought forward",
        "forgeries",
        "trials",
        "adoptions",
        "waits for notes",
        "attempts swapped",
        "attempts begun anew",
        "siblings that were cut off",
        "throttled and repeated",
        "unanswered and repeated",
        "accepted unseen and repeated",
        "events without a root",
        "events that share a root",
        "a record of another account",
        "letters that point to their payload",
        "messages about no failure",
        "tells of no object",
        "notices split",
        "parts of notices refused",
        "parts of notices sent twice",
        "messages moved",
        "undelivered events accepted",
        "undelivered: as it is",
        "undelivered: as a request",
        "undelivered: no request",
        "undelivered: a part of a request",
        "undelivered: only a part",
        "undelivered: in cipher",
        "undelivered: no JSON",
        "undelivered: ten attributes",
        "undelivered: a letter comes back",
        "undelivered: to no target",
        "undelivered: to a handler",
        "undelivered: to a dead-letter queue",
        "undelivered: to a retry queue",
        "undelivered: to a target of another queue",
        "undelivered: to another account",
        "a batch that was given up",
        "a batch is missing",
        "a batch that is no JSON",
        "a batch of another function",
        "a batch of no mapping",
        "a key of no mapping",
        "records of successes",
        "answers that name records",
        "batches of which records have failed",
        "batches sent in parts",
        "parts of batches",
        "hostile: leaves a letter no room",
        "hostile: a refused letter comes back",
        "hostile: a refused letter of a queue comes back",
        "hostile: the victim's request id",
        "hostile: metadata with thousands of members",
        "hostile: an id of kilobytes",
        "hostile: the victim's record without a payload",
        "hostile: the victim's retry has failed",
    ];
    (Fault::value_variants().iter().copied().map(Seen::Fault))
        .chain(Trouble::value_variants().iter().copied().map(Seen::Trouble))
        .chain(REASONS.map(Seen::Letter))
        .chain(steps.map(Seen::Step))
        .map(|seen| (seen, tally.seen.get(&seen).copied().unwrap_or_default()))
        .filter(|(_, count)| *count < least)
        .map(|(seen, count)| format!("{seen:?}: {count} times"))
        .collect()
}

#[test]
fn whatever_goes_wrong_every_event_ends_as_the_rules_say() {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let summary = worlds(0..WORLDS, threads);
    if let Some((seed, violation)) = &summary.failed {
        panic!("{}", report(*seed, violation));
    }
    assert_eq!(summary.tally.uneven_draws(), None);
    // A simulation that no longer injects faults would pass as well.
    assert_eq!(unseen(&summary.tally, SEEN_MIN), [""; 0]);
}

#[test]
fn in_two_worlds_of_five_functions_are_retried_without_an_envelope() {
    let is_without = |seed: &u64| {
        let plan = Plan::of(*seed);
        plan.targets.iter().any(|target| target.transparent.contains(&true))
    };
    let without = (0..WORLDS).filter(is_without).count() as u64;
    assert!(5 * without >= 2 * WORLDS, "{without} of {WORLDS}");
}

#[test]
fn one_seed_is_one_world() {
    for seed in 0..50 {
        let story = || play(Plan::of(seed), true).known.story.of(None);
        assert_eq!(story(), story(), "seed {seed}");
    }
}
