//! Plans for a function whose records go to a bucket, and for several aliases of one function.

use serde_json::json;

use super::functions::{VARIANTS, after, facts, parts, set, state};

use crate::{
    account::{
        function::InvokeConfig,
        notifications::tests::{notifications, part},
        policy::{Service, admits},
        tags::Previous,
    },
    operate::attach::rules::{
        facts::{Facts, RecordBucket},
        functions::{attach, detach},
        order::{Order, parse},
    },
};

const ARN: &str = "arn:aws:s3:::records";
const QUEUE: &str = "arn:aws:sqs:us-east-1:123456789012:retry";

/// The same facts with a bucket that has these notifications.
pub fn with_bucket(facts: Facts, parts: &str) -> Facts {
    let records = RecordBucket {
        name: "records".to_owned(),
        arn: ARN.to_owned(),
        notifications: notifications(parts),
        key: None,
    };
    Facts { records: Some(records), ..facts }
}

fn order() -> Order {
    Order { replace: true, records: Some("records".to_owned()), ..Order::default() }
}

fn others() -> String {
    let logs = part("logs", ("Queue", "arn:aws:sqs:x:1:logs"), "s3:ObjectCreated:*", "logs/");
    let mails =
        part("comeback-mails", ("Queue", QUEUE), "s3:ObjectCreated:*", "aws/lambda/async/mails/");
    [&*logs, &mails, "<EventBridgeConfiguration/>"].concat()
}

#[test]
fn a_plan_for_records_can_stop_after_any_step_and_a_detached_function_is_as_before() {
    let others = others();
    for (name, change) in VARIANTS {
        for (told, transparent) in [("", true), ("", false), (&*others, false)] {
            let mut before = with_bucket(facts(), told);
            set(&mut before, "LEDGER_TABLE", "ledger");
            change(&mut before);
            let order = Order { transparent, ..order() };
            let plan = attach(&before, &order).unwrap().steps;
            let end = after(&before, &plan);
            assert_eq!(end.config.as_ref().unwrap().on_failure.as_deref(), Some(ARN), "{name}");
            assert_eq!(end.handler.environment["RECORD_BUCKETS"], "records", "{name}");
            for stop in 0..=plan.len() {
                let stopped = after(&before, &plan[..stop]);
                let rest = attach(&stopped, &order).unwrap().steps;
                assert_eq!(parts(&rest), parts(&plan[stop..]), "{name}, stopped after {stop}");
                assert_eq!(state(&after(&stopped, &rest)), state(&end), "{name}, after {stop}");
            }
            let kept = Order { replace: true, ..Order::default() };
            assert!(attach(&end, &kept).unwrap().steps.is_empty(), "{name}: the bucket stays");
            let back = detach(&end, None, true).unwrap().steps;
            for stop in 0..=back.len() {
                let mut facts = after(&end, &back[..stop]);
                if stop < back.len() {
                    facts = after(&facts, &detach(&facts, None, true).unwrap().steps);
                }
                let list = facts.handler.environment.get_mut("TARGET_FUNCTIONS");
                list.into_iter().for_each(|list| *list = list.replace(',', ", "));
                // Another function's records are told of to the same queue.
                if !told.is_empty() {
                    assert_eq!(
                        facts.handler.environment.remove("RECORD_BUCKETS").unwrap(),
                        "records"
                    );
                    facts.queues[0].attributes.policy = before.queues[0].attributes.policy.clone();
                }
                assert_eq!(state(&facts), state(&before), "{name}, stopped after {stop}");
            }
        }
    }
}

