//! What became of the events: their runs, their ends, and what the notes in the ledger say about each run.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use comeback_local_client::journal::{Ending, Entry};
use end_to_end::retry_loop::{DeadLetter, HANDLER};
use serde_json::Value;

use super::events::{
    FUNCTIONS, MAX_ATTEMPTS, event_of, function_of, has_twin, is_permanent, payload,
};
use crate::run::Counts;

type Timestamp = chrono::DateTime<chrono::Utc>;

/// The shortest backoff. A record has the time of its failure in whole milliseconds.
const BACKOFF_MIN: Duration = Duration::from_millis(999);

/// One run of a function.
#[derive(Clone, Debug, Default)]
struct Run {
    function: Arc<str>,
    payload: String,
    started_at: Option<Timestamp>,
    ended: Option<(Timestamp, bool)>,
    /// The event that it is of, as its trace says.
    event: Option<usize>,
}

#[derive(Default)]
pub struct Tally {
    runs: HashMap<Arc<str>, Run>,
    accepted: usize,
    started: usize,
    running: usize,
    /// The failed runs whose records are in the batches that handlers have, by the request id of the handler's run.
    batches: HashMap<Arc<str>, Vec<String>>,
    /// The failed runs whose records were in a batch that was cut off.
    interrupted: HashSet<String>,
    crashed_batches: usize,
    /// The events that have succeeded, or were given up, and why.
    succeeded: BTreeSet<usize>,
    dead: BTreeMap<usize, String>,
    ends: BTreeSet<usize>,
    letters: Vec<DeadLetter>,
}

impl Counts for Tally {
    fn note(&mut self, entry: &Entry) {
        let Some(request_id) = entry.request_id.clone() else { return };
        if *entry.function == *HANDLER {
            self.note_handler(entry, request_id);
        } else if FUNCTIONS.contains(&&*entry.function) {
            self.note_run(entry, request_id);
        }
    }

    fn dead_lettered(&mut self, letter: &DeadLetter) {
        self.letters.push(letter.clone());
    }

    fn settled(&self) -> usize {
        self.ends.len()
    }

    fn is_idle(&self) -> bool {
        self.running == 0 && self.accepted == self.started
    }
}

impl Tally {
    fn note_handler(&mut self, entry: &Entry, request_id: Arc<str>) {
        if let Some(payload) = &entry.payload {
            let event: Value = serde_json::from_str(payload.get()).unwrap();
            let records = event["Records"].as_array().into_iter().flatten();
            let bodies = records.filter_map(|record| {
                let body: Value = serde_json::from_str(record["body"].as_str()?).ok()?;
                Some(body["requestContext"]["requestId"].as_str()?.to_owned())
            });
            self.batches.insert(request_id, bodies.collect());
        } else if let Some(outcome) = entry.outcome {
            let batch = self.batches.remove(&request_id).unwrap_or_default();
            if outcome != Ending::Succeeded {
                self.crashed_batches += 1;
                self.interrupted.extend(batch);
            }
        } else if let Some(line) = &entry.line
            && line.contains(r#""decision":"dead_letter""#)
        {
            let line: Value = serde_json::from_str(line).unwrap();
            if let (Some(event), true) =
                (line["trace"].as_str().and_then(event_of), line["error"].is_null())
            {
                self.ends.insert(event);
                self.dead.insert(event, line["reason"].as_str().unwrap_or_default().to_owned());
            }
        }
    }

    fn note_run(&mut self, entry: &Entry, request_id: Arc<str>) {
        if entry.kind == "Accepted" {
            self.accepted += 1;
            return;
        }
        if let Some(payload) = &entry.payload {
            self.started += 1;
            self.running += 1;
            let run = self.runs.entry(Arc::clone(&request_id)).or_default();
            run.function = Arc::clone(&entry.function);
            payload.get().clone_into(&mut run.payload);
            run.started_at = Some(entry.at);
        } else if let Some(outcome) = entry.outcome {
            self.running -= 1;
            let run = self.runs.entry(Arc::clone(&request_id)).or_default();
            run.ended = Some((entry.at, outcome == Ending::Succeeded));
        } else if let Some(line) = &entry.line
            && let Ok(said) = serde_json::from_str::<Value>(line)
            && let (Some(of), Some(trace)) = (said["run"].as_str(), said["trace"].as_str())
        {
            // A line may be read only when the function has its next event.
            self.runs.entry(of.into()).or_default().event = event_of(trace);
            return self.ended(of);
        }
        self.ended(&request_id);
    }

    fn ended(&mut self, request_id: &str) {
        if let Some(Run { event: Some(event), ended: Some((_, true)), .. }) =
            self.runs.get(request_id)
        {
            self.succeeded.insert(*event);
            self.ends.insert(*event);
        }
    }
}

/// What became of all events.
#[derive(Debug, Default)]
pub struct Judged {
    pub lost: Vec<usize>,
    pub succeeded: usize,
    pub dead: BTreeMap<String, usize>,
    pub twins: usize,
    pub runs: usize,
    /// The runs that repeated an attempt.
    pub doubles: usize,
    /// Ends of events that had already ended.
    pub duplicate_ends: usize,
    /// The notes that say what they must.
    pub exact: usize,
    pub crashed_batches: usize,
    /// Descriptions of what went wrong.
    pub faults: Vec<String>,
}

/// The runs of one event, in order.
type Runs<'t> = Vec<(&'t str, &'t Run)>;

impl Tally {
    /// Compares what happened with what the notes say.
    pub fn judge(&self, events: usize, notes: &HashMap<String, Value>) -> Judged {
        let mut judged = Judged {
            lost: (0..events).filter(|event| !self.ends.contains(event)).collect(),
            succeeded: self.succeeded.len(),
            twins: (0..events).filter(|event| has_twin(*event)).count(),
            runs: self.runs.len(),
            crashed_batches: self.crashed_batches,
            ..Judged::default()
        };
        let only_dead = self.dead.iter().filter(|(event, _)| !self.succeeded.contains(event));
        only_dead.for_each(|(_, reason)| *judged.dead.entry(reason.clone()).or_default() += 1);
        let mut runs: Vec<Runs<'_>> = vec![Vec::new(); events];
        for (id, run) in &self.runs {
            match run.event.and_then(|event| runs.get_mut(event)) {
                Some(of_event) => of_event.push((id, run)),
                None => judged.faults.push(format!("run {id} is of no event: {run:?}")),
            }
        }
        runs.iter_mut()
            .for_each(|runs| runs.sort_unstable_by_key(|(id, run)| (run.started_at, *id)));
        for event in 0..events {
            self.judge_event(event, &runs, notes, &mut judged);
        }
        self.judge_letters(&runs, &mut judged);
        judged
    }

