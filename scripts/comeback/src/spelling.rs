//! A name or an id that is typed in another way than the help of its command has it: `waiting orders` means
//! `waiting --function orders`, and `status --function orders` means `status orders`.

use clap::{Arg, ArgAction, Command};

use crate::typed::nearest;

/// The shortest beginning of an id that is not taken for a name.
const ID_MIN: usize = 6;

/// The command line as the help of the command has it. The first word is the program.
pub fn as_in_help(program: &Command, typed: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut command = program;
    let mut typed = typed.into_iter();
    let mut line: Vec<String> = typed.by_ref().take(1).collect();
    while let Some(word) = typed.next() {
        if word == "--" {
            line.push(word);
            break;
        }
        if let Some(option) = word.strip_prefix("--") {
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (option, None),
            };
            match command.get_arguments().find(|it| it.get_long() == Some(name)) {
                None if has_positional(command, name) => {
                    line.extend(value.or_else(|| typed.next()))
                }
                Some(option) if value.is_none() && takes_next(option) => {
                    line.push(word);
                    line.extend(typed.next());
                }
                _ => line.push(word),
            }
        } else if let Some(sub) = command.find_subcommand(&word) {
            command = sub;
            line.push(word);
        } else {
            line.push(positional(command, word));
        }
    }
    line.extend(typed);
    line
}

/// Whether the option's value is the next word.
fn takes_next(option: &Arg) -> bool {
    let has_value = matches!(option.get_action(), ArgAction::Set | ArgAction::Append);
    has_value && !option.is_require_equals_set()
}

/// Whether the argument is what commands take as `--function` or `--id`.
fn is_of(argument: &Arg, option: &str) -> bool {
    let kind = match option {
        "function" => "FUNCTION",
        "id" => "ID",
        _ => return false,
    };
    argument.get_value_names().is_some_and(|names| names.iter().any(|name| name.contains(kind)))
}

/// Whether the command takes without an option what others take with this one.
fn has_positional(command: &Command, option: &str) -> bool {
    command.get_positionals().any(|argument| is_of(argument, option))
}

/// A word that is no option: as it is, or with the option that the command has for it.
fn positional(command: &Command, word: String) -> String {
    let has = |option| {
        command.get_arguments().any(|it| it.get_long() == Some(option) && is_of(it, option))
    };
    let subcommands = command.get_subcommands().map(Command::get_name);
    if word.starts_with('-')
        || command.get_positionals().next().is_some()
        || nearest(&word, subcommands).is_some()
    {
        return word;
    }
    match () {
        () if is_id(&word) && has("id") => format!("--id={word}"),
        () if has("function") => format!("--function={word}"),
        () => word,
    }
}

/// Whether it looks like the beginning of a request id or a message id.
fn is_id(word: &str) -> bool {
    let is_of_id = |c: u8| c == b'-' || c.is_ascii_digit() || matches!(c, b'a'..=b'f');
    word.len() >= ID_MIN && word.bytes().all(is_of_id) && word.bytes().any(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Args;

    #[test]
    fn a_name_and_an_id_may_be_typed_with_and_without_their_options() {
        let program = Args::command();
        for (typed, expected) in [
            ("waiting orders", "waiting --function=orders"),
            ("waiting cancel orders --yes", "waiting cancel --function=orders --yes"),
            ("waiting retry-now 6f5e4d3c", "waiting retry-now --id=6f5e4d3c"),
            ("waiting --error Down orders", "waiting --error Down --function=orders"),
            ("waiting --local orders", "waiting --local --function=orders"),
            ("dead redrive 6f5e4d3c-1", "dead redrive --id=6f5e4d3c-1"),
            ("dead list sqs:imports", "dead list --function=sqs:imports"),
            ("status --function orders", "status orders"),
            ("status --function=orders --json", "status orders --json"),
            ("doctor --function orders", "doctor orders"),
            ("trace --id 6f5e4d3c", "trace 6f5e4d3c"),
            ("pause --function orders", "pause orders"),
            // Clap's own messages about these are better.
            ("local orders", "local orders"),
            ("waiting retrynow", "waiting retrynow"),
            ("waiting --colour", "waiting --colour"),
            ("dead lst", "dead lst"),
            ("dead export letters.json", "dead export letters.json"),
            ("status -- --function", "status -- --function"),
            ("mcp orders", "mcp orders"),
        ] {
            let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(as_in_help(&program, words(&format!("comeback {typed}"))), {
                words(&format!("comeback {expected}"))
            });
        }
    }
}
