//! Runs the program, on a local cloud with the retry loop.

use std::{
    io::{BufRead, BufReader, Lines, Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Output, Stdio},
    time::Duration,
};

use aws_config::SdkConfig;
use aws_sdk_lambda::{
    primitives::Blob,
    types::{Environment, FunctionCode, RecursiveLoop, Runtime},
};
use aws_sdk_sqs::types::{MessageAttributeValue, QueueAttributeName, SendMessageBatchRequestEntry};
use chrono::{SecondsFormat, Utc};
use comeback_local_client::{
    deploy::{self, Function},
    journal::Journal,
};
use moto::Moto;
use serde_json::{Value, json};

/// The longest wait in a test. After that, the test fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const TARGET: &str = "arn:aws:lambda:us-east-1:000000000000:function:example-target:$LATEST";

pub fn comeback() -> Command {
    let mut comeback = Command::new(env!("CARGO_BIN_EXE_comeback"));
    // Isolated from the environment and the home of the user, and without calls to a metadata service.
    comeback.env_clear().env("HOME", "/nowhere").env("AWS_EC2_METADATA_DISABLED", "true");
    comeback.stdin(Stdio::null());
    comeback
}

pub fn example_target() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_comeback")).with_file_name("example-target")
}

pub fn on_moto(moto: &Moto, arguments: &[&str]) -> Command {
    let mut command = comeback();
    command.args(arguments).env("AWS_ENDPOINT_URL", &moto.endpoint).env("AWS_REGION", "us-east-1");
    command
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

pub fn attribute(data_type: &str, value: &str) -> MessageAttributeValue {
    let attribute = MessageAttributeValue::builder().data_type(data_type);
    attribute.string_value(value).build().unwrap()
}

pub fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// A local cloud in which the retry loop is deployed, and its dead-letter queue.
pub struct Cloud {
    pub process: Child,
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
        let (cloud, _, lines) = Self::launch(arguments);
        // The output is read to its end, so that the pipe never fills up.
        std::thread::spawn(move || lines.for_each(drop));
        cloud
    }

    /// The same with its output: the lines before the journal, and the journal, which the test must read.
    pub fn launch(arguments: &[&str]) -> (Self, Vec<String>, Lines<BufReader<ChildStdout>>) {
        let mut local = Command::new(env!("CARGO_BIN_EXE_comeback"));
        local.args(["local", "--port", "0"]).args(arguments).stdout(Stdio::piped());
        let mut process = local.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut opening = vec![lines.next().unwrap().unwrap()];
        // The loop is deployed before the journal begins.
        while opening.last().unwrap() != "What happens, until Ctrl-C:" {
            opening.push(lines.next().unwrap().unwrap());
        }
        let endpoint = opening[0].split(' ').next().unwrap().to_owned();
        let client = deploy::Cloud::at(&endpoint);
        let queue = format!("{endpoint}/000000000000/dead-letters");
        (Self { process, endpoint, client, queue }, opening, lines)
    }

    /// Sends dead letters like those of the handler, with these bodies. Attributes without a value are left out.
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
                        entry.message_attributes(*name, attribute("String", value))
                    });
                entry.build().unwrap()
            };
            let entries = batch.iter().enumerate().map(entry).collect();
            let call = self.client.sqs.send_message_batch().queue_url(&self.queue);
            let sent = call.set_entries(Some(entries)).send().await.unwrap();
            assert!(sent.failed.is_empty(), "{sent:?}");
        }
    }

    /// Sends the failure records of up to ten events of the target, with these request ids and error types. The payload
    /// of each event has its id.
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

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = comeback();
        command.args(arguments).arg(format!("--local={}", self.endpoint));
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The output of a command on this cloud, which must succeed.
    pub fn says(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{output:?}");
        text(&output.stdout)
    }

    /// The same for a command that prints a JSON document.
    pub fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.says(arguments)).unwrap()
    }

    /// Runs a command on this cloud, which must refuse, and say why.
    pub fn refuses(&self, arguments: &[&str], why: &str) {
        let refused = self.run(arguments);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(text(&refused.stderr).contains(why), "{refused:?}");
    }

    /// A copy of the example target.
    pub fn function(name: &str) -> Function {
        Function::of(name, &example_target(), Duration::from_secs(3))
    }

    pub async fn create(&self, name: &str) {
        self.client.create(&Self::function(name)).await.unwrap();
    }

    /// The UUID of the mapping of a queue.
    pub async fn mapping(&self, queue: &str) -> String {
        let mappings = self.client.lambda.list_event_source_mappings().send().await.unwrap();
        let mappings = mappings.event_source_mappings.unwrap();
        let is_it = |arn: &str| arn.ends_with(&format!(":{queue}"));
        let found = mappings.iter().find(|it| it.event_source_arn().is_some_and(is_it));
        found.unwrap().uuid().unwrap().to_owned()
    }

    pub async fn disable(&self, mapping: &str) {
        self.enable(mapping, false).await;
    }

    pub async fn enable(&self, mapping: &str, is_enabled: bool) {
        let call = self.client.lambda.update_event_source_mapping().uuid(mapping);
        call.enabled(is_enabled).send().await.unwrap();
    }

    pub async fn stop_loops(&self, function: &str) {
        let call = self.client.lambda.put_function_recursion_config().function_name(function);
        call.recursive_loop(RecursiveLoop::Terminate).send().await.unwrap();
    }

    /// The output of a command in a guide, with the guide's port in place of the actual one.
    pub fn replay(&self, command: &str) -> String {
        let words = command.split(' ').filter(|it| !["comeback", "--local"].contains(it));
        let printed = text(&self.run(&words.collect::<Vec<_>>()).stdout);
        printed.replace(&self.endpoint, "http://127.0.0.1:4700")
    }

    /// The numbers of visible and of hidden letters.
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

    /// Waits until the target has run this many times, and returns the payloads of its runs.
    pub async fn runs(&self, count: usize) -> Vec<String> {
        self.runs_of("example-target", count).await
    }

    pub async fn runs_of(&self, function: &str, count: usize) -> Vec<String> {
        let mut journal = Journal::of(&self.endpoint);
        let mut payloads = Vec::new();
        let read = async {
            while payloads.len() < count {
                let page = journal.next(Duration::from_secs(20)).await.unwrap();
                let of_function = page.into_iter().filter(|entry| *entry.function == *function);
                let runs = of_function.filter(|entry| entry.outcome.is_none());
                payloads.extend(runs.filter_map(|it| Some(it.payload?.get().to_owned())));
            }
        };
        tokio::time::timeout(PATIENCE, read).await.unwrap();
        payloads
    }
}

