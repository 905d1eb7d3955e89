//! The ledger: a table of claims, one for each failure.

use aws_config::{SdkConfig, timeout::TimeoutConfig};
use aws_sdk_dynamodb::Client;
use comeback_core::claim::Claim;
use comeback_dynamodb::{ATTEMPT_MAX, CALL_MAX, ClaimTable, Item, NotReplaced as NotWritten};
use comeback_flow::ports::{Ledger, NotReplaced};

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
