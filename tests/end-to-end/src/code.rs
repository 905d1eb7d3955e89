//! Code of functions in other languages, and AWS's clients that run it.

use std::{fs, path::PathBuf, process::Command, time::Duration};

use crate::cloud::{self, Function};

/// The requirements file of the AWS CLI and of Python's runtime client.
pub const REQUIREMENTS: &str = "tests/requirements.txt";

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The path of a Python interpreter with the packages of this requirements file.
pub fn python(requirements: &str) -> PathBuf {
    installed("python", requirements)
}

/// Runs a script that installs packages, and returns their folder, which the script prints.
pub fn installed(script: &str, packages: &str) -> PathBuf {
    let script = format!("{ROOT}/scripts/{script}");
    let made = Command::new(script).arg(packages).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    String::from_utf8(made.stdout).unwrap().trim().into()
}

/// A folder with the code of a function. It is removed at the end of the test.
pub struct Code(pub PathBuf);

impl Code {
    pub fn new(file: &str, source: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("comeback-{}-{file}", std::process::id()));
        let code = Self(folder);
        code.has(file, source);
        code
    }

    pub fn has(&self, file: &str, source: &str) {
        let path = self.0.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, source).unwrap();
    }

    /// A zip of the files at the top level of the folder.
    pub fn zipped(&self) -> Vec<u8> {
        let files = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path());
        let files: Vec<_> = files.filter(|path| path.is_file()).collect();
        let zip = self.0.join("function.zip");
        let mut made = Command::new("python3");
        assert!(
            made.args(["-m", "zipfile", "-c"]).arg(&zip).args(files).status().unwrap().success()
        );
        fs::read(zip).unwrap()
    }

    /// A function that this command runs, and that writes its notes beside this code. `unaware` fails in so many runs.
    pub fn function(&self, name: &str, command: cloud::Code, failures: u32) -> Function {
        let variables = [
            ("PYTHONPATH", self.folder()),
            ("NOTES", self.notes()),
            ("FAILURES", failures.to_string()),
        ];
        Function {
            code: command,
            environment: variables.map(|(name, value)| (name.to_owned(), value)).into(),
            timeout: Duration::from_secs(30),
            ..cloud::function(name, "example-target")
        }
    }

    pub fn folder(&self) -> String {
        self.0.display().to_string()
    }

    /// The path of the notes that the function writes.
    pub fn notes(&self) -> String {
        self.folder() + "/notes"
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}
