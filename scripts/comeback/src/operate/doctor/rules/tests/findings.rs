//! Ways to break a retry system, and their findings.

use std::{collections::BTreeSet, time::Duration};

use super::{
    buckets::BREAKS_OF_BUCKETS,
    deliveries::BREAKS_OF_DELIVERIES,
    queues::BREAKS_OF_QUEUES,
    streams::BREAKS_OF_STREAMS,
    systems::{
        Break, HOME, closed_to_all_but, config, count, dead, for_everyone, healthy, key, ledger,
        mapping, names, orders, orders_run, retry, set, source, state, table, with_queue,
        without_destination,
    },
};

use crate::{
    account::{fault::Fault, function::Unsupported, queue::Redrive},
    operate::doctor::rules::{
        diagnose,
        facts::{Facts, KnownBy},
        finding::{Examined, Verdict},
        kinds,
        ledger::actions_on_ledger,
        metric::Metric,
    },
};

#[test]
fn a_durable_function_is_well_if_everything_that_it_needs_is_set() {
    let arn = format!("arn:aws:lambda:{HOME}:function:orders");
    let verdict = |dlq_target: &str, durable: &str, letters: bool| {
        let mut facts = healthy();
        let queue = facts.queues[0].queue.arn.clone();
        orders(&mut facts).unsupported = Some(Unsupported::Durable);
        orders(&mut facts).dead_letter_target = letters.then_some(queue);
        facts.targets[0].configs = Ok(Vec::new());
        set(&mut facts, "DLQ_TARGET", dlq_target);
        set(&mut facts, "POLICIES", &format!(r#"{{"orders":{{"DURABLE":"{durable}"}}}}"#));
        names(&facts).join(" ")
    };
    for qualifier in ["$LATEST", "live", "3"] {
        assert_eq!(verdict(&format!("{arn}:{qualifier}"), "true", true), "", "{qualifier}");
    }
    for (dlq_target, durable) in [
        ("orders", "true"),
        (&*arn, "true"),
        ("billing", "true"),
        ("", "true"),
        (&*format!("{arn}:3"), "false"),
    ] {
        assert_eq!(verdict(dlq_target, durable, true), "target_unsupported", "{dlq_target}");
    }
    let without = "target_unsupported destination_missing";
    assert_eq!(verdict(&format!("{arn}:3"), "true", false), without);
}

#[test]
fn names_in_policies_are_known_by_the_account_or_by_other_settings() {
    for (name, settings, is_known) in [
        ("orders", "", true),
        ("importer", "", true),
        ("ordrs", "", false),
        ("theirs", "arn:aws:lambda:us-east-1:210987654321:function:theirs", true),
        ("theirs", "arn:aws:lambda:us-east-1:210987654321:function:th*,orders", true),
        ("ours", "arn:aws:lambda:us-east-1:210987654321:function:th*,orders", false),
        ("sqs:imports", "orders", true),
        ("sqs:mails", "orders,sqs:mail*", true),
        ("sqs:mails", "orders", false),
    ] {
        let mut facts = with_queue();
        set(&mut facts, "TARGET_FUNCTIONS", settings);
        set(&mut facts, "POLICIES", &format!(r#"{{"{name}":{{"MAX_AGE":"2d"}}}}"#));
        let found = names(&facts).contains(&"policy_unknown");
        assert_eq!(found, !is_known, "{name} {settings}");
    }
}

#[test]
fn a_command_that_names_a_consumer_says_what_its_queue_lacks() {
    let mut facts = healthy();
    without_destination(&mut facts, KnownBy::Consumes);
    assert_eq!(names(&facts), ["consumer_unattached"]);
}

#[test]
fn one_of_anything_is_not_counted_as_several() {
    for (metric, expected) in [
        (Metric::CONFIGURATION_FAULTS, "the handler could not invoke it 1 time in the last day"),
        (Metric::DELIVERY_FAILURES, "Lambda could not deliver 1 failure of it in the last day"),
        (Metric::LOOPS_STOPPED, "Lambda stopped 1 invocation as a loop in the last day"),
    ] {
        let mut facts = healthy();
        count(&mut facts, metric, "orders", 1.0);
        let examined = diagnose(&facts);
        assert_eq!(examined.iter().find_map(|it| it.findings.first()).unwrap().says, expected);
    }
}

/// Ways to break a system, and the only finding that each leads to.
const BREAKS: &[(&str, Break)] = &[
    ("handler_inactive", |it| it.running.state = state("Failed")),
    ("handler_inactive", |it| it.running.state = state("Inactive")),
    ("update_failed", |it| {
        it.running.state.as_mut().unwrap().failed_update = Some("no image".into())
    }),
    ("settings_bad", |it| set(it, "MAX_AGE", "never")),
    ("setting_misspelt", |it| set(it, "MAX_ATTEMPT", "3")),
    ("policy_unknown", |it| set(it, "POLICIES", r#"{"ordrs":{"MAX_AGE":"2d"}}"#)),
    ("nothing_retried", |it| set(it, "NON_RETRYABLE_ERRORS", "*")),
    ("nothing_retried", |it| {
        set(it, "POLICIES", r#"{"orders":{"NON_RETRYABLE_ERRORS":["A","*"]}}"#)
    }),
    ("error_hidden", |it| {
        set(it, "POLICIES", r#"{"*":{"ERRORS":{"app.*":{},"app.Down":{"MAX_AGE":"2d"}}}}"#)
    }),
    ("error_unmatched", |it| {
        set(it, "POLICIES", r#"{"orders":{"ERRORS":{"Down":{},"Limited":{}}}}"#);
        it.errors_decided = Ok(["Down of orders".to_owned()].into());
    }),
    ("queue_public", |it| retry(it).policy = for_everyone()),
    ("queue_public", |it| dead(it).policy = for_everyone()),
    ("visibility_long", |it| retry(it).visibility = Duration::from_hours(12)),
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
        count(it, Metric::OLDEST_MESSAGE, "dead", 12.0 * 86_400.0);
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
    ("handler_lacks_ledger", |it| ledger(it).denied = Ok(vec!["dynamodb:UpdateItem".into()])),
];

#[test]
fn nothing_is_found_in_a_healthy_system() {
    let healthy_ones: [(&str, Break); 7] = [
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
    for &(name, break_it) in BREAKS {
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
        ("handler_lacks_ledger", format!(r#"aws iam put-role-policy --role-name handler-role --policy-name comeback-ledger --policy-document '{{"Statement":[{{"Action":["dynamodb:UpdateItem","dynamodb:DeleteItem","dynamodb:BatchGetItem"],"Effect":"Allow","Resource":["arn:aws:dynamodb:{HOME}:table/ledger"]}}],"Version":"2012-10-17"}}'"#)),
        ("ledger_never_expires", "aws dynamodb update-time-to-live --table-name ledger --time-to-live-specification Enabled=true,AttributeName=expires_at".to_owned()),
        ("destination_missing", "comeback attach orders".to_owned()),
        ("queue_public", format!(r#"aws sqs set-queue-attributes --queue-url {url} --attributes '{{"Policy":""}}'"#)),
        ("visibility_long", format!(r#"aws sqs set-queue-attributes --queue-url {url} --attributes '{{"VisibilityTimeout":"180"}}'"#)),
        ("role_lacks_key", format!(r#"aws iam put-role-policy --role-name orders-role --policy-name comeback-key-1234 --policy-document '{{"Statement":[{{"Action":["kms:GenerateDataKey","kms:Decrypt"],"Effect":"Allow","Resource":["arn:aws:kms:{HOME}:key/1234"]}}],"Version":"2012-10-17"}}'"#)),
    ] {
        let (_, break_it) = BREAKS.iter().find(|it| it.0 == name).unwrap();
        let mut facts = healthy();
        break_it(&mut facts);
        let examined = diagnose(&facts);
        let finding = examined.iter().find_map(|it| it.findings.first()).unwrap();
        assert_eq!(finding.fix.as_ref().unwrap().command(), expected);
    }
}

#[test]
fn a_command_names_the_handler_if_there_are_several() {
    let mut facts = with_queue();
    source(&mut facts).redrive = None;
    let command = |facts: &Facts| {
        let examined = diagnose(facts);
        let finding = examined.iter().find_map(|it| it.findings.first()).unwrap();
        finding.fix.as_ref().unwrap().command()
    };
    assert_eq!(command(&facts), "comeback attach --queue imports");
    facts.queues_of_others.insert("arn:x:theirs".to_owned(), "other".to_owned());
    assert_eq!(command(&facts), "comeback attach --queue imports --handler handler");
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
fn a_handler_needs_only_the_actions_on_its_ledger_that_its_settings_use() {
    let of = |settings: &[(&str, &str)]| {
        let mut facts = healthy();
        facts.handler.environment.remove("REGISTER");
        settings.iter().for_each(|(name, value)| set(&mut facts, name, value));
        actions_on_ledger(&facts.handler)
    };
    let [update, delete] = ["dynamodb:UpdateItem", "dynamodb:DeleteItem"];
    let all = [update, delete, "dynamodb:BatchGetItem", "dynamodb:Query"];
    assert_eq!(of(&[]), [update, delete]);
    assert_eq!(of(&[("REGISTER", "true")]), [update, delete, "dynamodb:BatchGetItem"]);
    assert_eq!(of(&[("PROBE", "true")]), all);
    assert_eq!(of(&[("TRANSPARENT", "true")]), all);
    assert_eq!(of(&[("POLICIES", r#"{"orders":{"TRANSPARENT":"true"}}"#)]), all);
    assert_eq!(of(&[("POLICIES", r#"{"orders":{"TRANSPARENT":"false"}}"#)]), [update, delete]);
}

#[test]
fn every_kind_of_finding_is_found_in_a_broken_system() {
    let all = BREAKS.iter().map(|(name, _)| *name);
    let of_queues = BREAKS_OF_QUEUES.iter().map(|(name, ..)| *name);
    let of_buckets = BREAKS_OF_BUCKETS.iter().map(|(name, ..)| *name);
    let of_deliveries = BREAKS_OF_DELIVERIES.iter().map(|(name, ..)| *name);
    // These are found beside others, each by its own test.
    let others = ["queue_unbound", "consumer_unattached", "dead_letters_are_retried", "unchecked"];
    let of_streams = BREAKS_OF_STREAMS.iter().map(|(name, ..)| *name);
    let all = all.chain(of_queues).chain(of_buckets).chain(of_deliveries).chain(of_streams);
    let found: BTreeSet<_> = all.chain(others).collect();
    let kinds: BTreeSet<_> = kinds::ALL.iter().map(|kind| kind.name).collect();
    assert_eq!(kinds, found);
}
