//! How much retrying a client may do: a bucket of tokens that all of its calls share.
//!
//! The numbers are those of the AWS SDKs' standard mode in its version 2.1, which `AWS_NEW_RETRIES_2026=true`
//! turns on (in Rust since aws-config 1.13; aws-smithy-runtime 1.16 has them in `token_bucket_for_spec`). Without
//! it the SDK still has version 2.0: 10 tokens after a transient error, 5 after others.
//!
//! While a service is well, the bucket is full and every fault is retried. While it is down, each retry takes more
//! than the few calls that still succeed bring back; soon the bucket is empty, and calls fail at their first
//! attempt instead of multiplying the load of a service that can't bear it.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::transient::Kind;

/// How many tokens the AWS SDKs' bucket holds.
const CAPACITY: u32 = 500;

/// What a retry costs.
const COST: u32 = 14;

/// What a retry after throttling costs: a service that throttles is well, and says what it can take.
const COST_AFTER_THROTTLING: u32 = 5;

/// What a success without a retry brings back.
const REWARD: u32 = 1;

/// The retries that a client's calls have left between them.
///
/// A retry costs 14 tokens, after throttling 5. A call that succeeds after a retry brings back what its last retry
/// cost; one that succeeds at once brings back a token. These are the costs of the AWS SDKs' standard mode 2.1,
/// which `AWS_NEW_RETRIES_2026` turns on. Shared by reference or in an `Arc`; it never waits for another thread,
/// and a success that finds it full only reads.
///
/// ```
/// use comeback::{retry::Quota, transient::Kind};
///
/// let quota = Quota::new(18);
/// let spent = quota.spend(Kind::TimedOut);
/// assert_eq!(quota.left(), 4);
/// assert!(quota.spend(Kind::Throttled).is_none(), "too little is left: the call ends here");
/// quota.succeeded(spent);
/// assert_eq!(quota.left(), 18);
/// ```
#[derive(Debug)]
pub struct Quota(Option<Bucket>);

#[derive(Debug)]
struct Bucket {
    capacity: u32,
    left: AtomicU32,
}

/// What a retry has cost, to be brought back by its success.
///
/// ```
/// use comeback::{retry::{Quota, Spent}, transient::Kind};
///
/// let quota = Quota::new(14);
/// let spent: Option<Spent> = quota.spend(Kind::TimedOut);
/// assert_eq!(quota.left(), 0);
/// quota.succeeded(spent);
/// assert_eq!(quota.left(), 14);
/// ```
#[derive(Debug)]
#[must_use = "a call that succeeds after its retry brings back what that has cost"]
pub struct Spent(u32);

impl Quota {
    /// A full bucket of this many tokens. Less than 5 allow no retry.
    ///
    /// ```
    /// # use comeback::{retry::Quota, transient::Kind};
    /// assert!(Quota::new(4).spend(Kind::Throttled).is_none());
    /// ```
    pub const fn new(capacity: u32) -> Self {
        Self(Some(Bucket { capacity, left: AtomicU32::new(capacity) }))
    }

    /// A bucket that is never empty.
    ///
    /// ```
    /// # use comeback::{retry::Quota, transient::Kind};
    /// let quota = Quota::unlimited();
    /// assert!(quota.spend(Kind::TimedOut).is_some());
    /// assert_eq!(quota.left(), u32::MAX);
    /// ```
    pub const fn unlimited() -> Self {
        Self(None)
    }

    /// Takes what a retry costs after a fault of this kind. Where the bucket holds less, the call is not to be
    /// retried.
    ///
    /// ```
    /// # use comeback::{retry::Quota, transient::Kind};
    /// let quota = Quota::default();
    /// let spent = quota.spend(Kind::Throttled);
    /// assert!(spent.is_some());
    /// assert_eq!(quota.left(), 495);
    /// ```
    pub fn spend(&self, kind: Kind) -> Option<Spent> {
        let Some(bucket) = &self.0 else { return Some(Spent(0)) };
        let cost = match kind {
            Kind::Throttled => COST_AFTER_THROTTLING,
            Kind::TimedOut | Kind::InDoubt | Kind::Unavailable => COST,
        };
        let taken = bucket.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(cost));
        taken.ok().map(|_| Spent(cost))
    }

    /// Tells of a call that succeeded, and what its last retry had cost, if it was retried.
    ///
    /// ```
    /// # use comeback::{retry::Quota, transient::Kind};
    /// let quota = Quota::default();
    /// let spent = quota.spend(Kind::Unavailable);
    /// quota.succeeded(spent);
    /// assert_eq!(quota.left(), 500);
    /// ```
    pub fn succeeded(&self, spent: Option<Spent>) {
        let Some(bucket) = &self.0 else { return };
        let reward = spent.map_or(REWARD, |Spent(cost)| cost);
        // What a bucket that is full would not keep is not written: threads that succeed don't contend.
        let _ = bucket.left.fetch_update(Relaxed, Relaxed, |left| {
            (left < bucket.capacity).then(|| left.saturating_add(reward).min(bucket.capacity))
        });
    }

    /// How many tokens are left.
    pub fn left(&self) -> u32 {
        self.0.as_ref().map_or(u32::MAX, |bucket| bucket.left.load(Relaxed))
    }
}

