//! `comeback attach` and `comeback doctor` with what delivers events, run against moto, which has EventBridge and its
//! Scheduler.

use moto::Moto;
use serde_json::{Value, json};

use crate::support::{ask_moto, create_on_moto, on_moto, text};

const ORDERS: &str = "arn:aws:lambda:us-east-1:000000000000:function:orders";
const RETRY: &str = "arn:aws:sqs:us-east-1:000000000000:retry";

/// Creates a rule and a schedule that deliver to the function `orders`.
pub fn deliver_to_orders(moto: &Moto) {
    let rule = json!({ "Name": "links", "EventPattern": r#"{"source":["links"]}"# });
    ask_moto(moto, "events", "POST / AWSEvents.PutRule", &rule);
    let target =
        json!({ "Id": "main", "Arn": ORDERS, "RetryPolicy": { "MaximumRetryAttempts": 3 } });
    let targets = json!({ "Rule": "links", "Targets": [target] });
    ask_moto(moto, "events", "POST / AWSEvents.PutTargets", &targets);
    let schedule = json!({
        "ScheduleExpression": "rate(1 day)",
        "FlexibleTimeWindow": { "Mode": "OFF" },
        "Description": "each night",
        "Target": {
            "Arn": ORDERS,
            "RoleArn": "arn:aws:iam::000000000000:role/orders-role",
            "Input": "{\"id\": 1.0}",
        },
    });
    ask_moto(moto, "scheduler", "POST /schedules/nightly", &schedule);
}

fn target(moto: &Moto) -> Value {
    let rule = json!({ "Rule": "links" });
    ask_moto(moto, "events", "POST / AWSEvents.ListTargetsByRule", &rule)["Targets"][0].take()
}

fn schedule(moto: &Moto) -> Value {
    ask_moto(moto, "scheduler", "GET /schedules/nightly", &Value::Null)
}

/// A member of a schedule that moto sets with each change.
fn without_time(mut schedule: Value) -> Value {
    schedule.as_object_mut().unwrap().remove("LastModificationDate");
    schedule
}

#[tokio::test]
async fn a_rule_and_a_schedule_are_attached_and_are_as_before_once_they_are_detached() {
    let moto = Moto::start();
    let sdk = moto::config(&moto.endpoint);
    let sqs = aws_sdk_sqs::Client::new(&sdk);
    let dead = sqs.create_queue().queue_name("dead").send().await.unwrap().queue_url.unwrap();
    sqs.create_queue().queue_name("retry").send().await.unwrap();
    create_on_moto(&sdk, "handler", &[("DEAD_LETTER_QUEUE_URL", &dead)]).await;
    create_on_moto(&sdk, "orders", &[]).await;
    let mapping = aws_sdk_lambda::Client::new(&sdk).create_event_source_mapping();
    mapping.function_name("handler").event_source_arn(RETRY).send().await.unwrap();
    deliver_to_orders(&moto);
    let before = (target(&moto), without_time(schedule(&moto)));
    let run = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        // moto answers actions that it doesn't implement with errors that the SDK would retry.
        let output = on_moto(&moto, &words)
            .env("AWS_MAX_ATTEMPTS", "1")
            .env("AWS_ACCESS_KEY_ID", "key")
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .output()
            .unwrap();
        text(&output.stdout) + &text(&output.stderr)
    };
    let findings = run("doctor orders");
    for sender in ["target main of rule links", "schedule nightly"] {
        let says = format!("! {sender}: it delivers to orders, and has no dead-letter queue");
        assert!(findings.contains(&says), "{findings}");
    }
    assert!(run("attach --rule link --yes").contains("there is no rule link"));
    assert!(run("attach --rule links --target x --yes").contains("it has main"));
    run("attach --rule links --dry-run");
    assert_eq!(target(&moto), before.0);
    for (sender, name) in
        [("--rule links", "target main of rule links"), ("--schedule nightly", "schedule nightly")]
    {
        let said = run(&format!("attach {sender} --yes"));
        assert!(said.contains(&format!("✓ {name}: dead-letter queue")), "{said}");
        let again = run(&format!("attach {sender} --yes"));
        assert!(again.contains("nothing to do"), "{again}");
    }
    let mut expected = before.clone();
    expected.0["DeadLetterConfig"] = json!({ "Arn": RETRY });
    expected.1["Target"]["DeadLetterConfig"] = json!({ "Arn": RETRY });
    assert_eq!((target(&moto), without_time(schedule(&moto))), expected);
    let findings = run("doctor orders");
    assert!(
        findings.contains(
            "✓ target main of rule links: what it can't deliver to orders comes back by retry"
        ),
        "{findings}"
    );
    assert!(!findings.contains("(delivery_"), "{findings}");
    for sender in ["--rule links --target main", "--schedule nightly --group default"] {
        let said = run(&format!("detach {sender} --yes"));
        assert!(said.contains("take orders out of QUEUE_TARGETS of handler"), "{said}");
    }
    assert_eq!((target(&moto), without_time(schedule(&moto))), before);
    ask_moto(&moto, "events", "POST / AWSEvents.CreateEventBus", &json!({ "Name": "shop" }));
    let rule = json!({ "Name": "paid", "EventBusName": "shop", "EventPattern": "{\"source\":[\"shop\"]}" });
    ask_moto(&moto, "events", "POST / AWSEvents.PutRule", &rule);
    let target = json!({ "Id": "main", "Arn": ORDERS });
    let targets = json!({ "Rule": "paid", "EventBusName": "shop", "Targets": [target] });
    ask_moto(&moto, "events", "POST / AWSEvents.PutTargets", &targets);
    let findings = run("doctor orders");
    let remedy = "comeback attach --rule paid --target main --bus shop";
    assert!(findings.contains("! target main of rule paid on bus shop: it delivers to orders"));
    assert!(findings.contains(remedy), "{findings}");
    run(&format!("{} --yes", remedy.trim_start_matches("comeback ")));
    let findings = run("doctor orders");
    let says = "✓ target main of rule paid on bus shop: what it can't deliver to orders comes back";
    assert!(findings.contains(says), "{findings}");
}
