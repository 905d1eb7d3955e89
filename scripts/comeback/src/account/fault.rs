//! How a call to AWS fails, and how long to wait before it is made again.

use std::time::Duration;

use comeback_core::{
    Timestamp,
    fault::{FaultKind, classify},
};

/// The waits in seconds between the tries of a call that fails with a transient fault.
const BACKOFF: [u64; 5] = [1, 2, 4, 8, 16];

pub trait Clock {
    fn now(&self) -> Timestamp;

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()>;
}

#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{action} on {resource} failed: {}{message}{}", code.as_ref().map(|code| format!("{code}: ")).unwrap_or_default(), advice(self))]
pub struct Fault {
    /// The name of the call, which is also the permission that it needs.
    pub action: &'static str,
    pub resource: String,
    pub kind: FaultKind,
    pub code: Option<String>,
    /// The error message of AWS, or why there was no answer.
    pub message: Box<str>,
    /// The chain of causes, for whoever wants to know everything.
    pub causes: Box<str>,
}

/// The result of a call to AWS, or the reason why it failed.
pub type Answer<T> = Result<T, Fault>;

impl Fault {
    /// A fault without an HTTP status of its own, such as that of one entry of a batch.
    pub fn of(action: &'static str, resource: &str, code: &str, message: &str) -> Self {
        Self {
            action,
            resource: resource.to_owned(),
            kind: classify(Some(code), Some(400), message, None),
            code: Some(code.to_owned()),
            message: message.into(),
            causes: Box::default(),
        }
    }

    pub fn is_denied(&self) -> bool {
        let code = self.code.as_deref().unwrap_or_default();
        ["AccessDenied", "UnauthorizedOperation", "AuthorizationError"]
            .iter()
            .any(|it| code.starts_with(it))
    }

    /// Whether an emulator lacks this API. Lambda, SQS, IAM and S3 themselves answer with an error code.
    pub fn is_unsupported(&self) -> bool {
        match self.code.as_deref() {
            Some(code) => {
                code.contains("UnsupportedOperation")
                    || code.starts_with("UnknownOperation")
                    || code == "NotImplemented"
            }
            None => !self.passes(),
        }
    }

    pub fn passes(&self) -> bool {
        matches!(self.kind, FaultKind::Transient { .. })
    }
}

/// Retries a call while AWS answers with a transient fault, up to five times. For an answer, the call itself has
/// waited.
pub async fn with_backoff<T, F>(clock: &impl Clock, call: impl Fn() -> F) -> Answer<T>
where
    F: Future<Output = Answer<T>>,
{
    for seconds in BACKOFF {
        match call().await {
            Err(fault) if fault.passes() && fault.code.is_some() => {
                clock.sleep(Duration::from_secs(seconds)).await;
            }
            answer => return answer,
        }
    }
    call().await
}

fn advice(fault: &Fault) -> String {
    let Fault { action, resource, .. } = fault;
    if fault.is_denied() {
        format!("; your identity needs the permission {action} on {resource}")
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_names_its_action_its_resource_and_the_missing_permission() {
        let fault = |code: Option<&str>| Fault {
            code: code.map(str::to_owned),
            ..Fault::of("sqs:DeleteMessage", "arn:aws:sqs:us-east-1:1:dead", "", "as told")
        };
        let start = "sqs:DeleteMessage on arn:aws:sqs:us-east-1:1:dead failed: ";
        let advice = "; your identity needs the permission sqs:DeleteMessage on arn:aws:sqs:us-east-1:1:dead";
        for (code, end) in [
            (Some("AccessDenied"), format!("AccessDenied: as told{advice}")),
            (Some("AccessDeniedException"), format!("AccessDeniedException: as told{advice}")),
            (Some("InvalidAddress"), "InvalidAddress: as told".to_owned()),
            (None, "as told".to_owned()),
        ] {
            assert_eq!(fault(code).to_string(), format!("{start}{end}"));
        }
    }
}
