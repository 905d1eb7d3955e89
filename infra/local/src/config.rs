//! The options of a local cloud.

use axum::Router;

use crate::{host::Inherited, model::sqs::IN_FLIGHT_MAX, outage::Outages};

/// Options of the local cloud.
#[derive(Clone, Debug)]
pub struct Config {
    /// The port on 127.0.0.1 to listen on; 0 for any that is free.
    pub port: u16,
    /// How many runs of functions there may be at a time, and how many processes, including those that wait for an
    /// event. AWS gives an account 1,000.
    pub concurrency: u32,
    /// How many messages of a queue may be in flight. SQS's quota is [`IN_FLIGHT_MAX`].
    pub in_flight_max: usize,
    /// The environment variables that functions inherit.
    pub inherited: Inherited,
    /// What answers requests without a signature, which a browser makes.
    pub page: Option<Router>,
    /// The functions that fail for a while instead of running.
    pub outages: Outages,
}

impl Default for Config {
    fn default() -> Self {
        let in_flight_max = IN_FLIGHT_MAX;
        Self {
            port: 0,
            concurrency: 100,
            in_flight_max,
            inherited: Inherited::default(),
            page: None,
            outages: Outages::default(),
        }
    }
}
