//! Why a command failed. What only one command refuses is [`Failure::Refused`], with its own words.

use std::{io, path::PathBuf};

use comeback_core::settings::BadSettings;
use comeback_local_client::deploy::CallError;

#[cfg(feature = "operate")]
use crate::aws::connect::NoClients;
use crate::{
    account::{fault::Fault, handlers::NoSystem},
    dynamodb::NoDatabase,
    functions::{BadFunctions, NoBinary},
    life::NoLife,
};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    #[error(transparent)]
    Missing(#[from] NoBinary),
    #[error(transparent)]
    Settings(#[from] BadSettings),
    #[error(transparent)]
    Functions(#[from] BadFunctions),
    #[error("can't listen on port {port} of 127.0.0.1: {source}{}", advice(source))]
    Port { port: u16, source: io::Error },
    #[error(transparent)]
    DynamoDb(#[from] NoDatabase),
    #[error("can't write {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[cfg(feature = "operate")]
    #[error(transparent)]
    Clients(#[from] NoClients),
    #[error(transparent)]
    NoSystem(#[from] NoSystem),
    #[error(transparent)]
    Aws(#[from] Fault),
    #[error(transparent)]
    NoLife(#[from] NoLife),
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("reading the journal of the local cloud failed: {0}")]
    Journal(#[source] io::Error),
    #[error("input or output failed: {0}")]
    Output(#[from] io::Error),
}

impl Failure {
    /// The exit code: 2 if the command line is wrong, like clap's own errors, else 1.
    pub fn code(&self) -> u8 {
        if matches!(self, Self::Settings(_)) { 2 } else { 1 }
    }

    /// All causes of the failure, if there are more than it says.
    pub fn causes(&self) -> Option<&str> {
        #[cfg(feature = "operate")]
        if let Self::Clients(
            NoClients::Credentials(causes) | NoClients::CredentialsOfProfile { causes, .. },
        ) = self
        {
            return Some(causes);
        }
        let causes = if let Self::Aws(fault) = self { Some(&*fault.causes) } else { None };
        causes.filter(|causes| !causes.is_empty())
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Refused(text)
    }
}

impl From<&str> for Failure {
    fn from(text: &str) -> Self {
        Self::Refused(text.to_owned())
    }
}

fn advice(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::AddrInUse {
        "; another `comeback local` may be running: end it, or choose another port with --port N, or any free port with --port 0"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_a_port_in_use_says_what_to_do() {
        let failure = |kind: io::ErrorKind| Failure::Port { port: 4700, source: kind.into() };
        let in_use = failure(io::ErrorKind::AddrInUse).to_string();
        assert!(in_use.starts_with("can't listen on port 4700 of 127.0.0.1"), "{in_use}");
        assert!(in_use.ends_with("any free port with --port 0"), "{in_use}");
        let denied = failure(io::ErrorKind::PermissionDenied).to_string();
        assert!(!denied.contains("--port"), "{denied}");
    }
}
