//! The ledger: a table of claims, one for each failure.

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use comeback_core::claim::Claim;
use comeback_dynamodb::{ClaimTable, Item, NotReplaced as NotWritten};
use comeback_flow::ports::{Ledger, NotReplaced};

/// A table of claims.
pub struct DynamoLedger(ClaimTable);

impl DynamoLedger {
    /// The table of this name or ARN.
    pub fn new(aws: &SdkConfig, table: String) -> Self {
        Self(ClaimTable::new(&Client::new(aws), table))
    }
}

impl Ledger for DynamoLedger {
    async fn replace(
        &self,
        key: &str,
        seen: Option<&Claim>,
        next: Option<&Claim>,
    ) -> Result<(), NotReplaced> {
        let written = match next {
            Some(next) => self.0.put(key, seen, next, Item::new()).await,
            None => self.0.delete(key, seen).await,
        };
        written.map_err(|why| match why {
            NotWritten::Changed(there) => NotReplaced::Changed(there.map(|found| found.claim)),
            NotWritten::Fault(fault) => NotReplaced::Fault(fault),
        })
    }
}
