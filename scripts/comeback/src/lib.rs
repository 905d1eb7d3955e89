//! The parts of `comeback` that the end-to-end tests use too: a client that [`deploy`]s the retry loop into
//! the local cloud, and a reader of its [`journal`]. Both talk to the local cloud over HTTP only.

pub mod deploy;
pub mod journal;
