//! `comeback attach` and `comeback detach`, run against the local cloud.

use std::collections::HashMap;

use crate::support::{Cloud, attribute, comeback, text};
use aws_sdk_lambda::types::{DestinationConfig, OnSuccess};
use aws_sdk_sqs::{
    primitives::Blob,
    types::{Message, MessageAttributeValue, QueueAttributeName},
};
use comeback_local_client::deploy::Function;

impl Cloud {
    /// A retry system that allows only the example target, and the function `orders`, which is not attached.
    pub async fn with_orders() -> Self {
        let cloud = Self::start(&["--set", "TARGET_FUNCTIONS=example-target"]);
        cloud.create("orders").await;
        cloud.stop_loops("orders").await;
        cloud
    }

    async fn settings(&self) -> String {
        let call = self.client.lambda.get_function_configuration().function_name("retry-handler");
        let environment = call.send().await.unwrap().environment.unwrap();
        environment.variables.unwrap()["TARGET_FUNCTIONS"].clone()
    }
}

#[tokio::test]
async fn failures_of_an_attached_function_come_back_until_it_is_detached() {
    let cloud = Cloud::with_orders().await;
    let lambda = &cloud.client.lambda;
    let success = OnSuccess::builder()
        .destination("arn:aws:lambda:us-east-1:000000000000:function:example-target");
    let call = lambda.put_function_event_invoke_config().function_name("orders");
    let call =
        call.destination_config(DestinationConfig::builder().on_success(success.build()).build());
    call.maximum_event_age_in_seconds(600).send().await.unwrap();

    cloud.refuses(&["attach", "orders"], "no terminal to ask on");
    cloud.says(&["attach", "orders", "--dry-run"]);
    assert_eq!(cloud.settings().await, "example-target", "nothing was changed");

    cloud.says(&["attach", "orders", "--yes"]);
    assert_eq!(cloud.settings().await, "example-target,orders");
    let call = lambda.get_function_event_invoke_config().function_name("orders");
    let config = call.send().await.unwrap();
    assert_eq!(
        (config.maximum_retry_attempts, config.maximum_event_age_in_seconds),
        (Some(0), Some(600))
    );
    assert!(config.destination_config.unwrap().on_success.unwrap().destination.is_some());
    assert!(cloud.says(&["attach", "orders", "--yes"]).contains("nothing to do"));

    cloud.client.invoke("orders", r#"{"id":"1","fail":{"attempts":1}}"#).await.unwrap();
    cloud.runs_of("orders", 2).await;

    cloud.says(&["detach", "orders", "--yes", "--now"]);
    assert_eq!(cloud.settings().await, "example-target");
    let call = lambda.get_function_event_invoke_config().function_name("orders");
    let config = call.send().await.unwrap();
    let destinations = config.destination_config.unwrap();
    assert!(destinations.on_failure.is_none_or(|it| it.destination.is_none()));
    let arn = "arn:aws:lambda:us-east-1:000000000000:function:orders";
    let tags = lambda.list_tags().resource(arn).send().await.unwrap().tags.unwrap();
    assert!(tags.is_empty(), "{tags:?}");
    cloud.refuses(
        &["detach", "orders", "--yes"],
        "the function was not attached by comeback attach",
    );
}

#[tokio::test]
async fn a_transparent_function_comes_back_with_its_own_bytes_until_it_is_detached() {
    let cloud =
        Cloud::start(&["--set", "TARGET_FUNCTIONS=example-target", "--set", "MAX_BACKOFF=1s"]);
    cloud.create("orders").await;
    let attached = cloud.says(&["attach", "orders", "--transparent", "--yes"]);
    assert!(attached.contains(r#"POLICIES={"orders":{"TRANSPARENT":"true"}}"#), "{attached}");
    let findings = text(&cloud.run(&["doctor", "orders"]).stdout);
    assert!(!findings.contains("settings_bad"), "{findings}");
    let payload = r#"{"id": "1", "fail":{"error":"Down"}}"#;
    cloud.client.invoke("orders", payload).await.unwrap();
    assert_eq!(cloud.runs_of("orders", 3).await, [payload; 3]);
    cloud.says(&["detach", "orders", "--yes", "--now"]);
    let call = cloud.client.lambda.get_function_configuration().function_name("retry-handler");
    let environment = call.send().await.unwrap().environment.unwrap();
    assert!(!environment.variables.unwrap().contains_key("POLICIES"));
}

#[tokio::test]
async fn a_handler_without_a_ledger_refuses_transparent_functions_and_nothing_changes() {
    let cloud = Cloud::start(&["--no-ledger", "--set", "TARGET_FUNCTIONS=example-target"]);
    cloud.create("orders").await;
    let why = "retry-handler has no LEDGER_TABLE: switch its ledger on, or leave --transparent out";
    cloud.refuses(&["attach", "orders", "--transparent", "--yes"], why);
    assert_eq!(cloud.settings().await, "example-target");
}

#[tokio::test]
async fn contradictory_requests_are_refused_and_change_nothing() {
    let cloud = Cloud::with_orders().await;
    let orders = Cloud::function("by-tenant");
    cloud.client.create(&Function { tenants: true, ..orders.clone() }).await.unwrap();
    let steps = Function { name: "in-steps".to_owned(), durable: true, ..orders };
    cloud.client.create(&steps).await.unwrap();
    for (arguments, part) in [
        (["attach", "by-tenant"].as_slice(), "it has tenant isolation"),
        (&["attach", "in-steps"], "it is a durable function"),
        (&["attach", "ordrs"], "there is no function or queue ordrs; did you mean orders?"),
        (&["attach", "orders", "--handler", "x"], "x is no retry handler"),
    ] {
        cloud.refuses(arguments, part);
    }
    assert_eq!(comeback().args(["attach", "a b"]).output().unwrap().status.code(), Some(2));
    assert_eq!(cloud.settings().await, "example-target");
}

const IMPORTS: &str = "arn:aws:sqs:us-east-1:000000000000:imports";

impl Cloud {
    /// Waits until a mapping has this state, which a change of it leads to.
    async fn reaches(&self, state: &str, mapping: &str) {
        let call = self.client.lambda.get_event_source_mapping().uuid(mapping);
        while call.clone().send().await.unwrap().state() != Some(state) {}
    }

    /// The next message of the queue `imports` with its attributes, which this consumer fails to process.
    async fn fail_to_import(&self, url: &str) -> Message {
        let receive = self.client.sqs.receive_message().queue_url(url).wait_time_seconds(1);
        let receive = receive.message_attribute_names("All");
        let message = loop {
            let received = receive.clone().send().await.unwrap();
            if let Some(message) = received.messages.unwrap_or_default().pop() {
                break message;
            }
        };
        let handle = message.receipt_handle.clone().unwrap();
        let call = self.client.sqs.change_message_visibility().queue_url(url);
        call.receipt_handle(handle).visibility_timeout(0).send().await.unwrap();
        message
    }
}

#[tokio::test]
async fn messages_of_an_attached_queue_come_back_are_dead_lettered_and_redriven_until_it_is_detached()
 {
    let cloud = Cloud::start(&["--set", "MAX_ATTEMPTS=1", "--set", "MAX_BACKOFF=1s"]);
    let sqs = &cloud.client.sqs;
    let imports = sqs.create_queue().queue_name("imports").send().await.unwrap();
    let imports = imports.queue_url.unwrap();
    cloud.create("importer").await;
    cloud.stop_loops("importer").await;
    let mapping = cloud.client.lambda.create_event_source_mapping().function_name("importer");
    let mapping = mapping.event_source_arn(IMPORTS).enabled(false).send().await.unwrap();
    cloud.reaches("Disabled", mapping.uuid().unwrap()).await;
    let attached = cloud.says(&["attach", "--queue", "imports", "--yes"]);
    let findings = text(&cloud.run(&["doctor", "sqs:imports"]).stdout);
    assert!(
        findings.contains("queue imports: it keeps messages for 4 d (source_retention"),
        "{findings}"
    );
    // The test itself is the consumer.
    let wrong: Vec<_> = findings.lines().filter(|line| line.starts_with('✗')).collect();
    let disabled =
        "✗ consumer importer of imports: its mapping of the queue is disabled (consumer_disabled)";
    assert_eq!(wrong, [disabled]);
    assert!(cloud.says(&["status", "sqs:*"]).contains(" sqs:imports  stopped "));
    for part in ["✓ importer: RecursiveLoop", "imports keeps messages for 4 d"] {
        assert!(attached.contains(part), "{part}: {attached}");
    }
    assert!(cloud.says(&["attach", "--queue", "sqs:imports", "--yes"]).contains("nothing to do"));

    let binary = MessageAttributeValue::builder().data_type("Binary");
    let own = [
        ("tenant", attribute("String", "bl\u{e9}\"ue")),
        ("size", attribute("Number.int", "007")),
        ("key", binary.binary_value(Blob::new([0, 1, 255])).build().unwrap()),
    ];
    let own: HashMap<_, _> = own.map(|(name, value)| (name.to_owned(), value)).into();
    let call = sqs.send_message().queue_url(&imports).message_body("no JSON {");
    call.set_message_attributes(Some(own.clone())).send().await.unwrap();
    cloud.says(&["pause", "sqs:imports", "--yes"]);
    cloud.fail_to_import(&imports).await;
    // SQS moves a message when it would be received again.
    let received = sqs.receive_message().queue_url(&imports).send().await.unwrap();
    assert_eq!(received.messages, None);
    let waiting = loop {
        let listed = cloud.json(&["waiting", "--function", "sqs:imports", "--json"]);
        if let Some(event) = listed["events"].as_array().unwrap().first() {
            break event.clone();
        }
    };
    assert_eq!(waiting["function"], IMPORTS);
    let trace = cloud.says(&["trace", waiting["event_id"].as_str().unwrap()]);
    assert!(trace.contains(" of sqs:imports"), "{trace}");
    let order = ["waiting", "retry-now", "--function", "sqs:imports", "--yes"];
    cloud.says(&order);
    cloud.says(&["resume", "sqs:imports", "--yes"]);
    let mut retried = cloud.fail_to_import(&imports).await;
    let attributes = retried.message_attributes.as_mut().unwrap();
    assert!(attributes.remove("_retry_metadata").is_some(), "it came back by a retry");
    assert_eq!((retried.body.as_deref(), &*attributes), (Some("no JSON {"), &own));

    let redrive = ["dead", "redrive", "--yes", "--function", "sqs:imports"];
    loop {
        let received = sqs.receive_message().queue_url(&imports).send().await.unwrap();
        assert_eq!(received.messages, None);
        let redriven = cloud.run(&redrive);
        if text(&redriven.stdout).contains("1 letter redriven to sqs:imports") {
            break;
        }
    }
    let redriven = cloud.fail_to_import(&imports).await;
    assert_eq!(
        (redriven.body.as_deref(), redriven.message_attributes),
        (Some("no JSON {"), Some(own))
    );

    for expected in ["then run this again to remove the rest", "✓ mapping of retry-imports"] {
        let detached = cloud.says(&["detach", "--queue", "imports", "--yes"]);
        assert!(detached.contains(expected), "{detached}");
    }
    let call = sqs.get_queue_attributes().queue_url(&imports);
    let attributes = call.attribute_names(QueueAttributeName::RedrivePolicy).send().await.unwrap();
    let attributes = attributes.attributes.unwrap_or_default();
    let policy = attributes.get(&QueueAttributeName::RedrivePolicy);
    assert!(policy.is_none_or(String::is_empty), "{policy:?}");
}
