//! Tests the results of a caller, with stores that work and stores that fail.

use std::{io, panic::AssertUnwindSafe, time::Duration};

use comeback::{
    Failure,
    idempotency::{Answer, BadRequest, Error, Idempotency, Memory},
    transient::may_be_done,
};
use futures_util::FutureExt;
use serde::{Deserialize, Serialize};

use super::{Call, Clock, Declined, Scene, Shaky, charges, fault};

#[tokio::test]
async fn an_operation_takes_two_calls_and_a_repetition_one() {
    let store = Shaky::default();
    let scene = Scene::new(store.clone());
    assert_eq!(scene.charge("ch_1").await.unwrap(), "ch_1");
    {
        let written = store.written.lock().unwrap();
        let [Some(held), Some(done)] = &written[..] else { unreachable!("{written:?}") };
        assert_eq!((&held.answer, held.fingerprint), (&None, done.fingerprint));
        assert_eq!((held.claim.token.generation, &done.claim.token), (1, &held.claim.token));
        assert_eq!(done.answer, Some(Answer::Kept("\"ch_1\"".to_owned())));
    }
    for repetition in 1..4 {
        assert_eq!(scene.repeat().await.unwrap(), "ch_1");
        assert_eq!(store.calls(), 2 + repetition);
    }
}

#[tokio::test]
async fn another_intent_under_the_same_key_is_refused_until_the_record_expires() {
    let scene = Scene::new(Memory::new());
    let other = async || {
        let request = scene.request("charge 101");
        let ended = scene.once.run(&request, async |_| Ok::<_, Declined>("ch_2".to_owned())).await;
        ended.map_err(Failure::from)
    };
    let refused = async |when: &str| {
        let failure = other().await.unwrap_err();
        assert_eq!(failure.error_type(), "PermanentFailure", "{when}");
        let words = "the key belongs to another request: expected the intent with the fingerprint ";
        assert!(failure.message().starts_with(words), "{when}: {failure}");
    };
    let request = scene.request("charge 100");
    let charge = scene.once.run(&request, async |_| {
        refused("while it runs").await;
        scene.clock.advance(Duration::from_secs(70));
        refused("after its lease").await;
        Ok::<_, Declined>("ch_1".to_owned())
    });
    assert_eq!(charge.await.unwrap(), "ch_1");
    refused("when it is done").await;
    scene.clock.advance(Duration::from_hours(31));
    assert_eq!(other().await, Ok("ch_2".to_owned()));
}

#[tokio::test]
async fn an_operation_that_runs_elsewhere_has_a_retry_hint() {
    let scene = Scene::new(Memory::new());
    let request = scene.request("charge 100");
    let charge = scene.once.run(&request, async |lease| {
        assert_eq!(lease.until(), scene.clock.now() + Duration::from_secs(70));
        assert!(lease.owner().starts_with("request/"), "{}", lease.owner());
        scene.clock.advance(Duration::from_millis(9_500));
        // Lambda delivers the same event twice, with the same request id.
        let error = scene.repeat().await.unwrap_err();
        assert!(matches!(error, Error::InProgress { until, .. } if until == lease.until()));
        let failure = Failure::from(error);
        assert_eq!(failure.error_type(), "RetryAfter");
        assert!(failure.message().starts_with("61s: "), "{failure}");
        Ok::<_, Declined>("ch_1".to_owned())
    });
    assert_eq!(charge.await.unwrap(), "ch_1");
}

