//! Functions' code: zips that are unpacked, folders and commands that are checked.
//!
//! A function's code comes in one of three ways:
//!
//! - as on AWS, a zip that holds an executable `bootstrap`: `--zip-file fileb://function.zip`;
//! - a folder of this machine that holds one: `--code S3Bucket=local-folder,S3Key=/absolute/folder`.
//!   It is used as it is: a build can change it under the local cloud, and an update of the
//!   function's code to the same folder ends the processes of the old one;
//! - a command of this machine: `--package-type Image --code ImageUri=local-command --image-config
//!   Command=python3,-m,awslambdaric,app.handler,WorkingDirectory=/absolute/folder`.
//!
//! A zip is unpacked into a temporary folder of its own. That is removed when nobody has the code
//! any more: no function, no run and no process; at the latest when the local cloud stops.

use std::fs::{self, File};
use std::io::{self, Cursor, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest as _, Sha256};
use zip::ZipArchive;

use crate::model::lambda::function::{Code, Folder, Program};

/// What a function's zip must hold, and is started.
const BOOTSTRAP: &str = "bootstrap";

/// How many bytes a zip may unpack to: AWS's limit.
const UNPACKED_BYTES_MAX: u64 = 262_144_000;

/// How many entries a zip may have. AWS has no such limit; a person's zip is far below it.
const ENTRIES_MAX: usize = 50_000;

/// Why a function's code can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum CodeError {
    #[error("could not unzip uploaded file: {0}")]
    Zip(#[from] zip::result::ZipError),
    #[error("could not unpack {entry:?}: {source}")]
    Unpack { entry: String, source: io::Error },
    #[error("the zip's entry {0:?} must be a file or a folder inside the zip's own folder")]
    Outside(String),
    #[error("the zip has {0} entries, at most {ENTRIES_MAX} are unpacked")]
    Entries(usize),
    #[error("unzipped size must be smaller than {0} bytes")]
    Unpacked(u64),
    #[error("the folder must be an absolute path to a folder, got {0:?}")]
    Folder(PathBuf),
    #[error("there must be an executable {BOOTSTRAP:?} in {0}")]
    Bootstrap(String),
    #[error("the command must be an executable of this machine, got {0:?}")]
    Command(String),
    #[error("a temporary folder can't be made: {0}")]
    Temporary(io::Error),
}

/// Where zips are unpacked: a folder that has a folder for each of them.
#[derive(Debug)]
pub(crate) struct Unpacked {
    root: Temporary,
    next: AtomicU64,
    bytes_max: u64,
}

impl Unpacked {
    /// Names the folder, of which there is one for each start; it is made when it is needed.
    pub(crate) fn new(temporary: &Path, start: u64) -> Self {
        let root = temporary.join(format!("comeback-local-{}-{start:x}", std::process::id()));
        Self { root: Temporary(root), next: AtomicU64::new(0), bytes_max: UNPACKED_BYTES_MAX }
    }

    /// Unpacks a zip.
    pub(crate) fn zip(&self, bytes: &[u8]) -> Result<Code, CodeError> {
        let mut archive = ZipArchive::new(Cursor::new(bytes))?;
        if archive.len() > ENTRIES_MAX {
            return Err(CodeError::Entries(archive.len()));
        }
        make_private(&self.root.0).map_err(CodeError::Temporary)?;
        let folder = self.root.0.join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        // From here on: what is unpacked of a zip that is refused goes too.
        let keeper = Temporary(folder.clone());
        unpack(&mut archive, &folder, self.bytes_max)?;
        bootstrap(&folder, format!("the zip; {}", entries(&archive)))?;
        Ok(Code {
            program: Program::Bootstrap(Folder::kept(folder, keeper)),
            size: bytes.len() as u64,
            sha256: BASE64.encode(Sha256::digest(bytes)),
        })
    }
}

/// A folder that is removed with this, if it was made at all.
#[derive(Debug)]
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // Nobody is left who could be told why it can't be.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A folder that only this user can look into, as functions' code may hold secrets.
fn make_private(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
}

fn unpack(
    archive: &mut ZipArchive<Cursor<&[u8]>>,
    folder: &Path,
    bytes_max: u64,
) -> Result<(), CodeError> {
    let mut left = bytes_max;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index)?;
        let name = entry.name()?.into_owned();
        let inside = entry.enclosed_name().filter(|_| !entry.is_symlink());
        let Some(inside) = inside else {
            return Err(CodeError::Outside(name));
        };
        let failed = |source| CodeError::Unpack { entry: name.clone(), source };
        let path = folder.join(inside);
        if entry.is_dir() {
            fs::create_dir_all(&path).map_err(failed)?;
            continue;
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        // What the zip says of its sizes is not to be trusted.
        let mut file = File::create(&path).map_err(failed)?;
        let mode = entry.unix_mode().unwrap_or(0o755) & 0o777 | 0o600;
        let written = io::copy(&mut (&mut entry).take(left + 1), &mut file).map_err(failed)?;
        left = left.checked_sub(written).ok_or(CodeError::Unpacked(bytes_max))?;
        file.set_permissions(fs::Permissions::from_mode(mode)).map_err(failed)?;
    }
    Ok(())
}

/// What a zip holds at its top, to help who zipped a folder too many.
fn entries(archive: &ZipArchive<Cursor<&[u8]>>) -> String {
    let names: Vec<_> = archive.file_names().flatten().take(5).collect();
    format!("it holds {}", names.join(", "))
}

/// A folder of this machine as a function's code.
pub(crate) fn folder(path: &str) -> Result<Code, CodeError> {
    let path = PathBuf::from(path);
    if !path.is_absolute() || !path.is_dir() {
        return Err(CodeError::Folder(path));
    }
    bootstrap(&path, path.display().to_string())?;
    let size = fs::metadata(path.join(BOOTSTRAP)).map_or(0, |bootstrap| bootstrap.len());
    Ok(Code { program: Program::Bootstrap(path.into()), size, sha256: String::new() })
}

