//! `comeback dead`, run against the local cloud, and against moto, an independent implementation of SQS and Lambda.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    path::Path,
    process::{Command, Output, Stdio},
};

use crate::support::{Cloud, TARGET, attribute, comeback, json, on_moto, text};
use aws_sdk_lambda::{error::ProvideErrorMetadata as _, primitives::Blob, types::InvocationType};
use aws_sdk_sqs::types::QueueAttributeName;
use comeback_local_client::deploy::{self, Function};
use moto::Moto;
use serde_json::{Value, json};

const MISSING: &str = "arn:aws:lambda:us-east-1:000000000000:function:missing:$LATEST";

fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|number| format!(r#"{{"id":"{number}"}}"#)).collect()
}

#[tokio::test]
async fn a_letter_comes_back_with_every_byte_of_its_payload() {
    let cloud = Cloud::start(&[]);
    let bodies = [
        r#"{ "id" : "1","n":12345678901234567890123,"f":1.0e0 }"#,
        r#"{"id":"2","t":"é\u00e9\ud83d\ude00\/","id":"2"}"#,
        r#"{"id":"3","b":1,"a":2}"#,
    ];
    cloud.send(&bodies.map(str::to_owned), &[]).await;
    let redriven = cloud.says(&["dead", "redrive", "--yes"]);
    assert!(redriven.ends_with("✓ 3 letters redriven to example-target\n"), "{redriven}");
    let mut runs = cloud.runs(3).await;
    runs.sort_unstable();
    let mut expected = bodies.map(str::to_owned);
    expected.sort_unstable();
    assert_eq!((runs, cloud.letters().await), (expected.to_vec(), [0, 0]));
}

