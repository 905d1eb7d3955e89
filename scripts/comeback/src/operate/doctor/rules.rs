//! Finds problems in a retry system, and says why each one matters and how to fix it.
//!
//! [`diagnose`] is a function of [`Facts`]. It examines each part of the system separately: the handler, its mappings,
//! the retry queues, the dead-letter queue, the buckets with failure records, the functions and queues whose failures
//! are retried, the queues' consumers, what delivers events to them, and the ledger. A fact that is unknown, because a
//! call failed, is a finding of its own, and affects no other.

mod buckets;
mod dead_letters;
mod deliveries;
pub mod errors;
pub mod facts;
pub mod finding;
pub mod fix;
mod handler;
mod keys;
pub mod kinds;
pub mod ledger;
mod mappings;
pub mod metric;
pub mod permissions;
mod queue;
mod retry_queues;
mod role;
mod running;
mod sources;
mod streams;
mod targets;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::operate::doctor::rules::{
    facts::{Facts, RetryQueue},
    finding::{Examined, Verdict},
    role::Role,
};

pub fn diagnose(facts: &Facts) -> Vec<Examined> {
    let mut all = vec![handler::examine_handler(facts)];
    all.extend(mappings::mappings(facts));
    // A source queue is reported with its mapping, and the dead-letter queue by itself. Neither is examined as a retry
    // queue, so no fix changes it.
    let is_retry_queue =
        |it: &&RetryQueue| matches!(Role::of(facts, &it.queue.arn), Role::Retry | Role::Unbound);
    let retry_queues = facts.queues.iter().filter(is_retry_queue);
    all.extend(retry_queues.map(|queue| retry_queues::examine_queue(facts, queue)));
    all.push(dead_letters::dead_letters(facts));
    all.extend(facts.buckets.iter().map(|bucket| buckets::examine_bucket(facts, bucket)));
    all.extend(facts.targets.iter().map(|target| targets::examine_target(facts, target)));
    for source in &facts.sources {
        all.push(sources::examine_source(facts, source));
        all.extend(source.consumers.iter().map(|it| sources::examine_consumer(source, it)));
    }
    all.extend(facts.streams.iter().map(|it| streams::examine_stream(facts, it)));
    match &facts.deliveries {
        Ok(deliveries) => {
            all.extend(deliveries.iter().map(|it| deliveries::examine_delivery(facts, it)));
        }
        Err(fault) => {
            let mut it = Examined::new("rules and schedules".to_owned());
            it.unknown(fault);
            all.push(it);
        }
    }
    all.extend(facts.ledger.iter().map(|it| ledger::examine_ledger(facts, it)));
    all.extend(keys::examine_keys(facts));
    // Of repeated `unchecked` findings, the first part that has one keeps it.
    let mut seen = BTreeSet::new();
    for examined in &mut all {
        examined.findings.retain(|finding| {
            finding.verdict != Verdict::Unknown || seen.insert(finding.says.clone())
        });
    }
    all
}
