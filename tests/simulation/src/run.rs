//! Plays many worlds, and reports what was seen in them.

use std::{
    fmt::Write as _,
    ops::Range,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use crate::{
    notes::{Check, Tally, Violation},
    plan::Plan,
    world::play,
};

/// Fewer draws than this prove nothing.
const DRAWS_MIN: u64 = 3_000;

/// The results of many worlds.
#[derive(Default)]
pub struct Summary {
    pub worlds: u64,
    pub tally: Tally,
    /// The seed of a world that broke a rule, and the rule.
    pub failed: Option<(u64, Violation)>,
}

/// Plays the worlds of these seeds, up to the first in which a rule does not hold. Each thread plays one world
/// after another.
pub fn worlds(seeds: Range<u64>, threads: usize) -> Summary {
    let next = AtomicU64::new(seeds.start);
    let summary = Mutex::new(Summary::default());
    let play_on = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let ended = play(Plan::of(seed), false);
            let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
            summary.worlds += 1;
            summary.tally.add(&ended.tally);
            let is_first = summary.failed.as_ref().is_none_or(|&(first, _)| seed < first);
            if let Some(violation) = ended.violation
                && is_first
            {
                next.store(seeds.end, Ordering::Relaxed);
                summary.failed = Some((seed, violation));
            }
        }
    };
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(play_on))));
    summary.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// What a person needs to know about a world that failed: the rule, the command that replays it, and the story of the
/// event.
pub fn report(seed: u64, violation: &Violation) -> String {
    let story = play(Plan::of(seed), true).story.of(violation.event);
    format!(
        "seed {seed}: {violation}\n  cargo run --release -p simulation -- replay {seed}\n\n{story}"
    )
}

impl Tally {
    /// Returns how the draws of all backoffs or of all delays are spread over their ranges, if not evenly.
    pub fn uneven_draws(&self) -> Option<String> {
        let is_uneven = |draws: &&[u64; 10]| {
            let all: u64 = draws.iter().sum();
            all > DRAWS_MIN
                && draws.iter().any(|count| count * 10 < all * 8 / 10 || count * 10 > all * 12 / 10)
        };
        let uneven = [&self.draws, &self.hops].into_iter().find(is_uneven)?;
        Some(format!("{}\n  by tenths: {uneven:?}", Check::DrawsSpread))
    }

    /// All counts, as a table for a person.
    pub fn counts(&self) -> String {
        let mut text = String::new();
        let mut all: Vec<_> = self.seen.iter().collect();
        all.sort_unstable();
        for (seen, count) in all {
            // Writing to a string can't fail.
            let _ = writeln!(text, "{count:>9}  {seen}");
        }
        text
    }
}

#[cfg(test)]
mod long_tests {
    use clap::ValueEnum;

    use super::*;
    use crate::{
        judge::REASONS,
        notes::{Fault, Seen, Trouble},
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
            "letters that point to their payload",
            "test events of buckets",
            "tells of no object",
            "notices split",
            "parts of notices refused",
            "parts of notices sent twice",
            "messages moved",
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
    fn one_seed_is_one_world() {
        for seed in 0..50 {
            let story = || play(Plan::of(seed), true).story.of(None);
            assert_eq!(story(), story(), "seed {seed}");
        }
    }
}
