//! A function with tenant isolation, under AWS's runtime client for Python.

use std::{collections::BTreeSet, fs};

use aws_sdk_lambda::types::InvocationType;

use crate::{
    cloud,
    other_languages::{Code, REQUIREMENTS, python},
    retry_loop::{Plan, TARGET},
};

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
