//! The proxy's own requests to Lambda. Through the Extensions API, the extension registers and learns when to end.
//! If something prevents the function from starting, it is reported, so that every failure record says why.

use std::{io, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::http::{AnswerHead, Body, NotUnderstood, PartialHead};

const IDENTIFIER: &str = "Lambda-Extension-Identifier";
const ERROR_TYPE: &str = "Extension.ComebackProxy";

const REGISTER: &str = "/2020-01-01/extension/register";
const NEXT_EVENT: &str = "/2020-01-01/extension/event/next";
const EXTENSION_ERROR: &str = "/2020-01-01/extension/init/error";
const RUNTIME_ERROR: &str = "/2018-06-01/runtime/init/error";

/// The time limit for a report. A lost report does no harm, because the log has the reason too.
const REPORT_MAX: Duration = Duration::from_secs(2);

/// The longest answer: some facts about the function, or an event without its payload.
const ANSWER_MAX: usize = 1024 * 1024;

/// Why there is no usable answer from Lambda.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    #[error("the request {path} to Lambda at {address} failed: {error}")]
    Lost { address: String, path: &'static str, error: io::Error },
    #[error("Lambda refuses {path} with status {status}: {body}")]
    Refused { path: &'static str, status: u16, body: String },
}

/// The Extensions API, for a registered extension.
#[derive(Debug)]
pub struct ExtensionsApi {
    address: String,
    identifier: String,
}

impl ExtensionsApi {
    /// Registers under the name of the extension's file, only for the shutdown event. The extension does nothing for
    /// single invocations, so none has to wait for it.
    pub async fn register(address: &str, name: &str) -> Result<Self, NoAnswer> {
        let body = json!({ "events": ["SHUTDOWN"] });
        let headers = [("Lambda-Extension-Name", name)];
        let answer = ask(address, "POST", REGISTER, &headers, Some(&body)).await?;
        let identifier = answer.identifier.ok_or_else(|| NoAnswer::Lost {
            address: address.to_owned(),
            path: REGISTER,
            error: io::Error::other(format!("a response without the header {IDENTIFIER}")),
        })?;
        Ok(Self { address: address.to_owned(), identifier })
    }

    pub async fn wait_for_end(&self) -> Result<(), NoAnswer> {
        loop {
            let headers = [(IDENTIFIER, &*self.identifier)];
            let event = ask(&self.address, "GET", NEXT_EVENT, &headers, None).await?;
            let event: Value = serde_json::from_slice(&event.body).unwrap_or_default();
            if event["eventType"] == "SHUTDOWN" {
                return Ok(());
            }
        }
    }

    /// Reports why the proxy can't work.
    pub async fn report(&self, error: &impl ToString) {
        let headers =
            [(IDENTIFIER, &*self.identifier), ("Lambda-Extension-Function-Error-Type", ERROR_TYPE)];
        report(&self.address, EXTENSION_ERROR, &headers, error).await;
    }
}

/// Reports, in place of the runtime, why the runtime is not started.
pub async fn report_for_runtime(address: &str, error: &impl ToString) {
    let headers = [("Lambda-Runtime-Function-Error-Type", ERROR_TYPE)];
    report(address, RUNTIME_ERROR, &headers, error).await;
}

async fn report(
    address: &str,
    path: &'static str,
    headers: &[(&str, &str)],
    error: &impl ToString,
) {
    let error = json!({ "errorType": ERROR_TYPE, "errorMessage": error.to_string() });
    let _ = timeout(REPORT_MAX, ask(address, "POST", path, headers, Some(&error))).await;
}

struct Answer {
    identifier: Option<String>,
    body: Vec<u8>,
}

/// Sends a request on a new connection.
async fn ask(
    address: &str,
    method: &str,
    path: &'static str,
    headers: &[(&str, &str)],
    body: Option<&Value>,
) -> Result<Answer, NoAnswer> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let length = body.len();
    let headers: String =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    let exchange = async {
        let mut api = TcpStream::connect(address).await?;
        api.write_all(request.as_bytes()).await?;
        receive(&mut api).await
    };
    let answer = exchange.await;
    let (status, answer) =
        answer.map_err(|error| NoAnswer::Lost { address: address.to_owned(), path, error })?;
    if (200..300).contains(&status) {
        return Ok(answer);
    }
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    Err(NoAnswer::Refused { path, status, body })
}

/// Receives an answer up to the end of its body, as its head defines it: a server may keep the connection open.
async fn receive(api: &mut TcpStream) -> io::Result<(u16, Answer)> {
    let not_whole = || io::Error::other("an incomplete or malformed HTTP response");
    let mut received = Vec::new();
    while received.len() < ANSWER_MAX {
        let is_closed = api.read_buf(&mut received).await? == 0;
        let answer = read(&received, is_closed).map_err(|NotUnderstood| not_whole())?;
        if let Some(answer) = answer {
            return Ok(answer);
        }
        if is_closed {
            break;
        }
    }
    Err(not_whole())
}

/// Reads an answer, if it is complete.
fn read(mut bytes: &[u8], is_closed: bool) -> Result<Option<(u16, Answer)>, NotUnderstood> {
    loop {
        let (length, head) = PartialHead::default().take(bytes)?;
        let Some(head) = head else { return Ok(None) };
        let head = AnswerHead::read(&head, false)?;
        bytes = &bytes[length..];
        // An interim answer, such as `100 Continue`: the real one follows.
        if (100..200).contains(&head.status) {
            continue;
        }
        let identifier = match head.values(IDENTIFIER)[..] {
            [identifier] => String::from_utf8(identifier.to_vec()).ok(),
            _ => None,
        };
        let mut content = Vec::new();
        let mut body = head.body;
        body.take(bytes, |bytes| content.extend_from_slice(bytes))?;
        let is_whole = body.is_over() || is_closed && matches!(body, Body::UntilClose);
        return Ok(is_whole.then_some((head.status, Answer { identifier, body: content })));
    }
}
