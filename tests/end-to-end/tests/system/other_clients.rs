//! Third-party programs: the runtime clients of Python and Node.js in functions, and the AWS CLI as a caller.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

pub use end_to_end::code::{Code, REQUIREMENTS, installed, python};

use crate::{
    cloud::{self, Cloud, Function, function},
    retry_loop::{Plan, TARGET},
};

/// Deploys a target from a zip that fails until its second retry, and asserts that its event succeeds. `packages`
/// contains the runtime client. The folder `layer` of the code is a layer.
async fn assert_comes_back(code: &Code, runtime: &'static str, packages: &Path) {
    let client = code.0.join("clients").join(if runtime.starts_with("python") {
        "python"
    } else {
        "nodejs/node_modules"
    });
    fs::create_dir_all(client.parent().unwrap()).unwrap();
    symlink(packages, client).unwrap();
    let mut plan = Plan::quick(&[("MAX_ATTEMPTS", "3")]);
    plan.runtimes = Some(code.0.join("clients"));
    plan.target = Function {
        code: cloud::Code::Zip(code.zipped()),
        runtime: Some(runtime.to_owned()),
        handler: Some("app.handler".to_owned()),
        layers: vec![code.0.join("layer")],
        timeout: Duration::from_secs(30),
        ..plan.target
    };
    let retry_loop = plan.deploy().await;
    retry_loop.invoke(r#"{"order": 1.50}"#).await;
    let mut journal = retry_loop.cloud.journal();
    let runs = journal.runs(TARGET).await;
    assert_eq!(runs.map(|run| run.ending), ["Failed", "Failed", "Succeeded"]);
}

#[tokio::test]
async fn a_zip_of_a_python_function_comes_back() {
    let code = Code::new(
        "app.py",
        r#"
import os
import stock


def handler(event, context):
    retry = event.get("_retry_metadata")
    if not retry or retry["attempt"] < stock.ATTEMPTS:
        raise ConnectionError(f"no answer for {context.aws_request_id}")
    assert os.environ["AWS_EXECUTION_ENV"] == "AWS_Lambda_python3.11"
    return event["_original_payload"]
"#,
    );
    code.has("layer/python/stock.py", "ATTEMPTS = 2\n");
    let find = "import sysconfig; print(sysconfig.get_path('platlib'))";
    let found = Command::new(python(REQUIREMENTS)).args(["-c", find]).output().unwrap();
    let packages = PathBuf::from(String::from_utf8(found.stdout).unwrap().trim());
    assert_comes_back(&code, "python3.11", &packages).await;
}

#[tokio::test]
async fn a_zip_of_a_node_js_function_comes_back() {
    let code = Code::new(
        "app.js",
        r#"
const stock = require("stock");
exports.handler = async (event, context) => {
    const retry = event._retry_metadata;
    if (!retry || retry.attempt < stock.attempts) {
        throw new Error(`no answer for ${context.awsRequestId}`);
    }
    return event._original_payload;
};
"#,
    );
    code.has("layer/nodejs/node_modules/stock.js", "exports.attempts = 2;\n");
    assert_comes_back(&code, "nodejs22.x", &installed("node", "tests/node")).await;
}

#[tokio::test]
async fn the_aws_cli_can_use_the_local_cloud() {
    let cloud = Cloud::start(None).await;
    cloud.create(&function(TARGET, "example-target")).await.unwrap();
    let aws = python(REQUIREMENTS).with_file_name("aws");
    let run = |arguments: &str| {
        let ran = Command::new(&aws)
            .args(arguments.split(' '))
            .env_clear()
            .env("HOME", std::env::temp_dir())
            // Version 1 of the AWS CLI ignores AWS_ENDPOINT_URL for SQS.
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
    let group = format!("/aws/lambda/{TARGET}");
    assert!(run("logs describe-log-groups").contains(&group));
    let lines = run(&format!("logs filter-log-events --log-group-name {group}"));
    assert!(lines.contains(r#""events":"#), "{lines}");
}
