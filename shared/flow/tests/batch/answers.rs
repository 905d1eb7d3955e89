//! Calls whose answers can't be paired with their entries, because there are fewer or more of them.

use comeback_core::in_flight::IN_FLIGHT_MAX;
use comeback_flow::{metrics, report::Obstacle};

use crate::{
    queues::{bound, moved},
    services::Answer,
    world::{World, due, handle, kept, outcomes, poison, start, waiting},
};

/// How many answers a call with this many entries gets.
fn unpaired(entries: usize) -> [usize; 3] {
    [entries - 1, entries + 1, 0]
}

/// The error for each of the entries of a call, which has both counts.
fn errors(entries: usize, answers: usize) -> Vec<String> {
    let error = format!("UnpairedAnswers: expected {entries} answers to a call, got {answers}");
    vec![error; entries]
}

#[test]
fn waits_whose_answers_cannot_be_paired_are_left_to_the_queue_and_their_neighbours_are_not() {
    for count in unpaired(10) {
        let world = World::new(&[("handle of odd", Answer::Counted(count))]);
        let mut records: Vec<_> = (0..9).map(|nth| waiting(&format!("w{nth}"))).collect();
        records.extend([waiting("odd"), waiting("of the next call"), due("d"), poison("p")]);
        let report = handle(&world, records);
        let mut expected = vec!["left to queue"; 10];
        expected.extend(["waits", "invoked", "unreadable"]);
        assert_eq!(outcomes(&report), expected);
        assert_eq!(kept(&report).len(), 11);
        assert_eq!(crate::log::errors(), errors(10, count));
    }
}

/// A letter that is taken for sent would be lost, so no answer of such a call counts.
#[test]
fn letters_whose_answers_cannot_be_paired_keep_their_messages() {
    for count in unpaired(2) {
        let world = World::new(&[("letter of no JSON in odd", Answer::Counted(count))]);
        let report = handle(&world, vec![poison("a"), poison("odd"), due("d")]);
        let not_sent = "dead letter not sent";
        assert_eq!(outcomes(&report), [not_sent, not_sent, "invoked"]);
        assert_eq!(kept(&report), ["a", "odd"]);
        let lines = metrics::lines(&report, start()).join("\n");
        assert!(lines.contains(r#""DeadLettersNotSent":2"#), "{lines}");
        assert_eq!(crate::log::errors(), errors(2, count));
    }
}

#[test]
fn messages_that_go_back_and_whose_answers_cannot_be_paired_wait_for_a_person() {
    for count in unpaired(2) {
        let world = bound(World::new(&[("payload of odd", Answer::Counted(count))]));
        let report = handle(&world, vec![moved("a", 60), moved("odd", 60), due("d")]);
        assert_eq!(outcomes(&report), ["waits", "waits", "invoked"]);
        let obstacles: Vec<_> = report.entries.iter().map(|entry| entry.obstacle).collect();
        assert_eq!(obstacles, [Some(Obstacle::Configuration), Some(Obstacle::Configuration), None]);
        assert_eq!(crate::log::errors(), errors(2, count));
    }
}

#[test]
fn delays_whose_answers_cannot_be_paired_wait_in_flight() {
    for count in unpaired(10) {
        let mut world = World::new(&[("request of odd", Answer::Counted(count))]);
        world.in_flight = IN_FLIGHT_MAX.get().into();
        let mut records: Vec<_> = (0..9).map(|nth| waiting(&format!("w{nth}"))).collect();
        records.push(waiting("odd"));
        let report = handle(&world, records);
        assert_eq!(outcomes(&report), ["waits"; 10]);
        assert_eq!(kept(&report).len(), 10);
        assert_eq!(crate::log::errors(), errors(10, count));
    }
}
