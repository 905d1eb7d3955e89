//! `comeback dead` against moto, an independent implementation of SQS and Lambda.
#![cfg(feature = "operate")]
#![allow(clippy::panic, clippy::unwrap_used, reason = "tests")]

mod support;

use std::process::Output;

use aws_sdk_sqs::types::{MessageAttributeValue, QueueAttributeName};
use comeback_local_client::deploy::Cloud;
use moto::Moto;
use support::{comeback, json};

const MISSING: &str = "arn:aws:lambda:us-east-1:000000000000:function:missing:$LATEST";

fn dead(moto: &Moto, arguments: &[&str]) -> Output {
    let mut comeback = comeback();
    comeback.env("AWS_ENDPOINT_URL", &moto.endpoint).arg("dead").args(arguments);
    comeback.args(["--queue", "dead"]).output().unwrap()
}

#[tokio::test]
async fn letters_are_listed_kept_and_deleted() {
    let moto = Moto::start();
    let sqs = Cloud::at(&moto.endpoint).sqs;
    let created = sqs.create_queue().queue_name("dead").send().await.unwrap();
    let url = created.queue_url.unwrap();
    for number in 0..25 {
        let text = |value: &str| {
            let value = MessageAttributeValue::builder().data_type("String").string_value(value);
            value.build().unwrap()
        };
        let reason = if number < 20 { "max_age_exceeded" } else { "not_retryable" };
        sqs.send_message()
            .queue_url(&url)
            .message_body(format!(r#"{{"id":{number}}}"#))
            .message_attributes("Reason", text(reason))
            .message_attributes("FunctionArn", text(MISSING))
            .send()
            .await
            .unwrap();
    }
    let listed = json(&dead(&moto, &["list", "--json", "--where", "/id=7", "--payload"]));
    assert_eq!((&listed["looked_at"], &listed["selected"]), (&25.into(), &1.into()));
    assert_eq!(listed["letters"][0]["payload"], r#"{"id":7}"#);

    let redriven = dead(&moto, &["redrive", "--yes", "--json", "--where", "/id=7"]);
    assert_eq!(redriven.status.code(), Some(1));
    assert_eq!(json(&redriven)["done"]["left"]["failed"], 1);
    let fault = json(&redriven)["done"]["faults"][0].as_str().unwrap().to_owned();
    assert!(fault.starts_with(&format!("lambda:InvokeFunction on {MISSING}")), "{fault}");

    let purged = dead(&moto, &["purge", "--yes", "--json", "--reason", "max_age_exceeded"]);
    assert_eq!(json(&purged)["done"]["purged"], 20, "{purged:?}");
    let visible = QueueAttributeName::ApproximateNumberOfMessages;
    let counted = sqs.get_queue_attributes().queue_url(&url).attribute_names(visible.clone());
    assert_eq!(counted.send().await.unwrap().attributes.unwrap()[&visible], "5");
}
