//! Decides how to handle a request, from the record in the store, the claimant and the time.

use comeback_core::{
    Timestamp,
    claim::{self, Claimant},
};

use super::{Answer, Fingerprint, Record};

/// How to handle a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Action {
    /// Replace the stored record with this one, then run the operation.
    Claim(Record),
    /// Run the operation. The stored record is this owner's own: the response to its write was lost.
    Run(Record),
    /// Return this answer: the operation is done.
    Answer(Answer),
    /// Another owner is running the operation.
    InProgress {
        /// When that owner's lease ends.
        until: Timestamp,
    },
    /// The key belongs to a request with another intent, which has this fingerprint.
    Mismatch(Fingerprint),
}

/// Decides how to handle a request. Expired records are ignored. Otherwise the intent is compared first, because a
/// key belongs to one intent, whether its operation is running, is done, or was abandoned.
pub(super) fn decide(
    claimant: &Claimant<'_>,
    fingerprint: Fingerprint,
    found: Option<&Record>,
    now: Timestamp,
) -> Action {
    let other = found.filter(|record| record.fingerprint != fingerprint);
    if let Some(other) = other.filter(|record| !record.claim.is_expired(now)) {
        return Action::Mismatch(other.fingerprint);
    }
    let record = |claim| Record { claim, fingerprint, answer: None };
    match claimant.judge(found.map(|record| &record.claim), now) {
        claim::Verdict::Take(claim) => Action::Claim(record(claim)),
        claim::Verdict::Own(claim) => Action::Run(record(claim)),
        claim::Verdict::Held { until } => Action::InProgress { until },
        claim::Verdict::Done => {
            let answer = found.and_then(|record| record.answer.clone());
            Action::Answer(answer.unwrap_or_else(|| Answer::NotKept("none is stored".to_owned())))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use comeback_core::{claim::State, time::later};

    use super::*;

    const RETENTION: Duration = Duration::from_hours(24);

    fn secs(seconds: u64) -> Timestamp {
        later("2026-02-01T12:00:00Z".parse().unwrap(), Duration::from_secs(seconds))
    }

    /// The action for this owner and this intent at this second, with a minute left.
    fn action(owner: &str, intent: &str, found: Option<&Record>, second: u64) -> Action {
        let claimant = Claimant { owner, deadline: secs(second + 60), retention: RETENTION };
        decide(&claimant, Fingerprint::of(intent).unwrap(), found, secs(second))
    }

    fn claimed(owner: &str, found: Option<&Record>, second: u64) -> Record {
        let action = action(owner, "charge 7", found, second);
        let Action::Claim(record) = action else { panic!("expected a claim, got {action:?}") };
        record
    }

    #[test]
    fn each_record_has_its_decision() {
        let held = claimed("a", None, 0);
        let other = Fingerprint::of("charge 7").unwrap();
        let answer = Answer::Kept("\"paid\"".to_owned());
        let done = held.done(answer.clone(), secs(1000));
        let without_answer = Record { answer: None, ..done.clone() };
        let until = secs(70);
        let taken_over = claimed("b", Some(&held), 70);
        let after_expiry = claimed("b", Some(&done), 1000);
        let fingerprint = Fingerprint::of("charge 8").unwrap();
        let renamed = Record { fingerprint, ..after_expiry.clone() };
        for (case, found, owner, intent, second, expected) in [
            ("held", &held, "b", "charge 7", 69, Action::InProgress { until }),
            ("lease over", &held, "b", "charge 7", 70, Action::Claim(taken_over.clone())),
            ("own record", &held, "a", "charge 7", 69, Action::Run(held.clone())),
            ("own record of another intent", &held, "a", "charge 8", 69, Action::Mismatch(other)),
            ("held for another intent", &held, "b", "charge 8", 69, Action::Mismatch(other)),
            ("abandoned by another intent", &held, "b", "charge 8", 70, Action::Mismatch(other)),
            ("done", &done, "b", "charge 7", 999, Action::Answer(answer.clone())),
            ("done by the same owner", &done, "a", "charge 7", 999, Action::Answer(answer)),
            ("done for another intent", &done, "b", "charge 8", 999, Action::Mismatch(other)),
            ("expired", &done, "b", "charge 7", 1000, Action::Claim(after_expiry.clone())),
            ("expired, of another intent", &done, "b", "charge 8", 1000, Action::Claim(renamed)),
            (
                "done without an answer",
                &without_answer,
                "b",
                "charge 7",
                999,
                Action::Answer(Answer::NotKept("none is stored".to_owned())),
            ),
        ] {
            assert_eq!(action(owner, intent, Some(found), second), expected, "{case}");
        }
        assert_eq!(taken_over.claim.token.generation, 2);
        assert_eq!((after_expiry.claim.token.generation, after_expiry.answer), (2, None));
        assert!(matches!(after_expiry.claim.state, State::Held { .. }));
    }
}
