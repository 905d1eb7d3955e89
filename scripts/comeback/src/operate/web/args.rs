//! The command line of `comeback web`.

use std::time::Duration;

use crate::operate::options::{SystemOptions, duration};

/// Options of `comeback web`.
#[derive(Debug, clap::Args)]
pub struct WebArgs {
    /// The port on 127.0.0.1 to listen on; 0 for any free port.
    #[arg(long, value_name = "N", default_value_t = 4780)]
    pub port: u16,
    /// How much of the handler's log is read at the start.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    pub since: Duration,
    #[command(flatten)]
    pub system: SystemOptions,
}
