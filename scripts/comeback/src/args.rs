//! The command line, and the settings of the retry handler on it.
//!
//! The handler does not start with a bad setting. This program rejects it before it deploys anything, by the same rules
//! and with the same messages.

use std::{path::PathBuf, time::Duration};

use clap::{Parser, Subcommand};
use comeback_core::{
    duration,
    in_flight::QUOTA,
    settings::{BadSettings, Settings},
};

use crate::{
    deploy::DEAD_LETTER_QUEUE_URL,
    dynamodb::{LEDGER, LEDGER_TABLE},
    functions::{self, FunctionArg, QueueArg, Setting, setting, setting_names},
};

/// Retry failed asynchronous Lambda invocations.
///
/// `local` and `demo` run the whole system on this machine: the real functions, with SQS and Lambda on
/// 127.0.0.1. Nothing leaves this machine, and nothing remains when a command ends.
#[derive(Debug, Parser)]
#[command(name = "comeback", version, after_help = "Example: comeback demo")]
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
    Local(LocalArgs),
    /// Watch events fail, wait, come back and succeed, or be given up.
    ///
    /// Sends events to functions whose upstream is down for some seconds, and shows what happens to each: in a
    /// terminal as a table, in a pipe as one line per step. The exit code is 0 if every event succeeded or was
    /// given up as it should, and 1 if not.
    #[command(after_help = "Example: comeback demo --events 60 --outage 15")]
    Demo(DemoArgs),
    /// The commands for operators.
    #[command(flatten)]
    Operate(Box<crate::operate::Operate>),
}

#[derive(Debug, clap::Args)]
pub struct LocalArgs {
    /// The port on 127.0.0.1 to listen on; 0 for any free port.
    #[arg(long, value_name = "N", default_value_t = 4700)]
    pub port: u16,
    /// Run SQS, Lambda and DynamoDB only, deploy nothing.
    #[arg(long, conflicts_with_all = ["binaries", "function", "functions", "queue", "set"])]
    pub empty: bool,
    /// A setting of the retry handler, such as BASE_BACKOFF=2s; repeatable [default: its own].
    #[arg(
        long,
        value_name = "NAME=VALUE",
        value_parser = setting,
        long_help = format!(
            "A setting of the retry handler, such as BASE_BACKOFF=2s; repeatable [default: its own].\n\nSettings are \
             {}. REGISTER and PROBE need the ledger.",
            setting_names().join(", ")
        )
    )]
    pub set: Vec<Setting>,
    /// A function of your own, whose failed events are retried; repeatable.
    ///
    /// CODE is a folder with an executable `bootstrap`, a zip of one, or a command with its arguments,
    /// such as 'python3 -m awslambdaric app.handler'. A command is split at spaces and started in the
    /// working directory.
    #[arg(long, value_name = "NAME=CODE", value_parser = functions::parse)]
    pub function: Vec<FunctionArg>,
    /// A JSON file of functions, with time-outs in seconds and environment variables.
    ///
    /// {"NAME": {"code": "CODE", "timeout": 30, "environment": {"NAME": "VALUE"}}}. Only "code" is
    /// required; a folder or a zip may have a "runtime" and a "handler". Paths and commands are relative
    /// to the file's folder.
    #[arg(long, value_name = "FILE")]
    pub functions: Option<PathBuf>,
    /// A queue whose messages come back after its consumer failed; repeatable.
    ///
    /// FUNCTION is one of --function or --functions, and becomes the queue's consumer, with partial batch responses.
    /// Without it, the consumer is a program of your own that receives from the queue.
    #[arg(long, value_name = "NAME[=FUNCTION]", value_parser = functions::parse_queue)]
    pub queue: Vec<QueueArg>,
    /// The maximum number of concurrent function processes.
    ///
    /// An event without a process waits, as on AWS when an account's concurrency is used up: first a second, then
    /// twice as long each time. Processes of the retry handler count too.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub max_processes: u32,
    /// The maximum number of messages in flight, per queue.
    ///
    /// At this limit a queue delivers nothing, as in SQS. The handler's IN_FLIGHT_MAX becomes five sixths of it, unless
    /// --set sets IN_FLIGHT_MAX.
    #[arg(long, value_name = "N", default_value_t = QUOTA, value_parser = clap::value_parser!(u32).range(1..))]
    pub in_flight_max: u32,
    /// Stop the processes of functions between events, as Lambda does.
    #[arg(long)]
    pub freeze: bool,
    /// Deploy the handler without a ledger, so without a register of waiting events.
    ///
    /// By default it has both, in the local cloud's own DynamoDB, with REGISTER=true unless --set sets REGISTER.
    #[arg(long, conflicts_with = "empty")]
    pub no_ledger: bool,
    /// Keep the ledger in another DynamoDB on this machine, such as DynamoDB Local.
    #[arg(long, value_name = "URL", conflicts_with_all = ["empty", "no_ledger"])]
    pub ledger: Option<String>,
    #[command(flatten)]
    pub binaries: BinariesArg,
}

