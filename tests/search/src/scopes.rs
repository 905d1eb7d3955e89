//! The systems that are searched.

use Kind::{Batch, Delivery, Function, Large, Part, Queue};

use crate::{machine::Millis, streams::BUCKETS, world::SECOND};

/// What a system consists of, and what may happen to it.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    pub name: &'static str,
    pub events: &'static [Kind],
    /// The handlers' settings, beside those that all systems share.
    pub settings: &'static [(&'static str, &'static str)],
    pub limits: Limits,
    /// The handler's time-out, a sixth of the retry queue's visibility timeout.
    pub timeout: Millis,
    /// How many handlers may be at work at a time.
    pub handlers: u8,
    /// Whether a handler may receive both events at once.
    pub batches: bool,
    /// Whether functions fail by naming a record of a batch in their answer.
    pub names: bool,
    /// Whether all events have the same payload.
    pub is_equal: bool,
    pub roots: Roots,
    /// After how many runs a page of them ends, if not only by a fault.
    pub page: Option<usize>,
    /// Whether more messages are in flight than `IN_FLIGHT_MAX` allows.
    pub is_crowded: bool,
    /// Whether the target is known to be down at first, and is slow, so that several runs are under way.
    pub is_down: bool,
    /// Whether two failures never swap their attempts, which is more than is promised.
    pub is_exact: bool,
}

/// The target of an event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    Function,
    /// A queue whose consumer fails.
    Queue,
    /// A function to which EventBridge could not deliver the event.
    Delivery,
    /// A function, and a batch of a stream that its mapping has given up.
    Batch,
    /// A batch that is too large for one invocation, and one of its parts.
    Large,
    Part(usize),
}

/// The roots of the events' traces.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Roots {
    /// Each event has its own.
    Own,
    /// All have the same.
    Equal,
    /// Only the first event has one.
    OneMissing,
    Missing,
}

/// How often each thing may happen.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Limits {
    /// A handler dies, an answer or a call is lost, or time passes while a handler is at work or a message is visible.
    pub faults: u8,
    /// A message is delivered again although a handler has it.
    pub copies: u8,
    /// An operator's order.
    pub orders: u8,
    /// A target fails.
    pub failures: u8,
    /// A dead letter is moved back.
    pub redrives: u8,
}

