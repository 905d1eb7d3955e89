//! Arguments of `comeback demo`.

use std::time::Duration;

use crate::{functions::BinariesArg, typed::duration};

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

/// In a shorter outage the upstream would be back before the first events fail.
const OUTAGE_MIN: Duration = Duration::from_secs(1);

/// Nobody would watch a longer outage.
const OUTAGE_MAX: Duration = Duration::from_hours(1);

fn outage(text: &str) -> Result<Duration, String> {
    duration(text)
        .ok()
        .filter(|outage| (OUTAGE_MIN..=OUTAGE_MAX).contains(outage))
        .ok_or_else(|| "expected a duration from 1s to 1h, such as 8, 90s or 2m".to_owned())
}
