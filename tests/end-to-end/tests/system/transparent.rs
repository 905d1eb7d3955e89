//! Functions without code for envelopes, under third-party runtimes. They receive the same payload in each run, and the
//! retry metadata in the client context.

use std::{
    collections::BTreeSet,
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
};

use aws_sdk_lambda::types::InvocationType;
use serde_json::{Value, json};

use crate::{
    cloud::{self, binary, example},
    other_languages::{Code, REQUIREMENTS, installed, python},
    retry_loop::{Plan, RetryLoop, TARGET},
};

/// The layer with the envelope proxy, with the files that `scripts/package` puts into it. It is a folder beside the
/// code.
fn layer(code: &Code) -> PathBuf {
    let folder = Path::new(&code.folder()).join("layer");
    fs::create_dir_all(folder.join("extensions")).unwrap();
    fs::copy(binary("envelope-proxy"), folder.join("extensions/comeback")).unwrap();
    let wrapper =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../functions/envelope-proxy/comeback-exec");
    fs::copy(wrapper, folder.join("comeback-exec")).unwrap();
    folder
}

/// A retry loop whose target uses the layer. The target writes its notes beside its code.
async fn under_the_layer(code: &Code, command: &[&str]) -> RetryLoop {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (port, folder, notes) = (free.to_string(), code.folder(), code.notes());
    let environment = [
        ("AWS_LAMBDA_EXEC_WRAPPER", "/opt/comeback-exec"),
        // All functions on this machine share its ports.
        ("COMEBACK_PROXY_PORT", &port),
        ("PYTHONPATH", &folder),
        ("NOTES", &notes),
    ];
    let plan = Plan::quick(&[("MAX_ATTEMPTS", "3")]);
    let mut plan = plan.with_target(cloud::command(command.iter().copied()), &environment);
    plan.target.layers.push(layer(code));
    plan.deploy().await
}

const ORDER: &str = r#"{"order":"7","größe":1.5,"lines":[{"sku":null}]}"#;

/// Asserts that an order fails twice and then succeeds, and that the notes of its function have the same payload and
/// the right retry metadata for each run.
async fn assert_comes_back_unseen(retry_loop: RetryLoop, code: &Code) {
    let id = retry_loop.invoke(ORDER).await;
    let mut journal = retry_loop.cloud.journal();
    let runs: [_; 3] = journal.runs(TARGET).await;
    assert_eq!(runs.clone().map(|run| run.ending), ["Failed", "Failed", "Succeeded"]);
    let noted = fs::read_to_string(code.notes()).unwrap();
    let noted: Vec<Value> = noted.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let order: Value = serde_json::from_str(ORDER).unwrap();
    for (attempt, (noted, run)) in noted.iter().zip(&runs).enumerate() {
        assert_eq!(noted[0], order);
        if attempt == 0 {
            assert_eq!(noted[1], Value::Null);
        } else {
            assert_eq!(
                (&noted[1]["attempt"], &noted[1]["request_id"]),
                (&json!(attempt), &json!(id))
            );
            let sent: Value = serde_json::from_str(&run.payload).unwrap();
            assert_eq!(noted[1], sent["_retry_metadata"], "it was sent in an envelope");
        }
    }
}

#[tokio::test]
async fn a_python_function_is_retried_without_a_change() {
    let code = Code::new(
        "unaware.py",
        r#"
import json, os


def handler(event, context):
    told = context.client_context and json.loads(context.client_context.custom["comeback"])
    with open(os.environ["NOTES"], "a+") as notes:
        notes.write(json.dumps([event, told]) + "\n")
        notes.seek(0)
        if len(notes.readlines()) < 3:
            raise ConnectionError("the upstream is down")
"#,
    );
    let python = python(REQUIREMENTS).display().to_string();
    let command = [&python, "-m", "awslambdaric", "unaware.handler"];
    let retry_loop = under_the_layer(&code, &command).await;
    assert_comes_back_unseen(retry_loop, &code).await;
}

