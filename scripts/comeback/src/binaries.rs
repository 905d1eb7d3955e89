//! Finds the binaries of Comeback's own functions.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    deploy::{Function, HANDLER},
    settings::Setting,
};

const HANDLER_TIMEOUT: Duration = Duration::from_secs(30);

/// The visibility timeout of the retry queue. AWS recommends six times the function's time-out, so that a batch that
/// Lambda throttles for a while is not delivered twice.
pub const VISIBILITY: Duration = Duration::from_secs(6 * HANDLER_TIMEOUT.as_secs());

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Binaries {
    pub retry_handler: PathBuf,
    /// The example function, which fails as its payload says.
    pub example_target: PathBuf,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "{name} must be in {folder}, but is not; build it with `cargo build --bins -p retry-handler -p example-target`, or pass its folder with --binaries",
    folder = folder.display()
)]
pub struct NoBinary {
    name: &'static str,
    folder: PathBuf,
}

impl Binaries {
    /// Finds the binaries in `folder`.
    pub fn find(folder: &Path) -> Result<Self, NoBinary> {
        // Functions run in other working directories, so the path must be absolute.
        let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let find = |name| {
            let path = absolute.join(name);
            if path.is_file() { Ok(path) } else { Err(NoBinary { name, folder: absolute.clone() }) }
        };
        Ok(Self { retry_handler: find("retry-handler")?, example_target: find("example-target")? })
    }

    pub fn handler(&self, settings: &[Setting]) -> Function {
        let handler = Function::of(HANDLER, &self.retry_handler, HANDLER_TIMEOUT);
        Function { environment: settings.to_vec(), ..handler }
    }
}
