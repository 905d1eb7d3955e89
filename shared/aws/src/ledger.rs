//! The ledger: a table of claims, one for each failure.

use std::time::Duration;

use aws_config::{SdkConfig, timeout::TimeoutConfig};
use aws_sdk_dynamodb::{Client, Config};
use comeback_core::claim::Claim;
use comeback_dynamodb::{ClaimTable, Item, NotReplaced as NotWritten};
use comeback_flow::ports::{Ledger, NotReplaced};

/// DynamoDB answers within milliseconds. A claim comes before an invocation and has to leave it time.
const ATTEMPT_MAX: Duration = Duration::from_secs(1);
const CALL_MAX: Duration = Duration::from_secs(3);

/// A table of claims.
pub struct DynamoLedger(ClaimTable);

impl DynamoLedger {
    /// The table of this name or ARN.
    pub fn new(aws: &SdkConfig, table: String) -> Self {
        let config = Config::new(aws).to_builder().timeout_config(timeouts(aws)).build();
        Self(ClaimTable::new(Client::from_conf(config), table))
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

fn timeouts(aws: &SdkConfig) -> TimeoutConfig {
    let builder = aws.timeout_config().map(TimeoutConfig::to_builder).unwrap_or_default();
    builder.operation_attempt_timeout(ATTEMPT_MAX).operation_timeout(CALL_MAX).build()
}
