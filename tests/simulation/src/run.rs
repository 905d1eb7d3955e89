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
    judge::{Check, Violation},
    plan::Plan,
    seen::Tally,
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
            summary.tally.add(&ended.known.tally);
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
    let story = play(Plan::of(seed), true).known.story.of(violation.event);
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
