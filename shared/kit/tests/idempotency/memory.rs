//! Every order of two and of three executions, over the store in memory.

use comeback::idempotency::Memory;

use super::{
    charges::Charges,
    orders::every_order,
    world::{Faults, World},
};

#[tokio::test(start_paused = true)]
async fn in_every_order_the_operation_runs_once() {
    let none = Faults::default();
    let fail = Faults { operations: 2, ..none };
    // Leases end while their holders live on, and one of them dies.
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
            let plays = every_order(async |choices, _| {
                let charges = Charges::new(Memory::new(), "order 7".to_owned());
                World::play(charges, executions, faults, choices).await;
            });
            assert_eq!(plays.await, expected, "{executions} with {faults:?}");
        }
    }
}
