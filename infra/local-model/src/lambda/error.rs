//! Lambda's errors, with AWS's names and messages.

use std::{fmt::Display, ops::RangeInclusive};

use serde::Serialize;

/// Why an operation of Lambda's API was refused. `Display` writes AWS's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LambdaError {
    #[error("{0}")]
    ResourceNotFound(String),
    #[error("{0}")]
    ResourceConflict(String),
    #[error("{0}")]
    InvalidParameterValue(String),
    /// Parameters are out of their ranges. All faults are listed.
    #[error("{} validation error{} detected: {}", .0.len(), if .0.len() == 1 { "" } else { "s" }, .0.join("; "))]
    Validation(Vec<String>),
    /// The execution of this name has another payload.
    #[error("A durable execution with the name {0} has already been started with another payload.")]
    DurableExecutionAlreadyStarted(String),
    #[error("Could not parse request body into json: {0}")]
    InvalidRequestContent(String),
    #[error(
        "{bytes} byte payload is too large for the {invocation_type} invocation type (limit {limit} bytes)"
    )]
    RequestTooLarge { bytes: usize, invocation_type: &'static str, limit: usize },
    /// The body of a request is over the limit of any operation.
    #[error("Request must be smaller than {limit} bytes")]
    RequestEntityTooLarge { limit: usize },
    #[error("Rate Exceeded.")]
    TooManyRequests(ThrottleReason),
    /// The function has run too often in one chain of requests.
    #[error("Recursive invocation detected for function: {0}.")]
    RecursiveInvocation(String),
    #[error("The operation {0} is not one that this local cloud knows.")]
    UnknownOperation(String),
    /// The request's body is not JSON, or not of the operation's shape.
    #[error("{0}")]
    Serialization(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum ThrottleReason {
    /// The account's concurrency for functions without a reservation.
    #[serde(rename = "ConcurrentInvocationLimitExceeded")]
    Account,
    #[serde(rename = "ReservedFunctionConcurrentInvocationLimitExceeded")]
    Reserved,
}

impl LambdaError {
    pub fn invalid(why: impl Display) -> Self {
        Self::InvalidParameterValue(why.to_string())
    }

    pub fn constraint(name: &str, value: impl Display, rule: &str) -> Self {
        Self::Validation(vec![fault(name, value, rule)])
    }

    pub fn code(&self) -> &'static str {
        self.wire().0
    }

    pub fn status(&self) -> u16 {
        self.wire().1
    }

    fn wire(&self) -> (&'static str, u16) {
        match self {
            Self::ResourceNotFound(_) => ("ResourceNotFoundException", 404),
            Self::ResourceConflict(_) => ("ResourceConflictException", 409),
            Self::InvalidParameterValue(_) => ("InvalidParameterValueException", 400),
            Self::Validation(_) => ("ValidationException", 400),
            Self::DurableExecutionAlreadyStarted(_) => {
                ("DurableExecutionAlreadyStartedException", 409)
            }
            Self::InvalidRequestContent(_) => ("InvalidRequestContentException", 400),
            Self::RequestTooLarge { .. } => ("RequestTooLargeException", 413),
            Self::RequestEntityTooLarge { .. } => ("RequestEntityTooLargeException", 413),
            Self::TooManyRequests(_) => ("TooManyRequestsException", 429),
            Self::RecursiveInvocation(_) => ("RecursiveInvocationException", 400),
            Self::UnknownOperation(_) => ("UnknownOperationException", 404),
            Self::Serialization(_) => ("SerializationException", 400),
        }
    }
}

/// Collects the faults of a request's values, so that one error lists them all, in AWS's form.
#[derive(Default)]
pub struct Faults(Vec<String>);

impl Faults {
    /// Adds a fault if the member `name` has a value outside `range`.
    pub fn range(&mut self, name: &str, value: Option<i64>, range: RangeInclusive<i64>) {
        let Some(value) = value else { return };
        let bound = if value < *range.start() {
            format!("greater than or equal to {}", range.start())
        } else if value > *range.end() {
            format!("less than or equal to {}", range.end())
        } else {
            return;
        };
        self.0.push(fault(name, value, &format!("Member must have value {bound}")));
    }

    pub fn constraint(&mut self, name: &str, value: &str, rule: &str) {
        self.0.push(fault(name, value, rule));
    }

    pub fn check(self) -> Result<(), LambdaError> {
        if self.0.is_empty() { Ok(()) } else { Err(LambdaError::Validation(self.0)) }
    }
}

fn fault(name: &str, value: impl Display, rule: &str) -> String {
    format!("Value '{value}' at '{name}' failed to satisfy constraint: {rule}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_faults_are_reported_at_once() {
        let mut faults = Faults::default();
        faults.range("timeout", Some(0), 1..=900);
        faults.range("memorySize", Some(128), 128..=10_240);
        faults.range("maximumRetryAttempts", Some(3), 0..=2);
        assert_eq!(
            faults.check().unwrap_err().to_string(),
            "2 validation errors detected: Value '0' at 'timeout' failed to satisfy constraint: \
             Member must have value greater than or equal to 1; Value '3' at \
             'maximumRetryAttempts' failed to satisfy constraint: Member must have value less \
             than or equal to 2"
        );
        assert_eq!(Faults::default().check(), Ok(()));
    }
}
