//! Tests of the findings: a healthy system, and the ways to break it.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::Redrive;
use super::*;
use crate::operate::rules::{Answer, Fault, Function, Unsupported, tests::function};

const HOME: &str = "us-east-1:123456789012";

fn state(state: &str) -> Answer<State> {
    Ok(State { state: state.to_owned(), ..State::default() })
}

fn running() -> Running {
    Running { state: state("Active"), may_loop: Ok(true), reserved: Ok(None) }
}

fn queue(name: &str, redrive: Option<Redrive>) -> Queue {
    let attributes = QueueAttributes {
        visibility: Duration::from_mins(3),
        retention: Duration::from_hours(14 * 24),
        redrive,
        ..QueueAttributes::default()
    };
    let url = format!("https://sqs.us-east-1.amazonaws.com/123456789012/{name}");
    Queue { arn: format!("arn:aws:sqs:{HOME}:{name}"), url, attributes: Ok(Some(attributes)) }
}

pub(crate) fn mapping_of(uuid: &str, queue: &str, function: &str) -> Mapping {
    Mapping {
        uuid: uuid.to_owned(),
        queue: queue.to_owned(),
        function: function.to_owned(),
        state: "Enabled".to_owned(),
        last_result: None,
        batch_size: 10,
        window: Duration::ZERO,
        reports_failures: true,
        is_filtered: false,
    }
}

