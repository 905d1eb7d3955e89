//! Plans for a function whose streams' batches go to a bucket.

use serde_json::{Value, json};

use super::{
    functions::{after, close, facts, parts, state},
    records::with_bucket,
};

use crate::{
    account::{
        function::InvokeConfig,
        notifications::tests::part,
        policy::{Service, admits},
        stream::Stream,
    },
    operate::attach::rules::{
        facts::Facts,
        functions::{attach, detach},
        order::{Order, parse},
    },
};

const ARN: &str = "arn:aws:s3:::records";
const QUEUE: &str = "arn:aws:sqs:us-east-1:123456789012:retry";
const KINESIS: &str = "arn:aws:kinesis:us-east-1:123456789012:stream/clicks";
const KAFKA: &str = "arn:aws:kafka:us-east-1:123456789012:cluster/clicks/1";

fn order() -> Order {
    Order { records: Some("records".to_owned()), streams: true, ..Order::default() }
}

fn stream(uuid: &str, source: &str) -> Stream {
    Stream {
        uuid: uuid.to_owned(),
        source: source.to_owned(),
        function: facts().function.arn,
        on_failure: None,
        is_endless: true,
        is_split: false,
        reports_failures: false,
    }
}

/// A function with a stream, and with what else is of interest.
fn streaming(change: impl Fn(&mut Facts)) -> Facts {
    let mut facts = Facts { streams: vec![stream("u-1", KINESIS)], ..with_bucket(facts(), "") };
    change(&mut facts);
    facts
}

type Change = fn(&mut Facts);

const VARIANTS: [(&str, Change); 8] = [
    ("as it is", |_| {}),
    ("a function that reports", |it| it.streams[0].reports_failures = true),
    ("a limit of its own", |it| it.streams[0].is_endless = false),
    ("the bucket is there already", |it| it.streams[0].on_failure = Some(ARN.to_owned())),
    ("a queue that hears of successes already", |it| {
        it.streams[0].reports_failures = true;
        it.config =
            Some(InvokeConfig { on_success: Some(QUEUE.to_owned()), ..InvokeConfig::default() });
    }),
    ("a closed queue that is to hear of successes", |it| {
        it.streams[0].reports_failures = true;
        let unless_a = json!({ "ArnNotEquals": { "aws:PrincipalArn": ["a"] } });
        close(it, "sqs:SendMessage", Some(unless_a));
    }),
    ("Kafka beside it", |it| it.streams.push(stream("u-2", KAFKA))),
    ("an alias' stream, which stays as it is", |it| {
        let live = format!("{}:live", it.function.arn);
        it.streams.push(Stream { function: live, ..stream("u-2", KINESIS) });
    }),
];

#[test]
fn a_plan_for_streams_can_stop_after_any_step_and_a_detached_function_is_as_before() {
    for (name, change) in VARIANTS {
        let before = streaming(change);
        let plan = attach(&before, &order()).unwrap().steps;
        let end = after(&before, &plan);
        for (stream, was) in end.streams.iter().zip(&before.streams) {
            let is_own = stream.qualifier().is_none();
            assert_eq!(stream.on_failure.as_deref() == Some(ARN), is_own, "{name}: {stream:?}");
            let stays = !is_own || !stream.has_shards();
            assert_eq!(stream.is_endless, stays && was.is_endless, "{name}: {stream:?}");
        }
        let reports = before.streams.iter().any(|it| it.reports_failures);
        let on_success = end.config.as_ref().unwrap().on_success.as_deref();
        assert_eq!(on_success, reports.then_some(QUEUE), "{name}");
        for stop in 0..=plan.len() {
            let stopped = after(&before, &plan[..stop]);
            let rest = attach(&stopped, &order()).unwrap().steps;
            assert_eq!(parts(&rest), parts(&plan[stop..]), "{name}, stopped after {stop}");
            assert_eq!(state(&after(&stopped, &rest)), state(&end), "{name}, after {stop}");
        }
        let kept = Order { streams: false, ..order() };
        assert!(attach(&end, &kept).unwrap().steps.is_empty(), "{name}: the streams stay");
        let back = detach(&end, None, true).unwrap().steps;
        for stop in 0..=back.len() {
            let mut facts = after(&end, &back[..stop]);
            if stop < back.len() {
                facts = after(&facts, &detach(&facts, None, true).unwrap().steps);
            }
            assert_eq!(state(&facts), state(&before), "{name}, stopped after {stop}");
        }
    }
}

