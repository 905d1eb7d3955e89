//! Turns the local cloud's journal into activity that a person can follow.
//!
//! The journal lists runs of functions and their log lines. The envelope in a payload identifies the event and the
//! attempt of a run. The structured log of the retry handler has its decisions, and names the event of each run that
//! the handler has started. Without an envelope, what happens to such a run is held back until a line names its event,
//! which is a few milliseconds later: the handler writes the line when Lambda has accepted the run.

pub mod runs;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use comeback_core::Timestamp;
use comeback_local::model::polling::failures;
use comeback_local_client::{
    deploy::HANDLER,
    journal::{Ending, Entry},
};
use serde::Deserialize;

use crate::{
    account::names::target_name,
    activity::runs::Run,
    events_of_runs::{EventsOfRuns, Of, RUNS_MAX},
    life::{Line, StepKind, step_kind},
};

#[derive(Clone, Debug, PartialEq)]
pub struct Activity {
    pub at: Timestamp,
    pub function: Arc<str>,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Lambda has accepted an event: it is queued there for its run.
    Accepted(Run),
    Started(Run),
    /// A run ended. The error is as the function reported it, or Lambda if the function could not.
    Ended {
        run: Run,
        ending: Ending,
        error: Option<Error>,
    },
    /// Lambda gave an event up. It is lost if it has no destination. `run` is the run that Lambda had queued and
    /// did not make.
    GivenUpByLambda {
        request_id: Arc<str>,
        run: Option<Run>,
        condition: String,
        lost: bool,
    },
    /// The retry handler carried out a decision about the event with this request id of its first failed invocation.
    Decided {
        event_id: Arc<str>,
        /// The next attempt, if it is known yet.
        attempt: Option<u32>,
        what: StepKind,
    },
    /// A function logged a line that is neither a decision nor a problem.
    Logged(String),
    /// A warning or an error, of a function or of Lambda, and the event that it is about.
    Trouble {
        event_id: Option<Arc<str>>,
        text: String,
    },
}

impl Activity {
    /// The same activity of a run whose event was not known before.
    fn joined(mut self, of: &Of) -> Self {
        match &mut self.kind {
            Kind::Accepted(run)
            | Kind::Started(run)
            | Kind::Ended { run, .. }
            | Kind::GivenUpByLambda { run: Some(run), .. } => run.join(of),
            Kind::Decided { event_id, .. } | Kind::Trouble { event_id: Some(event_id), .. } => {
                *event_id = Arc::clone(&of.event_id);
            }
            Kind::GivenUpByLambda { run: None, .. }
            | Kind::Logged(_)
            | Kind::Trouble { event_id: None, .. } => {}
        }
        self
    }
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct Error {
    #[serde(rename = "errorType")]
    pub kind: Option<String>,
    #[serde(rename = "errorMessage", default)]
    pub message: String,
}

/// Reads a journal in which a run of a queue's consumer counts as one run for each message of its batch.
#[derive(Debug, Default)]
pub struct Reader {
    /// The runs that are queued or go on, by request id: one, or one for each message of a batch.
    running: HashMap<Arc<str>, Vec<Run>>,
    /// The request ids of the latest runs, in the order in which they were accepted or began. If [`RUNS_MAX`] others
    /// are accepted or begin while a run goes on, its end is not reported.
    known: VecDeque<Arc<str>>,
    /// The events of the handler's retries, and what has happened to each whose event is not known yet.
    retries: EventsOfRuns<Activity>,
}

impl Reader {
    /// Reads the next entry of the journal. Entries that are of no interest to a person are no activity.
    pub fn read(&mut self, entry: &Entry) -> Vec<Activity> {
        let line = entry.line.as_deref().and_then(structured);
        let is_of_handler = *entry.function == *HANDLER;
        let mut activities = Vec::new();
        if let Some(line) = line.as_ref().filter(|_| is_of_handler) {
            for (run, of, held) in self.retries.learn(line) {
                self.running.get_mut(&run).into_iter().flatten().for_each(|run| run.join(&of));
                activities.extend(held.into_iter().map(|activity| activity.joined(&of)));
            }
        }
        // The run that the entry is about.
        let run = match &line {
            Some(Line { event_id: None, request_id, .. }) if is_of_handler => {
                request_id.as_deref().map(Arc::from)
            }
            _ => entry.request_id.clone(),
        };
        let kinds = self.kinds(entry, line).unwrap_or_default().into_iter();
        let activity =
            |kind| Activity { at: entry.at, function: Arc::clone(&entry.function), kind };
        let is_awaited = |run: &Arc<str>| self.retries.is_awaited(run);
        let held = run.filter(is_awaited).and_then(|run| self.retries.awaits(&run));
        held.unwrap_or(&mut activities).extend(kinds.map(activity));
        activities
    }

