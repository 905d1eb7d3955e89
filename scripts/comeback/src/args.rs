//! The command line.

use clap::{Parser, Subcommand};

use crate::demo::args::DemoArgs;
#[cfg(feature = "operate")]
use crate::{local::args::LocalArgs, operate::Operate};

const AFTER_HELP: &str = "\
Exit codes:
  0    success
  1    the command found a problem, refused, or did not do all that was asked; it changed nothing
       unless it says so
  2    the command line is wrong
  130  Ctrl-C stopped it; what is done is done, and the command says what is left

Example: comeback demo";

/// Retry failed asynchronous Lambda invocations.
///
/// `local` and `demo` run the whole system on this machine: the real functions, with SQS and Lambda on
/// 127.0.0.1. Nothing leaves this machine, and nothing remains when a command ends.
#[derive(Debug, Parser)]
#[command(name = "comeback", version, after_help = AFTER_HELP)]
pub struct Args {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run SQS, Lambda and DynamoDB on this machine, with the retry loop deployed in them.
    ///
    /// Prints the endpoint, the queues and AWS CLI commands to try, then a journal of what happens, until
    /// Ctrl-C. The AWS CLI and every AWS SDK can use the endpoint, with any credentials.
    ///
    /// The runtime of a function may be provided.*, python3.* or nodejs*.x. The last two use the interpreter in
    /// PATH with AWS's runtime client, which may also be in COMEBACK_RUNTIMES [default: ~/.comeback/runtimes].
    ///
    /// Nothing is stored: all events are discarded at the end. The functions of --function and --functions are
    /// deployed at every start.
    #[command(
        after_help = "Example: comeback local --set MAX_BACKOFF=10s --function orders=target/lambda/orders --queue imports=orders"
    )]
    #[cfg(feature = "operate")]
    Local(LocalArgs),
    /// Watch events fail, wait, come back and succeed, or be given up.
    ///
    /// Sends events to functions whose upstream is down for some seconds, and shows what happens to each: in a
    /// terminal as a table, in a pipe as one line per step. The exit code is 0 if every event succeeded or was
    /// given up as it should, and 1 if not.
    #[command(after_help = "Example: comeback demo --events 60 --outage 15")]
    Demo(DemoArgs),
    /// The commands for operators.
    #[cfg(feature = "operate")]
    #[command(flatten)]
    Operate(Box<Operate>),
    /// Any other command, which this build leaves out.
    #[cfg(not(feature = "operate"))]
    #[command(external_subcommand)]
    Other(Vec<String>),
}

/// How to get a command that this build leaves out.
#[cfg(not(feature = "operate"))]
pub fn left_out(command: &[String]) -> String {
    let name = command.first().map_or("", String::as_str);
    format!(
        "scripts/demo has built this program without the command {name}: scripts/local builds all of it, and \
         `cargo install --locked --path scripts/comeback` installs it"
    )
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_of_the_command_line_is_valid() {
        Args::command().debug_assert();
    }

    #[test]
    fn the_usage_of_a_script_lists_every_option_of_its_command() {
        for (command, usage) in
            [("demo", include_str!("../../demo")), ("local", include_str!("../../local"))]
        {
            let mut program = Args::command();
            program.build();
            let command = program.find_subcommand(command).unwrap();
            for option in command.get_arguments().filter_map(|argument| argument.get_long()) {
                let told = usage.contains(&format!("#     --{option} ")) || option == "help";
                assert!(told, "--{option} is not in\n{usage}");
            }
        }
    }

    #[test]
    fn a_bad_argument_is_refused_with_what_is_expected() {
        for (line, part) in [
            ("comeback", "Usage: comeback <COMMAND>"),
            ("comeback demo --events 0", "0 is not in 1..=500"),
            ("comeback demo --outage 2h", "expected a duration from 1s to 1h"),
            ("comeback demo --seed x", "invalid value 'x' for '--seed <N>'"),
            ("comeback local --port 70000", "70000 is not in 0..=65535"),
            ("comeback local --set JITTER", "expected NAME=VALUE"),
            ("comeback local --set NOISE=1", "expected one of BASE_BACKOFF"),
            ("comeback local --empty --set JITTER=none", "cannot be used with"),
            ("comeback local --empty --binaries .", "cannot be used with"),
            ("comeback local --empty --function a=.", "cannot be used with"),
            ("comeback local --empty --functions a.json", "cannot be used with"),
            ("comeback local --function a", "expected NAME=CODE"),
            ("comeback local --queue a=", "expected NAME=FUNCTION"),
            ("comeback local --empty --queue a", "cannot be used with"),
            ("comeback local --max-processes 1", "1 is not in 2..=1000"),
        ] {
            let refused = Args::try_parse_from(line.split_whitespace());
            let complaint = refused.map(drop).unwrap_err().to_string();
            assert!(complaint.contains(part), "{line}: {complaint}");
        }
    }
}
