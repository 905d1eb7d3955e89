//! A function without code for retries. Whether a run fails depends on its request id alone. `src/transparent` has the
//! same function in Python and in Node.js.
#![allow(clippy::disallowed_methods, reason = "a program's outermost file reads the environment")]

use std::{env, path::Path, process};

use lambda_runtime::{Diagnostic, Error, LambdaEvent, service_fn};
use serde_json::{Value, json};

async fn handle(event: LambdaEvent<Value>) -> Result<(), Diagnostic> {
    let LambdaEvent { payload: sent, context } = event;
    // While retries have an envelope, it is down in the same way.
    let payload = sent.get("_original_payload").unwrap_or(&sent);
    println!("{}", json!({ "run": context.request_id, "trace": context.xray_trace_id }));
    let digits = context.request_id.get(..2).unwrap_or_default();
    let drawn = u64::from_str_radix(digits, 16).unwrap_or_default();
    let is_down = env::var_os("DOWN_WHILE").is_none_or(|file| Path::new(&file).exists());
    if !is_down || payload["fails"].as_u64().is_none_or(|fails| drawn >= fails) {
        return Ok(());
    }
    match payload["how"].as_str() {
        Some("crash") => process::exit(1),
        Some(error_type) => Err(Diagnostic {
            error_type: error_type.to_owned(),
            error_message: "the upstream is down".to_owned(),
        }),
        None => Ok(()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    lambda_runtime::run(service_fn(handle)).await
}
