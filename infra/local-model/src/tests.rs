//! Tests of the rules that involve both services: asynchronous events, destinations, batches and recursion.

mod mapping;
mod records;
mod streams;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use comeback_core::{Timestamp, time::later};
use serde_json::Value;

use super::{
    Cloud, Invocation, InvocationType, Invoked, Waiting,
    lambda::{
        error::{LambdaError, ThrottleReason},
        function::{Code, DeadLetterConfig, DurableConfig, Program, Settings},
        invoke_config::{DestinationConfig, EventInvokeSettings},
        mapping::{MappingSettings, ScalingConfig},
        name,
        recursion::{RUNS_MAX, RecursiveLoop},
        run::{Outcome, Run},
    },
    queue_arn, queue_name,
    sqs::{MessageAttribute, Outgoing, Received},
};
use crate::{Event, What};

/// A cloud and its clock, which only the tests advance.
struct World {
    cloud: Cloud,
    now: Timestamp,
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const FAILURE: &str = r#"{"errorType":"E","errorMessage":"no luck","n":1.50}"#;

fn failure() -> Outcome {
    Outcome::Failed(FAILURE.into())
}

fn success() -> Outcome {
    Outcome::Returned(b"null".to_vec())
}

impl World {
    /// A cloud with the function `f` and an account limit of `concurrency` concurrent runs.
    fn with_concurrency(concurrency: u32) -> Self {
        let mut world = Self {
            cloud: Cloud::new(concurrency, 1),
            now: Timestamp::from_timestamp(1_700_000_000, 0).unwrap(),
        };
        world.function("f", Settings::default());
        world
    }

    fn new() -> Self {
        Self::with_concurrency(100)
    }

    fn function(&mut self, name: &str, settings: Settings) {
        let code =
            Code { program: Program::Bootstrap("/f".into()), size: 0, sha256: String::new() };
        self.cloud.lambda.create_function(self.now, name, code, settings).unwrap();
    }

    fn queue(&mut self, name: &str, attributes: &[(&str, &str)]) {
        let attributes = attributes.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
        self.cloud.sqs.create_queue(self.now, name, &attributes.collect()).unwrap();
    }

    /// Sets the event invoke config of `f`, with the queue `failed` as the on-failure destination.
    fn on_failure(&mut self, retries: i64, age: i64) {
        self.queue("failed", &[]);
        let settings = EventInvokeSettings {
            maximum_retry_attempts: Some(retries),
            maximum_event_age_in_seconds: Some(age),
            destination_config: Some(DestinationConfig::on_failure(queue_arn("failed"))),
        };
        self.cloud.lambda.set_event_invoke_config(self.now, "f", &settings, false).unwrap();
    }

    /// Maps a queue to `f` and waits until the mapping is enabled.
    fn map(&mut self, queue: &str, settings: &MappingSettings) -> Arc<str> {
        let mapping = self.cloud.create_mapping(self.now, &queue_arn(queue), "f", settings);
        let uuid = mapping.unwrap().uuid.clone();
        self.pass(secs(1));
        uuid
    }

    fn invoke(
        &mut self,
        invocation_type: InvocationType,
        payload: &str,
        trace_header: Option<&str>,
    ) -> Result<Invoked, LambdaError> {
        let payload = payload.as_bytes();
        let invocation = Invocation {
            function: "f",
            invocation_type,
            payload,
            trace_header,
            ..Invocation::default()
        };
        self.cloud.invoke(self.now, invocation)
    }

    fn event(&mut self, payload: &str) -> String {
        let invoked = self.invoke(InvocationType::Event, payload, None).unwrap();
        let Invoked::Accepted(request_id) = invoked else { panic!("{invoked:?}") };
        request_id.to_string()
    }

    fn send(&mut self, queue: &str, body: &str) {
        let message = Outgoing { body: body.into(), ..Outgoing::default() };
        self.cloud.sqs.send(self.now, queue, message).unwrap();
    }

    /// Lets the cloud do everything that is due now. Returns the runs that start.
    fn advance(&mut self) -> Vec<Run> {
        self.cloud.advance(self.now)
    }

    fn run(&mut self) -> Run {
        let mut runs = self.advance();
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs.remove(0)
    }

    fn finish(&mut self, run: &Run, outcome: Outcome) {
        self.cloud.finish(self.now, run.id, outcome).unwrap();
    }

    /// Sends an event to `f`, whose only run ends so. Returns its request id.
    fn play(&mut self, payload: &str, outcome: Outcome) -> String {
        let request_id = self.event(payload);
        let run = self.run();
        self.finish(&run, outcome);
        request_id
    }

