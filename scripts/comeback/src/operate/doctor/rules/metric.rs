//! The metrics that the doctor reads.

use std::time::Duration;

use comeback_core::{emf::NAMESPACE, metric};

/// A metric of Lambda or of the handler, both of a function, or of SQS, of a queue.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Metric {
    Lambda(&'static str),
    Handler(metric::Metric),
    Sqs(&'static str),
}

impl Metric {
    /// The period that values cover: the last day.
    pub const PERIOD: Duration = Duration::from_hours(24);
    pub const DELIVERY_FAILURES: Self = Self::Lambda("DestinationDeliveryFailures");
    pub const LOOPS_STOPPED: Self = Self::Lambda("RecursiveInvocationsDropped");
    pub const THROTTLES: Self = Self::Lambda("Throttles");
    pub const ERRORS: Self = Self::Lambda("Errors");
    pub const ASYNC_EVENTS: Self = Self::Lambda("AsyncEventsReceived");
    pub const CONFIGURATION_FAULTS: Self = Self::Handler(metric::Metric::ConfigurationFaults);
    pub const LETTERS_NOT_SENT: Self = Self::Handler(metric::Metric::DeadLettersNotSent);
    pub const INVOKED: Self = Self::Handler(metric::Metric::Invoked);
    /// Each failure that the handler reads has an age, whatever becomes of it.
    pub const EVENT_AGES: Self = Self::Handler(metric::Metric::EventAge);
    pub const OF_TARGET: [Self; 9] = [
        Self::ERRORS,
        Self::ASYNC_EVENTS,
        Self::EVENT_AGES,
        Self::INVOKED,
        Self::DELIVERY_FAILURES,
        Self::LOOPS_STOPPED,
        Self::THROTTLES,
        Self::CONFIGURATION_FAULTS,
        Self::LETTERS_NOT_SENT,
    ];
    pub const OLDEST_MESSAGE: Self = Self::Sqs("ApproximateAgeOfOldestMessage");
    pub const OF_SOURCE: [Self; 2] =
        [Self::Sqs("NumberOfMessagesReceived"), Self::Sqs("NumberOfEmptyReceives")];
    pub const OF_HANDLER: [Self; 3] = [Self::LOOPS_STOPPED, Self::THROTTLES, Self::ERRORS];

    /// The namespace, the name, and the dimension whose value is the function or the queue.
    pub fn place(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Lambda(name) => ("AWS/Lambda", name, "FunctionName"),
            Self::Handler(it) => (NAMESPACE, it.name(), "Target"),
            Self::Sqs(name) => ("AWS/SQS", name, "QueueName"),
        }
    }

    pub fn statistic(self) -> &'static str {
        if self == Self::OLDEST_MESSAGE { "Maximum" } else { "Sum" }
    }
}
