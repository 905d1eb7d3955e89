//! Fetch: the phase that reads failure records from buckets. Only messages that are notices of S3 need it.
//!
//! A record that was fetched is judged as if it had been the body. The message stays the notice, so waits, delays and
//! the register never copy the record. If a record can't be read now, its notice waits, and no attempt is counted.

use std::collections::HashMap;

use comeback_core::{
    Timestamp,
    arn::Home,
    decision::{Decision, Settlement},
    fault::{RecordFault, StoreFault},
    notice::Location,
    record::Unreadable,
    settings::Settings,
};
use futures_util::{StreamExt, stream};

use crate::{
    budget::within,
    item::Item,
    log,
    ports::{Clock, Records},
    report::{Obstacle, Outcome},
    run::Run,
};

/// How many records are read at the same time. Each may have 8 MiB, and the handler 128 MB.
const READS_AT_ONCE: usize = 3;

/// The items of a batch, after their records were read.
pub(crate) struct Fetched<'e> {
    pub(crate) items: Vec<Item<'e>>,
    /// Those whose records can't be read now, and S3's test events.
    pub(crate) unread: Vec<Item<'e>>,
}

/// Reads the records of these items until this time, as far as they lie in buckets.
pub(crate) async fn fetch<'e, R: Records, L, C: Clock>(
    items: Vec<Item<'e>>,
    records: Option<&R>,
    settings: &'e Settings,
    home: &Home,
    until: Timestamp,
    run: &Run<'_, L, C>,
) -> Fetched<'e> {
    let mut fetched = Fetched { items: Vec::with_capacity(items.len()), unread: Vec::new() };
    let mut sought = Vec::new();
    for item in items {
        if item.judgement.is_test() {
            log::end(&item, Outcome::Tested);
            fetched.unread.push(item);
        } else if item.judgement.location.is_some() {
            sought.push(item);
        } else {
            fetched.items.push(item);
        }
    }
    if sought.is_empty() {
        return fetched;
    }
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
            Ok(judgement) => fetched.items.push(item.judged_again(settings, judgement)),
            Err(fault) => {
                log::not_read(&item, &fault);
                let bucket =
                    item.judgement.location.as_ref().map(|it| format!("s3://{}", it.bucket));
                let item = put_back(item, &fault, &bucket.unwrap_or_default(), settings, run);
                let waits =
                    matches!(item.judgement.decision, Decision::Settle(Settlement::Wait { .. }));
                if waits { &mut fetched.unread } else { &mut fetched.items }.push(item);
            }
        }
    }
    fetched.items.sort_unstable_by_key(|item| item.nth);
    fetched
}

/// Lets a message wait because of a fault of this place.
pub(crate) fn put_back<'e, L, C: Clock>(
    item: Item<'e>,
    fault: &StoreFault,
    place: &str,
    settings: &'e Settings,
    run: &Run<'_, L, C>,
) -> Item<'e> {
    let obstacle = if fault.passes { Obstacle::Throttled } else { Obstacle::Configuration };
    item.note_obstacle(Some(obstacle));
    let now = run.clock.now();
    let since = run.outages.met(place, now);
    let judgement = item.judgement.clone().unfetched(fault.passes, since, now);
    item.judged_again(settings, judgement)
}

fn not_listed(location: &Location) -> StoreFault {
    let message = format!("RECORD_BUCKETS does not name {}", location.bucket);
    StoreFault { passes: false, code: None, message }
}

pub(crate) fn out_of_time(before: &str) -> StoreFault {
    let message = format!("the handler ran out of time before {before}");
    StoreFault { passes: true, code: None, message }
}
