//! Whether every event ended as it should.
//!
//! What should be is the cast's; what is, is what runs, queues and dead letters show. An event that
//! succeeded and has a dead letter, or came back with other bytes than it was sent with, is as wrong as
//! one that was lost.

use comeback_core::time::between;
use comeback_local::journal::Ending;
use serde_json::Value;

use super::{
    cast::{ASKED_FOR, CAPPED_ATTEMPTS, Part, Role},
    evidence::{DeadLetter, Evidence},
    story::{Life, Standing, Step, Story, Turn},
};

/// What is not as it should be, a line for each.
pub fn faults(cast: &[Role], story: &Story, evidence: &Evidence) -> Vec<String> {
    let mut faults = Vec::new();
    for (role, life) in cast.iter().zip(&story.lives) {
        let letters: Vec<_> = evidence.dead_letters.iter().filter(|l| belongs(l, role)).collect();
        let found = fate(role, life, &letters).err().into_iter().chain(bytes(role, life, &letters));
        faults.extend(found.map(|fault| format!("{}: {fault}", role.name)));
    }
    for letter in &evidence.dead_letters {
        if !cast.iter().any(|role| belongs(letter, role)) {
            let (reason, body) = (letter.reason(), &letter.body);
            faults.push(format!("a dead letter of no event, {reason}: {body}"));
        }
    }
    if evidence.retry_queue > 0 {
        faults.push(format!("{} messages are left in the retry queue", evidence.retry_queue));
    }
    faults
}

fn belongs(letter: &DeadLetter, role: &Role) -> bool {
    let body: Option<Value> = serde_json::from_str(&letter.body).ok();
    body.is_some_and(|body| body["id"] == *role.name)
}

/// Whether the event ended as its part wants it.
fn fate(role: &Role, life: &Life, letters: &[&DeadLetter]) -> Result<(), String> {
    let expected = role.part.given_up_for();
    match (expected, life.standing(), letters) {
        (None, Standing::Succeeded, []) => on_the_way(role.part, life),
        (Some(reason), Standing::GivenUp, [letter]) => {
            let attempts = if role.part == Part::AlwaysFails { CAPPED_ATTEMPTS } else { 0 };
            if letter.reason() != reason.as_str() {
                Err(format!("expected the reason {reason}, got {}", letter.reason()))
            } else if letter.attempts() != Some(attempts) {
                Err(format!("expected {attempts} attempts, got {:?}", letter.attempts()))
            } else {
                Ok(())
            }
        }
        (expected, standing, letters) => {
            let expected = match expected {
                None => "that it succeeds, without a dead letter".to_owned(),
                Some(reason) => format!("one dead letter, {reason}"),
            };
            let standing = match standing {
                Standing::Unsent => "it is not sent",
                Standing::Running => "it is still running",
                Standing::Waiting => "it is still waiting",
                Standing::Succeeded => "it succeeded",
                Standing::GivenUp => "it was given up",
            };
            let reasons: Vec<_> = letters.iter().map(|letter| letter.reason()).collect();
            let letters = match reasons.as_slice() {
                [] => "it has no dead letter".to_owned(),
                reasons => format!("it has dead letters: {}", reasons.join(", ")),
            };
            Err(format!("expected {expected}, got: {standing}, {letters}"))
        }
    }
}

/// Whether what the part is there to show has happened before the success.
fn on_the_way(part: Part, life: &Life) -> Result<(), String> {
    let ended = |how: Ending| {
        life.steps
            .iter()
            .any(|step| matches!(step.what, Turn::Failed { ending, .. } if ending == how))
    };
    let (shown, what) = match part {
        Part::Crashes => (ended(Ending::Crashed), "that it crashes first"),
        Part::TimesOut => (ended(Ending::TimedOut), "that it is killed at its time-out first"),
        Part::RateLimited => (waited_as_asked(&life.steps), "that it waits as long as it asks for"),
        Part::Paused => {
            let turned_away = life.steps.iter().any(|step| step.what == Turn::TurnedAway);
            (turned_away, "that it is turned away first")
        }
        // A slow machine may run an order for the first time when the upstream is back.
        Part::Order | Part::Invalid | Part::AlwaysFails => return Ok(()),
    };
    if shown { Ok(()) } else { Err(format!("expected {what}, got none of that")) }
}

fn waited_as_asked(steps: &[Step]) -> bool {
    let failed = steps.iter().find(|step| matches!(step.what, Turn::Failed { .. }));
    let again = steps.iter().find(|step| matches!(step.what, Turn::Started { attempt: 1, .. }));
    failed.zip(again).is_some_and(|(failed, again)| between(failed.at, again.at) >= ASKED_FOR)
}

