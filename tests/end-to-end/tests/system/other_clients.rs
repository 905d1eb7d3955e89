//! Programs that nobody here wrote: Python's runtime client as a function, the AWS CLI as a caller.

use std::{path::PathBuf, process::Command};

use crate::{
    cloud::{Cloud, Deployed},
    retry_loop::{Plan, TARGET},
};

/// The AWS CLI and Python's runtime client.
const REQUIREMENTS: &str = "tests/requirements.txt";

/// Where the project is.
pub const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The interpreter with the packages of this file of the project.
pub fn python(requirements: &str) -> PathBuf {
    let script = format!("{ROOT}/scripts/python");
    let made = Command::new(script).arg(requirements).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    String::from_utf8(made.stdout).unwrap().trim().into()
}

#[tokio::test]
async fn a_python_function_under_awslambdaric_comes_back() {
    let source = "def handler(event, context):\n    retry = event.get('_retry_metadata')\n    if not retry or retry['attempt'] < 2:\n        raise ConnectionError(f'no answer for {context.aws_request_id}')\n    return event['_original_payload']\n";
    let folder = std::env::temp_dir().join(format!("comeback-python-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("app.py"), source).unwrap();
    let mut plan = Plan::quick(&[("MAX_ATTEMPTS", "3")]);
    let python = python(REQUIREMENTS).display().to_string();
    plan.target = Deployed {
        name: TARGET,
        command: [&python, "-m", "awslambdaric", "app.handler"].map(str::to_owned).to_vec(),
        environment: vec![("PYTHONPATH".to_owned(), folder.display().to_string())],
        timeout: 30,
    };
    let retry_loop = plan.deploy().await;
    retry_loop.invoke(r#"{"order": 1.50}"#).await;
    let mut journal = retry_loop.cloud.journal();
    let runs = [journal.run(TARGET).await, journal.run(TARGET).await, journal.run(TARGET).await];
    assert_eq!(runs.map(|run| run.ending), ["Failed", "Failed", "Succeeded"]);
    std::fs::remove_dir_all(folder).unwrap();
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
