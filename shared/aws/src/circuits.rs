//! The circuits of targets, in the ledger's table.

use comeback_core::{Timestamp, fault::StoreFault, register::target_key};
use comeback_dynamodb::{
    Item, NotExchanged as NotWritten,
    register::{DUE_AT, INDEX, RECEIPT_HANDLE, TARGET},
};
use comeback_flow::ports::{Circuits, Listed, NotExchanged, Stored};

use crate::ledger::DynamoLedger;

const CIRCUIT: &str = "circuit";
const VERSION: &str = "version";

/// The circuit in the item of a target.
pub(crate) fn stored(item: &Item) -> Stored {
    let version = item.get(VERSION).and_then(|version| version.as_n().ok()?.parse().ok());
    let text = item.get(CIRCUIT).and_then(|text| text.as_s().ok());
    Stored { version: version.unwrap_or_default(), text: text.cloned() }
}

impl Circuits for DynamoLedger {
    async fn exchange(&self, target: &str, seen: u64, next: &str) -> Result<(), NotExchanged> {
        let key = target_key(target);
        let written = self.table().exchange(&key, VERSION, seen, CIRCUIT, next);
        written.await.map_err(|why| match why {
            NotWritten::Changed(there) => {
                NotExchanged::Changed(there.as_ref().map(stored).unwrap_or_default())
            }
            NotWritten::Fault(fault) => NotExchanged::Fault(fault),
        })
    }

    async fn list(
        &self,
        target: &str,
        after: Timestamp,
        count: u32,
    ) -> Result<Vec<Listed>, StoreFault> {
        let after = after.timestamp_millis();
        let items = self.table().first(INDEX, (TARGET, target), (DUE_AT, after), count).await?;
        let text = |item: &Item, name: &str| Some(item.get(name)?.as_s().ok()?.clone());
        let listed = items.iter().filter_map(|item| {
            let queue_url = text(item, "queue")?;
            Some(Listed { queue_url, receipt_handle: text(item, RECEIPT_HANDLE)? })
        });
        Ok(listed.collect())
    }
}