/// Whether every run and every dead letter had the very bytes that were sent.
fn bytes(role: &Role, life: &Life, letters: &[&DeadLetter]) -> Option<String> {
    let given = life.steps.iter().filter_map(|step| match &step.what {
        Turn::Started { payload, .. } => Some(&**payload),
        Turn::Sent
        | Turn::Failed { .. }
        | Turn::Succeeded { .. }
        | Turn::TurnedAway
        | Turn::Waits { .. }
        | Turn::GivenUp { .. } => None,
    });
    let mut all = given.chain(letters.iter().map(|letter| letter.body.as_str()));
    let other = all.find(|bytes| *bytes != role.payload)?;
    Some(format!("expected it to come back as it was sent, {}, got {other}", role.payload))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        demo::testing::{at, decides, ends, fails, starts, story},
        happening::{Decision, Error, Happening, What},
    };

    fn role(name: &str, part: Part) -> Role {
        Role {
            name: name.to_owned(),
            part,
            function: "example-target",
            payload: format!("{{\"id\":\"{name}\"}}"),
            sent_after: Duration::ZERO,
        }
    }

    fn letter(name: &str, reason: &str, attempts: &str) -> DeadLetter {
        let attributes = [("Reason", reason), ("Attempts", attempts)];
        DeadLetter {
            body: format!("{{\"id\":\"{name}\"}}"),
            attributes: attributes.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        }
    }

    /// What is wrong with one event, `r0` in what happens.
    fn faults_of(part: Part, happenings: &[Happening], letters: &[DeadLetter]) -> Vec<String> {
        let mut story = story(1, &["r0"]);
        happenings.iter().for_each(|happening| story.observe(happening));
        let evidence = Evidence { retry_queue: 0, dead_letters: letters.to_vec() };
        faults(&[role("r0", part)], &story, &evidence)
    }

    fn fails_by(ending: Ending) -> Happening {
        let error = Some(Error::default());
        let what = What::Ended { request_id: "r0".into(), ending, error };
        Happening { what, ..fails(0.2, "r0") }
    }

    fn given_up(reason: &str) -> [Happening; 3] {
        let decision = Decision::DeadLetter { reason: reason.to_owned() };
        [starts(0.1, "r0", "r0", 0), fails(0.2, "r0"), decides(0.3, "r0", decision)]
    }

    #[test]
    fn an_event_that_is_to_succeed_may_not_have_a_dead_letter() {
        let succeeds = [starts(0.1, "r0", "r0", 0), ends(0.2, "r0")];
        assert!(faults_of(Part::Order, &succeeds, &[]).is_empty());
        assert_eq!(
            faults_of(Part::Order, &succeeds, &[letter("r0", "not_retryable", "0")]),
            [
                "r0: expected that it succeeds, without a dead letter, got: it succeeded, it has dead letters: not_retryable"
            ]
        );
        assert_eq!(
            faults_of(Part::Order, &succeeds[..1], &[]),
            [
                "r0: expected that it succeeds, without a dead letter, got: it is still running, it has no dead letter"
            ]
        );
    }

    #[test]
    fn an_event_that_is_to_be_given_up_has_one_dead_letter_that_says_why() {
        let invalid = |letters: &[DeadLetter]| {
            faults_of(Part::Invalid, &given_up("not_retryable"), letters).join("; ")
        };
        let good = letter("r0", "not_retryable", "0");
        assert_eq!(invalid(std::slice::from_ref(&good)), "");
        assert_eq!(
            invalid(&[letter("r0", "max_age_exceeded", "0")]),
            "r0: expected the reason not_retryable, got max_age_exceeded"
        );
        assert_eq!(
            invalid(&[letter("r0", "not_retryable", "2")]),
            "r0: expected 0 attempts, got Some(2)"
        );
        assert!(invalid(&[]).ends_with("it was given up, it has no dead letter"));
        assert!(invalid(&[good.clone(), good]).contains("not_retryable, not_retryable"));
        let always_fails = given_up("max_attempts_exceeded");
        let three = letter("r0", "max_attempts_exceeded", "3");
        assert!(faults_of(Part::AlwaysFails, &always_fails, &[three]).is_empty());
    }

    #[test]
    fn a_part_must_have_shown_what_it_is_there_to_show() {
        let run = |first: Happening, again: f64| {
            vec![starts(0.1, "r0", "r0", 0), first, starts(again, "x", "r0", 1), ends(9.0, "x")]
        };
        let good = |part, happenings: &[Happening]| faults_of(part, happenings, &[]).is_empty();
        assert!(good(Part::Crashes, &run(fails_by(Ending::Crashed), 1.5)));
        assert!(!good(Part::Crashes, &run(fails_by(Ending::Failed), 1.5)));
        assert!(good(Part::TimesOut, &run(fails_by(Ending::TimedOut), 1.5)));
        assert!(!good(Part::TimesOut, &run(fails_by(Ending::Crashed), 1.5)));
        assert!(good(Part::RateLimited, &run(fails_by(Ending::Failed), 6.3)));
        assert!(!good(Part::RateLimited, &run(fails_by(Ending::Failed), 6.1)));
        let wait = Decision::Wait { attempt: 1, due: at(2.0), delay: Duration::from_secs(2) };
        let mut paused = vec![decides(0.2, "r0", wait)];
        paused.extend([starts(2.1, "x", "r0", 1), ends(2.2, "x")]);
        assert!(good(Part::Paused, &paused));
        assert!(!good(Part::Paused, &paused[1..]));
    }

    #[test]
    fn an_event_comes_back_in_the_bytes_it_was_sent_in() {
        let mut given = starts(0.1, "r0", "r0", 0);
        if let What::Started(run) = &mut given.what {
            run.payload = r#"{"id": "r0"}"#.into();
        }
        assert_eq!(
            faults_of(Part::Order, &[given, ends(0.2, "r0")], &[]),
            [r#"r0: expected it to come back as it was sent, {"id":"r0"}, got {"id": "r0"}"#]
        );
    }

    #[test]
    fn nothing_may_be_left_in_the_queues_that_belongs_to_nobody() {
        let succeeds = [starts(0.1, "r0", "r0", 0), ends(0.2, "r0")];
        let foreign = letter("who", "unreadable", "0");
        assert_eq!(
            faults_of(Part::Order, &succeeds, &[foreign]),
            [r#"a dead letter of no event, unreadable: {"id":"who"}"#]
        );
        let evidence = Evidence { retry_queue: 2, dead_letters: Vec::new() };
        assert_eq!(
            faults(&[], &story(0, &[]), &evidence),
            ["2 messages are left in the retry queue"]
        );
    }
}
