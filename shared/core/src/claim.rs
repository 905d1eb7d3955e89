//! The claim on a failure: who acts on it, until when, and whether it is done.
//!
//! SQS and Lambda deliver at least once. A failure record that is delivered twice would start two chains of retries. So
//! a claimant claims the failure before it acts on it, in a store that all handlers share (`docs/design/ledger.md`).
//!
//! ```text
//!              claim                     act, then mark
//!   nothing ──────────▶ held by a token ────────────────▶ done ───▶ nothing
//!      ▲                 │           │                         expires
//!      └─────────────────┘           └──▶ held by the next token
//!   release: it did not act          the lease is over: it crashed
//! ```
//!
//! With the register, a waiting event has an item too, under the key of its later claim. The claim replaces that item.
//! An operator's order is written into the item, and stays there until a handler has acted.
//!
//! Every write names the token under which the claim is held, which is a fencing token.

use std::{mem::discriminant, time::Duration};

use crate::{
    Timestamp,
    time::{between, later},
};

/// The largest clock skew between two machines. A lease outlasts its holder by this much, so that a claimant whose
/// clock is ahead does not take over while the holder is still at work.
pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(10);

/// Lambda's longest function timeout.
pub const LIFE_MAX: Duration = Duration::from_mins(15);

/// The longest lease, as seen by a machine whose clock is behind.
pub const LEASE_MAX: Duration = LIFE_MAX.saturating_add(CLOCK_SKEW_MAX.saturating_mul(2));

/// SQS keeps no message for longer.
pub const RETENTION_MAX: Duration = Duration::from_hours(14 * 24);

/// The most attempts to replace a claim that keeps changing. Another handler is then acting on the failure.
pub const LOOKS_MAX: u32 = 3;

/// The fencing token of a claim's holder. No other holder has the same one.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Token {
    /// How many owners the item has had since it was created, counted from 1.
    pub generation: u32,
    /// The unique name of the holder.
    pub owner: String,
}

/// The record of who is acting on a failure, or has acted on it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Claim {
    /// The token of the holder; once it is done, of the last holder.
    pub token: Token,
    pub state: State,
    pub order: Option<Order>,
    /// After this moment the claim counts as absent, even if the store has not removed it yet.
    pub expires_at: Timestamp,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// Something is known of the run, and no handler acts on its failure, if it has failed.
    Noted,
    /// The event waits and is listed in the register, and no handler acts on it.
    Waiting,
    Held {
        /// When the lease ends: by then the holder has ended or died.
        until: Timestamp,
    },
    /// Its holder has acted.
    Done,
}

/// An operator's order for a waiting event.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Order {
    /// Retry it now, before it is due.
    Retry,
    Cancel,
}

/// An invocation that wants to act on a failure.
#[derive(Clone, Copy, Debug)]
pub struct Claimant<'a> {
    pub owner: &'a str,
    /// When Lambda kills it.
    pub deadline: Timestamp,
    /// How long the claim is kept; at least [`LEASE_MAX`].
    pub retention: Duration,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Yes, once this claim has replaced the one that was found.
    Take(Claim),
    /// Yes: the claim that was found is its own, written by a call whose answer was lost.
    Own(Claim),
    /// No: another claimant is at work.
    Held {
        /// When that claimant's lease ends.
        until: Timestamp,
    },
    /// No: another claimant has acted.
    Done,
}

