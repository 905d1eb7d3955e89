//! Fetch: the phase that reads failure records from buckets. Only messages that are notices of S3 need it.
//!
//! A record that was fetched is judged as if it had been the body. The message stays the notice, so waits, delays and
//! the register never copy the record. If a record can't be read now, its notice waits, and no attempt is counted.

use std::collections::HashMap;

use comeback_core::{
    Timestamp,
    decision::{Decision, Settlement},
    fault::{RecordFault, StoreFault},
    notice::Location,
    record::{NoFailure, Unreadable},
    settings::Settings,
};
use futures_util::{StreamExt, stream};

use crate::{
    budget::within,
    faults::{out_of_time, unfetched},
    item::Item,
    log,
    phase::{Done, Phase},
    ports::{Clock, Records},
    report::Outcome,
    run::Run,
};

/// How many records are read at the same time. Each may have 8 MiB, and the handler 128 MB.
const READS_AT_ONCE: usize = 3;

/// Reads the records of these items until this time, as far as they lie in buckets. Those whose records can't be read
/// now wait, and those that are about no failure end.
pub(crate) async fn fetch<'e, R: Records, L, C: Clock>(
    items: Vec<Item<'e>>,
    records: Option<&R>,
    settings: &'e Settings,
    until: Timestamp,
    run: &Run<'_, L, C>,
) -> Phase<Item<'e>, Done<'e>> {
    let mut fetched = Phase { go_on: Vec::with_capacity(items.len()), done: Vec::new() };
    let mut sought = Vec::new();
    for item in items {
        match item.judgement.no_failure {
            Some(NoFailure::Test) => fetched.done.push(Done::Ended(item, Outcome::Tested)),
            Some(NoFailure::Success) => fetched.done.push(Done::Ended(item, Outcome::Succeeded)),
            None if item.judgement.location.is_some() => sought.push(item),
            None => fetched.go_on.push(item),
        }
    }
    if sought.is_empty() {
        return fetched;
    }
    let home = run.context.home;
    // What was read is judged at once, so that only a few records are in memory.
    let mut judged = HashMap::new();
    let reads = stream::iter(&sought).map(async |item| {
        let location = item.judgement.location.as_ref()?;
        let read = match records.filter(|_| settings.record_buckets.contain(&location.bucket)) {
            Some(records) => records.read(location, home).await,
            None => Err(RecordFault::Store(not_listed(location))),
        };
        let now = run.clock.now();
        let decide = |record: Result<&[u8], Unreadable>| {
            Ok(item.judgement.clone().fetched(record, home, &settings.rules, now))
        };
        let judgement = match read {
            Ok(bytes) => decide(Ok(&bytes)),
            Err(RecordFault::Gone) => decide(Err(Unreadable::RecordGone)),
            Err(RecordFault::TooLarge) => decide(Err(Unreadable::RecordTooLarge)),
            Err(RecordFault::Store(fault)) => Err(fault),
        };
        Some((item.nth, judgement))
    });
    let reads = reads.buffer_unordered(READS_AT_ONCE).for_each(|read| {
        judged.extend(read);
        async {}
    });
    let _ = within(run.clock, until, reads).await;
    for item in sought {
        match judged.remove(&item.nth).unwrap_or_else(|| Err(out_of_time("the record was read"))) {
            Ok(judgement) => fetched.go_on.push(item.judged_again(settings, judgement)),
            Err(fault) => {
                log::not_read(&item, &fault);
                let bucket =
                    item.judgement.location.as_ref().map(|it| format!("s3://{}", it.bucket));
                let item = unfetched(item, &fault, &bucket.unwrap_or_default(), settings, run);
                match item.judgement.decision {
                    Decision::Settle(Settlement::Wait { .. }) => {
                        fetched.done.push(Done::Settled(item));
                    }
                    Decision::Settle(Settlement::DeadLetter(_)) | Decision::Invoke => {
                        fetched.go_on.push(item);
                    }
                }
            }
        }
    }
    fetched.go_on.sort_unstable_by_key(|item| item.nth);
    fetched
}

fn not_listed(location: &Location) -> StoreFault {
    let message = format!("RECORD_BUCKETS does not name {}", location.bucket);
    StoreFault { is_transient: false, code: None, message }
}
