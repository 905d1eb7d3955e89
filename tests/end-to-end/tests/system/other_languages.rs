//! Third-party programs: the runtime clients of Python and Node.js in functions, the AWS CLI as a caller, and the code
//! for other languages in the kit's README, verbatim: it unwraps envelopes and leaves other events as they are.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

pub use end_to_end::code::{Code, REQUIREMENTS, installed, python};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

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
    let cloud = Cloud::start(None, false).await;
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

const README: &str = include_str!("../../../../shared/kit/README.md");
const EVENTS: &str = include_str!("../../../../shared/core/fixtures/envelopes.json");

/// The first code block in this language in the README.
fn code(language: &str) -> &'static str {
    let begin = format!("```{language}\n");
    let (_, code) = README.split_once(&begin).unwrap();
    code.split_once("```").unwrap().0
}

#[derive(Deserialize)]
struct Case<'a> {
    is_envelope: bool,
    request_id: Option<String>,
    #[serde(borrow)]
    event: &'a RawValue,
}

/// A program's result for an event.
#[derive(Deserialize)]
struct Answer {
    /// The payload and the attempt, or `None` if the event is no envelope.
    unwrapped: Option<(Value, f64)>,
    key: String,
}

/// Runs a program with these events, in an invocation with the id `own`, and checks its result for each.
fn assert_unwraps(mut program: Command) {
    let cases: Vec<Case<'_>> = serde_json::from_str(EVENTS).unwrap();
    let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(EVENTS.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let answers: Vec<Answer> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answers.len(), cases.len());
    for (Case { is_envelope, request_id, event }, answer) in cases.into_iter().zip(answers) {
        let unwrapped = is_envelope.then(|| {
            let event: Value = serde_json::from_str(event.get()).unwrap();
            let attempt = event["_retry_metadata"]["attempt"].as_f64().unwrap();
            (event["_original_payload"].clone(), attempt)
        });
        assert_eq!(answer.unwrapped, unwrapped, "{event}");
        assert_eq!(answer.key, request_id.as_deref().unwrap_or("own"), "{event}");
    }
}

#[test]
fn the_python_code_in_the_readme_unwraps_envelopes() {
    let place = r#"
import json


def place(order, key):
    return key


class Own:
    aws_request_id = "own"


def answer(event):
    payload, retry = unwrap(event)
    unwrapped = None if payload is event else [payload, retry["attempt"]]
    return {"unwrapped": unwrapped, "key": handler(event, Own)}


print(json.dumps([answer(case["event"]) for case in json.load(sys.stdin)]))
"#;
    let app = Code::new("told.py", &(code("python").to_owned() + place));
    let mut program = Command::new(python(REQUIREMENTS));
    program.arg(app.folder() + "/told.py");
    assert_unwraps(program);
}

#[test]
fn the_typescript_code_in_the_readme_unwraps_envelopes() {
    let place = r#"
declare const require: any;

function place(order: unknown, key: string) {
  return key;
}

async function answer(event: unknown) {
  const { payload, retry } = unwrap(event);
  const unwrapped = payload === event ? null : [payload, retry?.attempt];
  return { unwrapped, key: await handler(event, { awsRequestId: "own" }) };
}

const cases: { event: unknown }[] = JSON.parse(require("fs").readFileSync(0, "utf8"));
Promise.all(cases.map(({ event }) => answer(event))).then((answers) => {
  console.log(JSON.stringify(answers));
});
"#;
    let app = Code::new("told.ts", &(code("typescript").to_owned() + place));
    let packages = installed("node", "tests/node");
    let compiled = Command::new(packages.join(".bin/tsc"))
        .args(["--strict", "--target", "es2022", "--module", "commonjs", "told.ts"])
        .current_dir(app.folder())
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stdout));
    let mut program = Command::new("node");
    program.arg(app.folder() + "/told.js");
    assert_unwraps(program);
}
