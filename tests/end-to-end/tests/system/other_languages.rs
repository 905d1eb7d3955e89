//! The code for other languages in the kit's README, verbatim: it unwraps envelopes and leaves other events as they
//! are, and a function with this code gets the same idempotency key in each retry.

use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::{
    cloud,
    other_clients::{Code, REQUIREMENTS, installed, python},
    retry_loop::{Plan, TARGET},
};

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

/// Deploys a function that fails in its first two runs, and records the event and the idempotency key of each run.
async fn assert_same_key_in_each_run(code: &Code, command: &[&str]) {
    let (folder, notes) = (code.folder(), code.notes());
    let environment = [("PYTHONPATH", folder.as_str()), ("NOTES", &notes)];
    let plan = Plan::quick(&[("MAX_ATTEMPTS", "3")]);
    let plan = plan.with_target(cloud::command(command.iter().copied()), &environment);
    let retry_loop = plan.deploy().await;
    let key = retry_loop.invoke(r#"{"order":"7"}"#).await;
    let mut journal = retry_loop.cloud.journal();
    let runs = journal.runs(TARGET).await;
    assert_eq!(runs.map(|run| run.ending), ["Failed", "Failed", "Succeeded"]);
    let told = fs::read_to_string(notes).unwrap();
    assert_eq!(told, (format!(r#"[{{"order":"7"}},"{key}"]"#) + "\n").repeat(3));
}

#[tokio::test]
async fn the_python_code_in_the_readme_unwraps_envelopes() {
    let place = r#"
import json, os


def place(order, key):
    if "NOTES" not in os.environ:
        return key
    with open(os.environ["NOTES"], "a+") as notes:
        notes.write(json.dumps([order, key], separators=(",", ":")) + "\n")
        notes.seek(0)
        if len(notes.readlines()) < 3:
            raise ConnectionError("no answer")


class Own:
    aws_request_id = "own"


def answer(event):
    payload, retry = unwrap(event)
    unwrapped = None if payload is event else [payload, retry["attempt"]]
    return {"unwrapped": unwrapped, "key": handler(event, Own)}


if __name__ == "__main__":
    print(json.dumps([answer(case["event"]) for case in json.load(sys.stdin)]))
"#;
    let app = Code::new("told.py", &(code("python").to_owned() + place));
    let python = python(REQUIREMENTS);
    let mut program = Command::new(&python);
    program.arg(app.folder() + "/told.py");
    assert_unwraps(program);
    let python = python.display().to_string();
    assert_same_key_in_each_run(&app, &[&python, "-m", "awslambdaric", "told.handler"]).await;
}

#[tokio::test]
async fn the_typescript_code_in_the_readme_unwraps_envelopes() {
    let place = r#"
declare const require: any, process: any;
const fs = require("fs");

function place(order: unknown, key: string) {
  if (!process.env.NOTES) return key;
  fs.appendFileSync(process.env.NOTES, JSON.stringify([order, key]) + "\n");
  if (fs.readFileSync(process.env.NOTES, "utf8").split("\n").length <= 3) {
    throw new Error("no answer");
  }
}

async function answer(event: unknown) {
  const { payload, retry } = unwrap(event);
  const unwrapped = payload === event ? null : [payload, retry?.attempt];
  return { unwrapped, key: await handler(event, { awsRequestId: "own" }) };
}

if (!process.env.NOTES) {
  const cases: { event: unknown }[] = JSON.parse(fs.readFileSync(0, "utf8"));
  Promise.all(cases.map(({ event }) => answer(event))).then((answers) => {
    console.log(JSON.stringify(answers));
  });
}
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
    let client = packages.join("aws-lambda-ric/bin/index.mjs").display().to_string();
    let handler = app.folder() + "/told.handler";
    assert_same_key_in_each_run(&app, &["node", &client, &handler]).await;
}
