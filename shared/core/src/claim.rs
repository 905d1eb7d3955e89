//! The claim on a failure: who acts on it, until when, and whether it is done.
//!
//! SQS delivers at least once, and so does Lambda: one failure's record may come twice, and each would
//! start a chain of retries of its own. Whoever is to act on a failure therefore claims it first, in a
//! store that all handlers share and that knows one operation: to replace a claim if it is still the
//! one that was seen.
//!
//! ```text
//!              claim                     act, then mark
//!   nothing ──────────▶ held by a token ────────────────▶ done ───▶ nothing
//!      ▲                 │           │                         expires
//!      └─────────────────┘           └──▶ held by the next token
//!   release: it did not act          the lease is over: it crashed
//! ```
//!
//! The token fences: every write of a claimant names the token that it was given, so one that comes back
//! after its lease can neither mark nor release what another holds by then.

use std::{mem::discriminant, time::Duration};

use crate::{
    Timestamp,
    time::{between, later},
};

/// How far apart the clocks of two machines are taken to be: a lease holds for so much longer than the
/// claimant lives, so that nobody whose clock is ahead takes over from a claimant at work.
pub const CLOCKS_APART_MAX: Duration = Duration::from_secs(10);

/// Lambda kills a function after this time, whatever its deadline is said to be.
pub const LIFE_MAX: Duration = Duration::from_mins(15);

/// The longest lease there is, as a machine may see it whose clock is behind.
pub const LEASE_MAX: Duration = LIFE_MAX.saturating_add(CLOCKS_APART_MAX.saturating_mul(2));

/// How often a claim that changes under a claimant's eyes is looked at, at most: whoever changes it is at
/// work.
pub const LOOKS_MAX: u32 = 3;

/// The name of one holding of a claim; no two are the same.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Token {
    /// How many have taken it over since it was free, and its first holder; counted from 1.
    pub generation: u32,
    /// Whoever holds it, by a name that nobody else has.
    pub owner: String,
}

/// What is known of a failure that somebody acts on, or has acted on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Claim {
    /// Who holds it, or held it when it was done.
    pub token: Token,
    /// Whether it is done.
    pub state: State,
    /// From then on it is as if there were none, whether or not the store has removed it.
    pub expires_at: Timestamp,
}

/// How far a claim has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// Its holder is at work.
    Held {
        /// When the holder is surely dead if it has not said otherwise.
        until: Timestamp,
    },
    /// Its holder has acted.
    Done,
}

/// One who wants to act on a failure.
#[derive(Clone, Copy, Debug)]
pub struct Claimant<'a> {
    /// Its name, which no other claimant has.
    pub owner: &'a str,
    /// When it will be killed, if it has not ended.
    pub deadline: Timestamp,
    /// How long its claim is to be remembered; at least [`LEASE_MAX`].
    pub kept: Duration,
}

/// Whether a claimant may act.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It may, once this claim is written in place of the one that was found.
    Take(Claim),
    /// It may: the claim that was found is its own, written by a call whose answer was lost.
    Own(Claim),
    /// Another is at work.
    Held {
        /// When its lease is over.
        until: Timestamp,
    },
    /// Another has acted.
    Done,
}

impl Claimant<'_> {
    /// Judges the claim that was found, if there is one.
    pub fn judge(&self, found: Option<&Claim>, now: Timestamp) -> Verdict {
        let Some(found) = found else { return Verdict::Take(self.claim(1, now)) };
        if found.is_expired(now) {
            return Verdict::Take(self.claim_after(found, now));
        }
        match found.state {
            State::Done => Verdict::Done,
            State::Held { .. } if found.token.owner == self.owner => Verdict::Own(found.clone()),
            // No claimant writes a longer lease: who did has another clock, or is no claimant.
            State::Held { until } if now < until && between(now, until) <= LEASE_MAX => {
                Verdict::Held { until }
            }
            State::Held { .. } => Verdict::Take(self.claim_after(found, now)),
        }
    }

    fn claim_after(&self, found: &Claim, now: Timestamp) -> Claim {
        self.claim(found.token.generation.saturating_add(1), now)
    }

    fn claim(&self, generation: u32, now: Timestamp) -> Claim {
        let dead_by = self.deadline.min(later(now, LIFE_MAX));
        Claim {
            token: Token { generation, owner: self.owner.to_owned() },
            state: State::Held { until: later(dead_by, CLOCKS_APART_MAX) },
            expires_at: later(now, self.kept),
        }
    }
}

impl Claim {
    /// This claim when its holder has acted.
    pub fn done(&self) -> Self {
        Self { state: State::Done, ..self.clone() }
    }

    /// Whether it is as if there were none.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at <= now
    }

    /// Whether this is the `other` claim and as far: what a store compares before it replaces one.
    pub fn is(&self, other: &Self) -> bool {
        self.token == other.token && discriminant(&self.state) == discriminant(&other.state)
    }
}

