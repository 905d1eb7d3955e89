use proptest::prelude::*;

use super::*;
use crate::{Attempt, testing::at};

const FIRST: &str = "first";
const MINE: &str = "Root=1-aaaa;Parent=2;Sampled=1;Lineage=1:x:0";

fn begun() -> Timestamp {
    at("2026-02-01T12:00:00Z")
}

fn after(seconds: u64) -> Timestamp {
    later(begun(), Duration::from_secs(seconds))
}

/// A call that retries the first failure of an event, with a lease of so many seconds.
fn call(name: &str, since: Timestamp, lease: u64, root: Option<&str>) -> Call {
    Call {
        name: name.to_owned(),
        metadata: RetryMetadata::first(begun(), FIRST).next(Attempt::new(3).unwrap(), begun()),
        since,
        until: later(since, Duration::from_secs(lease)),
        root: root.map(str::to_owned),
        is_repeated: false,
        taken_by: None,
    }
}

fn known(note: Option<Note>, calls: Vec<Call>) -> Known {
    let token = Token { generation: 1, owner: "me".to_owned() };
    let claim = Claim { token, state: State::Noted, order: None, expires_at: after(9_000_000) };
    Known { claim, note, calls }
}

/// The run that was started by this call, for the failure of that run.
fn child(run: &str, parent: &str, call: &Call) -> (String, Known) {
    let parent = Parent { run: parent.to_owned(), call: call.name.clone() };
    let note = Note { metadata: call.metadata.clone(), parent: Some(parent) };
    (run.to_owned(), known(Some(note), vec![]))
}

fn siblings(runs: impl IntoIterator<Item = (String, Known)>) -> Siblings {
    Siblings { runs: runs.into_iter().collect(), are_all: true }
}

/// The calls for the failure of the run `first`.
fn of_first(calls: &[Call]) -> (String, Known) {
    (FIRST.to_owned(), known(None, calls.to_vec()))
}

fn sought(run: &str, failed_at: Timestamp) -> Sought<'_> {
    Sought { run, failed_at, root: None }
}

/// What is recalled, in short: the name of an orphan, or in how many seconds it is looked for again.
fn short(recalled: &Recalled, now: Timestamp) -> String {
    match recalled {
        Recalled::Nothing => "nothing".to_owned(),
        Recalled::Retry(metadata) => format!("attempt {}", metadata.attempt),
        Recalled::Unknown { again_at } => format!("in {}", between(now, *again_at).as_secs()),
        Recalled::Orphan { call, .. } => call.name.clone(),
    }
}

#[test]
fn a_failure_continues_what_its_note_says_and_else_waits_for_the_sender_to_end() {
    let (dead, alive) = (call("a/0", begun(), 40, None), call("b/0", after(20), 40, None));
    let dropped_after = 6 * 3600 + 15 * 60 + 10;
    for (calls, failed_at, now, expected) in [
        (vec![], after(1), after(2), "nothing"),
        // The sender may still write the note: looked for again soon, then less often, and at the end of its lease.
        (vec![dead.clone()], after(1), after(1), "in 1"),
        (vec![dead.clone()], after(1), after(9), "in 8"),
        (vec![dead.clone()], after(1), after(30), "in 10"),
        (vec![dead.clone()], after(1), after(40), "a/0"),
        // As long as another sender of the same payload is at work, its note may be this record's.
        (vec![dead.clone(), alive.clone()], after(30), after(50), "in 10"),
        (vec![dead.clone(), alive.clone()], after(30), after(60), "a/0"),
        // What failed before the call is not its failure, but clocks differ by ten seconds.
        (vec![alive.clone()], after(9), after(60), "nothing"),
        (vec![alive.clone()], after(10), after(60), "b/0"),
        // A failure after Lambda has dropped the event is not its failure either.
        (vec![dead.clone()], after(dropped_after), after(80_000), "a/0"),
        (vec![dead.clone()], after(dropped_after + 1), after(80_000), "nothing"),
        // A lease longer than any handler's is none.
        (vec![call("a/0", begun(), 3600, None)], after(1), after(2), "a/0"),
    ] {
        let siblings = siblings([of_first(&calls)]);
        let recalled = siblings.recall(&sought("failed", failed_at), now);
        assert_eq!(short(&recalled, now), expected, "{calls:?} {failed_at} {now}");
    }
    let noted = siblings([of_first(std::slice::from_ref(&alive)), child("failed", "x", &dead)]);
    let recalled = noted.recall(&sought("failed", after(30)), after(31));
    assert_eq!(short(&recalled, after(31)), "attempt 3");
}