/// A healthy system of one function with its own queue and a ledger.
pub(crate) fn healthy() -> Facts {
    let dead_letters = queue("dead", None);
    let redrive = Redrive { queue: dead_letters.arn.clone(), receives_max: 1_000 };
    let retry = queue("retry", Some(redrive));
    let mut handler = function("handler");
    handler.runtime = Some("provided.al2023".to_owned());
    handler.environment = [
        ("DEAD_LETTER_QUEUE_URL", dead_letters.url.as_str()),
        ("QUEUE_TARGETS", r#"{"retry":["orders"]}"#),
        ("LEDGER_TABLE", "ledger"),
        ("REGISTER", "true"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let mut orders = function("orders");
    orders.environment.insert("AWS_LAMBDA_EXEC_WRAPPER".into(), "/opt/comeback-exec".into());
    orders.layers.push(format!("arn:aws:lambda:{HOME}:layer:comeback:1"));
    let config = InvokeConfig {
        retries: Some(0),
        on_failure: Some(retry.arn.clone()),
        ..InvokeConfig::default()
    };
    let text = |texts: &[&str]| texts.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
    Facts {
        mappings: Ok(vec![mapping_of("0b1c", &retry.arn, &handler.arn)]),
        targets: vec![Target {
            name: "orders".to_owned(),
            function: Some((orders, running())),
            known_by: KnownBy::Setting,
            configs: Ok(vec![config]),
            may_send: BTreeMap::from([(retry.arn.clone(), Ok(true))]),
            may_be_invoked: Ok(true),
            layer: Some(Ok(Layer::default())),
        }],
        others: Ok(()),
        handler,
        running: running(),
        queues: vec![RetryQueue {
            queue: retry,
            denied: Ok(Vec::new()),
            other_consumers: Vec::new(),
            moved_from: Ok(Vec::new()),
        }],
        sources: Vec::new(),
        keys: Vec::new(),
        dead_letters,
        dead_letters_denied: Ok(Vec::new()),
        ledger: Some(Ledger {
            name: "ledger".to_owned(),
            table: Ok(Some(Table {
                status: "ACTIVE".to_owned(),
                key: text(&["id S"]),
                waiting: Some(("ACTIVE".to_owned(), text(&["target S", "due_at N"]))),
            })),
            expiry: Ok(Some("expires_at".to_owned())),
            denied: Ok(Vec::new()),
        }),
        metrics: Ok(BTreeMap::new()),
    }
}

/// A healthy system that also retries the messages of a queue, which the function `importer` consumes.
fn with_queue() -> Facts {
    let mut facts = healthy();
    let targets = r#"{"retry":["orders"],"retry-imports":["sqs:imports"]}"#;
    facts.handler.environment.insert("QUEUE_TARGETS".to_owned(), targets.to_owned());
    let mut retry = facts.queues[0].clone();
    retry.queue.arn = retry.queue.arn.replace("retry", "retry-imports");
    let redrive = Redrive { queue: retry.queue.arn.clone(), receives_max: 1 };
    let imports = queue("imports", Some(redrive));
    let allow = json!({ "redrivePermission": "byQueue", "sourceQueueArns": [imports.arn] });
    let attributes = retry.queue.attributes.as_mut().unwrap().as_mut().unwrap();
    attributes.redrive_allow = Some(allow.to_string());
    retry.moved_from = Ok(vec!["imports".to_owned()]);
    let mut mapping = mapping(&mut facts).clone();
    mapping.queue = retry.queue.arn.clone();
    facts.mappings.as_mut().unwrap().push(mapping);
    facts.sources.push(Source {
        queue: imports,
        bound: BTreeSet::from([retry.queue.arn.clone()]),
        consumers: vec![("importer".to_owned(), Ok(true))],
        denied: Ok(Vec::new()),
    });
    facts.queues.push(retry);
    facts
}

fn source(facts: &mut Facts) -> &mut QueueAttributes {
    facts.sources[0].queue.attributes.as_mut().unwrap().as_mut().unwrap()
}

fn retry_of_source(facts: &mut Facts) -> &mut QueueAttributes {
    facts.queues[1].queue.attributes.as_mut().unwrap().as_mut().unwrap()
}

#[test]
fn each_break_of_a_queues_retries_has_one_finding() {
    let broken: [(&str, Break); 13] = [
        ("source_missing", |it| it.sources[0].queue.attributes = Ok(None)),
        ("source_redrive_missing", |it| source(it).redrive = None),
        ("source_redrive_elsewhere", |it| {
            source(it).redrive = Some(Redrive { queue: "arn:x:dead".into(), receives_max: 1 });
        }),
        ("source_redrive_elsewhere", |it| {
            let redrive = source(it).redrive.as_mut().unwrap();
            redrive.queue = redrive.queue.replace("retry-imports", "retry");
        }),
        ("source_receives_many", |it| source(it).redrive.as_mut().unwrap().receives_max = 11),
        ("retry_queue_open", |it| retry_of_source(it).redrive_allow = None),
        ("retry_queue_refuses", |it| {
            let deny = r#"{"redrivePermission":"denyAll"}"#;
            retry_of_source(it).redrive_allow = Some(deny.to_owned());
        }),
        ("consumer_loop_stopped", |it| it.sources[0].consumers[0].1 = Ok(false)),
        ("handler_may_not_send_back", |it| {
            it.sources[0].denied = Ok(vec![("sqs:SendMessage".into(), "arn:x:imports".into())]);
        }),
        ("source_denies_handler", |it| {
            let policy = r#"{"Statement":{"Effect":"Deny","Principal":"*","Action":"sqs:*"}}"#;
            source(it).policy = Some(policy.to_owned());
        }),
        ("source_visibility_long", |it| source(it).visibility = Duration::from_hours(1)),
        ("source_retention_short", |it| source(it).retention = Duration::from_hours(96)),
        ("source_unbound", |it| it.queues[0].moved_from = Ok(vec!["exports".to_owned()])),
    ];
    let facts = with_queue();
    assert_eq!(names(&facts), Vec::<&str>::new());
    for (name, damage) in broken {
        let mut facts = facts.clone();
        damage(&mut facts);
        assert_eq!(names(&facts), [name]);
    }
}

fn names(facts: &Facts) -> Vec<&'static str> {
    diagnose(facts).iter().flat_map(|it| &it.findings).map(|finding| finding.name).collect()
}

fn mapping(facts: &mut Facts) -> &mut Mapping {
    &mut facts.mappings.as_mut().unwrap()[0]
}

fn retry(facts: &mut Facts) -> &mut QueueAttributes {
    facts.queues[0].queue.attributes.as_mut().unwrap().as_mut().unwrap()
}

fn dead(facts: &mut Facts) -> &mut QueueAttributes {
    facts.dead_letters.attributes.as_mut().unwrap().as_mut().unwrap()
}

fn orders(facts: &mut Facts) -> &mut Function {
    &mut facts.targets[0].function.as_mut().unwrap().0
}

fn orders_run(facts: &mut Facts) -> &mut Running {
    &mut facts.targets[0].function.as_mut().unwrap().1
}

fn config(facts: &mut Facts) -> &mut InvokeConfig {
    &mut facts.targets[0].configs.as_mut().unwrap()[0]
}

fn ledger(facts: &mut Facts) -> &mut Ledger {
    facts.ledger.as_mut().unwrap()
}

fn table(facts: &mut Facts) -> &mut Table {
    ledger(facts).table.as_mut().unwrap().as_mut().unwrap()
}

fn set(facts: &mut Facts, name: &str, value: &str) {
    facts.handler.environment.insert(name.to_owned(), value.to_owned());
}

fn count(facts: &mut Facts, metric: Metric, of: &str, value: f64) {
    facts.metrics.as_mut().unwrap().insert((metric, of.to_owned()), value);
}

fn without_destination(facts: &mut Facts, known_by: KnownBy) {
    facts.targets[0].known_by = known_by;
    config(facts).on_failure = None;
}

/// A policy that denies an action to everyone except this role.
fn closed_to_all_but(action: &str, role: &str) -> Option<String> {
    let condition = serde_json::json!({ "ArnNotEquals": { "aws:PrincipalArn": role } });
    let statement = serde_json::json!({
        "Effect": "Deny", "Principal": "*", "Action": action, "Condition": condition,
    });
    Some(serde_json::json!({ "Statement": statement }).to_string())
}

fn for_x86_64() -> Layer {
    Layer { architectures: vec!["x86_64".to_owned()], signer: None }
}

/// A key that two roles use, the second of which lacks these actions.
fn key(denied: &[&str]) -> Keys {
    let arn = format!("arn:aws:kms:{HOME}:key/1234");
    let denied = denied.iter().map(|&it| it.to_owned()).collect();
    [("handler-role", Vec::new()), ("orders-role", denied)]
        .map(|(role, denied)| (arn.clone(), role.to_owned(), Ok(denied)))
        .into()
}

type Break = fn(&mut Facts);

/// Ways to break a system, and the only finding that each leads to.
const BREAKS: [(&str, Break); 89] = [
    ("handler_inactive", |it| it.running.state = state("Failed")),
    ("handler_inactive", |it| it.running.state = state("Inactive")),
    ("update_failed", |it| {
        it.running.state.as_mut().unwrap().failed_update = Some("no image".into())
    }),
    ("settings_bad", |it| set(it, "MAX_AGE", "never")),
    ("setting_misspelt", |it| set(it, "MAX_ATTEMPT", "3")),
    ("in_flight_max_high", |it| set(it, "IN_FLIGHT_MAX", "150000")),
    ("handler_runtime", |it| it.handler.runtime = Some("python3.14".into())),
    ("handler_timeout_short", |it| it.handler.timeout = Duration::from_secs(3)),
    ("handler_vpc", |it| {
        it.handler.in_vpc = true;
        count(it, Metric::EVENT_AGES, "orders", 4.0);
    }),
    ("handler_paused", |it| it.running.reserved = Ok(Some(0))),
    ("handler_loop_stopped", |it| it.running.may_loop = Ok(false)),
    ("handler_errors", |it| count(it, Metric::ERRORS, "handler", 3.0)),
    ("handler_throttled", |it| count(it, Metric::THROTTLES, "handler", 3.0)),
    ("loops_stopped", |it| count(it, Metric::LOOPS_STOPPED, "handler", 1.0)),
    ("retry_queue_url_wrong", |it| {
        set(it, "RETRY_QUEUE_URL", "https://sqs.us-east-1.amazonaws.com/123456789012/other")
    }),
    ("messages_small", |it| retry(it).size_max = Some(262_144)),
    ("messages_small", |it| dead(it).size_max = Some(262_144)),
    ("dead_letters_return", |it| {
        let queue = it.queues[0].queue.arn.clone();
        dead(it).redrive = Some(Redrive { queue, receives_max: 3 });
    }),
    ("successes_retried", |it| config(it).on_success = config(it).on_failure.clone()),
    ("target_unsupported", |it| orders(it).unsupported = Some(Unsupported::TenantIsolation)),
    ("target_unsupported", |it| orders(it).unsupported = Some(Unsupported::Durable)),
    ("wrapper_without_layer", |it| {
        orders(it).layers = vec!["arn:aws:lambda:x:1:layer:apm:1".into()]
    }),
    ("settings_bad", |it| {
        let url = it.handler.environment["DEAD_LETTER_QUEUE_URL"].clone();
        set(it, "RETRY_QUEUE_URL", &url);
    }),
    ("mapping_missing", |it| it.mappings = Ok(Vec::new())),
    ("mapping_disabled", |it| mapping(it).state = "Disabled".into()),
    ("mapping_disabled", |it| mapping(it).state = "Disabling".into()),
    ("mapping_reports_nothing", |it| mapping(it).reports_failures = false),
    ("mapping_filtered", |it| mapping(it).is_filtered = true),
    ("mapping_batch_size", |it| mapping(it).batch_size = 1),
    ("mapping_batch_size", |it| mapping(it).batch_size = 100),
    ("mapping_window", |it| mapping(it).window = Duration::from_secs(1)),
    ("mapping_failing", |it| mapping(it).last_result = Some("PROBLEM: no access".into())),
    ("retry_queue_missing", |it| it.queues[0].queue.attributes = Ok(None)),
    ("visibility_short", |it| retry(it).visibility = Duration::from_secs(179)),
    ("visibility_short", |it| retry(it).visibility = Duration::from_secs(29)),
    ("retention_short", |it| retry(it).retention = Duration::from_hours(4 * 24)),
    ("redrive_missing", |it| retry(it).redrive = None),
    ("redrive_elsewhere", |it| {
        retry(it).redrive.as_mut().unwrap().queue = "arn:aws:sqs:x:1:y".into()
    }),
    ("receives_few", |it| retry(it).redrive.as_mut().unwrap().receives_max = 5),
    ("queue_delays", |it| retry(it).delay = Duration::from_mins(1)),
    ("in_flight_full", |it| retry(it).in_flight = 100_000),
    ("in_flight_quota", |it| retry(it).in_flight = 120_000),
    ("queue_shared", |it| it.queues[0].other_consumers = vec!["billing".into()]),
    ("queue_denies_handler", |it| retry(it).policy = closed_to_all_but("sqs:ReceiveMessage", "x")),
    ("handler_lacks_queue", |it| it.queues[0].denied = Ok(vec!["sqs:DeleteMessage".into()])),
    ("handler_lacks_dead_letters", |it| {
        it.dead_letters_denied = Ok(vec!["sqs:SendMessage".into()])
    }),
    ("dead_letter_queue_missing", |it| it.dead_letters.attributes = Ok(None)),
    ("dead_letters_deny_handler", |it| dead(it).policy = closed_to_all_but("sqs:*", "x")),
    ("dead_letter_retention", |it| dead(it).retention = Duration::from_hours(4 * 24)),
    ("dead_letters", |it| dead(it).visible = 7),
    ("dead_letters_expire", |it| {
        dead(it).visible = 7;
        count(it, Metric::OldestMessage, "dead", 12.0 * 86_400.0);
    }),
    ("target_missing", |it| it.targets[0].function = None),
    ("target_inactive", |it| orders_run(it).state = state("Failed")),
    ("loop_stopped", |it| orders_run(it).may_loop = Ok(false)),
    ("loops_stopped", |it| count(it, Metric::LOOPS_STOPPED, "orders", 1.0)),
    ("target_paused", |it| orders_run(it).reserved = Ok(Some(0))),
    ("destination_missing", |it| config(it).on_failure = None),
    ("destination_missing", |it| it.targets[0].configs = Ok(Vec::new())),
    ("destination_elsewhere", |it| config(it).on_failure = Some("arn:aws:sns:x:1:y".into())),
    ("destination_missing", |it| without_destination(it, KnownBy::Tag)),
    ("destination_elsewhere", |it| {
        it.targets[0].known_by = KnownBy::Metrics;
        config(it).on_failure = Some("arn:aws:sns:x:1:y".into());
    }),
    ("failures_not_retried", |it| {
        count(it, Metric::ERRORS, "orders", 30.0);
        count(it, Metric::ASYNC_EVENTS, "orders", 30.0);
    }),
    ("own_retries", |it| config(it).retries = Some(2)),
    ("own_retries", |it| config(it).retries = None),
    ("event_age_short", |it| config(it).age_max = Some(Duration::from_mins(1))),
    ("target_not_allowed", |it| set(it, "QUEUE_TARGETS", r#"{"retry":["billing"]}"#)),
    ("target_not_allowed", |it| set(it, "TARGET_FUNCTIONS", "billing-*")),
    ("queue_denies_target", |it| {
        let handler = it.handler.role.clone();
        retry(it).policy = closed_to_all_but("sqs:SendMessage", &handler);
    }),
    ("role_may_not_send", |it| *it.targets[0].may_send.values_mut().next().unwrap() = Ok(false)),
    ("own_dead_letters", |it| orders(it).dead_letter_target = Some("arn:aws:sqs:x:1:y".into())),
    ("handler_may_not_invoke", |it| it.targets[0].may_be_invoked = Ok(false)),
    ("wrapper_without_effect", |it| orders(it).runtime = Some("provided.al2023".into())),
    ("wrapper_without_layer", |it| orders(it).layers.clear()),
    ("layer_without_wrapper", |it| orders(it).environment.clear()),
    ("layer_architecture", |it| {
        orders(it).architecture = "arm64".into();
        it.targets[0].layer = Some(Ok(for_x86_64()));
    }),
    ("role_lacks_key", |it| it.keys = key(&["kms:Decrypt"])),
    ("deliveries_failed", |it| count(it, Metric::DELIVERY_FAILURES, "orders", 2.0)),
    ("target_throttled", |it| count(it, Metric::THROTTLES, "orders", 2.0)),
    ("configuration_faults", |it| count(it, Metric::CONFIGURATION_FAULTS, "orders", 2.0)),
    ("dead_letters_unsent", |it| count(it, Metric::LETTERS_NOT_SENT, "orders", 2.0)),
    ("ledger_missing", |it| ledger(it).table = Ok(None)),
    ("ledger_inactive", |it| table(it).status = "DELETING".into()),
    ("ledger_key", |it| table(it).key = vec!["pk S".into()]),
    ("register_index_missing", |it| table(it).waiting = None),
    ("register_index_key", |it| table(it).waiting.as_mut().unwrap().1 = vec!["target S".into()]),
    ("register_index_building", |it| table(it).waiting.as_mut().unwrap().0 = "CREATING".into()),
    ("ledger_never_expires", |it| ledger(it).expiry = Ok(None)),
    ("ledger_never_expires", |it| ledger(it).expiry = Ok(Some("ttl".into()))),
    ("handler_lacks_ledger", |it| ledger(it).denied = Ok(vec!["dynamodb:PutItem".into()])),
];

#[test]
fn nothing_is_found_in_a_healthy_system() {
    let healthy_ones: [(&str, Break); 8] = [
        ("as it is", |_| {}),
        ("no event of the failed invocations was asynchronous", |it| {
            count(it, Metric::ERRORS, "orders", 30.0);
        }),
        ("failures come back", |it| {
            count(it, Metric::ERRORS, "orders", 30.0);
            count(it, Metric::ASYNC_EVENTS, "orders", 30.0);
            count(it, Metric::EVENT_AGES, "orders", 0.0);
        }),
        ("a handler in a VPC reaches Lambda", |it| {
            it.handler.in_vpc = true;
            count(it, Metric::EVENT_AGES, "orders", 4.0);
            count(it, Metric::INVOKED, "orders", 1.0);
        }),
        ("no failure reaches a handler in a VPC", |it| it.handler.in_vpc = true),
        ("the layer is for the function's architecture", |it| {
            it.targets[0].layer = Some(Ok(for_x86_64()));
        }),
        ("a policy names the tenants of a function with tenant isolation", |it| {
            orders(it).unsupported = Some(Unsupported::TenantIsolation);
            set(it, "POLICIES", r#"{"orders":{"TENANT_ID":"/tenant/id"}}"#);
        }),
        ("a function is retried by its own dead-letter queue", |it| {
            config(it).on_failure = None;
            orders(it).dead_letter_target = Some(it.queues[0].queue.arn.clone());
        }),
    ];
    for (name, change) in healthy_ones {
        let mut facts = healthy();
        change(&mut facts);
        let examined = diagnose(&facts);
        let is_good = |it: &Examined| it.findings.is_empty() && !it.good.is_empty();
        assert!(examined.len() == 6 && examined.iter().all(is_good), "{name}: {examined:#?}");
    }
}

#[test]
fn each_problem_leads_to_its_own_finding_and_no_other() {
    for (name, break_it) in BREAKS {
        let mut facts = healthy();
        break_it(&mut facts);
        assert_eq!(names(&facts), [name]);
    }
}

#[test]
fn a_queue_that_queue_targets_does_not_name_is_reported() {
    let mut facts = healthy();
    set(&mut facts, "QUEUE_TARGETS", r#"{"other":["orders"]}"#);
    assert_eq!(names(&facts), ["mapping_missing", "queue_unbound", "target_not_allowed"]);
}

#[test]
fn a_dead_letter_queue_that_is_the_retry_queue_is_named_as_what_it_is() {
    let mut facts = healthy();
    facts.dead_letters = facts.queues[0].queue.clone();
    assert!(names(&facts).contains(&"dead_letters_are_retried"), "{:?}", names(&facts));
}

#[test]
fn an_unknown_fact_is_reported_once_and_affects_no_other_finding() {
    let fault = |action, resource: &str| Fault::of(action, resource, "AccessDenied", "no");
    let denied = || fault("iam:SimulatePrincipalPolicy", "role");
    let mut facts = healthy();
    facts.running.state = Err(fault("lambda:GetFunctionConfiguration", "handler"));
    facts.running.may_loop = Err(fault("lambda:GetFunctionRecursionConfig", "handler"));
    facts.running.reserved = Err(fault("lambda:GetFunctionConcurrency", "handler"));
    facts.metrics = Err(fault("cloudwatch:GetMetricData", "*"));
    facts.others = Err(fault("lambda:ListFunctionEventInvokeConfigs", "billing"));
    facts.mappings = Err(fault("lambda:ListEventSourceMappings", "*"));
    facts.queues[0].denied = Err(denied());
    facts.dead_letters_denied = Err(denied());
    facts.targets[0].may_be_invoked = Err(denied());
    ledger(&mut facts).expiry = Err(fault("dynamodb:DescribeTimeToLive", "ledger"));
    config(&mut facts).retries = Some(1);
    let examined = diagnose(&facts);
    let says = |verdict| {
        let all = examined.iter().flat_map(|it| &it.findings);
        all.filter(|it| it.verdict == verdict).map(|it| it.says.as_str()).collect::<Vec<_>>()
    };
    let expected = [
        "lambda:GetFunctionConfiguration on handler",
        "lambda:GetFunctionConcurrency on handler",
        "lambda:GetFunctionRecursionConfig on handler",
        "cloudwatch:GetMetricData on *",
        "lambda:ListFunctionEventInvokeConfigs on billing",
        "lambda:ListEventSourceMappings on *",
        "iam:SimulatePrincipalPolicy on role",
        "dynamodb:DescribeTimeToLive on ledger",
    ];
    let expected = expected.map(|it| format!("can't be checked without {it}: got AccessDenied"));
    assert_eq!(says(Verdict::Unknown), expected);
    assert_eq!(says(Verdict::Warning), ["Lambda's own retries are 1, and not 0"]);
}

#[test]
fn a_check_that_an_emulator_has_no_service_for_says_so_instead_of_an_error_code() {
    let mut facts = healthy();
    let action = "iam:SimulatePrincipalPolicy";
    facts.queues[0].denied = Err(Fault::of(action, "role", "UnsupportedOperation", "no"));
    let examined = diagnose(&facts);
    let [finding] = examined.iter().flat_map(|it| &it.findings).collect::<Vec<_>>()[..] else {
        panic!("{examined:?}")
    };
    let expected = format!("can't be checked here, because this endpoint has no {action}");
    assert_eq!((finding.verdict, &finding.says), (Verdict::Unknown, &expected));
}

#[test]
fn severity_depends_on_what_is_lost() {
    let verdict = |break_it: Break| {
        let mut facts = healthy();
        break_it(&mut facts);
        diagnose(&facts).iter().flat_map(|it| &it.findings).map(|it| it.verdict).max()
    };
    for (break_it, expected) in [
        ((|it| retry(it).visibility = Duration::from_secs(29)) as Break, Verdict::Bad),
        (|it| retry(it).visibility = Duration::from_secs(30), Verdict::Warning),
        (|it| retry(it).retention = Duration::from_hours(23), Verdict::Bad),
        (|it| retry(it).retention = Duration::from_hours(24), Verdict::Warning),
        (|it| it.running.state = state("Inactive"), Verdict::Warning),
        (|it| it.running.state = state("Failed"), Verdict::Bad),
        (|it| without_destination(it, KnownBy::Tag), Verdict::Bad),
        // Somebody may have detached it.
        (|it| without_destination(it, KnownBy::Metrics), Verdict::Warning),
    ] {
        assert_eq!(verdict(break_it), Some(expected));
    }
}

#[test]
fn a_finding_has_the_command_that_fixes_it() {
    let url = "https://sqs.us-east-1.amazonaws.com/123456789012/retry";
    let document = |action: &str, resources: &str| {
        format!(
            r#"'{{"Statement":[{{"Action":["{action}"],"Effect":"Allow","Resource":{resources}}}],"Version":"2012-10-17"}}'"#
        )
    };
    let orders = format!("arn:aws:lambda:{HOME}:function:orders");
    for (name, expected) in [
        ("mapping_disabled", "aws lambda update-event-source-mapping --uuid 0b1c --enabled --batch-size 10 --maximum-batching-window-in-seconds 0 --function-response-types ReportBatchItemFailures".to_owned()),
        ("visibility_short", format!(r#"aws sqs set-queue-attributes --queue-url {url} --attributes '{{"VisibilityTimeout":"180"}}'"#)),
        ("receives_few", format!(r#"aws sqs set-queue-attributes --queue-url {url} --attributes '{{"RedrivePolicy":"{{\"deadLetterTargetArn\":\"arn:aws:sqs:{HOME}:dead\",\"maxReceiveCount\":1000}}"}}'"#)),
        ("own_retries", "aws lambda update-function-event-invoke-config --function-name orders --maximum-retry-attempts 0".to_owned()),
        ("loop_stopped", "aws lambda put-function-recursion-config --function-name orders --recursive-loop Allow".to_owned()),
        ("role_may_not_send", format!("aws iam put-role-policy --role-name orders-role --policy-name comeback-send-orders --policy-document {}", document("sqs:SendMessage", &format!(r#"["arn:aws:sqs:{HOME}:retry"]"#)))),
        ("handler_may_not_invoke", format!("aws iam put-role-policy --role-name handler-role --policy-name comeback-invoke-orders --policy-document {}", document("lambda:InvokeFunction", &format!(r#"["{orders}","{orders}:*"]"#)))),
        ("ledger_never_expires", "aws dynamodb update-time-to-live --table-name ledger --time-to-live-specification Enabled=true,AttributeName=expires_at".to_owned()),
        ("destination_missing", "comeback attach orders".to_owned()),
        ("role_lacks_key", format!(r#"aws iam put-role-policy --role-name orders-role --policy-name comeback-key-1234 --policy-document '{{"Statement":[{{"Action":["kms:GenerateDataKey","kms:Decrypt"],"Effect":"Allow","Resource":["arn:aws:kms:{HOME}:key/1234"]}}],"Version":"2012-10-17"}}'"#)),
    ] {
        let (_, break_it) = BREAKS.into_iter().find(|it| it.0 == name).unwrap();
        let mut facts = healthy();
        break_it(&mut facts);
        let examined = diagnose(&facts);
        let finding = examined.iter().find_map(|it| it.findings.first()).unwrap();
        assert_eq!(finding.fix.as_ref().unwrap().command(), expected);
    }
}

#[test]
fn names_from_settings_are_quoted_in_commands() {
    let mut facts = healthy();
    ledger(&mut facts).name = "ledger; x '".to_owned();
    ledger(&mut facts).expiry = Ok(None);
    let examined = diagnose(&facts);
    let finding = examined.iter().find_map(|it| it.findings.first()).unwrap();
    let command = finding.fix.as_ref().unwrap().command();
    assert!(command.contains(r"--table-name 'ledger; x '\''' --time"), "{command}");
}

#[test]
fn every_finding_is_in_the_guide() {
    let guide = include_str!("../../../../../../docs/operate/doctor.md");
    let all = BREAKS.iter().map(|(name, _)| *name);
    for name in all.chain(["queue_unbound", "unchecked"]) {
        assert!(guide.contains(&format!("`{name}`")), "{name} is not in docs/operate/doctor.md");
    }
}

#[test]
fn a_redrive_policy_may_have_its_number_as_a_text_and_an_empty_policy_is_none() {
    let redrive = r#"{"deadLetterTargetArn":"arn:aws:sqs:x:1:dead","maxReceiveCount":"5"}"#;
    let answer = [("RedrivePolicy", redrive), ("Policy", "")];
    let answer = answer.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let read = QueueAttributes::read(&answer.into());
    let redrive = Redrive { queue: "arn:aws:sqs:x:1:dead".into(), receives_max: 5 };
    assert_eq!((read.redrive, read.policy), (Some(redrive), None));
}
