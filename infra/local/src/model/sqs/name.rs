//! Queue names.

use std::{borrow::Borrow, fmt, sync::Arc};

use super::error::SqsError;
use crate::model::arn::is_name;

/// The longest name of a queue, in characters.
const QUEUE_NAME_MAX: usize = 80;

/// A queue's name: up to 80 letters, digits, hyphens and underscores.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueName(Arc<str>);

impl QueueName {
    pub fn new(name: &str) -> Result<Self, SqsError> {
        if name.ends_with(".fifo") {
            let reason = "This local cloud has standard queues only, no FIFO queues.";
            return Err(SqsError::UnsupportedOperation(reason.to_owned()));
        }
        if is_name(name, QUEUE_NAME_MAX) {
            return Ok(Self(name.into()));
        }
        let reason = format!(
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to {QUEUE_NAME_MAX} in length"
        );
        Err(SqsError::invalid("QueueName", name, reason))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Borrow<str> for QueueName {
    fn borrow(&self) -> &str {
        &self.0
    }
}
