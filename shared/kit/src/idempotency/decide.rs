//! Decides what to do with a request, from the record that was found, the claimant and the time.

use comeback_core::{
    Timestamp,
    claim::{self, Claimant},
};

use super::{Answer, Fingerprint, Record};

/// What to do with a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Action {
    /// Replace the record that was found with this one, then run the operation.
    Claim(Record),
    /// Run the operation. The record that was found is this owner's: the response to its write was lost.
    Run(Record),
    /// The operation was run, with this answer.
    Answer(Answer),
    /// Another owner is running it.
    InProgress {
        /// When that owner's lease ends.
        until: Timestamp,
    },
    /// The key belongs to a request with another intent, whose fingerprint this is.
    Mismatch(Fingerprint),
}

/// Decides what to do. Expired records are ignored. Otherwise the intent is compared first, because a key belongs
/// to one intent whether its operation is running, is done, or was abandoned.
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
            Action::Answer(answer.unwrap_or_else(|| Answer::NotKept("there is none".to_owned())))
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

    /// The decision for this owner and this intent at this second, with a minute left.
    fn decided(owner: &str, intent: &str, found: Option<&Record>, second: u64) -> Action {
        let claimant = Claimant { owner, deadline: secs(second + 60), retention: RETENTION };
        decide(&claimant, Fingerprint::of(intent).unwrap(), found, secs(second))
    }

    fn claimed(owner: &str, found: Option<&Record>, second: u64) -> Record {
        let decision = decided(owner, "charge 7", found, second);
        let Action::Claim(record) = decision else { panic!("expected a claim, got {decision:?}") };
        record
    }

    #[test]
    fn each_record_has_its_decision() {
        let held = claimed("a", None, 0);
        let other = Fingerprint::of("charge 7").unwrap();
        let answer = Answer::Kept("\"paid\"".to_owned());
        let done = held.done(answer.clone(), secs(1000));
        let mute = Record { answer: None, ..done.clone() };
        let until = secs(70);
        let taken_over = claimed("b", Some(&held), 70);
        let after_expiry = claimed("b", Some(&done), 1000);
        let fingerprint = Fingerprint::of("charge 8").unwrap();
        let renamed = Record { fingerprint, ..after_expiry.clone() };
        for (what, found, owner, intent, second, expected) in [
            ("held", &held, "b", "charge 7", 69, Action::InProgress { until }),
            ("lease over", &held, "b", "charge 7", 70, Action::Claim(taken_over.clone())),
            ("its own", &held, "a", "charge 7", 69, Action::Run(held.clone())),
            ("its own of another intent", &held, "a", "charge 8", 69, Action::Mismatch(other)),
            ("held for another intent", &held, "b", "charge 8", 69, Action::Mismatch(other)),
            ("left by another intent", &held, "b", "charge 8", 70, Action::Mismatch(other)),
            ("done", &done, "b", "charge 7", 999, Action::Answer(answer.clone())),
            ("done by itself", &done, "a", "charge 7", 999, Action::Answer(answer)),
            ("done for another intent", &done, "b", "charge 8", 999, Action::Mismatch(other)),
            ("expired", &done, "b", "charge 7", 1000, Action::Claim(after_expiry.clone())),
            ("expired, of another intent", &done, "b", "charge 8", 1000, Action::Claim(renamed)),
            (
                "no answer beside it",
                &mute,
                "b",
                "charge 7",
                999,
                Action::Answer(Answer::NotKept("there is none".to_owned())),
            ),
        ] {
            assert_eq!(decided(owner, intent, Some(found), second), expected, "{what}");
        }
        assert_eq!(taken_over.claim.token.generation, 2);
        assert_eq!((after_expiry.claim.token.generation, after_expiry.answer), (2, None));
        assert!(matches!(after_expiry.claim.state, State::Held { .. }));
    }
}
