//! What the journal of an outage says.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use chrono::{DateTime, Utc};
use end_to_end::{
    journal::{Ending, Entry},
    retry_loop::{HANDLER, TARGET},
};
use serde_json::Value;

/// The healthy function beside the one that is down. Each of its events fails once.
pub const NEIGHBOUR: &str = "mails";

type At = DateTime<Utc>;

/// A run of a function: Lambda's own of a new event, or a retry.
struct Run {
    event: usize,
    is_neighbours: bool,
    is_retry: bool,
    accepted_at: At,
    started_at: Option<At>,
    /// The due time of a retry, as the handler has logged it once Lambda had accepted the run.
    due_at: Option<At>,
}

pub struct Tally {
    began_at: At,
    /// When the target is up again.
    up_at: At,
    /// By request id.
    runs: HashMap<Arc<str>, Run>,
    /// The events of the target that have failed, and when they succeeded.
    failed: BTreeMap<usize, Option<At>>,
    /// The events of the target that have succeeded, and those of its neighbour.
    succeeded: [BTreeSet<usize>; 2],
    pub retries_while_down: usize,
    /// The states of the target's circuit, and when each of them began.
    pub turns: Vec<(Duration, String)>,
    /// How often a run of a handler was refused because all processes were busy.
    pub throttled: usize,
}

/// How late the neighbour's retries started to run.
pub struct Lateness {
    pub retries: usize,
    /// From the due time to the start of the run, for 95 % of them.
    pub in_all: Duration,
    /// From the moment on when Lambda had accepted the run. Lambda has one process for each run at once.
    pub at_lambda: Duration,
}

impl Tally {
    pub fn new(began_at: At, up_at: At) -> Self {
        Self {
            began_at,
            up_at,
            runs: HashMap::new(),
            failed: BTreeMap::new(),
            succeeded: [const { BTreeSet::new() }; 2],
            retries_while_down: 0,
            turns: Vec::new(),
            throttled: 0,
        }
    }

    pub fn note(&mut self, entry: &Entry) {
        match (&*entry.function, entry.kind.as_str()) {
            (HANDLER, "Throttled") => self.throttled += 1,
            (HANDLER, _) => self.logged(entry),
            (TARGET | NEIGHBOUR, "Accepted") => self.accepted(entry),
            (TARGET | NEIGHBOUR, "Started") => self.started(entry),
            (TARGET | NEIGHBOUR, "Finished") => self.finished(entry),
            _ => {}
        }
    }

    fn accepted(&mut self, entry: &Entry) {
        let (Some(id), Some(event)) = (&entry.request_id, &entry.event) else { return };
        let payload: Value = serde_json::from_str(event.get()).unwrap();
        let original = payload.get("_original_payload").unwrap_or(&payload);
        let event = original["id"].as_u64().unwrap() as usize;
        let (is_retry, accepted_at) = (entry.by.is_some(), entry.at);
        let is_neighbours = &*entry.function == NEIGHBOUR;
        let is_in_vain = is_retry && !is_neighbours && accepted_at < self.up_at;
        self.retries_while_down += usize::from(is_in_vain);
        let (started_at, due_at) = (None, None);
        let run = Run { event, is_neighbours, is_retry, accepted_at, started_at, due_at };
        self.runs.insert(Arc::clone(id), run);
    }

    fn run(&mut self, id: Option<&str>) -> Option<&mut Run> {
        self.runs.get_mut(id?)
    }

    fn started(&mut self, entry: &Entry) {
        if let Some(run) = self.run(entry.request_id.as_deref()) {
            run.started_at.get_or_insert(entry.at);
        }
    }

    fn finished(&mut self, entry: &Entry) {
        let run = self.run(entry.request_id.as_deref());
        let Some(&mut Run { event, is_neighbours, is_retry, .. }) = run else { return };
        let has_succeeded = entry.outcome == Some(Ending::Succeeded);
        if is_neighbours {
            self.succeeded[1].extend(has_succeeded.then_some(event));
        } else if !has_succeeded {
            self.failed.entry(event).or_default();
        } else {
            let back_at = if is_retry { self.failed.get_mut(&event) } else { None };
            back_at.map(|at| at.get_or_insert(entry.at));
            self.succeeded[0].insert(event);
        }
    }

