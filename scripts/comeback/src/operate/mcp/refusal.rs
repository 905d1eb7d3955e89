//! The names of failures, by which an agent can tell what to do next.

use crate::{
    aws::connect::NoClients,
    failure::Failure,
    operate::mcp::rules::{arguments::BadArgument, plans::BadToken},
};

/// Why a call of a tool did nothing, or not everything.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    #[error(transparent)]
    Argument(#[from] BadArgument),
    #[error("{0}")]
    Usage(String),
    #[error("the call was stopped before it changed anything: make a new plan")]
    Stopped,
    #[error("{0}")]
    Failed(String),
    #[error(transparent)]
    Token(#[from] BadToken),
    #[error(
        "no answer within {0} s: the account may be out of reach, or there is too much to read. A filter reads less"
    )]
    NoAnswer(u64),
    #[error(transparent)]
    Command(#[from] Failure),
}

impl Refusal {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Argument(_) | Self::Usage(_) => "usage",
            Self::Stopped => "stopped",
            Self::Failed(_) => "failed",
            Self::Token(token) => token.name(),
            Self::NoAnswer(_) => "no_answer",
            Self::Command(failure) => name(failure),
        }
    }
}

fn name(failure: &Failure) -> &'static str {
    match failure {
        Failure::Settings(_) => "usage",
        Failure::Clients(NoClients::Region | NoClients::RegionOfProfile(_)) => "no_region",
        Failure::Clients(NoClients::Credentials(_) | NoClients::CredentialsOfProfile { .. }) => {
            "no_credentials"
        }
        Failure::Clients(NoClients::NoServer { .. }) => "no_answer",
        Failure::NoSystem(_) => "no_retry_handler",
        Failure::Aws(fault) if fault.is_denied() => "denied",
        Failure::Aws(fault) if fault.code.is_none() => "no_answer",
        Failure::Aws(_) => "aws_fault",
        Failure::NoLife(_) => "no_event",
        Failure::Refused(_) => "refused",
        Failure::Missing(_)
        | Failure::Functions(_)
        | Failure::Port { .. }
        | Failure::DynamoDb(_)
        | Failure::File { .. }
        | Failure::Call(_)
        | Failure::Journal(_)
        | Failure::Output(_) => "failed",
    }
}