impl Claimant<'_> {
    /// Judges the claim that was found, if there is one.
    pub fn judge(&self, found: Option<&Claim>, now: Timestamp) -> Verdict {
        let Some(found) = found else { return Verdict::Take(self.claim(1, None, now)) };
        if found.is_expired(now) {
            return Verdict::Take(self.claim_after(found, now));
        }
        match found.state {
            State::Noted | State::Waiting => Verdict::Take(self.claim_after(found, now)),
            State::Done => Verdict::Done,
            State::Held { .. } if found.token.owner == self.owner => Verdict::Own(found.clone()),
            // No claimant writes a longer lease than this, unless its clock is wrong.
            State::Held { until } if now < until && between(now, until) <= LEASE_MAX => {
                Verdict::Held { until }
            }
            State::Held { .. } => Verdict::Take(self.claim_after(found, now)),
        }
    }

    fn claim_after(&self, found: &Claim, now: Timestamp) -> Claim {
        let order = found.order.filter(|_| !found.is_expired(now));
        self.claim(found.token.generation.saturating_add(1), order, now)
    }

    fn claim(&self, generation: u32, order: Option<Order>, now: Timestamp) -> Claim {
        let dead_by = self.deadline.min(later(now, LIFE_MAX));
        Claim {
            token: Token { generation, owner: self.owner.to_owned() },
            state: State::Held { until: later(dead_by, CLOCK_SKEW_MAX) },
            order,
            expires_at: later(now, self.retention),
        }
    }
}

impl Claim {
    /// The item of a waiting event, which replaces the claim that was `seen`. An order in that claim is kept.
    pub fn waiting(owner: String, seen: Option<&Self>, expires_at: Timestamp) -> Self {
        let generation = seen.map_or(1, |seen| seen.token.generation.saturating_add(1));
        let ordered = seen.filter(|seen| seen.order.is_some());
        Self {
            token: Token { generation, owner },
            state: State::Waiting,
            order: ordered.and_then(|seen| seen.order),
            expires_at: ordered.map_or(expires_at, |seen| seen.expires_at.max(expires_at)),
        }
    }

    /// The same claim, marked as done.
    pub fn done(&self) -> Self {
        Self { state: State::Done, order: None, ..self.clone() }
    }

    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at <= now
    }

    /// Whether this is the same claim as `other`, in the same state. A store checks this before it replaces a claim.
    pub fn is(&self, other: &Self) -> bool {
        self.token == other.token && discriminant(&self.state) == discriminant(&other.state)
    }
}

