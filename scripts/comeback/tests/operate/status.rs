//! `comeback status` and `comeback trace`, run against the local cloud.

use std::net::TcpListener;

use crate::support::{Cloud, TARGET, attribute, example_target, json as json_of};
use aws_sdk_lambda::types::Environment;
use serde_json::{Value, json};

/// Events fail twice, two seconds after each other, and are then given up.
const QUICK: [&str; 6] =
    ["--set", "BASE_BACKOFF=1s", "--set", "MAX_BACKOFF=1s", "--set", "MAX_ATTEMPTS=1"];

#[tokio::test]
async fn an_event_that_was_never_delivered_is_traced_until_its_function_accepts_it() {
    let bound = r#"QUEUE_TARGETS={"retry":["example-target"]}"#;
    let cloud = Cloud::start(&[&["--set", bound], &QUICK[..]].concat());
    let event = r#"{"id":"links-1"}"#;
    let call = cloud.client.sqs.send_message().message_body(event);
    let call = call.queue_url(format!("{}/000000000000/retry", cloud.endpoint));
    let rule = "arn:aws:events:us-east-1:000000000000:rule/links";
    let target = TARGET.strip_suffix(":$LATEST").unwrap();
    let attributes = [("RULE_ARN", rule), ("TARGET_ARN", target), ("ERROR_CODE", "NO_PERMISSIONS")];
    let call = attributes.iter().fold(call, |call, (name, value)| {
        call.message_attributes(*name, attribute("String", value))
    });
    let id = call.send().await.unwrap().message_id.unwrap();
    assert_eq!(cloud.runs(1).await, [event]);
    let life = loop {
        let life = cloud.run(&["trace", &id, "--json"]);
        if life.status.success() && json_of(&life)["next"]["state"] == "delivered" {
            break json_of(&life);
        }
    };
    let steps = life["steps"].as_array().unwrap();
    let whats: Vec<_> = steps.iter().map(|step| step["what"].as_str().unwrap()).collect();
    assert_eq!(whats, ["undelivered", "waits", "delivered"]);
    assert_eq!(
        (&steps[0]["source"], &steps[0]["error_type"]),
        (&json!(rule), &json!("NO_PERMISSIONS"))
    );
    let run = steps[2]["retry_request_id"].as_str().unwrap();
    assert_eq!(cloud.json(&["trace", run, "--json"]), life, "its run leads to it");
    let told = cloud.says(&["trace", &id]);
    assert!(told.contains("never delivered by rule links: NO_PERMISSIONS"), "{told}");
}

#[tokio::test]
async fn the_life_of_an_event_is_found_by_the_id_that_its_sender_got() {
    let cloud = Cloud::start(&QUICK);
    let payload = r#"{"id":"secret","fail":{"error":"app.Down"}}"#;
    let id = cloud.client.invoke("example-target", payload).await.unwrap();
    while cloud.letters().await[0] < 1 {}
    let life = loop {
        let life = cloud.json(&["trace", &id, "--json"]);
        if life["next"]["state"] == "given_up" {
            break life;
        }
    };
    assert_eq!((&life["event_id"], &life["function"]), (&json!(id), &json!(TARGET)));
    let steps: Vec<_> = life["steps"].as_array().unwrap().iter().collect();
    let whats: Vec<_> = steps.iter().map(|step| step["what"].as_str().unwrap()).collect();
    assert_eq!(whats, ["failed", "waits", "retried", "failed", "given_up"]);
    assert_eq!((&steps[0]["error_type"], &steps[0]["attempt"]), (&json!("app.Down"), &json!(1)));
    assert_eq!(life["next"], json!({ "state": "given_up", "reason": "max_attempts_exceeded" }));

    // The request id of a retry leads to the same event.
    let retry = steps[3]["request_id"].as_str().unwrap();
    assert_eq!(cloud.json(&["trace", retry, "--json"]), life);
    let told = cloud.says(&["trace", &id[..13]]);
    assert!(told.starts_with(&format!("event {id} of example-target\n")), "{told}");
    assert!(told.contains("now: given up: max_attempts_exceeded"), "{told}");
    assert!(!told.contains("secret"), "no payload: {told}");

    let says_nothing = "the handler's log says nothing about 00000000-unknown";
    cloud.refuses(&["trace", "00000000-unknown"], says_nothing);
}

