//! Temporary folders for unpacked zips.
//!
//! A function's zip is unpacked when the function is deployed, a layer's when the layer is published. A function's
//! layers are copied over each other into the folder that stands for its `/opt`. A folder is removed when no function,
//! layer, run or process uses it, and at the latest when the local cloud stops.
//!
//! Executable bits and symbolic links are kept, as on AWS. A link may point outside its folder, but nothing is
//! ever written through a link.

use std::{
    fs::{self, File},
    io::{self, Cursor, Read as _},
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use zip::ZipArchive;

use crate::model::lambda::layer::Folder;

/// How many bytes a zip may unpack to: AWS's limit.
const UNPACKED_BYTES_MAX: u64 = 262_144_000;

/// How many entries a zip may have. AWS has no such limit, but real zips are far below it.
const ENTRIES_MAX: usize = 50_000;

/// The longest target of a link, in bytes: Linux's own limit.
const LINK_BYTES_MAX: u64 = 4096;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum UnpackError {
    #[error("could not unzip uploaded file: {0}")]
    Zip(#[from] zip::result::ZipError),
    #[error("could not unpack {entry:?}: {source}")]
    Unpack { entry: String, source: io::Error },
    #[error("the zip's entry {0:?} must be inside the zip's own folder")]
    Outside(String),
    #[error("the zip has {0} entries, at most {ENTRIES_MAX} are unpacked")]
    Entries(usize),
    #[error("unzipped size must be smaller than {0} bytes")]
    Unpacked(u64),
    #[error("{folder} can't be copied: {source}")]
    Copy { folder: PathBuf, source: io::Error },
    #[error("a temporary folder can't be made: {0}")]
    Temporary(io::Error),
}

#[derive(Debug)]
pub(crate) struct Unpacked {
    root: Temporary,
    next: AtomicU64,
    bytes_max: u64,
}

#[derive(Debug)]
pub(crate) struct Unzipped {
    pub(crate) folder: Folder,
    /// Names some entries in error messages, in case the files are in a subfolder of the zip by mistake.
    pub(crate) entries: String,
}

impl Unpacked {
    /// Each start has its own folder, which is created when it is first needed.
    pub(crate) fn new(temporary: &Path, start: u64) -> Self {
        let root = temporary.join(format!("comeback-local-{}-{start:x}", std::process::id()));
        Self { root: Temporary(root), next: AtomicU64::new(0), bytes_max: UNPACKED_BYTES_MAX }
    }

    pub(crate) fn zip(&self, bytes: &[u8]) -> Result<Unzipped, UnpackError> {
        let mut archive = ZipArchive::new(Cursor::new(bytes))?;
        if archive.len() > ENTRIES_MAX {
            return Err(UnpackError::Entries(archive.len()));
        }
        let keeper = self.temporary()?;
        unpack(&mut archive, &keeper.0, self.bytes_max)?;
        let names: Vec<_> = archive.file_names().flatten().take(5).collect();
        let entries = format!("it holds {}", names.join(", "));
        Ok(Unzipped { folder: Folder::kept(keeper.0.clone(), keeper), entries })
    }

    /// Copies folders into one, in this order. Later files overwrite earlier ones.
    pub(crate) fn merge(&self, folders: &[&Path]) -> Result<Folder, UnpackError> {
        let keeper = self.temporary()?;
        for folder in folders {
            copy(folder, &keeper.0).map_err(|source| {
                let folder = (*folder).to_owned();
                UnpackError::Copy { folder, source }
            })?;
        }
        Ok(Folder::kept(keeper.0.clone(), keeper))
    }

    /// A new folder. It is removed when the result is dropped, for example because the zip is refused halfway.
    fn temporary(&self) -> Result<Temporary, UnpackError> {
        // Only this user can read it, because functions' code may contain secrets.
        let mut private = fs::DirBuilder::new();
        private.recursive(true).mode(0o700).create(&self.root.0).map_err(UnpackError::Temporary)?;
        let folder = self.root.0.join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        fs::create_dir(&folder).map_err(UnpackError::Temporary)?;
        Ok(Temporary(folder))
    }
}

#[derive(Debug)]
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // An error can't be reported from here.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn unpack(
    archive: &mut ZipArchive<Cursor<&[u8]>>,
    folder: &Path,
    bytes_max: u64,
) -> Result<(), UnpackError> {
    let mut left = bytes_max;
    let mut links = Vec::new();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index)?;
        let name = entry.name()?.into_owned();
        let Some(inside) = entry.enclosed_name() else {
            return Err(UnpackError::Outside(name));
        };
        let failed = |source| UnpackError::Unpack { entry: name.clone(), source };
        let path = folder.join(inside);
        if entry.is_dir() {
            fs::create_dir_all(&path).map_err(failed)?;
            continue;
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        if entry.is_symlink() {
            let mut target = String::new();
            (&mut entry).take(LINK_BYTES_MAX).read_to_string(&mut target).map_err(failed)?;
            links.push((name, path, target));
            continue;
        }
        // The sizes that a zip declares can't be trusted.
        let mut file = File::create(&path).map_err(failed)?;
        let mode = entry.unix_mode().unwrap_or(0o755) & 0o777 | 0o600;
        let written = io::copy(&mut (&mut entry).take(left + 1), &mut file).map_err(failed)?;
        left = left.checked_sub(written).ok_or(UnpackError::Unpacked(bytes_max))?;
        file.set_permissions(fs::Permissions::from_mode(mode)).map_err(failed)?;
    }
    // Links are made last, so that no entry is written through one.
    for (entry, path, target) in links {
        symlink(target, path).map_err(|source| UnpackError::Unpack { entry, source })?;
    }
    Ok(())
}

