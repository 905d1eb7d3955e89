//! Tests of the plans for a function, for its records in a bucket and its streams, for a queue and for what delivers
//! events, and of refusals.

mod deliveries;
mod functions;
mod queues;
mod records;
mod streams;

use crate::{account::queue::QueueAttributes, operate::attach::rules::facts::RetryQueue};

const HOME: &str = "us-east-1:123456789012";

fn queue(name: &str) -> RetryQueue {
    RetryQueue {
        arn: format!("arn:aws:sqs:{HOME}:{name}"),
        url: format!("https://sqs.us-east-1.amazonaws.com/123456789012/{name}"),
        attributes: QueueAttributes::default(),
    }
}

const DEAD: &str = "https://sqs.us-east-1.amazonaws.com/123456789012/dead";
