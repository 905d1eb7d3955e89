//! Tests that a call that succeeds at once doesn't allocate memory.
#![allow(clippy::unwrap_used, reason = "a test's expectation")]

use std::{convert::Infallible, hint::black_box, time::Duration};

use allocation_counter::measure;
use comeback::retry::{Deadline, Policy, Quota, Retry};
use futures_util::FutureExt;

#[test]
fn a_call_that_succeeds_at_once_allocates_nothing() {
    let deadline = Deadline::in_(Duration::from_secs(30)).unwrap();
    let plain = Retry::new(Policy::default());
    for retry in [plain.clone(), plain.clone().quota(Quota::unlimited()), plain.adaptive()] {
        let call = || {
            let call = retry.operation("answer").until(deadline);
            let answer = call.run(async || Ok::<_, Infallible>(black_box(42))).now_or_never();
            assert!(matches!(answer, Some(Ok(42))));
        };
        assert_eq!(measure(call).count_total, 0);
    }
}

#[test]
fn the_counter_counts_allocations() {
    assert_eq!(measure(|| drop(black_box(Box::new(42)))).count_total, 1);
}
