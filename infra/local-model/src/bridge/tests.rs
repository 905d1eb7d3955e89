use serde_json::{Value, json};

use super::*;
use crate::{
    lambda::function::{Code, Program, Settings},
    queue_arn,
    sqs::{AttributeValue, Attributes},
};

const SHOP: &str = "arn:aws:lambda:us-east-1:000000000000:function:shop";

fn at(secs: i64) -> Timestamp {
    Timestamp::from_timestamp(1_700_000_000 + secs, 0).unwrap()
}

/// A cloud with the queues `dead` and `mails`. The function `shop` does not exist.
fn cloud() -> Cloud {
    let mut cloud = Cloud::new(10, 1);
    for queue in ["dead", "mails"] {
        cloud.sqs.create_queue(at(0), queue, &Attributes::new()).unwrap();
    }
    cloud
}

fn create_shop(cloud: &mut Cloud) {
    let code = Code { program: Program::Bootstrap("/f".into()), size: 0, sha256: String::new() };
    cloud.lambda.create_function(at(0), "shop", code, Settings::default()).unwrap();
}

fn rule(cloud: &mut Cloud, pattern: &Value, targets: &Value) -> Result<(), BridgeError> {
    let put = json!({ "Name": "orders", "EventPattern": pattern.to_string() });
    cloud.bridge.rules.put(serde_json::from_value(put).unwrap())?;
    let targets = serde_json::from_value(targets.clone())
        .map_err(|error| BridgeError::Validation(error.to_string()))?;
    cloud.bridge.rules.put_targets("orders", None, targets)
}

fn put(cloud: &mut Cloud, detail: &str) -> Result<String, BridgeError> {
    let entry = json!({ "Source": "shop", "DetailType": "Order", "Detail": detail });
    cloud.put_event(at(1), &serde_json::from_value(entry).unwrap())
}

/// The bodies and the attributes of a queue's messages.
fn messages(cloud: &mut Cloud, queue: &str) -> Vec<(String, Value)> {
    let received = cloud.sqs.receive(at(100), queue, 10, None).unwrap();
    let text = |attribute: &MessageAttribute| match &attribute.value {
        AttributeValue::String(text) => text.clone(),
        AttributeValue::Binary(_) => panic!("not text"),
    };
    let attributes = |it: &[(String, MessageAttribute)]| {
        it.iter().map(|(name, it)| (name.clone(), text(it).into())).collect()
    };
    let received = received.iter();
    received.map(|it| (it.body.to_string(), Value::Object(attributes(&it.attributes)))).collect()
}

