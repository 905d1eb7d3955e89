//! The program as an operator runs it, on a local cloud with the retry loop.
#![allow(dead_code, clippy::unwrap_used, reason = "tests, of which each uses a part")]

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use aws_sdk_sqs::types::{MessageAttributeValue, QueueAttributeName, SendMessageBatchRequestEntry};
use chrono::{SecondsFormat, Utc};
use comeback_cli::{deploy, journal::Journal};
use serde_json::json;

/// A test that waits for longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

pub const TARGET: &str = "arn:aws:lambda:us-east-1:000000000000:function:example-target:$LATEST";

pub fn comeback() -> Command {
    let mut comeback = Command::new(env!("CARGO_BIN_EXE_comeback"));
    // Nothing of whoever runs the tests, and no question to a metadata service.
    comeback.env_clear().env("HOME", "/nowhere").env("AWS_EC2_METADATA_DISABLED", "true");
    comeback.stdin(Stdio::null());
    comeback
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A local cloud in which the retry loop is deployed, and its dead-letter queue.
pub struct Cloud {
    process: Child,
    pub endpoint: String,
    pub client: deploy::Cloud,
    queue: String,
}

impl Drop for Cloud {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Cloud {
    pub fn start(arguments: &[&str]) -> Self {
        let mut local = Command::new(env!("CARGO_BIN_EXE_comeback"));
        local.args(["local", "--port", "0"]).args(arguments).stdout(Stdio::piped());
        let mut process = local.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        let endpoint = first.split(' ').next().unwrap().to_owned();
        // The loop is deployed before the journal begins.
        lines.find(|line| line.as_ref().unwrap().starts_with("What happens")).unwrap().unwrap();
        // Read on, so that the pipe never fills up.
        std::thread::spawn(move || lines.for_each(drop));
        let client = deploy::Cloud::at(&endpoint);
        let queue = format!("{endpoint}/000000000000/dead-letters");
        Self { process, endpoint, client, queue }
    }

    /// Sends letters of the handler with these bodies. Attributes without a value are left out.
    pub async fn send(&self, bodies: &[String], others: &[(&str, &str)]) {
        let usual = [("Reason", "max_age_exceeded"), ("FunctionArn", TARGET), ("Attempts", "7")];
        let mut attributes: std::collections::BTreeMap<_, _> = usual.into();
        attributes.extend(others.iter().copied());
        attributes.retain(|_, value| !value.is_empty());
        for batch in bodies.chunks(10) {
            let entry = |(index, body): (usize, &String)| {
                let entry = SendMessageBatchRequestEntry::builder().id(index.to_string());
                let entry =
                    attributes.iter().fold(entry.message_body(body), |entry, (name, value)| {
                        let value = MessageAttributeValue::builder()
                            .data_type("String")
                            .string_value(*value);
                        entry.message_attributes(*name, value.build().unwrap())
                    });
                entry.build().unwrap()
            };
            let entries = batch.iter().enumerate().map(entry).collect();
            let call = self.client.sqs.send_message_batch().queue_url(&self.queue);
            let sent = call.set_entries(Some(entries)).send().await.unwrap();
            assert!(sent.failed.is_empty(), "{sent:?}");
        }
    }

    /// Sends the records of at most ten failures of the target: the ids of the requests, and the types of the errors.
    /// The payload of each event has its id.
    pub async fn fail(&self, failures: &[(&str, &str)]) {
        #[allow(clippy::disallowed_methods, reason = "records have the time of their failure")]
        let now = Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true);
        let entry = |(nth, (id, error)): (usize, &(&str, &str))| {
            let record = json!({
                "timestamp": now,
                "requestContext": {
                    "requestId": id,
                    "functionArn": TARGET,
                    "condition": "RetriesExhausted",
                },
                "requestPayload": { "id": id },
                "responsePayload": { "errorType": error, "errorMessage": "the upstream said 503" },
            });
            let entry = SendMessageBatchRequestEntry::builder().id(nth.to_string());
            entry.message_body(record.to_string()).build().unwrap()
        };
        let queue = format!("{}/000000000000/retry", self.endpoint);
        let call = self.client.sqs.send_message_batch().queue_url(&queue);
        let entries = failures.iter().enumerate().map(entry).collect();
        let sent = call.set_entries(Some(entries)).send().await.unwrap();
        assert!(sent.failed.is_empty(), "{sent:?}");
    }

    /// Runs `comeback dead` on this cloud.
    pub fn dead(&self, arguments: &[&str]) -> Output {
        self.command(&[&["dead"], arguments].concat()).output().unwrap()
    }

    /// A command on this cloud.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = comeback();
        command.args(arguments).arg(format!("--local={}", self.endpoint));
        command
    }

    /// How many letters are visible, and how many are hidden.
    pub async fn letters(&self) -> [usize; 2] {
        let names = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
        ];
        let call = self.client.sqs.get_queue_attributes().queue_url(&self.queue);
        let answer = call.set_attribute_names(Some(names.to_vec())).send().await.unwrap();
        let attributes = answer.attributes.unwrap();
        names.map(|name| attributes[&name].parse().unwrap())
    }

    /// Waits until the target has run so often, and returns the payloads of its runs.
    pub async fn runs(&self, count: usize) -> Vec<String> {
        let mut journal = Journal::of(&self.endpoint);
        let mut payloads = Vec::new();
        let read = async {
            while payloads.len() < count {
                let page = journal.next(Duration::from_secs(20)).await.unwrap();
                let of_target =
                    page.into_iter().filter(|entry| *entry.function == *"example-target");
                let runs = of_target.filter(|entry| entry.outcome.is_none());
                payloads.extend(runs.filter_map(|it| Some(it.payload?.get().to_owned())));
            }
        };
        tokio::time::timeout(PATIENCE, read).await.unwrap();
        payloads
    }
}
