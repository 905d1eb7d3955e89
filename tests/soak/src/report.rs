//! The figures of a soak, and whether they are good.

use std::fmt;

use end_to_end::{
    processes::{self, Pid},
    retry_loop::HANDLER,
};

use crate::{run::Soaked, tally::End};

/// The most lost events, and the most faults, that are printed.
const PRINTED_MAX: usize = 10;

/// The growth in KiB from the middle third of a run to the last that is still acceptable. Allocators and a journal
/// whose lines change in length need about this much. A leak of half a kilobyte per event exceeds it in a soak of
/// 20,000 events.
const GROWTH_MAX_KIB: u64 = 3 * 1024;

/// The samples of one kind of process, in KiB.
#[derive(Default)]
pub struct Samples(Vec<u64>);

#[derive(Default)]
pub struct Memory {
    pub cloud: Samples,
    pub handler: Samples,
}

impl Memory {
    /// Measures the local cloud with this process id and its handlers.
    pub fn sample(&mut self, cloud: u32) {
        let own = i32::try_from(cloud).ok().and_then(Pid::from_raw);
        self.cloud.0.extend(own.and_then(processes::resident_kib));
        let handlers = processes::descendants(cloud, HANDLER);
        self.handler.0.extend(handlers.into_iter().filter_map(processes::resident_kib).max());
    }
}

impl Samples {
    pub fn thirds(&self) -> [u64; 3] {
        let third = self.0.len().div_ceil(3).max(1);
        let mut medians = self.0.chunks(third).map(median);
        [(); 3].map(|()| medians.next().unwrap_or_default())
    }

    /// Whether memory has stopped growing. The first third is for warming up.
    pub fn is_flat(&self) -> bool {
        let [_, middle, end] = self.thirds();
        end <= middle + GROWTH_MAX_KIB
    }
}

fn median(samples: &[u64]) -> u64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

impl Soaked {
    /// Whether every event has ended as it must, and the queues are empty.
    pub fn nothing_is_lost(&self) -> bool {
        self.lost.is_empty() && self.tally.faults.is_empty() && self.left == (0, 0)
    }

    /// Whether nothing is lost, and no process kept growing.
    pub fn is_good(&self) -> bool {
        self.nothing_is_lost() && self.memory.cloud.is_flat() && self.memory.handler.is_flat()
    }
}

impl fmt::Display for Soaked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lost, tally, memory, killed, left } = self;
        writeln!(f, "{:>7} succeeded", tally.count(End::Succeeded))?;
        for reason in ["max_attempts_exceeded", "not_retryable"] {
            writeln!(f, "{:>7} dead-lettered, {reason}", tally.count(End::DeadLetter(reason)))?;
        }
        writeln!(f, "{:>7} lost", lost.len())?;
        let (in_retry, in_dead_letter) = left;
        writeln!(
            f,
            "{in_retry:>7} left in the retry queue, {in_dead_letter} in the dead-letter queue"
        )?;
        writeln!(f, "{:>7} runs of the target", tally.runs)?;
        let (runs, ends) = (tally.duplicate_runs, tally.duplicate_ends);
        writeln!(f, "{runs:>7} of them repeated an attempt, which ended {ends} events again")?;
        let crashed = tally.crashed_batches;
        writeln!(f, "{killed:>7} handlers killed, {crashed} during a batch")?;
        writeln!(f, "resident memory, median of each third of the time, in MiB")?;
        write_memory(f, "comeback-local", &memory.cloud)?;
        write_memory(f, "largest retry-handler", &memory.handler)?;
        for id in lost.iter().take(PRINTED_MAX) {
            writeln!(f, "event {id} has not ended")?;
        }
        for fault in tally.faults.iter().take(PRINTED_MAX) {
            writeln!(f, "{fault}")?;
        }
        f.write_str(if self.is_good() { "good" } else { "NOT GOOD" })
    }
}

fn write_memory(f: &mut fmt::Formatter<'_>, name: &str, samples: &Samples) -> fmt::Result {
    let [start, middle, end] = samples.thirds().map(|kib| kib as f64 / 1024.0);
    let verdict = if samples.is_flat() { "flat" } else { "GROWING" };
    writeln!(f, "{start:>7.1} {middle:>7.1} {end:>7.1}  {name}, {verdict}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_warms_up_is_flat_and_memory_that_keeps_growing_is_not() {
        let noise = |n: u64| n * 7919 % 300;
        let warmed = Samples((0..300).map(|n| 40_000.min(5_000 + n * 500) + noise(n)).collect());
        assert!(warmed.is_flat(), "{:?}", warmed.thirds());
        let leaking = Samples((0..300).map(|n| 40_000 + n * 40).collect());
        assert_eq!(leaking.thirds(), [42_000, 46_000, 50_000]);
        assert!(!leaking.is_flat());
    }
}
