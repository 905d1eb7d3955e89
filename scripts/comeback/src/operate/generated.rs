//! `comeback completions` and `comeback man`: made from the definition of the command line.

use std::{fs, path::Path};

use clap::CommandFactory;
use clap_complete::{Shell, generate};

use crate::{args::Args, shell::Failure};

/// The name of the program.
const NAME: &str = "comeback";

/// The completions for a shell.
pub fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    generate(shell, &mut Args::command(), NAME, &mut script);
    script
}

/// Writes a man page for each command into a folder.
///
/// # Errors
///
/// If the folder can't be written to.
pub fn man(folder: &Path) -> Result<(), Failure> {
    let made = fs::create_dir_all(folder);
    made.and_then(|()| clap_mangen::generate_to(Args::command(), folder))
        .map_err(|source| Failure::File { path: folder.to_owned(), source })
}
