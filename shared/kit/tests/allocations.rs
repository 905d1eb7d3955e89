//! A call that succeeds at once allocates nothing.
#![allow(clippy::unwrap_used, reason = "a test's expectation")]

use std::{
    convert::Infallible,
    hint::black_box,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use allocation_counter::measure;
use comeback::retry::{Deadline, Policy, Quota, Retry};

/// The output of a future that never waits.
fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

#[test]
fn a_call_that_succeeds_at_once_allocates_nothing() {
    let deadline = Deadline::in_(Duration::from_secs(30)).unwrap();
    let plain = Retry::new(Policy::default());
    for retry in [plain.clone(), plain.clone().quota(Quota::unlimited()), plain.adaptive()] {
        let call = || {
            let call = retry.operation("answer").until(deadline);
            let answer = at_once(call.run(async || Ok::<_, Infallible>(black_box(42))));
            assert!(matches!(answer, Some(Ok(42))));
        };
        assert_eq!(measure(call).count_total, 0);
    }
}

#[test]
fn the_counter_counts_allocations() {
    assert_eq!(measure(|| drop(black_box(Box::new(42)))).count_total, 1);
}
