//! The plans that tools have made, and the tokens by which a change names its plan.
//!
//! A plan names events by their ids, so a change acts on nothing that came later. It holds for ten minutes and for one
//! use. Before the change, what the plan named is read again: if its digest differs, somebody or something was faster,
//! and the agent has to look again.

use std::{collections::VecDeque, time::Duration};

use comeback_core::{Timestamp, time::later};
use sha2::{Digest as _, Sha256};

/// How long a plan holds.
pub const HOLDS: Duration = Duration::from_mins(10);

/// The most plans that are kept. Nobody has more open, and each may name 1,000 events.
const KEPT_MAX: usize = 64;

/// A digest of what a plan names, in the state in which it was.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of these parts, whose order counts.
    pub fn of(parts: impl IntoIterator<Item: AsRef<[u8]>>) -> Self {
        let mut digest = Sha256::new();
        for part in parts {
            // With its length, so that no two lists of parts are the same bytes.
            digest.update((part.as_ref().len() as u64).to_le_bytes());
            digest.update(part);
        }
        Self(digest.finalize().into())
    }
}

impl AsRef<[u8]> for Digest {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A plan to do some work.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Plan<W> {
    /// The tool that carries it out.
    pub tool: &'static str,
    /// How many events, letters or functions it names.
    pub number: u64,
    pub digest: Digest,
    pub work: W,
}

impl<W> Plan<W> {
    /// The token of this plan: readable, because a person who approves a change sees nothing else of it.
    fn token(&self, random: [u8; 16]) -> String {
        let random = u128::from_be_bytes(random);
        format!("{}-{}-{random:032x}", self.tool, self.number)
    }
}

#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BadToken {
    #[error(
        "this server has made no plan with that token: make a plan, and pass its token as it is"
    )]
    Unknown,
    #[error("the plan with that token is for {0}")]
    OtherTool(&'static str),
    #[error("the plan with that token was carried out, or refused, already: make a new plan")]
    Used,
    #[error("the plan with that token held until {}: make a new plan", comeback_core::time::rfc3339(*.0))]
    Expired(Timestamp),
    #[error(
        "what the plan named has changed since: nothing was done. Look at it again, and make a new plan. While events come back, `plan_pause` keeps them where they are"
    )]
    Changed,
}

impl BadToken {
    /// The name of the failure.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unknown => "token_unknown",
            Self::OtherTool(_) => "token_of_other_tool",
            Self::Used => "token_used",
            Self::Expired(_) => "token_expired",
            Self::Changed => "plan_changed",
        }
    }
}

/// The plans of one server.
#[derive(Debug)]
pub struct Plans<W>(VecDeque<Kept<W>>);

#[derive(Debug)]
struct Kept<W> {
    token: String,
    until: Timestamp,
    tool: &'static str,
    /// None once it was used.
    plan: Option<Plan<W>>,
}

impl<W> Plans<W> {
    pub fn new() -> Self {
        Self(VecDeque::new())
    }

    /// Keeps a plan. Returns its token, and until when it holds.
    pub fn keep(&mut self, plan: Plan<W>, now: Timestamp, random: [u8; 16]) -> (String, Timestamp) {
        if self.0.len() == KEPT_MAX {
            self.0.pop_front();
        }
        let (token, until) = (plan.token(random), later(now, HOLDS));
        let kept = Kept { token: token.clone(), until, tool: plan.tool, plan: Some(plan) };
        self.0.push_back(kept);
        (token, until)
    }

    /// The plan with this token, which can be taken once, by its own tool.
    pub fn take(&mut self, token: &str, tool: &str, now: Timestamp) -> Result<Plan<W>, BadToken> {
        let kept = self.0.iter_mut().find(|kept| kept.token == token).ok_or(BadToken::Unknown)?;
        if kept.tool != tool {
            return Err(BadToken::OtherTool(kept.tool));
        }
        if kept.plan.is_none() {
            return Err(BadToken::Used);
        }
        if now >= kept.until {
            return Err(BadToken::Expired(kept.until));
        }
        kept.plan.take().ok_or(BadToken::Used)
    }
}

