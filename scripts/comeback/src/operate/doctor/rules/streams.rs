//! Examines the streams that functions process whose failures are retried.

use crate::{
    account::{bucket::bucket_name, names::last, stream::Stream},
    operate::doctor::rules::{finding::Examined, kinds},
};

pub fn examine_stream(stream: &Stream) -> Examined {
    let mut it = Examined::new(format!("{} of {}", stream.name(), stream.consumer()));
    let update = |options: &str| {
        format!("aws lambda update-event-source-mapping --uuid {} {options}", stream.uuid)
    };
    let to_bucket =
        update(r#"--destination-config '{"OnFailure":{"Destination":"arn:aws:s3:::BUCKET"}}'"#);
    match stream.on_failure.as_deref() {
        Some(arn) if bucket_name(arn).is_some() => {}
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
