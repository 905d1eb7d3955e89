//! The functions of the local cloud: Comeback's own, and the user's.
//!
//! This program contains the retry handler and the example function, so it needs no other file. The local cloud starts
//! each as a process of its own: this program again, with the function's name as its first argument. The code is that
//! of the deployed functions. The user's own functions, from the command line and from a file, are read at every start.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use comeback_core::settings::{
    contract::SETTINGS,
    setting::{Scope, Setting as Known},
};
use comeback_local_client::deploy::{Code, Function, HANDLER, SourceQueue};
use serde::Deserialize;

/// The example function.
pub const TARGET: &str = "example-target";

const HANDLER_TIMEOUT: Duration = Duration::from_secs(30);

/// The visibility timeout of the retry queue: six times the function's time-out, as AWS recommends. If it were shorter,
/// SQS could deliver a batch twice while Lambda throttles the function.
pub const VISIBILITY: Duration = Duration::from_secs(6 * HANDLER_TIMEOUT.as_secs());

/// The first arguments that make this program one of its functions. They are no commands, so the help has none of them.
const RETRY_HANDLER: &str = "__retry-handler";
const EXAMPLE_TARGET: &str = "__example-target";

/// Runs the function that this first argument names, until the local cloud ends the process.
pub fn run(first: &OsStr) -> Option<ExitCode> {
    if first == RETRY_HANDLER {
        Some(retry_handler::run())
    } else if first == EXAMPLE_TARGET {
        Some(example_target::run().map_or_else(
            |error| {
                eprintln!("{error}");
                ExitCode::FAILURE
            },
            |()| ExitCode::SUCCESS,
        ))
    } else {
        None
    }
}

/// The folder of Comeback's own binaries.
#[derive(Debug, clap::Args)]
pub struct BinariesArg {
    /// The folder of the binaries retry-handler and example-target [default: those in this program].
    #[arg(long = "binaries", id = "binaries", value_name = "DIR")]
    pub folder: Option<PathBuf>,
}

/// The commands that start the functions.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Binaries {
    retry_handler: Vec<String>,
    example_target: Vec<String>,
    folder: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum NoBinary {
    #[error(
        "{name} must be in {folder}, but is not; build it with `cargo build --bins -p retry-handler -p example-target`, or leave out --binaries to use the functions in this program",
        folder = folder.display()
    )]
    Missing { name: &'static str, folder: PathBuf },
    #[error("finding this program's own file, which contains the retry handler, failed: {0}")]
    Itself(io::Error),
}

impl Binaries {
    /// The functions in this program, or the binaries in `folder`.
    pub fn find(folder: Option<&Path>) -> Result<Self, NoBinary> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let Some(folder) = folder else {
            let itself = std::env::current_exe().map_err(NoBinary::Itself)?;
            let with = |name: &str| vec![text(&itself), name.to_owned()];
            let folder = itself.parent().unwrap_or(Path::new("/")).to_owned();
            return Ok(Self {
                retry_handler: with(RETRY_HANDLER),
                example_target: with(EXAMPLE_TARGET),
                folder,
            });
        };
        // Functions run in other working directories, so the path must be absolute.
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let find = |name| {
            let path = folder.join(name);
            let missing = || NoBinary::Missing { name, folder: folder.clone() };
            path.is_file().then(|| vec![text(&path)]).ok_or_else(missing)
        };
        let (retry_handler, example_target) = (find("retry-handler")?, find("example-target")?);
        Ok(Self { retry_handler, example_target, folder })
    }

    pub fn handler(&self, settings: &[Setting]) -> Function {
        let handler = self.function(HANDLER, &self.retry_handler, HANDLER_TIMEOUT);
        Function { environment: settings.to_vec(), ..handler }
    }

    pub fn target(&self, name: &str, timeout: Duration) -> Function {
        self.function(name, &self.example_target, timeout)
    }

    fn function(&self, name: &str, words: &[String], timeout: Duration) -> Function {
        let code = Code::Command { words: words.to_vec(), folder: self.folder.clone() };
        Function { code, ..Function::of(name, Path::new("/"), timeout) }
    }
}

