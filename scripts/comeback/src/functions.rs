//! The user's own functions, from the command line and from a file.
//!
//! Both are read at every start. Nothing is stored between runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;

use crate::deploy::{Code, Function};

/// Lambda's default time-out of a function, in seconds.
const TIMEOUT_DEFAULT: u16 = 3;

/// A function on the command line: its name and its code.
pub type FunctionArg = (String, String);

/// Why the given functions can't be deployed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadFunctions {
    #[error("can't read {path}: {source}", path = path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "{path} must be of the form {{\"NAME\": {{\"code\": \"CODE\", \"timeout\": 30, \"environment\": {{\"NAME\": \"VALUE\"}}}}}}, got: {source}",
        path = path.display()
    )]
    Malformed { path: PathBuf, source: serde_json::Error },
    #[error("expected functions with different names, got two with the name {name:?}")]
    SameName { name: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    code: String,
    /// The time-out in seconds.
    #[serde(default = "timeout_default")]
    timeout: u16,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// A runtime of Lambda, such as `python3.13`, for a folder or a zip without a `bootstrap`.
    runtime: Option<String>,
    /// The entry point that the runtime calls.
    handler: Option<String>,
}

fn timeout_default() -> u16 {
    TIMEOUT_DEFAULT
}

/// Reads `NAME=CODE`.
pub fn parse(argument: &str) -> Result<FunctionArg, String> {
    match argument.split_once('=') {
        Some((name, code)) if !name.is_empty() && !code.trim().is_empty() => {
            Ok((name.to_owned(), code.to_owned()))
        }
        _ => Err("expected NAME=CODE, such as orders=target/lambda/orders".to_owned()),
    }
}

pub fn read(given: &[FunctionArg], file: Option<&Path>) -> Result<Vec<Function>, BadFunctions> {
    let mut functions = Vec::new();
    for (name, code) in given {
        let entry = Entry {
            code: code.clone(),
            timeout: TIMEOUT_DEFAULT,
            environment: BTreeMap::new(),
            runtime: None,
            handler: None,
        };
        functions.push(function(name, entry, Path::new("."))?);
    }
    if let Some(path) = file {
        let text = fs::read(path).map_err(unreadable(path))?;
        let entries: BTreeMap<String, Entry> = serde_json::from_slice(&text)
            .map_err(|source| BadFunctions::Malformed { path: path.to_owned(), source })?;
        // The parent of a bare file name is the empty path.
        let folder = path.parent().filter(|folder| *folder != "").unwrap_or(Path::new("."));
        for (name, entry) in entries {
            functions.push(function(&name, entry, folder)?);
        }
    }
    let mut names = BTreeSet::new();
    match functions.iter().find(|function| !names.insert(&function.name)) {
        Some(Function { name, .. }) => Err(BadFunctions::SameName { name: name.clone() }),
        None => Ok(functions),
    }
}

/// Builds a function. Paths in `entry` are relative to `folder`.
fn function(name: &str, entry: Entry, folder: &Path) -> Result<Function, BadFunctions> {
    let Entry { code, timeout, environment, runtime, handler } = entry;
    Ok(Function {
        name: name.to_owned(),
        code: find(&code, folder)?,
        timeout: Duration::from_secs(timeout.into()),
        environment: environment.into_iter().collect(),
        layers: Vec::new(),
        runtime,
        handler,
    })
}