#[tokio::test]
async fn a_node_js_function_that_streams_its_response_is_retried() {
    let code = Code::new(
        "streaming.js",
        r#"
const fs = require("fs");

exports.handler = awslambda.streamifyResponse(async (event, stream, context) => {
    const told = context.clientContext?.custom?.comeback ?? "null";
    fs.appendFileSync(process.env.NOTES, JSON.stringify([event, JSON.parse(told)]) + "\n");
    stream.write("begun");
    if (fs.readFileSync(process.env.NOTES, "utf8").split("\n").length <= 3) {
        throw new Error("the upstream is down");
    }
    const part = Buffer.alloc(1 << 20, "x");
    for (let parts = 0; parts < 5; parts++) {
        if (!stream.write(part)) await new Promise((done) => stream.once("drain", done));
    }
    stream.end();
    await new Promise((done) => stream.once("finish", done));
    fs.writeFileSync(process.env.NOTES + "-streamed", "all");
});
"#,
    );
    let client = installed("node", "tests/node").join("aws-lambda-ric/bin/index.mjs");
    let (client, handler) = (client.display().to_string(), code.folder() + "/streaming.handler");
    let retry_loop = under_the_layer(&code, &["node", &client, &handler]).await;
    assert_comes_back_unseen(retry_loop, &code).await;
    assert_eq!(fs::read_to_string(code.notes() + "-streamed").unwrap(), "all");
}

#[tokio::test]
async fn a_custom_runtime_is_retried_with_the_proxy_as_its_bootstrap() {
    let code = Code::new("none", "");
    let bootstrap = code.folder() + "/bootstrap";
    fs::copy(binary("envelope-proxy"), &bootstrap).unwrap();
    let (program, notes) = (example("unaware").display().to_string(), code.notes());
    let environment = [("COMEBACK_BOOTSTRAP", program.as_str()), ("NOTES", &notes)];
    let plan = Plan::quick(&[("MAX_ATTEMPTS", "3")]);
    let plan = plan.with_target(cloud::command([bootstrap]), &environment);
    assert_comes_back_unseen(plan.deploy().await, &code).await;
    // The function must have received the payload byte for byte.
    let noted = fs::read_to_string(code.notes()).unwrap();
    assert!(noted.lines().all(|line| line.starts_with(&format!("[{ORDER},"))), "{noted}");
}

#[tokio::test]
async fn an_event_comes_back_as_its_own_tenants_even_if_it_looks_like_a_retry_of_anothers() {
    let code = Code::new(
        "tenants.py",
        r#"
import json, os

def handler(event, context):
    with open(os.environ["NOTES"], "a") as notes:
        notes.write(json.dumps([context.tenant_id, os.getpid()]) + "\n")
    if "tenant" in event:
        raise ConnectionError("the upstream is down")
"#,
    );
    let (client, notes, folder) = (python(REQUIREMENTS), code.notes(), code.folder());
    let client = client.display().to_string();
    let command = [client.as_str(), "-m", "awslambdaric", "tenants.handler"];
    let plan = Plan::quick(&[("TENANT_ID", "/tenant")]);
    let environment = [("NOTES", notes.as_str()), ("PYTHONPATH", &folder)];
    let mut plan = plan.with_target(cloud::command(command), &environment);
    plan.target.tenants = true;
    let retry_loop = plan.deploy().await;
    let invoke = |tenant: &str| {
        let retry_of_reds = r#""_retry_metadata":{"attempt":1,"initial_timestamp":1},"_original_payload":{"tenant":"red"}"#;
        let payload = format!(r#"{{"tenant":"{tenant}",{retry_of_reds}}}"#).into_bytes().into();
        let call = retry_loop.cloud.lambda.invoke().function_name(TARGET).payload(payload);
        call.invocation_type(InvocationType::Event)
    };
    let refused = invoke("blue").send().await.unwrap_err().into_service_error();
    assert!(refused.is_invalid_parameter_value_exception(), "{refused:?}");
    for tenant in ["blue", "red"] {
        invoke(tenant).tenant_id(tenant).send().await.unwrap();
    }
    let mut journal = retry_loop.cloud.journal();
    let runs: [_; 4] = journal.runs(TARGET).await;
    assert_eq!(runs.iter().filter(|run| run.ending == "Succeeded").count(), 2);
    let noted = fs::read_to_string(&notes).unwrap();
    let noted: Vec<(String, u32)> =
        noted.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let processes = |tenant: &str| -> BTreeSet<u32> {
        let own: Vec<_> = noted.iter().filter(|(of, _)| of == tenant).collect();
        assert_eq!(own.len(), 2, "{noted:?}");
        own.into_iter().map(|(_, process)| *process).collect()
    };
    assert!(processes("blue").is_disjoint(&processes("red")), "{noted:?}");
}
