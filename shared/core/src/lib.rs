//! The decisions of Comeback's retry handler, as pure functions of values.
//!
//! A message of the retry queue goes through three steps:
//!
//! 1. [`record`] *reads* it: which [`target`] failed, when, why, and with which payload. The payload may be in the
//!    [`envelope`] of an earlier retry; that of a queue's consumer is a [`queued`] message. If the message is only the
//!    [`notice`] of a record in a bucket, the record is read when it was fetched.
//! 2. [`schedule`] plans its next attempt: the ordinal, the due time after a [`backoff`], or the reason why there is
//!    no further attempt.
//! 3. [`decision`] *decides*: wait, retry, or give up. An event that is given up becomes a [`dead_letter`].
//!
//! [`fault`] classifies the errors of AWS. With a ledger, [`claim`] ensures that each failure is acted on once, however
//! often its message is delivered.
//!
//! Nothing here reads a clock, the environment or the network. The same message, settings and time give the same
//! decision on every machine, so a crash between two steps loses nothing.

pub mod arn;
pub mod attribute;
pub mod backoff;
pub mod batch;
pub mod circuit;
pub mod claim;
pub mod dead_letter;
pub mod decision;
pub mod duration;
pub mod emf;
pub mod envelope;
pub mod error_type;
mod failure;
pub mod fault;
pub mod in_flight;
pub mod json;
mod key;
pub mod lineage;
pub mod log_line;
mod message;
pub mod metric;
pub mod notice;
pub mod pattern;
pub mod queued;
pub mod reason;
pub mod record;
pub mod register;
pub mod schedule;
pub mod settings;
pub mod target;
#[cfg(test)]
mod testing;
pub mod time;

pub use backoff::Attempt;
pub use time::Timestamp;