const TIMEOUT_DEFAULT: u16 = 3;

/// How much longer a message is hidden than its consumer may run. SQS moves it to the retry queue only then, so this is
/// less than AWS recommends.
const VISIBILITY_SLACK: Duration = Duration::from_secs(2);

/// A function on the command line: its name and its code.
pub type FunctionArg = (String, String);

/// A queue on the command line: its name, and the function that consumes it, if any.
pub type QueueArg = (String, Option<String>);

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
    #[error(
        "--queue {queue}={name}: expected one of the functions of --function and --functions, got {name:?}"
    )]
    NoSuchFunction { queue: String, name: String },
    #[error(
        "--queue {name}: expected a name that no other queue has, and no function other than a queue's consumer, got {name:?} twice"
    )]
    SameQueue { name: String },
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    code: String,
    timeout: Option<u16>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// A runtime of Lambda, such as `python3.13`, for a folder or a zip without a `bootstrap`.
    runtime: Option<String>,
    handler: Option<String>,
    #[serde(default)]
    tenants: bool,
    #[serde(default)]
    durable: bool,
}

pub fn parse(argument: &str) -> Result<FunctionArg, String> {
    match argument.split_once('=') {
        Some((name, code)) if !name.is_empty() && !code.trim().is_empty() => {
            Ok((name.to_owned(), code.to_owned()))
        }
        _ => Err("expected NAME=CODE, such as orders=target/lambda/orders".to_owned()),
    }
}

pub fn parse_queue(argument: &str) -> Result<QueueArg, String> {
    let (name, function) = match argument.split_once('=') {
        Some((name, function)) => (name, Some(function)),
        None => (argument, None),
    };
    if name.is_empty() || function == Some("") {
        return Err("expected NAME=FUNCTION, such as imports=importer, or NAME".to_owned());
    }
    Ok((name.to_owned(), function.map(str::to_owned)))
}

/// Finds the consumers of the queues among the functions. `taken` is a name that no queue may have, because each queue
/// and each other function has a retry queue by its name.
pub fn sources(
    queues: &[QueueArg],
    functions: &[Function],
    taken: &str,
) -> Result<Vec<SourceQueue>, BadFunctions> {
    let mut names: BTreeSet<_> = functions.iter().map(|function| &*function.name).collect();
    for (_, consumer) in queues {
        consumer.as_deref().map(|consumer| names.remove(consumer));
    }
    names.insert(taken);
    let source = |(name, consumer): &'_ QueueArg| {
        let mut timeout = Duration::from_secs(TIMEOUT_DEFAULT.into());
        if let Some(consumer) = consumer {
            let function = functions.iter().find(|function| function.name == *consumer);
            let (queue, missing) = (name.clone(), consumer.clone());
            timeout =
                function.ok_or(BadFunctions::NoSuchFunction { queue, name: missing })?.timeout;
        }
        let visibility = timeout + VISIBILITY_SLACK;
        Ok(SourceQueue { name: name.clone(), consumer: consumer.clone(), visibility })
    };
    match queues.iter().find(|(name, _)| !names.insert(name)) {
        Some((name, _)) => Err(BadFunctions::SameQueue { name: name.clone() }),
        None => queues.iter().map(source).collect(),
    }
}

