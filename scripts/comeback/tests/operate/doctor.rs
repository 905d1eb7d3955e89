//! `comeback doctor`, run against retry systems with deliberate faults.

use std::{
    io,
    net::{TcpListener, TcpStream},
    process::Output,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crate::support::{Cloud, comeback, example_target, json, text};
use aws_sdk_sqs::types::QueueAttributeName;
use serde_json::json;

impl Cloud {
    async fn set(&self, attribute: QueueAttributeName, value: &str) {
        let url = format!("{}/000000000000/retry", self.endpoint);
        let call = self.client.sqs.set_queue_attributes().queue_url(url);
        call.attributes(attribute, value).send().await.unwrap();
    }

    /// The findings, without the checks that are not possible in the local cloud.
    fn findings(&self, arguments: &[&str]) -> (Output, Vec<String>) {
        let output = self.run(&[&["doctor", "--json"], arguments].concat());
        let found = findings(&output);
        (output, found)
    }
}

fn findings(output: &Output) -> Vec<String> {
    let document = json(output);
    let all = document["systems"].as_array().unwrap().iter();
    let all = all.flat_map(|system| system["findings"].as_array().unwrap());
    let names = all.map(|finding| finding["name"].as_str().unwrap().to_owned());
    names.filter(|name| !["good", "unchecked"].contains(&name.as_str())).collect()
}

#[tokio::test]
async fn a_system_that_is_broken_in_many_ways_is_mended() {
    let cloud = Cloud::start(&[]);
    let (well, found) = cloud.findings(&[]);
    assert_eq!((well.status.code(), found.as_slice()), (Some(0), [].as_slice()), "{well:?}");

    let lambda = &cloud.client.lambda;
    cloud.set(QueueAttributeName::VisibilityTimeout, "20").await;
    cloud.set(QueueAttributeName::MessageRetentionPeriod, "3600").await;
    let redrive = r#"{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:dead-letters","maxReceiveCount":3}"#;
    cloud.set(QueueAttributeName::RedrivePolicy, redrive).await;
    cloud.stop_loops("retry-handler").await;
    cloud.stop_loops("example-target").await;
    let call = lambda.update_function_event_invoke_config().function_name("example-target");
    call.maximum_retry_attempts(2).send().await.unwrap();
    let call = lambda.update_event_source_mapping().uuid(cloud.mapping("retry").await);
    call.batch_size(5).enabled(false).send().await.unwrap();
    cloud.client.pause("example-target").await.unwrap();

    let (broken, found) = cloud.findings(&[]);
    let expected = [
        "handler_loop_stopped",
        "mapping_disabled",
        "mapping_batch_size",
        "visibility_short",
        "retention_short",
        "receives_few",
        "loop_stopped",
        "target_paused",
        "own_retries",
    ];
    assert_eq!(
        (broken.status.code(), found.as_slice()),
        (Some(1), expected.map(str::to_owned).as_slice())
    );

    cloud.refuses(&["doctor", "--fix"], "no terminal to ask on");
    cloud.says(&["doctor", "--fix", "--yes"]);
    // A pause is not fixed, because only the owner of the function can decide that.
    assert_eq!(cloud.findings(&[]).1, ["target_paused"]);
}

#[tokio::test]
async fn settings_that_the_handler_would_refuse_and_functions_without_a_destination_are_found() {
    let cloud = Cloud::start(&[]);
    cloud.create("orders").await;
    let environment = [
        ("DEAD_LETTER_QUEUE_URL", "http://127.0.0.1/000000000000/nowhere"),
        ("MAX_AGE", "never"),
        ("MAX_ATTEMPT", "3"),
        ("TARGET_FUNCTIONS", "orders,missing"),
    ];
    let variables = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let variables = aws_sdk_lambda::types::Environment::builder().set_variables(Some(variables));
    let call = cloud.client.lambda.update_function_configuration().function_name("retry-handler");
    call.environment(variables.build()).send().await.unwrap();
    let (output, found) = cloud.findings(&[]);
    let expected = [
        "settings_bad",
        "setting_misspelt",
        "redrive_elsewhere",
        "redrive_elsewhere",
        "dead_letter_queue_missing",
        "target_missing",
        "destination_missing",
    ];
    assert_eq!(found, expected, "{output:?}");
    assert_eq!(cloud.findings(&["orders"]).1, [&expected[..5], &expected[6..]].concat());
    cloud
        .refuses(&["doctor", "ordrs"], "there is no function or queue ordrs; did you mean orders?");
    cloud.refuses(&["doctor", "--handler", "orders"], "orders is no retry handler");
    assert_eq!(comeback().args(["doctor", "--yes"]).output().unwrap().status.code(), Some(2));
}

#[tokio::test]
async fn functions_whose_failures_no_longer_come_back_are_found_though_no_setting_names_them() {
    let cloud = Cloud::start(&[]);
    let lambda = &cloud.client.lambda;
    for function in ["orders", "shipping"] {
        cloud.create(function).await;
        cloud.says(&["attach", function, "--yes"]);
    }
    cloud.client.invoke("shipping", r#"{"id":"1","fail":{"attempts":1}}"#).await.unwrap();
    cloud.runs_of("shipping", 2).await;
    cloud.says(&["detach", "shipping", "--yes"]);
    lambda.delete_function_event_invoke_config().function_name("orders").send().await.unwrap();
    let (output, found) = cloud.findings(&[]);
    assert_eq!(found, ["destination_missing"; 2], "{output:?}");
    let says = text(&cloud.run(&["doctor"]).stdout);
    let says = says.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(says.contains("and comeback attach has set one"), "{says}");
    assert!(says.contains("and failures of it came back in the last 7 d"), "{says}");
}

#[tokio::test]
async fn failures_that_do_not_reach_the_handler_are_found() {
    let cloud = Cloud::start(&[]);
    let mapping = cloud.mapping("retry-example-target").await;
    cloud.disable(&mapping).await;
    cloud.client.invoke("example-target", r#"{"id":"1","fail":{"attempts":1}}"#).await.unwrap();
    cloud.runs(1).await;
    // A failure is counted when its run has ended.
    while cloud.findings(&[]).1 == ["mapping_disabled"] {}
    assert_eq!(cloud.findings(&[]).1, ["mapping_disabled", "failures_not_retried"]);
}

/// A cloud with the queues `imports` and `mails`, which functions consume, and a durable function.
fn with_queues() -> Cloud {
    let binary = example_target();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("functions.json");
    let steps = json!({ "in-steps": { "code": binary, "durable": true } });
    std::fs::write(&file, steps.to_string()).unwrap();
    let [importer, mailer] =
        ["importer", "mailer"].map(|name| format!("{name}={}", binary.display()));
    let queues = ["--queue", "imports=importer", "--queue", "mails=mailer"];
    let functions = ["--function", &importer, "--function", &mailer];
    let file = ["--functions", file.to_str().unwrap()];
    Cloud::start(&[&queues[..], &functions, &file].concat())
}

#[tokio::test]
async fn nothing_is_found_in_a_healthy_cloud_whatever_is_examined() {
    let cloud = with_queues();
    for named in ["", "sqs:imports", "sqs:mails", "importer", "example-target", "in-steps"] {
        let named: Vec<_> = [named].into_iter().filter(|it| !it.is_empty()).collect();
        let (output, found) = cloud.findings(&named);
        assert_eq!((output.status.code(), found), (Some(0), Vec::new()), "{named:?}: {output:?}");
    }
    let of_consumer = text(&cloud.run(&["doctor", "importer"]).stdout);
    assert!(of_consumer.contains("✓ consumer importer of imports"), "{of_consumer}");
    assert!(!of_consumer.contains(" queue mails:") && !of_consumer.contains("function importer"));
    assert!(cloud.says(&["status"]).contains(" in-steps "), "it is attached");
}

#[tokio::test]
async fn a_broken_consumer_is_found_by_the_name_of_its_queue() {
    let cloud = with_queues();
    let lambda = &cloud.client.lambda;
    let of_imports = || cloud.findings(&["sqs:imports"]).1;
    let mapping = cloud.mapping("imports").await;
    cloud.disable(&mapping).await;
    assert_eq!(of_imports(), ["consumer_disabled"]);
    lambda.update_event_source_mapping().uuid(&mapping).enabled(true).send().await.unwrap();
    cloud.client.pause("importer").await.unwrap();
    assert_eq!(of_imports(), ["consumer_paused"]);
    lambda.delete_function_concurrency().function_name("importer").send().await.unwrap();
    lambda.delete_function().function_name("importer").send().await.unwrap();
    assert_eq!(of_imports(), ["consumer_missing"]);
    lambda.delete_event_source_mapping().uuid(&mapping).send().await.unwrap();
    while of_imports() == ["consumer_missing"] {}
    assert_eq!(of_imports(), [""; 0], "a program may receive from it: a new queue is not judged");
    assert_eq!(cloud.findings(&["sqs:mails"]).1, [""; 0]);
}

#[tokio::test]
async fn a_source_queue_that_the_handler_receives_from_is_named_and_not_changed() {
    let cloud = with_queues();
    let mapping = cloud.mapping("imports").await;
    let call = cloud.client.lambda.update_event_source_mapping().uuid(mapping);
    call.function_name("retry-handler").send().await.unwrap();
    let url = format!("{}/000000000000/imports", cloud.endpoint);
    let attributes = async || {
        let call = cloud.client.sqs.get_queue_attributes().queue_url(&url);
        let names = [QueueAttributeName::RedrivePolicy, QueueAttributeName::VisibilityTimeout];
        call.set_attribute_names(Some(names.into())).send().await.unwrap().attributes
    };
    let before = attributes().await;
    let fixed = cloud.run(&["doctor", "--fix", "--yes"]);
    assert_eq!(fixed.status.code(), Some(1), "{fixed:?}");
    assert!(text(&fixed.stdout).contains("delete-event-source-mapping"), "{fixed:?}");
    assert_eq!(attributes().await, before);
    assert_eq!(cloud.findings(&[]).1, ["mapping_of_source"]);
}

/// A proxy that counts connections. The SDK opens one for each call that is made while others are under way.
fn counting(endpoint: &str) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = format!("http://{}", listener.local_addr().unwrap());
    let address = endpoint.strip_prefix("http://").unwrap().to_owned();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    thread::spawn(move || {
        for client in listener.incoming() {
            counted.fetch_add(1, Ordering::Relaxed);
            let (client, server) = (client.unwrap(), TcpStream::connect(&address).unwrap());
            let ways = [(client.try_clone(), server.try_clone()), (Ok(server), Ok(client))];
            for (from, to) in ways {
                thread::spawn(move || io::copy(&mut from.unwrap(), &mut to.unwrap()));
            }
        }
    });
    (own, connections)
}

#[tokio::test]
async fn fifty_functions_are_examined_concurrently() {
    let cloud = Cloud::start(&[]);
    for number in 0..50 {
        let name = format!("orders-{number}");
        cloud.create(&name).await;
        let destination = aws_sdk_lambda::types::OnFailure::builder();
        let destination =
            destination.destination("arn:aws:sqs:us-east-1:000000000000:retry").build();
        let config = aws_sdk_lambda::types::DestinationConfig::builder().on_failure(destination);
        let call = cloud.client.lambda.put_function_event_invoke_config();
        let call = call.function_name(name).maximum_retry_attempts(0);
        call.destination_config(config.build()).send().await.unwrap();
    }
    let (endpoint, connections) = counting(&cloud.endpoint);
    let local = format!("--local={endpoint}");
    let output = comeback().args(["doctor", "--json", &local]).output().unwrap();
    assert_eq!((output.status.code(), findings(&output)), (Some(0), Vec::new()), "{output:?}");
    let connections = connections.load(Ordering::Relaxed);
    assert!(connections > 8, "at most {connections} calls at a time");
}
