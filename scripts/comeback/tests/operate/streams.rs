//! `comeback attach --streams`, run against the local cloud.

use std::{collections::HashMap, path::Path, time::Duration};

use aws_sdk_lambda::types::{EventSourcePosition, FunctionResponseType};
use comeback_local_client::deploy::Function;
use serde_json::{Value, json};

use crate::{
    records::{ask, bucket},
    support::{Cloud, json},
};

const STREAM: &str = "arn:aws:kinesis:us-east-1:000000000000:stream/clicks";

/// The answer of Kinesis, which must succeed.
fn kinesis(cloud: &Cloud, action: &str, body: &Value) -> String {
    let target = format!("x-amz-target: Kinesis_20131202.{action}\r\n");
    ask(&cloud.endpoint, "kinesis", &format!("POST / HTTP/1.1\r\n{target}"), &body.to_string())
}

/// The destination and the attempts of the mapping of the stream.
async fn mapping(cloud: &Cloud) -> (String, Option<String>, Option<i32>) {
    let call = cloud.client.lambda.list_event_source_mappings().event_source_arn(STREAM);
    let it = call.send().await.unwrap().event_source_mappings.unwrap().remove(0);
    let to = it.destination_config.unwrap().on_failure.and_then(|it| it.destination);
    (it.uuid.unwrap(), to, it.maximum_retry_attempts)
}

/// What `comeback doctor` finds of the stream.
fn findings(cloud: &Cloud) -> Vec<String> {
    let document = json(&cloud.run(&["doctor", "--json"]));
    let all = document["systems"][0]["findings"].as_array().unwrap().iter();
    let all = all.filter(|it| it["part"] == "stream/clicks of clicks");
    all.map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_batch_that_no_run_could_process_comes_back_until_its_function_is_detached() {
    let cloud =
        Cloud::start(&["--set", "TARGET_FUNCTIONS=example-target", "--set", "MAX_BACKOFF=1s"]);
    // A program that is no function ends at once, so each run fails.
    let program = Path::new(env!("CARGO_BIN_EXE_comeback"));
    let clicks = Function::of("clicks", program, Duration::from_secs(3));
    cloud.client.create(&clicks).await.unwrap();
    bucket(&cloud.endpoint, "PUT", "", "");
    let order = ["attach", "clicks", "--records", "records", "--transparent", "--streams", "--yes"];
    cloud.refuses(&order, "clicks has no event source mapping of a Kinesis stream");
    kinesis(&cloud, "CreateStream", &json!({ "StreamName": "clicks", "ShardCount": 1 }));
    let create = cloud.client.lambda.create_event_source_mapping().function_name("clicks");
    let create = create.event_source_arn(STREAM);
    let create = create.starting_position(EventSourcePosition::TrimHorizon);
    let create = create.function_response_types(FunctionResponseType::ReportBatchItemFailures);
    create.send().await.unwrap();
    let (uuid, to, retries) = mapping(&cloud).await;
    assert_eq!((to, retries), (None, Some(-1)));

    let attached = cloud.says(&order);
    for part in [
        "endless retries, then no destination",
        "✓ mapping of stream/clicks",
        "successes go to arn:aws:sqs:us-east-1:000000000000:retry",
    ] {
        assert!(attached.contains(part), "{part}: {attached}");
    }
    assert!(cloud.says(&order).contains("nothing to do"));
    assert_eq!(mapping(&cloud).await.1.as_deref(), Some("arn:aws:s3:::records"));
    assert_eq!(findings(&cloud), ["good"]);
    let told = bucket(&cloud.endpoint, "GET", "?notification", "");
    assert!(told.contains(&format!("<Value>aws/lambda/{uuid}/</Value>")), "{told}");

    let record = json!({ "StreamName": "clicks", "Data": "aG9tZQ==", "PartitionKey": "k" });
    kinesis(&cloud, "PutRecord", &record);
    // The mapping has it run three times, and the handler from then on.
    let runs = cloud.runs_of("clicks", 5).await;
    assert!(runs[0].contains("aG9tZQ=="), "{runs:?}");
    assert!(runs.iter().all(|run| *run == runs[0]), "{runs:?}");

    let detached = cloud.says(&["detach", "clicks", "--yes", "--now"]);
    assert!(detached.contains("endless retries, then no destination"), "{detached}");
    assert_eq!(mapping(&cloud).await, (uuid.clone(), None, Some(-1)));
    let told = bucket(&cloud.endpoint, "GET", "?notification", "");
    assert!(!told.contains(&uuid), "{told}");
    let call = cloud.client.lambda.list_tags();
    let call = call.resource("arn:aws:lambda:us-east-1:000000000000:function:clicks");
    assert_eq!(call.send().await.unwrap().tags.unwrap_or_default(), HashMap::new());
}
