//! Many worlds, and what is said of them.

use std::{
    fmt::Write as _,
    ops::Range,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use crate::{
    check::{Check, Violation},
    plan::Plan,
    tally::{Fault, Tally},
    world::play,
};

/// What came of many worlds.
#[derive(Default)]
pub struct Summary {
    /// How many there were.
    pub worlds: u64,
    /// What they had, all together.
    pub tally: Tally,
    /// The seeds of those in which a rule did not hold.
    pub failed: Vec<(u64, Violation)>,
}

/// Plays the worlds of these seeds, up to the first in which a rule does not hold. A world is one
/// thread's; several may be played side by side.
pub fn worlds(seeds: Range<u64>, threads: usize) -> Summary {
    let next = AtomicU64::new(seeds.start);
    let has_failed = AtomicBool::new(false);
    let summary = Mutex::new(Summary::default());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || has_failed.load(Ordering::Relaxed) {
                        return;
                    }
                    let ended = play(Plan::of(seed), false);
                    has_failed.fetch_or(ended.violation.is_some(), Ordering::Relaxed);
                    let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
                    summary.worlds += 1;
                    summary.tally.add(&ended.tally);
                    summary.failed.extend(ended.violation.map(|violation| (seed, violation)));
                }
            });
        }
    });
    let mut summary = summary.into_inner().unwrap_or_else(PoisonError::into_inner);
    summary.failed.sort_by_key(|(seed, _)| *seed);
    summary
}

/// What a person needs of a world that failed: the rule, the command that plays it again, and the story
/// of the event.
pub fn report(seed: u64, violation: &Violation) -> String {
    let again = play(Plan::of(seed), true);
    format!(
        "seed {seed}: {violation}\n  cargo run --release -p simulation -- replay {seed}\n\n{}",
        again.story.of(violation.event)
    )
}

impl Summary {
    /// What was seen too rarely to say anything of it: each fault, each reason, and what a ledger is there
    /// for, at least `least` times.
    pub fn unseen(&self, least: u64) -> Vec<String> {
        let faults = Fault::ALL
            .iter()
            .map(|fault| (format!("{fault:?}"), self.tally.faults.get(fault).copied()));
        let reasons = crate::judge::REASONS
            .iter()
            .map(|reason| ((*reason).to_owned(), self.tally.letters.get(reason).copied()));
        let ledgers = ["duplicates dropped", "acts without their mark", "forks"]
            .map(|name| (name.to_owned(), self.tally.counts.get(name).copied()));
        faults
            .chain(reasons)
            .chain(ledgers)
            .filter(|(_, seen)| seen.unwrap_or_default() < least)
            .map(|(name, seen)| format!("{name}: {} times", seen.unwrap_or_default()))
            .collect()
    }

    /// How the draws of all backoffs lie in their ranges, if not evenly.
    pub fn uneven_draws(&self) -> Option<String> {
        let all: u64 = self.tally.draws.iter().sum();
        // Of a few draws nothing can be said.
        let uneven =
            |&count: &u64| all > 5_000 && (count * 10 < all * 8 / 10 || count * 10 > all * 12 / 10);
        self.tally.draws.iter().any(uneven).then(|| {
            let rule = Check::DrawsSpread;
            format!("{rule}: {}\n  by tenths: {:?}", rule.sentence(), self.tally.draws)
        })
    }

    /// All that was counted, as a person reads it.
    pub fn counts(&self) -> String {
        let mut text = String::new();
        let faults = self.tally.faults.iter().map(|(fault, n)| (format!("{fault:?}"), n));
        let letters = self.tally.letters.iter().map(|(reason, n)| ((*reason).to_owned(), n));
        let counts = self.tally.counts.iter().map(|(name, n)| ((*name).to_owned(), n));
        for (title, lines) in [
            ("what happened", counts.collect::<Vec<_>>()),
            ("dead letters", letters.collect()),
            ("faults", faults.collect()),
        ] {
            // Writing to a string can't fail.
            let _ = writeln!(text, "{title}");
            for (name, count) in lines {
                let _ = writeln!(text, "  {count:>9}  {name}");
            }
        }
        text
    }
}
