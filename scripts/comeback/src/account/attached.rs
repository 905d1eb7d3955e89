//! What is attached to a retry handler.

/// A function that sends its failures to a retry queue, or a queue that is bound to one.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Attached {
    /// The function's ARN with the qualifier, as in failure records; that of the queue.
    pub arn: String,
    pub queue_arn: String,
    /// Of a queue: the names of the functions that receive from it, and whether their mappings are enabled.
    pub consumers: Vec<(String, bool)>,
}

impl Attached {
    pub fn of(arn: String, queue_arn: String) -> Self {
        Self { arn, queue_arn, consumers: Vec::new() }
    }
}
