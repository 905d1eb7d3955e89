//! The machine's clock.

use std::time::Duration;

use comeback_core::Timestamp;
use comeback_flow::ports::Clock;

/// The time as this machine knows it.
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the one clock of the handler")]
    fn now(&self) -> Timestamp {
        chrono::Utc::now()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}
