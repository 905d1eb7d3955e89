//! Which event each run belongs to, as the handler's log says. A retry without an envelope says nothing about its
//! event, and has a request id of its own. Two kinds of lines name both: the one about the retry that has started the
//! run, and those about the run's own failure. The first one knows better: two events with the same bytes may swap
//! their ids in what the ledger has noted, but not the failure for which a run was started.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use comeback_core::log_line::LogLine;

/// How many of the latest runs are known.
pub const RUNS_MAX: usize = 100_000;

/// The event of a run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Of {
    pub event_id: Arc<str>,
    /// Which attempt the run is; 0 is Lambda's own invocation.
    pub attempt: u32,
}

/// The events of the latest runs, by request id, and what waits for an event to be named.
#[derive(Debug)]
pub struct EventsOfRuns<T> {
    runs: HashMap<Arc<str>, Known<T>>,
    /// The request ids of the runs, the oldest first.
    order: VecDeque<Arc<str>>,
}

#[derive(Debug)]
enum Known<T> {
    Of(Of),
    NotYet(Vec<T>),
}

impl<T> Default for EventsOfRuns<T> {
    fn default() -> Self {
        Self { runs: HashMap::new(), order: VecDeque::new() }
    }
}

impl<T> EventsOfRuns<T> {
    /// The event of a run, if a line has named it.
    pub fn get(&self, run: &str) -> Option<&Of> {
        match self.runs.get(run)? {
            Known::Of(of) => Some(of),
            Known::NotYet(_) => None,
        }
    }

    /// Whether the run's event is still to be named.
    pub fn is_awaited(&self, run: &str) -> bool {
        matches!(self.runs.get(run), Some(Known::NotYet(_)))
    }

    /// What waits until a line names the run's event; `None` if one has.
    pub fn awaits(&mut self, run: &str) -> Option<&mut Vec<T>> {
        if !self.runs.contains_key(run) {
            self.add(run.into(), Known::NotYet(Vec::new()));
        }
        match self.runs.get_mut(run)? {
            Known::Of(_) => None,
            Known::NotYet(waiting) => Some(waiting),
        }
    }

    /// The event that a line is about, if it is known.
    pub fn event_of<'a>(&'a self, line: &'a LogLine<String>) -> Option<&'a str> {
        self.event(line.request_id.as_deref().unwrap_or_default(), line.event_id.as_deref())
    }

    /// The event of a run for which the handler has this id, if it has one.
    pub fn event<'a>(&'a self, run: &str, id: Option<&'a str>) -> Option<&'a str> {
        let known = |run| Some(&*self.get(run)?.event_id);
        known(run).or_else(|| id.map(|id| known(id).unwrap_or(id)))
    }

    /// Takes in what is known of a run from elsewhere. Returns what has waited for it.
    pub fn know(&mut self, run: &Arc<str>, of: Of) -> Vec<T> {
        match self.add(Arc::clone(run), Known::Of(of)) {
            Some(Known::NotYet(waiting)) => waiting,
            Some(Known::Of(_)) | None => Vec::new(),
        }
    }

    /// Takes in the events that a line of the handler's log names. Returns the runs whose event was awaited, with what
    /// has waited for it.
    pub fn learn(&mut self, line: &LogLine<String>) -> Vec<(Arc<str>, Of, Vec<T>)> {
        let Some(event_id) = self.event_of(line).map(Arc::<str>::from) else { return Vec::new() };
        let failed = line.request_id.as_deref().filter(|run| self.get(run).is_none());
        let failed = failed.map(|run| match line.attempt {
            _ if *run == *event_id => (run, 0),
            // A line about an event that is given up need not say which attempt has failed.
            next => (run, next.map_or(1, |next| next.saturating_sub(1).max(1))),
        });
        let started = line.retry_request_id.as_deref().zip(line.attempt);
        // An event ends when it is delivered. The run that this starts is the first of an event of its own.
        let is_delivered = line.source_arn.is_some();
        let started = started.map(|(run, attempt)| match is_delivered {
            true => (run, Arc::from(run), 0),
            false => (run, Arc::clone(&event_id), attempt),
        });
        let failed = failed.map(|(run, attempt)| (run, Arc::clone(&event_id), attempt));
        let mut awaited = Vec::new();
        for (run, event_id, attempt) in failed.into_iter().chain(started) {
            let of = Of { event_id, attempt };
            let run: Arc<str> = run.into();
            let is_awaited = self.is_awaited(&run);
            let waiting = self.know(&run, of.clone());
            if is_awaited {
                awaited.push((run, of, waiting));
            }
        }
        awaited
    }

    /// Replaces what is known of a run, and returns it.
    fn add(&mut self, run: Arc<str>, known: Known<T>) -> Option<Known<T>> {
        let before = self.runs.insert(Arc::clone(&run), known);
        if before.is_none() {
            self.order.push_back(run);
        }
        if self.order.len() > RUNS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.runs.remove(&oldest);
        }
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(event_id: Option<&str>, request_id: &str, retry: Option<&str>) -> LogLine<String> {
        let text = |text: &str| Some(text.to_owned());
        LogLine {
            event_id: event_id.and_then(text),
            request_id: text(request_id),
            retry_request_id: retry.and_then(text),
            attempt: Some(3),
            ..LogLine::default()
        }
    }

    #[test]
    fn a_run_belongs_to_the_event_that_a_line_names_and_what_waits_is_returned_then() {
        let mut runs = EventsOfRuns::default();
        for run in ["second", "third"] {
            runs.awaits(run).unwrap().push(run);
        }
        assert_eq!(runs.learn(&line(None, "second", Some("third"))), []);
        assert!(runs.is_awaited("third") && !runs.is_awaited("first"));
        let of = |attempt| Of { event_id: "first".into(), attempt };
        let named = runs.learn(&line(Some("first"), "second", Some("third")));
        let expected = [("second", 2), ("third", 3)];
        assert_eq!(named, expected.map(|(run, attempt)| (run.into(), of(attempt), vec![run])));
        assert_eq!(runs.get("third"), Some(&of(3)));
        assert_eq!(runs.awaits("third"), None);
        assert_eq!(runs.learn(&line(Some("first"), "second", None)), []);
    }

    #[test]
    fn a_retry_that_the_handler_takes_for_a_run_of_another_event_still_belongs_to_its_own() {
        let mut runs = EventsOfRuns::<()>::default();
        let lost = line(Some("second"), "second", Some("third"));
        for it in [line(Some("first"), "first", Some("second")), lost.clone()] {
            runs.learn(&it);
        }
        let event = |run: &str| &*runs.get(run).unwrap().event_id;
        assert_eq!(["first", "second", "third"].map(event), ["first"; 3]);
        // Two events with the same bytes have swapped their ids.
        let swapped = line(Some("another"), "third", Some("fourth"));
        runs.learn(&swapped);
        assert_eq!(runs.event_of(&swapped), Some("first"));
        assert_eq!(&*runs.get("fourth").unwrap().event_id, "first");
        assert_eq!(runs.event_of(&lost), Some("first"));
        assert_eq!(runs.event_of(&line(None, "third", None)), Some("first"));
        assert_eq!(runs.event_of(&line(None, "another", None)), None);
    }

    #[test]
    fn the_latest_runs_are_known() {
        let mut runs = EventsOfRuns::<()>::default();
        for nth in 0..RUNS_MAX + 5 {
            runs.awaits(&nth.to_string());
        }
        assert!(!runs.is_awaited("4") && runs.is_awaited("5"));
        assert_eq!(runs.runs.len(), RUNS_MAX);
    }
}