#[tokio::test]
async fn an_event_that_was_never_delivered_is_redriven_as_it_is_and_a_part_of_one_is_not() {
    let cloud = Cloud::start(&[]);
    let rule = "arn:aws:events:us-east-1:000000000000:rule/links";
    let event = r#"{"_retry_metadata":{"attempt":1,"initial_timestamp":1},"_original_payload":{}}"#;
    cloud.send(&[event.to_owned()], &[("SourceArn", rule)]).await;
    let cut = [("Reason", "payload_truncated"), ("SourceArn", rule)];
    cloud.send(&[r#"{"id":"2"}"#.to_owned()], &cut).await;
    let listed = cloud.json(&["dead", "list", "--json"]);
    let sources = listed["letters"].as_array().unwrap().iter().map(|letter| &letter["source"]);
    assert_eq!(sources.collect::<Vec<_>>(), [rule, rule]);
    let redriven = cloud.run(&["dead", "redrive", "--yes"]);
    let said = text(&redriven.stdout) + &text(&redriven.stderr);
    assert!(said.contains("EventBridge has kept only a part of its payload"), "{said}");
    assert_eq!((cloud.runs(1).await, cloud.letters().await), (vec![event.to_owned()], [1, 0]));
}

#[tokio::test]
async fn letters_that_are_only_read_are_visible_again_at_once() {
    let cloud = Cloud::start(&[]);
    cloud.send(&numbered(120), &[("ErrorType", "app.PaymentError")]).await;
    cloud.send(&numbered(30), &[("Reason", "not_retryable")]).await;
    let list = |arguments: &[&str]| cloud.json(&[&["dead", "list", "--json"], arguments].concat());
    let all = list(&[]);
    assert_eq!((&all["looked_at"], &all["selected"]), (&150.into(), &150.into()));
    assert_eq!(all["letters"].as_array().unwrap().len(), 50);
    assert_eq!(all["letters"][0].get("payload"), None, "nobody asked for it");
    let groups = list(&["--group-by", "reason,error"]);
    assert_eq!(groups["groups"][0]["by"]["error"], "app.PaymentError");
    let counts = groups["groups"].as_array().unwrap().iter().map(|it| &it["group"]["letters"]);
    assert_eq!(counts.collect::<Vec<_>>(), [120, 30]);
    let one = list(&["--where", "/id=7", "--reason", "not_retryable", "--payload"]);
    assert_eq!(one["letters"][0]["payload"], r#"{"id":"7"}"#);
    let id = one["letters"][0]["message_id"].as_str().unwrap();
    assert!(!cloud.says(&["dead", "show", id]).contains(r#""id""#));
    let planned = cloud.json(&["dead", "redrive", "--dry-run", "--json", "--attempts", "..7"]);
    assert_eq!(planned["plan"]["redrive"][TARGET], 150);
    cloud.refuses(&["dead", "purge", "--yes"], "expected a filter, or --all");
    cloud.refuses(&["dead", "purge", "--all"], "no terminal to ask on");
    assert_eq!(cloud.letters().await, [150, 0]);
}

#[tokio::test]
async fn selected_letters_are_changed_and_redriven_or_deleted_and_the_others_stay() {
    let cloud = Cloud::start(&[]);
    cloud.send(&numbered(25), &[]).await;
    let redrive = ["dead", "redrive", "--yes", "--to", "example-target", "--where", "/id=7"];
    cloud.says(&[redrive.as_slice(), &["--set", "/note=by hand"]].concat());
    assert_eq!(cloud.runs(1).await, [r#"{"id":"7","note":"by hand"}"#]);
    assert_eq!(cloud.letters().await, [24, 0]);
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("letters.jsonl");
    let _ = fs::remove_file(&file);
    let export = ["dead", "export", file.to_str().unwrap(), "--where", "/id=8"];
    cloud.says(&export);
    let exported: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(exported["body"], r#"{"id":"8"}"#);
    assert_eq!(exported["attributes"]["Reason"], "max_age_exceeded");
    cloud.refuses(&export, "File exists");
    cloud.refuses(&["dead", "export", "-"], "expected --payload");
    let purged = cloud.json(&["dead", "purge", "--yes", "--json", "--where", "/id=8"]);
    assert_eq!((&purged["done"]["purged"], cloud.letters().await), (&1.into(), [23, 0]));
}

#[tokio::test]
async fn functions_with_tenants_and_durable_functions_are_invoked_as_their_handler_does_it() {
    let policies =
        r#"POLICIES={"by-tenant":{"TENANT_ID":"/tenant"},"in-steps":{"DURABLE":"true"}}"#;
    let cloud = Cloud::start(&["--set", policies]);
    let tenants = Function { tenants: true, ..Cloud::function("by-tenant") };
    let durable = Function { durable: true, ..Cloud::function("in-steps") };
    for function in [&tenants, &durable] {
        cloud.client.create(function).await.unwrap();
    }
    let [by_tenant, in_steps] =
        ["by-tenant", "in-steps"].map(|name| TARGET.replace("example-target", name));
    let bodies = [r#"{"id":"1","tenant":"blue"}"#, r#"{"id":"2"}"#].map(str::to_owned);
    cloud.send(&bodies, &[("FunctionArn", &by_tenant)]).await;
    // The queue of a handler is known as such by whatever name it is selected.
    let redriven = cloud.run(&["dead", "redrive", "--yes", "--json", "--queue", "dead-letters"]);
    assert_eq!(redriven.status.code(), Some(1), "{redriven:?}");
    assert_eq!(json(&redriven)["done"]["redriven"][&by_tenant], 1, "{redriven:?}");
    assert_eq!(json(&redriven)["done"]["left"], json!({ "no_tenant": 1 }), "{redriven:?}");
    cloud.says(&["dead", "redrive", "--yes", "--set", "/tenant=red"]);
    let runs = cloud.runs_of("by-tenant", 2).await;
    assert!(runs.contains(&bodies[0]), "{runs:?}");
    assert!(runs.contains(&r#"{"id":"2","tenant":"red"}"#.to_owned()), "{runs:?}");

    cloud.send(&["[1]".to_owned()], &[("FunctionArn", &in_steps)]).await;
    let listed = cloud.json(&["dead", "list", "--json"]);
    let id = listed["letters"][0]["message_id"].as_str().unwrap().to_owned();
    cloud.says(&["dead", "redrive", "--yes"]);
    assert_eq!(cloud.runs_of("in-steps", 1).await, ["[1]"]);
    // Lambda knows the execution by the letter's name, and refuses another payload for it.
    let call = cloud.client.lambda.invoke().function_name(&in_steps);
    let call = call.invocation_type(InvocationType::Event).payload(Blob::new("[2]"));
    let again = call.durable_execution_name(format!("{id}-1")).send().await;
    let error = again.unwrap_err().into_service_error();
    assert_eq!(error.code(), Some("DurableExecutionAlreadyStartedException"), "{error:?}");
}

#[tokio::test]
async fn a_filter_that_selects_everything_by_a_slip_deletes_nothing() {
    let cloud = Cloud::start(&[]);
    cloud.send(&numbered(3), &[]).await;
    for (arguments, part) in [
        (["dead", "purge", "--id", ""], "expected a value, got none"),
        (["dead", "redrive", "--message", ""], "expected a value, got none"),
        (["dead", "redrive", "--to", ""], "expected a value, got none"),
        (["dead", "list", "--reason", "max_age_exceded"], "'max_age_exceeded'"),
        (["waiting", "cancel", "--id", ""], "expected a value, got none"),
        (["waiting", "retry-now", "--function", ""], "expected a value, got none"),
    ] {
        let refused = cloud.run(&arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {refused:?}");
        assert!(text(&refused.stderr).contains(part), "{arguments:?}: {refused:?}");
    }
    for arguments in [
        ["dead", "purge", "--function", "*", "--yes"],
        ["dead", "purge", "--error", "**", "--yes"],
        ["waiting", "cancel", "--function", "*", "--yes"],
    ] {
        cloud.refuses(&arguments, "matches everything");
    }
    let refused = cloud.run(&["dead", "show", ""]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert_eq!(cloud.letters().await, [3, 0]);
}

#[tokio::test]
async fn a_list_says_how_many_letters_are_hidden() {
    let cloud = Cloud::start(&[]);
    cloud.send(&numbered(30), &[]).await;
    let call = cloud
        .client
        .sqs
        .receive_message()
        .queue_url(format!("{}/000000000000/dead-letters", cloud.endpoint));
    let received = call.max_number_of_messages(10).send().await.unwrap().messages.unwrap();
    let said = cloud.says(&["dead", "list", "--id", "none"]);
    let hidden = format!(", and about {} hidden\n", received.len());
    assert!(said.ends_with(&hidden), "{hidden}: {said}");
}

#[tokio::test]
async fn payloads_have_the_ids_that_the_table_has() {
    let cloud = Cloud::start(&[]);
    cloud.send(&numbered(1), &[("RequestId", "3b72eb0b-202e")]).await;
    let said = cloud.says(&["dead", "list", "--payload"]);
    let [_, _, row, title, payload] = said.lines().collect::<Vec<_>>()[..] else {
        panic!("{said}")
    };
    assert!(row.starts_with(" 3b72eb0b "), "{said}");
    assert_eq!((title, payload), ("payload of 3b72eb0b-202e:", r#"{"id":"0"}"#));
}

#[tokio::test]
async fn an_editor_that_fails_or_changes_nothing_redrives_nothing() {
    let cloud = Cloud::start(&[]);
    cloud.send(&numbered(1), &[]).await;
    let edit = |editor: &str| {
        let mut redrive = cloud.command(&["dead", "redrive", "--yes", "--edit"]);
        redrive.env("EDITOR", editor).output().unwrap()
    };
    for (editor, why) in [
        ("sh -c 'echo 1 > $1; exit 3' edit", "the editor ended with exit status: 3"),
        ("true", "the payload was not changed, so nothing is redriven"),
    ] {
        let refused = edit(editor);
        assert_eq!(refused.status.code(), Some(1), "{editor}: {refused:?}");
        assert!(text(&refused.stderr).contains(why), "{editor}: {refused:?}");
        assert_eq!(cloud.letters().await, [1, 0], "{editor}");
    }
    // The operator finds the text again.
    let refused = edit("sh -c 'echo no JSON > $1' edit");
    let said = text(&refused.stderr);
    let place = said.split("your text is in ").nth(1).unwrap().trim();
    assert_eq!(fs::read_to_string(place).unwrap(), "no JSON\n");
    fs::remove_file(place).unwrap();
    let redriven = edit("sh -c 'echo [7] > $1' edit");
    assert!(redriven.status.success(), "{redriven:?}");
    assert_eq!(cloud.runs(1).await, ["[7]"]);
}

#[tokio::test]
async fn a_killed_redrive_loses_nothing_and_repeats_at_most_one_batch() {
    const LETTERS: usize = 300;
    const BATCH: usize = 10;
    let cloud = Cloud::start(&["--max-processes", "4"]);
    cloud.send(&numbered(LETTERS), &[]).await;
    let mut kills = 0;
    for goal in [250, 150, 50] {
        let mut redrive =
            cloud.command(&["dead", "redrive", "--yes"]).stdout(Stdio::null()).spawn().unwrap();
        while cloud.letters().await[0] > goal {}
        redrive.kill().unwrap();
        redrive.wait().unwrap();
        kills += 1;
    }
    let left: usize = cloud.letters().await.iter().sum();
    assert!(left > 0, "it was killed on the way");
    let runs = cloud.runs(LETTERS - left).await;
    let accepted: BTreeSet<_> = runs.iter().collect();
    assert!(accepted.len() + left >= LETTERS, "{} and {left}", accepted.len());
    assert!(accepted.len() + left <= LETTERS + kills * BATCH, "{} and {left}", accepted.len());
    assert!(runs.len() <= accepted.len() + kills * BATCH, "{} runs", runs.len());
}

#[tokio::test]
async fn an_interrupted_redrive_leaves_every_letter_in_the_queue_or_accepted() {
    let cloud = Cloud::start(&[]);
    cloud.send(&numbered(200), &[]).await;
    let redrive = cloud
        .command(&["dead", "redrive", "--yes", "--rate", "50"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    while cloud.letters().await.iter().sum::<usize>() > 180 {}
    let pid = redrive.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let ended = redrive.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    let [visible, hidden] = cloud.letters().await;
    let told = format!("✓ {} letters redriven to", 200 - visible);
    assert!(text(&ended.stdout).contains(&told), "{told}: {ended:?}");
    assert_eq!((hidden, cloud.runs(200 - visible).await.len()), (0, 200 - visible));
}

#[tokio::test]
async fn a_page_that_is_ended_while_it_looks_gives_the_letters_back() {
    const LETTERS: usize = 2_000;
    let cloud = Cloud::start(&[]);
    cloud.send(&numbered(LETTERS), &[]).await;
    let mut web = cloud.command(&["web", "--port", "0"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(web.stdout.take().unwrap()).lines();
    let url = lines.next().unwrap().unwrap();
    let (address, query) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut browser = TcpStream::connect(address).unwrap();
    // With the token, the page answers with a cookie, and with that it shows the letters.
    write!(browser, "GET /{query} HTTP/1.1\r\nhost: {address}\r\n\r\n").unwrap();
    let mut answer = BufReader::new(&browser).lines().map(Result::unwrap);
    let cookie = answer.find_map(|it| Some(it.strip_prefix("set-cookie: ")?.to_owned())).unwrap();
    let cookie = cookie.split(';').next().unwrap();
    let (root, _) = query.split_once('/').unwrap();
    let mut browser = TcpStream::connect(address).unwrap();
    write!(browser, "GET /{root}/dead HTTP/1.1\r\nhost: {address}\r\ncookie: {cookie}\r\n\r\n")
        .unwrap();
    while cloud.letters().await[1] == 0 {}
    let pid = web.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    web.wait().unwrap();
    assert_eq!(cloud.letters().await, [LETTERS, 0]);
}

#[tokio::test]
async fn errors_name_what_is_missing_and_nothing_is_changed() {
    let empty = Cloud::start(&["--empty"]);
    let local = format!("--local={}", empty.endpoint);
    for (arguments, part) in [
        (
            vec!["list", &local],
            "there is no retry system: none of 0 functions has DEAD_LETTER_QUEUE_URL",
        ),
        (vec!["list", &local, "--handler", "mine"], "mine is no retry handler"),
        (vec!["list", &local, "--queue", "none"], "sqs:GetQueueUrl on none failed"),
        (
            vec!["list", "--local=http://127.0.0.1:1"],
            "comeback: can't reach http://127.0.0.1:1: Connection refused (os error 111); start `comeback local`, or check --local and AWS_ENDPOINT_URL\n",
        ),
        (vec!["list"], "no region is set"),
        (vec!["list", "--region", "eu-west-1"], "there are no AWS credentials"),
    ] {
        let refused = comeback().arg("dead").args(&arguments).output().unwrap();
        let stderr = text(&refused.stderr);
        assert!(stderr.contains(part), "{arguments:?}: {stderr}");
        assert_eq!((refused.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
    }
    for arguments in [
        ["list", "--attempts", "5..3"],
        ["list", "--where", "country=DE"],
        ["list", "--group-by", "colour"],
        ["redrive", "--rate", "0"],
    ] {
        let refused = comeback().arg("dead").args(arguments).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {refused:?}");
    }
}

fn dead_on(moto: &Moto, arguments: &[&str]) -> Output {
    let arguments = [&["dead"], arguments, &["--queue", "dead"]].concat();
    on_moto(moto, &arguments).output().unwrap()
}

#[tokio::test]
async fn letters_are_listed_kept_and_deleted_on_moto() {
    let moto = Moto::start();
    let sqs = deploy::Cloud::at(&moto.endpoint).sqs;
    let created = sqs.create_queue().queue_name("dead").send().await.unwrap();
    let url = created.queue_url.unwrap();
    for number in 0..25 {
        let reason = if number < 20 { "max_age_exceeded" } else { "not_retryable" };
        sqs.send_message()
            .queue_url(&url)
            .message_body(format!(r#"{{"id":{number}}}"#))
            .message_attributes("Reason", attribute("String", reason))
            .message_attributes("FunctionArn", attribute("String", MISSING))
            .send()
            .await
            .unwrap();
    }
    let listed = json(&dead_on(&moto, &["list", "--json", "--where", "/id=7", "--payload"]));
    assert_eq!((&listed["looked_at"], &listed["selected"]), (&25.into(), &1.into()));
    assert_eq!(listed["letters"][0]["payload"], r#"{"id":7}"#);

    let redriven = dead_on(&moto, &["redrive", "--yes", "--json", "--where", "/id=7"]);
    assert_eq!(redriven.status.code(), Some(1));
    assert_eq!(json(&redriven)["done"]["left"]["failed"], 1);
    let fault = json(&redriven)["done"]["faults"][0].as_str().unwrap().to_owned();
    assert!(fault.starts_with(&format!("lambda:InvokeFunction on {MISSING}")), "{fault}");

    let purged = dead_on(&moto, &["purge", "--yes", "--json", "--reason", "max_age_exceeded"]);
    assert_eq!(json(&purged)["done"]["purged"], 20, "{purged:?}");
    let visible = QueueAttributeName::ApproximateNumberOfMessages;
    let counted = sqs.get_queue_attributes().queue_url(&url).attribute_names(visible.clone());
    assert_eq!(counted.send().await.unwrap().attributes.unwrap()[&visible], "5");
}
