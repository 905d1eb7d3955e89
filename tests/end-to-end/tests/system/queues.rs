//! Messages of a queue that its consumer, a function with partial batch responses, could not process.

use std::{collections::BTreeMap, fs, time::Duration};

use aws_sdk_lambda::types::FunctionResponseType;
use aws_sdk_sqs::{
    primitives::Blob,
    types::{MessageAttributeValue, QueueAttributeName},
};
use serde_json::{Value, json};

use crate::{
    cloud::{self, function},
    other_clients::{Code, REQUIREMENTS, installed, python},
    retry_loop::{HANDLER, Plan, RetryLoop},
};

const CONSUMER: &str = "importer";
const IMPORTS: &str = "arn:aws:sqs:us-east-1:000000000000:imports";
const RETRY: &str = "arn:aws:sqs:us-east-1:000000000000:retry";
const DEAD_LETTERS: &str = "arn:aws:sqs:us-east-1:000000000000:dead-letters";

/// Fails for poison, and for a message that heals until its second retry.
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

/// A retry loop with a queue whose consumer runs this command and writes notes, and whose redrive policy names the
/// retry queue.
async fn deploy(code: &Code, command: &[&str]) -> RetryLoop {
    let targets = r#"{"retry":["orders","sqs:imports"]}"#;
    let retry_loop =
        Plan::quick(&[("QUEUE_TARGETS", targets), ("MAX_ATTEMPTS", "2")]).deploy().await;
    let redrive = json!({ "deadLetterTargetArn": RETRY, "maxReceiveCount": 1 }).to_string();
    let created = retry_loop
        .cloud
        .sqs
        .create_queue()
        .queue_name("imports")
        .attributes(QueueAttributeName::VisibilityTimeout, "4")
        .attributes(QueueAttributeName::RedrivePolicy, redrive);
    created.send().await.unwrap();
    let mut consumer = function(CONSUMER, "example-target");
    consumer.code = cloud::command(command.iter().copied());
    consumer.timeout = Duration::from_secs(3);
    consumer.environment =
        vec![("PYTHONPATH".to_owned(), code.folder()), ("NOTES".to_owned(), code.notes())];
    retry_loop.cloud.create(&consumer).await.unwrap();
    let mapping = retry_loop
        .cloud
        .lambda
        .create_event_source_mapping()
        .function_name(CONSUMER)
        .event_source_arn(IMPORTS)
        .function_response_types(FunctionResponseType::ReportBatchItemFailures);
    mapping.send().await.unwrap();
    retry_loop
}

fn text(value: &str) -> MessageAttributeValue {
    MessageAttributeValue::builder().data_type("String").string_value(value).build().unwrap()
}

async fn produce(
    retry_loop: &RetryLoop,
    body: &str,
    attributes: &[(&str, MessageAttributeValue)],
) -> String {
    let url = retry_loop.retry_queue.replace("/retry", "/imports");
    let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let call = retry_loop.cloud.sqs.send_message().queue_url(url).message_body(body);
    let sent = call.set_message_attributes(Some(attributes.collect())).send().await.unwrap();
    sent.message_id.unwrap()
}

/// What the consumer was given whose body contains this word: attempt, message id and attributes, in order.
fn noted(code: &Code, word: &str) -> Vec<(u64, String, Value)> {
    let notes = fs::read_to_string(code.notes()).unwrap_or_default();
    let whole = notes.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let wanted = whole.filter(|note| note[0].as_str().unwrap().contains(word));
    let read = |note: Value| {
        (note[1].as_u64().unwrap(), note[2].as_str().unwrap().to_owned(), note[3].clone())
    };
    wanted.map(read).collect()
}

#[tokio::test]
async fn messages_come_back_to_a_python_consumer_until_they_succeed_or_are_dead_letters() {
    let python = python(REQUIREMENTS).display().to_string();
    let code = Code::new("importer.py", IN_PYTHON);
    assert_come_back(&code, &[&python, "-m", "awslambdaric", "importer.handler"]).await;
}