#[test]
fn the_queue_is_told_of_a_mappings_records_which_the_handler_may_read_and_nothing_else_changes() {
    let logs = part("logs", ("Queue", "arn:aws:sqs:x:1:logs"), "s3:ObjectCreated:*", "logs/");
    let before = Facts { streams: vec![stream("u-1", KINESIS)], ..with_bucket(facts(), &logs) };
    let plan = attach(&before, &order()).unwrap();
    let last = plan.steps.last().unwrap();
    let is_then = ["mapping of stream/clicks", "endless retries, then no destination"];
    assert_eq!([last.what.as_str(), &last.is], is_then);
    assert_eq!(last.becomes, "2 retries, then arn:aws:s3:::records");
    let end = after(&before, &plan.steps);
    let notifications = &end.records.as_ref().unwrap().notifications;
    let sent = notifications.sent().map(|it| (it.id.as_str(), it.prefix.as_str()));
    let expected = [
        ("logs", "logs/"),
        ("comeback-orders", "aws/lambda/async/orders/"),
        ("comeback-stream-u-1", "aws/lambda/u-1/"),
    ];
    assert_eq!(sent.collect::<Vec<_>>(), expected);
    assert!(notifications.xml().contains(&logs), "{}", notifications.xml());
    let may: Value = serde_json::from_str(end.invoke_policy.unwrap().as_deref().unwrap()).unwrap();
    let objects = ["aws/lambda/async/orders/*", "aws/lambda/u-1/*"].map(|it| format!("{ARN}/{it}"));
    assert_eq!(may["Statement"][1]["Resource"], json!(objects));
    let policy = end.queues[0].attributes.policy.as_deref().unwrap();
    assert!(admits(policy, Service::S3, ARN, "123456789012"), "{policy}");
}

#[test]
fn an_attached_functions_streams_are_attached_later_and_its_role_may_send_its_successes() {
    let before = streaming(|it| it.streams[0].reports_failures = true);
    let first = Order { streams: false, ..order() };
    let attached = after(&before, &attach(&before, &first).unwrap().steps);
    let sends = |facts: &Facts| format!("{:?}", facts.send_policy).contains("sqs:SendMessage");
    assert!(!sends(&attached), "its failures go to the bucket");
    let plan = attach(&attached, &order()).unwrap();
    let expected = [
        "orders: tags",
        "orders: tags",
        "role orders-role: policy comeback-send-orders",
        "role handler-role: policy comeback-invoke-orders",
        "bucket records: notifications",
        "orders: asynchronous invocations",
        "mapping of stream/clicks",
    ];
    assert_eq!(parts(&plan.steps), expected);
    let warnings = ["not in the order of its stream", "each success of an asynchronous event"];
    for part in warnings {
        assert!(plan.warnings.iter().any(|it| it.contains(part)), "{:?}", plan.warnings);
    }
    let end = after(&attached, &plan.steps);
    assert!(sends(&end));
    let first = detach(&end, None, false).unwrap();
    assert_eq!(
        parts(&first.steps),
        ["mapping of stream/clicks", "orders: asynchronous invocations"]
    );
    let back = after(&end, &first.steps);
    let back = after(&back, &detach(&back, None, false).unwrap().steps);
    assert_eq!(state(&back), state(&before));
}

#[test]
fn what_somebody_changed_since_is_left_as_it_is_when_the_function_is_detached() {
    let before = streaming(|it| it.streams[0].reports_failures = true);
    let mut end = after(&before, &attach(&before, &order()).unwrap().steps);
    end.streams[0].on_failure = Some("arn:aws:sns:x:1:failed".to_owned());
    end.config.as_mut().unwrap().on_success = Some("arn:aws:sns:x:1:done".to_owned());
    let plan = detach(&end, None, true).unwrap();
    assert!(plan.warnings[0].contains("now go to arn:aws:sns:x:1:failed"), "{:?}", plan.warnings);
    let back = after(&end, &plan.steps);
    assert_eq!(back.streams, end.streams);
    assert_eq!(back.config.unwrap().on_success.as_deref(), Some("arn:aws:sns:x:1:done"));
    assert!(back.tags.is_empty(), "{:?}", back.tags);
    end.streams.clear();
    let gone = after(&end, &detach(&end, None, true).unwrap().steps);
    assert_eq!(gone.records.unwrap().notifications, before.records.unwrap().notifications);
}

#[test]
fn streams_that_can_not_come_back_are_refused() {
    let cases: [(Change, &str); 5] = [
        (|it| it.streams.clear(), "orders has no event source mapping of a Kinesis stream"),
        (
            |it| it.streams[0].function.push_str(":live"),
            "orders has no event source mapping of a Kinesis stream",
        ),
        (
            |it| it.streams[0].on_failure = Some("arn:aws:sqs:x:1:y".to_owned()),
            "batches of stream/clicks that fail already go to arn:aws:sqs:x:1:y (mapping u-1)",
        ),
        (
            |it| {
                it.streams[0].reports_failures = true;
                let on_success = Some("arn:aws:sns:x:1:done".to_owned());
                it.config = Some(InvokeConfig { on_success, ..InvokeConfig::default() });
            },
            "the function's successes go to arn:aws:sns:x:1:done",
        ),
        (
            |it| {
                let other = ("Queue", "arn:aws:sqs:x:1:other");
                let other = part("x", other, "s3:ObjectCreated:*", "aws/lambda/u-1/");
                *it = Facts { streams: it.streams.clone(), ..with_bucket(facts(), &other) };
            },
            "objects below aws/lambda/u-1/ (notification x)",
        ),
    ];
    for (change, part) in cases {
        let refusal = attach(&streaming(change), &order()).unwrap_err().to_string();
        assert!(refusal.contains(part), "{part} is not in {refusal}");
    }
    let live = Order { function: parse("orders:live").ok(), ..order() };
    let of_alias = streaming(|it| it.streams[0].function.push_str(":live"));
    let warnings = attach(&of_alias, &live).unwrap().warnings;
    assert!(warnings.iter().any(|it| it.contains("may run $LATEST")), "{warnings:?}");
}