/// Whether a store still has what was `seen`, or has what was written: the same claim, or none.
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

    const KEPT: Duration = Duration::from_hours(14 * 24);

    fn now() -> Timestamp {
        at("2026-02-01T12:00:00Z")
    }

    fn secs(seconds: u64) -> Timestamp {
        later(now(), Duration::from_secs(seconds))
    }

    fn claimant(owner: &str) -> Claimant<'_> {
        Claimant { owner, deadline: secs(30), kept: KEPT }
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
    fn each_claim_that_is_found_has_its_verdict() {
        let held = taken(claimant("a").judge(None, now()));
        let until = secs(40);
        let next = |at| taken(claimant("b").judge(Some(&held), at)).token;
        let second = Token { generation: 2, owner: "b".to_owned() };
        assert_eq!(claimant("b").judge(Some(&held), now()), Verdict::Held { until });
        assert_eq!(
            claimant("b").judge(Some(&held), until - Duration::from_nanos(1)),
            Verdict::Held { until }
        );
        assert_eq!(next(until), second, "the lease is over");
        assert_eq!(claimant("a").judge(Some(&held), now()), Verdict::Own(held.clone()));
        assert_eq!(claimant("a").judge(Some(&held), until), Verdict::Own(held.clone()));
        assert_eq!(claimant("b").judge(Some(&held.done()), secs(86_400)), Verdict::Done);
        assert_eq!(claimant("a").judge(Some(&held.done()), now()), Verdict::Done);
    }

    #[test]
    fn a_lease_that_nobody_could_have_written_holds_nobody_back() {
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
    fn what_is_expired_is_as_good_as_absent_but_for_its_generation() {
        let done = taken(claimant("a").judge(None, now())).done();
        let end = done.expires_at;
        assert_eq!(claimant("b").judge(Some(&done), end - Duration::from_nanos(1)), Verdict::Done);
        let claim = taken(claimant("b").judge(Some(&done), end));
        assert_eq!(claim.token.generation, 2);
        assert!(claim.expires_at > end);
    }

    #[test]
    fn a_claim_is_itself_only_while_it_is_as_far() {
        let held = taken(claimant("a").judge(None, now()));
        let other = taken(claimant("b").judge(None, now()));
        let written_otherwise = Claim { expires_at: secs(1), ..held.clone() };
        assert!(held.is(&held) && held.is(&written_otherwise) && held.done().is(&held.done()));
        assert!(!held.is(&held.done()) && !held.done().is(&held) && !held.is(&other));
        let held = Some(&held);
        assert!(is_same(held, held) && is_same(None, None));
        assert!(!is_same(held, None) && !is_same(None, held) && !is_same(held, Some(&other)));
    }

    /// What a claimant does next in the property below.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Claim,
        Mark,
        Release,
    }

    proptest! {
        /// Claimants with clocks up to 5 s off come and go in any order over a store that compares and
        /// replaces. Nobody is let in while another lives or after one is done, and no late one
        /// undoes anything.
        #[test]
        fn at_most_one_holds_a_claim_and_what_is_done_stays_done(
            steps in proptest::collection::vec(
                (0usize..4, 0u64..20_000, prop_oneof![Just(Step::Claim), Just(Step::Mark), Just(Step::Release)]),
                1..60,
            ),
            offsets in proptest::array::uniform4(0u64..5_000),
        ) {
            let mut store: Option<Claim> = None;
            let mut held: [Option<(Claim, Timestamp)>; 4] = Default::default();
            let mut time = now();
            for (round, (who, pause_ms, step)) in steps.into_iter().enumerate() {
                time = later(time, Duration::from_millis(pause_ms));
                let clock = later(time, Duration::from_millis(offsets[who]));
                let own = held[who].clone();
                match (step, own) {
                    (Step::Claim, None) => {
                        let owner = format!("{who} in round {round}");
                        let deadline = later(clock, Duration::from_secs(30));
                        let verdict = Claimant { owner: &owner, deadline, kept: KEPT }.judge(store.as_ref(), clock);
                        if let Verdict::Take(claim) = verdict {
                            let dead_at = later(time, Duration::from_secs(30));
                            let alive = held.iter().flatten().find(|(_, dead_at)| time < *dead_at);
                            prop_assert!(alive.is_none(), "{:?} is at work", alive);
                            let was_done = store.as_ref().is_some_and(|old| old.state == State::Done);
                            prop_assert!(!was_done, "it is done");
                            store = Some(claim.clone());
                            held[who] = Some((claim, dead_at));
                        }
                    }
                    (Step::Mark | Step::Release, Some((claim, dead_at))) => {
                        // One that is late believes that it still holds the claim.
                        held[who] = None;
                        let unchanged = store.as_ref().is_some_and(|there| there.is(&claim));
                        prop_assert!(unchanged || time >= dead_at, "a lease ended early");
                        if unchanged {
                            store = matches!(step, Step::Mark).then(|| claim.done());
                        }
                    }
                    (Step::Claim, Some(_)) | (Step::Mark | Step::Release, None) => {}
                }
                let lease = |claim: &Claim| match claim.state {
                    State::Held { until } => between(time, until),
                    State::Done => Duration::ZERO,
                };
                let longest = Duration::from_secs(30 + 5) + CLOCKS_APART_MAX;
                prop_assert!(store.as_ref().map_or(Duration::ZERO, lease) <= longest, "nobody waits for ever");
            }
        }
    }
}