/// The answer of moto to a request, such as `POST / AWSEvents.PutRule`, to a service for which tests have no client.
pub fn ask_moto(moto: &Moto, service: &str, request: &str, body: &Value) -> Value {
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let target = words.next().map(|it| format!("x-amz-target: {it}\r\n"));
    let kind = if target.is_some() { "x-amz-json-1.1" } else { "json" };
    let target = target.unwrap_or_default();
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let address = moto.endpoint.strip_prefix("http://").unwrap();
    let mut connection = TcpStream::connect(address).unwrap();
    write!(
        connection,
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{target}\
         content-type: application/{kind}\r\n\
         authorization: AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/{service}/aws4_request, \
         SignedHeaders=host, Signature=none\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.contains(" 200 "), "{request}: {answer}");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_default()
}

/// Creates a function on moto, which is never invoked, with a role of its own.
pub async fn create_on_moto(sdk: &SdkConfig, name: &str, environment: &[(&str, &str)]) {
    const EMPTY_ZIP: &[u8] = b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let trust = json!({ "Version": "2012-10-17", "Statement": [{ "Effect": "Allow",
        "Action": "sts:AssumeRole", "Principal": { "Service": "lambda.amazonaws.com" } }] });
    let role = aws_sdk_iam::Client::new(sdk).create_role().role_name(format!("{name}-role"));
    let role = role.assume_role_policy_document(trust.to_string()).send().await.unwrap();
    let role = role.role.unwrap().arn;
    let variables = environment.iter().map(|(name, value)| ((*name).into(), (*value).into()));
    let environment = Environment::builder().set_variables(Some(variables.collect()));
    aws_sdk_lambda::Client::new(sdk)
        .create_function()
        .function_name(name)
        .role(role)
        .runtime(Runtime::Nodejs20x)
        .handler("index.handler")
        .code(FunctionCode::builder().zip_file(Blob::new(EMPTY_ZIP)).build())
        .environment(environment.build())
        .send()
        .await
        .unwrap();
}
