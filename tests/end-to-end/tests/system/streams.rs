//! Batches of streams that their functions could not process.

use aws_sdk_lambda::types::{DestinationConfig, OnFailure, OnSuccess};

use crate::{
    bucket::Bucket,
    cloud::{self, example},
    once_per_failure::beside_tables,
    other_languages::{Code, REQUIREMENTS, python},
    retry_loop::RetryLoop,
    stream::{Stream, data},
};

/// Reports the second record when it has run once, then the last, and then nothing.
const REPORTS: &str = r#"
import os

def handler(event, context):
    with open(os.environ["NOTES"], "a+") as notes:
        notes.write("run\n")
        notes.seek(0)
        run = len(notes.readlines())
    failed = {1: -2, 2: -1}.get(run)
    records = event["Records"]
    failures = [] if failed is None else [records[failed]["kinesis"]["sequenceNumber"]]
    return {"batchItemFailures": [{"itemIdentifier": number} for number in failures]}
"#;

/// Sends the records of failures and of successes of a function to the retry queue.
async fn attach(retry_loop: &RetryLoop, function: &str) {
    let queue = retry_loop.cloud.queue_arn(&retry_loop.retry_queue).await.unwrap();
    let destinations = DestinationConfig::builder()
        .on_failure(OnFailure::builder().destination(&queue).build())
        .on_success(OnSuccess::builder().destination(&queue).build())
        .build();
    let put = retry_loop.cloud.lambda.put_function_event_invoke_config().function_name(function);
    put.maximum_retry_attempts(0).destination_config(destinations).send().await.unwrap();
}

#[tokio::test]
async fn a_batch_comes_back_as_it_was_and_of_a_report_what_the_function_has_not_processed() {
    let settings = [("TRANSPARENT", "true"), ("RECORD_BUCKETS", "records")];
    let retry_loop = beside_tables(&settings).await;
    let bucket = Bucket::create(&retry_loop, "records").await;
    bucket.notifies(&retry_loop).await;
    let (reports, unaware) =
        (Code::new("reports.py", REPORTS), Code::new("unaware-of-batches", ""));
    let interpreter = python(REQUIREMENTS).display().to_string();
    let in_python = [interpreter.as_str(), "-m", "awslambdaric", "reports.handler"];
    let in_rust = [example("unaware").display().to_string()];
    for (name, command, code) in [
        ("in-python", cloud::command(in_python), &reports),
        ("in-rust", cloud::command(in_rust), &unaware),
    ] {
        let function = code.function(name, command, 3);
        retry_loop.cloud.create(&function).await.unwrap();
        attach(&retry_loop, name).await;
        let stream = Stream::create(&retry_loop, name).await;
        stream.put(&["Zmlyc3Q=", "YmFk", "bGFzdA=="]).await;
        stream.map(&retry_loop, name).await;
    }
    // The mapping gives up what was not processed, and the handler has it run twice.
    let runs: [_; 3] = retry_loop.cloud.journal().runs("in-python").await;
    let batches = runs.map(|run| data(&run.payload));
    assert_eq!(batches[0], ["Zmlyc3Q=", "YmFk", "bGFzdA=="]);
    assert_eq!(batches[1..], [vec!["YmFk", "bGFzdA=="], vec!["bGFzdA=="]]);
    // The mapping gives up the whole batch, and the handler has it run three times, with the same bytes.
    let runs: [_; 4] = retry_loop.cloud.journal().runs("in-rust").await;
    assert!(runs.iter().all(|run| run.payload == runs[0].payload), "other bytes");
    let [failed @ .., last] = runs.map(|run| run.ending);
    assert_eq!((failed, &*last), ([(); 3].map(|()| "Failed".to_owned()), "Succeeded"));
    assert_eq!(retry_loop.settled(&mut retry_loop.cloud.journal()).await, (0, 0));
}
