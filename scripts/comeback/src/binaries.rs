//! Comeback's own functions, the retry handler and the example function.
//!
//! This program contains them, so it needs no other file. The local cloud starts each as a process of its own: this
//! program again, with the function's name as its first argument. The code is that of the deployed functions.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use crate::{
    deploy::{Code, Function, HANDLER},
    settings::Setting,
};

const HANDLER_TIMEOUT: Duration = Duration::from_secs(30);

/// The visibility timeout of the retry queue. AWS recommends six times the function's time-out, so that a batch that
/// Lambda throttles for a while is not delivered twice.
pub const VISIBILITY: Duration = Duration::from_secs(6 * HANDLER_TIMEOUT.as_secs());

/// The first arguments that make this program one of its functions. They are no commands, so the help has none of them.
const RETRY_HANDLER: &str = "__retry-handler";
const EXAMPLE_TARGET: &str = "__example-target";

/// Runs the function that this first argument names, until the local cloud ends the process.
pub fn run(first: &OsStr) -> Option<ExitCode> {
    if first == RETRY_HANDLER {
        Some(retry_handler::run())
    } else if first == EXAMPLE_TARGET {
        Some(example_target::run().map_or_else(
            |error| {
                eprintln!("{error}");
                ExitCode::FAILURE
            },
            |()| ExitCode::SUCCESS,
        ))
    } else {
        None
    }
}

/// The commands that start the functions.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Binaries {
    retry_handler: Vec<String>,
    /// The example function fails as its payload says.
    example_target: Vec<String>,
    /// The working directory of both.
    folder: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum NoBinary {
    #[error(
        "{name} must be in {folder}, but is not; build it with `cargo build --bins -p retry-handler -p example-target`, or leave out --binaries to use the functions in this program",
        folder = folder.display()
    )]
    Missing { name: &'static str, folder: PathBuf },
    #[error("can't find this program's own file, which has its functions: {0}")]
    Itself(std::io::Error),
}

impl Binaries {
    /// The functions in this program, or the binaries in `folder`.
    pub fn find(folder: Option<&Path>) -> Result<Self, NoBinary> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let Some(folder) = folder else {
            let itself = std::env::current_exe().map_err(NoBinary::Itself)?;
            let with = |name: &str| vec![text(&itself), name.to_owned()];
            let folder = itself.parent().unwrap_or(Path::new("/")).to_owned();
            return Ok(Self {
                retry_handler: with(RETRY_HANDLER),
                example_target: with(EXAMPLE_TARGET),
                folder,
            });
        };
        // Functions run in other working directories, so the path must be absolute.
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let find = |name| {
            let path = folder.join(name);
            let missing = || NoBinary::Missing { name, folder: folder.clone() };
            path.is_file().then(|| vec![text(&path)]).ok_or_else(missing)
        };
        let (retry_handler, example_target) = (find("retry-handler")?, find("example-target")?);
        Ok(Self { retry_handler, example_target, folder })
    }

    pub fn handler(&self, settings: &[Setting]) -> Function {
        let handler = self.function(HANDLER, &self.retry_handler, HANDLER_TIMEOUT);
        Function { environment: settings.to_vec(), ..handler }
    }

    /// The example function under this name.
    pub fn target(&self, name: &str, timeout: Duration) -> Function {
        self.function(name, &self.example_target, timeout)
    }

    fn function(&self, name: &str, words: &[String], timeout: Duration) -> Function {
        let code = Code::Command { words: words.to_vec(), folder: self.folder.clone() };
        Function { code, ..Function::of(name, Path::new("/"), timeout) }
    }
}
