//! What happened in a world, line by line, for the reader of a failure.
//!
//! A story is only written if somebody will read it. The same seed makes the same world, so a world that failed is
//! played a second time, with its story.

use std::fmt::Write as _;

use comeback_core::{Timestamp, time::rfc3339};

/// The lines of a world: when, about which event (of the whole world if none), and what happened.
#[derive(Default)]
pub struct Story {
    pub(crate) is_written: bool,
    lines: Vec<(Timestamp, Option<usize>, String)>,
}

impl Story {
    /// Adds a line. It is only formatted if the story is written.
    pub(crate) fn tell(
        &mut self,
        at: Timestamp,
        event: impl Into<Option<usize>>,
        text: impl FnOnce() -> String,
    ) {
        if self.is_written {
            self.lines.push((at, event.into(), text()));
        }
    }

    /// The story of one event, with what happened to the whole world; without an event, everything.
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
