//! Examines the streams that functions process whose failures are retried.

use serde_json::json;

use crate::{
    account::{bucket::bucket_name, function::InvokeConfig, names::last, stream::Stream},
    operate::doctor::rules::{
        facts::Facts,
        finding::Examined,
        fix::{quoted, word},
        kinds,
    },
};

pub fn examine_stream(facts: &Facts, stream: &Stream) -> Examined {
    let mut it = Examined::new(format!("{} of {}", stream.name(), stream.consumer()));
    let update = |options: &str| {
        format!("aws lambda update-event-source-mapping --uuid {} {options}", stream.uuid)
    };
    let to_bucket =
        update(r#"--destination-config '{"OnFailure":{"Destination":"arn:aws:s3:::BUCKET"}}'"#);
    match stream.on_failure.as_deref() {
        Some(arn) if bucket_name(arn).is_some() => parts(&mut it, facts, stream),
        Some(arn) => {
            let says = format!("its on-failure destination is {}", last(arn));
            it.found(kinds::STREAM_WITHOUT_PAYLOAD, says).by_hand(to_bucket);
        }
        None => {
            it.found(kinds::STREAM_WITHOUT_DESTINATION, "it has no on-failure destination")
                .by_hand(to_bucket);
        }
    }
    if stream.has_shards() && stream.is_endless {
        let says = "it has neither MaximumRetryAttempts nor MaximumRecordAgeInSeconds";
        it.found(kinds::STREAM_STANDS_STILL, says).by_hand(update("--maximum-retry-attempts 2"));
    }
    if stream.has_shards() && !stream.is_split && !stream.reports_failures {
        let says = "it has neither BisectBatchOnFunctionError nor ReportBatchItemFailures";
        it.found(kinds::STREAM_UNSPLIT, says).by_hand(update("--bisect-batch-on-function-error"));
    }
    it.good = format!("batches that fail go to {}", stream.on_failure.as_deref().map_or("", last));
    it
}

/// Reports a function that says which records of a batch have failed, if nobody hears that once the batch comes back.
fn parts(it: &mut Examined, facts: &Facts, stream: &Stream) {
    let name = stream.consumer();
    let target = facts.targets.iter().find(|target| target.name == name);
    let Some(Ok(configs)) = target.map(|target| &target.configs) else { return };
    let is_read = facts.bucket(stream.on_failure.as_deref()).is_some();
    let is_heard = |config: &InvokeConfig| facts.has_queue(config.on_success.as_deref());
    if !stream.reports_failures || !is_read || configs.iter().any(is_heard) {
        return;
    }
    let on_failure = configs.iter().find_map(|config| config.on_failure.as_deref());
    let own = on_failure.filter(|arn| facts.has_queue(Some(arn)));
    let queue = own.or(facts.queues.first().map(|it| it.queue.arn.as_str())).unwrap_or("QUEUE");
    let to = |arn: &str| json!({ "Destination": arn });
    let destinations =
        json!({ "OnFailure": to(on_failure.unwrap_or(queue)), "OnSuccess": to(queue) });
    it.found(kinds::STREAM_PARTS_LOST, "its on-success destination is no retry queue").by_hand(
        format!(
            "aws lambda update-function-event-invoke-config --function-name {} --destination-config {}",
            word(name),
            quoted(&destinations.to_string())
        ),
    );
}