pub fn read(given: &[FunctionArg], file: Option<&Path>) -> Result<Vec<Function>, BadFunctions> {
    let mut functions = Vec::new();
    for (name, code) in given {
        let entry = Entry { code: code.clone(), ..Entry::default() };
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
    let Entry { code, timeout, environment, runtime, handler, tenants, durable } = entry;
    Ok(Function {
        name: name.to_owned(),
        code: find(&code, folder)?,
        timeout: Duration::from_secs(timeout.unwrap_or(TIMEOUT_DEFAULT).into()),
        environment: environment.into_iter().collect(),
        layers: Vec::new(),
        runtime,
        handler,
        tenants,
        durable,
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

pub type Setting = (String, String);

/// The names of the settings that a user may give. The deployment sets its queues and its table, and members of
/// policies are no variables.
pub fn setting_names() -> Vec<&'static str> {
    let is_given = |setting: &&Known| !matches!(setting.scope, Scope::Resource | Scope::Member);
    let given = SETTINGS.iter().filter(is_given);
    given.map(|setting| setting.name).collect()
}

pub fn setting(argument: &str) -> Result<Setting, String> {
    let (name, value) =
        argument.split_once('=').ok_or("expected NAME=VALUE, such as BASE_BACKOFF=2s")?;
    if setting_names().contains(&name) {
        Ok((name.to_owned(), value.to_owned()))
    } else {
        Err(format!("expected one of {}, got {name:?}", setting_names().join(", ")))
    }
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
    fn functions_and_queues_are_given_by_name() {
        let function = parse("orders=env A=B ./orders").unwrap();
        assert_eq!(function, ("orders".to_owned(), "env A=B ./orders".to_owned()));
        assert!(["orders=", "orders= ", "=./orders"].iter().all(|it| parse(it).is_err()));
        assert!(["", "=mail"].iter().all(|it| parse_queue(it).is_err()));
    }

    #[test]
    fn paths_in_a_file_of_functions_are_relative_to_it() {
        let folder = Path::new(CRATE).join("tests/fixtures");
        let functions = read(&[], Some(&folder.join("functions.json"))).unwrap();
        let [mail, orders] = functions.as_slice() else { panic!("{functions:?}") };
        assert_eq!((mail.name.as_str(), mail.timeout), ("mail", Duration::from_secs(30)));
        let words = vec!["sh".to_owned(), "orders.sh".to_owned()];
        assert_eq!(orders.code, Code::Folder(folder.join(".")));
        assert_eq!(mail.code, Code::Command { words, folder });
        assert_eq!(mail.environment, [("TABLE".to_owned(), "mail".to_owned())]);
        let entry = (orders.runtime.as_deref(), orders.handler.as_deref());
        assert_eq!(entry, (Some("python3.13"), Some("app.handler")));
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
            (refusal(&[("mail", "x")], Some("tests/fixtures/functions.json")), "name \"mail\""),
        ] {
            assert!(refusal.contains(expected), "{refusal}");
        }
    }

    #[test]
    fn a_queue_is_hidden_for_longer_than_its_consumer_may_run_and_has_a_name_of_its_own() {
        let queues = |queues: &[&str]| {
            let queues: Vec<_> = queues.iter().map(|queue| parse_queue(queue).unwrap()).collect();
            let file = Path::new(CRATE).join("tests/fixtures/functions.json");
            let sources = sources(&queues, &read(&[], Some(&file)).unwrap(), "example");
            sources.map_err(|error| error.to_string())
        };
        let of = |name: &str, consumer: Option<&str>, seconds| SourceQueue {
            name: name.to_owned(),
            consumer: consumer.map(str::to_owned),
            visibility: Duration::from_secs(seconds),
        };
        let both =
            vec![of("mail", Some("mail"), 32), of("spare", Some("mail"), 32), of("x", None, 5)];
        assert_eq!(queues(&["mail=mail", "spare=mail", "x"]), Ok(both));
        assert!(queues(&["q=post"]).unwrap_err().contains("--queue q=post: expected one of"));
        for twice in [&["x", "x=mail"][..], &["mail"], &["example"], &["orders=mail"]] {
            assert!(queues(twice).unwrap_err().ends_with("twice"), "{twice:?}");
        }
    }

    #[test]
    fn a_misspelt_member_of_a_file_is_refused() {
        let entry = serde_json::from_str::<Entry>(r#"{"code": ".", "time-out": 3}"#);
        let refusal = entry.map(|_| ()).unwrap_err().to_string();
        assert!(refusal.starts_with("unknown field `time-out`, expected one of"), "{refusal}");
    }
}
