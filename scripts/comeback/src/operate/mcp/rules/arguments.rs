//! The arguments of a tool are the options of its command: one definition is parser, help, completion and schema.

use std::any::TypeId;

use clap::{Arg, ArgAction, Command};
use serde_json::{Map, Value, json};

use crate::typed::Rate;

/// Options that no tool takes: how a command prints and asks, which a server decides, and where it connects to.
const NEVER: [&str; 12] = [
    "help", "json", "yes", "dry-run", "local", "region", "profile", "verbose", "queue", "watch",
    "every", "otlp",
];

#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BadArgument {
    #[error("there is no argument {name}: expected one of {expected}")]
    Unknown { name: String, expected: String },
    #[error("{name} must be {expected}, got {got}")]
    Value { name: String, expected: &'static str, got: Value },
}

/// The options of a command that a tool takes.
pub struct Arguments<'a> {
    command: &'a Command,
    /// The options that this tool leaves out.
    without: &'a [&'static str],
}

impl<'a> Arguments<'a> {
    pub fn of(command: &'a Command, without: &'a [&'static str]) -> Self {
        Self { command, without }
    }

    fn all(&self) -> impl Iterator<Item = &'a Arg> {
        self.command.get_arguments().filter(|argument| {
            let name = option(argument);
            !argument.is_hide_set() && !NEVER.contains(&name) && !self.without.contains(&name)
        })
    }

    /// The JSON Schema of the arguments.
    pub fn schema(&self) -> Map<String, Value> {
        let properties = self.all().map(|argument| (name(argument), property(argument)));
        let required = self.all().filter(|argument| argument.is_required_set()).map(name);
        let schema = json!({
            "type": "object",
            "properties": properties.collect::<Map<_, _>>(),
            "required": required.collect::<Vec<_>>(),
            "additionalProperties": false,
        });
        schema.as_object().cloned().unwrap_or_default()
    }

    /// The command line that these arguments mean, without the program's name.
    pub fn line(&self, given: &Map<String, Value>) -> Result<Vec<String>, BadArgument> {
        let (mut options, mut positional) = (Vec::new(), vec!["--".to_owned()]);
        for (key, value) in given {
            let Some(argument) = self.all().find(|argument| name(argument) == *key) else {
                let expected = self.all().map(name).collect::<Vec<_>>().join(", ");
                return Err(BadArgument::Unknown { name: key.clone(), expected });
            };
            let values = texts(argument, value).ok_or_else(|| BadArgument::Value {
                name: key.clone(),
                expected: expected(argument),
                got: value.clone(),
            })?;
            match argument.get_long() {
                Some(long) if is_flag(argument) => {
                    options.extend((*value == Value::Bool(true)).then(|| format!("--{long}")));
                }
                Some(long) => options.extend(values.iter().map(|it| format!("--{long}={it}"))),
                None => positional.extend(values),
            }
        }
        options.extend(positional);
        Ok(options)
    }
}

/// The name of an option on the command line. A positional argument has only an id.
fn option(argument: &Arg) -> &str {
    argument.get_long().unwrap_or(argument.get_id().as_str())
}

fn name(argument: &Arg) -> String {
    option(argument).replace('-', "_")
}

fn is_flag(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::SetTrue)
}

fn is_list(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Append)
}

fn is_number(argument: &Arg) -> bool {
    let value = argument.get_value_parser().type_id();
    [TypeId::of::<u32>(), TypeId::of::<u64>(), TypeId::of::<usize>(), TypeId::of::<f64>()]
        .iter()
        .any(|number| value == *number)
}

/// Whether it is a number, or a number and a unit of time.
fn is_rate(argument: &Arg) -> bool {
    argument.get_value_parser().type_id() == TypeId::of::<Rate>()
}

fn expected(argument: &Arg) -> &'static str {
    match () {
        () if is_flag(argument) => "true or false",
        () if is_list(argument) => "a list of strings",
        () if is_number(argument) => "a number",
        () if is_rate(argument) => "a number, or a string with a unit of time",
        () => "a string",
    }
}

/// The values of an argument as a person would type them; `None` if they are of another type.
fn texts(argument: &Arg, value: &Value) -> Option<Vec<String>> {
    if is_flag(argument) {
        return value.is_boolean().then(Vec::new);
    }
    let number = |value: &Value| value.as_number().map(ToString::to_string);
    let may_be_number = is_number(argument) || is_rate(argument);
    let text = |value: &Value| {
        let text = value.as_str().map(str::to_owned);
        text.or_else(|| number(value).filter(|_| may_be_number))
    };
    match value.as_array().filter(|_| is_list(argument)) {
        Some(values) => values.iter().map(text).collect(),
        None => Some(vec![text(value)?]),
    }
}