/// Resolves code: a folder, a zip, or a command that runs in `folder`.
fn find(code: &str, folder: &Path) -> Result<Code, BadFunctions> {
    // The local cloud accepts only absolute paths.
    let folder = std::path::absolute(folder).map_err(unreadable(folder))?;
    let path = folder.join(code);
    if path.is_dir() {
        Ok(Code::Folder(path))
    } else if path.extension().is_some_and(|extension| extension == "zip") {
        Ok(Code::Zip(fs::read(&path).map_err(unreadable(&path))?))
    } else {
        let words = code.split_whitespace().map(str::to_owned).collect();
        Ok(Code::Command { words, folder })
    }
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> BadFunctions {
    |source| BadFunctions::Unreadable { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRATE: &str = env!("CARGO_MANIFEST_DIR");

    fn given(functions: &[(&str, &str)]) -> Vec<FunctionArg> {
        let owned = |(name, code): &(&str, &str)| ((*name).to_owned(), (*code).to_owned());
        functions.iter().map(owned).collect()
    }

    fn refusal(functions: &[(&str, &str)], file: Option<&str>) -> String {
        let file = file.map(|file| Path::new(CRATE).join(file));
        read(&given(functions), file.as_deref()).unwrap_err().to_string()
    }

    #[test]
    fn a_function_on_the_command_line_is_a_name_and_its_code() {
        let function = parse("orders=env A=B ./orders").unwrap();
        assert_eq!(function, ("orders".to_owned(), "env A=B ./orders".to_owned()));
        for argument in ["orders", "orders=", "orders= ", "=./orders"] {
            assert!(parse(argument).unwrap_err().starts_with("expected NAME=CODE"), "{argument}");
        }
    }

    #[test]
    fn code_is_a_folder_or_a_command_and_the_time_out_is_lambdas_default() {
        let functions = given(&[("a", CRATE), ("b", "python3  -m awslambdaric app.handler")]);
        let functions = read(&functions, None).unwrap();
        assert_eq!(functions[0].code, Code::Folder(CRATE.into()));
        let words = ["python3", "-m", "awslambdaric", "app.handler"].map(str::to_owned).into();
        let folder = std::path::absolute(".").unwrap();
        assert_eq!(functions[1].code, Code::Command { words, folder });
        assert_eq!(functions[1].timeout, Duration::from_secs(3));
        assert!(functions[1].environment.is_empty());
    }

    #[test]
    fn paths_in_a_file_of_functions_are_relative_to_it() {
        let folder = Path::new(CRATE).join("tests/fixtures");
        let functions = read(&[], Some(&folder.join("functions.json"))).unwrap();
        let [mail, orders] = functions.as_slice() else { panic!("{functions:?}") };
        assert_eq!((mail.name.as_str(), mail.timeout), ("mail", Duration::from_secs(30)));
        let words = vec!["sh".to_owned(), "orders.sh".to_owned()];
        assert_eq!(mail.code, Code::Command { words, folder: folder.clone() });
        assert_eq!(mail.environment, [("TABLE".to_owned(), "mail".to_owned())]);
        assert_eq!(orders.code, Code::Folder(folder.join(".")));
        assert_eq!(orders.runtime.as_deref(), Some("python3.13"));
        assert_eq!(orders.handler.as_deref(), Some("app.handler"));
    }

    #[test]
    fn functions_that_can_not_be_read_are_refused_with_the_reason() {
        for (refusal, expected) in [
            (refusal(&[("a", "no-such.zip")], None), "no-such.zip: No such file"),
            (refusal(&[], Some("no-such.json")), "no-such.json: No such file"),
            (
                refusal(&[], Some("Cargo.toml")),
                "Cargo.toml must be of the form {\"NAME\": {\"code\"",
            ),
            (refusal(&[("a", "x"), ("a", "y")], None), "got two with the name \"a\""),
            (
                refusal(&[("mail", "x")], Some("tests/fixtures/functions.json")),
                "got two with the name \"mail\"",
            ),
        ] {
            assert!(refusal.contains(expected), "{refusal}");
        }
    }

    #[test]
    fn a_misspelt_member_of_a_file_is_refused() {
        let entry = serde_json::from_str::<Entry>(r#"{"code": ".", "time-out": 3}"#);
        let refusal = entry.map(|_| ()).unwrap_err().to_string();
        assert!(refusal.starts_with("unknown field `time-out`, expected one of"), "{refusal}");
    }
}