    /// Reads a line of the handler's log.
    fn logged(&mut self, entry: &Entry) {
        let line = entry.line.as_deref().filter(|line| line.starts_with('{'));
        let Some(line) = line.and_then(|line| serde_json::from_str::<Value>(line).ok()) else {
            return;
        };
        if let Some(circuit) = line["circuit"].as_str() {
            let after = since(self.began_at, entry.at);
            self.turns.push((after, circuit.to_owned()));
        }
        let due_at = line["due_time"].as_str().and_then(|due| due.parse().ok());
        if let Some(run) = self.run(line["retry_request_id"].as_str()) {
            run.due_at = due_at;
        }
    }

    /// How long after the beginning the circuit was in this state for the first time.
    pub fn first(&self, state: &str) -> Option<Duration> {
        self.turns.iter().find(|(_, turned)| turned == state).map(|(after, _)| *after)
    }

    /// How many of the target's events have failed.
    pub fn failed(&self) -> usize {
        self.failed.len()
    }

    /// How many of the target's events have not succeeded, if so many were sent, and of its neighbour's.
    pub fn missing(&self, sent: [usize; 2]) -> [usize; 2] {
        std::array::from_fn(|of| sent[of].saturating_sub(self.succeeded[of].len()))
    }

    /// How long after the target was up so many percent of its failed events had succeeded, or None if they have not.
    pub fn back_after(&self, percent: usize) -> Option<Duration> {
        let mut back: Vec<_> = self.failed.values().copied().flatten().collect();
        back.sort_unstable();
        let count = (self.failed.len() * percent).div_ceil(100);
        Some(since(self.up_at, *back.get(count.checked_sub(1)?)?))
    }

    pub fn lateness(&self) -> Lateness {
        let retries = self.runs.values().filter(|run| run.is_neighbours && run.is_retry);
        let times = retries.filter_map(|run| {
            let started_at = run.started_at?;
            Some((since(run.due_at?, started_at), since(run.accepted_at, started_at)))
        });
        let (mut in_all, mut at_lambda): (Vec<_>, Vec<_>) = times.unzip();
        in_all.sort_unstable();
        at_lambda.sort_unstable();
        let of_most = |sorted: &[Duration]| sorted.get(sorted.len() * 95 / 100).copied();
        Lateness {
            retries: in_all.len(),
            in_all: of_most(&in_all).unwrap_or_default(),
            at_lambda: of_most(&at_lambda).unwrap_or_default(),
        }
    }
}

