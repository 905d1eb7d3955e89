//! A play of charges. All executions have the same key, and their effect is outside of the store.

use std::sync::{Arc, Mutex};

use comeback::{
    Timestamp,
    idempotency::{Error, Memory, Record, ReplaceError, Request, State, Store},
};

use super::{
    Clock, Declined, charges,
    shaky::fault,
    world::{Ends, Faults, Gate, Play, Running, Step, every_order},
};

/// The play: executions of one charge, with their store.
#[derive(Default)]
struct Charges {
    store: Memory,
    history: Arc<Mutex<History>>,
}

/// The history of a play.
#[derive(Default)]
struct History {
    /// The current record in the store.
    there: Option<Record>,
    /// The executions that made the effect, in order.
    effects: Vec<usize>,
}

/// The store as one execution sees it.
struct Gated {
    store: Memory,
    nth: usize,
    gate: Gate,
    clock: Clock,
    history: Arc<Mutex<History>>,
}

impl Store for Gated {
    async fn replace(
        &self,
        key: &str,
        seen: Option<&Record>,
        next: Option<&Record>,
    ) -> Result<(), ReplaceError> {
        let made = || async {
            let made = self.store.replace(key, seen, next).await;
            if made.is_ok() {
                let mut history = self.history.lock().unwrap();
                assert_lawful(self.nth, history.there.as_ref(), next, self.clock.now());
                history.there = next.cloned();
            }
            made
        };
        self.gate.call(Err(ReplaceError::Fault(fault(true))), made).await
    }

    fn answer_max(&self) -> usize {
        self.store.answer_max()
    }
}

/// Asserts that an execution may replace `there` with `next`, by rules that are independent of the code under
/// test.
fn assert_lawful(nth: usize, there: Option<&Record>, next: Option<&Record>, now: Timestamp) {
    let own = |record: &Record| record.claim.token.owner.starts_with(&format!("{nth}/"));
    match (there.map(|record| (record, record.claim.state)), next) {
        (None, None) => {}
        (None, Some(next)) => assert!(own(next) && next.claim.token.generation == 1),
        (Some((_, State::Waiting)), _) => unreachable!("nothing waits in the kit's records"),
        (Some((_, State::Done)), _) => unreachable!("{nth} overwrites a done record"),
        (Some((held, State::Held { until })), next) => {
            assert!(own(held) || now >= until, "{nth} overwrites a valid lease");
            let Some(next) = next else {
                return assert!(own(held), "{nth} removes another's");
            };
            assert!(own(next));
            if own(held) {
                assert_eq!(next.claim.state, State::Done);
                assert_eq!(next.claim.token, held.claim.token);
            } else {
                assert!(matches!(next.claim.state, State::Held { .. }), "{nth} marks another's");
                assert_eq!(next.claim.token.generation, held.claim.token.generation + 1);
            }
        }
    }
}

impl Play for Charges {
    fn begin(&self, nth: usize, gate: Gate, clock: &Clock) -> Running {
        let history = Arc::clone(&self.history);
        let store = Gated {
            store: self.store.clone(),
            nth,
            gate: gate.clone(),
            clock: clock.clone(),
            history: Arc::clone(&history),
        };
        let context = clock.context(&nth.to_string());
        let request = Request::new("order 7", "charge 100", &context).unwrap();
        let once = charges(store, clock);
        Box::pin(async move {
            let charge = async |_| {
                if gate.pass(Step::Effect).await.is_some() {
                    return Err(Declined);
                }
                history.lock().unwrap().effects.push(nth);
                Ok(nth)
            };
            once.run(&request, charge).await
        })
    }

    async fn judge(self, ends: Ends) {
        let history = self.history.lock().unwrap();
        let there = history.there.as_ref().unwrap();
        assert_eq!(there.claim.state, State::Done, "in the end it is done");

        let marked = |nth: usize| there.claim.token.owner.starts_with(&format!("{nth}/"));
        let owner = (0..=ends.last).find(|&nth| marked(nth)).unwrap();
        assert!(
            matches!(ends.ended[&ends.last], Ok(answer) if answer == owner),
            "the last is answered"
        );

        let made = |nth: usize| history.effects.iter().filter(|&&effect| effect == nth).count();
        for (&nth, end) in &ends.ended {
            match end {
                Ok(answer) if *answer == owner => {}
                // It could not mark its record as done, and returns its own answer.
                Ok(answer) => {
                    assert!(*answer == nth && ends.faults.calls > 0, "{nth} answers {answer}")
                }
                Err(Error::LostLease { .. }) => assert_eq!(made(nth), 1, "{nth}"),
                Err(
                    Error::Operation(_)
                    | Error::InProgress { .. }
                    | Error::Late { .. }
                    | Error::Store(_),
                ) => assert_eq!(made(nth), 0, "{nth}"),
                Err(other) => unreachable!("{nth}: {other}"),
            }
        }

        // The owner made the effect once. Another execution may only have made it if it died before it marked its
        // record or was late.
        assert_eq!(made(owner), 1);
        for nth in history.effects.iter().filter(|&&nth| nth != owner) {
            assert!(ends.crashed.contains(nth) || ends.late.contains(nth), "{:?}", history.effects);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn in_every_order_the_operation_runs_once() {
    let none = Faults::default();
    let fail = Faults { operations: 2, ..none };
    // Leases end while their holders are still running, and one execution dies.
    let die = Faults { crashes: 1, leases_over: 2, ..none };
    let lose_calls = Faults { calls: 2, ..none };
    let all = Faults { crashes: 1, leases_over: 1, calls: 1, operations: 1 };
    for (faults, of_two, of_three) in [
        (none, 3, 6),
        (fail, 7, 19),
        (die, 461, 16_419),
        (lose_calls, 244, 1_407),
        (all, 2_757, 100_593),
    ] {
        for (executions, expected) in [(2, of_two), (3, of_three)] {
            let plays = every_order(executions, faults, |_| Charges::default());
            assert_eq!(plays.await, expected, "{executions} with {faults:?}");
        }
    }
}