#[test]
fn a_function_may_put_into_its_bucket_and_the_handler_may_read_its_own_records_only() {
    let mut before = with_bucket(facts(), "");
    before.records.as_mut().unwrap().key = Some("1234".to_owned());
    let end = after(&before, &attach(&before, &order()).unwrap().steps);
    let statements = |policy: &str| {
        let policy: serde_json::Value = serde_json::from_str(policy).unwrap();
        policy["Statement"].clone()
    };
    let (records, key) = (
        "arn:aws:s3:::records/aws/lambda/async/orders/*",
        "arn:aws:kms:us-east-1:123456789012:key/1234",
    );
    let allow = |actions: &[&str], on: &str| json!({ "Effect": "Allow", "Action": actions, "Resource": [on] });
    let in_account = |action: &str, on: &str| {
        let mut statement = allow(&[action], on);
        statement["Condition"] =
            json!({ "StringEquals": { "s3:ResourceAccount": "123456789012" } });
        statement
    };
    let put = json!([
        in_account("s3:PutObject", "arn:aws:s3:::records/*"),
        in_account("s3:ListBucket", ARN),
        allow(&["kms:GenerateDataKey", "kms:Decrypt"], key),
    ]);
    assert_eq!(statements(end.send_policy.as_ref().unwrap().as_deref().unwrap()), put);
    let read = statements(end.invoke_policy.as_ref().unwrap().as_deref().unwrap());
    let expected = [
        allow(&["s3:GetObject", "s3:GetObjectVersion"], records),
        allow(&["s3:ListBucket"], ARN),
        allow(&["kms:Decrypt"], key),
    ];
    assert_eq!(read.as_array().unwrap()[1..], expected);
    let policy = end.queues[0].attributes.policy.as_deref().unwrap();
    assert!(admits(policy, Service::S3, ARN, "123456789012"), "{policy}");
}

#[test]
fn an_attached_functions_records_go_to_a_bucket_later_and_those_on_their_way_reach_the_queue() {
    let before = with_bucket(facts(), "");
    let attached = Facts { records: None, ..before.clone() };
    let attached = after(&attached, &attach(&attached, &Order::default()).unwrap().steps);
    let attached = Facts { records: before.records.clone(), ..attached };
    let end = after(&attached, &attach(&attached, &order()).unwrap().steps);
    let policy = end.send_policy.as_ref().unwrap().as_deref().unwrap();
    assert!(policy.contains("sqs:SendMessage") && policy.contains("s3:PutObject"), "{policy}");
    let first = detach(&end, None, false).unwrap();
    assert_eq!(parts(&first.steps), ["orders: asynchronous invocations"]);
    assert!(first.warnings[0].contains("run this again"), "{:?}", first.warnings);
    let back = after(&end, &first.steps);
    let back = after(&back, &detach(&back, None, false).unwrap().steps);
    assert_eq!(state(&back), state(&before));
    let mut busy = end;
    busy.queues[0].attributes.in_flight = 2;
    assert_eq!(detach(&busy, None, false).unwrap().waiting, 2);
    let now = detach(&busy, None, true).unwrap();
    assert!(
        now.warnings[0].contains("that wait in retry can't be read any more"),
        "{:?}",
        now.warnings
    );
}

#[test]
fn a_notification_that_covers_the_records_is_used_and_one_to_somebody_else_is_refused() {
    let all = "aws/lambda/async/";
    let own = part("own", ("Queue", QUEUE), "s3:ObjectCreated:Put", all);
    let plan = attach(&with_bucket(facts(), &own), &order()).unwrap().steps;
    assert!(!parts(&plan).contains(&"bucket records: notifications"), "{plan:#?}");
    for other in [
        part("x", ("Queue", "arn:aws:sqs:x:1:other"), "s3:ObjectCreated:*", all),
        part("x", ("Topic", "arn:aws:sns:x:1:t"), "s3:ObjectCreated:Copy", ""),
        part("x", ("CloudFunction", "arn:aws:lambda:x:1:function:f"), "s3:ObjectCreated:*", "aws/"),
    ] {
        let refusal = attach(&with_bucket(facts(), &other), &order()).unwrap_err().to_string();
        assert!(refusal.contains("(notification x)"), "{refusal}");
    }
    let removed = part("x", ("Topic", "arn:aws:sns:x:1:t"), "s3:ObjectRemoved:*", "");
    assert!(attach(&with_bucket(facts(), &removed), &order()).is_ok());
}

