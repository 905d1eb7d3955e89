//! `comeback waiting`, `pause` and `resume`, in the local cloud with its register.

use std::{collections::HashMap, ops::Range};

use crate::support::{Cloud, TARGET};
use aws_sdk_dynamodb::types::AttributeValue;
use chrono::Utc;
use comeback_local_client::deploy;
use serde_json::{Value, json};

/// A retry loop with a register, in which events wait for half a day.
fn start() -> Cloud {
    Cloud::start(&["--set", "BASE_BACKOFF=11h", "--set", "MAX_BACKOFF=11h", "--set", "JITTER=none"])
}

fn ids(numbers: Range<usize>) -> Vec<String> {
    numbers.map(|number| format!("{number:08}")).collect()
}

/// Lets events fail in batches, and waits until all are listed.
async fn fail(cloud: &Cloud, events: Range<usize>, error: &str) {
    for from in events.clone().step_by(10) {
        let until = (from + 10).min(events.end);
        let ids = ids(from..until);
        cloud.fail(&ids.iter().map(|id| (id.as_str(), error)).collect::<Vec<_>>()).await;
        while cloud.json(&["waiting", "--json"])["looked_at"] != until {}
    }
}

/// The ids of the events in these payloads, in order.
fn ids_in(payloads: &[String]) -> Vec<String> {
    let id = |payload: &String| {
        let payload: Value = serde_json::from_str(payload).unwrap();
        payload["_original_payload"]["id"].as_str().unwrap().to_owned()
    };
    let mut ids: Vec<_> = payloads.iter().map(id).collect();
    ids.sort_unstable();
    ids
}

#[tokio::test]
async fn waiting_events_are_listed_retried_now_and_cancelled() {
    let cloud = start();
    fail(&cloud, 0..40, "app.Down").await;
    fail(&cloud, 40..60, "app.Broken").await;

    let listed = cloud.json(&["waiting", "--json", "--limit", "3", "--function", "example-target"]);
    let first = &listed["events"][0];
    assert_eq!(
        (&first["function"], &first["attempt"], &first["kept"]),
        (&json!(TARGET), &json!(1), &json!("in_flight"))
    );
    assert_eq!(
        (&first["error_type"], &first["overdue"], &first["order"]),
        (&json!("app.Down"), &json!(false), &Value::Null)
    );
    assert_eq!(listed["events"].as_array().unwrap().len(), 3);
    let groups = cloud.json(&["waiting", "--json", "--group-by", "error"]);
    let counts = groups["groups"].as_array().unwrap().iter();
    let counts: Vec<_> =
        counts.map(|it| (it["by"]["error"].as_str().unwrap(), &it["group"]["events"])).collect();
    assert_eq!(counts, [("app.Down", &json!(40)), ("app.Broken", &json!(20))]);
    let none = cloud.says(&["waiting", "--due-before", "1h"]);
    assert!(none.starts_with("0 events wait for retry-handler"), "{none}");

    let planned = cloud.json(&["waiting", "retry-now", "--dry-run", "--json", "--error", "Down"]);
    assert_eq!(planned["plan"], json!({ "events": { TARGET: 40 }, "delayed": 0 }));
    cloud.refuses(&["waiting", "cancel"], "expected a filter, or --all");
    cloud.refuses(&["waiting", "cancel", "--all"], "no terminal to ask on");
    let both = "`comeback waiting cancel` with these filters, then `comeback dead redrive";
    cloud.refuses(&["waiting", "retry-now", "--edit"], both);
    cloud.refuses(&["waiting", "retry-now", "--set", "/id=1"], both);

    let retried = cloud.json(&["waiting", "retry-now", "--yes", "--json", "--error", "Down"]);
    assert_eq!(
        (&retried["done"]["ordered"][TARGET], &retried["done"]["failed"]),
        (&json!(40), &json!(0))
    );
    assert_eq!(ids_in(&cloud.runs(40).await), ids(0..40));

    let cancelled = cloud.says(&["waiting", "cancel", "--all", "--yes"]);
    assert_eq!(cancelled, "✓ 20 events of example-target are given up\n");
    while cloud.letters().await[0] < 20 {}
    let letters = cloud.json(&["dead", "list", "--json", "--group-by", "reason"]);
    assert_eq!(letters["groups"][0]["by"]["reason"], "cancelled");
}

#[tokio::test]
async fn without_a_register_waiting_events_are_read_from_the_log() {
    let cloud =
        Cloud::start(&["--no-ledger", "--set", "BASE_BACKOFF=11h", "--set", "MAX_BACKOFF=11h"]);
    fail(&cloud, 0..5, "app.Down").await;
    let listed = cloud.json(&["waiting", "--json"]);
    assert_eq!((&listed["source"], &listed["selected"]), (&json!("log"), &json!(5)));
    let first = &listed["events"][0];
    assert_eq!((&first["error_type"], &first["attempt"]), (&json!("app.Down"), &json!(1)));
    assert_eq!((&first["function"], &first["kept"]), (&json!(TARGET), &Value::Null));
    let expected = "retry-handler has no register of waiting events";
    cloud.refuses(&["waiting", "cancel", "--all", "--yes"], expected);
}

