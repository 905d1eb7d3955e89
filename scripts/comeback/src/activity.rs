//! Turns the local cloud's journal into activity that a person can follow.
//!
//! The journal lists runs of functions and their log lines. The envelope in a payload identifies the event and the
//! attempt of a run. The structured log of the retry handler has its decisions.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use comeback_core::{
    Timestamp,
    envelope::{Envelope, METADATA, RetryMetadata},
    log_line::{self, decision},
    time::parse,
};
use comeback_local::model::polling::failures;
use serde::Deserialize;

use crate::{
    deploy::HANDLER,
    journal::{Ending, Entry},
};

/// One thing that happened in the local cloud.
#[derive(Clone, Debug, PartialEq)]
pub struct Activity {
    pub at: Timestamp,
    pub function: Arc<str>,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Started(Run),
    Ended {
        request_id: Arc<str>,
        ending: Ending,
        /// The error, as the function reported it, or Lambda if the function could not.
        error: Option<Error>,
    },
    GivenUpByLambda {
        request_id: Arc<str>,
        condition: String,
        /// Whether the event is lost, because it has no destination.
        lost: bool,
    },
    /// The retry handler carried out a decision.
    Decided {
        /// The request id of the event's first failed invocation.
        event_id: Arc<str>,
        decision: Decision,
    },
    /// A function logged a line that is neither a decision nor a problem.
    Logged(String),
    /// A warning or an error, of a function or of Lambda.
    Trouble(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub request_id: Arc<str>,
    /// The attempt. 0 is Lambda's own invocation.
    pub attempt: u32,
    /// The request id of the event's first failed invocation, or `request_id` if the payload names none.
    pub event_id: Arc<str>,
    /// The ARN of the queue that the event is a message of, if it is one. Its request ids are message ids.
    pub queue: Option<Arc<str>>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct Error {
    /// The error type. Some errors have none.
    #[serde(rename = "errorType")]
    pub kind: Option<String>,
    #[serde(rename = "errorMessage", default)]
    pub message: String,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    Wait {
        attempt: u32,
        due: Timestamp,
        /// The time from the decision to the due time.
        delay: Duration,
    },
    Invoke {
        attempt: u32,
        /// The time from the due time to the invocation.
        lateness: Duration,
    },
    /// The event was sent to the dead-letter queue.
    DeadLetter { reason: String },
}

/// Reads a journal in which a run of a queue's consumer counts as one run for each message of its batch.
#[derive(Debug, Default)]
pub struct Reader {
    /// The message ids of each batch that a consumer is processing, by request id.
    batches: HashMap<Arc<str>, Vec<Arc<str>>>,
}

impl Reader {
    /// Reads the next entry of the journal.
    pub fn read(&mut self, entry: &Entry) -> Vec<Activity> {
        let Some(activity) = read(entry) else { return Vec::new() };
        if *activity.function == *HANDLER {
            return vec![activity];
        }
        let kinds: Vec<_> = match &activity.kind {
            Kind::Started(run) => {
                let runs = messages(entry);
                if runs.is_empty() {
                    return vec![activity];
                }
                let ids = runs.iter().map(|run| Arc::clone(&run.request_id)).collect();
                self.batches.insert(Arc::clone(&run.request_id), ids);
                runs.into_iter().map(Kind::Started).collect()
            }
            Kind::Ended { request_id, ending, error } => {
                let Some(ids) = self.batches.remove(request_id) else { return vec![activity] };
                let response = entry.response.as_ref().map_or("", |response| response.get());
                let failed = failures(response.as_bytes(), |id| ids.iter().any(|it| **it == *id));
                let ended = ids.into_iter().map(|id| {
                    let is_failed =
                        failed.as_ref().is_none_or(|failed| failed.iter().any(|it| **it == *id));
                    let error = error.clone().or(is_failed.then(Error::default));
                    Kind::Ended { request_id: id, ending: *ending, error }
                });
                ended.collect()
            }
            Kind::GivenUpByLambda { .. }
            | Kind::Decided { .. }
            | Kind::Logged(_)
            | Kind::Trouble(_) => return vec![activity],
        };
        kinds.into_iter().map(|kind| Activity { kind, ..activity.clone() }).collect()
    }
}

/// The event of a queue's consumer.
#[derive(Deserialize)]
struct Batch {
    #[serde(rename = "Records")]
    records: Vec<Message>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    message_id: Arc<str>,
    #[serde(rename = "eventSourceARN")]
    queue: Arc<str>,
    message_attributes: BTreeMap<String, MessageAttribute>,
}

#[derive(Deserialize)]
struct MessageAttribute {
    #[serde(rename = "stringValue")]
    text: Option<String>,
}

/// The messages that a run was given, each as a run of its own. None if it was given something else.
fn messages(entry: &Entry) -> Vec<Run> {
    let payload = entry.payload.as_ref().map_or("", |payload| payload.get());
    let records = serde_json::from_str(payload).map_or(Vec::new(), |batch: Batch| batch.records);
    let run = |Message { message_id, queue, message_attributes }| {
        let metadata = message_attributes.get(METADATA).and_then(|it| it.text.as_deref());
        let metadata = metadata.and_then(RetryMetadata::read);
        Run { queue: Some(queue), ..run_of(message_id, metadata) }
    };
    records.into_iter().map(run).collect()
}

/// Reads an entry of the journal. `None` if it is of no interest to a person.
pub fn read(entry: &Entry) -> Option<Activity> {
    let request_id = || entry.request_id.clone();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let kind = match entry.kind.as_str() {
        "Started" => Kind::Started(run(request_id()?, entry.payload.as_ref()?.get())),
        "Finished" => {
            let (ending, response) = (entry.outcome?, entry.response.as_ref()?);
            let error = (ending != Ending::Succeeded).then(|| error(response.get()));
            Kind::Ended { request_id: request_id()?, ending, error }
        }
        "GivenUp" => Kind::GivenUpByLambda {
            request_id: request_id()?,
            condition: text(&entry.condition),
            lost: entry.lost?,
        },
        "Logged" => log_line(entry.line.as_ref()?)?,
        "DestinationFailed" => {
            let (destination, reason) = (text(&entry.destination), text(&entry.reason));
            Kind::Trouble(format!("its failure record did not reach {destination}: {reason}"))
        }
        "RecursionStopped" => Kind::Trouble("recursive-loop detection stopped it".to_owned()),
        // Accepted, Throttled, DestinationSent, and types that the journal may get in future.
        _ => return None,
    };
    Some(Activity { at: entry.at, function: Arc::clone(&entry.function), kind })
}

fn run(request_id: Arc<str>, payload: &str) -> Run {
    run_of(request_id, Envelope::read(payload).map(|envelope| envelope.metadata))
}

fn run_of(request_id: Arc<str>, metadata: Option<RetryMetadata>) -> Run {
    let attempt = metadata.as_ref().map_or(0, |metadata| metadata.attempt.get());
    let event_id = metadata.and_then(|metadata| Some(metadata.request_id?.into()));
    let event_id = event_id.unwrap_or_else(|| Arc::clone(&request_id));
    Run { event_id, request_id, attempt, queue: None }
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

type LogLine = log_line::LogLine<String>;

fn log_line(text: &str) -> Option<Kind> {
    if serde_json::from_str::<Metrics>(text).is_ok() {
        return None;
    }
    let line = serde_json::from_str::<LogLine>(text).ok();
    let Some(line) = line.filter(|line| !line.level.is_empty() && !line.message.is_empty()) else {
        return Some(Kind::Logged(text.to_owned()));
    };
    Some(decided(&line).unwrap_or_else(|| plain(line)))
}

/// The decision in a log line, or None if the handler couldn't carry it out.
fn decided(line: &LogLine) -> Option<Kind> {
    if line.error.is_some() {
        return None;
    }
    let decision = match line.decision.as_deref()? {
        decision::WAIT => Decision::Wait {
            attempt: line.attempt?,
            due: parse(line.due_time.as_deref()?)?,
            delay: Duration::try_from_secs_f64(line.delay_seconds?).ok()?,
        },
        decision::INVOKE => Decision::Invoke {
            attempt: line.attempt?,
            lateness: Duration::from_millis(line.lateness_ms?),
        },
        decision::DEAD_LETTER => {
            let reason = line.reason.clone()?;
            // No other line has the full id of an unreadable message.
            let why = line.why.as_ref().zip(line.message_id.as_ref());
            let why = why.map(|(why, id)| format!(": {why}, message {id}")).unwrap_or_default();
            Decision::DeadLetter { reason: reason + &why }
        }
        _ => return None,
    };
    // An unreadable message has no request id, so its message id is used.
    let event_id = line.event().or(line.message_id.as_deref())?.into();
    Some(Kind::Decided { event_id, decision })
}

fn plain(line: LogLine) -> Kind {
    let text = match line.error {
        Some(error) => format!("{}: {error}", line.message),
        None => line.message,
    };
    match line.level.as_str() {
        "WARN" | "ERROR" => Kind::Trouble(text),
        _ => Kind::Logged(text),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const AT: Timestamp = Timestamp::UNIX_EPOCH;

    fn entry(function: &str, kind: &str, members: &str) -> Entry {
        let head = format!(r#""n":1,"at":"1970-01-01T00:00:00Z","function":"{function}""#);
        serde_json::from_str(&format!(r#"{{{head},"type":"{kind}",{members}}}"#)).unwrap()
    }

    /// The kind of the activity for an entry of this type, with these members as JSON.
    fn kind_of(kind: &str, members: &str) -> Option<Kind> {
        read(&entry("f", kind, members)).map(|activity| activity.kind)
    }

    fn logged(line: &str) -> Option<Kind> {
        kind_of("Logged", &format!(r#""request_id":null,"line":{}"#, json!(line)))
    }

    #[test]
    fn the_envelope_says_which_event_and_attempt_a_run_is() {
        let started = |json: &str| match kind_of(
            "Started",
            &format!(r#""request_id":"r2","payload":{json}"#),
        ) {
            Some(Kind::Started(run)) => (run.attempt, run.event_id.to_string()),
            other => panic!("{other:?}"),
        };
        let envelope = |metadata: &str| {
            format!(r#"{{"_retry_metadata":{{{metadata}}},"_original_payload":{{"id": 1.0}}}}"#)
        };
        let named = r#""attempt":3,"initial_timestamp":1,"request_id":"r1""#;
        let nameless = r#""attempt":3,"initial_timestamp":1"#;
        assert_eq!(started(r#"{"id": 1.0}"#), (0, "r2".to_owned()));
        assert_eq!(started(&envelope(named)), (3, "r1".to_owned()));
        assert_eq!(started(&envelope(nameless)), (3, "r2".to_owned()));
    }

    #[test]
    fn a_run_of_a_queues_consumer_is_a_run_of_each_message() {
        let retried = r#"{"attempt":2,"initial_timestamp":1,"request_id":"m0"}"#;
        let message = |id: &str, attributes: serde_json::Value| json!({ "messageId": id, "eventSourceARN": "arn:q", "messageAttributes": attributes });
        let attributes =
            json!({ METADATA: { "stringValue": retried }, "key": { "binaryValue": "AA==" } });
        let batch = json!({ "Records": [message("m1", json!({})), message("m2", attributes)] });
        let started = format!(r#""request_id":"r","payload":{batch}"#);
        let read = |function: &str, outcome: &str, response: &str| {
            let ended = format!(r#""request_id":"r","outcome":"{outcome}","response":{response}"#);
            let entries =
                [entry(function, "Started", &started), entry(function, "Finished", &ended)];
            let mut reader = Reader::default();
            let activities = entries.iter().flat_map(|entry| reader.read(entry));
            activities.map(|activity| activity.kind).collect::<Vec<_>>()
        };
        let run = |request_id: &str, attempt, event_id: &str| {
            let queue = Some("arn:q".into());
            let (request_id, event_id) = (request_id.into(), event_id.into());
            Kind::Started(Run { request_id, attempt, event_id, queue })
        };
        let ended = |request_id: &str, ending, error: Option<&str>| {
            let error = error.map(|message| Error { kind: None, message: message.to_owned() });
            Kind::Ended { request_id: request_id.into(), ending, error }
        };
        let runs = [run("m1", 0, "m1"), run("m2", 2, "m0")];
        let (ok, crash) = (Ending::Succeeded, Ending::Crashed);
        let down = r#"{"errorMessage":"down"}"#;
        for (outcome, response, ends) in [
            ("Succeeded", "null", [ended("m1", ok, None), ended("m2", ok, None)]),
            (
                "Succeeded",
                r#"{"batchItemFailures":[{"itemIdentifier":"m2"}]}"#,
                [ended("m1", ok, None), ended("m2", ok, Some(""))],
            ),
            ("Succeeded", "7", [ended("m1", ok, Some("")), ended("m2", ok, Some(""))]),
            ("Crashed", down, [ended("m1", crash, Some("down")), ended("m2", crash, Some("down"))]),
        ] {
            assert_eq!(read("importer", outcome, response), [&runs[..], &ends].concat());
        }
        assert_eq!(read(HANDLER, "Succeeded", "null").len(), 2, "of the handler's batch");
    }

    #[test]
    fn the_end_of_a_run_has_the_reported_error() {
        let ended = |outcome: Ending, json: &str| {
            let outcome = json!(outcome);
            let members = format!(r#""request_id":"r","outcome":{outcome},"response":{json}"#);
            match kind_of("Finished", &members) {
                Some(Kind::Ended { error, .. }) => error.map(|error| (error.kind, error.message)),
                other => panic!("{other:?}"),
            }
        };
        let reported = r#"{"errorType":"A.B","errorMessage":"503","stackTrace":[]}"#;
        let crashed = r#"{"errorType":"Runtime.ExitError","errorMessage":"exit status 1"}"#;
        assert_eq!(ended(Ending::Succeeded, "null"), None);
        assert_eq!(ended(Ending::Failed, reported), Some((Some("A.B".into()), "503".into())));
        assert_eq!(
            ended(Ending::Crashed, crashed),
            Some((Some("Runtime.ExitError".into()), "exit status 1".into()))
        );
        assert_eq!(ended(Ending::Failed, "[1]"), Some((None, "[1]".into())));
    }

    #[test]
    fn the_handlers_decisions_are_read_from_its_log() {
        let line = |rest: &str| {
            logged(&format!(
                r#"{{"timestamp":"2026-01-01T00:00:00Z","level":"INFO","message":"said","target":"arn","request_id":"r3","event_id":"r1",{rest}}}"#
            ))
        };
        let decided = |decision| Some(Kind::Decided { event_id: "r1".into(), decision });
        assert_eq!(
            line(
                r#""decision":"wait","attempt":2,"due_time":"1970-01-01T00:00:00.000Z","delay_seconds":1.5"#
            ),
            decided(Decision::Wait { attempt: 2, due: AT, delay: Duration::from_millis(1500) })
        );
        assert_eq!(
            line(r#""decision":"invoke","attempt":2,"lateness_ms":740"#),
            decided(Decision::Invoke { attempt: 2, lateness: Duration::from_millis(740) })
        );
        assert_eq!(
            line(r#""decision":"dead_letter","reason":"not_retryable""#),
            decided(Decision::DeadLetter { reason: "not_retryable".to_owned() })
        );
    }

    #[test]
    fn an_unreadable_message_is_given_up_under_its_own_id_with_the_reason_and_why() {
        let line = r#"{"level":"WARN","message":"given up","decision":"dead_letter","reason":"unreadable","why":"expected a failure record","message_id":"m1"}"#;
        let reason = "unreadable: expected a failure record, message m1".to_owned();
        let decision = Decision::DeadLetter { reason };
        let decided = Kind::Decided { event_id: "m1".into(), decision };
        assert_eq!(logged(line), Some(decided));
    }

    #[test]
    fn a_decision_that_was_not_carried_out_is_no_decision() {
        let line = |level: &str| {
            logged(&format!(
                r#"{{"level":"{level}","message":"not accepted","decision":"invoke","attempt":2,"event_id":"r1","error":"429"}}"#
            ))
        };
        assert_eq!(line("WARN"), Some(Kind::Trouble("not accepted: 429".to_owned())));
        assert_eq!(line("INFO"), Some(Kind::Logged("not accepted: 429".to_owned())));
    }

    #[test]
    fn other_lines_are_kept_and_metrics_are_dropped() {
        assert_eq!(logged("hello"), Some(Kind::Logged("hello".to_owned())));
        assert_eq!(logged(r#"{"a":1}"#), Some(Kind::Logged(r#"{"a":1}"#.to_owned())));
        assert_eq!(logged(r#"{"Waited":1,"_aws":{"Timestamp":1}}"#), None);
    }
}
