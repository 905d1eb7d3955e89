//! What is wrong for a while: a spell has a beginning and an end.

use std::time::Duration;

/// A trouble and its time, from the beginning of the world.
pub(crate) struct Spell {
    pub(crate) trouble: Trouble,
    pub(crate) from: Duration,
    pub(crate) until: Duration,
}

/// What can be wrong for a while. Numbers are those of the plan.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Trouble {
    /// Every run of a target fails.
    TargetDown { target: usize },
    /// A target fails and works by turns of some minutes.
    TargetFlaps { target: usize },
    /// An operator has set a target's reserved concurrency to 0.
    TargetPaused { target: usize },
    /// A target is gone until somebody deploys it again.
    TargetDeleted { target: usize },
    /// A target has another name from now on.
    TargetRenamed { target: usize },
    /// The handlers may not invoke a target until somebody mends their role.
    AccessDenied { target: usize },
    /// A handler finds no free concurrency.
    HandlerThrottled { handler: usize },
    /// Every batch that a handler is given fails.
    BadDeploy { handler: usize },
    /// A mapping is switched off.
    MappingOff { queue: usize },
    /// A queue has few messages left until its limit of those in flight.
    QueueCrowded { queue: usize },
    /// Every call of every handler is throttled.
    CallsThrottled,
}

impl Trouble {
    /// How long it may last.
    pub(crate) fn longest(self) -> Duration {
        match self {
            Self::TargetDown { .. } | Self::TargetFlaps { .. } => Duration::from_hours(4),
            Self::TargetPaused { .. } | Self::TargetDeleted { .. } | Self::AccessDenied { .. } => {
                Duration::from_hours(3)
            }
            Self::BadDeploy { .. } => Duration::from_hours(1),
            Self::HandlerThrottled { .. } | Self::MappingOff { .. } => Duration::from_mins(30),
            Self::QueueCrowded { .. } => Duration::from_hours(2),
            Self::CallsThrottled => Duration::from_mins(20),
            Self::TargetRenamed { .. } => Duration::MAX,
        }
    }
}
