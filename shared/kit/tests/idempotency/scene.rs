//! One charge of a card, which the tests repeat.

use comeback::idempotency::{Error, Idempotency, Request, Store};

use super::{Clock, Declined, charges};

/// A charge over a store, and its clock.
pub struct Scene<S> {
    pub clock: Clock,
    pub once: Idempotency<S>,
}

impl<S: Store> Scene<S> {
    pub fn new(store: S) -> Self {
        let clock = Clock::new();
        Self { once: charges(store, &clock), clock }
    }

    pub fn request(&self, intent: &str) -> Request {
        Request::new("card 4711", intent, &self.clock.context("request")).unwrap()
    }

    /// Charges, unless that was done before.
    pub async fn charge(&self, answer: &str) -> Result<String, Error<Declined>> {
        let request = self.request("charge 100");
        self.once.run(&request, async |_| Ok(answer.to_owned())).await
    }

    pub async fn decline(&self) -> Result<String, Error<Declined>> {
        self.once.run(&self.request("charge 100"), async |_| Err(Declined)).await
    }

    /// Repeats a charge that must not run again.
    pub async fn repeat(&self) -> Result<String, Error<Declined>> {
        let request = self.request("charge 100");
        self.once.run(&request, async |_| unreachable!("it was run before")).await
    }
}
