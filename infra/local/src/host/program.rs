//! The program of a function's code: its own `bootstrap`, or a managed runtime.
//!
//! A managed runtime is an interpreter in `PATH` and AWS's runtime client, which requests events from the Runtime API
//! and calls the handler in a function's folder. The client is searched in that folder, because some functions bundle
//! it; for Python, among the interpreter's packages, such as those of an active virtual environment; and in the folder
//! of runtime clients, which is laid out like a layer. Installing it there changes nothing else on the machine. The
//! error for a missing client has the command.

use std::{
    env::consts::OS,
    ffi::OsString,
    fs::{self, File},
    io::Read as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    inherited::Inherited,
    model::lambda::{
        function::{Client, Program},
        layer::Folder,
    },
};

pub(super) const BOOTSTRAP: &str = "bootstrap";

/// The modules that Python must be able to import. The second module is compiled for one version of Python.
const PYTHON_CLIENT: &str = "import awslambdaric.bootstrap, runtime_client";

const NODE_CLIENT: &str = "aws-lambda-ric/bin/index.mjs";

/// The folders of packages in a layer, and in the folder of runtime clients.
const PYTHON_PACKAGES: &str = "python";
const NODE_PACKAGES: &str = "nodejs/node_modules";

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ProgramError {
    #[error("there must be an executable {BOOTSTRAP:?} in {0}")]
    Bootstrap(String),
    #[error(
        "the {BOOTSTRAP:?} in {0} is a program for Linux, and this machine can't start it: build it for this machine, \
         or use a Linux machine"
    )]
    Linux(String),
    #[error(
        "Value {0} at 'runtime' failed to satisfy constraint: here it must be one of python3.*, \
         nodejs*.x, provided, provided.al2, provided.al2023; anything else can be started as a command \
         of this machine (--package-type Image --code ImageUri=local-command)"
    )]
    Runtime(String),
    #[error("{runtime} needs {names}, which is not in PATH")]
    Interpreter { runtime: String, names: &'static str },
    #[error("{runtime} needs AWS's runtime client {client}: install it by `{install}`")]
    Client { runtime: String, client: &'static str, install: String },
}

/// The program of a function with this runtime and with its code in `folder`, which error messages call `named`.
/// Without a runtime, it is the function's own `bootstrap`. This runs the interpreter, so it may block for a while.
pub(crate) fn program(
    inherited: &Inherited,
    runtime: Option<&str>,
    folder: Folder,
    named: String,
) -> Result<Program, ProgramError> {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let node_version = |name: &str| name.strip_prefix("nodejs")?.strip_suffix(".x").map(number);
    let client = match runtime {
        None | Some("provided" | "provided.al2" | "provided.al2023") => {
            let bootstrap = folder.path().join(BOOTSTRAP);
            return if !is_executable(&bootstrap) {
                Err(ProgramError::Bootstrap(named))
            } else if is_of_linux_elsewhere(&bootstrap, OS) {
                Err(ProgramError::Linux(named))
            } else {
                Ok(Program::Bootstrap(folder))
            };
        }
        Some(name) if name.strip_prefix("python3.").is_some_and(number) => {
            python(inherited, name, folder.path())?
        }
        Some(name) if node_version(name) == Some(true) => node(inherited, name, folder.path())?,
        Some(other) => return Err(ProgramError::Runtime(other.to_owned())),
    };
    Ok(Program::Handler(folder, client))
}

fn python(inherited: &Inherited, runtime: &str, folder: &Path) -> Result<Client, ProgramError> {
    let packages = inherited.runtime_clients().join(PYTHON_PACKAGES);
    let found: Vec<_> =
        [runtime, "python3"].iter().filter_map(|name| find(inherited, name)).collect();
    let has_client = |python: &&PathBuf| {
        let check = [OsString::from("-c"), PYTHON_CLIENT.into()];
        let mut command = Command::new(python);
        command.args(check).current_dir(folder).env_clear().envs(&inherited.variables);
        command.env("PYTHONPATH", &packages).stdin(Stdio::null());
        command.output().is_ok_and(|output| output.status.success())
    };
    let Some(first) = found.first() else {
        return Err(ProgramError::Interpreter { runtime: runtime.to_owned(), names: "python3" });
    };
    let Some(python) = found.iter().find(has_client) else {
        let (python, folder) = (first.display(), packages.display());
        let install = format!("{python} -m pip install --target {folder} awslambdaric");
        let client = "awslambdaric";
        return Err(ProgramError::Client { runtime: runtime.to_owned(), client, install });
    };
    Ok(Client {
        command: vec![python.into(), "-m".into(), "awslambdaric".into()],
        search_path: "PYTHONPATH",
        layer: PYTHON_PACKAGES,
        packages,
    })
}

fn node(inherited: &Inherited, runtime: &str, folder: &Path) -> Result<Client, ProgramError> {
    let Some(node) = find(inherited, "node") else {
        return Err(ProgramError::Interpreter { runtime: runtime.to_owned(), names: "node" });
    };
    let packages = inherited.runtime_clients().join(NODE_PACKAGES);
    let clients = [folder.join("node_modules"), packages.clone()].map(|at| at.join(NODE_CLIENT));
    let Some(client) = clients.into_iter().find(|client| client.is_file()) else {
        let prefix = inherited.runtime_clients().join("nodejs");
        let install = format!("npm install --prefix {} aws-lambda-ric", prefix.display());
        let client = "aws-lambda-ric";
        return Err(ProgramError::Client { runtime: runtime.to_owned(), client, install });
    };
    Ok(Client {
        command: vec![node.into(), client.into()],
        search_path: "NODE_PATH",
        layer: NODE_PACKAGES,
        packages,
    })
}

/// The program of this name that is first in `PATH`.
pub(super) fn find(inherited: &Inherited, name: &str) -> Option<PathBuf> {
    let mut programs = std::env::split_paths(inherited.path()).map(|folder| folder.join(name));
    programs.find(|program| is_executable(program))
}

pub(super) fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Whether a program is built for Linux, as for Lambda, and this `system` is another one. Otherwise the first event
/// would fail, and say only that the format is wrong.
fn is_of_linux_elsewhere(program: &Path, system: &str) -> bool {
    const ELF: [u8; 4] = *b"\x7fELF";
    let mut start = [0; ELF.len()];
    let read = File::open(program).and_then(|mut file| file.read_exact(&mut start));
    system != "linux" && read.is_ok() && start == ELF
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    /// A folder that stands for a machine, with programs and runtime clients.
    struct Machine {
        root: PathBuf,
        inherited: Inherited,
    }

    impl Machine {
        fn new(name: &str) -> Self {
            let root = std::env::temp_dir()
                .join(format!("comeback-runtimes-{}-{name}", std::process::id()));
            fs::create_dir_all(root.join("bin")).unwrap();
            fs::create_dir_all(root.join("code")).unwrap();
            let inherited = Inherited::from_lookup(|name| match name {
                "PATH" => Some(root.join("bin").into()),
                "COMEBACK_RUNTIMES" => Some(root.join("clients").into()),
                _ => None,
            });
            Self { inherited, root }
        }

        /// Creates a program that always exits with this status.
        fn install(&self, program: &str, status: u8) {
            let path = self.root.join("bin").join(program);
            fs::write(&path, format!("#!/bin/sh\nexit {status}\n")).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }

        /// The command of a runtime's client, or the error. Paths are relative to the machine.
        fn program(&self, runtime: &str) -> String {
            let code = self.root.join("code").into();
            let told = match program(&self.inherited, Some(runtime), code, "the zip".to_owned()) {
                Ok(Program::Handler(_, client)) => {
                    client.command.join(OsStr::new(" ")).to_str().unwrap().to_owned()
                }
                Ok(other) => panic!("{other:?}"),
                Err(error) => error.to_string(),
            };
            told.replace(&format!("{}/", self.root.display()), "")
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.root).unwrap();
        }
    }

    /// The first Python that has the client is taken. An error names what is missing and how to install it.
    #[test]
    fn a_runtime_is_started_by_its_client_and_an_error_names_what_is_missing() {
        let machine = Machine::new("clients");
        let install = |program, status| move |machine: &Machine| machine.install(program, status);
        let client = |packages: &'static str| {
            move |machine: &Machine| {
                let client = machine.root.join(packages).join(NODE_CLIENT);
                fs::create_dir_all(client.parent().unwrap()).unwrap();
                fs::write(&client, "").unwrap();
            }
        };
        let (python, node) = ("python3.11", "nodejs22.x");
        for (prepare, runtime, told) in [
            (
                &(|_: &Machine| {}) as &dyn Fn(&Machine),
                python,
                "python3.11 needs python3, which is not in PATH",
            ),
            (&|_: &Machine| {}, node, "nodejs22.x needs node, which is not in PATH"),
            (
                &install("python3", 1),
                python,
                "python3.11 needs AWS's runtime client awslambdaric: install it by `bin/python3 -m pip \
                 install --target clients/python awslambdaric`",
            ),
            (
                &install("node", 1),
                node,
                "nodejs22.x needs AWS's runtime client aws-lambda-ric: install it by `npm install \
                 --prefix clients/nodejs aws-lambda-ric`",
            ),
            (&install("python3", 0), python, "bin/python3 -m awslambdaric"),
            (&install("python3.11", 1), python, "bin/python3 -m awslambdaric"),
            (&install("python3.11", 0), python, "bin/python3.11 -m awslambdaric"),
            (
                &client("clients/nodejs/node_modules"),
                node,
                "bin/node clients/nodejs/node_modules/aws-lambda-ric/bin/index.mjs",
            ),
            (
                &client("code/node_modules"),
                node,
                "bin/node code/node_modules/aws-lambda-ric/bin/index.mjs",
            ),
        ] {
            prepare(&machine);
            assert_eq!(machine.program(runtime), told);
        }
    }

    #[test]
    fn a_program_for_linux_is_refused_on_another_system_and_a_script_is_not() {
        let machine = Machine::new("systems");
        let bootstrap = machine.root.join("bootstrap");
        for (content, system, is_refused) in [
            (&b"\x7fELF\x02\x01"[..], "macos", true),
            (b"\x7fELF\x02\x01", "linux", false),
            (b"#!/bin/sh\n", "macos", false),
            (b"", "macos", false),
        ] {
            fs::write(&bootstrap, content).unwrap();
            assert_eq!(is_of_linux_elsewhere(&bootstrap, system), is_refused, "{content:?}");
        }
    }

    #[test]
    fn other_runtimes_are_refused() {
        let machine = Machine::new("others");
        for name in ["python3.", "nodejs.x", "nodejs22", "python2.7"] {
            assert!(machine.program(name).starts_with(&format!("Value {name} at 'runtime'")));
        }
    }
}
