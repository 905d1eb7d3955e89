//! A local cloud of a test's own, in a process of its own.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use aws_sdk_lambda::{
    config::{BehaviorVersion, Credentials, Region},
    primitives::Blob,
    types::{Environment, FunctionCode, InvocationType, LayerVersionContentInput, Runtime},
};
use aws_sdk_sqs::types::QueueAttributeName;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::journal::Journal;

/// A binary of this workspace: cargo puts it beside other binaries, and tests into a folder there.
pub fn binary(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let mut folders = own.ancestors().skip(1).take(2).map(|folder| folder.join(name));
    let missing = || panic!("{name} is missing: run `cargo build --workspace --bins`");
    folders.find(|path| path.exists()).unwrap_or_else(missing)
}

/// An example program of this workspace.
pub fn example(name: &str) -> PathBuf {
    let folder = binary("examples");
    let path = folder.join(name);
    assert!(
        path.exists(),
        "{name} is missing: run `cargo build --workspace --examples --all-features`"
    );
    path
}

/// SQS and Lambda on a port of their own, gone when this is dropped.
pub struct Cloud {
    /// Its process.
    pub process: Child,
    /// Where it listens.
    pub endpoint: String,
    /// A client of its queues.
    pub sqs: aws_sdk_sqs::Client,
    /// A client of its functions.
    pub lambda: aws_sdk_lambda::Client,
}

/// How a function is deployed.
#[derive(Clone)]
#[allow(missing_docs, reason = "the names are those of Lambda's API")]
pub struct Deployed<'a> {
    pub name: &'a str,
    pub command: Vec<String>,
    pub environment: Vec<(String, String)>,
    pub timeout: i32,
    /// Folders that are its layers.
    pub layers: Vec<PathBuf>,
    /// A zip that is its code, in place of the command.
    pub zip: Option<Zip>,
}

/// A zip with the handler of a function.
#[derive(Clone)]
#[allow(missing_docs, reason = "the names are those of Lambda's API")]
pub struct Zip {
    pub bytes: Vec<u8>,
    pub runtime: &'static str,
    pub handler: &'static str,
}

impl<'a> Deployed<'a> {
    /// A function that is a binary of this workspace.
    pub fn binary(name: &'a str, binary_name: &str) -> Self {
        let command = vec![binary(binary_name).display().to_string()];
        Self { name, command, environment: Vec::new(), timeout: 10, layers: Vec::new(), zip: None }
    }
}

impl Cloud {
    /// Starts one.
    pub async fn start() -> Self {
        Self::start_with(None).await
    }

    /// Starts one with this folder of runtime clients.
    pub async fn start_with(runtimes: Option<&Path>) -> Self {
        let mut process = Command::new(binary("comeback-local"))
            .args(["0"])
            .envs(runtimes.map(|folder| ("COMEBACK_RUNTIMES", folder)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let endpoint = loop {
            let line =
                lines.next_line().await.unwrap().expect("an endpoint before the end of output");
            if let Some(at) = line.find("http://127.0.0.1:") {
                break line[at..].split_whitespace().next().unwrap().to_owned();
            }
        };
        // Whatever else it prints must not fill the pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let credentials = Credentials::new("local", "local", None, None, "test");
        let lambda = aws_sdk_lambda::Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new("us-east-1"))
            .credentials_provider(credentials.clone())
            .endpoint_url(&endpoint)
            .build();
        let sqs = aws_sdk_sqs::Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new("us-east-1"))
            .credentials_provider(credentials)
            .endpoint_url(&endpoint)
            .build();
        Self {
            process,
            lambda: aws_sdk_lambda::Client::from_conf(lambda),
            sqs: aws_sdk_sqs::Client::from_conf(sqs),
            endpoint,
        }
    }

    /// What has happened here since the beginning.
    pub fn journal(&self) -> Journal {
        Journal::of(&self.endpoint)
    }

    /// Creates a queue; gives its URL.
    pub async fn queue(&self, name: &str, attributes: &[(QueueAttributeName, &str)]) -> String {
        let mut call = self.sqs.create_queue().queue_name(name);
        for (name, value) in attributes {
            call = call.attributes(name.clone(), *value);
        }
        call.send().await.unwrap().queue_url.unwrap()
    }

    /// The ARN of the queue with this URL.
    pub async fn queue_arn(&self, url: &str) -> String {
        self.queue_attribute(url, QueueAttributeName::QueueArn).await
    }

    /// An attribute of the queue with this URL.
    pub async fn queue_attribute(&self, url: &str, name: QueueAttributeName) -> String {
        let call = self.sqs.get_queue_attributes().queue_url(url).attribute_names(name.clone());
        call.send().await.unwrap().attributes.unwrap().remove(&name).unwrap()
    }

    /// Creates a function of a command on this machine, or of a zip; gives its ARN.
    pub async fn function(&self, deployed: &Deployed<'_>) -> String {
        let image = aws_sdk_lambda::types::ImageConfig::builder()
            .set_command(Some(deployed.command.clone()))
            .working_directory(std::env::temp_dir().display().to_string())
            .build();
        let variables = deployed.environment.iter().cloned().collect();
        let mut layers = Vec::new();
        for folder in &deployed.layers {
            layers.push(self.layer(folder).await);
        }
        let call = self.lambda.create_function().function_name(deployed.name);
        let call = match &deployed.zip {
            None => call
                .runtime(Runtime::Providedal2023)
                .package_type(aws_sdk_lambda::types::PackageType::Image)
                .code(FunctionCode::builder().image_uri("local-command").build())
                .image_config(image),
            Some(Zip { bytes, runtime, handler }) => call
                .runtime(Runtime::from(*runtime))
                .handler(*handler)
                .code(FunctionCode::builder().zip_file(Blob::new(bytes.clone())).build()),
        };
        let created = call
            .role("arn:aws:iam::000000000000:role/local")
            .environment(Environment::builder().set_variables(Some(variables)).build())
            .timeout(deployed.timeout)
            .set_layers(Some(layers))
            .send()
            .await
            .unwrap();
        created.function_arn.unwrap()
    }

    /// Publishes a folder as a layer; gives the ARN of its version.
    async fn layer(&self, folder: &Path) -> String {
        let content = LayerVersionContentInput::builder()
            .s3_bucket("local-folder")
            .s3_key(folder.display().to_string())
            .build();
        let name = folder.file_name().unwrap().display().to_string();
        let call = self.lambda.publish_layer_version().layer_name(name).content(content);
        call.send().await.unwrap().layer_version_arn.unwrap()
    }

    /// Invokes asynchronously; gives the request id that Lambda answers with.
    pub async fn invoke(&self, function: &str, payload: &str) -> String {
        use aws_sdk_lambda::operation::RequestId;
        let call = self.lambda.invoke().function_name(function).payload(Blob::new(payload));
        let accepted = call.invocation_type(InvocationType::Event).send().await.unwrap();
        assert_eq!(accepted.status_code(), 202);
        accepted.request_id().unwrap().to_owned()
    }
}
