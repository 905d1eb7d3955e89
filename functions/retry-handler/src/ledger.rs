//! The ledger: a table of claims, one for each failure. The table also holds the register and the circuits of targets.

use std::collections::HashMap;

use aws_config::{SdkConfig, retry::RetryConfig, timeout::TimeoutConfig};
use aws_sdk_dynamodb::{Client, types::AttributeValue};
use comeback_core::{
    Timestamp,
    claim::{Claim, State},
    fault::StoreFault,
    note::{Change, Found, Keys},
    register::{Waiting, target_key},
};
use comeback_dynamodb::{
    self as dynamodb, ATTEMPT_MAX, CALL_MAX, ClaimTable, ID, Item, claim,
    register::{self, DUE_AT, INDEX, PAUSED_AT, QUEUE, RECEIPT_HANDLE, TARGET},
};
use comeback_flow::ports::{
    Entered, Ledger, Listed, NotExchanged, NotReplaced, Notes, Stored, Wanted,
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
        let others = aws.timeout_config().map(TimeoutConfig::to_builder).unwrap_or_default();
        let timeouts = others.operation_attempt_timeout(ATTEMPT_MAX).operation_timeout(CALL_MAX);
        let aws = aws.to_builder().timeout_config(timeouts.build()).build();
        let once = aws.to_builder().retry_config(RetryConfig::disabled()).build();
        Self {
            claims: ClaimTable::new(&Client::new(&aws), table.clone()),
            register: ClaimTable::new(&Client::new(&once), table),
        }
    }
}

fn not_replaced(why: dynamodb::NotReplaced) -> NotReplaced {
    why.map(|there| there.map(|found| found.claim))
}

impl Ledger for DynamoLedger {
    async fn replace(
        &self,
        key: &str,
        seen: Option<&Claim>,
        next: Option<&Claim>,
        change: Option<&Change<'_>>,
    ) -> Result<(), NotReplaced> {
        match (next, change) {
            (_, Some(change)) => {
                self.claims.replace_noting(key, seen, next, Item::new(), change).await
            }
            (Some(next), None) => self.claims.put(key, seen, next, Item::new()).await,
            (None, None) => self.claims.delete(key, seen).await,
        }
        .map_err(not_replaced)
    }

    async fn enter(
        &self,
        key: &str,
        seen: Option<&Claim>,
        next: &Claim,
        waiting: &Waiting<'_>,
        change: Option<&Change<'_>>,
    ) -> Result<(), NotReplaced> {
        let attributes = register::attributes(waiting);
        match change {
            Some(change) => {
                self.register.replace_noting(key, seen, Some(next), attributes, change).await
            }
            None => self.register.put(key, seen, next, attributes).await,
        }
        .map_err(not_replaced)
    }

    async fn look_up(&self, wanted: &Wanted<'_>) -> Result<Notes, StoreFault> {
        let targets: HashMap<String, &str> =
            wanted.targets.iter().map(|&target| (target_key(target), target)).collect();
        let events = wanted.events.iter().cloned();
        let mut notes = Notes::default();
        for item in self.claims.read(events.chain(targets.keys().cloned())).await? {
            let Some(AttributeValue::S(id)) = item.get(ID) else { continue };
            match targets.get(id) {
                Some(&target) => {
                    if item.contains_key(PAUSED_AT) {
                        notes.paused.insert(target.to_owned());
                    }
                    notes.circuits.insert(target.to_owned(), stored(&item));
                }
                None => {
                    notes.events.extend(entered(&item).map(|entered| (id.clone(), entered)));
                }
            }
        }
        Ok(notes)
    }

    async fn exchange(&self, target: &str, seen: u64, next: &str) -> Result<(), NotExchanged> {
        let key = target_key(target);
        let written = self.claims.exchange(&key, VERSION, seen, CIRCUIT, next);
        let current = |there: Option<Item>| there.as_ref().map(stored).unwrap_or_default();
        written.await.map_err(|why| why.map(current))
    }

    async fn recall(&self, wanted: &[Keys]) -> Result<Vec<Found>, StoreFault> {
        self.claims.recall(wanted).await
    }

    async fn adopt(&self, change: &Change<'_>) -> Result<bool, StoreFault> {
        self.claims.adopt(change).await
    }

    async fn list(
        &self,
        target: &str,
        after: Timestamp,
        count: u32,
    ) -> Result<Vec<Listed>, StoreFault> {
        let after = after.timestamp_millis();
        let items = self.claims.first(INDEX, (TARGET, target), (DUE_AT, after), count).await?;
        let text = |item: &Item, name: &str| Some(item.get(name)?.as_s().ok()?.clone());
        let listed = items.iter().filter_map(|item| {
            let queue_url = text(item, QUEUE)?;
            Some(Listed { queue_url, receipt_handle: text(item, RECEIPT_HANDLE)? })
        });
        Ok(listed.collect())
    }
}

fn entered(item: &Item) -> Option<Entered> {
    let claim = claim(item)?;
    let is_delayed = claim.state == State::Waiting && !item.contains_key(RECEIPT_HANDLE);
    let delayed_until = if is_delayed { register::due(item) } else { None };
    Some(Entered { claim, delayed_until })
}

fn stored(item: &Item) -> Stored {
    let version = item.get(VERSION).and_then(|version| version.as_n().ok()?.parse().ok());
    let text = item.get(CIRCUIT).and_then(|text| text.as_s().ok());
    Stored { version: version.unwrap_or_default(), text: text.cloned() }
}