#[tokio::test]
async fn the_status_counts_runs_waiting_events_and_dead_letters() {
    let cloud = Cloud::start(&QUICK);
    let before = cloud.json(&["status", "--json"]);
    assert_eq!(before["handler"], "retry-handler");
    let [target] = before["functions"].as_array().unwrap().as_slice() else { panic!("{before}") };
    assert_eq!((&target["function"], &target["state"]), (&json!(TARGET), &json!("idle")));

    assert_eq!(before["over"]["verdict"], "over");
    let until = |is: fn(&Value) -> bool| loop {
        let status = cloud.json(&["status", "--json", "example-*"]);
        if is(&status["functions"][0]) {
            break status;
        }
    };
    cloud.client.invoke("example-target", r#"{"id":"1","fail":{}}"#).await.unwrap();
    // The handler writes its metrics last.
    let failed = until(|target| target["dead_letters"] != json!({}));
    assert_eq!(failed["over"]["because"], json!({ "example-target": "failing" }));
    assert!(
        cloud.says(&["status"]).contains("Not over: example-target is failing; no event waits.")
    );
    cloud.client.invoke("example-target", r#"{"id":"2"}"#).await.unwrap();
    let mut status = until(|target| target["hour"] == json!({ "invocations": 3, "errors": 2 }));
    let over = status["over"].take();
    assert_eq!((&over["verdict"], &over["not_back"]), (&json!("over"), &json!(0)), "{over}");
    assert!(over["last_failure"].is_string() && over["last_success"].is_string(), "{over}");
    let target = status["functions"][0].take();
    assert_eq!((&target["retried"], &target["undelivered"]), (&json!(1), &json!(0)));
    assert_eq!(target["dead_letters"], json!({ "max_attempts_exceeded": 1 }));
    assert!(target["oldest_seconds"].as_f64().unwrap() > 0.0, "{target}");
    assert!(cloud.says(&["status"]).contains("1 max_attempts_exceeded"));
    while cloud.json(&["status", "--json"])["letters"] != 1 {}
    // The letters of the last day may have been redriven since, so their number is no count of the queue.
    cloud.says(&["dead", "purge", "--all", "--yes"]);
    let status = cloud.says(&["status"]);
    let title = "retry-handler: 1 function, 0 dead letters now\n";
    assert!(status.starts_with(title) && status.contains("1 max_attempts_exceeded"), "{status}");

    cloud.refuses(&["status", "example-taget"], "did you mean example-target?");
    cloud.refuses(&["status", "retry-handler"], "retry-handler is not attached to retry-handler");
    for command in [&["waiting"][..], &["dead", "list"], &["dead", "redrive", "--yes"]] {
        let misspelt = [command, &["--function", "example-taget"]].concat();
        cloud.refuses(&misspelt, "there is no function or queue example-taget; did you mean");
    }
    let refused = cloud.run(&["status", "--every", "1m"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}

#[tokio::test]
async fn a_queue_whose_consumer_is_throttled_or_stopped_is_not_well() {
    let consumers =
        ["importer", "mailer"].map(|name| format!("{name}={}", example_target().display()));
    let [importer, mailer] = consumers.each_ref().map(|it| ["--function", it]);
    let queues = ["--queue", "imports=importer", "--queue", "mails=mailer"];
    let cloud = Cloud::start(&[&importer[..], &mailer, &queues].concat());
    let state = |name: &str| {
        let status = cloud.json(&["status", "--json", name])["functions"][0].take();
        (status["state"].as_str().unwrap().to_owned(), status)
    };
    let send = async |queue: &str| {
        let url = format!("{}/000000000000/{queue}", cloud.endpoint);
        cloud.client.sqs.send_message().queue_url(url).message_body("1").send().await.unwrap();
    };
    assert_eq!(state("sqs:imports").0, "idle");
    cloud.client.pause("importer").await.unwrap();
    send("imports").await;
    while state("sqs:imports").0 != "throttled" {}
    assert!(cloud.says(&["status", "sqs:imports"]).contains(" throttle"));

    cloud.disable(&cloud.mapping("mails").await).await;
    send("mails").await;
    send("mails").await;
    let (stopped, status) = state("sqs:mails");
    assert_eq!(stopped, "stopped", "{status}");
    assert_eq!(status["consumers"], json!([{ "function": "mailer", "is_enabled": false }]));
    assert_eq!(status["in_source"], json!({ "messages": 2, "due": 2 }));
    assert!(cloud.says(&["status", "sqs:mails"]).contains("2 messages"));
}

#[tokio::test]
async fn what_is_queued_at_lambda_or_in_its_own_queue_is_counted() {
    let cloud = Cloud::start(&["--max-processes", "2", "--queue", "mails"]);
    let mails = format!("{}/000000000000/mails", cloud.endpoint);
    cloud.client.sqs.send_message().queue_url(mails).message_body("1").send().await.unwrap();
    // They are killed at their time-out, two at a time.
    for _ in 0..12 {
        cloud.client.invoke("example-target", r#"{"id":"1","fail":{"by":"hang"}}"#).await.unwrap();
    }
    loop {
        let status = cloud.json(&["status", "--json"]);
        let of = |name: &str| {
            let functions = status["functions"].as_array().unwrap();
            let is_it = |it: &&Value| it["function"].as_str().unwrap().ends_with(name);
            functions.iter().find(is_it).unwrap().clone()
        };
        // Nothing has run, and nothing is in the retry queue: the message is stuck in its own.
        let mails = of(":mails");
        assert_eq!((&mails["in_source"]["messages"], &mails["due"]), (&json!(1), &json!(0)));
        assert_eq!((&mails["state"], &mails["consumers"]), (&json!("waiting"), &json!([])));
        if of("example-target:$LATEST")["at_lambda"].as_u64().unwrap() > 2 {
            break;
        }
    }
}

#[tokio::test]
async fn without_an_answer_of_its_table_the_state_is_shown_and_what_is_not_known() {
    let cloud = Cloud::start(&QUICK);
    // It accepts connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let lambda = &cloud.client.lambda;
    let handler = lambda.get_function_configuration().function_name("retry-handler").send().await;
    let mut variables = handler.unwrap().environment.unwrap().variables.unwrap();
    for (name, value) in [
        ("LEDGER_TABLE", "claims"),
        ("REGISTER", "true"),
        ("AWS_ENDPOINT_URL_DYNAMODB", endpoint.as_str()),
    ] {
        variables.insert(name.to_owned(), value.to_owned());
    }
    let environment = Environment::builder().set_variables(Some(variables)).build();
    let update = lambda.update_function_configuration().function_name("retry-handler");
    update.environment(environment).send().await.unwrap();
    let check = |why: &str| {
        let told = cloud.says(&["status"]);
        assert!(told.contains("example-target") && told.contains("idle"), "{told}");
        let unknown = "Some of this is not known: dynamodb:";
        assert!(told.contains(unknown) && told.contains(why), "{told}");
        let told = cloud.says(&["waiting"]);
        assert!(told.contains("The register can't be read: ") && told.contains(why), "{told}");
        assert!(told.contains("0 events wait"), "{told}");
    };
    check("no answer from");
    drop(silent);
    check("no connection to");
}

#[tokio::test]
async fn no_command_prints_a_hidden_character_in_its_json() {
    let cloud = Cloud::start(&QUICK);
    // U+009B begins an escape sequence, and U+202E reverses what follows.
    let message = "\u{9b}2J\u{7f}\u{202e}";
    cloud.send(&["{}".to_owned()], &[("ErrorMessage", message)]).await;
    while cloud.letters().await[0] < 1 {}
    let listed = cloud.says(&["dead", "list", "--json"]);
    let list: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(list["letters"][0]["error_message"], message);
    let id = list["letters"][0]["message_id"].as_str().unwrap();
    let shown = cloud.says(&["dead", "show", id, "--json"]);
    let exported = cloud.says(&["dead", "export", "-", "--payload"]);
    for printed in [listed, shown, exported] {
        assert!(printed.contains(r"\u009b2J\u007f\u202e"), "{printed:?}");
        assert!(!printed.contains(|c: char| message.contains(c) && !c.is_ascii_graphic()));
    }
}