#[tokio::test]
async fn a_misspelt_pause_is_refused_and_every_pause_is_listed() {
    let cloud = start();
    let none = cloud.says(&["pause"]);
    assert!(none.starts_with("0 pauses at retry-handler ("), "{none}");
    for (name, part) in [
        ("example-targt", "did you mean example-target?"),
        (
            "example-*",
            "a pause is for one function or queue, got example-*; did you mean example-target?",
        ),
        ("sqs:example-target", "did you mean example-target?"),
        (
            "example-target:live",
            "no failures of example-target:live are retried, but those of example-target",
        ),
    ] {
        cloud.refuses(&["pause", name, "--yes"], part);
        cloud.refuses(&["resume", name, "--yes"], part);
    }
    assert_eq!(cloud.json(&["pause", "--json"])["pauses"], json!([]), "nothing was paused");

    // A pause outlives its function.
    cloud.create("gone").await;
    cloud.says(&["pause", "example-target", "--yes"]);
    cloud.says(&["pause", "gone", "--yes"]);
    cloud.client.lambda.delete_function().function_name("gone").send().await.unwrap();
    let paused = || {
        let listed = cloud.json(&["pause", "--json"]);
        let pauses = listed["pauses"].as_array().unwrap().iter();
        let mut names: Vec<_> =
            pauses.map(|it| it["function"].as_str().unwrap().to_owned()).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(paused(), [TARGET.to_owned(), TARGET.replace("example-target", "gone")]);
    let listed = cloud.says(&["pause"]);
    assert!(
        listed.starts_with("2 pauses at retry-handler (") && listed.contains("\n gone "),
        "{listed}"
    );
    // The events that wait are listed by the same index.
    fail(&cloud, 0..1, "app.Down").await;
    assert_eq!(cloud.json(&["waiting", "--json"])["looked_at"], 1);
    cloud.says(&["resume", "gone", "--yes"]);
    assert_eq!(paused(), [TARGET]);
    cloud.says(&["resume", "example-target", "--yes"]);
    assert_eq!(paused(), [""; 0]);
    cloud.refuses(&["resume", "gone", "--yes"], "there is no function or queue gone to retry");
}

/// The failures of an outage's onset are in the retry queue for a while. Neither the register nor the log has them.
#[tokio::test]
async fn what_no_handler_has_received_is_counted_and_the_list_is_not_complete() {
    let cloud = start();
    let mapping = cloud.mapping("retry").await;
    fail(&cloud, 0..10, "app.Down").await;
    while cloud.json(&["waiting", "--json"])["complete"] != true {}
    cloud.enable(&mapping, false).await;
    let ids = ids(10..13);
    cloud.fail(&ids.iter().map(|id| (id.as_str(), "app.Down")).collect::<Vec<_>>()).await;
    for filter in ["--function=example-target", "--function=exa*", "--error=Down"] {
        let listed = cloud.json(&["waiting", "--json", filter]);
        let facts = [&listed["looked_at"], &listed["not_received"], &listed["complete"]];
        assert_eq!(facts, [&json!(10), &json!(3), &json!(false)], "{filter}");
    }
    let says = cloud.says(&["waiting"]);
    assert!(says.contains("\n3 messages are in the retry queues: new failures"), "{says}");
    cloud.enable(&mapping, true).await;
    while cloud.json(&["waiting", "--json"])["complete"] != true {}
    let listed = cloud.json(&["waiting", "--json"]);
    assert_eq!((&listed["looked_at"], &listed["not_received"]), (&json!(13), &json!(0)));
}

/// A handler that was killed, or whose write to the register failed, leaves the due time of an earlier wait.
#[tokio::test]
async fn an_event_that_a_circuit_holds_is_not_said_to_have_been_due_long_ago() {
    let cloud = start();
    fail(&cloud, 0..2, "app.Down").await;
    let tables = aws_sdk_dynamodb::Client::new(&deploy::config(&cloud.endpoint));
    #[allow(clippy::disallowed_methods, reason = "the due time is long ago")]
    let now = Utc::now().timestamp_millis();
    let number = |millis: i64| AttributeValue::N(millis.to_string());
    let items = tables.scan().table_name("comeback-ledger").send().await.unwrap().items.unwrap();
    let is_first = |item: &&HashMap<String, AttributeValue>| {
        item.get("event_id").is_some_and(|it| it.as_s().is_ok_and(|id| id == "00000000"))
    };
    let first = items.iter().find(is_first).unwrap();
    let set = tables.update_item().table_name("comeback-ledger").key("id", first["id"].clone());
    let set = set.key("run", first["run"].clone()).update_expression("SET due_at = :due");
    set.expression_attribute_values(":due", number(now - 107_000)).send().await.unwrap();
    let late = cloud.says(&["waiting"]);
    assert!(late.contains(" 1 m 4"), "{late}");

    let open = json!({ "by": "", "patience_seconds": 20, "phase": { "open": {
        "since": now, "next_at": now + 600_000, "interval_seconds": 60 } } });
    let circuit = tables.put_item().table_name("comeback-ledger");
    let circuit = circuit.item("id", AttributeValue::S(format!("target/{TARGET}")));
    let circuit = circuit.item("run", AttributeValue::S("target".to_owned()));
    let circuit = circuit.item("circuit", AttributeValue::S(open.to_string()));
    circuit.item("version", number(1)).send().await.unwrap();
    let listed = cloud.json(&["waiting", "--json"]);
    let [first, second] = [&listed["events"][0], &listed["events"][1]];
    assert_eq!(
        (&first["event_id"], &first["held"]["circuit"]),
        (&json!("00000000"), &json!("open"))
    );
    assert!(first["held"]["next_step_at"].is_string() && second.get("held").is_none(), "{listed}");
    let held = cloud.says(&["waiting"]);
    assert!(held.contains("held") && held.contains("by the circuit, next probe in "), "{held}");
    assert!(!held.contains(" ago"), "{held}");
}
