//! A client of the local cloud, over HTTP: it [`deploy`]s the retry loop, and reads the [`journal`] and
//! [`dead_letters`].

pub mod dead_letters;
pub mod deploy;
pub mod journal;
