//! The metrics of the retry handler.

use serde::Serialize;

macro_rules! metrics {
    ($($name:ident, $unit:ident, $statistic:ident, $meaning:literal;)*) => {
        #[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
        pub enum Metric {
            $(#[doc = $meaning] $name,)*
        }

        impl Metric {
            pub const ALL: &[Self] = &[$(Self::$name),*];

            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// Its unit, as CloudWatch calls it.
            pub fn unit(self) -> &'static str {
                match self { $(Self::$name => stringify!($unit),)* }
            }

            /// The statistic that says most about it, as CloudWatch calls it.
            pub fn statistic(self) -> &'static str {
                match self { $(Self::$name => stringify!($statistic),)* }
            }

            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)* }
            }
        }
    };
}

metrics! {
    Waited, Count, Sum, "events that were put back until they are due";
    Invoked, Count, Sum, "retries that Lambda accepted";
    InvokeLateness, Milliseconds, p99, "how long after its due time each retry was accepted";
    EventAge, Seconds, Maximum, "the time since the first failure, of each event that was handled";
    DeadLettered, Count, Sum, "events that were given up, by `Target` and `Reason` ([reasons](reasons.md))";
    DeadLettersNotSent, Count, Sum, "given-up events whose dead letter can't be sent";
    Throttled, Count, Sum, "retries, and reads of records in buckets, that AWS throttled or answered with a server error (5xx)";
    ConfigurationFaults, Count, Sum, "retries, and reads of records in buckets, that AWS refuses until somebody changes something";
    Duplicates, Count, Sum, "failures that were delivered again and dropped; needs a ledger";
    LedgerFaults, Count, Sum, "events for which the ledger could not be used";
    CircuitOpen, Count, Maximum, "1 while the target is down, 0 otherwise, whenever its circuit is read; needs probes";
    Probes, Count, Sum, "retries that test whether the target has recovered; needs probes";
    BroughtForward, Count, Sum, "waiting events brought forward when the target recovered; needs probes and a register";
}
