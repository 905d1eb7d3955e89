//! Arguments of `comeback local`, and the settings of the retry handler among them.
//!
//! The handler does not start with a bad setting. This program rejects it before it deploys anything, by the same rules
//! and with the same messages.

use std::path::PathBuf;

use comeback_core::{
    in_flight::QUOTA,
    settings::{BadSettings, Settings},
};
use comeback_local_client::deploy::DEAD_LETTER_QUEUE_URL;

use crate::{
    dynamodb::{LEDGER, LEDGER_TABLE},
    functions::{self, BinariesArg, FunctionArg, QueueArg, Setting, setting, setting_names},
};

#[derive(Debug, clap::Args)]
pub struct LocalArgs {
    /// The port on 127.0.0.1 to listen on; 0 for any free port.
    #[arg(long, value_name = "N", default_value_t = 4700)]
    pub port: u16,
    /// Run SQS, Lambda and DynamoDB only, deploy nothing.
    #[arg(long, conflicts_with_all = ["binaries", "function", "functions", "queue", "records", "set"])]
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
    /// A bucket whose failure records the handler reads, beside those that come in messages; repeatable.
    ///
    /// Create it in the local cloud, and let it notify the retry queue of a function.
    #[arg(long, value_name = "BUCKET")]
    pub records: Vec<String>,
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

/// The handler's setting with the buckets that it may read.
pub const RECORD_BUCKETS: &str = "RECORD_BUCKETS";

/// A placeholder for the dead-letter queue, which is not deployed yet when settings are checked.
const ANY_QUEUE_URL: &str = "http://127.0.0.1/000000000000/any";

/// The settings with which the handler starts.
pub fn handler_settings(
    given: &[Setting],
    records: &[String],
    has_ledger: bool,
) -> Result<Settings, BadSettings> {
    let given = |name: &str| {
        // If a setting is given more than once, the last value wins.
        let last = given.iter().rev().find(|(given, _)| given == name);
        last.map(|(_, value)| value.clone())
    };
    Settings::from_lookup(|name| match name {
        DEAD_LETTER_QUEUE_URL => Some(ANY_QUEUE_URL.to_owned()),
        LEDGER_TABLE => has_ledger.then(|| LEDGER.to_owned()),
        RECORD_BUCKETS => (!records.is_empty()).then(|| records.join(",")),
        name => given(name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &str) -> Setting {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn settings_are_checked_by_the_rules_of_the_handler() {
        assert_eq!(handler_settings(&[], &[], false).map(drop), Ok(()));
        let last = [pair("JITTER", "some"), pair("JITTER", "none")];
        assert_eq!(handler_settings(&last, &[], false).map(drop), Ok(()));
        let probes = [pair("PROBE", "true")];
        assert_eq!(handler_settings(&probes, &[], true).map(drop), Ok(()));
        assert!(
            handler_settings(&probes, &[], false).unwrap_err().to_string().contains("LEDGER_TABLE")
        );
        let bucket = ["Not a bucket".to_owned()];
        let bad = handler_settings(&[], &bucket, false).unwrap_err().to_string();
        assert!(bad.contains("Not a bucket"), "{bad}");
        let bad = [pair("JITTER", "some"), pair("MAX_AGE", "long")];
        let bad = handler_settings(&bad, &[], false).unwrap_err().to_string();
        assert!(bad.contains("JITTER must be full, equal or none, got \"some\""), "{bad}");
        assert!(bad.contains("MAX_AGE must be a duration"), "{bad}");
    }
}
