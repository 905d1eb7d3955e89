//! The log lines of a batch.
#![allow(clippy::unwrap_used, reason = "a test's own helpers")]

use std::{cell::RefCell, io::Write, sync::Once, time::Duration};

use aws_lambda_events::event::sqs::SqsMessage;
use serde_json::{Value, json};
use wire::Refusal;

use crate::{
    deliveries::{IMPORTS, RULE, undelivered},
    lineage::{begin, call, of_run, transparent},
    queues::bound,
    services::{Answer, denied, refused, throttled},
    world::{TARGET, World, due, failed, handle_within, poison, start, waiting},
};

thread_local! {
    /// The lines that the test of this thread has logged.
    static LOGGED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Keeps every line for the test whose thread writes it. All tests share one subscriber, which is set before any line:
/// `tracing` caches for each call site whether a subscriber is interested.
pub fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let subscriber = tracing_subscriber::fmt().json().flatten_event(true).without_time();
        subscriber.with_writer(|| Logged).init();
    });
    LOGGED.take();
}

struct Logged;

impl Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOGGED.with_borrow_mut(|logged| logged.extend(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn lines() -> Vec<Value> {
    let written = LOGGED.with_borrow(|logged| String::from_utf8(logged.clone()).unwrap());
    written.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The errors of all lines of that level, in order.
pub fn errors() -> Vec<String> {
    let lines = lines().into_iter().filter(|line| line["level"] == "ERROR");
    lines.map(|line| line["error"].as_str().unwrap_or("none").to_owned()).collect()
}

/// The level and the decision of every line about this message, in order.
fn lines_about(id: &str) -> Vec<(String, String)> {
    let text = |line: &Value, name: &str| line[name].as_str().unwrap_or("none").to_owned();
    let about = lines().into_iter().filter(|line| line["message_id"] == id);
    about.map(|line| (text(&line, "level"), text(&line, "decision"))).collect()
}

fn owned(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|&(level, said)| (level.to_owned(), said.to_owned())).collect()
}

#[test]
fn each_message_has_a_line_for_its_decision_and_one_for_each_thing_in_its_way() {
    let world = World::new(&[
        ("letter of", Answer::Accepted),
        ("payload of throttled", throttled()),
        ("payload of denied", denied()),
        ("payload of refused", refused("InvalidRequestContentException", 400)),
        ("payload of hung", Answer::Never),
        ("handle of stuck", throttled()),
    ]);
    let mut records = ["good", "throttled", "denied", "refused", "hung"].map(due).to_vec();
    records.extend([waiting("early"), waiting("stuck"), poison("poison")]);
    let report = handle_within(10, &world, records);
    for (id, expected) in [
        ("good", &[("INFO", "invoke")][..]),
        ("throttled", &[("WARN", "invoke"), ("INFO", "wait")]),
        ("denied", &[("ERROR", "invoke"), ("INFO", "wait")]),
        ("refused", &[("WARN", "invoke"), ("WARN", "dead_letter")]),
        ("hung", &[("WARN", "none")]),
        ("early", &[("INFO", "wait")]),
        ("stuck", &[("ERROR", "wait")]),
        ("poison", &[("WARN", "dead_letter")]),
    ] {
        assert_eq!(lines_about(id), owned(expected), "{id}");
    }
    let ages: Vec<_> =
        report.entries.iter().map(|entry| entry.age.map(|age| age.as_secs())).collect();
    let minute = Some(60);
    assert_eq!(ages, [minute, minute, minute, minute, minute, Some(0), Some(0), None]);
}

/// If its dead letter can't be sent, the line also names the queue and the cause, and a metric counts it.
#[test]
fn the_line_of_an_unreadable_message_has_its_id_the_reason_and_why() {
    let queue = "https://sqs.us-east-1.amazonaws.com/123456789012/dead";
    let why = "expected a failure record, got a body that is not a JSON object";
    let error = "TooManyRequestsException: the world says no";
    for (answer, level, why, queue, error, not_sent) in [
        (Answer::Accepted, "WARN", json!(why), json!(null), json!(null), json!(null)),
        (throttled(), "ERROR", json!(null), json!(queue), json!(error), json!(1)),
    ] {
        let world = World::new(&[("in poison", answer)]);
        let report = handle_within(10, &world, vec![poison("poison")]);
        let [line] = &lines()[..] else { panic!("expected one line, got {:?}", lines()) };
        let told = ["message_id", "reason", "decision", "level"].map(|name| line[name].clone());
        assert_eq!(told, ["poison", "unreadable", "dead_letter", level]);
        let told = ["why", "dead_letter_queue_url", "error"].map(|name| line[name].clone());
        assert_eq!(told, [why, queue, error]);
        let metrics = comeback_flow::metrics::lines(&report, crate::world::start());
        let metrics: Value = serde_json::from_str(&metrics[0]).unwrap();
        assert_eq!(metrics["DeadLettersNotSent"], not_sent);
    }
}

const DEMANDED: &str = "The invoked function is enabled with tenancy configuration. Add a valid tenant ID in your request and try again.";

/// Lambda refuses an invocation because of its tenant id, or because it has none.
fn tenancy() -> Answer {
    let (code, status) = (Some("InvalidParameterValueException"), Some(400));
    Answer::Refused(Refusal {
        code,
        status,
        message: Some(DEMANDED.to_owned()),
        ..Refusal::default()
    })
}

fn tenants(world: &World) -> Vec<Option<String>> {
    world.invocations().into_iter().map(|it| it.tenant_id).collect()
}

/// An event of a tenant, and one of nobody's, under a `TENANT_ID` for all functions.
fn with_and_without_tenant() -> Vec<SqsMessage> {
    let mut blue = due("blue");
    let of = |id: &str| format!(r#""payload of {id}""#);
    blue.body = blue.body.map(|body| body.replace(&of("blue"), r#"{"tenant":"blue"}"#));
    vec![due("nobody's"), blue]
}

#[test]
fn an_event_without_the_tenant_that_its_function_demands_waits_for_a_person() {
    let world = World::new(&[("of tenant None", tenancy())]).with("TENANT_ID", "/tenant");
    handle_within(10, &world, with_and_without_tenant());
    assert_eq!(lines_about("nobody's"), owned(&[("ERROR", "invoke"), ("INFO", "wait")]));
    let said = "TENANT_ID is /tenant, and the payload has nothing there";
    assert!(lines().iter().any(|line| line["error"] == said), "{:?}", lines());
    assert_eq!(tenants(&world), [None, Some("blue".to_owned())]);
}

#[test]
fn a_tenant_id_for_all_functions_blocks_none_that_has_no_tenants() {
    let world = World::new(&[("of tenant Some", tenancy())]).with("TENANT_ID", "/tenant");
    handle_within(10, &world, with_and_without_tenant());
    for id in ["nobody's", "blue"] {
        assert_eq!(lines_about(id), owned(&[("INFO", "invoke")]), "{id}");
    }
    assert_eq!(tenants(&world), [None, Some("blue".to_owned()), None]);
}

#[test]
fn a_durable_function_s_execution_has_the_same_name_however_often_its_attempt_is_invoked() {
    let names = |world: &World| {
        let names = world.invocations().into_iter().filter_map(|it| it.execution_name);
        names.collect::<Vec<_>>()
    };
    let ordinary = World::new(&[]);
    handle_within(10, &ordinary, vec![due("ordinary")]);
    assert_eq!(names(&ordinary), [""; 0]);
    let world = World::new(&[("twice", throttled())]).with("DURABLE", "true");
    for _ in 0..2 {
        handle_within(10, &world, vec![due("twice")]);
    }
    assert_eq!(names(&world), ["request-of-twice-1", "request-of-twice-1"]);
}

#[test]
fn each_line_about_an_event_that_was_not_delivered_names_what_could_not_deliver_it() {
    let records = vec![
        undelivered("early", TARGET, 0),
        undelivered("function", TARGET, 60),
        undelivered("queue", IMPORTS, 60),
        due("failed"),
    ];
    handle_within(10, &bound(World::new(&[])), records);
    for (id, message, source) in [
        ("early", "waits", json!(RULE)),
        ("function", "delivered", json!(RULE)),
        ("queue", "delivered", json!(RULE)),
        ("failed", "invoked", json!(null)),
    ] {
        let about: Vec<_> = lines().into_iter().filter(|it| it["message_id"] == id).collect();
        let [line] = &about[..] else { panic!("{about:?}") };
        assert_eq!((&line["message"], &line["source_arn"]), (&json!(message), &source), "{id}");
    }
}

#[test]
fn each_turn_of_the_ledger_has_its_line() {
    let taken_over = Refusal { found: Some(None), ..Refusal::default() };
    let world = World::with_ledger(&[
        ("claim request of slow", throttled()),
        ("claim request of closed", denied()),
        ("mark request of noted", throttled()),
        ("mark request of forbidden", denied()),
        ("mark request of cut", Answer::Never),
        ("mark request of echoed", Answer::Repeated),
        ("mark request of late", Answer::Refused(taken_over)),
        ("payload of kept", throttled()),
        ("release request of kept", denied()),
    ]);
    let ids = ["slow", "closed", "noted", "forbidden", "cut", "echoed", "kept", "late", "twin"];
    let mut records = ids.map(due).to_vec();
    let mut twin = due("twin");
    twin.message_id = Some("other twin".into());
    records.push(twin.clone());
    handle_within(10, &world, records);
    handle_within(10, &world, vec![twin]);
    for (id, expected) in [
        ("slow", &[("WARN", "claim"), ("INFO", "wait")][..]),
        ("closed", &[("ERROR", "claim"), ("INFO", "wait")]),
        ("noted", &[("INFO", "invoke"), ("WARN", "mark")]),
        ("forbidden", &[("INFO", "invoke"), ("ERROR", "mark")]),
        ("cut", &[("INFO", "invoke"), ("WARN", "mark")]),
        ("echoed", &[("INFO", "invoke")]),
        ("kept", &[("WARN", "invoke"), ("INFO", "wait"), ("ERROR", "release")]),
        ("late", &[("INFO", "invoke"), ("WARN", "none")]),
        ("twin", &[("INFO", "invoke")]),
        ("other twin", &[("INFO", "none"), ("INFO", "wait"), ("INFO", "drop")]),
    ] {
        let (mut expected, mut about) = (owned(expected), lines_about(id));
        // A release and a wait go out at the same time.
        expected.sort();
        about.sort();
        assert_eq!(about, expected, "{id}");
    }
}

#[test]
fn no_line_has_a_payload_or_a_long_text_from_outside() {
    let long =
        Refusal { status: Some(403), message: Some("no ".repeat(1000)), ..Refusal::default() };
    let world = World::new(&[("payload of b", Answer::Refused(long))]);
    let mut expired = failed("c", 2 * 86_400);
    let said = r#""responsePayload":{"errorType":"Broken","errorMessage":"payload of c"},"requestPayload""#;
    expired.body = expired.body.map(|body| body.replace(r#""requestPayload""#, said));
    handle_within(10, &world, vec![due("a"), due("b"), expired, poison("d"), waiting("e")]);
    let lines = lines();
    assert_eq!(lines.len(), 6);
    for line in lines {
        let line = line.to_string();
        assert!(line.len() < 2_000, "{line}");
        assert!(!line.contains("payload of") && !line.contains("no JSON in"), "{line}");
    }
}

#[test]
fn the_lines_and_the_item_of_an_event_name_the_policy_of_its_error_and_no_other() {
    let policies = r#"{"*":{"ERRORS":{"Slow":{"BASE_BACKOFF":"2m"}}},
                       "orders":{"ERRORS":{"RateLimited*":{"MAX_ATTEMPTS":1},"Down":{}}}}"#;
    let world = World::with_register(&[]).with("POLICIES", policies);
    let with_error = |id: &str, error_type: &str| {
        let mut message = waiting(id);
        let response =
            format!(r#""responsePayload":{{"errorType":"{error_type}"}},"requestPayload""#);
        message.body = message.body.map(|body| body.replace("\"requestPayload\"", &response));
        message
    };
    let events = [("limited", "RateLimitedError"), ("slow", "app.Slow"), ("other", "Other")];
    let records = events.map(|(id, error_type)| with_error(id, error_type));
    handle_within(10, &world, records.to_vec());
    let policies: Vec<_> = lines().iter().map(|line| line["policy"].clone()).collect();
    assert_eq!(policies, [json!("RateLimited* of orders"), json!("Slow of *"), json!(null)]);
    let listed = ["limited", "slow", "other"].map(|id| world.listed(id).policy);
    let expected = [Some("RateLimited* of orders"), Some("Slow of *"), None];
    assert_eq!(listed.each_ref().map(Option::as_deref), expected);
}

#[test]
fn a_line_about_what_lambda_did_not_run_says_so() {
    for (condition, expected) in [
        ("ZeroReservedConcurrency", json!("ZeroReservedConcurrency")),
        ("RetriesExhausted", json!(null)),
    ] {
        let mut message = waiting("refused");
        let own = format!(r#""condition":"{condition}""#);
        message.body =
            message.body.map(|body| body.replace(r#""condition":"RetriesExhausted""#, &own));
        assert!(message.body.as_ref().unwrap().contains(&own));
        handle_within(10, &World::new(&[]), vec![message]);
        let told: Vec<_> = lines().iter().map(|line| line["condition"].clone()).collect();
        assert_eq!(told, [expected]);
    }
}

/// The decision, the run that has failed, its event and the run that the retry has started, of every line.
fn ids() -> Vec<[Value; 4]> {
    let names = ["decision", "request_id", "event_id", "retry_request_id"];
    lines().iter().map(|line| names.map(|name| line[name].clone())).collect()
}

#[test]
fn the_line_of_a_retry_names_its_run_and_the_lines_about_that_run_name_the_event() {
    for is_transparent in [true, false] {
        let world = if is_transparent { transparent(&[]) } else { World::with_ledger(&[]) };
        handle_within(30, &world, vec![failed("a", 600), waiting("b")]);
        let first = "request of a";
        let expected = [
            [json!("invoke"), json!(first), json!(first), json!("retry-1")],
            [json!("wait"), json!("request of b"), json!("request of b"), json!(null)],
        ];
        let mut told = ids();
        told.sort_by_key(|line| line[0].to_string());
        assert_eq!(told, expected);
    }
    let world = transparent(&[]);
    handle_within(30, &world, vec![failed("a", 600)]);
    handle_within(30, &world, vec![of_run(failed("a", 120), "a", "retry-1")]);
    let expected =
        ["request of a", "retry-1"].map(|run| [json!("invoke"), json!(run), json!("request of a")]);
    let told = ids().into_iter().map(|[decision, run, event, _]| [decision, run, event]);
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

#[test]
fn a_line_names_no_event_as_long_as_it_is_unknown_which_one_the_run_belongs_to() {
    let fault = [("look up", throttled())];
    for (answers, age, end, event) in [
        (&[][..], 60, "wait", json!(null)),
        (&fault, 60, "wait", json!(null)),
        // Its dead letter has this id, too.
        (&fault, 14 * 86_400, "dead_letter", json!("request of a")),
    ] {
        let world = transparent(answers);
        let now = start();
        let (since, until) = (now - Duration::from_secs(61), now + Duration::from_secs(20));
        begin(&world, "a", call(since, until, None));
        handle_within(30, &world, vec![failed("a", age)]);
        let line = |decision, event| [json!(decision), json!("request of a"), event, json!(null)];
        assert_eq!(ids(), [line("recall", json!(null)), line(end, event)], "{age}");
    }
}
