//! The parts of `comeback` that the end-to-end tests use too: a client that [`deploy`]s the retry loop into
//! the local cloud, and readers of its [`journal`] and of its [`dead_letters`]. All of them use only HTTP.

pub mod dead_letters;
pub mod deploy;
pub mod journal;
