//! The retry quota: a bucket of tokens that all calls of a client share.
//!
//! While a service works, the bucket is full, and every transient fault is retried. While it is down, retries cost
//! more tokens than the few successes return. The bucket is soon empty, and calls end at their first attempt
//! instead of multiplying the load.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::transient::Kind;

/// The capacity of the AWS SDKs' bucket.
const CAPACITY: u32 = 500;

const COST: u32 = 14;

/// The cost of a retry after throttling. It is lower, because a service that throttles still works.
const COST_AFTER_THROTTLING: u32 = 5;

/// The tokens that a success at the first attempt returns.
const REWARD: u32 = 1;

/// The retry quota that all calls of a client share.
///
/// A retry costs 14 tokens, or 5 after throttling. A call that succeeds after a retry returns the cost of its last
/// retry; a call that succeeds at once returns one token. Share a quota by reference or in an `Arc`. It is lock-free.
///
/// These are the costs of the AWS SDKs' standard mode 2.1, which `AWS_NEW_RETRIES_2026=true` turns on (in Rust since
/// aws-config 1.13). Without this setting, the SDK uses version 2.0: 10 tokens after a transient error, 5 after others.
///
/// ```
/// use comeback::{retry::Quota, transient::Kind};
///
/// let quota = Quota::new(18);
/// let spent = quota.spend(Kind::TimedOut);
/// assert_eq!(quota.left(), 4);
/// assert!(quota.spend(Kind::Throttled).is_none(), "too few tokens are left, so the call ends");
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

/// The cost of a retry, which is returned to the [`Quota`] if the retry succeeds.
#[derive(Debug)]
#[must_use = "pass it to `Quota::succeeded` if the retry succeeds, which returns its cost"]
pub struct Spent(u32);

impl Quota {
    /// Creates a full bucket with this many tokens. With fewer than 5, nothing is ever retried.
    pub const fn new(capacity: u32) -> Self {
        Self(Some(Bucket { capacity, left: AtomicU32::new(capacity) }))
    }

    /// Creates a quota that never runs out.
    pub const fn unlimited() -> Self {
        Self(None)
    }

    /// Takes the tokens for a retry after a fault of this kind. Returns `None` if too few are left: then don't
    /// retry.
    pub fn spend(&self, kind: Kind) -> Option<Spent> {
        let Some(bucket) = &self.0 else { return Some(Spent(0)) };
        let cost = match kind {
            Kind::Throttled => COST_AFTER_THROTTLING,
            Kind::TimedOut | Kind::InDoubt | Kind::Unavailable => COST,
        };
        let taken = bucket.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(cost));
        taken.ok().map(|_| Spent(cost))
    }

    /// Returns tokens after a call has succeeded. `spent` is the cost of its last retry, if it was retried.
    pub fn succeeded(&self, spent: Option<Spent>) {
        let Some(bucket) = &self.0 else { return };
        let reward = spent.map_or(REWARD, |Spent(cost)| cost);
        // If the bucket is full, it is only read, so threads whose calls succeed do not contend.
        let _ = bucket.left.fetch_update(Relaxed, Relaxed, |left| {
            (left < bucket.capacity).then(|| left.saturating_add(reward).min(bucket.capacity))
        });
    }

    /// The number of tokens that are left.
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

    use super::*;

    const KINDS: [Kind; 4] = [Kind::Throttled, Kind::TimedOut, Kind::InDoubt, Kind::Unavailable];

    #[test]
    fn no_bucket_overflows_and_an_unlimited_one_never_empties() {
        for quota in [Quota::unlimited(), Quota::new(u32::MAX)] {
            quota.succeeded(None);
            let spent = quota.spend(Kind::Throttled);
            assert!(spent.is_some());
            quota.succeeded(None);
            quota.succeeded(spent);
            assert_eq!(quota.left(), u32::MAX);
        }
        let full = Quota::new(7);
        full.succeeded(None);
        assert_eq!(full.left(), 7);
    }

    #[test]
    fn threads_that_share_a_bucket_neither_overdraw_nor_lose_tokens() {
        let quota = Quota::new(33);
        thread::scope(|scope| {
            for kind in KINDS {
                let quota = &quota;
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        let spent = quota.spend(kind);
                        assert!(quota.left() <= 33);
                        // A success without a retry would return a token that another thread has taken.
                        if spent.is_some() {
                            quota.succeeded(spent);
                        }
                    }
                });
            }
        });
        assert_eq!(quota.left(), 33);
    }
}
