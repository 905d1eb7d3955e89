//! The figures of a soak, and whether they are good.

use std::fmt;

use crate::{fate::End, memory::Samples, run::Soaked};

/// The most lost events, and the most faults, that are printed.
const PRINTED_MAX: usize = 10;

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
