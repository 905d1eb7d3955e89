//! Scripts made shorter.

use std::collections::BTreeSet;

use simulation::{
    choices::Told,
    plan::Plan,
    script::Script,
    shorten::{shifted, shortest},
};

#[test]
fn a_world_is_shortened_to_what_shows_the_same() {
    let sees = BTreeSet::from(["fault: HandleStale".to_owned()]);
    let is_small = |seed: &u64| Plan::of(*seed).events < 8;
    let shows = |seed| shortest(&Plan::of(seed), sees.clone());
    let script = (0..1_000).filter(is_small).find_map(shows).unwrap();
    let lines = script.to_string().lines().count();
    assert!(lines <= 20, "{lines} lines:\n{script}");
    let read = Script::parse(&script.to_string()).unwrap();
    assert_eq!(read.play(false).complaints(&read), [""; 0]);
}

#[test]
fn events_after_one_that_is_left_out_are_sent_when_they_were() {
    let choices = ["event 0: fails", "event 1: fails", "event 2, attempt 1: fails"];
    let mut told: Told = choices.map(|name| (name.to_owned(), String::new())).into();
    let times = [("event 1: sent after", "500"), ("event 2: sent after", "70")];
    told.extend(times.map(|(name, after)| (name.to_owned(), after.to_owned())));
    let left = shifted(&Script { told, ..Script::default() }, "event", 1..2);
    let expected =
        [("event 0: fails", ""), ("event 1, attempt 1: fails", ""), ("event 1: sent after", "570")];
    assert_eq!(left, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
}