    fn kinds(&mut self, entry: &Entry, line: Option<Line>) -> Option<Vec<Kind>> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let kind = match entry.kind.as_str() {
            "Accepted" => return self.known(entry, Kind::Accepted),
            "Started" => return self.known(entry, Kind::Started),
            "Finished" => return self.ended(entry),
            "GivenUp" => {
                let request_id = entry.request_id.clone()?;
                let run = self.running.remove(&request_id).and_then(|runs| runs.into_iter().next());
                let (condition, lost) = (text(&entry.condition), entry.lost?);
                Kind::GivenUpByLambda { request_id, run, condition, lost }
            }
            "Logged" => self.logged(entry, line)?,
            "DestinationFailed" => {
                let (destination, reason) = (text(&entry.destination), text(&entry.reason));
                self.trouble(
                    entry,
                    format!("its failure record did not reach {destination}: {reason}"),
                )
            }
            "Undelivered" => {
                let (source, reason) = (text(&entry.source), text(&entry.reason));
                let lost = if entry.lost == Some(true) { ", and is lost" } else { "" };
                self.trouble(
                    entry,
                    format!("an event of {source} was not delivered{lost}: {reason}"),
                )
            }
            "RecursionStopped" => {
                self.trouble(entry, "recursive-loop detection stopped it".to_owned())
            }
            // Throttled, DestinationSent, and types that the journal may get in future.
            _ => return None,
        };
        Some(vec![kind])
    }

    /// Tracks the runs of an entry, which are `kind`.
    fn known(&mut self, entry: &Entry, kind: fn(Run) -> Kind) -> Option<Vec<Kind>> {
        let (request_id, mut runs) = (entry.request_id.clone()?, runs(entry)?);
        if let (Some(of), [run]) = (self.retries.get(&request_id), &mut *runs) {
            run.join(of);
        } else if entry.by.as_deref() == Some(HANDLER) && runs.iter().all(Run::is_nameless) {
            self.retries.awaits(&request_id);
        } else if let ("Accepted", [run]) = (entry.kind.as_str(), &*runs) {
            self.retries.know(&request_id, run.of());
        }
        if self.running.insert(Arc::clone(&request_id), runs.clone()).is_none() {
            self.known.push_back(request_id);
        }
        if self.known.len() > RUNS_MAX
            && let Some(oldest) = self.known.pop_front()
        {
            self.running.remove(&oldest);
        }
        Some(runs.into_iter().map(kind).collect())
    }

    /// Trouble of Lambda's with an event, whose run may have ended before.
    fn trouble(&self, entry: &Entry, text: String) -> Kind {
        let run = || self.running.get(entry.request_id.as_ref()?)?.first();
        let event_id = run().map(|run| Arc::clone(&run.event_id));
        Kind::Trouble { event_id: event_id.or_else(|| entry.request_id.clone()), text }
    }

    fn logged(&self, entry: &Entry, line: Option<Line>) -> Option<Kind> {
        let text = entry.line.as_ref()?;
        if serde_json::from_str::<Metrics>(text).is_ok() {
            return None;
        }
        let Some(mut line) = line else { return Some(Kind::Logged(text.clone())) };
        // Until its event is known, a run is shown under its own id.
        let event_id = self.retries.event_of(&line).or(line.request_id.as_deref());
        line.event_id = event_id.map(str::to_owned);
        Some(decided(entry.at, &line).unwrap_or_else(|| plain(line)))
    }

