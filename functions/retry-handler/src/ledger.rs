//! The ledger: a table of claims, one for each failure. The table also holds the register and the circuits of targets.

use std::{collections::HashMap, time::Duration};

use aws_config::{SdkConfig, retry::RetryConfig, timeout::TimeoutConfig};
use aws_sdk_dynamodb::Client;
use comeback_core::{
    Timestamp,
    claim::State,
    fault::StoreFault,
    lineage::{Key, Known, Siblings, Write},
    register::target_key,
};
use comeback_dynamodb::{
    ATTEMPT_MAX, CALL_MAX, ClaimTable, Item, key_of, known,
    register::{self, DUE_AT, INDEX, PAUSED_AT, QUEUE, RECEIPT_HANDLE, TARGET},
};
use comeback_flow::ports::{
    Entered, Ledger, Listed, Listing, LookedUp, NotExchanged, NotReplaced, Stored, Wanted,
};

const CIRCUIT: &str = "circuit";
const VERSION: &str = "version";

pub struct DynamoLedger {
    claims: ClaimTable,
    register: ClaimTable,
}

impl DynamoLedger {
    /// The table of this name or ARN. A call may take 3 s, less than calls to other services, because every action of a
    /// batch waits for its claim. A write to the register is tried once: it only lists an event, and a throttled table
    /// must not hold up the batch.
    pub fn new(aws: &SdkConfig, table: String) -> Self {
        Self::within(aws, table, [ATTEMPT_MAX, CALL_MAX])
    }

    /// The same, with limits for an attempt and for a call: a stand-in on a busy machine is slower than DynamoDB.
    pub fn within(aws: &SdkConfig, table: String, [attempt, call]: [Duration; 2]) -> Self {
        let others = aws.timeout_config().map(TimeoutConfig::to_builder).unwrap_or_default();
        let timeouts = others.operation_attempt_timeout(attempt).operation_timeout(call);
        let aws = aws.to_builder().timeout_config(timeouts.build()).build();
        let once = aws.to_builder().retry_config(RetryConfig::disabled()).build();
        Self {
            claims: ClaimTable::new(&Client::new(&aws), table.clone()),
            register: ClaimTable::new(&Client::new(&once), table),
        }
    }
}

impl Ledger for DynamoLedger {
    async fn write(&self, key: &Key, write: &Write<'_>) -> Result<(), NotReplaced> {
        let table = if write.waiting.is_some() { &self.register } else { &self.claims };
        table.write(key, write).await
    }

    async fn note(&self, key: &Key, known: &Known) -> Result<(), StoreFault> {
        self.claims.note(key, known).await
    }

    async fn take(&self, key: &Key, call: &str, run: &str) -> Result<bool, StoreFault> {
        self.claims.take(key, call, run).await
    }

    async fn siblings(&self, key: &Key, only_children: bool) -> Result<Siblings, StoreFault> {
        self.claims.siblings(key, only_children).await
    }

    async fn look_up(&self, wanted: &Wanted<'_>) -> Result<LookedUp, StoreFault> {
        let targets: HashMap<Key, &str> =
            wanted.targets.iter().map(|&target| (target_key(target), target)).collect();
        let mut found = LookedUp::default();
        for item in self.claims.read(wanted.runs.iter().chain(targets.keys())).await? {
            let Some(key) = key_of(&item) else { continue };
            match targets.get(&key) {
                Some(&target) => {
                    if item.contains_key(PAUSED_AT) {
                        found.paused.insert(target.to_owned());
                    }
                    found.circuits.insert(target.to_owned(), stored(&item));
                }
                None => found.runs.extend(entered(&item).map(|entered| (key, entered))),
            }
        }
        Ok(found)
    }

    async fn exchange(&self, target: &str, seen: u64, next: &str) -> Result<(), NotExchanged> {
        let key = target_key(target);
        let written = self.claims.exchange(&key, VERSION, seen, CIRCUIT, next);
        let current = |there: Option<Item>| there.as_ref().map(stored).unwrap_or_default();
        written.await.map_err(|why| why.map(current))
    }

    async fn list(
        &self,
        target: &str,
        after: Timestamp,
        count: u32,
    ) -> Result<Listing, StoreFault> {
        let (of, after) = ((TARGET, target), (DUE_AT, after.timestamp_millis()));
        let first = self.claims.first(INDEX, of, after, RECEIPT_HANDLE, count).await?;
        let text = |item: &Item, name: &str| Some(item.get(name)?.as_s().ok()?.clone());
        let in_flight = first.items.iter().filter_map(|item| {
            let queue_url = text(item, QUEUE)?;
            Some(Listed { queue_url, receipt_handle: text(item, RECEIPT_HANDLE)? })
        });
        Ok(Listing { in_flight: in_flight.collect(), has_delays: first.has_passed_over })
    }
}

fn entered(item: &Item) -> Option<Entered> {
    let known = known(item)?;
    let is_delayed = known.claim.state == State::Waiting && !item.contains_key(RECEIPT_HANDLE);
    let delayed_until = if is_delayed { register::due(item) } else { None };
    Some(Entered { known, delayed_until })
}

fn stored(item: &Item) -> Stored {
    let version = item.get(VERSION).and_then(|version| version.as_n().ok()?.parse().ok());
    let text = item.get(CIRCUIT).and_then(|text| text.as_s().ok());
    Stored { version: version.unwrap_or_default(), text: text.cloned() }
}
