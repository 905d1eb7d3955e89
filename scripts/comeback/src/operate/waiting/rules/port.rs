//! The register of waiting events, as the commands need it.

use comeback_core::{Timestamp, claim::Order, lineage::Key, register::Entry};

use crate::account::fault::{Answer, Clock};

/// The maximum number of messages whose visibility SQS changes in one call.
pub const SHOWN_MAX: usize = 10;

/// A part of the register that is read separately from the others.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Partition {
    /// The events of the function with this ARN, by due time.
    Target(String),
    /// A segment of all events, in no order: its index, and the number of segments.
    Segment(u16, u16),
}

#[derive(Debug)]
pub struct Page<C> {
    pub events: Vec<Entry>,
    pub next: Option<C>,
}

pub trait Register: Clock {
    type Cursor: Clone;

    /// The first page of a partition, or the one that starts at `from`.
    fn page(
        &self,
        part: &Partition,
        from: Option<Self::Cursor>,
    ) -> impl Future<Output = Answer<Page<Self::Cursor>>>;

    /// Writes an order for the event with this key, which is kept until `keep_until`. Returns the updated event, or
    /// `None` if it no longer waits.
    fn order(
        &self,
        key: &Key,
        order: Order,
        keep_until: Timestamp,
    ) -> impl Future<Output = Answer<Option<Entry>>>;

    /// Makes at most [`SHOWN_MAX`] messages of a queue visible immediately, and returns a result for each, in order. A
    /// message that is no longer in flight under its handle is a success: it has already come back, and the handler
    /// finds the order.
    fn show(
        &self,
        queue_url: &str,
        receipt_handles: &[&str],
    ) -> impl Future<Output = Vec<Answer<()>>>;
}
