//! Helpers for tests of functions. A handler that is generic over its store can use `Memory` in a test.
//!
//! ```
//! use std::time::Duration;
//! use comeback::{
//!     Failure,
//!     idempotency::{Idempotency, Memory, Request, Store},
//!     testing,
//! };
//! use lambda_runtime::LambdaEvent;
//!
//! async fn handle<S: Store>(event: LambdaEvent<u32>, once: &Idempotency<S>) -> Result<u32, Failure> {
//!     let request = Request::of_event(&event.payload, &event.context)?;
//!     let add = |_lease| async { Ok::<_, std::io::Error>(event.payload + 1) };
//!     Ok(once.run(&request, add).await?)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // In production, use a `DynamoStore`.
//! let once = Idempotency::new("add", Memory::new())?;
//! let event = LambdaEvent::new(6, testing::context(Duration::from_secs(30)));
//! assert_eq!(handle(event.clone(), &once).await, Ok(7));
//! assert_eq!(handle(event, &once).await, Ok(7), "the operation ran once");
//! # Ok(())
//! # }
//! ```

use std::time::Duration;

use comeback_core::time::later;
use lambda_runtime::Context;

/// Creates the context of an invocation with this much time left. Its request id is `test`.
pub fn context(left: Duration) -> Context {
    let mut context = Context::default();
    "test".clone_into(&mut context.request_id);
    let end = later(crate::now(), left).timestamp_millis();
    context.deadline = end.try_into().unwrap_or_default();
    context
}
