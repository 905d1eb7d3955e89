//! What is recorded of a world for a person: its story, and counts.

use std::{fmt, fmt::Write as _};

use comeback_core::{Timestamp, time::rfc3339};
use rustc_hash::FxHashMap;

use crate::faults::{Fault, Trouble};

/// The story of a world, line by line: the time, the event (None for the whole world), and what happened. It is only
/// written on request: the same seed makes the same world, so a world that failed is played again to get its story.
#[derive(Default)]
pub struct Story {
    pub is_written: bool,
    lines: Vec<(Timestamp, Option<usize>, String)>,
}

impl Story {
    /// Adds a line, which is only formatted if the story is written.
    pub fn tell(
        &mut self,
        at: Timestamp,
        event: impl Into<Option<usize>>,
        text: impl FnOnce() -> String,
    ) {
        if self.is_written {
            self.lines.push((at, event.into(), text()));
        }
    }

    /// The lines about one event and those about the whole world. Without an event, all lines.
    pub fn of(&self, event: Option<usize>) -> String {
        let mut story = String::new();
        for (at, about, text) in &self.lines {
            if event.is_none() || about.is_none() || *about == event {
                let about = about.map_or("world".to_owned(), |event| format!("event {event}"));
                // Writing to a string can't fail.
                let _ = writeln!(story, "{}  {about:<10} {text}", rfc3339(*at));
            }
        }
        story
    }
}

/// A key of the tally.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Seen {
    /// An ordinary step in the life of events.
    Step(&'static str),
    Letter(&'static str),
    Fault(Fault),
    Trouble(Trouble),
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step(name) => write!(f, "{name}"),
            Self::Letter(reason) => write!(f, "dead letter: {reason}"),
            Self::Fault(fault) => write!(f, "fault: {fault}"),
            Self::Trouble(trouble) => write!(f, "trouble: {trouble:?}"),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub seen: FxHashMap<Seen, u64>,
    /// The number of backoffs drawn from each tenth of their range.
    pub draws: [u64; 10],
    /// The same for delays that end before the message is due.
    pub hops: [u64; 10],
}

impl Tally {
    pub fn count(&mut self, seen: Seen) {
        *self.seen.entry(seen).or_default() += 1;
    }

    pub fn add(&mut self, other: &Self) {
        for (&seen, count) in &other.seen {
            *self.seen.entry(seen).or_default() += count;
        }
        let sums = self.draws.iter_mut().chain(&mut self.hops);
        for (sum, count) in sums.zip(other.draws.into_iter().chain(other.hops)) {
            *sum += count;
        }
    }
}
