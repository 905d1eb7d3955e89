//! The metrics of the retry handler.

use serde::Serialize;

macro_rules! metrics {
    ($($name:ident, $unit:ident, $meaning:literal;)*) => {
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

            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)* }
            }
        }
    };
}

metrics! {
    Waited, Count, "events that were put back until they are due";
    Invoked, Count, "retries that Lambda accepted";
    InvokeLateness, Milliseconds, "how long after its due time each retry was accepted";
    EventAge, Seconds, "the time since the first failure, of each event that was handled";
    DeadLettered, Count, "events that were given up, by `Target` and `Reason` ([reasons](reasons.md))";
    DeadLettersNotSent, Count, "given-up events whose dead letter can't be sent";
    Throttled, Count, "retries that Lambda throttled, or answered with a server error (5xx)";
    ConfigurationFaults, Count, "retries that Lambda refuses until somebody changes something";
    Duplicates, Count, "failures that were delivered again and dropped; needs a ledger";
    LedgerFaults, Count, "events for which the ledger could not be used";
    CircuitOpen, Count, "1 while the target is down, 0 otherwise, whenever its circuit is read; needs probes";
    Probes, Count, "retries that test whether the target has recovered";
    BroughtForward, Count, "waiting events that were brought forward because the target has recovered";
}
