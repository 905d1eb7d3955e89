//! `comeback local` without the commands for operators has no page.

use comeback_local::Config;

use crate::{
    happening::Happening,
    journal::Entry,
    shell::{Failure, Shell},
};

/// What the first lines say of the page.
pub const HINT: &str = "It was built without the live page (feature operate).";

/// Nobody watches.
pub struct Watched;

#[allow(
    clippy::unused_self,
    clippy::unused_async,
    clippy::unnecessary_wraps,
    reason = "the same as with a page"
)]
impl Watched {
    /// Never fails.
    pub fn new(_: &Shell) -> Result<Self, Failure> {
        Ok(Self)
    }

    /// Changes nothing.
    pub fn configure(&self, config: Config) -> Config {
        config
    }

    /// Changes nothing.
    pub async fn deployed(&self, _: &str) -> Result<(), Failure> {
        Ok(())
    }

    /// Changes nothing.
    pub fn happened(&self, _: &[Entry], _: &[Happening]) {}

    /// Changes nothing.
    pub fn close(&self) {}
}