fn property(argument: &Arg) -> Value {
    let mut one = match () {
        () if is_number(argument) => json!({ "type": "number" }),
        () if is_rate(argument) => json!({ "type": ["number", "string"] }),
        () => json!({ "type": "string" }),
    };
    let possible = argument.get_possible_values();
    if is_flag(argument) {
        one = json!({ "type": "boolean" });
    } else if !possible.is_empty() {
        one["enum"] = possible.iter().map(clap::builder::PossibleValue::get_name).collect();
    }
    let mut property =
        if is_list(argument) { json!({ "type": "array", "items": one }) } else { one };
    let help = argument.get_long_help().or(argument.get_help());
    let mut says = help.map(ToString::to_string).unwrap_or_default();
    if let [default] = argument.get_default_values() {
        let default = default.to_string_lossy();
        says += &format!(" [default: {default}]");
    }
    property["description"] = json!(says);
    property
}

#[cfg(test)]
mod tests {
    use clap::Args as _;

    use super::*;

    #[derive(clap::Args)]
    struct Options {
        /// An id.
        #[arg(value_name = "ID")]
        id: String,
        /// Functions.
        #[arg(long = "function")]
        functions: Vec<String>,
        #[arg(long = "reason", value_parser = ["cancelled", "expired"])]
        reasons: Vec<String>,
        /// How many.
        #[arg(long, default_value_t = 50)]
        limit: usize,
        #[arg(long, value_parser = crate::typed::rate)]
        rate: Option<Rate>,
        #[arg(long)]
        older_than: Option<String>,
        #[arg(long)]
        payload: bool,
        #[arg(long)]
        json: bool,
        #[arg(long)]
        region: Option<String>,
    }

    fn command() -> Command {
        let mut command = Options::augment_args(Command::new("list").no_binary_name(true));
        command.build();
        command
    }

    fn given(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn the_schema_of_a_tool_is_that_of_its_commands_options() {
        let command = command();
        let schema = Value::Object(Arguments::of(&command, &["payload"]).schema());
        let strings = json!({ "type": "string" });
        let expected = json!({
            "type": "object",
            "properties": {
                "id": { "type": "string", "description": "An id" },
                "function": { "type": "array", "items": strings, "description": "Functions" },
                "reason": {
                    "type": "array",
                    "items": { "type": "string", "enum": ["cancelled", "expired"] },
                    "description": "",
                },
                "limit": { "type": "number", "description": "How many [default: 50]" },
                "rate": { "type": ["number", "string"], "description": "" },
                "older_than": { "type": "string", "description": "" },
            },
            "required": ["id"],
            "additionalProperties": false,
        });
        assert_eq!(schema, expected);
    }

    #[test]
    fn arguments_become_the_command_line_that_a_person_would_type() {
        let command = command();
        let line = |value| Arguments::of(&command, &["payload"]).line(&given(value));
        let arguments = json!({
            "limit": 7, "rate": 5, "function": ["orders", "--json"], "older_than": "2h", "id": "--json",
        });
        let expected = [
            "--function=orders",
            "--function=--json",
            "--limit=7",
            "--older-than=2h",
            "--rate=5",
            "--",
            "--json",
        ];
        assert_eq!(line(arguments).unwrap(), expected);
        let parsed = command.clone().try_get_matches_from(expected).unwrap();
        assert!(!parsed.get_flag("json"), "no argument is an option by itself");
        for (value, says) in [
            (json!({ "json": true }), "there is no argument json: expected one of id, function"),
            (json!({ "payload": true }), "there is no argument payload"),
            (json!({ "limit": true }), "limit must be a number, got true"),
            (json!({ "function": [1] }), "function must be a list of strings, got [1]"),
            (json!({ "older_than": null }), "older_than must be a string, got null"),
        ] {
            let refused = line(value).unwrap_err().to_string();
            assert!(refused.starts_with(says), "{refused}");
        }
        let with_payload = Arguments::of(&command, &[]);
        let line = |value| with_payload.line(&given(json!({ "payload": value }))).unwrap();
        assert_eq!(line(true), ["--payload", "--"]);
        assert_eq!(line(false), ["--"]);
    }
}