#[cfg(test)]
mod tests {
    use comeback_core::time;

    use super::*;

    const RANDOM: [u8; 16] = [1; 16];

    fn at(seconds: u64) -> Timestamp {
        later(time::parse("2026-05-01T12:00:00Z").unwrap(), Duration::from_secs(seconds))
    }

    fn plan(work: u32) -> Plan<u32> {
        Plan { tool: "redrive", number: 3, digest: Digest::of(["a"]), work }
    }

    #[test]
    fn a_token_says_what_and_how_many_and_nobody_can_guess_it() {
        let mut plans = Plans::new();
        let (token, until) = plans.keep(plan(1), at(0), RANDOM);
        assert_eq!(token, "redrive-3-01010101010101010101010101010101");
        assert_eq!(until, at(600));
        let (other, _) = plans.keep(plan(2), at(0), [2; 16]);
        assert_ne!(token, other);
        assert_eq!(plans.take(&other, "redrive", at(1)).unwrap().work, 2);
    }

    #[test]
    fn a_plan_holds_for_ten_minutes_and_one_use_of_its_own_tool() {
        const DAY: u64 = 24 * 60 * 60;
        for (uses, expected) in [
            (vec![("redrive", 0)], Ok(1)),
            (vec![("redrive", 599)], Ok(1)),
            (vec![("redrive", 600)], Err(BadToken::Expired(at(600)))),
            (vec![("redrive", DAY)], Err(BadToken::Expired(at(600)))),
            (vec![("redrive", 1), ("redrive", 2)], Err(BadToken::Used)),
            (vec![("redrive", 1), ("redrive", DAY)], Err(BadToken::Used)),
            (vec![("cancel", 1)], Err(BadToken::OtherTool("redrive"))),
            // The wrong tool does not use it up.
            (vec![("cancel", 1), ("redrive", 2)], Ok(1)),
        ] {
            let mut plans = Plans::new();
            let (token, _) = plans.keep(plan(1), at(0), RANDOM);
            let taken = uses.iter().map(|(tool, second)| plans.take(&token, tool, at(*second)));
            let last = taken.last().unwrap().map(|plan| plan.work);
            assert_eq!(last, expected, "{uses:?}");
        }
    }

    #[test]
    fn a_token_of_another_server_is_unknown() {
        let (token, _) = Plans::new().keep(plan(1), at(0), RANDOM);
        let mut other = Plans::new();
        other.keep(plan(1), at(0), [2; 16]);
        for unknown in [&token[..], "", "redrive-3-"] {
            assert_eq!(other.take(unknown, "redrive", at(1)), Err(BadToken::Unknown), "{unknown}");
        }
    }

    #[test]
    fn only_the_latest_plans_are_kept() {
        let mut plans = Plans::new();
        let tokens: Vec<_> = (0..=KEPT_MAX)
            .map(|nth| plans.keep(plan(1), at(0), (nth as u128).to_be_bytes()).0)
            .collect();
        assert_eq!(plans.take(&tokens[0], "redrive", at(1)), Err(BadToken::Unknown));
        assert!(tokens[1..].iter().all(|token| plans.take(token, "redrive", at(1)).is_ok()));
    }

    #[test]
    fn a_digest_differs_for_other_parts() {
        let of = |parts: &[&str]| Digest::of(parts);
        assert_eq!(of(&["a", "b"]), of(&["a", "b"]));
        for (one, other) in [
            (&["a", "b"][..], &["ab"][..]),
            (&["a", "b"], &["b", "a"]),
            (&["a", ""], &["a"]),
            (&[], &[""]),
        ] {
            assert_ne!(of(one), of(other), "{one:?} {other:?}");
        }
    }
}