    fn judge_event(
        &self,
        event: usize,
        runs: &[Runs<'_>],
        notes: &HashMap<String, Value>,
        judged: &mut Judged,
    ) {
        let own = &runs[event];
        let [(first_id, first), retries @ ..] = &own[..] else { return };
        for (id, run) in own {
            if run.payload != payload(event) || *run.function != *function_of(event) {
                let Run { function, payload, .. } = run;
                judged.faults.push(format!("event {event}: {id} ran {function} with {payload}"));
            }
        }
        // The attempts that were made, and when each has failed.
        let mut made: Vec<(u64, Option<Timestamp>)> = vec![(0, failed_at(first))];
        let mut doubles = 0;
        for (id, run) in retries {
            let Some(note) = notes.get(*id) else {
                // Its sender died. The next one has sent the same again.
                doubles += 1;
                if failed_at(run).is_some() {
                    judged.faults.push(format!("event {event}: {id} was taken for a first run"));
                }
                continue;
            };
            let attempt = note["attempt"].as_u64().unwrap_or_default();
            let (of, since) = (&note["request_id"], &note["initial_timestamp"]);
            if of != first_id {
                judged.faults.push(format!("event {event}: {id} is noted as of {of}"));
                continue;
            }
            let first_failure = failed_at(first).map(|at| at.timestamp());
            let follows = |(before, failed): &(u64, Option<Timestamp>)| {
                let since = failed.map(|at| at + BACKOFF_MIN);
                before + 1 == attempt && since.is_some_and(|since| Some(since) <= run.started_at)
            };
            if since.as_i64() != first_failure || !made.iter().any(follows) {
                judged.faults.push(format!(
                    "event {event}: {id} is noted as {note}, after {made:?}, first failed {first_failure:?}"
                ));
            } else {
                judged.exact += 1;
            }
            doubles += usize::from(made.iter().any(|(before, _)| *before == attempt));
            made.push((attempt, failed_at(run)));
        }
        judged.doubles += doubles;
        let was_cut_off = own.iter().any(|(id, _)| self.interrupted.contains(*id));
        if doubles > 0 && !was_cut_off {
            judged.faults.push(format!("event {event}: {doubles} doubles without a kill: {own:?}"));
        }
        let all_failed = u64::from(MAX_ATTEMPTS);
        let is_early = match self.dead.get(&event).map(String::as_str) {
            None => false,
            Some("not_retryable") => !is_permanent(event),
            Some("max_attempts_exceeded") => {
                is_permanent(event) || !made.iter().any(|it| it.0 == all_failed && it.1.is_some())
            }
            Some(_) => true,
        };
        if is_early {
            let reason = &self.dead[&event];
            judged.faults.push(format!("event {event}: {reason} after {made:?}"));
        }
    }

    fn judge_letters(&self, runs: &[Runs<'_>], judged: &mut Judged) {
        let firsts =
            runs.iter().enumerate().filter_map(|(event, runs)| Some((runs.first()?.0, event)));
        let firsts: HashMap<_, _> = firsts.collect();
        let mut ended = self.succeeded.clone();
        for letter in &self.letters {
            let said = |name: &str| letter.attributes.get(name).map_or("", String::as_str);
            let id = said("RequestId");
            let Some(&event) = firsts.get(id) else {
                judged.faults.push(format!("a dead letter of no event: {letter:?}"));
                continue;
            };
            judged.duplicate_ends += usize::from(!ended.insert(event));
            let first_failure = runs[event].first().and_then(|(_, run)| failed_at(run));
            let since = said("FirstFailureAt").parse::<Timestamp>().ok();
            let attempts = if is_permanent(event) { 0 } else { MAX_ATTEMPTS };
            let is_right = letter.body == payload(event)
                && said("Attempts") == attempts.to_string()
                && since.map(|at| at.timestamp()) == first_failure.map(|at| at.timestamp());
            if !is_right {
                judged.faults.push(format!(
                    "event {event}, first failed {first_failure:?}: a wrong dead letter {letter:?}"
                ));
            }
        }
        let letters = self.letters.len();
        if letters < self.dead.len() {
            judged.faults.push(format!("{letters} dead letters of {} events", self.dead.len()));
        }
    }
}

fn failed_at(run: &Run) -> Option<Timestamp> {
    run.ended.filter(|(_, is_success)| !is_success).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::transparent::events::trace;

    /// An event without a twin that always fails, and one with a twin.
    const ALONE: usize = 32;
    const PAIR: [usize; 2] = [16, 17];

    #[derive(Default)]
    struct Told {
        tally: Tally,
        notes: HashMap<String, Value>,
    }

    impl Told {
        fn entry(&mut self, function: &str, run: &str, second: u32, members: Value) {
            let at = format!("1970-01-01T00:00:{second:02}Z");
            let mut entry = json!({ "n": 1, "at": at, "function": function, "request_id": run });
            entry.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
            self.tally.note(&serde_json::from_str(&entry.to_string()).unwrap());
        }

        /// A run of this event in this second, which fails.
        fn fails(&mut self, event: usize, run: &str, second: u32) -> &mut Self {
            let function = function_of(event);
            let text = format!(
                r#"{{"n":1,"at":"1970-01-01T00:00:{second:02}Z","type":"Started","function":"{function}","request_id":"{run}","payload":{}}}"#,
                payload(event)
            );
            self.tally.note(&serde_json::from_str(&text).unwrap());
            let line = json!({ "run": run, "trace": trace(event) }).to_string();
            self.entry(function, run, second, json!({ "type": "Logged", "line": line }));
            let failed = json!({ "type": "Finished", "outcome": "Failed", "response": null });
            self.entry(function, run, second, failed);
            self
        }

        fn noted(&mut self, run: &str, attempt: u32, of: &str, since: i64) -> &mut Self {
            let note = json!({ "attempt": attempt, "request_id": of, "initial_timestamp": since });
            self.notes.insert(run.to_owned(), note);
            self
        }

        /// A handler is killed that has the record of this run.
        fn cut_off(&mut self, run: &str) -> &mut Self {
            let body = json!({ "requestContext": { "requestId": run } }).to_string();
            let payload = json!({ "Records": [{ "body": body }] });
            self.entry(HANDLER, "h", 1, json!({ "type": "Started", "payload": payload }));
            let crashed = json!({ "type": "Finished", "outcome": "Crashed", "response": null });
            self.entry(HANDLER, "h", 1, crashed);
            self
        }

        fn judge(&self) -> Judged {
            self.tally.judge(40, &self.notes)
        }
    }

    #[test]
    fn a_note_with_a_wrong_attempt_age_or_event_is_a_fault_and_a_right_one_is_exact() {
        for (attempt, of, since, is_right) in [
            (1, "first", 10, true),
            (2, "first", 10, false),
            (1, "first", 11, false),
            (1, "another", 10, false),
        ] {
            let mut told = Told::default();
            told.fails(ALONE, "first", 10).fails(ALONE, "second", 12);
            let judged = told.noted("second", attempt, of, since).judge();
            assert_eq!(judged.faults.is_empty(), is_right, "{:?}", judged.faults);
            assert_eq!(judged.exact, usize::from(is_right));
            assert!(judged.lost.contains(&ALONE));
        }
        let mut early = Told::default();
        early.fails(ALONE, "first", 10).fails(ALONE, "second", 10).noted("second", 1, "first", 10);
        assert_eq!(early.judge().faults.len(), 1, "before its backoff was over");
    }

    #[test]
    fn doubles_are_faults_unless_a_handler_was_killed_that_had_the_event() {
        let mut told = Told::default();
        told.fails(ALONE, "first", 10).fails(ALONE, "second", 12).fails(ALONE, "third", 14);
        told.noted("second", 1, "first", 10).noted("third", 1, "first", 10);
        assert_eq!((told.judge().doubles, told.judge().faults.len()), (1, 1));
        assert_eq!(told.cut_off("first").judge().faults, [""; 0]);
    }

    #[test]
    fn a_retry_that_is_taken_for_its_twins_or_for_a_first_run_is_a_fault_even_after_a_kill() {
        let [one, other] = PAIR;
        let mut told = Told::default();
        told.fails(one, "one", 10).fails(other, "other", 10).fails(other, "again", 12);
        told.cut_off("other");
        assert_eq!(told.judge().faults.len(), 1);
        assert_eq!(told.noted("again", 1, "one", 10).judge().faults.len(), 1);
        assert_eq!(told.noted("again", 1, "other", 10).judge().faults, [""; 0]);
    }
}
