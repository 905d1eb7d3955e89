//! Scripts: what they may say, and that the kept ones hold.

use std::{fs, path::Path};

use simulation::{choices::How, plan::Plan, script::Script, world::play_as};

#[test]
fn a_world_that_was_recorded_is_the_same_when_it_is_told() {
    for seed in 0..20 {
        let plan = Plan::of(seed);
        let (judge, outcome) = play_as(plan.clone(), How::Recorded, false);
        let script = Script::of(plan, outcome.made);
        let read = Script::parse(&script.to_string()).unwrap();
        assert!(read == script, "seed {seed}");
        let played = read.play(false);
        assert_eq!(played.complaints(&script), [""; 0], "seed {seed}");
        assert_eq!(played.judge.known.tally.seen, judge.known.tally.seen, "seed {seed}");
    }
}

#[test]
fn a_line_that_cannot_be_read_is_answered_with_what_was_expected_and_what_was_got() {
    let plain = "handler {}\nqueue {}\ntarget {}\n";
    for (lines, expected) in [
        (
            "whatever",
            "line 4: expected world, handler, queue, target, spell, choose, see or #, got \"whatever\"",
        ),
        ("queue 7", "line 4: expected members as a JSON object, got \"7\""),
        (
            "queue {\"batch\":\"ten\"}",
            "line 4: expected members that it can have, got invalid type: string \"ten\", expected u32",
        ),
        (
            "queue {\"handler\":1}",
            "line 4: expected one of 1 handlers, counted from 0, got handler 1",
        ),
        ("target {\"queue\":3}", "line 4: expected one of 1 queues, counted from 0, got queue 3"),
        (
            "spell {\"trouble\":\"MappingOff\",\"number\":2}",
            "line 4: expected one of 1 queues, counted from 0, got queue 2",
        ),
        (
            "handler {\"general\":{\"base\":7200,\"max\":60}}",
            "line 4: expected settings that a handler accepts, got ",
        ),
        (
            "world {\"events\":2}\nworld {}",
            "line 5: expected one line for the world, got a second one",
        ),
        (
            "choose AnswerLost",
            "line 4: expected whose choice it is, a colon and what is chosen, got \"AnswerLost\"",
        ),
        (
            "choose event 0: fails\nchoose event 0: fails",
            "line 5: expected each choice once, got \"event 0: fails\" again",
        ),
    ] {
        let bad = Script::parse(&format!("{plain}{lines}\n")).unwrap_err();
        let said = bad.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(said.starts_with(expected), "{lines}: {said}");
    }
    let unknown = Script::parse("target {\"colour\":1}").unwrap_err();
    assert!(unknown[0].got.starts_with("unknown field `colour`, expected one of"), "{unknown:?}");
    let none = Script::parse("# nobody").unwrap_err();
    assert_eq!(
        none[0].to_string(),
        "line 1: expected one of 0 targets, counted from 0, got target 0"
    );
}

#[test]
fn a_choice_that_nobody_asks_for_and_one_that_is_not_there_are_complained_of() {
    let play = |lines: &str| {
        let script = format!("handler {{}}\nqueue {{}}\ntarget {{}}\n{lines}\n");
        let script = Script::parse(&script).unwrap();
        let played = script.play(false);
        assert!(played.judge.violation.is_none());
        played.complaints(&script)
    };
    let asked = "event 0, attempt 7: fails: nobody has asked";
    assert_eq!(play("choose event 0, attempt 7: fails"), [asked]);
    let soon =
        "event 0: sent after: expected milliseconds, or `until` and milliseconds, got \"soon\"";
    assert_eq!(play("choose event 0: sent after = soon"), [soon]);
    let yes = "event 0, attempt 0: fails: expected no value, got \"yes\"";
    assert_eq!(play("choose event 0, attempt 0: fails = yes"), [yes]);
    let many = "event 0, attempt 0: runs for: expected";
    assert!(play("choose event 0, attempt 0: runs for = x")[0].starts_with(many));
    let seen = "expected to see \"orders to retry\", got nothing of it";
    assert_eq!(play("see orders to retry"), [seen]);
    assert_eq!(play("choose event 0: sent after = 5000\nsee successes"), [""; 0]);
}

/// Each is a world that was hard to find. It must stay the world that it was, and show what it says.
#[test]
fn kept_scripts_hold_and_show_what_they_say() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let mut files: Vec<_> = fs::read_dir(kept).unwrap().map(|it| it.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let script = Script::parse(&fs::read_to_string(&file).unwrap());
        let script = script.unwrap_or_else(|bad| panic!("{}, {}", file.display(), bad[0]));
        let played = script.play(false);
        assert!(
            played.judge.violation.is_none(),
            "{}: {:?}",
            file.display(),
            played.judge.violation
        );
        assert_eq!(played.complaints(&script), [""; 0], "{}", file.display());
        assert!(!script.about.is_empty(), "{} says what it shows", file.display());
        assert!(!script.seen.is_empty(), "{} says what must be seen", file.display());
    }
}
