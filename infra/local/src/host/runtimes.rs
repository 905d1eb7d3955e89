//! Lambda's managed runtimes, and the programs on this machine that stand in for them.
//!
//! A managed runtime is an interpreter and AWS's runtime client, which requests events from the Runtime API and calls
//! the handler in a function's folder. For Python and Node.js, both are freely available. The interpreter is searched
//! in `PATH`: for `python3.11` it is `python3.11`, or else `python3`, and for any `nodejs` it is `node`. The client is
//! searched
//!
//! - in the function's own folder, because some functions bundle it;
//! - for Python, among the interpreter's packages, such as those of an active virtual environment;
//! - in the folder of runtime clients, which is laid out like a layer: `python` and `nodejs/node_modules`. Installing
//!   it there changes nothing else on the machine. The error for a missing client has the command.

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::{unpacked::UnpackError, variables::Common};
use crate::model::lambda::function::{Client, Folder, Program};

pub(super) const BOOTSTRAP: &str = "bootstrap";

/// The modules that Python must be able to import. The second module is compiled for one version of Python.
const PYTHON_CLIENT: &str = "import awslambdaric.bootstrap, runtime_client";

const NODE_CLIENT: &str = "aws-lambda-ric/bin/index.mjs";

/// The folders of packages in a layer, and in the folder of runtime clients.
const PYTHON_PACKAGES: &str = "python";
const NODE_PACKAGES: &str = "nodejs/node_modules";

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum CodeError {
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    #[error("the folder must be an absolute path to a folder, got {0:?}")]
    Folder(PathBuf),
    #[error("there must be an executable {BOOTSTRAP:?} in {0}")]
    Bootstrap(String),
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
    #[error("the command must be an executable of this machine, got {0:?}")]
    Command(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runtime {
    /// `bootstrap`, the function's own program.
    Provided,
    Python,
    Node,
}

impl Runtime {
    /// The runtime that AWS calls `name`. Without a name, it is the function's own `bootstrap`.
    fn of(name: Option<&str>) -> Result<Self, CodeError> {
        let number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let Some(name) = name else {
            return Ok(Self::Provided);
        };
        if ["provided", "provided.al2", "provided.al2023"].contains(&name) {
            return Ok(Self::Provided);
        }
        if name.strip_prefix("python3.").is_some_and(number) {
            return Ok(Self::Python);
        }
        let node = name.strip_prefix("nodejs").and_then(|rest| rest.strip_suffix(".x"));
        if node.is_some_and(number) {
            return Ok(Self::Node);
        }
        Err(CodeError::Runtime(name.to_owned()))
    }
}

/// The program of a function with this runtime and with its code in `folder`, which error messages call `named`. This
/// runs the interpreter, so it may block for a while.
pub(crate) fn program(
    common: &Common,
    runtime: Option<&str>,
    folder: Folder,
    named: String,
) -> Result<Program, CodeError> {
    let name = runtime.unwrap_or_default();
    let client = match Runtime::of(runtime)? {
        Runtime::Provided if is_executable(&folder.path().join(BOOTSTRAP)) => {
            return Ok(Program::Bootstrap(folder));
        }
        Runtime::Provided => return Err(CodeError::Bootstrap(named)),
        Runtime::Python => python(common, name, folder.path())?,
        Runtime::Node => node(common, name, folder.path())?,
    };
    Ok(Program::Handler(folder, client))
}

fn python(common: &Common, runtime: &str, folder: &Path) -> Result<Client, CodeError> {
    let packages = common.inherited.runtime_clients().join(PYTHON_PACKAGES);
    let found: Vec<_> = [runtime, "python3"].iter().filter_map(|name| find(common, name)).collect();
    let has_client = |python: &&PathBuf| {
        let check = [OsString::from("-c"), PYTHON_CLIENT.into()];
        let mut command = Command::new(python);
        command.args(check).current_dir(folder).env_clear().envs(&common.inherited.variables);
        command.env("PYTHONPATH", &packages).stdin(Stdio::null());
        command.output().is_ok_and(|output| output.status.success())
    };
    let Some(first) = found.first() else {
        return Err(CodeError::Interpreter { runtime: runtime.to_owned(), names: "python3" });
    };
    let Some(python) = found.iter().find(has_client) else {
        let (python, folder) = (first.display(), packages.display());
        let install = format!("{python} -m pip install --target {folder} awslambdaric");
        let client = "awslambdaric";
        return Err(CodeError::Client { runtime: runtime.to_owned(), client, install });
    };
    Ok(Client {
        command: vec![python.into(), "-m".into(), "awslambdaric".into()],
        search_path: "PYTHONPATH",
        layer: PYTHON_PACKAGES,
        packages,
    })
}

fn node(common: &Common, runtime: &str, folder: &Path) -> Result<Client, CodeError> {
    let Some(node) = find(common, "node") else {
        return Err(CodeError::Interpreter { runtime: runtime.to_owned(), names: "node" });
    };
    let packages = common.inherited.runtime_clients().join(NODE_PACKAGES);
    let clients = [folder.join("node_modules"), packages.clone()].map(|at| at.join(NODE_CLIENT));
    let Some(client) = clients.into_iter().find(|client| client.is_file()) else {
        let prefix = common.inherited.runtime_clients().join("nodejs");
        let install = format!("npm install --prefix {} aws-lambda-ric", prefix.display());
        let client = "aws-lambda-ric";
        return Err(CodeError::Client { runtime: runtime.to_owned(), client, install });
    };
    Ok(Client {
        command: vec![node.into(), client.into()],
        search_path: "NODE_PATH",
        layer: NODE_PACKAGES,
        packages,
    })
}

/// The program of this name that is first in `PATH`.
pub(super) fn find(common: &Common, name: &str) -> Option<PathBuf> {
    let mut programs =
        std::env::split_paths(common.inherited.path()).map(|folder| folder.join(name));
    programs.find(|program| is_executable(program))
}

pub(super) fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::{super::variables::Inherited, *};

    /// A folder that stands for a machine, with programs and runtime clients.
    struct Machine {
        root: PathBuf,
        common: Common,
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
            Self { common: Common::new(inherited, ""), root }
        }

        /// Creates a program that always exits with this status.
        fn install(&self, program: &str, status: u8) {
            let path = self.root.join("bin").join(program);
            fs::write(&path, format!("#!/bin/sh\nexit {status}\n")).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }

        fn program(&self, runtime: &str) -> Result<Vec<String>, String> {
            let code = self.root.join("code").into();
            match program(&self.common, Some(runtime), code, "the zip".to_owned()) {
                Ok(Program::Handler(_, client)) => {
                    let words =
                        client.command.iter().map(|word| self.relative(word.to_str().unwrap()));
                    Ok(words.collect())
                }
                Ok(other) => panic!("{other:?}"),
                Err(error) => Err(self.relative(&error.to_string())),
            }
        }

        fn relative(&self, text: &str) -> String {
            text.replace(&format!("{}/", self.root.display()), "")
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.root).unwrap();
        }
    }

    #[test]
    fn the_first_python_that_has_the_client_is_taken() {
        let machine = Machine::new("python");
        let client = |python: &str| {
            Ok(vec![format!("bin/{python}"), "-m".to_owned(), "awslambdaric".to_owned()])
        };
        machine.install("python3", 0);
        assert_eq!(machine.program("python3.11"), client("python3"));
        machine.install("python3.11", 1);
        assert_eq!(machine.program("python3.11"), client("python3"));
        machine.install("python3.11", 0);
        assert_eq!(machine.program("python3.11"), client("python3.11"));
    }

    #[test]
    fn an_error_names_what_is_missing_and_how_to_install_it() {
        let machine = Machine::new("missing");
        for (program, runtime, refusal) in [
            (None, "python3.11", "python3.11 needs python3, which is not in PATH"),
            (None, "nodejs22.x", "nodejs22.x needs node, which is not in PATH"),
            (
                Some("python3"),
                "python3.11",
                "python3.11 needs AWS's runtime client awslambdaric: install it by `bin/python3 -m pip \
                 install --target clients/python awslambdaric`",
            ),
            (
                Some("node"),
                "nodejs22.x",
                "nodejs22.x needs AWS's runtime client aws-lambda-ric: install it by `npm install \
                 --prefix clients/nodejs aws-lambda-ric`",
            ),
        ] {
            if let Some(program) = program {
                machine.install(program, 1);
            }
            assert_eq!(machine.program(runtime), Err(refusal.to_owned()));
        }
    }

    #[test]
    fn the_client_of_node_js_is_found_beside_the_code_and_in_the_folder_of_clients() {
        let machine = Machine::new("node");
        machine.install("node", 1);
        for packages in ["clients/nodejs/node_modules", "code/node_modules"] {
            let client = machine.root.join(packages).join(NODE_CLIENT);
            fs::create_dir_all(client.parent().unwrap()).unwrap();
            fs::write(&client, "").unwrap();
            let expected = vec!["bin/node".to_owned(), format!("{packages}/{NODE_CLIENT}")];
            assert_eq!(machine.program("nodejs22.x"), Ok(expected));
        }
    }

    #[test]
    fn other_runtimes_are_refused() {
        for name in ["non-existent", "PYTHON3.9", "python3.", "nodejs.x", "nodejs22", "python2.7"] {
            let error = Runtime::of(Some(name)).unwrap_err().to_string();
            let beginning = format!("Value {name} at 'runtime' failed to satisfy constraint: ");
            assert!(error.starts_with(&beginning), "{error}");
        }
        for (name, runtime) in [
            (None, Runtime::Provided),
            (Some("provided.al2023"), Runtime::Provided),
            (Some("python3.14"), Runtime::Python),
            (Some("nodejs24.x"), Runtime::Node),
        ] {
            assert_eq!(Runtime::of(name).unwrap(), runtime);
        }
    }
}
