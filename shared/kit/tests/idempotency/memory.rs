//! Every order of two and three executions, over the store in memory.

use comeback::idempotency::Memory;

use super::{
    charges::Charges,
    orders::every_order,
    world::{Faults, World},
};

/// Plays every order of two executions, and every one of three; tells how many there are.
async fn orders(faults: Faults) -> [usize; 2] {
    [orders_of(2, faults).await, orders_of(3, faults).await]
}

async fn orders_of(executions: usize, faults: Faults) -> usize {
    every_order(async |choices, _| {
        let charges = Charges::new(Memory::new(), "order 7".to_owned());
        World::play(charges, executions, faults, choices).await;
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn whatever_the_order_the_effect_happens_once() {
    assert_eq!(orders(Faults::default()).await, [3, 6]);
}

#[tokio::test(start_paused = true)]
async fn whoever_fails_leaves_the_effect_to_the_next() {
    let faults = Faults { operations: 2, ..Faults::default() };
    assert_eq!(orders(faults).await, [7, 19]);
}

#[tokio::test(start_paused = true)]
async fn whoever_dies_is_replaced_when_its_lease_is_over_and_the_late_undo_nothing() {
    let faults = Faults { crashes: 1, leases_over: 2, ..Faults::default() };
    assert_eq!(orders(faults).await, [461, 16_419]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_goes_wrong_has_nothing_happen_twice() {
    let faults = Faults { calls: 2, ..Faults::default() };
    assert_eq!(orders(faults).await, [244, 1_407]);
}

#[tokio::test(start_paused = true)]
async fn all_of_it_together() {
    let faults = Faults { crashes: 1, leases_over: 1, calls: 1, operations: 1 };
    assert_eq!(orders(faults).await, [2_757, 100_593]);
}