#[tokio::test]
async fn an_answer_is_kept_until_the_last_attempt_of_its_event() {
    let kept = Duration::from_hours(7 * 24);
    for (kept, once) in [(Duration::from_hours(24), None), (kept, Some(kept))] {
        let mut scene = Scene::new(Memory::new());
        if let Some(kept) = once {
            scene.once = scene.once.kept_for(kept).unwrap();
        }
        let request = scene.request("charge 100");
        let slow = scene.once.run(&request, async |_| {
            scene.clock.advance(Duration::from_secs(59));
            Ok::<_, Declined>("ch_1".to_owned())
        });
        slow.await.unwrap();
        // The function fails 15 min later. Its last attempt is sent MAX_AGE after that, and queues for 6 h.
        scene.clock.advance(kept + Duration::from_mins(15) + Duration::from_hours(6));
        assert_eq!(scene.repeat().await.unwrap(), "ch_1");
        scene.clock.advance(Duration::from_secs(10));
        assert_eq!(scene.charge("ch_2").await.unwrap(), "ch_2", "a late request is a first one");
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_is_answered_although_its_mark_fails() {
    let down = |calls| (0..calls).map(|_| Call::Unmade(fault(true))).collect();
    for (mark, left_ms, calls, is_marked) in [
        (down(4), 60_000, 6, true),
        (down(5), 60_000, 6, false),
        (down(1), 900, 2, false),
        (vec![Call::Unmade(fault(false))], 60_000, 2, false),
        (vec![Call::Unanswered(fault(true))], 60_000, 3, true),
    ] {
        let store = Shaky::scripted([Call::Made].into_iter().chain(mark));
        let scene = Scene::new(store.clone());
        let request = scene.request("charge 100");
        let charge = scene.once.run(&request, async |_| {
            scene.clock.advance(Duration::from_secs(60) - Duration::from_millis(left_ms));
            Ok::<_, Declined>("ch_1".to_owned())
        });
        assert_eq!(charge.await.unwrap(), "ch_1");
        assert_eq!(store.calls(), calls);
        if left_ms == 60_000 {
            match scene.repeat().await {
                Ok(answer) => assert!(is_marked && answer == "ch_1"),
                Err(Error::InProgress { .. }) => assert!(!is_marked),
                other => unreachable!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_not_kept_or_not_read_is_an_error_and_the_operation_runs_once() {
    #[derive(Debug, Deserialize)]
    struct Odd;
    impl Serialize for Odd {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("card 4711"))
        }
    }
    let (small, kept) = (Scene::new(Shaky::of_answers_up_to(7)), Scene::new(Memory::new()));
    let begin = "PermanentFailure: the operation was run, but its answer could not be kept: ";
    for answer in [small.charge("7 bytes").await, small.repeat().await] {
        let failure = Failure::from(answer.unwrap_err()).to_string();
        assert_eq!(failure, format!("{begin}expected at most 7 bytes of JSON, got 9"));
    }
    let fits = Scene::new(Shaky::of_answers_up_to(9));
    assert_eq!(fits.charge("7 bytes").await.unwrap(), "7 bytes");

    let request = kept.request("charge 100");
    for _ in 0..2 {
        let answer = kept.once.run(&request, async |_| Ok::<_, Declined>(Odd)).await;
        let failure = Failure::from(answer.unwrap_err()).to_string();
        assert!(failure.starts_with(begin) && failure.ends_with("Odd can't be written as JSON"));
    }
    let kept = Scene::new(Memory::new());
    kept.charge("secret").await.unwrap();
    let repeat = async |_| -> Result<u32, Declined> { unreachable!("it was run before") };
    let error = kept.once.run(&request, repeat).await.unwrap_err();
    assert!(matches!(error, Error::UnreadableAnswer { expected: "u32", line: 1, column: 8 }));
    assert!(!error.to_string().contains("secret"), "{error}");
    assert_eq!(kept.repeat().await.unwrap(), "secret");
}

#[tokio::test]
async fn an_operation_does_not_start_with_less_than_the_minimum_left() {
    let secs = Duration::from_secs;
    for (passed, minimum, is_begun) in [
        (secs(0), None, true),
        (secs(55), None, true),
        (Duration::from_millis(55_001), None, false),
        (Duration::from_millis(59_700), None, false),
        (Duration::from_millis(59_700), Some(Duration::from_millis(300)), true),
        (Duration::from_millis(59_700), Some(Duration::ZERO), true),
        (secs(60), Some(Duration::ZERO), false),
    ] {
        let store = Shaky::default();
        let scene = Scene::new(store.clone());
        let mut request = scene.request("charge 100");
        if let Some(minimum) = minimum {
            request = request.with_minimum(minimum);
        }
        scene.clock.advance(passed);
        let run = scene.once.run(&request, async |_| Ok::<_, Declined>("ch_1".to_owned()));
        let ended = run.await;
        assert_eq!(ended.is_ok(), is_begun, "{passed:?} {minimum:?}");
        assert!(is_begun || matches!(ended, Err(Error::Late { .. })) && store.calls() == 0);
    }
}

#[tokio::test]
async fn after_a_slow_claim_the_operation_does_not_start_and_the_key_is_free() {
    let clock = Clock::new();
    let slow = Shaky::scripted([Call::Slow(clock.clone(), Duration::from_secs(56))]);
    let scene = Scene { once: charges(slow, &clock), clock };
    assert!(matches!(scene.repeat().await, Err(Error::Late { .. })));
    assert_eq!(scene.charge("ch_1").await.unwrap(), "ch_1");
}

#[tokio::test]
async fn a_panic_frees_the_key_and_continues() {
    let scene = Scene::new(Memory::new());
    let request = scene.request("charge 100");
    for _ in 0..3 {
        // The operation panics when it is called, or when its future is polled.
        let called = |_| -> std::future::Ready<Result<(), Declined>> { panic!("no such card") };
        let polled = async |_| -> Result<(), Declined> { panic!("no such card") };
        let called = AssertUnwindSafe(scene.once.run(&request, called)).catch_unwind().await;
        let polled = AssertUnwindSafe(scene.once.run(&request, polled)).catch_unwind().await;
        for panic in [called.unwrap_err(), polled.unwrap_err()] {
            assert_eq!(panic.downcast_ref(), Some(&"no such card"));
        }
    }
    assert_eq!(scene.charge("ch_1").await.unwrap(), "ch_1");
}

#[tokio::test]
async fn a_record_that_keeps_changing_is_left_alone() {
    let scene = Scene::new(Shaky::scripted((0..9).map(|_| Call::Overtaken)));
    assert!(matches!(scene.repeat().await, Err(Error::Store(fault)) if fault.is_transient));
}

#[tokio::test]
async fn an_operation_may_fail_with_a_failure() {
    let scene = Scene::new(Memory::new());
    let request = scene.request("charge 100");
    let handler = async |own: bool| -> Result<u32, Failure> {
        let answer = scene.once.run(&request, async |_| {
            if own { Err(Failure::new("CardDeclined", "no funds")) } else { Ok("paid") }.map(|_| 1)
        });
        Ok(answer.await?)
    };
    assert_eq!(handler(true).await, Err(Failure::new("CardDeclined", "no funds")));
    assert_eq!(handler(false).await, Ok(1));
    scene.clock.advance(Duration::from_secs(60));
    let late = handler(false).await.unwrap_err();
    assert_eq!(
        late.message(),
        "less than 5s is left until the deadline at 2026-02-01T12:01:00.000Z: the operation was not started"
    );
}

#[test]
fn bad_settings_are_refused_at_once() {
    let refused = |bad: Result<Idempotency<Memory>, BadRequest>| bad.unwrap_err().to_string();
    let once = Idempotency::new("charges", Memory::new()).unwrap();
    let least = Duration::from_secs(15 * 60 + 20);
    assert!(once.clone().kept_for(least).is_ok());
    assert_eq!(
        refused(once.kept_for(least - Duration::from_nanos(1))),
        "answers must be kept for at least 920s, got 919s"
    );
    for bad in ["", "a#b", &"s".repeat(257)] {
        let expected = format!("the scope must have 1 to 256 bytes and no '#', got {bad:?}");
        assert_eq!(refused(Idempotency::new(bad, Memory::new())), expected);
    }
    assert!(Idempotency::new(&"s".repeat(256), Memory::new()).is_ok());
    let once = Idempotency::new("charges", Memory::new()).unwrap();
    let hold =
        |time| once.holding(time, may_be_done::<io::Error, _>).map_err(|bad| bad.to_string());
    assert!(hold(Duration::from_mins(15)).is_ok());
    let refused = hold(Duration::from_secs(901)).unwrap_err();
    assert_eq!(refused, "a key may be held for at most 15m, got 901s");
}