fn since(from: At, to: At) -> Duration {
    (to - from).to_std().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP_AT: i64 = 100;

    fn at(second: i64) -> At {
        DateTime::from_timestamp(second, 0).unwrap()
    }

    fn tally() -> Tally {
        Tally::new(at(0), at(UP_AT))
    }

    fn note(tally: &mut Tally, second: i64, function: &str, kind: &str, members: &str) {
        let at = at(second).to_rfc3339();
        let text =
            format!(r#"{{"n":1,"at":"{at}","type":"{kind}","function":"{function}"{members}}}"#);
        tally.note(&serde_json::from_str(&text).unwrap());
    }

    /// A run that is accepted, started and finished at these seconds.
    fn run(tally: &mut Tally, function: &str, payload: &str, seconds: [i64; 3], outcome: &str) {
        let id = format!(r#","request_id":"{function}-{}""#, seconds[0]);
        let by = if payload.contains("_original") { r#","by":"retry-handler""# } else { "" };
        note(tally, seconds[0], function, "Accepted", &format!(r#"{id},"event":{payload}{by}"#));
        note(tally, seconds[1], function, "Started", &format!(r#"{id},"payload":{payload}"#));
        note(tally, seconds[2], function, "Finished", &format!(r#"{id},"outcome":"{outcome}""#));
    }

    fn retried(event: usize) -> String {
        format!(r#"{{"_retry_metadata":{{"attempt":1}},"_original_payload":{{"id":{event}}}}}"#)
    }

    fn logged(tally: &mut Tally, second: i64, line: &str) {
        let line = serde_json::to_string(line).unwrap();
        note(tally, second, HANDLER, "Logged", &format!(r#","line":{line}"#));
    }

    #[test]
    fn only_retries_of_the_function_that_is_down_are_made_in_vain() {
        let mut tally = tally();
        for (function, payload, second) in [
            (TARGET, r#"{"id":1}"#.to_owned(), 1),
            (TARGET, retried(1), 2),
            (NEIGHBOUR, retried(1), 3),
            (TARGET, retried(1), UP_AT - 1),
            (TARGET, retried(1), UP_AT),
        ] {
            run(&mut tally, function, &payload, [second; 3], "Failed");
        }
        assert_eq!((tally.retries_while_down, tally.failed()), (2, 1));
    }

    #[test]
    fn an_event_is_back_when_it_succeeds_for_the_first_time_and_what_never_failed_does_not_count() {
        let mut tally = tally();
        for event in 0..4 {
            run(&mut tally, TARGET, &format!(r#"{{"id":{event}}}"#), [event; 3], "Failed");
        }
        assert_eq!((tally.back_after(50), tally.missing([5, 0])), (None, [5, 0]));
        for (event, second) in [(0, 110), (1, 120), (0, 130), (2, 140)] {
            run(&mut tally, TARGET, &retried(event), [second; 3], "Succeeded");
        }
        run(&mut tally, TARGET, r#"{"id":4}"#, [101; 3], "Succeeded");
        let back_after = [25, 50, 75, 100].map(|percent| tally.back_after(percent));
        let expected = [Some(10), Some(20), Some(40), None];
        assert_eq!(back_after, expected.map(|second| second.map(Duration::from_secs)));
        assert_eq!(tally.missing([5, 0]), [1, 0]);
    }

    #[test]
    fn the_neighbours_lateness_is_counted_from_the_due_time_and_from_the_moment_of_acceptance() {
        let mut tally = tally();
        for (second, waits) in [(10, 3), (20, 4)] {
            run(&mut tally, NEIGHBOUR, &retried(1), [second, second + waits, 30], "Succeeded");
            let due = at(second - 2).to_rfc3339();
            let id = format!("{NEIGHBOUR}-{second}");
            let line =
                format!(r#"{{"decision":"invoke","due_time":"{due}","retry_request_id":"{id}"}}"#);
            logged(&mut tally, 30, &line);
        }
        // Its handler was killed before it could log when it was due.
        run(&mut tally, NEIGHBOUR, &retried(2), [40, 90, 99], "Succeeded");
        run(&mut tally, TARGET, &retried(3), [50, 90, 99], "Failed");
        let Lateness { retries, in_all, at_lambda } = tally.lateness();
        assert_eq!(
            (retries, in_all, at_lambda),
            (2, Duration::from_secs(6), Duration::from_secs(4))
        );
        assert_eq!(tally.missing([0, 3]), [0, 1]);
    }

    #[test]
    fn the_circuits_states_are_read_from_the_log_and_busy_processes_are_counted() {
        let mut tally = tally();
        logged(&mut tally, 1, "a line that is no JSON");
        for (second, state) in [(5, "suspected"), (65, "open"), (80, "probing"), (81, "open")] {
            logged(&mut tally, second, &format!(r#"{{"circuit":"{state}"}}"#));
        }
        note(&mut tally, 6, HANDLER, "Throttled", "");
        note(&mut tally, 6, TARGET, "Throttled", "");
        assert_eq!(tally.first("open"), Some(Duration::from_secs(65)));
        assert_eq!((tally.first("closed"), tally.turns.len(), tally.throttled), (None, 4, 1));
    }
}