    fn ended(&mut self, entry: &Entry) -> Option<Vec<Kind>> {
        let runs = self.running.remove(entry.request_id.as_ref()?)?;
        let (ending, response) = (entry.outcome?, entry.response.as_ref()?.get());
        let error = (ending != Ending::Succeeded).then(|| error(response));
        let is_batch = runs.iter().any(|run| run.queue.is_some());
        let has = |id: &str| runs.iter().any(|run| *run.request_id == *id);
        let failed = if is_batch { failures(response.as_bytes(), has) } else { Some(Vec::new()) };
        let ended = |run: &Run| {
            let is_failed = failed
                .as_ref()
                .is_none_or(|failed| failed.iter().any(|id| **id == *run.request_id));
            let error = error.clone().or(is_failed.then(Error::default));
            Kind::Ended { run: run.clone(), ending, error }
        };
        Some(runs.iter().map(ended).collect())
    }
}

/// The runs that begin: one, or one for each message of the batch that a queue's consumer is given.
fn runs(entry: &Entry) -> Option<Vec<Run>> {
    let payload = entry.payload.as_ref().or(entry.event.as_ref())?.get();
    // The handler's batches are of failures, not of a queue's events.
    let batch = (*entry.function != *HANDLER).then(|| runs::of_batch(payload)).flatten();
    match batch {
        Some(runs) => Some(runs),
        None => Some(vec![runs::of_event(entry.request_id.clone()?, payload)]),
    }
}

fn error(response: &str) -> Error {
    serde_json::from_str(response)
        .unwrap_or_else(|_| Error { kind: None, message: response.to_owned() })
}

/// A log line with embedded metrics. It is dropped, because other lines report the same events.
#[derive(Deserialize)]
struct Metrics {
    #[serde(rename = "_aws")]
    _aws: serde::de::IgnoredAny,
}

fn structured(text: &str) -> Option<Line> {
    let line = serde_json::from_str::<Line>(text).ok();
    line.filter(|line| !line.level.is_empty() && !line.message.is_empty())
}

/// The decision in a log line, or None if the handler couldn't carry it out.
fn decided(at: Timestamp, line: &Line) -> Option<Kind> {
    let mut what = step_kind(at, line);
    match &mut what {
        StepKind::Waits { .. } | StepKind::Retried { .. } | StepKind::Delivered { .. } => {}
        StepKind::GivenUp { reason } => {
            // No other line has the full id of an unreadable message.
            let why = line.why.as_ref().zip(line.message_id.as_ref());
            why.into_iter().for_each(|(why, id)| *reason += &format!(": {why}, message {id}"));
        }
        StepKind::Failed { .. }
        | StepKind::NotRun { .. }
        | StepKind::Undelivered { .. }
        | StepKind::Succeeded
        | StepKind::Dropped
        | StepKind::Trouble { .. } => return None,
    }
    // An unreadable message has no request id, so its message id is used.
    let event_id = line.event_id.as_deref().or(line.message_id.as_deref())?.into();
    Some(Kind::Decided { event_id, attempt: line.attempt, what })
}

fn plain(line: Line) -> Kind {
    let event_id = line.event_id.as_deref().map(Into::into);
    let target = line.target.as_deref().map(target_name);
    let parts = [target.as_deref(), Some(&*line.message), line.error.as_deref()];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join(": ");
    match line.level.as_str() {
        "WARN" | "ERROR" => Kind::Trouble { event_id, text },
        _ => Kind::Logged(text),
    }
}

pub fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

pub fn run_name(attempt: u32) -> String {
    match attempt {
        0 => "the first run".to_owned(),
        attempt => format!("attempt {attempt}"),
    }
}

/// The failure of a run, as the predicate of a sentence.
pub fn failure(ending: Ending, error: &Error) -> String {
    let Error { kind, message } = error;
    match (ending, kind) {
        (Ending::Crashed, _) => format!("crashes: {message}"),
        (Ending::TimedOut, _) => "is killed at its time-out".to_owned(),
        (Ending::InitFailed, _) => format!("does not start: {message}"),
        (Ending::Failed | Ending::Succeeded, Some(kind)) if message.is_empty() => {
            format!("fails: {kind}")
        }
        (Ending::Failed | Ending::Succeeded, Some(kind)) => format!("fails: {kind}: {message}"),
        (Ending::Failed | Ending::Succeeded, None) if message.is_empty() => "fails".to_owned(),
        (Ending::Failed | Ending::Succeeded, None) => format!("fails: {message}"),
    }
}

