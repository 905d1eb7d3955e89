//! A function to create in the local cloud.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Function {
    pub name: String,
    pub code: Code,
    pub timeout: Duration,
    /// Its environment variables. If a name occurs more than once, the last value wins.
    pub environment: Vec<(String, String)>,
    pub layers: Vec<PathBuf>,
    /// The runtime of a folder or a zip that has no `bootstrap`.
    pub runtime: Option<String>,
    /// The entry point that the runtime calls.
    pub handler: Option<String>,
    pub tenants: bool,
    /// Whether it is durable. At most one of the functions of a handler can be.
    pub durable: bool,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Code {
    Folder(PathBuf),
    Zip(Vec<u8>),
    Command { words: Vec<String>, folder: PathBuf },
}

impl Function {
    pub fn of(name: &str, binary: &Path, timeout: Duration) -> Self {
        let words = vec![binary.to_string_lossy().into_owned()];
        let folder = binary.parent().unwrap_or(Path::new("/")).to_owned();
        Self {
            name: name.to_owned(),
            code: Code::Command { words, folder },
            timeout,
            environment: Vec::new(),
            layers: Vec::new(),
            runtime: None,
            handler: None,
            tenants: false,
            durable: false,
        }
    }
}
