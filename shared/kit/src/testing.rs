//! Helpers for tests of functions. A handler that is generic over its store can use `Memory` in a test.

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
