//! A function's response to a batch of messages.
//!
//! The input is the response, in which `$0`, `$1` and `$2` stand for the ids of the batch's messages. A message that
//! the response reports as failed stays in the queue. If the response is invalid, all messages stay.

use comeback_core::Timestamp;
use comeback_local_model::{
    Cloud,
    lambda::{
        function::{Code, Program, Settings},
        mapping::MappingSettings,
        run::Outcome,
    },
    queue_arn,
    sqs::{Attributes, Outgoing},
};
use serde_json::Value;

const MESSAGES: usize = 3;

pub fn check(data: &[u8]) {
    let now = Timestamp::from_timestamp(1_573_755_366, 0).unwrap();
    let mut cloud = Cloud::new(1, 1);
    let ids = deploy(&mut cloud, now);
    // The mapping needs some time until it is enabled.
    let now = cloud.next_wakeup(now).unwrap();
    let mut runs = cloud.advance(now);
    let run = runs.pop().unwrap();
    let event: Value = serde_json::from_str(run.payload.get()).unwrap();
    assert_eq!(event["Records"].as_array().unwrap().len(), MESSAGES);

    let response = with_ids(data, &ids);
    cloud.finish(now, run.id, Outcome::Returned(response.clone())).unwrap();
    let left = left(&mut cloud, now);
    match serde_json::from_slice::<Value>(&response) {
        Ok(answer) => {
            let failures = answer["batchItemFailures"].as_array();
            let named =
                |id: &str| failures.into_iter().flatten().any(|item| item["itemIdentifier"] == id);
            let all_stay = left == MESSAGES;
            let named = ids.iter().filter(|id| named(id)).count();
            assert!(all_stay || left == named, "{left} stay, {named} are named: {answer}");
            let is_empty = answer.is_null() || answer == "" || answer == Value::Array(Vec::new());
            let is_report = answer.is_object() || is_empty;
            assert!(all_stay || is_report, "{answer}");
        }
        Err(_) => assert_eq!(left, if response.is_empty() { 0 } else { MESSAGES }),
    }
}

/// Creates a queue with messages and a function that receives them. Returns the messages' ids.
fn deploy(cloud: &mut Cloud, now: Timestamp) -> Vec<String> {
    cloud.sqs.create_queue(now, "q", &Attributes::new()).unwrap();
    let program = Program::Bootstrap("/f".into());
    let code = Code { program, size: 0, sha256: String::new() };
    cloud.lambda.create_function(now, "f", code, Settings::default()).unwrap();
    let settings = MappingSettings {
        function_response_types: Some(vec!["ReportBatchItemFailures".to_owned()]),
        ..MappingSettings::default()
    };
    cloud.create_mapping(now, &queue_arn("q"), "f", &settings).unwrap();
    let mut send = || {
        let message = Outgoing { body: "{}".into(), ..Outgoing::default() };
        cloud.sqs.send(now, "q", message).unwrap().message_id.to_string()
    };
    (0..MESSAGES).map(|_| send()).collect()
}

fn with_ids(data: &[u8], ids: &[String]) -> Vec<u8> {
    let Ok(text) = str::from_utf8(data) else { return data.to_vec() };
    let mut text = text.to_owned();
    for (number, id) in ids.iter().enumerate() {
        text = text.replace(&format!("${number}"), id);
    }
    text.into_bytes()
}

/// The number of messages in the queue, visible or not.
fn left(cloud: &mut Cloud, now: Timestamp) -> usize {
    let attributes = cloud.sqs.attributes(now, "q").unwrap();
    let count = |name: &str| attributes[name].parse::<usize>().unwrap();
    count("ApproximateNumberOfMessages") + count("ApproximateNumberOfMessagesNotVisible")
}