#[cfg(test)]
pub mod tests {
    use comeback_core::{
        envelope::METADATA,
        time::{later, rfc3339},
    };
    use serde_json::{Value, json};

    use super::*;

    /// A time in seconds from the start of a test's journal.
    pub fn at(seconds: f64) -> Timestamp {
        later(Timestamp::UNIX_EPOCH, Duration::from_secs_f64(seconds))
    }

    pub fn entry(seconds: f64, function: &str, kind: &str, mut members: Value) -> Entry {
        members["n"] = json!(1);
        members["at"] = json!(rfc3339(at(seconds)));
        members["function"] = json!(function);
        members["type"] = json!(kind);
        serde_json::from_str(&members.to_string()).unwrap()
    }

    pub fn starts(seconds: f64, request_id: &str, event_id: &str, attempt: u32) -> Entry {
        let metadata =
            json!({ "attempt": attempt, "initial_timestamp": 1, "request_id": event_id });
        let payload = match attempt {
            0 => json!({ "id": 1.0 }),
            _ => json!({ "_retry_metadata": metadata, "_original_payload": { "id": 1.0 } }),
        };
        let members = json!({ "request_id": request_id, "payload": payload });
        entry(seconds, "example-target", "Started", members)
    }

    /// Lambda accepts an event without an envelope from this function.
    pub fn accepts(seconds: f64, request_id: &str, by: &str) -> Entry {
        let members = json!({ "request_id": request_id, "event": { "id": 1.0 }, "by": by });
        entry(seconds, "example-target", "Accepted", members)
    }

    pub fn finishes(seconds: f64, request_id: &str, outcome: &str, response: &Value) -> Entry {
        let members = json!({ "request_id": request_id, "outcome": outcome, "response": response });
        entry(seconds, "example-target", "Finished", members)
    }

    pub fn fails(seconds: f64, request_id: &str) -> Entry {
        let error = json!({ "errorType": "UpstreamUnavailable", "errorMessage": "503" });
        finishes(seconds, request_id, "Failed", &error)
    }

    pub fn ends(seconds: f64, request_id: &str) -> Entry {
        finishes(seconds, request_id, "Succeeded", &Value::Null)
    }

    pub fn logs(seconds: f64, function: &str, line: &str) -> Entry {
        entry(seconds, function, "Logged", json!({ "request_id": null, "line": line }))
    }

    pub fn decides(seconds: f64, event_id: &str, mut line: Value) -> Entry {
        line["level"] = json!("INFO");
        line["message"] = json!("said");
        line["request_id"] = json!(format!("last of {event_id}"));
        line["event_id"] = json!(event_id);
        logs(seconds, HANDLER, &line.to_string())
    }

    pub fn waits(seconds: f64, event_id: &str, attempt: u32, due: f64, delay: f64) -> Entry {
        let due = rfc3339(at(due));
        let wait = json!({ "decision": "wait", "attempt": attempt, "due_time": due, "delay_seconds": delay });
        decides(seconds, event_id, wait)
    }

    pub fn retries(seconds: f64, event_id: &str, attempt: u32, late_ms: u64) -> Entry {
        let invoke = json!({ "decision": "invoke", "attempt": attempt, "lateness_ms": late_ms });
        decides(seconds, event_id, invoke)
    }

    pub fn gives_up(seconds: f64, event_id: &str, reason: &str) -> Entry {
        decides(seconds, event_id, json!({ "decision": "dead_letter", "reason": reason }))
    }

    pub fn read(entries: &[Entry]) -> Vec<Activity> {
        let mut reader = Reader::default();
        entries.iter().flat_map(|entry| reader.read(entry)).collect()
    }

    fn kinds(entries: &[Entry]) -> Vec<Kind> {
        read(entries).into_iter().map(|activity| activity.kind).collect()
    }

    fn error(kind: Option<&str>, message: &str) -> Error {
        Error { kind: kind.map(str::to_owned), message: message.to_owned() }
    }

