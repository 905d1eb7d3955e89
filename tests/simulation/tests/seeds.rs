//! What CI plays: enough worlds for every fault to be seen.

use std::thread;

use simulation::{
    plan::Plan,
    run::{report, worlds},
    world::play,
};

const WORLDS: u64 = 2_000;

/// How often each fault and each reason must have been seen at least.
const SEEN_MIN: u64 = 5;

#[test]
fn whatever_goes_wrong_every_event_ends_as_the_rules_say() {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let summary = worlds(0..WORLDS, threads);
    if let Some((seed, violation)) = &summary.failed {
        panic!("{}", report(*seed, violation));
    }
    assert_eq!(summary.tally.uneven_draws(), None);
    // A simulation that no longer makes faults would pass as well.
    assert_eq!(summary.tally.unseen(SEEN_MIN), [""; 0]);
}

#[test]
fn one_seed_is_one_world() {
    for seed in 0..50 {
        let story = || play(Plan::of(seed), true).story.of(None);
        assert_eq!(story(), story(), "seed {seed}");
    }
}
