//! A mapping: what lets a function receive from a queue.

use std::time::Duration;

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mapping {
    pub uuid: String,
    pub queue: String,
    /// The ARN of the function, which may be qualified.
    pub function: String,
    /// `Enabled`, `Disabled`, or on the way to one of them.
    pub state: String,
    pub last_result: Option<String>,
    pub batch_size: u32,
    /// The batching window: how long Lambda collects messages for a batch.
    pub window: Duration,
    pub reports_failures: bool,
    pub is_filtered: bool,
}

impl Mapping {
    pub fn is_enabled(&self) -> bool {
        !matches!(self.state.as_str(), "Disabled" | "Disabling" | "Deleting")
    }

    /// The name of the function that receives from the queue.
    pub fn consumer(&self) -> &str {
        self.function.split(':').nth(6).unwrap_or(&self.function)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn mapping_of(uuid: &str, queue: &str, function: &str) -> Mapping {
        Mapping {
            uuid: uuid.to_owned(),
            queue: queue.to_owned(),
            function: function.to_owned(),
            state: "Enabled".to_owned(),
            last_result: None,
            batch_size: 10,
            window: Duration::ZERO,
            reports_failures: true,
            is_filtered: false,
        }
    }
}