#[test]
fn a_call_is_open_until_it_is_answered_or_taken() {
    let dead = call("a/0", begun(), 40, None);
    let taken = |by: &str| Call { taken_by: Some(by.to_owned()), ..dead.clone() };
    let of = |runs: Vec<(String, Known)>| {
        short(&siblings(runs).recall(&sought("failed", after(1)), after(90)), after(90))
    };
    let of_first = |call| of_first(&[call]);
    assert_eq!(of(vec![of_first(dead.clone())]), "a/0");
    assert_eq!(of(vec![of_first(dead.clone()), child("second", FIRST, &dead)]), "nothing");
    // The child of another run, or of another call, answers another call.
    assert_eq!(of(vec![of_first(dead.clone()), child("second", "other", &dead)]), "a/0");
    let other = call("b/0", begun(), 40, None);
    assert_eq!(of(vec![of_first(dead.clone()), child("second", FIRST, &other)]), "a/0");
    // A call that was taken belongs to the run that took it, however often that is looked up.
    assert_eq!(of(vec![of_first(taken("failed"))]), "attempt 3");
    assert_eq!(of(vec![of_first(taken("second"))]), "nothing");
}

#[test]
fn traces_tell_events_with_equal_payloads_apart() {
    let (mine, others) = (root(MINE), Some("1-bbbb"));
    assert_eq!((mine, root("Parent=2"), root("Root=")), (Some("1-aaaa"), None, None));
    let repeated = |root| Call { is_repeated: true, ..call("a/0#1", begun(), 0, root) };
    let plain = |root| call("a/0", begun(), 40, root);
    for (call, received, expected) in [
        (plain(mine), mine, "a/0"),
        (plain(mine), others, "nothing"),
        (plain(mine), None, "a/0"),
        (plain(None), mine, "a/0"),
        // The run of a call that the SDK has repeated is known by its trace alone.
        (repeated(mine), mine, "a/0#1"),
        (repeated(mine), others, "nothing"),
        (repeated(mine), None, "nothing"),
        (repeated(None), mine, "nothing"),
    ] {
        let siblings = siblings([of_first(std::slice::from_ref(&call))]);
        let sought = Sought { root: received, ..sought("failed", after(1)) };
        assert_eq!(
            short(&siblings.recall(&sought, after(90)), after(90)),
            expected,
            "{call:?} {received:?}"
        );
    }
    // A call of the same trace comes before an older one of which the trace is unknown.
    let calls = [call("old/0", begun(), 10, None), call("new/0", after(5), 10, mine)];
    let sought = Sought { root: mine, ..sought("failed", after(6)) };
    assert_eq!(short(&siblings([of_first(&calls)]).recall(&sought, after(90)), after(90)), "new/0");
}

#[test]
fn what_was_not_read_to_its_end_is_not_taken_for_all() {
    let dead = call("a/0", begun(), 5, None);
    for (are_all, now, expected) in [
        (true, after(6), "a/0"),
        (false, after(6), "in 5"),
        (false, after(19), "in 2"),
        // Whether the call was answered can't be known, and nobody writes a note by now.
        (false, after(21), "nothing"),
    ] {
        let siblings = Siblings { are_all, ..siblings([of_first(std::slice::from_ref(&dead))]) };
        let recalled = siblings.recall(&sought("failed", after(1)), now);
        assert_eq!(short(&recalled, now), expected, "{are_all} {now}");
    }
}

