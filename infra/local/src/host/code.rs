//! Functions' code: unpacks zips, and checks folders and commands.
//!
//! A function's code comes in one of three ways:
//!
//! - as on AWS, a zip: `--zip-file fileb://function.zip`. It holds an executable `bootstrap` or, with one of the
//!   managed [`runtimes`], a handler;
//! - a folder on this machine with the same content: `--code S3Bucket=local-folder,S3Key=/absolute/folder`. It is used
//!   in place: after a rebuild, an update of the function's code to the same folder ends the idle processes of the old
//!   build;
//! - a command on this machine: `--package-type Image --code ImageUri=local-command --image-config
//!   Command=python3,-m,awslambdaric,app.handler,WorkingDirectory=/absolute/folder`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use sha2::{Digest as _, Sha256};

use super::{
    runtimes::{self, BOOTSTRAP, CodeError, is_executable},
    unpacked::Unpacked,
    variables::Common,
};
use crate::model::lambda::function::{Code, Program};

pub(crate) fn zip(
    unpacked: &Unpacked,
    bytes: &[u8],
    common: &Common,
    runtime: Option<&str>,
) -> Result<Code, CodeError> {
    let unzipped = unpacked.zip(bytes)?;
    let named = format!("the zip; {}", unzipped.entries);
    Ok(Code {
        program: runtimes::program(common, runtime, unzipped.folder, named)?,
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
    common: &Common,
    runtime: Option<&str>,
) -> Result<Code, CodeError> {
    let path = absolute(path)?;
    let size = fs::metadata(path.join(BOOTSTRAP)).map_or(0, |bootstrap| bootstrap.len());
    let named = path.display().to_string();
    let program = runtimes::program(common, runtime, path.into(), named)?;
    Ok(Code { program, size, sha256: String::new() })
}

/// A command on this machine as a function's code. A program without a slash is searched in `PATH`.
pub(crate) fn command(
    command: Vec<String>,
    working_directory: Option<&str>,
    common: &Common,
) -> Result<Code, CodeError> {
    let program = command.first().filter(|program| !program.is_empty());
    let program = program.ok_or_else(|| CodeError::Command(String::new()))?;
    let working_directory =
        working_directory.filter(|path| !path.is_empty()).map(absolute).transpose()?;
    let found = if program.contains('/') {
        let here = working_directory.as_deref().unwrap_or(Path::new(""));
        is_executable(&here.join(program))
    } else {
        runtimes::find(common, program).is_some()
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

#[cfg(test)]
mod tests {
    use super::{
        super::{
            unpacked::tests::{kept, unpacked, zip as zipped},
            variables::Inherited,
        },
        *,
    };

    fn common() -> Common {
        Common::new(Inherited::default(), "")
    }

    #[test]
    fn a_zip_without_a_bootstrap_that_can_be_started_is_refused() {
        let unpacked = unpacked("none");
        for (bytes, expected) in [
            (zipped(&[("app/bootstrap", 0o755, b"")]), "it holds app/bootstrap"),
            (zipped(&[("bootstrap", 0o644, b"")]), "executable \"bootstrap\""),
        ] {
            let error = zip(&unpacked, &bytes, &common(), None).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert_eq!(kept(&unpacked), 0);
    }

    #[test]
    fn a_command_must_be_found() {
        let inherited = Inherited::from_lookup(|name| (name == "PATH").then(|| "/bin".into()));
        let common = Common::new(inherited, "");
        let find = |program: &str, folder| command(vec![program.to_owned()], folder, &common);
        assert!(find("sh", None).is_ok());
        assert!(find("/bin/sh", Some("/")).is_ok());
        assert!(find("./bin/sh", Some("/")).is_ok());
        for program in ["", "no-such-program", "/no/such/program", "/etc/passwd"] {
            assert!(matches!(find(program, None), Err(CodeError::Command(_))), "{program}");
        }
        assert!(matches!(find("sh", Some("here")), Err(CodeError::Folder(_))));
        assert!(matches!(command(Vec::new(), None, &common), Err(CodeError::Command(_))));
    }
}