    #[test]
    fn a_run_of_a_queues_consumer_is_a_run_of_each_message() {
        let retried = r#"{"attempt":2,"initial_timestamp":1,"request_id":"m0"}"#;
        let message = |id: &str, attributes: Value| {
            json!({
                "messageId": id, "eventSourceARN": "arn:q", "messageAttributes": attributes,
            })
        };
        let attributes =
            json!({ METADATA: { "stringValue": retried }, "key": { "binaryValue": "AA==" } });
        let batch = json!({ "Records": [message("m1", json!({})), message("m2", attributes)] });
        let started = |function| {
            entry(0.0, function, "Started", json!({ "request_id": "r", "payload": batch }))
        };
        let run = |request_id: &str, attempt, event_id: &str| Run {
            request_id: request_id.into(),
            attempt,
            event_id: event_id.into(),
            queue: Some("arn:q".into()),
        };
        let runs = [run("m1", 0, "m1"), run("m2", 2, "m0")];
        let down = json!({ "errorMessage": "down" });
        let second = json!({ "batchItemFailures": [{ "itemIdentifier": "m2" }] });
        for (outcome, response, ending, errors) in [
            ("Succeeded", &Value::Null, Ending::Succeeded, [None, None]),
            ("Succeeded", &second, Ending::Succeeded, [None, Some("")]),
            ("Succeeded", &json!(7), Ending::Succeeded, [Some(""), Some("")]),
            ("Crashed", &down, Ending::Crashed, [Some("down"), Some("down")]),
        ] {
            let read = kinds(&[started("importer"), finishes(1.0, "r", outcome, response)]);
            let ended = runs.iter().zip(errors).map(|(run, message)| {
                let error = message.map(|message| error(None, message));
                Kind::Ended { run: run.clone(), ending, error }
            });
            let expected: Vec<_> = runs.iter().cloned().map(Kind::Started).chain(ended).collect();
            assert_eq!(read, expected, "{response}");
        }
        assert_eq!(kinds(&[started(HANDLER), ends(1.0, "r")]).len(), 2, "of the handler's batch");
    }

    #[test]
    fn an_envelope_names_the_event_of_a_run_unless_it_is_nameless() {
        let nameless = json!({ "attempt": 3, "initial_timestamp": 1 });
        let payload = json!({ "_retry_metadata": nameless, "_original_payload": {} });
        let members = json!({ "request_id": "r2", "payload": payload });
        for (entry, event, attempt) in [
            (starts(0.0, "r2", "r1", 3), "r1", 3),
            (starts(0.0, "r2", "r2", 0), "r2", 0),
            (entry(0.0, "f", "Started", members), "r2", 3),
        ] {
            let event_id = event.into();
            let run = Run { request_id: "r2".into(), attempt, event_id, queue: None };
            assert_eq!(kinds(&[entry]), [Kind::Started(run)]);
        }
    }

    /// What the handler says of a run before it knows the event.
    fn unknown(seconds: f64, request_id: &str) -> Entry {
        let line = json!({
            "level": "INFO", "message": "waits", "decision": "wait", "delay_seconds": 20.0,
            "request_id": request_id,
        });
        logs(seconds, HANDLER, &line.to_string())
    }

    /// The kind of each activity, with the event and the attempt if it is about a run.
    fn told(entries: &[Entry]) -> Vec<String> {
        let named = |run: &Run| format!("{} {}", run.event_id, run.attempt);
        let told = |kind| match kind {
            Kind::Accepted(run) => format!("accepted {}", named(&run)),
            Kind::Started(run) => format!("started {}", named(&run)),
            Kind::Ended { run, .. } => format!("ended {}", named(&run)),
            Kind::GivenUpByLambda { run, .. } => {
                format!("given up {}", run.as_ref().map(named).unwrap_or_default())
            }
            Kind::Decided { event_id, .. } => format!("decided {event_id}"),
            Kind::Logged(text) => format!("logged {text}"),
            Kind::Trouble { event_id, .. } => format!("trouble {}", event_id.unwrap()),
        };
        kinds(entries).into_iter().map(told).collect()
    }

