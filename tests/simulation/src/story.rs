//! What happened in a world, line by line, for whoever reads a failure.
//!
//! A story is only written down when somebody will read it: a seed makes the same world again, so the
//! one that failed is played a second time, with its story.

use std::fmt::Write as _;

use comeback_core::{Timestamp, time::rfc3339};

/// The lines of a world.
#[derive(Default)]
pub struct Story {
    written: bool,
    lines: Vec<Line>,
}

/// Something that happened, to one event or to the world.
struct Line {
    at: Timestamp,
    event: Option<usize>,
    said: String,
}

impl Story {
    pub(crate) fn new(written: bool) -> Self {
        Self { written, lines: Vec::new() }
    }

    /// Adds a line, which is only put into words where stories are written.
    pub(crate) fn tell(
        &mut self,
        at: Timestamp,
        event: Option<usize>,
        said: impl FnOnce() -> String,
    ) {
        if self.written {
            self.lines.push(Line { at, event, said: said() });
        }
    }

    /// The story of one event, with what happened to the whole world; of everything where no event
    /// is named.
    pub fn of(&self, event: Option<usize>) -> String {
        let concerns =
            |line: &&Line| event.is_none() || line.event.is_none() || line.event == event;
        let mut text = String::new();
        for line in self.lines.iter().filter(concerns) {
            let whose = line.event.map_or("world".to_owned(), |event| format!("event {event}"));
            // Writing to a string can't fail.
            let _ = writeln!(text, "{}  {whose:<10} {}", rfc3339(line.at), line.said);
        }
        text
    }
}
