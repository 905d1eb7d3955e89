//! The system clock.

use std::time::Duration;

use comeback_core::Timestamp;
use comeback_flow::ports::Clock;

/// The system clock, as a port.
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
