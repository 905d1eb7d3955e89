//! Functions' code: unpacks zips, and checks folders and commands.
//!
//! A function's code is a zip, as on AWS, or a folder or a command on this machine. A folder is used in place: after a
//! rebuild, an update of the function's code to the same folder ends the idle processes of the old build.

use std::{
    fs,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use sha2::{Digest as _, Sha256};

use super::{
    program::{BOOTSTRAP, ProgramError, find, is_executable, program},
    unpacked::{UnpackError, Unpacked},
};
use crate::{
    inherited::Inherited,
    model::lambda::function::{Code, Program},
};

pub(crate) fn zip(
    unpacked: &Unpacked,
    bytes: &[u8],
    inherited: &Inherited,
    runtime: Option<&str>,
) -> Result<Code, CodeError> {
    let unzipped = unpacked.zip(bytes)?;
    let named = format!("the zip; {}", unzipped.entries);
    Ok(Code {
        program: program(inherited, runtime, unzipped.folder, named)?,
        size: bytes.len() as u64,
        sha256: sha256(bytes),
    })
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    BASE64.encode(Sha256::digest(bytes))
}

pub(crate) fn absolute(path: &str) -> Result<PathBuf, CodeError> {
    let path = PathBuf::from(path);
    if path.is_absolute() && path.is_dir() { Ok(path) } else { Err(CodeError::Folder(path)) }
}

pub(crate) fn folder(
    path: &str,
    inherited: &Inherited,
    runtime: Option<&str>,
) -> Result<Code, CodeError> {
    let path = absolute(path)?;
    let size = fs::metadata(path.join(BOOTSTRAP)).map_or(0, |bootstrap| bootstrap.len());
    let named = path.display().to_string();
    let program = program(inherited, runtime, path.into(), named)?;
    Ok(Code { program, size, sha256: String::new() })
}

/// A command on this machine as a function's code. A program without a slash is searched in `PATH`.
pub(crate) fn command(
    command: Vec<String>,
    working_directory: Option<&str>,
    inherited: &Inherited,
) -> Result<Code, CodeError> {
    let program = command.first().filter(|program| !program.is_empty());
    let program = program.ok_or_else(|| CodeError::Command(String::new()))?;
    let working_directory =
        working_directory.filter(|path| !path.is_empty()).map(absolute).transpose()?;
    let found = if program.contains('/') {
        let here = working_directory.as_deref().unwrap_or(Path::new(""));
        is_executable(&here.join(program))
    } else {
        find(inherited, program).is_some()
    };
    if !found {
        return Err(CodeError::Command(program.clone()));
    }
    Ok(Code {
        program: Program::Command { command, working_directory },
        size: 0,
        sha256: String::new(),
    })
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum CodeError {
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("the folder must be an absolute path to a folder, got {0:?}")]
    Folder(PathBuf),
    #[error("the command must be an executable of this machine, got {0:?}")]
    Command(String),
}
