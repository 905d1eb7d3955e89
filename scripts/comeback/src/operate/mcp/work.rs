//! The change that a plan stands for, as the tool that makes it needs it.

use comeback_core::claim::Order;

use crate::{
    operate::{
        dead_letters::{queue::QueueOptions, rules as letters},
        options::SystemOptions,
        waiting::rules::Selection,
    },
    typed::Rate,
};

/// The change that a plan stands for.
pub enum Work {
    Order { order: Order, selection: Selection, system: SystemOptions, rate: Rate },
    HoldBack { function: String, system: SystemOptions, is_pause: bool },
    Redrive { selection: letters::Selection, queue: QueueOptions, rate: Rate },
}
