//! The events that the live page shows, each with its steps, the latest first.
//!
//! [`Events`] is fed with lines of the handler's log, with entries of the register and, in the local cloud, with the
//! runs of functions. It keeps the latest events.

mod difference;
mod event;
mod events;
mod pulse;
mod standing;

pub use crate::operate::web::rules::{
    difference::{Change, difference, indented},
    event::{Event, EventFilter, State, remedy},
    events::{Events, shared_out},
    pulse::{Counts, PARTS, Pulse, Range},
    standing::Standing,
};