#[derive(Debug, clap::Args)]
pub struct DemoArgs {
    /// How many events to send.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=500))]
    pub events: u16,
    /// How long the upstream is down, in seconds, or as 90s, 2m.
    #[arg(long, value_name = "DURATION", default_value = "8", value_parser = outage)]
    pub outage: Duration,
    /// Decides the order in which events are sent. Backoffs differ in every run.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub binaries: BinariesArg,
}

/// The folder of Comeback's own binaries.
#[derive(Debug, clap::Args)]
pub struct BinariesArg {
    /// The folder of the binaries retry-handler and example-target [default: those in this program].
    #[arg(long = "binaries", id = "binaries", value_name = "DIR")]
    pub folder: Option<PathBuf>,
}

/// In a shorter outage the upstream would be back before the first events fail.
const OUTAGE_MIN: Duration = Duration::from_secs(1);
/// Nobody would watch a longer outage.
const OUTAGE_MAX: Duration = Duration::from_hours(1);

fn outage(text: &str) -> Result<Duration, String> {
    duration::parse(text)
        .filter(|outage| (OUTAGE_MIN..=OUTAGE_MAX).contains(outage))
        .ok_or_else(|| "expected a duration from 1s to 1h, such as 8, 90s or 2m".to_owned())
}

/// A placeholder for the dead-letter queue, which is not deployed yet when settings are checked.
const ANY_QUEUE_URL: &str = "http://127.0.0.1/000000000000/any";

/// Checks whether the handler would start with these settings.
pub fn check_settings(settings: &[Setting], has_ledger: bool) -> Result<(), BadSettings> {
    let given = |name: &str| {
        // If a setting is given more than once, the last value wins.
        let last = settings.iter().rev().find(|(given, _)| given == name);
        last.map(|(_, value)| value.clone())
    };
    Settings::from_lookup(|name| match name {
        DEAD_LETTER_QUEUE_URL => Some(ANY_QUEUE_URL.to_owned()),
        LEDGER_TABLE => has_ledger.then(|| LEDGER.to_owned()),
        name => given(name),
    })
    .map(drop)
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

    fn pair(name: &str, value: &str) -> Setting {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn settings_are_checked_by_the_rules_of_the_handler() {
        assert_eq!(check_settings(&[], false), Ok(()));
        let last = [pair("JITTER", "some"), pair("JITTER", "none")];
        assert_eq!(check_settings(&last, false), Ok(()));
        let probes = [pair("PROBE", "true")];
        assert_eq!(check_settings(&probes, true), Ok(()));
        assert!(check_settings(&probes, false).unwrap_err().to_string().contains("LEDGER_TABLE"));
        let bad = [pair("JITTER", "some"), pair("MAX_AGE", "long")];
        let bad = check_settings(&bad, false).unwrap_err().to_string();
        assert!(bad.contains("JITTER must be full, equal or none, got \"some\""), "{bad}");
        assert!(bad.contains("MAX_AGE must be a duration"), "{bad}");
    }
}
