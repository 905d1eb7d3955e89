//! Programs that nobody here wrote: the runtime clients of Python and Node.js as functions, the AWS CLI as
//! a caller.

use std::{path::PathBuf, process::Command};

use crate::{
    cloud::{Cloud, Deployed},
    retry_loop::{Plan, TARGET},
};

/// The AWS CLI and Python's runtime client.
pub const REQUIREMENTS: &str = "tests/requirements.txt";

/// Where the project is.
pub const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The interpreter with the packages of this file of the project.
pub fn python(requirements: &str) -> PathBuf {
    installed("python", requirements)
}

/// What a script prints that installs packages: where they are.
pub fn installed(script: &str, packages: &str) -> PathBuf {
    let script = format!("{ROOT}/scripts/{script}");
    let made = Command::new(script).arg(packages).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    String::from_utf8(made.stdout).unwrap().trim().into()
}

/// A folder with the code of a function, removed at the end of the test.
pub struct Code(PathBuf);

impl Code {
    pub fn new(file: &str, source: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("comeback-{}-{file}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(file), source).unwrap();
        Self(folder)
    }

    pub fn folder(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Deploys a target that fails until its second retry, and sees it come back.
async fn assert_comes_back(command: &[&str], environment: &[(&str, String)]) {
    let mut plan = Plan::quick(&[("MAX_ATTEMPTS", "3")]);
    plan.target = Deployed {
        command: command.iter().map(|&word| word.to_owned()).collect(),
        environment: environment
            .iter()
            .map(|(name, it)| ((*name).to_owned(), it.clone()))
            .collect(),
        timeout: 30,
        ..Deployed::binary(TARGET, "example-target")
    };
    let retry_loop = plan.deploy().await;
    retry_loop.invoke(r#"{"order": 1.50}"#).await;
    let mut journal = retry_loop.cloud.journal();
    let runs = [journal.run(TARGET).await, journal.run(TARGET).await, journal.run(TARGET).await];
    assert_eq!(runs.map(|run| run.ending), ["Failed", "Failed", "Succeeded"]);
}

#[tokio::test]
async fn a_python_function_under_awslambdaric_comes_back() {
    let code = Code::new(
        "app.py",
        r#"
def handler(event, context):
    retry = event.get("_retry_metadata")
    if not retry or retry["attempt"] < 2:
        raise ConnectionError(f"no answer for {context.aws_request_id}")
    return event["_original_payload"]
"#,
    );
    let python = python(REQUIREMENTS).display().to_string();
    let command = [&python, "-m", "awslambdaric", "app.handler"];
    assert_comes_back(&command, &[("PYTHONPATH", code.folder())]).await;
}

#[tokio::test]
async fn a_node_js_function_under_aws_lambda_ric_comes_back() {
    let code = Code::new(
        "app.js",
        r#"
exports.handler = async (event, context) => {
    const retry = event._retry_metadata;
    if (!retry || retry.attempt < 2) {
        throw new Error(`no answer for ${context.awsRequestId}`);
    }
    return event._original_payload;
};
"#,
    );
    let client = installed("node", "tests/node").join("aws-lambda-ric/bin/index.mjs");
    let handler = code.folder() + "/app.handler";
    assert_comes_back(&["node", &client.display().to_string(), &handler], &[]).await;
}

#[tokio::test]
async fn the_aws_cli_can_use_the_local_cloud() {
    let cloud = Cloud::start().await;
    cloud.function(&Deployed::binary(TARGET, "example-target")).await;
    let aws = python(REQUIREMENTS).with_file_name("aws");
    let run = |arguments: &str| {
        let ran = Command::new(&aws)
            .args(arguments.split(' '))
            .env_clear()
            .env("HOME", std::env::temp_dir())
            // By the option, as version 1 of the CLI takes no endpoint for SQS from the environment.
            .args(["--endpoint-url", &cloud.endpoint])
            .envs([("AWS_ACCESS_KEY_ID", "local"), ("AWS_SECRET_ACCESS_KEY", "local")])
            .env("AWS_DEFAULT_REGION", "us-east-1")
            .output()
            .unwrap();
        assert!(ran.status.success(), "{arguments}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    };
    let created = run("sqs create-queue --queue-name tried --output text");
    let url = created.trim();
    assert_eq!(url, format!("{}/000000000000/tried", cloud.endpoint));
    run(&format!("sqs send-message --queue-url {url} --message-body hello"));
    assert!(
        run(&format!("sqs receive-message --queue-url {url} --wait-time-seconds 5"))
            .contains("hello")
    );
    assert!(run("lambda list-functions").contains(TARGET));
    let answer = std::env::temp_dir().join(format!("comeback-cli-{}.json", std::process::id()));
    run(&format!(
        "lambda invoke --function-name {TARGET} --payload {{\"id\":7}} {}",
        answer.display()
    ));
    assert_eq!(std::fs::read_to_string(&answer).unwrap(), r#"{"attempt":0,"id":7}"#);
    std::fs::remove_file(answer).unwrap();
}