#[test]
fn what_can_not_work_with_a_bucket_is_refused_or_warned_of() {
    let mut facts = with_bucket(facts(), "<EventBridgeConfiguration/>");
    facts.queues[0].attributes.key = Some("1234".to_owned());
    facts.records.as_mut().unwrap().key = Some("alias/own".to_owned());
    let warnings = attach(&facts, &order()).unwrap().warnings;
    let expected = [
        "handler must be of this version or a later one: an earlier one doesn't read records",
        "a payload near 1 MiB has no room for an envelope",
        "the key's policy must let s3.amazonaws.com use it",
        "records has the key alias/own: let orders-role and handler-role use it",
        "records also notifies EventBridge",
    ];
    assert!(warnings.iter().zip(expected).all(|(it, part)| it.contains(part)), "{warnings:#?}");
    assert_eq!(warnings.len(), expected.len(), "{warnings:#?}");
    facts.queues[0].attributes.key = Some("alias/aws/sqs".to_owned());
    let refusal = attach(&facts, &order()).unwrap_err().to_string();
    assert!(
        refusal.contains("retry has AWS's own key for SQS, which s3.amazonaws.com can't use"),
        "{refusal}"
    );
    facts.queues[0].attributes.key = None;
    let other = Order { records: Some("others".to_owned()), ..order() };
    let refusal = attach(&facts, &other).unwrap_err().to_string();
    assert!(
        refusal.contains("detach it first, and then attach it with --records others"),
        "{refusal}"
    );
}

/// The facts about another qualifier of the function, which has an event invoke config and policies of its own.
fn turned(facts: &Facts, to: &Facts) -> Facts {
    let (config, send_policy, invoke_policy) =
        (to.config.clone(), to.send_policy.clone(), to.invoke_policy.clone());
    Facts { config, send_policy, invoke_policy, ..facts.clone() }
}

#[test]
fn whoever_of_a_functions_aliases_is_detached_last_restores_what_the_others_have_added() {
    let own = Order { transparent: true, ..order() };
    let live = Order { function: parse("orders:live").ok(), ..own.clone() };
    let mut before = with_bucket(facts(), "");
    set(&mut before, "LEDGER_TABLE", "ledger");
    set(&mut before, "TARGET_FUNCTIONS", "billing");
    let first = after(&before, &attach(&before, &own).unwrap().steps);
    let fresh = turned(&first, &before);
    let second = after(&fresh, &attach(&fresh, &live).unwrap().steps);
    for leaves_first in [None, Some("live")] {
        let (of_first, of_last) = match leaves_first {
            None => (turned(&second, &first), second.clone()),
            Some(_) => (second.clone(), first.clone()),
        };
        let left = after(&of_first, &detach(&of_first, leaves_first, true).unwrap().steps);
        assert_eq!(left.handler, second.handler, "the other one needs the settings");
        assert_eq!(
            left.records.as_ref().unwrap().notifications,
            second.records.as_ref().unwrap().notifications
        );
        assert_eq!(Previous::others(&left.tags, leaves_first).len(), 1);
        let last = turned(&left, &of_last);
        let stays = if leaves_first.is_none() { Some("live") } else { None };
        let back = after(&last, &detach(&last, stays, true).unwrap().steps);
        assert_eq!(state(&back), state(&before), "{leaves_first:?}");
    }
}

#[test]
fn an_alias_that_goes_to_the_queue_does_not_keep_the_bucket_of_another() {
    let live = Order { function: parse("orders:live").ok(), ..Order::default() };
    let before = with_bucket(facts(), "");
    let first = after(&before, &attach(&before, &order()).unwrap().steps);
    let fresh = Facts { records: None, ..turned(&first, &before) };
    let second = after(&fresh, &attach(&fresh, &live).unwrap().steps);
    let of_first = Facts { records: first.records.clone(), ..turned(&second, &first) };
    let left = after(&of_first, &detach(&of_first, None, true).unwrap().steps);
    assert!(!left.handler.environment.contains_key("RECORD_BUCKETS"));
    assert_eq!(left.records.unwrap().notifications, notifications(""));
    let config = second.config.unwrap();
    let expected = InvokeConfig { on_failure: Some(QUEUE.to_owned()), ..config.clone() };
    assert_eq!(config, expected);
}
