//! What failed and is tried again: a function, or a queue whose consumer failed.

use std::fmt;

use crate::arn::{FunctionArn, Home, QueueArn};

/// Only the effect of a retry differs: a function is invoked, and a queue is sent its message again.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Target {
    Function(FunctionArn),
    Queue(QueueArn),
}

impl Target {
    pub fn parse(arn: &str) -> Option<Self> {
        let queue = || QueueArn::parse(arn).map(Self::Queue);
        FunctionArn::parse(arn).map(Self::Function).or_else(queue)
    }

    /// Its name in settings and metrics: `orders`, or `sqs:imports`. A function and a queue may have the same name.
    pub fn name(&self) -> &str {
        match self {
            Self::Function(function) => function.name(),
            Self::Queue(queue) => queue.target_name(),
        }
    }

    /// Its ARN; that of a function may have a qualifier.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Function(function) => function.as_str(),
            Self::Queue(queue) => queue.as_str(),
        }
    }

    /// The same target, a function with its version. Some messages name a function without one, and the records of its
    /// later failures have one. So a pause or a circuit is about both.
    pub(crate) fn qualified(self) -> Self {
        match self {
            Self::Function(function) => Self::Function(function.qualified()),
            Self::Queue(queue) => Self::Queue(queue),
        }
    }

    pub(crate) fn is_at(&self, home: &Home) -> bool {
        match self {
            Self::Function(function) => function.is_at(home),
            Self::Queue(queue) => queue.is_at(home),
        }
    }

    pub fn is_queue(&self) -> bool {
        matches!(self, Self::Queue(_))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
