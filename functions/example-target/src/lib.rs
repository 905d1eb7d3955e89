//! A minimal asynchronous function, which succeeds or fails as its payload says.
//!
//! ```json
//! {"id":"order-7","fail":{"attempts":3,"error":"UpstreamUnavailable","message":"503"}}
//! ```
//!
//! | member of `fail` | meaning |
//! |---|---|
//! | `attempts` | the first invocation and the attempts below this number fail |
//! | `until` | every invocation before this time fails, RFC 3339 |
//! | `error`, `message` | what it fails with |
//! | `by` | `error` (default), `crash` or `hang` |
//!
//! With neither `attempts` nor `until` every invocation fails; without `fail` none does.

use comeback::{Enveloped, Timestamp};
use lambda_runtime::{Diagnostic, Error, LambdaEvent, service_fn};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

#[derive(Deserialize)]
struct Order {
    id: Option<Value>,
    fail: Option<Fail>,
}

#[derive(Deserialize)]
struct Fail {
    attempts: Option<u32>,
    until: Option<String>,
    #[serde(default = "default_error")]
    error: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    by: Way,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Way {
    #[default]
    Error,
    Crash,
    Hang,
}

fn default_error() -> String {
    "UpstreamUnavailable".to_owned()
}

/// Runs the function until Lambda ends the process. A program calls this first in its `main`.
///
/// # Errors
///
/// If there is no Lambda to run in.
pub fn run() -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(lambda_runtime::run(service_fn(handle)))
}

async fn handle(event: LambdaEvent<Enveloped<Box<RawValue>>>) -> Result<Value, Diagnostic> {
    // A retried event comes in an envelope; the first invocation receives the bare payload.
    let Enveloped { payload, retried } = event.payload;
    let attempt = retried.map_or(0, |retried| retried.attempt());
    let order: Order = serde_json::from_str(payload.get())
        .map_err(|error| failure("BadOrder", error.to_string()))?;
    match order.fail {
        Some(fail) if fail.applies(attempt, now())? => fail.carry_out().await,
        _ => Ok(json!({ "id": order.id, "attempt": attempt })),
    }
}

impl Fail {
    fn applies(&self, attempt: u32, now: Timestamp) -> Result<bool, Diagnostic> {
        let until = self.until.as_deref().map(str::parse::<Timestamp>).transpose();
        let until = until.map_err(|error| failure("BadOrder", format!("fail.until: {error}")))?;
        let always = self.attempts.is_none() && until.is_none();
        Ok(always || self.attempts.is_some_and(|n| attempt < n) || until.is_some_and(|t| now < t))
    }

    async fn carry_out(self) -> Result<Value, Diagnostic> {
        match self.by {
            Way::Error => Err(failure(&self.error, self.message)),
            Way::Crash => std::process::exit(1),
            Way::Hang => std::future::pending().await,
        }
    }
}

fn failure(error_type: &str, error_message: String) -> Diagnostic {
    Diagnostic { error_type: error_type.to_owned(), error_message }
}

#[allow(clippy::disallowed_methods, reason = "a main is where the clock is read")]
fn now() -> Timestamp {
    chrono::Utc::now()
}