/// 500 tokens, as in the AWS SDKs.
impl Default for Quota {
    fn default() -> Self {
        Self::new(CAPACITY)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    const KINDS: [Kind; 4] = [Kind::Throttled, Kind::TimedOut, Kind::InDoubt, Kind::Unavailable];

    #[test]
    fn a_retry_costs_what_it_costs_in_the_sdks_standard_mode_2_1() {
        for (kind, cost, retries) in [
            (Kind::Throttled, 5, 100),
            (Kind::TimedOut, 14, 35),
            (Kind::InDoubt, 14, 35),
            (Kind::Unavailable, 14, 35),
        ] {
            let quota = Quota::default();
            let spent = (0..1000).map_while(|_| quota.spend(kind)).count();
            assert_eq!((spent, quota.left()), (retries, 500 - retries as u32 * cost), "{kind:?}");
        }
    }

    #[test]
    fn an_empty_bucket_is_filled_by_calls_that_succeed_at_once() {
        let quota = Quota::default();
        while quota.spend(Kind::Throttled).is_some() {}
        for _ in 0..4 {
            quota.succeeded(None);
            assert!(quota.spend(Kind::Throttled).is_none());
        }
        quota.succeeded(None);
        assert!(quota.spend(Kind::Throttled).is_some());
    }

    #[test]
    fn only_the_last_retry_of_a_call_is_brought_back() {
        let quota = Quota::default();
        let _first = quota.spend(Kind::TimedOut);
        let last = quota.spend(Kind::Throttled);
        quota.succeeded(last);
        assert_eq!(quota.left(), 486);
    }

    #[test]
    fn a_bucket_without_a_bottom_gives_and_keeps_nothing() {
        let quota = Quota::unlimited();
        for kind in KINDS.repeat(1000) {
            assert!(quota.spend(kind).is_some());
        }
        quota.succeeded(None);
        assert_eq!(quota.left(), u32::MAX);
    }

    #[test]
    fn the_largest_bucket_does_not_overflow() {
        let quota = Quota::new(u32::MAX);
        quota.succeeded(None);
        let spent = quota.spend(Kind::Throttled);
        quota.succeeded(None);
        quota.succeeded(spent);
        assert_eq!(quota.left(), u32::MAX);
    }

    #[test]
    fn threads_that_share_it_never_hold_more_than_there_is_and_lose_nothing() {
        let quota = Quota::new(33);
        thread::scope(|scope| {
            for kind in KINDS {
                let quota = &quota;
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        let spent = quota.spend(kind);
                        assert!(quota.left() <= 33);
                        // A success at once would add to what the others have taken.
                        if spent.is_some() {
                            quota.succeeded(spent);
                        }
                    }
                });
            }
        });
        assert_eq!(quota.left(), 33);
    }

    /// One thing that happens to a client's calls.
    #[derive(Clone, Debug)]
    enum Step {
        Retry(Kind),
        SuccessOf(usize),
        SuccessAtOnce,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            prop::sample::select(&KINDS[..]).prop_map(Step::Retry),
            (0usize..8).prop_map(Step::SuccessOf),
            Just(Step::SuccessAtOnce),
        ]
    }

    proptest! {
        #[test]
        fn the_bucket_holds_what_its_history_leaves(
            capacity in 0u32..60, steps in prop::collection::vec(step(), 0..200),
        ) {
            let quota = Quota::new(capacity);
            let mut expected = capacity;
            let mut open = Vec::new();
            for step in steps {
                match step {
                    Step::Retry(kind) => {
                        let cost = if kind == Kind::Throttled { 5 } else { 14 };
                        let spent = quota.spend(kind);
                        prop_assert_eq!(spent.is_some(), expected >= cost);
                        if let Some(spent) = spent {
                            expected -= cost;
                            open.push((spent, cost));
                        }
                    }
                    Step::SuccessOf(nth) if nth < open.len() => {
                        let (spent, cost) = open.swap_remove(nth);
                        quota.succeeded(Some(spent));
                        expected = capacity.min(expected + cost);
                    }
                    Step::SuccessOf(_) | Step::SuccessAtOnce => {
                        quota.succeeded(None);
                        expected = capacity.min(expected + 1);
                    }
                }
                prop_assert_eq!(quota.left(), expected);
            }
        }

        #[test]
        fn what_is_spent_and_brought_back_balances(kinds in prop::collection::vec(
            prop::sample::select(&KINDS[..]), 0..150,
        )) {
            let quota = Quota::default();
            let spent: Vec<_> = kinds.into_iter().map_while(|kind| quota.spend(kind)).collect();
            let cost: u32 = spent.iter().map(|Spent(cost)| cost).sum();
            prop_assert_eq!(quota.left(), 500 - cost);
            spent.into_iter().for_each(|spent| quota.succeeded(Some(spent)));
            prop_assert_eq!(quota.left(), 500);
        }
    }
}
