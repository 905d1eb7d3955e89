//! `comeback history`, and the records that orders leave, on the local cloud and on moto.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use chrono::Utc;
use comeback_local_client::deploy;
use moto::Moto;
use serde_json::{Value, json};

use crate::{
    page,
    support::{Cloud, comeback, create_on_moto, on_moto, text},
};

/// The orders of a cloud, the latest first.
fn orders(cloud: &Cloud) -> Vec<Value> {
    let history = cloud.json(&["history", "--json"]);
    assert_eq!((&history["complete"], &history["missing"]), (&json!(true), &Value::Null));
    history["orders"].as_array().unwrap().clone()
}

fn short(order: &Value) -> [&str; 3] {
    ["order", "through", "state"].map(|name| order[name].as_str().unwrap())
}

#[tokio::test]
async fn each_order_leaves_a_record_of_who_gave_it_and_how_it_ended() {
    let cloud = Cloud::with_orders().await;
    for dry in [
        &["pause", "example-target", "--dry-run"][..],
        &["dead", "purge", "--all", "--dry-run"],
        &["attach", "orders", "--dry-run"],
    ] {
        cloud.says(dry);
    }
    assert_eq!(orders(&cloud), [Value::Null; 0], "what was not done has no record");

    cloud.says(&["pause", "example-target", "--yes"]);
    let hostile = "\u{1b}[31m".repeat(100);
    let purge = ["dead", "purge", "--yes", "--where", "/card=4242", "--message", &hostile];
    let mut purge = cloud.command(&purge);
    let purged = purge.env("AWS_ACCESS_KEY_ID", "alice").env("AWS_SECRET_ACCESS_KEY", "alice");
    assert!(purged.output().unwrap().status.success());
    cloud.says(&["attach", "orders", "--yes"]);
    cloud.stop_loops("example-target").await;
    cloud.run(&["doctor", "--fix", "--yes"]);
    page::confirm(&cloud, "do=resume&function=example-target");
    while orders(&cloud)[0]["state"] == "running" || orders(&cloud).len() < 5 {}

    let all = orders(&cloud);
    let expected = [
        ["resume", "page", "done"],
        ["mend", "terminal", "done"],
        ["attach", "terminal", "done"],
        ["purge", "terminal", "done"],
        ["pause", "terminal", "done"],
    ];
    assert_eq!(all.iter().map(short).collect::<Vec<_>>(), expected);
    let [resumed, mended, _, purged, paused] = &all[..] else { panic!("{all:?}") };
    assert_eq!(paused["who"], "arn:aws:iam::000000000000:user/local");
    assert_eq!(paused["filter"], json!([{ "name": "function", "value": "example-target" }]));
    assert_eq!((&paused["planned"], &paused["done"]), (&json!(1), &json!(1)));
    assert_eq!((&resumed["planned"], &resumed["done"]), (&json!(1), &json!(1)));
    let command = mended["filter"][0]["value"].as_str().unwrap();
    assert!(command.starts_with("aws lambda put-function-recursion-config"), "{command}");
    assert_eq!((&purged["user_id"], &purged["planned"]), (&json!("alice"), &Value::Null));
    let filter = purged["filter"].to_string();
    assert!(filter.contains(r#""/card""#) && !filter.contains("4242"), "{filter}");
    assert!(purged["filter"][0]["value"].as_str().unwrap().chars().count() <= 201, "{filter}");

    let says = cloud.says(&["history", "--who", "ALICE"]);
    assert!(
        says.starts_with("1 order to retry-handler since ") && says.contains("user/alice"),
        "{says}"
    );
    assert!(!says.contains('\u{1b}'), "{says}");
    let shown = page::ask(&cloud, "GET", "/history", "");
    assert!(shown.contains("user/alice") && shown.contains("<td>resume</td>"), "{shown}");
}

/// Another program that may write to the table can add anything.
#[tokio::test]
async fn items_that_this_program_did_not_write_are_shown_as_unreadable() {
    let cloud = Cloud::start(&[]);
    cloud.says(&["pause", "example-target", "--yes"]);
    let tables = aws_sdk_dynamodb::Client::new(&deploy::config(&cloud.endpoint));
    let items = tables.scan().table_name("comeback-ledger").send().await.unwrap().items.unwrap();
    let is_begun = |item: &&std::collections::HashMap<String, AttributeValue>| {
        item["run"].as_s().unwrap().contains("/begun/")
    };
    let begun = items.iter().find(is_begun).unwrap();
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let says = begun["says"].as_s().unwrap().replace("example-target", "<script>");
    let mut changed = begun.clone();
    changed.insert("says".to_owned(), text(&says));
    let put = tables.put_item().table_name("comeback-ledger").set_item(Some(changed));
    put.send().await.unwrap();
    for (id, run) in [("history/mallory", "\u{1b}[2J/ended/0"), ("anything", "at all")] {
        let put = tables.put_item().table_name("comeback-ledger").item("id", text(id));
        let put = put.item("run", text(run)).item("target", text("history"));
        put.item("due_at", begun["due_at"].clone()).send().await.unwrap();
    }
    let all = orders(&cloud);
    let unreadable: Vec<_> = all.iter().map(|it| it["unreadable"].as_str().unwrap()).collect();
    for why in [
        "it was changed after it was written",
        "this program did not write it",
        "its beginning is missing",
    ] {
        assert!(unreadable.contains(&why), "{why}: {unreadable:?}");
    }
    assert!(all.iter().all(|it| it["state"] == "unreadable") && all.len() == 3, "{all:?}");
    let says = cloud.says(&["history"]);
    assert!(
        says.contains("unreadable: it was changed") && !says.contains(['\u{1b}', '<']),
        "{says}"
    );
}

#[tokio::test]
async fn an_order_without_an_end_runs_and_its_record_expires() {
    let cloud = Cloud::start(&[]);
    cloud.says(&["pause", "example-target", "--yes"]);
    let tables = aws_sdk_dynamodb::Client::new(&deploy::config(&cloud.endpoint));
    let items = tables.scan().table_name("comeback-ledger").send().await.unwrap().items.unwrap();
    let ended = items.iter().find(|item| item["run"].as_s().unwrap().contains("/ended/")).unwrap();
    let delete = tables.delete_item().table_name("comeback-ledger").key("id", ended["id"].clone());
    delete.key("run", ended["run"].clone()).send().await.unwrap();
    let all = orders(&cloud);
    assert_eq!(all.iter().map(short).collect::<Vec<_>>(), [["pause", "terminal", "running"]]);
    // The retention is that of the handler.
    #[allow(clippy::disallowed_methods, reason = "the record expires some time after now")]
    let now = Utc::now().timestamp();
    let expires: i64 = ended["expires_at"].as_n().unwrap().parse().unwrap();
    let year = Duration::from_hours(400 * 24).as_secs().cast_signed();
    assert!((now + year - 600..=now + year).contains(&expires), "{expires}");
}

#[tokio::test]
async fn without_a_ledger_orders_are_carried_out_and_say_that_they_leave_no_record() {
    let moto = Moto::start();
    let sdk = moto::config(&moto.endpoint);
    let sqs = aws_sdk_sqs::Client::new(&sdk);
    let dead = sqs.create_queue().queue_name("dead").send().await.unwrap().queue_url.unwrap();
    create_on_moto(&sdk, "handler", &[("DEAD_LETTER_QUEUE_URL", &dead)]).await;
    sqs.send_message().queue_url(&dead).message_body("{}").send().await.unwrap();
    let purged = on_moto(&moto, &["dead", "purge", "--all", "--yes"]).output().unwrap();
    let (out, err) = (text(&purged.stdout), text(&purged.stderr));
    assert!(out.contains("✓ 1 letter deleted"), "{out}{err}");
    assert_eq!(
        err.matches("handler has no ledger, so this order leaves no record").count(),
        1,
        "{err}"
    );
    let history = on_moto(&moto, &["history"]).output().unwrap();
    assert!(history.status.success());
    assert_eq!(
        text(&history.stdout),
        "handler has no ledger, so there is no history of orders: set LEDGER_TABLE\n"
    );
    let bad = comeback().args(["history", "--who", ""]).output().unwrap();
    assert_eq!(bad.status.code(), Some(2), "{bad:?}");
}
