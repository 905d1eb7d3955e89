//! What Comeback decides, as pure functions of values.
//!
//! One failed event lives through this crate in four steps. A message of the retry queue is *read*
//! ([`record`]): which function failed, when, why, and with which payload, be the payload bare or in
//! the [`envelope`] of an earlier retry. Its next attempt is *scheduled* ([`schedule`]): the ordinal,
//! the [`backoff`], the due time, or the reason why there is none. At a given moment that makes a
//! *decision* ([`decision`]): wait, invoke, or give up. What is given up becomes a [`dead_letter`],
//! and what AWS answers to an invocation is [`fault`]'s to judge. Where each failure is to be acted on
//! once, however often its message comes, whoever acts holds a [`claim`]; whether two requests ask for the
//! same is told by their one spelling ([`canonical`]).
//!
//! Nothing here reads a clock, an environment or a network. The same message, settings and time
//! give the same decision on every machine; that is why a crash between two steps loses nothing.

pub mod arn;
pub mod attempt;
pub mod backoff;
mod bad_settings;
pub mod canonical;
pub mod claim;
pub mod dead_letter;
pub mod decision;
pub mod duration;
pub mod emf;
pub mod envelope;
pub mod error_type;
pub mod fault;
mod json;
mod misspelt;
mod pattern;
pub mod policy;
pub mod record;
mod rules;
pub mod schedule;
pub mod settings;
#[cfg(test)]
mod testing;
pub mod time;

pub use attempt::Attempt;
pub use time::Timestamp;
