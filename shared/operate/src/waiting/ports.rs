//! What the commands need of AWS.

use comeback_core::{Timestamp, claim::Order, register::Entry};

use crate::ports::{Clock, Fault};

/// SQS changes the visibility of this many messages in one call.
pub const SHOWN_MAX: usize = 10;

/// A part of the register. Different parts have different events.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Partition {
    /// The events of the function with this ARN, by their due times.
    Target(String),
    /// The nth of so many parts of all events, in no order.
    Segment(u16, u16),
}

/// A page of a part.
#[derive(Debug)]
pub struct Page<C> {
    /// Its events.
    pub events: Vec<Entry>,
    /// Where the next page begins, if there is one.
    pub next: Option<C>,
}

/// The register of events that wait, and their messages.
pub trait Register {
    /// Where a page begins.
    type Cursor: Clone;

    /// The clock by which events are due.
    type Clock: Clock;

    /// That clock.
    fn clock(&self) -> &Self::Clock;

    /// A page of a part: its first one, or the one that begins there.
    fn page(
        &self,
        part: &Partition,
        from: Option<Self::Cursor>,
    ) -> impl Future<Output = Result<Page<Self::Cursor>, Fault>>;

    /// Writes an order for the event with this id, and keeps it until then. Returns the event as it is then, or `None`
    /// if it doesn't wait any longer.
    fn order(
        &self,
        id: &str,
        order: Order,
        keep_until: Timestamp,
    ) -> impl Future<Output = Result<Option<Entry>, Fault>>;

    /// Makes at most [`SHOWN_MAX`] messages of a queue visible at once, and returns an answer for each, in order. A
    /// message that is no longer in flight under its handle needs nothing: it has come back already, and the handler
    /// finds the order.
    fn show(
        &self,
        queue_url: &str,
        receipt_handles: &[&str],
    ) -> impl Future<Output = Vec<Result<(), Fault>>>;
}