#[test]
fn an_event_goes_to_the_targets_that_exist_and_to_the_dead_letter_queues_of_the_others() {
    let mut cloud = cloud();
    let dead = json!({ "Arn": queue_arn("dead") });
    let targets = json!([
        { "Id": "f", "Arn": SHOP, "DeadLetterConfig": dead },
        { "Id": "q", "Arn": queue_arn("mails") },
        { "Id": "gone", "Arn": queue_arn("gone") },
    ]);
    rule(&mut cloud, &json!({ "source": ["shop"], "detail": { "n": [1.50, 2] } }), &targets)
        .unwrap();
    put(&mut cloud, r#"{"n": 3}"#).unwrap();
    assert_eq!(messages(&mut cloud, "mails"), []);

    put(&mut cloud, r#"{"n": 1.50}"#).unwrap();
    let [(event, _)] = &messages(&mut cloud, "mails")[..] else { panic!() };
    assert!(event.contains(r#""detail-type":"Order","source":"shop""#), "{event}");
    assert!(event.contains(r#""detail":{"n": 1.50}"#), "each byte of the detail: {event}");
    let [(body, attributes)] = &messages(&mut cloud, "dead")[..] else { panic!() };
    assert_eq!(body, event);
    let expected = json!({
        "RULE_ARN": "arn:aws:events:us-east-1:000000000000:rule/orders",
        "TARGET_ARN": SHOP,
        "ERROR_CODE": "NO_RESOURCE",
        "ERROR_MESSAGE": format!("Function not found: {SHOP}:$LATEST"),
        "RETRY_ATTEMPTS": "0",
    });
    assert_eq!(*attributes, expected);
    let happened = cloud.take_happened();
    let lost = |event: &Event| {
        let What::Undelivered { lost, .. } = event.what else { return None };
        Some((event.function.to_string(), lost))
    };
    let lost: Vec<_> = happened.iter().filter_map(lost).collect();
    assert_eq!(lost, [("shop".to_owned(), false), ("gone".to_owned(), true)]);

    create_shop(&mut cloud);
    put(&mut cloud, r#"{"n": 2}"#).unwrap();
    let runs = cloud.advance(at(2));
    let [run] = &runs[..] else { panic!("{runs:?}") };
    assert!(run.payload.get().ends_with(r#""detail":{"n": 2}}"#), "{:?}", run.payload);
}

#[test]
fn what_is_not_here_is_refused_by_name() {
    let mut cloud = cloud();
    let target = |more: (&str, Value)| {
        let mut target = json!({ "Id": "1", "Arn": SHOP });
        target[more.0] = more.1;
        json!([target])
    };
    let exact = json!({ "source": ["shop"] });
    for (pattern, targets, named) in [
        (json!({ "source": [{ "prefix": "sh" }] }), json!([]), "prefix"),
        (json!({ "source": "shop" }), json!([]), "got \"shop\""),
        (json!({}), json!([]), "got {}"),
        (exact.clone(), target(("Input", "{}".into())), "Input"),
        (exact.clone(), target(("InputTransformer", json!({}))), "InputTransformer"),
        (exact, target(("Arn", "arn:aws:states:us-east-1:1:s".into())), "arn:aws:states"),
    ] {
        let refused = rule(&mut cloud, &pattern, &targets).unwrap_err().to_string();
        assert!(refused.contains(named), "{refused}");
    }
    for detail in ["", "no JSON", "[1]", "7"] {
        assert_eq!(put(&mut cloud, detail), Err(BridgeError::MalformedDetail), "{detail}");
    }
}

fn schedule(cloud: &mut Cloud, now: i64, expression: &str, arn: &str) -> Result<(), BridgeError> {
    let put = json!({
        "ScheduleExpression": expression,
        "FlexibleTimeWindow": { "Mode": "OFF" },
        "Target": {
            "Arn": arn,
            "RoleArn": "arn:aws:iam::000000000000:role/any",
            "Input": r#"{"n": 1}"#,
            "DeadLetterConfig": { "Arn": queue_arn("dead") },
        },
    });
    let put = serde_json::from_value(put).unwrap();
    cloud.bridge.schedules.create(at(now), "nightly", put).map(drop)
}

#[test]
fn a_schedule_runs_when_it_is_due_and_what_it_cannot_deliver_is_the_request_to_an_api() {
    let mut cloud = cloud();
    schedule(&mut cloud, 0, "rate(1 minute)", SHOP).unwrap();
    assert_eq!(cloud.next_wakeup(at(0)), Some(at(60)));
    assert_eq!(cloud.advance(at(59)).len(), 0);
    cloud.advance(at(60));
    let [(body, attributes)] = &messages(&mut cloud, "dead")[..] else { panic!() };
    let request: Value = serde_json::from_str(body).unwrap();
    assert_eq!(
        (&request["FunctionName"], &request["Payload"]),
        (&SHOP.into(), &r#"{"n": 1}"#.into())
    );
    assert_eq!(attributes["TARGET_ARN"], "arn:aws:scheduler:::aws-sdk:lambda:invoke");
    assert_eq!(
        attributes["SCHEDULE_ARN"],
        "arn:aws:scheduler:us-east-1:000000000000:schedule/default/nightly"
    );
    assert_eq!(attributes["SCHEDULED_TIME"], "2023-11-14T22:14:20Z");
    assert_eq!(attributes["ERROR_CODE"], "ResourceNotFoundException");
    assert_eq!(attributes["IS_PAYLOAD_TRUNCATED"], "false");

    create_shop(&mut cloud);
    let runs = cloud.advance(at(120));
    let [run] = &runs[..] else { panic!("{runs:?}") };
    assert_eq!(run.payload.get(), r#"{"n": 1}"#);
}

#[test]
fn a_schedule_is_once_or_regular_and_anything_else_is_refused() {
    for (expression, is_known) in [
        ("at(2023-11-14T22:20:00)", true),
        ("rate(5 minutes)", true),
        ("rate(1 day)", true),
        ("rate(0 minutes)", false),
        ("rate(5 weeks)", false),
        ("cron(0 * * * ? *)", false),
        ("at(tomorrow)", false),
        ("", false),
    ] {
        let mut cloud = cloud();
        let created = schedule(&mut cloud, 0, expression, SHOP);
        assert_eq!(created.is_ok(), is_known, "{expression}: {created:?}");
    }
    let mut cloud = cloud();
    schedule(&mut cloud, 0, "at(2023-11-14T22:13:21)", &queue_arn("mails")).unwrap();
    cloud.advance(at(1));
    cloud.advance(at(1_000));
    assert_eq!(messages(&mut cloud, "mails"), [(r#"{"n": 1}"#.to_owned(), json!({}))], "once");
}
