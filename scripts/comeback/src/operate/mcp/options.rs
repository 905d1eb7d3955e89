//! The options of a server.

use clap::value_parser;

use crate::aws::connect::Connection;

/// The most events of one call, and the most a second.
const EVENTS_MAX: u32 = 1_000;
const RATE_MAX: u32 = 50;

#[derive(Clone, Debug, clap::Args)]
pub struct McpArgs {
    /// Offer the tools that change something: retry now, cancel, pause, resume and redrive.
    ///
    /// Each takes the token of a plan, which holds for ten minutes and one use.
    #[arg(long)]
    pub allow_changes: bool,
    /// Let the tools for dead letters show payloads.
    #[arg(long)]
    pub payload: bool,
    /// The most events that one call lists or changes.
    #[arg(long, value_name = "N", default_value_t = EVENTS_MAX, value_parser = value_parser!(u32).range(1..=i64::from(EVENTS_MAX)))]
    pub max_events: u32,
    /// The most events a second that a call changes.
    #[arg(long, value_name = "N", default_value_t = RATE_MAX, value_parser = value_parser!(u32).range(1..=i64::from(RATE_MAX)))]
    pub max_rate: u32,
    #[command(flatten)]
    pub connection: Connection,
}
