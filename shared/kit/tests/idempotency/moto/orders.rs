//! Every order of two and of three executions, over DynamoDB.

use super::{Table, placements::Placements};
use crate::{
    charges::Charges,
    world::{Faults, every_order},
};

const NONE: Faults = Faults { crashes: 0, leases_over: 0, calls: 0, operations: 0 };
const LATE_OR_DEAD: Faults = Faults { crashes: 1, leases_over: 1, operations: 1, ..NONE };

#[tokio::test]
async fn in_every_order_an_operation_runs_once() {
    let table = Table::new("orders").await;
    for (nth, (executions, faults, expected)) in [
        (2, LATE_OR_DEAD, 249),
        (2, Faults { calls: 1, ..NONE }, 38),
        (3, Faults { operations: 1, ..NONE }, 14),
        (3, Faults { leases_over: 1, ..NONE }, 273),
    ]
    .into_iter()
    .enumerate()
    {
        let charges = |play| Charges::new(table.store(), format!("order {nth}-{play}"));
        let plays = every_order(executions, faults, charges);
        assert_eq!(plays.await, expected, "{executions} with {faults:?}");
    }
}

#[tokio::test]
async fn in_every_order_a_transaction_is_made_once() {
    let table = Table::new("transactions").await;
    for (executions, faults, expected) in [
        (2, LATE_OR_DEAD, 249),
        (2, Faults { calls: 1, crashes: 1, ..NONE }, 108),
        (1, Faults { calls: 2, ..NONE }, 22),
        (3, Faults { operations: 1, ..NONE }, 14),
    ] {
        let placements = |play| Placements { table: &table, key: format!("order {play}") };
        let plays = every_order(executions, faults, placements);
        assert_eq!(plays.await, expected, "{executions} with {faults:?}");
    }
}