#[tokio::test]
async fn messages_come_back_to_a_node_js_consumer_until_they_succeed_or_are_dead_letters() {
    let client = installed("node", "tests/node").join("aws-lambda-ric/bin/index.mjs");
    let code = Code::new("importer.js", IN_NODE_JS);
    let handler = code.folder() + "/importer.handler";
    assert_come_back(&code, &["node", &client.display().to_string(), &handler]).await;
}

async fn assert_come_back(code: &Code, command: &[&str]) {
    let retry_loop = deploy(code, command).await;
    let mut journal = retry_loop.cloud.journal();
    let key = MessageAttributeValue::builder().data_type("Binary.png");
    let key = key.binary_value(Blob::new([0, 1, 255])).build().unwrap();
    let own = [("tenant", text("bl\u{e9}\"ue")), ("key", key)];
    let names: Vec<_> = (0..10).map(|nth| format!("a{nth}")).collect();
    let ten: Vec<_> = names.iter().map(|name| (&**name, text("x"))).collect();
    let poison = produce(&retry_loop, "poison, no JSON {", &own).await;
    produce(&retry_loop, "full of poison", &ten).await;
    let heals = produce(&retry_loop, r#"{"heals": 1.0}"#, &own).await;
    produce(&retry_loop, "good", &own).await;

    for _ in 0..2 {
        journal.log(HANDLER, "a dead letter", |line| line["decision"] == "dead_letter").await;
    }
    while noted(code, "heals").len() < 3 {
        journal.run(CONSUMER).await;
    }
    assert_eq!(noted(code, "good").len(), 1);
    let (runs, poisoned) = (noted(code, "heals"), noted(code, "no JSON"));
    for (runs, first) in [(&runs, &heals), (&poisoned, &poison)] {
        assert_eq!(runs.iter().map(|run| run.0).collect::<Vec<_>>(), [0, 1, 2]);
        for (attempt, _, attributes) in runs {
            assert_eq!(attributes["tenant"]["stringValue"], "bl\u{e9}\"ue");
            assert_eq!(attributes["key"]["binaryValue"], "AAH/");
            assert_eq!(attributes["key"]["dataType"], "Binary.png");
            if *attempt > 0 {
                let metadata = attributes["_retry_metadata"]["stringValue"].as_str().unwrap();
                let metadata: Value = serde_json::from_str(metadata).unwrap();
                assert_eq!(metadata["request_id"], **first, "the same in all attempts");
            }
        }
    }
    assert_eq!(noted(code, "full").len(), 1);

    // Both letters go back to their queue as their producer sent them, and end as they did before.
    let moved = retry_loop.cloud.sqs.start_message_move_task();
    moved.source_arn(DEAD_LETTERS).destination_arn(RETRY).send().await.unwrap();
    let mut letters = BTreeMap::new();
    for _ in 0..2 {
        let letter = retry_loop.dead_letter().await;
        letters.insert(letter.reason().to_owned(), letter);
    }
    let (poisoned, full) = (noted(code, "no JSON"), noted(code, "full"));
    assert_eq!(poisoned.iter().map(|run| run.0).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2]);
    assert_eq!((full.len(), &full[0].2), (2, &full[1].2), "all ten attributes");
    let letter = &letters["max_attempts_exceeded"];
    assert_eq!(letter.body, "poison, no JSON {");
    assert_eq!(letter.attributes["SourceQueueArn"], IMPORTS);
    assert_eq!(
        (&*letter.attributes["Attempts"], &*letter.attributes["RequestId"]),
        ("2", &*poisoned[3].1)
    );
    let original = json!({
        "tenant": { "type": "String", "value": "bl\u{e9}\"ue" },
        "key": { "type": "Binary.png", "value": "AAH/" },
    });
    let read = |letter: &BTreeMap<_, String>| {
        serde_json::from_str::<Value>(&letter["OriginalAttributes"]).unwrap()
    };
    assert_eq!(read(&letter.attributes), original);
    let full = &letters["attribute_limit"];
    assert_eq!(full.body, "full of poison");
    assert_eq!(read(&full.attributes).as_object().unwrap().len(), 10);
    assert_eq!(retry_loop.settled(&mut journal).await, (0, 0));
}
