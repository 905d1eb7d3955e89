//! How much retrying a client may do: a bucket of tokens that all of its calls share, as in the AWS SDKs'
//! standard mode.
//!
//! While a service is well, the bucket is full and every fault is retried. While it is down, each retry
//! takes more than the few calls that still succeed bring back; soon the bucket is empty, and calls fail at
//! their first attempt instead of multiplying the load of a service that can't bear it.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::transient::Kind;

/// How many tokens the AWS SDKs' bucket holds.
const CAPACITY: u32 = 500;

/// What a retry costs.
const COST: u32 = 5;

/// What a retry after a time-out costs: the attempt before it has held the service up for long.
const COST_AFTER_TIMEOUT: u32 = 10;

/// What a success without a retry brings back.
const REWARD: u32 = 1;

/// The retries that a client's calls have left between them.
///
/// A retry costs 5 tokens, after a time-out 10. A call that succeeds after a retry brings back what its last
/// retry cost; one that succeeds at once brings back a token. Shared by reference or in an `Arc`; it never
/// waits for another thread, and a success that finds it full only reads.
///
/// ```
/// use comeback::{retry::Quota, transient::Kind};
///
/// let quota = Quota::new(12);
/// let spent = quota.spend(Kind::TimedOut);
/// assert_eq!(quota.left(), 2);
/// assert!(quota.spend(Kind::Throttled).is_none(), "too little is left: the call ends here");
/// quota.succeeded(spent);
/// assert_eq!(quota.left(), 12);
/// ```
#[derive(Debug)]
pub struct Quota(Option<Bucket>);

#[derive(Debug)]
struct Bucket {
    capacity: u32,
    left: AtomicU32,
}

/// What a retry has cost, to be brought back by its success.
#[derive(Debug)]
#[must_use = "a call that succeeds after its retry brings back what that has cost"]
pub struct Spent(u32);

impl Quota {
    /// A full bucket of this many tokens. Less than 5 allow no retry.
    ///
    /// ```
    /// # use comeback::{retry::Quota, transient::Kind};
    /// assert!(Quota::new(4).spend(Kind::Unavailable).is_none());
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

    /// Takes what a retry costs after a fault of this kind. Where the bucket holds less, the call is not
    /// to be retried.
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
            Kind::TimedOut => COST_AFTER_TIMEOUT,
            Kind::Throttled | Kind::Unavailable => COST,
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