/// Copies the content of a folder into another. Folders are merged. Any other entry replaces the one with its name,
/// even a link, so that nothing is written through a link.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let target = to.join(entry.file_name());
        let there = fs::symlink_metadata(&target).ok();
        if kind.is_dir() {
            if there.is_none_or(|there| !there.is_dir()) {
                let _ = fs::remove_file(&target);
                fs::create_dir(&target)?;
            }
            copy(&entry.path(), &target)?;
            continue;
        }
        match there {
            Some(there) if there.is_dir() => fs::remove_dir_all(&target)?,
            Some(_) => fs::remove_file(&target)?,
            None => {}
        }
        if kind.is_symlink() {
            symlink(fs::read_link(entry.path())?, &target)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use zip::{ZipWriter, write::SimpleFileOptions};

    use super::*;

    /// A zip of files, each with its mode and its bytes.
    fn zip(files: &[(&str, u32, &[u8])]) -> Vec<u8> {
        linked_zip(files, &[])
    }

    /// A zip of links with their targets, followed by files.
    fn linked_zip(files: &[(&str, u32, &[u8])], links: &[(&str, &str)]) -> Vec<u8> {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, target) in links {
            writer.add_symlink(*name, *target, SimpleFileOptions::default()).unwrap();
        }
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

    fn kept(unpacked: &Unpacked) -> usize {
        fs::read_dir(&unpacked.root.0).unwrap().count()
    }

    #[test]
    fn executable_bits_and_links_are_kept() {
        let unpacked = unpacked("kept");
        let files: [(&str, u32, &[u8]); 2] = [("bin/run", 0o755, b"1"), ("data", 0o644, b"2")];
        let links = [("run", "bin/run"), ("away", "/etc/passwd")];
        let unzipped = unpacked.zip(&linked_zip(&files, &links)).unwrap();
        let copied = unpacked.merge(&[unzipped.folder.path()]).unwrap();
        for folder in [unzipped.folder.path(), copied.path()] {
            let mode = |name| fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode("bin/run"), mode("data")), (0o755, 0o644));
            for (link, target) in links {
                assert_eq!(fs::read_link(folder.join(link)).unwrap(), Path::new(target));
            }
        }
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let unpacked = unpacked("through");
        let outside = unpacked.zip(&zip(&[("victim", 0o644, b"as it was")])).unwrap().folder;
        let there = outside.path().to_str().unwrap();
        let victim = format!("{there}/victim");
        let bad: [(&str, u32, &[u8]); 1] = [("a/victim", 0o644, b"changed")];
        for refused in [
            linked_zip(&bad, &[("a", there)]),
            linked_zip(&[("a", 0o644, b"changed")], &[("./a", &victim)]),
            linked_zip(&[], &[("a", there), ("a/new", "/etc")]),
            linked_zip(&[], &[("a", there), ("a/new/link", "/etc")]),
        ] {
            assert!(matches!(unpacked.zip(&refused), Err(UnpackError::Unpack { .. })));
        }
        let link = unpacked.zip(&linked_zip(&[], &[("a", there), ("b", &victim)])).unwrap().folder;
        let over: [(&str, u32, &[u8]); 2] = [("a/victim", 0o644, b"new"), ("b", 0o644, b"new")];
        let over = unpacked.zip(&zip(&over)).unwrap().folder;
        let laid = unpacked.merge(&[link.path(), over.path()]).unwrap();
        for written in ["a/victim", "b"] {
            assert_eq!(fs::read(laid.path().join(written)).unwrap(), b"new");
        }
        assert_eq!(fs::read(&victim).unwrap(), b"as it was");
        assert_eq!(fs::read_dir(there).unwrap().count(), 1);
    }

    #[test]
    fn a_later_folder_is_copied_over_an_earlier_one() {
        let unpacked = unpacked("above");
        let below = zip(&[("a", 0o644, b"1"), ("f/x", 0o644, b"1"), ("g/x", 0o644, b"1")]);
        let above = zip(&[("a", 0o755, b"2"), ("f/y", 0o644, b"2"), ("g", 0o644, b"2")]);
        let [below, above] = [below, above].map(|bytes| unpacked.zip(&bytes).unwrap().folder);
        let laid = unpacked.merge(&[below.path(), above.path()]).unwrap();
        for (name, bytes) in [("a", b"2"), ("f/x", b"1"), ("f/y", b"2"), ("g", b"2")] {
            assert_eq!(fs::read(laid.path().join(name)).unwrap(), bytes, "{name}");
        }
    }

    #[test]
    fn a_zip_with_entries_outside_its_folder_or_no_zip_is_refused() {
        let unpacked = unpacked("bad");
        for (bytes, expected) in [
            (b"no zip".to_vec(), "could not unzip"),
            (zip(&[("../bootstrap", 0o755, b"")]), "inside the zip's own folder"),
            (zip(&[("/../../x", 0o755, b"")]), "inside the zip's own folder"),
            (linked_zip(&[], &[("../a", "/etc")]), "inside the zip's own folder"),
        ] {
            let error = unpacked.zip(&bytes).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert_eq!(kept(&unpacked), 0);
    }

    #[test]
    fn a_zip_that_unpacks_to_too_much_is_refused() {
        let mut unpacked = unpacked("bomb");
        unpacked.bytes_max = 100_000;
        let bytes = zip(&[("bootstrap", 0o755, &[0; 60_000]), ("more", 0o644, &[0; 60_000])]);
        assert!(bytes.len() < 1_000, "{}", bytes.len());
        assert!(matches!(unpacked.zip(&bytes), Err(UnpackError::Unpacked(100_000))));
    }
}
