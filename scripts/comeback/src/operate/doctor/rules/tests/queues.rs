//! Ways to break the retries of a queue.

use std::time::Duration;

use comeback_core::time::earlier;

use super::systems::{
    Break, consumer, count, healthy, importer, names, queue, receive_from, retry_of_source, set,
    source, state, with_queue,
};

use crate::{
    account::{fault::Fault, queue::Redrive},
    operate::doctor::rules::{diagnose, facts::Facts, finding::Verdict, fix::Fix, metric::Metric},
};

/// Ways to break the retries of a queue, the only finding that each leads to, and a part of its remedy.
pub const BREAKS_OF_QUEUES: &[(&str, Break, &str)] = &[
    ("source_missing", |it| it.sources[0].queue.attributes = Ok(None), ""),
    ("source_redrive_missing", |it| source(it).redrive = None, "attach --queue imports"),
    (
        "source_redrive_elsewhere",
        |it| source(it).redrive = Some(Redrive { queue: "arn:x:dead".into(), receives_max: 1 }),
        "attach --queue imports --replace",
    ),
    (
        "source_redrive_elsewhere",
        |it| {
            let redrive = source(it).redrive.as_mut().unwrap();
            redrive.queue = redrive.queue.replace("retry-imports", "retry");
        },
        "attach --queue imports --replace",
    ),
    (
        "source_redrive_elsewhere",
        |it| {
            it.queues_of_others.insert("arn:x:theirs".into(), "other".into());
            source(it).redrive = Some(Redrive { queue: "arn:x:theirs".into(), receives_max: 1 });
        },
        "",
    ),
    (
        "source_receives_many",
        |it| source(it).redrive.as_mut().unwrap().receives_max = 11,
        "--max-receives 3",
    ),
    ("retry_queue_open", |it| retry_of_source(it).redrive_allow = None, "RedriveAllowPolicy"),
    (
        "retry_queue_refuses",
        |it| {
            let deny = r#"{"redrivePermission":"denyAll"}"#;
            retry_of_source(it).redrive_allow = Some(deny.to_owned());
        },
        "attach --queue imports",
    ),
    ("consumer_loop_stopped", |it| importer(it).1.may_loop = Ok(false), "--recursive-loop Allow"),
    (
        "consumer_missing",
        |it| consumer(it).function = None,
        "delete-event-source-mapping --uuid 2d3e",
    ),
    ("consumer_disabled", |it| consumer(it).mapping.state = "Disabled".into(), "2d3e --enabled"),
    ("consumer_disabled", |it| consumer(it).mapping.state = "Deleting".into(), ""),
    (
        "consumer_paused",
        |it| importer(it).1.reserved = Ok(Some(0)),
        "delete-function-concurrency --function-name importer",
    ),
    ("consumer_inactive", |it| importer(it).1.state = state("Failed"), ""),
    (
        "consumer_failing",
        |it| consumer(it).mapping.last_result = Some("PROBLEM: no access".into()),
        "",
    ),
    (
        "consumer_reports_nothing",
        |it| consumer(it).mapping.reports_failures = false,
        "2d3e --function-response-types ReportBatchItemFailures",
    ),
    (
        "source_unconsumed",
        |it| it.sources[0].consumers.clear(),
        "create-event-source-mapping --function-name CONSUMER --event-source-arn arn:aws:sqs:us-east-1:123456789012:imports",
    ),
    (
        "handler_may_not_send_back",
        |it| {
            it.sources[0].denied = Ok(vec![("sqs:SendMessage".into(), "arn:x:imports".into())]);
        },
        "put-role-policy --role-name handler-role",
    ),
    (
        "source_denies_handler",
        |it| {
            let policy = r#"{"Statement":{"Effect":"Deny","Principal":"*","Action":"sqs:*"}}"#;
            source(it).policy = Some(policy.to_owned());
        },
        "",
    ),
    (
        "source_visibility_short",
        |it| source(it).visibility = Duration::from_secs(29),
        r#"'{"VisibilityTimeout":"180"}'"#,
    ),
    ("source_visibility_long", |it| source(it).visibility = Duration::from_hours(1), ""),
    ("source_delays", |it| source(it).delay = Duration::from_mins(15), r#"'{"DelaySeconds":"0"}'"#),
    (
        "source_messages_small",
        |it| source(it).size_max = Some(1_024),
        r#"'{"MaximumMessageSize":"262144"}'"#,
    ),
    (
        "source_retention_short",
        |it| source(it).retention = Duration::from_hours(96),
        "MessageRetentionPeriod",
    ),
    (
        "source_unbound",
        |it| it.queues[0].moved_from = Ok(vec!["exports".to_owned()]),
        "attach --queue exports --retry-queue retry",
    ),
    ("policy_unknown", |it| set(it, "POLICIES", r#"{"sqs:import":{"MAX_AGE":"2d"}}"#), ""),
    (
        "mapping_of_source",
        |it| {
            let imports = it.sources[0].queue.clone();
            receive_from(it, &imports);
        },
        "delete-event-source-mapping --uuid 4f5a",
    ),
];

#[test]
fn each_break_of_a_queues_retries_has_one_finding_and_its_remedy() {
    assert_eq!(names(&with_queue()), Vec::<&str>::new());
    for &(name, damage, remedy) in BREAKS_OF_QUEUES {
        let mut facts = with_queue();
        damage(&mut facts);
        assert_eq!(names(&facts), [name]);
        let examined = diagnose(&facts);
        let finding = examined.iter().find_map(|it| it.findings.first()).unwrap();
        let command = finding.fix.as_ref().map_or(String::new(), Fix::command);
        assert!(command.contains(remedy) && remedy.is_empty() == command.is_empty(), "{command}");
        assert!(!finding.why.is_empty(), "{name}");
    }
}

#[test]
fn no_fix_changes_a_queue_that_the_handler_receives_from_by_mistake() {
    let few = |to: &str| Some(Redrive { queue: to.to_owned(), receives_max: 3 });
    let to_retry = with_queue().queues[0].queue.arn.clone();
    for (settings, redrive, expected) in [
        // A setting names it.
        (None, few(&to_retry), "mapping_of_source"),
        // A pattern does.
        (Some(("TARGET_FUNCTIONS", "orders,sqs:exp*")), None, "mapping_of_source"),
        // Settings name others.
        (Some(("QUEUE_TARGETS", r#"{"retry":["orders"]}"#)), few("arn:x:dead"), "queue_unbound"),
        // SQS moves its messages to a retry queue.
        (Some(("QUEUE_TARGETS", "")), few(&to_retry), "mapping_of_source"),
        // It could be a retry queue.
        (Some(("QUEUE_TARGETS", "")), few("arn:x:dead"), "receives_few"),
    ] {
        let mut facts = healthy();
        let named = ("QUEUE_TARGETS", r#"{"retry":["orders"],"retry-exports":["sqs:exports"]}"#);
        let (name, value) = settings.unwrap_or(named);
        set(&mut facts, name, value);
        receive_from(&mut facts, &queue("exports", redrive));
        let examined = diagnose(&facts);
        let findings = || examined.iter().flat_map(|it| &it.findings);
        assert!(findings().any(|it| it.name == expected), "{settings:?}: {examined:#?}");
        let mut fixes = findings().filter_map(|it| it.fix.as_ref());
        assert!(fixes.all(|fix| !fix.is_automatic()), "{settings:?}: {examined:#?}");
    }
}

#[test]
fn a_disabled_consumer_beside_an_enabled_one_is_only_a_warning() {
    let mut facts = with_queue();
    let mut second = consumer(&mut facts).clone();
    second.mapping.state = "Disabled".to_owned();
    facts.sources[0].consumers.push(second);
    let worst = |facts: &Facts| {
        diagnose(facts).iter().flat_map(|it| &it.findings).map(|it| (it.name, it.verdict)).max()
    };
    assert_eq!(worst(&facts), Some(("consumer_disabled", Verdict::Warning)));
    consumer(&mut facts).mapping.state = "Disabled".to_owned();
    assert_eq!(worst(&facts), Some(("consumer_disabled", Verdict::Bad)));
}

#[test]
fn a_queue_that_was_just_made_is_not_said_to_have_no_consumer() {
    for (minutes, is_said) in [(0, false), (14, false), (15, true)] {
        let mut facts = with_queue();
        facts.sources[0].consumers.clear();
        source(&mut facts).created_at = Some(earlier(facts.now, Duration::from_mins(minutes)));
        let found = names(&facts);
        assert_eq!(found.contains(&"source_unconsumed"), is_said, "{minutes} {found:?}");
    }
}

#[test]
fn a_queue_that_a_program_receives_from_needs_no_function() {
    let mut facts = with_queue();
    facts.sources[0].consumers.clear();
    let verdict = |facts: &Facts| {
        diagnose(facts).iter().flat_map(|it| &it.findings).map(|it| it.verdict).max()
    };
    assert_eq!(verdict(&facts), Some(Verdict::Warning), "nothing is in it");
    source(&mut facts).visible = 9;
    assert_eq!(verdict(&facts), Some(Verdict::Bad));
    for metric in Metric::OF_SOURCE {
        let mut facts = facts.clone();
        count(&mut facts, metric, "imports", 3.0);
        assert_eq!(names(&facts), [""; 0], "{metric:?}");
    }
    // What can't be read is no proof.
    let fault = Fault::of("cloudwatch:GetMetricData", "*", "AccessDenied", "no");
    facts.metrics = Err(fault);
    assert_eq!(names(&facts), ["unchecked"]);
}