    #[test]
    fn the_run_that_a_delivery_starts_is_the_first_of_its_own_event() {
        let invoke = json!({
            "decision": "invoke", "attempt": 1, "lateness_ms": 1, "retry_request_id": "r2",
            "source_arn": "arn:aws:events:us-east-1:1:rule/links",
        });
        let run = [accepts(0.0, "r2", HANDLER), starts(0.1, "r2", "r2", 0)];
        let delivered = [decides(0.2, "r0", invoke)];
        let own = ["accepted r2 0", "started r2 0"];
        assert_eq!(told(&[&run[..], &delivered].concat()), [&own[..], &["decided r0"]].concat());
        assert_eq!(told(&[&delivered[..], &run].concat()), [&["decided r0"], &own[..]].concat());
    }

    #[test]
    fn a_retry_without_an_envelope_is_held_back_until_a_line_names_its_event() {
        let retried = |seconds| {
            let invoke = json!({
                "decision": "invoke", "attempt": 2, "lateness_ms": 1, "retry_request_id": "r2",
            });
            decides(seconds, "r0", invoke)
        };
        let before = [
            accepts(0.0, "r2", HANDLER),
            starts(0.1, "r2", "r2", 0),
            logs(0.1, "f", "of another run"),
            fails(0.2, "r2"),
            unknown(0.3, "r2"),
        ];
        assert_eq!(told(&before), ["logged of another run"]);
        let held = ["accepted r0 2", "started r0 2", "ended r0 2", "decided r0"];
        let named = told(&[&before[..], &[retried(0.4)]].concat());
        assert_eq!(named, [&["logged of another run"], &held[..], &["decided r0"]].concat());
        // The handler has died before it wrote that line, and the failure of the run says what it is.
        let died = told(&[&before[..], &[waits(0.4, "r0", 3, 1.0, 1.0)]].concat());
        assert_eq!(died, ["logged of another run", "decided r0"], "a line about another run");
        let mut own = waits(0.4, "r0", 3, 1.0, 1.0);
        own.line = own.line.map(|line| line.replace("last of r0", "r2"));
        let own = told(&[&before[..], &[own]].concat());
        assert_eq!(own, named);
    }

    #[test]
    fn whatever_lambda_does_with_a_retry_without_an_envelope_is_of_its_event() {
        let invoke = json!({
            "decision": "invoke", "attempt": 2, "lateness_ms": 1, "retry_request_id": "r2",
        });
        let given_up = |lost| {
            let members =
                json!({ "request_id": "r2", "condition": "EventAgeExceeded", "lost": lost });
            entry(9.0, "example-target", "GivenUp", members)
        };
        let (accepted, retried) = (accepts(0.0, "r2", HANDLER), decides(0.1, "r0", invoke));
        // Lambda's own retry has the same request id.
        let runs = [starts(1.0, "r2", "r2", 0), fails(2.0, "r2")];
        let refused = json!({ "request_id": "r2", "destination": "q", "reason": "gone" });
        let all = [
            vec![accepted.clone(), retried.clone()],
            [runs.clone(), runs].concat(),
            vec![unknown(3.0, "r2")],
        ];
        let expected = [
            "accepted r0 2",
            "decided r0",
            "started r0 2",
            "ended r0 2",
            "started r0 2",
            "ended r0 2",
            "decided r0",
        ];
        assert_eq!(told(&all.concat()), expected);
        let never = [accepted, retried, given_up(false)];
        assert_eq!(told(&never), ["accepted r0 2", "decided r0", "given up r0 2"]);
        let unsent = [
            accepts(0.0, "r2", HANDLER),
            entry(1.0, "example-target", "DestinationFailed", refused),
        ];
        assert_eq!(told(&unsent), [""; 0]);
    }

    #[test]
    fn an_event_that_another_function_sends_is_an_event_and_so_is_a_line_about_its_first_failure() {
        let sent = [
            accepts(0.0, "r2", "another"),
            starts(0.1, "r2", "r2", 0),
            fails(0.2, "r2"),
            unknown(0.3, "r2"),
        ];
        assert_eq!(told(&sent), ["accepted r2 0", "started r2 0", "ended r2 0", "decided r2"]);
    }

