//! Messages of a queue that its consumer, a function with partial batch responses, could not process.

use std::{collections::BTreeMap, fs};

use aws_sdk_sqs::{primitives::Blob, types::MessageAttributeValue};
use end_to_end::consumer::{self, Language};
use serde_json::{Value, json};

use crate::{
    other_languages::Code,
    retry_loop::{HANDLER, Plan, RetryLoop},
};

const CONSUMER: &str = "imports";
const IMPORTS: &str = "arn:aws:sqs:us-east-1:000000000000:imports";
const RETRY: &str = "arn:aws:sqs:us-east-1:000000000000:retry";
const DEAD_LETTERS: &str = "arn:aws:sqs:us-east-1:000000000000:dead-letters";

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

/// The soak has a consumer in Node.js, too.
#[tokio::test]
async fn messages_come_back_to_their_consumer_until_they_succeed_or_are_dead_letters() {
    let targets = r#"{"retry":["orders","sqs:imports"]}"#;
    let retry_loop =
        Plan::quick(&[("QUEUE_TARGETS", targets), ("MAX_ATTEMPTS", "2")]).deploy().await;
    let code = &consumer::deploy(&retry_loop, CONSUMER, Language::Python, 4).await;
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
