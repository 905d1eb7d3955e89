//! Ways to break a bucket with failure records, and their findings.

use std::time::Duration;

use super::systems::{HOME, config, count, healthy, names, retry, set};

use crate::{
    account::{
        bucket::{Bucket, Rule},
        fault::Fault,
        notifications::tests::{notifications, part},
        policy::{Service, admit},
    },
    operate::doctor::rules::{
        diagnose,
        facts::{Facts, RecordBucket},
        finding::{Finding, Verdict},
        fix::Fix,
        metric::Metric,
    },
};

const ARN: &str = "arn:aws:s3:::records";
const TLS: &str = r#"{"Effect":"Deny","Principal":"*","Action":"s3:*","Condition":{"Bool":{"aws:SecureTransport":"false"}}}"#;

/// A healthy system of one function whose records go to a bucket.
pub fn with_bucket() -> Facts {
    let mut facts = healthy();
    let queue = facts.queues[0].queue.arn.clone();
    set(&mut facts, "RECORD_BUCKETS", "records");
    config(&mut facts).on_failure = Some(ARN.to_owned());
    facts.targets[0].may_send = [(ARN.to_owned(), Ok(true))].into();
    retry(&mut facts).policy = admit("", &queue, Service::S3, ARN, "123456789012");
    let told = part("c", ("Queue", &queue), "s3:ObjectCreated:*", "aws/lambda/async/orders/");
    facts.buckets.push(RecordBucket {
        bucket: Bucket {
            name: "records".to_owned(),
            notifications: Ok(Some(notifications(&told))),
            rules: Ok(vec![rule("", 30, false)]),
            blocks_public: Ok(true),
            policy: Ok(Some(format!(r#"{{"Statement":[{TLS}]}}"#))),
            key: Ok(None),
        },
        arn: ARN.to_owned(),
        is_listed: true,
        denied: Ok(Vec::new()),
    });
    facts
}

fn rule(prefix: &str, days: u64, is_partial: bool) -> Rule {
    let keeps = Duration::from_hours(24 * days);
    Rule { id: "r".to_owned(), prefix: prefix.to_owned(), keeps, is_partial }
}

fn bucket(facts: &mut Facts) -> &mut Bucket {
    &mut facts.buckets[0].bucket
}

fn tell(facts: &mut Facts, parts: &str) {
    bucket(facts).notifications = Ok(Some(notifications(parts)));
}

fn told(facts: &Facts, event: &str, prefix: &str) -> String {
    part("c", ("Queue", &facts.queues[0].queue.arn), event, prefix)
}

fn deny(facts: &mut Facts, action: &str) {
    facts.buckets[0].denied = Ok(vec![(action.to_owned(), ARN.to_owned())]);
}

type Damage = (&'static str, fn(&mut Facts), &'static str);

/// Ways to break it: the only finding, and a part of its remedy.
pub const BREAKS_OF_BUCKETS: &[Damage] = &[
    ("record_bucket_missing", |it| bucket(it).notifications = Ok(None), ""),
    (
        "record_bucket_unlisted",
        |it| it.buckets[0].is_listed = false,
        "comeback attach orders --records records",
    ),
    ("records_unnoticed", |it| tell(it, ""), "comeback attach orders --records records"),
    (
        "records_unnoticed",
        |it| {
            let parts = told(it, "s3:ObjectRemoved:*", "aws/lambda/async/orders/");
            tell(it, &parts);
        },
        "comeback attach orders --records records",
    ),
    (
        "records_unnoticed",
        |it| {
            let parts = told(it, "s3:ObjectCreated:*", "aws/lambda/async/mails/");
            tell(it, &parts);
        },
        "comeback attach orders --records records",
    ),
    (
        "records_unnoticed",
        |it| tell(it, &part("x", ("Queue", "arn:aws:sqs:x:1:other"), "s3:ObjectCreated:*", "")),
        "comeback attach orders --records records",
    ),
    (
        "records_unnoticed",
        |it| {
            it.targets.clear();
            tell(it, "");
        },
        "",
    ),
    ("unchecked", |it| tell(it, "<EventBridgeConfiguration/>"), ""),
    (
        "unchecked",
        |it| tell(it, &part("t", ("Topic", "arn:aws:sns:x:1:t"), "s3:ObjectCreated:Put", "")),
        "",
    ),
    (
        "queue_refuses_bucket",
        |it| retry(it).policy = None,
        "comeback attach orders --records records",
    ),
    ("queue_key_closed", |it| retry(it).key = Some("alias/aws/sqs".to_owned()), ""),
    ("unchecked", |it| retry(it).key = Some("1234".to_owned()), ""),
    (
        "handler_may_not_read",
        |it| deny(it, "s3:GetObject"),
        r#""Resource":["arn:aws:s3:::records/aws/lambda/async/orders/*"]"#,
    ),
    ("handler_may_not_list", |it| deny(it, "s3:ListBucket"), r#""Action":["s3:ListBucket"]"#),
    (
        "role_may_not_send",
        |it| it.targets[0].may_send = [(ARN.to_owned(), Ok(false))].into(),
        r#""Condition":{"StringEquals":{"s3:ResourceAccount":"123456789012"}},"Effect":"Allow","Resource":["arn:aws:s3:::records/*"]"#,
    ),
    ("records_expire", |it| bucket(it).rules = Ok(vec![rule("aws/", 14, false)]), ""),
    (
        "records_expire",
        |it| {
            let own = rule("aws/lambda/async/orders/", 1, true);
            bucket(it).rules.as_mut().unwrap().push(own);
        },
        "",
    ),
    ("records_kept_forever", |it| bucket(it).rules = Ok(vec![rule("logs/", 1, false)]), ""),
    (
        "records_kept_forever",
        |it| bucket(it).rules = Ok(Vec::new()),
        r#""Filter":{"Prefix":"aws/lambda/"}"#,
    ),
    ("bucket_unblocked", |it| bucket(it).blocks_public = Ok(false), "RestrictPublicBuckets=true"),
    (
        "bucket_public",
        |it| {
            let open = r#"{"Effect":"Allow","Principal":"*","Action":"s3:GetObject"}"#;
            bucket(it).policy = Ok(Some(format!(r#"{{"Statement":[{TLS},{open}]}}"#)));
            bucket(it).blocks_public = Ok(false);
        },
        "put-public-access-block --bucket records",
    ),
    ("bucket_without_tls", |it| bucket(it).policy = Ok(None), ""),
    ("deliveries_failed", |it| count(it, Metric::DELIVERY_FAILURES, "orders", 1.0), ""),
    ("successes_retried", |it| config(it).on_success = Some(ARN.to_owned()), ""),
];

#[test]
fn each_break_of_a_bucket_has_one_finding_and_its_remedy() {
    assert_eq!(names(&with_bucket()), Vec::<&str>::new());
    for (nth, &(name, damage, remedy)) in BREAKS_OF_BUCKETS.iter().enumerate() {
        let mut facts = with_bucket();
        damage(&mut facts);
        assert_eq!(names(&facts), [name], "{nth}");
        let examined = diagnose(&facts);
        let finding: &Finding = examined.iter().find_map(|it| it.findings.first()).unwrap();
        let command = finding.fix.as_ref().map_or(String::new(), Fix::command);
        assert!(
            command.contains(remedy) && remedy.is_empty() == command.is_empty(),
            "{nth}: {command}"
        );
        assert_eq!(finding.why.is_empty(), finding.verdict == Verdict::Unknown, "{nth}");
    }
}

#[test]
fn records_must_be_kept_for_the_longest_age_and_the_retention_of_dead_letters() {
    for (age, days, expected) in [("1d", 15, ""), ("7d", 20, "records_expire"), ("7d", 21, "")] {
        let mut facts = with_bucket();
        set(&mut facts, "MAX_AGE", age);
        bucket(&mut facts).rules = Ok(vec![rule("aws/lambda/", days, false)]);
        assert_eq!(names(&facts).join(" "), expected, "{age}, {days}");
    }
}

#[test]
fn each_part_of_a_bucket_that_can_not_be_read_is_named_and_the_rest_is_examined() {
    let mut facts = with_bucket();
    let fault = |action| Fault::of(action, ARN, "AccessDenied", "no");
    bucket(&mut facts).rules = Err(fault("s3:GetLifecycleConfiguration"));
    bucket(&mut facts).blocks_public = Err(fault("s3:GetBucketPublicAccessBlock"));
    bucket(&mut facts).policy = Err(fault("s3:GetBucketPolicy"));
    facts.buckets[0].is_listed = false;
    assert_eq!(names(&facts), ["record_bucket_unlisted", "unchecked", "unchecked", "unchecked"]);
    bucket(&mut facts).notifications = Err(fault("s3:GetBucketNotification"));
    assert_eq!(names(&facts), ["unchecked"]);
}

#[test]
fn a_function_whose_bucket_no_handler_reads_is_told_to_attach_it() {
    let mut facts = with_bucket();
    facts.buckets.clear();
    let examined = diagnose(&facts);
    let finding = examined.iter().find_map(|it| it.findings.first()).unwrap();
    assert_eq!(
        (finding.name, &*finding.says),
        ("destination_elsewhere", "its on-failure destination is records")
    );
    let command = finding.fix.as_ref().unwrap().command();
    assert_eq!(command, "comeback attach orders --records records");
}

#[test]
fn the_queue_that_a_bucket_tells_must_be_bound_to_the_function() {
    let mut facts = with_bucket();
    set(&mut facts, "QUEUE_TARGETS", r#"{"retry":["mails"]}"#);
    assert_eq!(names(&facts), ["target_not_allowed"], "{HOME}");
}

#[test]
fn failures_that_no_queue_takes_may_be_too_large_and_a_bucket_helps() {
    let mut facts = healthy();
    count(&mut facts, Metric::DELIVERY_FAILURES, "orders", 2.0);
    let examined = diagnose(&facts);
    let finding = examined.iter().find_map(|it| it.findings.first()).unwrap();
    assert!(finding.why.contains("larger than 1 MiB"), "{}", finding.why);
    assert_eq!(finding.fix.as_ref().unwrap().command(), "comeback attach orders --records BUCKET");
}
