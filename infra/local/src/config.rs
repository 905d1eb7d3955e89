//! The options of a local cloud.

use axum::Router;

use crate::{inherited::Inherited, model::sqs::IN_FLIGHT_MAX, outages::Outages};

#[derive(Clone, Debug)]
pub struct Config {
    /// The port on 127.0.0.1 to listen on. 0 takes a free one.
    pub port: u16,
    /// The limit of concurrent runs of functions, and of environments, including idle ones. AWS's default for an
    /// account is 1,000.
    pub concurrency: u32,
    /// The limit of messages in flight in a queue. SQS's quota is [`IN_FLIGHT_MAX`].
    pub in_flight_max: usize,
    pub inherited: Inherited,
    /// The router for requests without a signature, such as those of a browser.
    pub page: Option<Router>,
    /// The router for requests to DynamoDB, which the local cloud itself does not have.
    pub dynamodb: Option<Router>,
    pub outages: Outages,
    /// Whether the processes of a function are stopped between events, as on AWS.
    pub freeze: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            port: 0,
            concurrency: 100,
            in_flight_max: IN_FLIGHT_MAX,
            inherited: Inherited::default(),
            page: None,
            dynamodb: None,
            outages: Outages::default(),
            freeze: false,
        }
    }
}
