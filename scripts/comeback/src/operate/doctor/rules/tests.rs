//! Tests of the findings: a healthy system, and the ways to break it.

mod buckets;
mod deliveries;
mod findings;
mod queues;
mod streams;
mod systems;
