//! The overhead of a retry around a call that succeeds at once.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]
#![allow(clippy::unwrap_used, reason = "the measured call succeeds and never waits")]

use std::{convert::Infallible, hint::black_box, sync::Arc, time::Duration};

use comeback::{
    retry::{Deadline, Policy, Quota, Retry},
    transient::Kind,
};
use criterion::{Criterion, criterion_group, criterion_main};
use futures_util::FutureExt;

async fn answer() -> Result<u32, Infallible> {
    Ok(black_box(42))
}

/// Runs a future that never waits. A runtime would add its own cost to all figures.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().unwrap()
}

fn success_at_once(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("success at once");
    group.bench_function("bare", |bencher| bencher.iter(|| at_once(answer())));

    let retry = Retry::new(Policy::default());
    group.bench_function("retry", |bencher| {
        bencher.iter(|| at_once(retry.operation("answer").run(answer)));
    });
    let deadline = Deadline::in_(Duration::from_hours(1)).unwrap();
    group.bench_function("retry until a deadline", |bencher| {
        bencher.iter(|| at_once(retry.operation("answer").until(deadline).run(answer)));
    });
    let quota = Arc::new(Quota::default());
    let retry = Retry::new(Policy::default()).quota(Arc::clone(&quota));
    group.bench_function("retry with a quota that is used", |bencher| {
        bencher.iter(|| {
            // A full quota is not written to, so this call spends from it first. Its cost is measured too.
            let _ = black_box(quota.spend(Kind::TimedOut));
            at_once(retry.operation("answer").until(deadline).run(answer))
        });
    });
    let retry = Retry::new(Policy::default()).adaptive();
    group.bench_function("retry at an adaptive rate", |bencher| {
        bencher.iter(|| at_once(retry.operation("answer").until(deadline).run(answer)));
    });
    group.finish();
}

criterion_group!(benches, success_at_once);
criterion_main!(benches);
