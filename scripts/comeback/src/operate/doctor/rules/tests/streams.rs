//! Ways to break what becomes of a stream's batches.

use super::{
    buckets::with_bucket,
    systems::{Break, HOME, config, names},
};

use crate::{
    account::stream::Stream,
    operate::doctor::rules::{diagnose, facts::Facts},
};

/// A healthy system whose function processes a stream. What fails goes to a bucket.
fn streaming() -> Facts {
    let mut facts = with_bucket();
    facts.streams.push(Stream {
        uuid: "5e7a".to_owned(),
        source: format!("arn:aws:kinesis:{HOME}:stream/clicks"),
        function: format!("arn:aws:lambda:{HOME}:function:orders:live"),
        on_failure: Some("arn:aws:s3:::records".to_owned()),
        is_endless: false,
        is_split: true,
        reports_failures: false,
    });
    facts
}

/// Ways to break what becomes of a stream's batches, the only finding that each leads to, and a part of its remedy.
pub const BREAKS_OF_STREAMS: &[(&str, Break, &str)] = &[
    (
        "stream_without_payload",
        |it| it.streams[0].on_failure = Some(it.queues[0].queue.arn.clone()),
        "arn:aws:s3:::BUCKET",
    ),
    (
        "stream_without_destination",
        |it| it.streams[0].on_failure = None,
        "--uuid 5e7a --destination-config",
    ),
    (
        "stream_parts_lost",
        |it| it.streams[0].reports_failures = true,
        r#""OnSuccess":{"Destination":"arn:aws:sqs:us-east-1:123456789012:retry"}"#,
    ),
    ("stream_stands_still", |it| it.streams[0].is_endless = true, "--maximum-retry-attempts 2"),
    ("stream_unsplit", |it| it.streams[0].is_split = false, "--bisect-batch-on-function-error"),
];

#[test]
fn a_stream_whose_batches_would_be_lost_or_stop_it_is_found() {
    assert_eq!(names(&streaming()), [""; 0]);
    for &(expected, change, remedy) in BREAKS_OF_STREAMS {
        let mut facts = streaming();
        change(&mut facts);
        assert_eq!(names(&facts), [expected]);
        let examined = diagnose(&facts);
        let of_stream = examined.iter().find(|it| it.part == "stream/clicks of orders").unwrap();
        let command = of_stream.findings[0].fix.as_ref().unwrap().command();
        assert!(command.contains(remedy), "{command}");
    }
    let mut reported = streaming();
    reported.streams[0].is_split = false;
    reported.streams[0].reports_failures = true;
    config(&mut reported).on_success = Some(reported.queues[0].queue.arn.clone());
    assert_eq!(names(&reported), [""; 0], "the function says which record is bad");
    let mut kafka = streaming();
    kafka.streams[0].source = format!("arn:aws:kafka:{HOME}:cluster/clicks/0a1b");
    (kafka.streams[0].is_endless, kafka.streams[0].is_split) = (true, false);
    assert_eq!(names(&kafka), [""; 0], "a topic has no shards");
}
