//! Consumers of queues in other languages, under AWS's runtime clients.

use std::time::Duration;

use aws_sdk_lambda::types::{FunctionResponseType, ScalingConfig};
use aws_sdk_sqs::types::QueueAttributeName;
use serde_json::json;

use crate::{
    cloud::{self, function},
    code::{Code, REQUIREMENTS, installed, python},
    retry_loop::RetryLoop,
};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Language {
    Python,
    NodeJs,
}

/// Fails, with partial batch responses, for poison, and for a message that heals until its second retry.
const IN_PYTHON: &str = r#"
import json, os


def handler(event, context):
    failed = []
    for record in event["Records"]:
        attributes = record["messageAttributes"]
        metadata = attributes.get("_retry_metadata")
        attempt = json.loads(metadata["stringValue"])["attempt"] if metadata else 0
        with open(os.environ["NOTES"], "a") as notes:
            notes.write(json.dumps([record["body"], attempt, record["messageId"], attributes]) + "\n")
        if "poison" in record["body"] or ("heals" in record["body"] and attempt < 2):
            failed.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failed}
"#;

/// The same.
const IN_NODE_JS: &str = r#"
const fs = require("fs");

exports.handler = async (event) => {
    const failed = [];
    for (const { body, messageId, messageAttributes: attributes } of event.Records) {
        const metadata = attributes._retry_metadata;
        const attempt = metadata ? JSON.parse(metadata.stringValue).attempt : 0;
        fs.appendFileSync(process.env.NOTES, JSON.stringify([body, attempt, messageId, attributes]) + "\n");
        if (body.includes("poison") || (body.includes("heals") && attempt < 2)) {
            failed.push({ itemIdentifier: messageId });
        }
    }
    return { batchItemFailures: failed };
};
"#;

/// The most batches that a consumer processes at the same time.
const CONCURRENCY: i32 = 4;

/// Creates a queue and its consumer of the same name, which writes a note of each message. SQS moves what fails to the
/// retry queue after this visibility timeout.
pub async fn deploy(
    retry_loop: &RetryLoop,
    queue: &str,
    language: Language,
    visibility_seconds: u32,
) -> Code {
    let cloud = &retry_loop.cloud;
    let retry = cloud.queue_arn(&retry_loop.retry_queue).await.unwrap();
    let redrive = json!({ "deadLetterTargetArn": retry, "maxReceiveCount": 1 }).to_string();
    let created = cloud
        .sqs
        .create_queue()
        .queue_name(queue)
        .attributes(QueueAttributeName::VisibilityTimeout, visibility_seconds.to_string())
        .attributes(QueueAttributeName::RedrivePolicy, redrive);
    let url = created.send().await.unwrap().queue_url.unwrap();
    let (code, words) = match language {
        Language::Python => {
            let python = python(REQUIREMENTS).display().to_string();
            let code = Code::new("importer.py", IN_PYTHON);
            (code, [&*python, "-m", "awslambdaric", "importer.handler"].map(str::to_owned).to_vec())
        }
        Language::NodeJs => {
            let client = installed("node", "tests/node").join("aws-lambda-ric/bin/index.mjs");
            let code = Code::new("importer.js", IN_NODE_JS);
            let handler = code.folder() + "/importer.handler";
            (code, vec!["node".to_owned(), client.display().to_string(), handler])
        }
    };
    let mut consumer = function(queue, "example-target");
    consumer.code = cloud::command(words);
    consumer.timeout = Duration::from_secs(3);
    consumer.environment =
        vec![("PYTHONPATH".to_owned(), code.folder()), ("NOTES".to_owned(), code.notes())];
    cloud.create(&consumer).await.unwrap();
    let scaling = ScalingConfig::builder().maximum_concurrency(CONCURRENCY).build();
    let mapping = cloud
        .lambda
        .create_event_source_mapping()
        .function_name(queue)
        .event_source_arn(cloud.queue_arn(&url).await.unwrap())
        .scaling_config(scaling)
        .function_response_types(FunctionResponseType::ReportBatchItemFailures);
    mapping.send().await.unwrap();
    code
}
