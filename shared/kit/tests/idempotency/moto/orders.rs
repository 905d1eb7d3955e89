//! Every order of two and three executions, over DynamoDB.

use super::{Table, placements::Placements};
use crate::{
    charges::Charges,
    orders::every_order,
    world::{Faults, World},
};

/// Plays every order of so many executions, each under a key of its own; tells how many there are.
async fn orders(table: &Table, executions: usize, faults: Faults) -> usize {
    every_order(async |choices, play| {
        let charges = Charges::new(table.store(), format!("order {play}"));
        World::play(charges, executions, faults, choices).await;
    })
    .await
}

#[tokio::test]
async fn two_executions_in_every_order_with_a_death_and_late_owners() {
    let table = Table::new("orders-of-two").await;
    let faults = Faults { crashes: 1, leases_over: 1, operations: 1, ..Faults::default() };
    assert_eq!(orders(&table, 2, faults).await, 249);
}

#[tokio::test]
async fn two_executions_in_every_order_with_calls_that_go_wrong() {
    let table = Table::new("orders-of-two-with-lost-calls").await;
    let faults = Faults { calls: 1, ..Faults::default() };
    assert_eq!(orders(&table, 2, faults).await, 38);
}

#[tokio::test]
async fn three_executions_in_every_order_of_which_one_fails() {
    let table = Table::new("orders-of-three").await;
    let faults = Faults { operations: 1, ..Faults::default() };
    assert_eq!(orders(&table, 3, faults).await, 14);
}

#[tokio::test]
async fn three_executions_in_every_order_with_late_owners() {
    let table = Table::new("late-orders-of-three").await;
    let faults = Faults { leases_over: 1, ..Faults::default() };
    assert_eq!(orders(&table, 3, faults).await, 273);
}

/// The same of placements, whose effect is made in one transaction with the mark.
async fn orders_of_placements(table: &Table, executions: usize, faults: Faults) -> usize {
    every_order(async |choices, play| {
        let placements = Placements { table, key: format!("order {play}") };
        World::play(placements, executions, faults, choices).await;
    })
    .await
}

#[tokio::test]
async fn two_transactions_in_every_order_with_a_death_and_late_owners() {
    let table = Table::new("transactions-of-two").await;
    let faults = Faults { crashes: 1, leases_over: 1, operations: 1, ..Faults::default() };
    assert_eq!(orders_of_placements(&table, 2, faults).await, 249);
}

#[tokio::test]
async fn two_transactions_in_every_order_with_a_call_that_goes_wrong_and_a_death() {
    let table = Table::new("transactions-with-a-lost-call").await;
    let faults = Faults { calls: 1, crashes: 1, ..Faults::default() };
    assert_eq!(orders_of_placements(&table, 2, faults).await, 108);
}

#[tokio::test]
async fn three_transactions_in_every_order_of_which_one_fails() {
    let table = Table::new("transactions-of-three").await;
    let faults = Faults { operations: 1, ..Faults::default() };
    assert_eq!(orders_of_placements(&table, 3, faults).await, 14);
}