const NOTHING: Limits = Limits { faults: 0, copies: 0, orders: 0, failures: 0, redrives: 0 };
const LEDGER: (&str, &str) = ("LEDGER_TABLE", "ledger");
const REGISTER: (&str, &str) = ("REGISTER", "true");
const TRANSPARENT: (&str, &str) = ("TRANSPARENT", "true");
const BOUND: (&str, &str) = ("QUEUE_TARGETS", r#"{"retry":["orders"]}"#);
const TWICE: (&str, &str) = ("MAX_ATTEMPTS", "2");
const BASE: Scope = Scope {
    name: "",
    events: &[Function],
    settings: &[LEDGER, TWICE],
    limits: NOTHING,
    timeout: 30 * SECOND,
    handlers: 2,
    batches: false,
    names: false,
    is_equal: false,
    roots: Roots::Own,
    page: None,
    is_crowded: false,
    is_down: false,
    is_exact: false,
};

/// Two events with the same payload, and the fault after which they may swap their attempts.
pub fn swaps() -> Scope {
    Scope {
        name: "a swap",
        events: &[Function, Function],
        settings: &[LEDGER, TRANSPARENT, TWICE, ("BASE_BACKOFF", "5s")],
        limits: Limits { faults: 1, failures: 2, ..NOTHING },
        is_equal: true,
        roots: Roots::Equal,
        is_exact: true,
        ..BASE
    }
}

/// The scopes of every test run take seconds, those of each night minutes.
pub fn scopes(is_whole: bool) -> Vec<Scope> {
    // The second value is that of the whole search.
    let pick = |small: u8, whole: u8| if is_whole { whole } else { small };
    [with_envelopes(pick), undelivered(pick), streams(pick), without_envelopes(pick)].concat()
}

fn with_envelopes(pick: impl Fn(u8, u8) -> u8) -> Vec<Scope> {
    vec![
        Scope {
            name: "without a ledger",
            settings: &[TWICE],
            limits: Limits { faults: pick(1, 2), copies: 1, failures: 2, ..NOTHING },
            ..BASE
        },
        Scope {
            name: "a ledger",
            // The longest time-out, and so the longest leases, within the age of an event.
            settings: &[LEDGER, TWICE, ("MAX_AGE", "1d")],
            timeout: 900 * SECOND,
            limits: Limits { faults: 1, copies: pick(1, 2), failures: pick(1, 2), ..NOTHING },
            ..BASE
        },
        Scope {
            name: "a ledger, two faults",
            limits: Limits { faults: pick(0, 2), copies: 1, failures: pick(0, 1), ..NOTHING },
            ..BASE
        },
        Scope {
            name: "a ledger, until the age is over",
            settings: &[LEDGER, ("MAX_ATTEMPTS", "3"), ("MAX_AGE", "150s")],
            limits: Limits { faults: 1, failures: 3, ..NOTHING },
            ..BASE
        },
        Scope {
            name: "a register and its operator",
            settings: &[LEDGER, REGISTER, TWICE],
            limits: Limits {
                faults: 1,
                copies: pick(0, 1),
                orders: 1,
                failures: pick(0, 1),
                ..NOTHING
            },
            ..BASE
        },
        Scope {
            name: "two events",
            events: &[Function, Queue],
            settings: &[
                LEDGER,
                REGISTER,
                TWICE,
                ("QUEUE_TARGETS", r#"{"retry":["orders","sqs:imports"]}"#),
            ],
            limits: Limits { faults: pick(0, 1), orders: pick(1, 0), ..NOTHING },
            batches: true,
            ..BASE
        },
        Scope {
            name: "a queue's message",
            events: &[Queue],
            settings: &[
                LEDGER,
                TWICE,
                ("QUEUE_TARGETS", r#"{"retry":["sqs:imports"]}"#),
                ("IN_FLIGHT_MAX", "1"),
            ],
            limits: Limits { faults: 1, copies: pick(0, 1), failures: 2, redrives: 1, ..NOTHING },
            is_crowded: true,
            ..BASE
        },
        Scope {
            name: "delays",
            settings: &[LEDGER, REGISTER, TWICE, ("BASE_BACKOFF", "20m"), ("IN_FLIGHT_MAX", "1")],
            limits: Limits {
                faults: 1,
                copies: pick(0, 1),
                orders: pick(0, 1),
                failures: 1,
                ..NOTHING
            },
            is_crowded: true,
            ..BASE
        },
        Scope {
            name: "redrive",
            limits: Limits {
                faults: 1,
                copies: pick(0, 1),
                failures: pick(2, 3),
                redrives: 1,
                ..NOTHING
            },
            ..BASE
        },
        Scope {
            name: "probes",
            events: &[Function, Function],
            settings: &[LEDGER, REGISTER, TWICE, ("PROBE", "true")],
            limits: Limits { faults: pick(0, 1), failures: 1, ..NOTHING },
            is_down: true,
            ..BASE
        },
    ]
}

fn undelivered(pick: impl Fn(u8, u8) -> u8) -> Vec<Scope> {
    vec![
        Scope {
            name: "an event that was never delivered",
            events: &[Delivery],
            settings: &[LEDGER, ("MAX_ATTEMPTS", "1"), ("MAX_AGE", "150s"), BOUND],
            limits: Limits { faults: 1, copies: 1, failures: 2, redrives: 1, ..NOTHING },
            ..BASE
        },
        Scope {
            name: "a delivery and its operator",
            events: &[Delivery],
            settings: &[LEDGER, REGISTER, TWICE, BOUND, ("IN_FLIGHT_MAX", "1")],
            limits: Limits { faults: 1, orders: 1, failures: pick(0, 1), ..NOTHING },
            is_crowded: true,
            ..BASE
        },
    ]
}

fn streams(pick: impl Fn(u8, u8) -> u8) -> Vec<Scope> {
    let batch = Scope { events: &[Batch], settings: &[LEDGER, TWICE, BOUND, BUCKETS], ..BASE };
    vec![
        Scope {
            name: "a batch",
            limits: Limits { faults: 1, copies: pick(0, 1), failures: 2, redrives: 1, ..NOTHING },
            ..batch
        },
        Scope {
            name: "a batch, and an answer that names a record",
            settings: &[LEDGER, REGISTER, TWICE, BOUND, BUCKETS],
            limits: Limits { faults: 1, orders: pick(0, 1), failures: pick(1, 2), ..NOTHING },
            names: true,
            ..batch
        },
        Scope {
            name: "no envelope, an answer that names a record",
            settings: &[LEDGER, TRANSPARENT, TWICE, BOUND, BUCKETS],
            limits: Limits { faults: 1, copies: pick(0, 1), failures: 2, ..NOTHING },
            names: true,
            ..batch
        },
        Scope {
            name: "a batch in parts",
            events: &[Large, Part(0), Part(1)],
            limits: Limits { faults: 1, ..NOTHING },
            roots: Roots::Equal,
            handlers: pick(1, 2),
            ..batch
        },
    ]
}

fn without_envelopes(pick: impl Fn(u8, u8) -> u8) -> Vec<Scope> {
    let equal = Scope {
        events: &[Function, Function],
        // So short that a call may seem to be of a failure that came before it.
        settings: &[LEDGER, TRANSPARENT, TWICE, ("BASE_BACKOFF", "5s")],
        limits: Limits { faults: 1, failures: pick(1, 2), ..NOTHING },
        is_equal: true,
        handlers: pick(1, 2),
        ..BASE
    };
    vec![
        Scope {
            name: "no envelope",
            settings: &[LEDGER, TRANSPARENT, TWICE],
            limits: Limits { faults: 1, copies: pick(0, 1), failures: 2, ..NOTHING },
            ..BASE
        },
        Scope {
            name: "no envelope, two faults",
            settings: &[LEDGER, TRANSPARENT, TWICE],
            limits: Limits { faults: pick(0, 2), failures: pick(1, 2), ..NOTHING },
            ..BASE
        },
        Scope {
            name: "no envelope, a register and its operator",
            settings: &[LEDGER, TRANSPARENT, REGISTER, TWICE],
            limits: Limits { faults: 1, orders: pick(0, 1), failures: 1, ..NOTHING },
            ..BASE
        },
        Scope {
            name: "no envelope, an event that was never delivered",
            events: &[Delivery, Function],
            settings: &[LEDGER, TRANSPARENT, TWICE, BOUND, ("BASE_BACKOFF", "5s")],
            roots: Roots::Equal,
            ..equal
        },
        Scope {
            name: "other payloads, no traces",
            is_equal: false,
            roots: Roots::Missing,
            ..equal
        },
        Scope { name: "equal payloads, own traces", ..equal },
        Scope { name: "equal payloads, equal traces", roots: Roots::Equal, handlers: 2, ..equal },
        Scope { name: "equal payloads, a trace is missing", roots: Roots::OneMissing, ..equal },
        Scope { name: "equal payloads, no traces", roots: Roots::Missing, ..equal },
        Scope {
            name: "equal payloads, short pages",
            roots: Roots::Equal,
            page: Some(1),
            handlers: 1,
            ..equal
        },
    ]
}
