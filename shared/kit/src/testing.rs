//! What the tests of a function need.

use std::time::Duration;

use comeback_core::time::later;
use lambda_runtime::Context;

use crate::clock;

/// The context of an invocation that has so much time left; its request id is `test`.
///
/// ```
/// use std::time::Duration;
/// use comeback::{Failure, retry::Deadline, testing};
/// use lambda_runtime::LambdaEvent;
///
/// async fn handle(event: LambdaEvent<u32>) -> Result<u32, Failure> {
///     Deadline::of(&event.context)?;
///     Ok(event.payload + 1)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let context = testing::context(Duration::from_secs(30));
/// assert_eq!(handle(LambdaEvent::new(6, context)).await, Ok(7));
///
/// let pressed = testing::context(Duration::from_secs(3));
/// assert!(handle(LambdaEvent::new(6, pressed)).await.is_err());
/// # }
/// ```
pub fn context(left: Duration) -> Context {
    let mut context = Context::default();
    "test".clone_into(&mut context.request_id);
    let end = later(clock::now(), left).timestamp_millis();
    context.deadline = end.try_into().unwrap_or_default();
    context
}
