//! One run of a function, and its outcome.

use std::{
    fmt::{self, Display, Formatter},
    sync::Arc,
    time::Duration,
};

use serde::Serialize;

use super::function::Configuration;
use crate::{Ending, Payload};

/// The largest response of a function, in bytes: 6 MB and, as on AWS, 100 bytes more.
pub const RESPONSE_BYTES_MAX: usize = 6 * 1024 * 1024 + 100;

/// The error type of a crash. Lambda has given crashes and timeouts a type since 2025.
const EXIT_ERROR: &str = "Runtime.ExitError";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub u64);

#[derive(Clone, Debug)]
pub struct Run {
    /// Identifies the run in [`Cloud::finish`](crate::Cloud::finish).
    pub id: RunId,
    pub configuration: Arc<Configuration>,
    /// The request id, which is the same in all runs of one event.
    pub request_id: Arc<str>,
    pub payload: Payload,
    pub trace_header: Arc<str>,
    pub client_context: Option<Arc<str>>,
    pub tenant_id: Option<Arc<str>>,
}

/// How a run ended, as the host saw it.
#[derive(Clone, Debug)]
pub enum Outcome {
    Returned(Vec<u8>),
    /// The function reported this as an error.
    Failed(Vec<u8>),
    ResponseTooLarge,
    /// Its process ended before it answered.
    Exited(Exit),
    /// It took longer than its timeout, and was killed.
    TimedOut,
    /// It reported this as an error of its initialisation.
    InitFailed(Vec<u8>),
    /// Its process ended before it asked for an event.
    InitExited(Exit),
    NotStarted(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Status(i32),
    Signal(i32),
}

#[derive(Clone, Debug)]
pub struct Response {
    /// The function's response or error report, or Lambda's own report.
    pub payload: Vec<u8>,
    pub ending: Ending,
}

impl Response {
    /// Whether the function failed, `X-Amz-Function-Error: Unhandled`.
    pub fn is_error(&self) -> bool {
        self.ending != Ending::Succeeded
    }

    /// The error's message, or an empty string if it has none.
    pub fn error_message(&self) -> String {
        #[derive(serde::Deserialize)]
        struct Report {
            #[serde(rename = "errorMessage")]
            message: String,
        }
        serde_json::from_slice(&self.payload).map(|Report { message }| message).unwrap_or_default()
    }
}

/// Lambda's own report of a failed run in which the function reported nothing.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    error_type: &'a str,
    error_message: String,
}

impl Outcome {
    pub fn response(self, request_id: &str, timeout: Duration) -> Response {
        let report = |error_type, error_message| {
            let content = Report { error_type, error_message };
            Payload::of(&content).get().as_bytes().to_vec()
        };
        let error = |error_type, what: &dyn Display| {
            report(error_type, format!("RequestId: {request_id} Error: {what}"))
        };
        let (ending, payload) = match self {
            Self::Returned(payload) => (Ending::Succeeded, payload),
            Self::Failed(payload) => (Ending::Failed, payload),
            Self::ResponseTooLarge => {
                let message = format!(
                    "Response payload size exceeded maximum allowed payload size \
                     ({RESPONSE_BYTES_MAX} bytes)."
                );
                (Ending::Failed, report("Function.ResponseSizeTooLarge", message))
            }
            Self::Exited(exit) => (Ending::Crashed, error(EXIT_ERROR, &exit.of_runtime())),
            Self::TimedOut => {
                let what = format!("Task timed out after {:.2} seconds", timeout.as_secs_f64());
                (Ending::TimedOut, error("Sandbox.Timedout", &what))
            }
            Self::InitFailed(payload) => (Ending::InitFailed, payload),
            Self::InitExited(exit) => (Ending::InitFailed, error(EXIT_ERROR, &exit.of_runtime())),
            Self::NotStarted(reason) => {
                (Ending::InitFailed, error("Runtime.InvalidEntrypoint", &reason))
            }
        };
        Response { payload, ending }
    }
}

impl Exit {
    /// Lambda's message about a runtime that ended like this.
    fn of_runtime(self) -> String {
        match self {
            Self::Status(0) => "Runtime exited without providing a reason".to_owned(),
            Self::Status(_) | Self::Signal(_) => format!("Runtime exited with error: {self}"),
        }
    }
}

impl Display for Exit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "exit status {status}"),
            Self::Signal(signal) => match signal_name(*signal) {
                Some(name) => write!(f, "signal: {name}"),
                None => write!(f, "signal: signal {signal}"),
            },
        }
    }
}

/// A signal's name, as Lambda's supervisor writes it.
fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "hangup",
        2 => "interrupt",
        3 => "quit",
        4 => "illegal instruction",
        5 => "trace/breakpoint trap",
        6 => "aborted",
        8 => "floating point exception",
        9 => "killed",
        11 => "segmentation fault",
        13 => "broken pipe",
        14 => "alarm clock",
        15 => "terminated",
        _ => return None,
    })
}
