//! A function without code for envelopes. It records each payload, and fails in its first two runs, or as often as
//! `FAILURES` says.
#![allow(clippy::disallowed_methods, reason = "a program's outermost file reads the environment")]

use std::{env, fs, fs::OpenOptions, io::Write};

use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::value::RawValue;

async fn handle(event: LambdaEvent<Box<RawValue>>) -> Result<(), Error> {
    let notes = env::var("NOTES")?;
    let told = event.context.client_context.map(|told| told.custom).unwrap_or_default();
    let told = told.get("comeback").map_or("null", String::as_str);
    let mut file = OpenOptions::new().create(true).append(true).open(&notes)?;
    writeln!(file, "[{},{told}]", event.payload)?;
    let failures = env::var("FAILURES").map_or(Ok(2), |failures| failures.parse())?;
    let runs = fs::read_to_string(&notes)?.lines().count();
    if runs <= failures { Err("the upstream is down".into()) } else { Ok(()) }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    lambda_runtime::run(service_fn(handle)).await
}
