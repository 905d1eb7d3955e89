//! Replaces the live page of `comeback local` in a build without the feature `operate`. All methods do nothing.

use comeback_local::Config;

use crate::{
    activity::Activity,
    journal::Entry,
    shell::{Failure, Shell},
};

/// The line about the page at the start of `comeback local`.
pub const HINT: &str = "It was built without the live page (feature operate).";

/// No page.
pub struct LivePage;

#[allow(
    clippy::unused_self,
    clippy::unused_async,
    clippy::unnecessary_wraps,
    reason = "the same signatures as with a page"
)]
impl LivePage {
    /// Never fails.
    pub fn new(_: &Shell) -> Result<Self, Failure> {
        Ok(Self)
    }

    pub fn configure(&self, config: Config) -> Config {
        config
    }

    pub async fn deployed(&self, _: &str) -> Result<(), Failure> {
        Ok(())
    }

    pub fn observe(&self, _: &[Entry], _: &[Activity]) {}

    pub fn close(&self) {}
}