/// A command of this machine as a function's code. Programs without a slash are looked for in
/// `path`.
pub(crate) fn command(
    command: Vec<String>,
    working_directory: Option<&str>,
    path: &std::ffi::OsStr,
) -> Result<Code, CodeError> {
    let program = command.first().filter(|program| !program.is_empty());
    let program = program.ok_or_else(|| CodeError::Command(String::new()))?;
    let working_directory = working_directory.filter(|path| !path.is_empty()).map(PathBuf::from);
    if let Some(folder) = &working_directory
        && !(folder.is_absolute() && folder.is_dir())
    {
        return Err(CodeError::Folder(folder.clone()));
    }
    let found = if program.contains('/') {
        let here = working_directory.as_deref().unwrap_or(Path::new(""));
        is_executable(&here.join(program))
    } else {
        std::env::split_paths(path).any(|folder| is_executable(&folder.join(program)))
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

fn bootstrap(folder: &Path, named: String) -> Result<(), CodeError> {
    let there = is_executable(&folder.join(BOOTSTRAP));
    there.then_some(()).ok_or(CodeError::Bootstrap(named))
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    /// A zip of files, each with its mode and its bytes.
    fn zip(files: &[(&str, u32, &[u8])]) -> Vec<u8> {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, mode, bytes) in files {
            let options = SimpleFileOptions::default().unix_permissions(*mode);
            writer.start_file(*name, options).unwrap();
            writer.write_all(bytes).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    fn unpacked(test: &str) -> Unpacked {
        let named: u64 = test.bytes().map(u64::from).sum();
        Unpacked::new(&std::env::temp_dir(), named)
    }

    fn folder_of(code: &Code) -> PathBuf {
        let Program::Bootstrap(folder) = &code.program else { panic!("{code:?}") };
        folder.path().to_owned()
    }

    #[test]
    fn a_zip_with_a_bootstrap_is_unpacked_and_removed_with_the_last_of_its_code() {
        let unpacked = unpacked("good");
        let bytes = zip(&[("bootstrap", 0o755, b"#!/bin/sh\n"), ("lib/data", 0o644, b"1")]);
        let code = unpacked.zip(&bytes).unwrap();
        let folder = folder_of(&code);
        assert_eq!(code.size, bytes.len() as u64);
        assert_eq!(code.sha256.len(), 44);
        let copy = code.clone();
        drop(code);
        assert_eq!(fs::read(folder.join("lib/data")).unwrap(), b"1");
        drop(copy);
        assert!(!folder.exists());
    }

    #[test]
    fn all_that_was_unpacked_is_removed_in_the_end() {
        let unpacked = unpacked("end");
        let code = unpacked.zip(&zip(&[("bootstrap", 0o755, b"")])).unwrap();
        let root = unpacked.root.0.clone();
        drop(unpacked);
        assert!(!folder_of(&code).exists() && !root.exists());
    }

    #[test]
    fn a_zip_that_is_not_a_functions_is_refused() {
        let unpacked = unpacked("bad");
        for (bytes, expected) in [
            (b"no zip".to_vec(), "could not unzip"),
            (zip(&[("app/bootstrap", 0o755, b"")]), "it holds app/bootstrap"),
            (zip(&[("bootstrap", 0o644, b"")]), "executable \"bootstrap\""),
            (zip(&[("../bootstrap", 0o755, b"")]), "inside the zip's own folder"),
            (zip(&[("/../../x", 0o755, b"")]), "inside the zip's own folder"),
        ] {
            let error = unpacked.zip(&bytes).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert_eq!(fs::read_dir(&unpacked.root.0).unwrap().count(), 0);
    }

    #[test]
    fn a_link_in_a_zip_is_refused() {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        writer.add_symlink("bootstrap", "/bin/sh", SimpleFileOptions::default()).unwrap();
        let bytes = writer.finish().unwrap().into_inner();
        assert!(matches!(unpacked("link").zip(&bytes), Err(CodeError::Outside(_))));
    }

    #[test]
    fn a_zip_that_unpacks_to_too_much_is_refused() {
        let mut unpacked = unpacked("bomb");
        unpacked.bytes_max = 100_000;
        let bytes = zip(&[("bootstrap", 0o755, &[0; 60_000]), ("more", 0o644, &[0; 60_000])]);
        assert!(bytes.len() < 1_000, "{}", bytes.len());
        assert!(matches!(unpacked.zip(&bytes), Err(CodeError::Unpacked(100_000))));
    }

    #[test]
    fn a_folder_must_be_absolute_and_hold_a_bootstrap() {
        for path in ["", "relative", "/no/such/folder", "/bin/sh"] {
            assert!(matches!(folder(path), Err(CodeError::Folder(_))), "{path}");
        }
        assert!(matches!(folder("/"), Err(CodeError::Bootstrap(_))));
    }

    #[test]
    fn a_command_must_be_found() {
        let find =
            |program: &str, folder| command(vec![program.to_owned()], folder, "/bin".as_ref());
        assert!(find("sh", None).is_ok());
        assert!(find("/bin/sh", Some("/")).is_ok());
        assert!(find("./bin/sh", Some("/")).is_ok());
        for program in ["", "no-such-program", "/no/such/program", "/etc/passwd"] {
            assert!(matches!(find(program, None), Err(CodeError::Command(_))), "{program}");
        }
        assert!(matches!(find("sh", Some("here")), Err(CodeError::Folder(_))));
        assert!(matches!(command(Vec::new(), None, "".as_ref()), Err(CodeError::Command(_))));
    }
}
