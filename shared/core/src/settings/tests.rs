//! How the settings are read, and the error messages about bad ones.

use std::{collections::BTreeMap, time::Duration};

use super::*;
use crate::{
    Attempt,
    arn::FunctionArn,
    backoff::Jitter,
    error_type::NonRetryable,
    target::Target,
    testing::{home, rules, settings},
};

const QUEUE: &str = "https://sqs.us-east-1.amazonaws.com/123456789012/dead";

fn read(variables: &[(&str, &str)]) -> Result<Settings, BadSettings> {
    let variables: BTreeMap<_, _> = variables.iter().copied().collect();
    Settings::from_lookup(|name| variables.get(name).map(|&value| value.to_owned()))
}

fn complaint(variables: &[(&str, &str)]) -> String {
    let dead = [("DEAD_LETTER_QUEUE_URL", QUEUE)];
    let variables: Vec<_> = dead.iter().chain(variables).copied().collect();
    read(&variables).map(|settings| panic!("{settings:?}")).unwrap_err().to_string()
}

#[test]
fn a_value_that_contradicts_another_is_refused() {
    let own = |values: &'static str| ("POLICIES", values);
    let needs = |name| (name, "true");
    for (variables, expected) in [
        (
            &[("RETRY_QUEUE_URL", QUEUE)][..],
            "DEAD_LETTER_QUEUE_URL must be another queue than RETRY_QUEUE_URL, got \"https://sqs.us-east-1.amazonaws.com/123456789012/dead\"",
        ),
        (
            &[("MAX_ATTEMPTS", "3"), ("MAX_RETRIES", "4")],
            "MAX_RETRIES must be the same as MAX_ATTEMPTS, 3, whose alias it is, got \"4\"",
        ),
        (
            &[("MAX_BACKOFF", "10s"), own(r#"{"orders":{"BASE_BACKOFF":"1m"}}"#)],
            "POLICIES.orders.MAX_BACKOFF must be from BASE_BACKOFF, 1m, to 13d, got \"10s\"",
        ),
        (
            &[("BASE_BACKOFF", "13h"), own(r#"{"orders":{"JITTER":"none"}}"#)],
            "BASE_BACKOFF must be from 1s to 12h, got \"13h\"",
        ),
        (
            &[("BASE_BACKOFF", "13h"), own(r#"{"orders":{"BASE_BACKOFF":"13h"}}"#)],
            "BASE_BACKOFF must be from 1s to 12h, got \"13h\"; \
             POLICIES.orders.BASE_BACKOFF must be from 1s to 12h, got \"13h\"",
        ),
        (
            &[needs("REGISTER"), needs("PROBE")],
            "LEDGER_TABLE must be the name or the ARN of a DynamoDB table if PROBE is true, and is not set; \
             LEDGER_TABLE must be the name or the ARN of a DynamoDB table if REGISTER is true, and is not set",
        ),
    ] {
        assert_eq!(complaint(variables), expected);
    }
}

#[test]
fn every_duration_out_of_its_range_is_named() {
    let named = |base: u64, max: u64, age: u64| {
        let [base, max, age] = [base, max, age].map(|seconds| seconds.to_string());
        let set = [("BASE_BACKOFF", &*base), ("MAX_BACKOFF", &*max), ("MAX_AGE", &*age)];
        let dead = ("DEAD_LETTER_QUEUE_URL", QUEUE);
        let bad = read(&[&set[..], &[dead]].concat()).err();
        bad.map(|bad| bad.names().map(str::to_owned).collect::<Vec<_>>()).unwrap_or_default()
    };
    let (hour, day) = (3600, 86_400);
    assert_eq!(named(1, 1, 2), [""; 0]);
    assert_eq!(named(12 * hour, 13 * day, 365 * day), [""; 0]);
    assert_eq!(named(0, 10, 100), ["BASE_BACKOFF"]);
    assert_eq!(named(12 * hour + 1, 13 * day, 14 * day), ["BASE_BACKOFF"]);
    assert_eq!(named(13 * hour, 12 * hour, 10 * hour), ["BASE_BACKOFF"]);
    assert_eq!(named(13 * hour, 0, 1), ["BASE_BACKOFF", "MAX_BACKOFF", "MAX_AGE"]);
    assert_eq!(named(10, 9, 100), ["MAX_BACKOFF"]);
    assert_eq!(named(1, 13 * day + 1, 14 * day), ["MAX_BACKOFF"]);
    assert_eq!(named(1, 10, 365 * day + 1), ["MAX_AGE"]);
    assert_eq!(named(10, 10, 10), ["MAX_AGE"]);
    assert_eq!(named(0, 14 * day, 366 * day), ["BASE_BACKOFF", "MAX_BACKOFF", "MAX_AGE"]);
}

#[test]
fn every_bad_setting_is_named_in_one_message_with_what_it_must_be_and_what_it_is() {
    let complaint = read(&[
        ("BASE_BACKOFF", "soon"),
        ("MAX_BACKOFF", "14d"),
        ("MAX_AGE", "366d"),
        ("MAX_ATTEMPTS", "0"),
        ("JITTER", "some"),
        ("TENANT_ID", "tenant"),
        ("DURABLE", "yes"),
        ("TARGET_FUNCTIONS", "orders,bad name"),
        ("DLQ_TARGET", "bad name"),
        ("RETRY_QUEUE_URL", "retry"),
        ("LEDGER_TABLE", "bad name"),
        (
            "QUEUE_TARGETS",
            r#"{"retry":[],"q u":["orders"],"twice":["a b",""],"twice":["a"],"none":"orders"}"#,
        ),
        ("IN_FLIGHT_MAX", "0"),
        ("POLICIES", r#"{"orders":{"MAX_AGE":true,"MAXAGE":"1d"},"b":7}"#),
    ]);
    let expected = [
        "DEAD_LETTER_QUEUE_URL must be the URL of a queue, such as https://sqs.us-east-1.amazonaws.com/123456789012/name, and is not set",
        "BASE_BACKOFF must be a duration such as 90, 90s, 15m, 24h or 7d, got \"soon\"",
        "MAX_BACKOFF must be from BASE_BACKOFF to 13d, got \"14d\"",
        "MAX_AGE must be from 2s to 365d, got \"366d\"",
        "MAX_ATTEMPTS must be a whole number from 1, got \"0\"",
        "JITTER must be full, equal or none, got \"some\"",
        "TENANT_ID must be a JSON pointer such as /tenant/id, got \"tenant\"",
        "DURABLE must be true or false, got \"yes\"",
        "TARGET_FUNCTIONS must be function names or ARNs, in which * matches any characters, got \"bad name\"",
        "DLQ_TARGET must be the name or the ARN of a function, got \"bad name\"",
        "QUEUE_TARGETS.retry must be a list of functions such as [\"orders\"], or of queues such as [\"sqs:imports\"], got \"[]\"",
        "QUEUE_TARGETS must be an object whose keys are queue names, not ARNs or URLs, got \"q u\"",
        "QUEUE_TARGETS.twice must be function names or ARNs, in which * matches any characters, got \"a b\"",
        "QUEUE_TARGETS.twice must be function names or ARNs, in which * matches any characters, got \"\"",
        "QUEUE_TARGETS must be an object that names each queue once, got \"twice\"",
        "QUEUE_TARGETS.none must be a list of functions such as [\"orders\"], or of queues such as [\"sqs:imports\"], got \"\\\"orders\\\"\"",
        "IN_FLIGHT_MAX must be a whole number from 1, got \"0\"",
        "LEDGER_TABLE must be the name or the ARN of a DynamoDB table, got \"bad name\"",
        "RETRY_QUEUE_URL must be the URL of a queue, such as https://sqs.us-east-1.amazonaws.com/123456789012/name, got \"retry\"",
        "POLICIES.orders must be one of BASE_BACKOFF, ",
        ", got \"MAXAGE\"",
        "POLICIES.orders.MAX_AGE must be a duration such as 90, 90s, 15m, 24h or 7d, got \"true\"",
    ];
    let bad = complaint.unwrap_err();
    let names: Vec<_> = bad.names().collect();
    assert!(names.contains(&"LEDGER_TABLE") && names.contains(&"POLICIES.b"), "{names:?}");
    let complaint = bad.to_string();
    let mut rest = complaint.as_str();
    for part in expected {
        let at =
            rest.find(part).unwrap_or_else(|| panic!("{part}\nis not in order in\n{complaint}"));
        rest = &rest[at + part.len()..];
    }
    assert!(
        rest.ends_with(r#"POLICIES.b must be an object such as {"MAX_AGE":"7d"}, got "7""#),
        "{rest}"
    );
}

#[test]
fn values_are_read_into_their_places_and_those_of_a_target_are_its_own() {
    let settings = settings(&[
        ("RETRY_QUEUE_URL", "https://host/q"),
        ("LEDGER_TABLE", "ledger"),
        ("REGISTER", "true"),
        ("PROBE", " true "),
        ("BASE_BACKOFF", "5s"),
        ("MAX_RETRIES", "3"),
        ("JITTER", "equal"),
        ("NON_RETRYABLE_ERRORS", "A"),
        (
            "POLICIES",
            r#"{"orders":{"MAX_AGE":"7d","MAX_ATTEMPTS":9,"BASE_BACKOFF":30,"JITTER":"none","NON_RETRYABLE_ERRORS":["B","C"]},
                "sqs:a":{"MAX_ATTEMPTS":7},"arn:aws:sqs:us-east-1:123456789012:b":{"MAX_ATTEMPTS":8}}"#,
        ),
    ]);
    assert_eq!(settings.retry_queue_url.as_deref(), Some("https://host/q"));
    assert_eq!(settings.ledger_table.as_deref(), Some("ledger"));
    assert!(settings.register && settings.probe);
    let policies = settings.rules.policies;
    let (orders, others) = (policies.of("orders"), policies.of("others"));
    assert_eq!(others.backoff.base, Duration::from_secs(5));
    assert_eq!(others.backoff.jitter, Jitter::Equal);
    assert_eq!(others.non_retryable, NonRetryable::parse("A"));
    assert_eq!(orders.backoff.base, Duration::from_secs(30));
    assert_eq!(orders.backoff.max, others.backoff.max);
    assert_eq!(orders.backoff.jitter, Jitter::None);
    assert_eq!(orders.max_age, Duration::from_hours(7 * 24));
    assert_eq!(orders.non_retryable, NonRetryable::parse("B,C"));
    for (target, attempts) in [("orders", 9), ("others", 3), ("sqs:a", 7), ("sqs:b", 8), ("b", 3)] {
        assert_eq!(policies.of(target).max_attempts, Attempt::new(attempts), "{target}");
    }
    let defaults = self::settings(&[]);
    assert!(!defaults.register && !defaults.probe);
}

#[test]
fn targets_are_the_functions_at_home_or_those_listed() {
    let arn = |text: &str| {
        Target::Function(FunctionArn::parse(&format!("arn:aws:lambda:{text}")).unwrap())
    };
    let allowed =
        |list, text| rules(&[("TARGET_FUNCTIONS", list)]).targets.allow(&arn(text), &home());
    let here = "us-east-1:123456789012:function:orders:live";
    let elsewhere = "eu-west-1:123456789012:function:orders:live";
    for (list, at_home, away) in [
        ("", true, false),
        ("orders", true, false),
        ("pay*, ord*", true, false),
        ("*", true, false),
        ("payments", false, false),
        ("arn:aws:lambda:*:123456789012:function:orders", true, true),
        ("arn:aws:lambda:*:123456789012:function:orders:live", true, true),
        ("arn:aws:lambda:*:123456789012:function:orders:other", false, false),
        ("arn:*", true, true),
    ] {
        assert_eq!((allowed(list, here), allowed(list, elsewhere)), (at_home, away), "{list:?}");
    }
}

#[test]
fn every_bad_queue_among_targets_is_named_in_one_message() {
    let queue = "arn:aws:sqs:us-east-1:123456789012:";
    let lists = format!(
        r#"{{"retry-a":["sqs:a","{queue}b"],"retry-b":["sqs:","sqs:a b","sqs:im*","sqs:x.fifo","{queue}x.fifo","{queue}im*"],
            "retry-c":["sqs:retry-a","{queue}retry-c","sqs:retry-d","sqs:dead"]}}"#
    );
    let policies = format!(
        r#"{{"sqs:a":{{"MAX_AGE":"7d","TENANT_ID":"/t"}},"sqs:a*":{{}},"{queue}b":{{"JITTER":"none"}},"{queue}x.fifo":{{}}}}"#
    );
    let complaint = complaint(&[
        ("RETRY_QUEUE_URL", "https://sqs.us-east-1.amazonaws.com/123456789012/retry-d"),
        ("DEAD_LETTER_QUEUE_URL", "https://sqs.us-east-1.amazonaws.com/123456789012/dead/"),
        ("TARGET_FUNCTIONS", "orders,sqs:im*,sqs:a.fifo,sqs:,sqs:retry-b"),
        ("QUEUE_TARGETS", &lists),
        ("DLQ_TARGET", "sqs:a"),
        ("POLICIES", &policies),
    ]);
    let stars = "TARGET_FUNCTIONS must be standard queues, as sqs:NAME or by their ARNs, in which * matches any characters";
    let plain =
        "QUEUE_TARGETS.retry-b must be a standard queue, as sqs:NAME or by its ARN, without *";
    let keys =
        "POLICIES must be an object whose keys name queues as sqs:NAME or by their ARNs, without *";
    let other = "must be another queue than the retry queues and the dead-letter queue";
    let expected = [
        format!("{stars}, got \"sqs:a.fifo\""),
        format!("{stars}, got \"sqs:\""),
        "DLQ_TARGET must be the name or the ARN of a function, got \"sqs:a\"".to_owned(),
        format!("{plain}, got \"sqs:\""),
        format!("{plain}, got \"sqs:a b\""),
        format!("{plain}, got \"sqs:im*\""),
        format!("{plain}, got \"sqs:x.fifo\""),
        format!("{plain}, got \"{queue}x.fifo\""),
        format!("{plain}, got \"{queue}im*\""),
        "POLICIES.sqs:a.TENANT_ID must be absent, because it is about functions only, got \"/t\""
            .to_owned(),
        format!("{keys}, got \"sqs:a*\""),
        format!("{keys}, got \"{queue}x.fifo\""),
        format!("TARGET_FUNCTIONS {other}, got \"sqs:retry-b\""),
        format!("QUEUE_TARGETS.retry-c {other}, got \"sqs:retry-a\""),
        format!("QUEUE_TARGETS.retry-c {other}, got \"{queue}retry-c\""),
        format!("QUEUE_TARGETS.retry-c {other}, got \"sqs:retry-d\""),
        format!("QUEUE_TARGETS.retry-c {other}, got \"sqs:dead\""),
    ];
    assert_eq!(complaint.split("; ").collect::<Vec<_>>(), expected);
}

#[test]
fn the_policy_of_a_queue_keeps_error_types_without_effect_and_has_nothing_else_of_functions() {
    let own = |name: &str, value: &str| format!(r#"{{"sqs:a":{{"{name}":{value}}}}}"#);
    settings(&[("POLICIES", &own("NON_RETRYABLE_ERRORS", r#""A""#))]);
    for (name, value) in [("TENANT_ID", r#""/t""#), ("DURABLE", r#""true""#)] {
        let expected =
            format!("POLICIES.sqs:a.{name} must be absent, because it is about functions only");
        assert!(complaint(&[("POLICIES", &own(name, value))]).starts_with(&expected), "{name}");
    }
}

#[test]
fn each_value_is_accepted_or_refused_as_a_whole() {
    let (longest, too_long) = ("x".repeat(255), "x".repeat(256));
    for (name, good, bad) in [
        (
            "RETRY_QUEUE_URL",
            &["https://host/q", "http://127.0.0.1:4566/000000000000/q"][..],
            &[
                "q",
                "ftp://host/q",
                "https:///q",
                "https://host",
                "https://host//",
                "https://host/a b",
            ][..],
        ),
        (
            "LEDGER_TABLE",
            &["abc", "a-b_c.9", &longest, "arn:aws:dynamodb:us-east-1:1:table/ledger"],
            &["ab", "a b", &too_long, "arn:aws:sqs:us-east-1:1:q", "arn:aws:dynamodb:r:1:table/"],
        ),
        ("TARGET_FUNCTIONS", &["a"], &[" , "]),
        ("POLICIES", &["{}"], &["7d", "[]"]),
        ("REGISTER", &["false", "", " false "], &["yes"]),
        ("PROBE", &["false", "", " false "], &["yes"]),
        ("HISTORY_RETENTION", &["1d", "3650d"], &["23h", "3651d", "for ever"]),
    ] {
        good.iter().for_each(|value| drop(settings(&[(name, value)])));
        for value in bad {
            assert!(
                complaint(&[(name, value)]).starts_with(&format!("{name} must be ")),
                "{value}"
            );
        }
    }
}

#[test]
fn a_bare_event_belongs_to_the_function_of_this_name_or_arn() {
    let target = |text| rules(&[("DLQ_TARGET", text)]).dlq_target.unwrap().at(&home()).unwrap();
    assert_eq!(target("legacy").as_str(), "arn:aws:lambda:us-east-1:123456789012:function:legacy");
    let arn = "arn:aws:lambda:us-east-1:000000000001:function:legacy:live";
    assert_eq!(target(arn).as_str(), arn);
}

#[test]
fn a_variable_that_looks_like_a_misspelt_setting_is_named_with_the_setting() {
    let table = [
        ("MAX_ATTEMPT", Some("MAX_ATTEMPTS")),
        ("BASE_BAKCOFF", Some("BASE_BACKOFF")),
        ("max_age", Some("MAX_AGE")),
        ("MAXAGE", Some("MAX_AGE")),
        ("JITER", Some("JITTER")),
        ("MAX_RETRY", None),
        ("DEAD_LETTER_QUEUE_ULR", Some("DEAD_LETTER_QUEUE_URL")),
        ("MAX_ATTEMPTS", None),
        ("AWS_MAX_ATTEMPTS", None),
        ("PATH", None),
        ("", None),
    ];
    for (variable, expected) in table {
        let found = Misspelt::among([variable.to_owned()]);
        assert_eq!(found.first().map(|it| it.setting), expected, "{variable}");
    }
    let [misspelt] = &Misspelt::among(["MAX_ATTEMPT".to_owned()])[..] else {
        panic!("expected one")
    };
    assert_eq!(
        misspelt.to_string(),
        "MAX_ATTEMPT is not a setting and is ignored; did you mean MAX_ATTEMPTS?"
    );
}