/// Clocks differ, and a backoff may be as short as a second. So a retry may seem to have begun before the failure.
#[test]
fn the_first_failure_of_an_event_is_never_taken_for_that_of_its_retry() {
    let siblings = siblings([of_first(&[call("a/0", begun(), 40, None)])]);
    let of = |run| short(&siblings.recall(&sought(run, begun()), after(60)), after(60));
    assert_eq!(of(FIRST), "nothing");
    assert_eq!(of("another"), "a/0");
}

#[test]
fn a_call_is_read_as_it_was_written() {
    for written in [
        call("b/7", begun(), 40, root(MINE)),
        Call { is_repeated: true, ..call("b/7", begun(), 40, None) },
        Call { taken_by: Some("r".to_owned()), ..call("b/7", begun(), 40, None) },
    ] {
        let read = Call::read("b/7", &written.to_json(), written.taken_by.clone()).unwrap();
        assert_eq!(format!("{read:?}"), format!("{written:?}"));
    }
    for json in ["", "{}", r#"{"metadata":{},"since":0,"until":0}"#] {
        assert!(Call::read("b/7", json, None).is_none(), "{json}");
    }
}

#[test]
fn repeats_that_no_trace_can_tell_are_not_kept() {
    let names = |call: Call| {
        let repeats = call.repeats(2, after(1));
        repeats.iter().all(|it| it.is_repeated && it.until == after(1)).then_some(())?;
        Some(repeats.into_iter().map(|it| it.name).collect::<Vec<_>>())
    };
    assert_eq!(names(call("a/0", begun(), 40, root(MINE))).unwrap(), ["a/0#1", "a/0#2"]);
    assert_eq!(names(call("a/0", begun(), 40, None)).unwrap(), [""; 0]);
}

#[test]
fn calls_that_no_record_needs_make_room_but_never_that_of_a_sender_at_work() {
    let of = |calls: Vec<Call>, now| known(None, calls).calls_over(now);
    let (old, new) = (call("old/0", begun(), 40, None), call("new/0", after(1_232_000), 40, None));
    assert_eq!(of(vec![old.clone(), new.clone()], after(1_232_100)), [""; 0]);
    assert_eq!(of(vec![old, new], after(1_232_101)), ["old/0"]);
    let many = |lease| (0..14).map(move |n| call(&format!("{n:02}"), after(n), lease, None));
    assert_eq!(of(many(40).collect(), after(400)), ["02", "01", "00"]);
    assert_eq!(of(many(600).collect(), after(400)), [""; 0]);
}

proptest! {
    /// The events are not confused: a run's own note always wins, whoever sends the same payload.
    #[test]
    fn a_note_decides_alone(senders in prop::collection::vec((0_u64..100_000, 0_u64..2_000), 0..4), failed in 0_u64..100_000, waited in 0_u64..100_000) {
        let calls: Vec<_> = senders.iter().map(|(since, lease)| call("x", after(*since), *lease, None)).collect();
        let note = Note { metadata: RetryMetadata::first(begun(), "mine"), parent: None };
        let siblings = siblings([of_first(&calls), ("failed".to_owned(), known(Some(note), vec![]))]);
        let recalled = siblings.recall(&sought("failed", after(failed)), after(failed + waited));
        prop_assert!(matches!(recalled, Recalled::Retry(it) if it.request_id.as_deref() == Some("mine")));
    }

    /// A record waits no longer than the leases of the senders that began before it failed.
    #[test]
    fn a_record_is_judged_at_the_latest_when_all_leases_are_over(
        senders in prop::collection::vec((0_u64..2_000, 0_u64..2_000), 0..4),
        failed in 0_u64..2_000,
        are_all: bool,
    ) {
        let calls: Vec<_> = senders.iter().map(|(since, lease)| call("x", after(*since), *lease, None)).collect();
        let siblings = Siblings { are_all, ..siblings([of_first(&calls)]) };
        let mut now = after(failed);
        let end = later(after(failed), LEASE_MAX + CLOCK_SKEW_MAX);
        let mut looks = 0;
        while let Recalled::Unknown { again_at } = siblings.recall(&sought("failed", after(failed)), now) {
            prop_assert!(again_at > now);
            now = again_at;
            looks += 1;
        }
        prop_assert!(now <= end && looks <= 14, "{looks} looks until {now}");
    }
}
