//! The ledger: a table of claims, one for each failure.

use std::collections::HashMap;

use aws_config::{SdkConfig, timeout::TimeoutConfig};
use aws_sdk_dynamodb::{Client, types::AttributeValue};
use comeback_core::{
    claim::{Claim, State},
    fault::StoreFault,
    register::{Waiting, target_key},
};
use comeback_dynamodb::{
    ATTEMPT_MAX, CALL_MAX, ClaimTable, ID, Item, NotReplaced as NotWritten, claim,
    register::{self, PAUSED_AT, RECEIPT_HANDLE},
};
use comeback_flow::ports::{Entered, Ledger, NotReplaced, Notes, Register, Wanted};

use crate::circuits::stored;

/// A table of claims.
pub struct DynamoLedger(ClaimTable);

impl DynamoLedger {
    /// The table of this name or ARN. A call has 3 s, less than calls to other services: every action of a batch
    /// waits for its claim.
    pub fn new(aws: &SdkConfig, table: String) -> Self {
        let others = aws.timeout_config().map(TimeoutConfig::to_builder).unwrap_or_default();
        let timeouts = others.operation_attempt_timeout(ATTEMPT_MAX).operation_timeout(CALL_MAX);
        let aws = aws.to_builder().timeout_config(timeouts.build()).build();
        Self(ClaimTable::new(&Client::new(&aws), table))
    }

    pub(crate) fn table(&self) -> &ClaimTable {
        &self.0
    }

    async fn put(
        &self,
        key: &str,
        seen: Option<&Claim>,
        next: &Claim,
        beside: Item,
    ) -> Result<(), NotReplaced> {
        self.0.put(key, seen, next, beside).await.map_err(not_replaced)
    }
}

fn not_replaced(why: NotWritten) -> NotReplaced {
    match why {
        NotWritten::Changed(there) => NotReplaced::Changed(there.map(|found| found.claim)),
        NotWritten::Fault(fault) => NotReplaced::Fault(fault),
    }
}

impl Ledger for DynamoLedger {
    async fn replace(
        &self,
        key: &str,
        seen: Option<&Claim>,
        next: Option<&Claim>,
    ) -> Result<(), NotReplaced> {
        match next {
            Some(next) => self.put(key, seen, next, Item::new()).await,
            None => self.0.delete(key, seen).await.map_err(not_replaced),
        }
    }
}

impl Register for DynamoLedger {
    async fn enter(
        &self,
        key: &str,
        seen: Option<&Claim>,
        next: &Claim,
        waiting: &Waiting<'_>,
    ) -> Result<(), NotReplaced> {
        self.put(key, seen, next, register::attributes(waiting)).await
    }

    async fn look_up(&self, wanted: &Wanted<'_>) -> Result<Notes, StoreFault> {
        let targets: HashMap<String, &str> =
            wanted.targets.iter().map(|&target| (target_key(target), target)).collect();
        let events = wanted.events.iter().map(|&key| key.to_owned());
        let mut notes = Notes::default();
        for item in self.0.read(events.chain(targets.keys().cloned())).await? {
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
}

fn entered(item: &Item) -> Option<Entered> {
    let claim = claim(item)?;
    let is_delayed = claim.state == State::Waiting && !item.contains_key(RECEIPT_HANDLE);
    let delayed_until = if is_delayed { register::due(item) } else { None };
    Some(Entered { claim, delayed_until })
}
