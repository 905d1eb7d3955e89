//! What a plan is to do, as the tool that carries it out needs it.

use comeback_core::claim::Order;

use crate::operate::{
    dead_letters::{queue::QueueOptions, rules as letters},
    options::SystemOptions,
    waiting::rules::Selection,
};

/// What a plan is to do.
pub enum Work {
    Order { order: Order, selection: Selection, system: SystemOptions, rate: u32 },
    HoldBack { function: String, system: SystemOptions, is_pause: bool },
    Redrive { selection: letters::Selection, queue: QueueOptions, rate: f64 },
}