/// Whether both are the same claim in the same state, or both are absent.
pub fn is_same(there: Option<&Claim>, seen: Option<&Claim>) -> bool {
    match (there, seen) {
        (Some(there), Some(seen)) => there.is(seen),
        (there, seen) => there.is_none() && seen.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::at;

    fn now() -> Timestamp {
        at("2026-02-01T12:00:00Z")
    }

    fn secs(seconds: u64) -> Timestamp {
        later(now(), Duration::from_secs(seconds))
    }

    fn claimant(owner: &str) -> Claimant<'_> {
        Claimant { owner, deadline: secs(30), retention: RETENTION_MAX }
    }

    fn taken(verdict: Verdict) -> Claim {
        let Verdict::Take(claim) = verdict else { panic!("expected to take it, got {verdict:?}") };
        claim
    }

    #[test]
    fn a_failure_that_nobody_claimed_is_held_for_as_long_as_the_claimant_can_live() {
        let claim = taken(claimant("a").judge(None, now()));
        assert_eq!(claim.token, Token { generation: 1, owner: "a".to_owned() });
        assert_eq!(claim.state, State::Held { until: secs(40) });
        assert_eq!(claim.expires_at, at("2026-02-15T12:00:00Z"));
        let endless = Claimant { deadline: Timestamp::MAX_UTC, ..claimant("a") };
        let claim = taken(endless.judge(None, now()));
        assert_eq!(claim.state, State::Held { until: secs(15 * 60 + 10) });
    }

    #[test]
    fn an_impossibly_long_lease_is_taken_over() {
        let held = |seconds| {
            let claim = taken(claimant("a").judge(None, now()));
            Claim { state: State::Held { until: secs(seconds) }, ..claim }
        };
        let longest = 15 * 60 + 20;
        let verdict = claimant("b").judge(Some(&held(longest)), now());
        assert_eq!(verdict, Verdict::Held { until: secs(longest) });
        let taken_over = taken(claimant("b").judge(Some(&held(longest + 1)), now()));
        assert_eq!(taken_over.token.generation, 2);
    }

    #[test]
    fn an_expired_claim_counts_as_absent_but_the_next_one_has_a_higher_generation() {
        let done = taken(claimant("a").judge(None, now())).done();
        let end = done.expires_at;
        assert_eq!(claimant("b").judge(Some(&done), end - Duration::from_nanos(1)), Verdict::Done);
        let claim = taken(claimant("b").judge(Some(&done), end));
        assert_eq!(claim.token.generation, 2);
        assert!(claim.expires_at > end);
        let ordered =
            Claim { order: Some(Order::Cancel), ..taken(claimant("a").judge(None, now())) };
        assert_eq!(taken(claimant("b").judge(Some(&ordered), end)).order, None);
    }

    /// A claimant whose clock differs from the true time, and that Lambda kills after its life.
    #[derive(Clone, Copy, Debug)]
    struct Skewed {
        skew_ms: i64,
        life: Duration,
        /// When it comes, counted from the death of the claim's holder.
        comes_ms: i64,
    }

    fn skewed() -> impl Strategy<Value = Skewed> {
        let half = CLOCK_SKEW_MAX.as_millis() as i64 / 2;
        let life = prop_oneof![1..=LIFE_MAX.as_secs(), Just(LIFE_MAX.as_secs())];
        let comes_ms = prop_oneof![-2 * half..=2 * half, -2_000_000..2_000_000_i64];
        (-half..=half, life, comes_ms).prop_map(|(skew_ms, life, comes_ms)| Skewed {
            skew_ms,
            life: Duration::from_secs(life),
            comes_ms,
        })
    }

    proptest! {
        /// Any two clocks are at most [`CLOCK_SKEW_MAX`] apart. Each claimant reads the item, judges it and replaces it
        /// with a conditional write, so these are one step here.
        #[test]
        fn at_most_one_living_claimant_holds_a_claim(
            claimants in prop::collection::vec((skewed(), prop::bool::weighted(0.1)), 2..12),
        ) {
            let shifted = |time: Timestamp, ms| time + chrono::TimeDelta::milliseconds(ms);
            let mut stored: Option<Claim> = None;
            let mut holder: Option<(usize, Timestamp)> = None;
            let mut time = now();
            for (nth, (Skewed { skew_ms, life, comes_ms }, marks)) in claimants.into_iter().enumerate() {
                time = time.max(shifted(holder.map_or(time, |(_, dies)| dies), comes_ms));
                let local = |time| shifted(time, skew_ms);
                let dies = later(time, life);
                let owner = nth.to_string();
                let claimant = Claimant { owner: &owner, deadline: local(dies), retention: RETENTION_MAX };
                let verdict = claimant.judge(stored.as_ref(), local(time));
                let Verdict::Take(claim) = verdict else { continue };
                if let Some((other, dies)) = holder {
                    prop_assert!(dies <= time, "{nth} holds it, and so does {other}: {stored:?}");
                }
                let was = stored.as_ref().map_or(0, |claim| claim.token.generation);
                prop_assert!(claim.token.generation > was, "a fencing token grows");
                holder = Some((nth, dies));
                // Some claimants act at once, and end.
                if marks {
                    stored = Some(claim.done());
                    break;
                }
                stored = Some(claim);
            }
            if let Some(done) = stored.filter(|claim| claim.state == State::Done) {
                prop_assert_eq!(claimant("another").judge(Some(&done), time), Verdict::Done);
            }
        }
    }

    #[test]
    fn a_claim_is_the_same_only_in_the_same_state() {
        let held = taken(claimant("a").judge(None, now()));
        let other = taken(claimant("b").judge(None, now()));
        let written_otherwise = Claim { expires_at: secs(1), ..held.clone() };
        assert!(held.is(&held) && held.is(&written_otherwise) && held.done().is(&held.done()));
        assert!(!held.is(&held.done()) && !held.done().is(&held) && !held.is(&other));
        let held = Some(&held);
        assert!(is_same(held, held) && is_same(None, None));
        assert!(!is_same(held, None) && !is_same(None, held) && !is_same(held, Some(&other)));
    }
}