    /// Advances the clock until something is due. Returns by how much.
    fn wait(&mut self) -> Option<Duration> {
        let next = self.cloud.next_wakeup(self.now)?;
        let waited = comeback_core::time::between(self.now, next);
        self.now = self.now.max(next);
        Some(waited)
    }

    fn pass(&mut self, duration: Duration) {
        self.now = later(self.now, duration);
    }

    fn receive(&mut self, queue: &str) -> Vec<Received> {
        self.cloud.sqs.receive(self.now, queue, 10, None).unwrap()
    }

    fn record(&mut self, queue: &str) -> Value {
        let messages = self.receive(queue);
        assert_eq!(messages.len(), 1, "{messages:?}");
        serde_json::from_str(&messages[0].body).unwrap()
    }

    fn count(&mut self, queue: &str, attribute: &str) -> u32 {
        let attributes = self.cloud.sqs.attributes(self.now, queue).unwrap();
        attributes[attribute].parse().unwrap()
    }

    fn messages(&mut self, queue: &str) -> u32 {
        self.count(queue, "ApproximateNumberOfMessages")
            + self.count(queue, "ApproximateNumberOfMessagesNotVisible")
    }
}

fn ended(record: &Value) -> (&str, u64) {
    let context = &record["requestContext"];
    let condition = context["condition"].as_str().unwrap();
    (condition, context["approximateInvokeCount"].as_u64().unwrap())
}

#[test]
fn a_failing_event_runs_three_times_with_one_request_id_and_then_becomes_a_record_with_its_bytes() {
    let mut world = World::new();
    world.on_failure(2, 21_600);
    let payload = r#"{"n":1.50,"big":123456789012345678901}"#;
    let request_id = world.event(payload);
    let mut lineages = BTreeSet::new();
    for wait in [Some(60), Some(120), None] {
        assert_eq!(world.messages("failed"), 0);
        let run = world.run();
        assert_eq!(*run.request_id, *request_id);
        assert_eq!(run.payload.get(), payload);
        lineages.extend(run.trace_header.split(";Lineage=").nth(1).map(str::to_owned));
        world.finish(&run, failure());
        assert!(world.advance().is_empty());
        assert_eq!(world.wait(), wait.map(secs));
    }
    assert_eq!(lineages.len(), 1, "Lambda's own retries are no loop");
    let record = &world.receive("failed").remove(0).body;
    let (head, rest) = record.split_once(r#","requestContext""#).unwrap();
    assert!(
        head.starts_with(r#"{"version":"1.0","timestamp":"2023-11-14T22:16:20.000Z""#),
        "{head}"
    );
    let arn = "arn:aws:lambda:us-east-1:000000000000:function:f:$LATEST";
    let expected = format!(
        r#":{{"requestId":"{request_id}","functionArn":"{arn}","condition":"RetriesExhausted","approximateInvokeCount":3}},"requestPayload":{payload},"responseContext":{{"statusCode":200,"executedVersion":"$LATEST","functionError":"Unhandled"}},"responsePayload":{FAILURE}}}"#
    );
    assert_eq!(rest, expected);
}

#[test]
fn a_throttled_event_backs_off_until_it_reaches_its_maximum_age_and_no_attempt_counts_as_a_run() {
    for (age, waits) in
        [(900, &[1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 89][..]), (60, &[1, 2, 4, 8, 16, 29])]
    {
        let mut world = World::with_concurrency(1);
        world.on_failure(0, age);
        world.event("1");
        let busy = world.run();
        world.event("2");
        for wait in waits {
            assert!(world.advance().is_empty());
            assert_eq!(world.wait(), Some(secs(*wait)));
        }
        if age == 60 {
            // There is a free place at last, but the event is too old.
            world.finish(&busy, success());
        }
        assert!(world.advance().is_empty());
        let record = world.record("failed");
        assert_eq!(ended(&record), ("EventAgeExceeded", 0));
        assert_eq!(record["requestPayload"], 2);
        assert!(record.get("responseContext").is_none());
        assert_eq!(world.wait(), None);
    }
    let mut world = World::with_concurrency(1);
    world.on_failure(0, 60);
    world.event("1");
    let busy = world.run();
    world.event("2");
    assert!(world.advance().is_empty());
    world.finish(&busy, success());
    world.wait();
    let run = world.run();
    world.finish(&run, failure());
    assert_eq!(ended(&world.record("failed")), ("RetriesExhausted", 1));
}

#[test]
fn a_dead_letter_has_the_first_kilobyte_that_an_attribute_can_hold() {
    let kilobyte = "x".repeat(1023);
    let long = format!("\u{1}{kilobyte}é");
    for (message, expected) in [
        ("plain", "plain"),
        ("a\u{0}b\u{fffe}c\u{ffff}d\u{1f}e\tf", "abcde\tf"),
        (&long, &kilobyte),
    ] {
        let mut world = World::new();
        world.on_failure(0, 60);
        world.queue("dead", &[]);
        let dead_letter_config = Some(DeadLetterConfig { target_arn: Some(queue_arn("dead")) });
        let settings = Settings { dead_letter_config, ..Settings::default() };
        world.cloud.lambda.update(world.now, "f", settings, None).unwrap();
        let error = serde_json::json!({ "errorMessage": message }).to_string();
        world.play("1", Outcome::Failed(error.into_bytes()));
        let attributes: BTreeMap<_, _> =
            world.receive("dead").remove(0).attributes.iter().cloned().collect();
        assert_eq!(attributes["ErrorCode"], MessageAttribute::number(200));
        assert_eq!(attributes["ErrorMessage"], MessageAttribute::string(expected));
        world.cloud.lambda.set_reserved_concurrency("f", Some(0)).unwrap();
        world.event("2");
        assert!(world.advance().is_empty());
        let letter = world.receive("dead").remove(0);
        let attributes: BTreeMap<_, _> = letter.attributes.iter().cloned().collect();
        assert_eq!(attributes["ErrorCode"], MessageAttribute::number(429));
        let condition = MessageAttribute::string("ZeroReservedConcurrency");
        assert_eq!(attributes["ErrorMessage"], condition);
    }
}

#[test]
fn a_record_that_is_too_large_or_whose_queue_is_deleted_is_reported_as_a_failed_delivery() {
    let largest = format!("\"{}\"", "x".repeat(1024 * 1024 - 2));
    for (payload, deleted) in [(&*largest, false), ("1", true)] {
        let mut world = World::new();
        world.on_failure(0, 60);
        if deleted {
            world.cloud.sqs.delete_queue(world.now, "failed").unwrap();
        }
        world.play(payload, failure());
        let happened = world.cloud.take_happened();
        let last = &happened.last().unwrap().what;
        assert!(matches!(last, What::DestinationFailed { .. }), "{last:?}");
        assert!(deleted || world.messages("failed") == 0);
    }
}

#[test]
fn a_function_can_be_a_destination() {
    let mut world = World::new();
    world.function("next", Settings::default());
    let settings = EventInvokeSettings {
        maximum_retry_attempts: Some(0),
        destination_config: Some(DestinationConfig::on_failure(name::arn("next"))),
        ..EventInvokeSettings::default()
    };
    world.cloud.lambda.set_event_invoke_config(world.now, "f", &settings, false).unwrap();
    world.play("7", failure());
    let run = world.run();
    assert_eq!(&*run.configuration.name, "next");
    let record: Value = serde_json::from_str(run.payload.get()).unwrap();
    assert_eq!(record["requestPayload"], 7);
    assert_eq!(record["requestContext"]["condition"], "RetriesExhausted");
}

#[test]
fn the_events_of_a_deleted_function_are_dropped() {
    let mut world = World::new();
    world.on_failure(0, 60);
    world.event("1");
    let run = world.run();
    world.event("2");
    world.cloud.lambda.delete_function("f").unwrap();
    assert!(world.advance().is_empty());
    world.finish(&run, failure());
    while world.wait().is_some() {
        assert!(world.advance().is_empty());
    }
    assert_eq!(world.messages("failed"), 0);
}

#[test]
fn an_event_that_is_given_up_is_lost_unless_it_has_a_destination() {
    let mut world = World::new();
    world.cloud.lambda.set_reserved_concurrency("f", Some(0)).unwrap();
    for is_lost in [true, false] {
        world.event("{}");
        world.advance();
        let happened = world.cloud.take_happened();
        let given_up =
            |it: &Event| matches!(it.what, What::GivenUp { lost, .. } if lost == is_lost);
        assert!(happened.iter().any(given_up), "{happened:?}");
        world.on_failure(0, 60);
    }
}

#[test]
fn waiting_work_is_counted_in_lambda_and_in_each_queue() {
    let mut world = World::new();
    assert_eq!(world.cloud.waiting(world.now), Waiting::default());
    world.on_failure(0, 21_600);
    world.queue("empty", &[]);
    for payload in ["1", "2", "3"] {
        world.event(payload);
    }
    let runs = world.advance();
    assert_eq!(runs.iter().map(|run| run.payload.get()).collect::<Vec<_>>(), ["1", "2", "3"]);
    world.finish(&runs[0], failure());
    world.finish(&runs[1], failure());
    world.event("{}");
    // Messages in flight and running events count as waiting too.
    assert_eq!(world.receive("failed").len(), 2);
    let messages = [("failed".to_owned(), 2)].into();
    assert_eq!(world.cloud.waiting(world.now), Waiting { invocations: 2, messages });
}

fn running(invoked: Result<Invoked, LambdaError>) -> Run {
    match invoked {
        Ok(Invoked::Running(run)) => *run,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_payload_must_be_json_within_the_limit_of_its_invocation_type() {
    let mut world = World::new();
    let run = running(world.invoke(InvocationType::RequestResponse, "", None));
    assert_eq!(run.payload.get(), "{}", "without a payload");
    let string = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    for (kind, limit) in
        [(InvocationType::Event, 1024 * 1024), (InvocationType::RequestResponse, 6 * 1024 * 1024)]
    {
        assert!(world.invoke(kind, &string(limit), None).is_ok());
        let error = world.invoke(kind, &string(limit + 1), None).unwrap_err();
        assert_eq!((error.code(), error.status()), ("RequestTooLargeException", 413));
        for payload in ["{", "nul", "1 2", "'a'"] {
            let error = world.invoke(kind, payload, None).unwrap_err();
            assert_eq!(error.code(), "InvalidRequestContentException", "{payload}");
        }
    }
}

#[test]
fn a_throttle_says_which_concurrency_limit_is_reached() {
    let mut world = World::with_concurrency(3);
    world.function("g", Settings::default());
    let refusal = |world: &mut World| {
        world.invoke(InvocationType::RequestResponse, "1", None).map(|_| ()).unwrap_err()
    };
    world.cloud.lambda.set_reserved_concurrency("g", Some(2)).unwrap();
    let run = running(world.invoke(InvocationType::RequestResponse, "1", None));
    assert_eq!(refusal(&mut world), LambdaError::TooManyRequests(ThrottleReason::Account));

    world.cloud.lambda.set_reserved_concurrency("f", Some(1)).unwrap();
    assert_eq!(refusal(&mut world), LambdaError::TooManyRequests(ThrottleReason::Reserved));
    world.finish(&run, success());
    let run = running(world.invoke(InvocationType::RequestResponse, "1", None));

    world.cloud.lambda.set_reserved_concurrency("f", Some(0)).unwrap();
    world.finish(&run, success());
    assert_eq!(refusal(&mut world), LambdaError::TooManyRequests(ThrottleReason::Reserved));

    let error = world.cloud.lambda.set_reserved_concurrency("f", Some(2)).unwrap_err();
    assert_eq!(error.code(), "InvalidParameterValueException");
}

#[test]
fn runs_of_a_deleted_function_do_not_count_for_a_new_one_with_the_same_name() {
    let mut world = World::with_concurrency(1);
    let old = running(world.invoke(InvocationType::RequestResponse, "1", None));
    world.cloud.lambda.delete_function("f").unwrap();
    world.function("f", Settings::default());
    let new = running(world.invoke(InvocationType::RequestResponse, "1", None));
    world.finish(&old, success());
    assert!(world.invoke(InvocationType::RequestResponse, "1", None).is_err());
    world.finish(&new, success());
    assert!(world.cloud.finish(world.now, new.id, success()).is_none(), "a run ends once");
    assert!(world.invoke(InvocationType::RequestResponse, "1", None).is_ok());
}

#[test]
fn a_function_that_sends_to_its_own_queue_is_stopped_after_sixteen_runs() {
    let mut world = World::new();
    world.queue("q", &[("VisibilityTimeout", "30")]);
    world.map("q", &MappingSettings::default());
    world.send("q", "round");
    for _ in 0..RUNS_MAX {
        let run = world.run();
        let message = Outgoing {
            body: "round".into(),
            trace_header: Some(run.trace_header.to_string()),
            ..Outgoing::default()
        };
        world.cloud.sqs.send(world.now, "q", message).unwrap();
        world.finish(&run, success());
    }
    assert!(world.advance().is_empty(), "the seventeenth is stopped");
    let happened = world.cloud.take_happened();
    assert!(matches!(happened.last().unwrap().what, What::RecursionStopped));
    // The message becomes visible again, the run is stopped again, and its receive count goes up.
    assert_eq!(world.wait(), Some(secs(30)));
    assert!(world.advance().is_empty());
    assert_eq!(world.wait(), Some(secs(30)));
    world.cloud.lambda.function_mut("f").unwrap().recursive_loop = RecursiveLoop::Allow;
    let run = world.run();
    assert!(run.payload.get().contains(r#""ApproximateReceiveCount":"3""#));
}

#[test]
fn a_loop_through_destinations_is_stopped_after_sixteen_runs() {
    let mut world = World::new();
    world.on_failure(0, 60);
    let mut header: Option<String> = None;
    for _ in 0..RUNS_MAX {
        world.invoke(InvocationType::Event, "1", header.as_deref()).unwrap();
        let run = world.run();
        world.finish(&run, failure());
        let message = world.receive("failed").remove(0);
        let trace_header = message.trace_header.unwrap();
        assert_eq!(trace_header, run.trace_header);
        header = Some(trace_header.to_string());
    }
    let accepted = world.invoke(InvocationType::Event, "1", header.as_deref());
    assert!(matches!(accepted, Ok(Invoked::Accepted(_))));
    assert!(world.advance().is_empty());
    let record = world.record("failed");
    assert_eq!(ended(&record), ("RecursiveInvocation", 0));
    assert!(record.get("responsePayload").is_none());

    let error = world
        .invoke(InvocationType::RequestResponse, "1", header.as_deref())
        .map(|_| ())
        .unwrap_err();
    assert_eq!((error.code(), error.status()), ("RecursiveInvocationException", 400));
}

#[test]
fn only_queues_of_this_account_and_region_have_a_name_here() {
    assert_eq!(queue_name(&queue_arn("q")), Some("q"));
    for arn in [
        "q",
        "arn:aws:sqs:us-east-1:000000000000:",
        "arn:aws:sqs:us-east-1:000000000000:q:x",
        "arn:aws:sqs:eu-west-1:000000000000:q",
        "arn:aws:sqs:us-east-1:111111111111:q",
    ] {
        assert_eq!(queue_name(arn), None, "{arn}");
    }
}

#[test]
fn an_execution_of_one_name_is_started_once_and_its_first_failure_is_a_dead_letter() {
    let mut world = World::new();
    world.on_failure(2, 21_600);
    world.queue("dead", &[]);
    let durable = DurableConfig { execution_timeout: Some(60), retention_period_in_days: Some(1) };
    let settings = Settings {
        durable_config: Some(durable),
        dead_letter_config: Some(DeadLetterConfig { target_arn: Some(queue_arn("dead")) }),
        ..Settings::default()
    };
    world.function("durable", settings.clone());
    let to_failed = EventInvokeSettings {
        maximum_retry_attempts: Some(2),
        destination_config: Some(DestinationConfig::on_failure(queue_arn("failed"))),
        ..EventInvokeSettings::default()
    };
    world.cloud.lambda.set_event_invoke_config(world.now, "durable", &to_failed, false).unwrap();
    let start = |world: &mut World, name, payload: &str, invocation_type| {
        let (function, payload, execution_name) = ("durable", payload.as_bytes(), Some(name));
        let invocation = Invocation {
            function,
            invocation_type,
            payload,
            execution_name,
            ..Invocation::default()
        };
        world.cloud.invoke(world.now, invocation)
    };
    let event = InvocationType::Event;
    for _ in 0..2 {
        start(&mut world, "one", "1", event).unwrap();
    }
    let other = start(&mut world, "one", "2", event).unwrap_err();
    assert_eq!((other.code(), other.status()), ("DurableExecutionAlreadyStartedException", 409));
    let reattached = start(&mut world, "one", "1", InvocationType::RequestResponse).unwrap_err();
    assert_eq!(reattached.code(), "InvalidParameterValueException");
    let name = "x".repeat(65);
    assert_eq!(start(&mut world, &name, "1", event).unwrap_err().code(), "ValidationException");
    world.cloud.lambda.set_reserved_concurrency("durable", Some(0)).unwrap();
    assert!(start(&mut world, "two", "1", InvocationType::RequestResponse).is_err());
    world.cloud.lambda.set_reserved_concurrency("durable", None).unwrap();
    start(&mut world, "two", "2", event).expect("a throttled start is none");
    let runs = world.advance();
    assert_eq!(runs.iter().map(|run| run.payload.get()).collect::<Vec<_>>(), ["1", "2"]);
    world.finish(&runs[0], failure());
    assert_eq!((world.messages("dead"), world.messages("failed")), (1, 0));
    start(&mut world, "one", "1", event).unwrap();
    assert!(world.advance().is_empty(), "it has ended, and is not started again");

    world.cloud.lambda.delete_function("durable").unwrap();
    world.function("durable", settings);
    start(&mut world, "one", "1", event).unwrap();
    assert_eq!(world.advance().len(), 1);
}