    #[test]
    fn an_event_that_lambda_never_ran_is_named_when_lambda_gives_it_up() {
        let (kind, started) = ("Accepted".to_owned(), starts(0.0, "r2", "r1", 3));
        let event = started.payload.clone();
        let accepted = Entry { kind, payload: None, event, ..started };
        let members = json!({ "request_id": "r2", "condition": "EventAgeExceeded", "lost": false });
        let given_up = entry(1.0, "example-target", "GivenUp", members);
        let run = Run { request_id: "r2".into(), attempt: 3, event_id: "r1".into(), queue: None };
        let gives_up = |run| Kind::GivenUpByLambda {
            request_id: "r2".into(),
            run,
            condition: "EventAgeExceeded".to_owned(),
            lost: false,
        };
        let read = kinds(&[accepted, given_up.clone()]);
        assert_eq!(read, [Kind::Accepted(run.clone()), gives_up(Some(run))]);
        let ran = kinds(&[starts(0.0, "r2", "r1", 3), fails(0.5, "r2"), given_up]);
        assert_eq!(ran[2], gives_up(None), "its run has ended");
    }

    #[test]
    fn the_latest_runs_are_tracked_however_many_have_no_end() {
        let mut reader = Reader::default();
        for nth in 0..RUNS_MAX + 5 {
            reader.read(&starts(0.0, &nth.to_string(), "r0", 0));
        }
        let mut ended = |nth: usize| reader.read(&ends(1.0, &nth.to_string())).len();
        assert_eq!((ended(4), ended(RUNS_MAX + 4)), (0, 1));
    }

    #[test]
    fn lines_that_are_not_decisions_are_shown_unchanged() {
        let refused = |level: &str| {
            format!(
                r#"{{"level":"{level}","message":"not accepted","decision":"invoke","attempt":2,"target":"arn:aws:lambda:us-east-1:1:function:orders:$LATEST","event_id":"r1","error":"429"}}"#
            )
        };
        let unreadable = r#"{"level":"WARN","message":"given up","decision":"dead_letter","reason":"unreadable","why":"expected a failure record","message_id":"m1"}"#;
        let reason = "unreadable: expected a failure record, message m1".to_owned();
        let what = StepKind::GivenUp { reason };
        for (line, expected) in [
            (
                &*refused("WARN"),
                Some(Kind::Trouble {
                    event_id: Some("r1".into()),
                    text: "orders: not accepted: 429".to_owned(),
                }),
            ),
            (&refused("INFO"), Some(Kind::Logged("orders: not accepted: 429".to_owned()))),
            ("hello", Some(Kind::Logged("hello".to_owned()))),
            (r#"{"a":1}"#, Some(Kind::Logged(r#"{"a":1}"#.to_owned()))),
            (r#"{"Waited":1,"_aws":{"Timestamp":1}}"#, None),
            (unreadable, Some(Kind::Decided { event_id: "m1".into(), attempt: None, what })),
        ] {
            assert_eq!(kinds(&[logs(0.0, "f", line)]), Vec::from_iter(expected), "{line}");
        }
    }

    #[test]
    fn the_phrase_for_a_failure_depends_on_its_kind() {
        let exit = json!({ "errorType": "Runtime.ExitError", "errorMessage": "exit status 1" });
        let busy = json!({ "errorType": "Busy", "errorMessage": "503", "stackTrace": [] });
        for (outcome, response, expected) in [
            ("Failed", busy, "fails: Busy: 503"),
            ("Failed", json!({ "errorType": "Busy" }), "fails: Busy"),
            ("Failed", json!({ "errorMessage": "503" }), "fails: 503"),
            ("Failed", json!([1]), "fails: [1]"),
            ("Crashed", exit, "crashes: exit status 1"),
            ("TimedOut", json!({ "errorMessage": "timed out" }), "is killed at its time-out"),
            ("InitFailed", json!({ "errorMessage": "no file" }), "does not start: no file"),
        ] {
            let read = kinds(&[starts(0.0, "r", "r", 0), finishes(1.0, "r", outcome, &response)]);
            let Some(Kind::Ended { ending, error: Some(error), .. }) = read.last() else {
                panic!("{read:?}");
            };
            assert_eq!(failure(*ending, error), expected);
        }
        assert_eq!(failure(Ending::Succeeded, &Error::default()), "fails");
    }
}
