//! A play of charges. All executions have the same key, and their effect is outside of the store.

use std::sync::{Arc, Mutex};

use comeback::idempotency::{Claim, Memory, Record, ReplaceError, Request, Store};

use super::{
    Clock, Declined, charges, fault,
    world::{Faults, Gate, Play, Running, Step, claim, every_order},
};

/// The play: executions of one charge, with their store.
#[derive(Default)]
struct Charges {
    store: Memory,
    /// The executions that made the effect.
    made_by: Arc<Mutex<Vec<usize>>>,
}

/// The store as one execution sees it.
struct Gated {
    store: Memory,
    gate: Gate,
}

impl Store for Gated {
    async fn replace(
        &self,
        key: &str,
        seen: Option<&Record>,
        next: Option<&Record>,
    ) -> Result<(), ReplaceError> {
        let lost = Err(ReplaceError::Fault(fault(true)));
        self.gate.call(lost, || self.store.replace(key, seen, next)).await
    }

    fn answer_max(&self) -> usize {
        self.store.answer_max()
    }
}

impl Play for Charges {
    const IS_ATOMIC: bool = false;

    fn begin(&self, nth: usize, gate: Gate, clock: &Clock) -> Running {
        let store = Gated { store: self.store.clone(), gate: gate.clone() };
        let made_by = Arc::clone(&self.made_by);
        let context = clock.context(&nth.to_string());
        let request = Request::new("order 7", "charge 100", &context).unwrap();
        let once = charges(store, clock);
        Box::pin(async move {
            let charge = async |_| {
                if gate.pass(Step::Effect).await.is_some() {
                    return Err(Declined);
                }
                made_by.lock().unwrap().push(nth);
                Ok(nth)
            };
            once.run(&request, charge).await
        })
    }

    async fn end(self) -> (Claim, Vec<usize>) {
        let made_by = self.made_by.lock().unwrap().clone();
        (claim(&self.store, "charges#order 7").await, made_by)
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
