//! The ledger: a DynamoDB table of claims, one item for each failure.
//!
//! The table has the partition key `id`, a string, and no sort key. `expires_at` is meant for its time to
//! live, which only cleans up: that a claim has expired is judged by `comeback-core`.

use std::{collections::HashMap, time::Duration};

use aws_config::{SdkConfig, timeout::TimeoutConfig};
use aws_sdk_dynamodb::{
    Client, Config,
    error::{DisplayErrorContext, ProvideErrorMetadata, SdkError},
    operation::{delete_item::DeleteItemError, put_item::PutItemError},
    types::{AttributeValue, ReturnValuesOnConditionCheckFailure},
};
use comeback_core::{
    Timestamp,
    claim::{Claim, State, Token},
    fault::{StoreFault, store_fault_passes},
};
use comeback_flow::ports::{Ledger, NotReplaced};

const ID: &str = "id";
const OWNER: &str = "owner";
const GENERATION: &str = "generation";
const STATE: &str = "state";
/// Until when it is held, in milliseconds since 1970.
const HELD_UNTIL: &str = "held_until";
/// In seconds since 1970, as a time to live has to be.
const EXPIRES_AT: &str = "expires_at";

const HELD: &str = "held";
const DONE: &str = "done";

type Item = HashMap<String, AttributeValue>;

/// DynamoDB answers within milliseconds. A claim comes before an invocation and has to leave it time.
const ATTEMPT_MAX: Duration = Duration::from_secs(1);
const CALL_MAX: Duration = Duration::from_secs(3);

/// A table of claims.
pub struct DynamoLedger {
    client: Client,
    table: String,
}

impl DynamoLedger {
    /// The table of this name or ARN.
    pub fn new(aws: &SdkConfig, table: String) -> Self {
        let config = Config::new(aws).to_builder().timeout_config(timeouts(aws)).build();
        Self { client: Client::from_conf(config), table }
    }

    async fn put(&self, key: &str, seen: Option<&Claim>, next: &Claim) -> Result<(), NotReplaced> {
        let condition = Condition::of(seen);
        let call = self
            .client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(item(key, next)))
            .condition_expression(condition.expression)
            .set_expression_attribute_names(Some(condition.names))
            .set_expression_attribute_values(condition.values)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        call.send().await.map(drop).map_err(|error| match error.as_service_error() {
            Some(PutItemError::ConditionalCheckFailedException(changed)) => {
                self.changed(changed.item())
            }
            _ => self.fault(&error),
        })
    }

    async fn delete(&self, key: &str, seen: Option<&Claim>) -> Result<(), NotReplaced> {
        let condition = Condition::of(seen);
        let call = self
            .client
            .delete_item()
            .table_name(&self.table)
            .key(ID, AttributeValue::S(key.to_owned()))
            .condition_expression(condition.expression)
            .set_expression_attribute_names(Some(condition.names))
            .set_expression_attribute_values(condition.values)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        call.send().await.map(drop).map_err(|error| match error.as_service_error() {
            Some(DeleteItemError::ConditionalCheckFailedException(changed)) => {
                self.changed(changed.item())
            }
            _ => self.fault(&error),
        })
    }

    fn changed(&self, there: Option<&Item>) -> NotReplaced {
        let Some(there) = there.filter(|item| !item.is_empty()) else {
            return NotReplaced::Changed(None);
        };
        match claim(there) {
            Some(claim) => NotReplaced::Changed(Some(claim)),
            None => NotReplaced::Fault(StoreFault {
                passes: false,
                code: None,
                message: format!(
                    "table {}: expected an item with the attributes of a claim, got one with {:?}",
                    self.table,
                    there.keys().collect::<std::collections::BTreeSet<_>>()
                ),
            }),
        }
    }

    fn fault<E>(&self, error: &SdkError<E>) -> NotReplaced
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let code = error.code();
        let status = error.raw_response().map(|response| response.status().as_u16());
        let said =
            error.message().map_or_else(|| DisplayErrorContext(error).to_string(), str::to_owned);
        NotReplaced::Fault(StoreFault {
            passes: store_fault_passes(code, status),
            code: code.map(str::to_owned),
            message: format!("table {}: {said}", self.table),
        })
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
            Some(next) => self.put(key, seen, next).await,
            None => self.delete(key, seen).await,
        }
    }
}

fn timeouts(aws: &SdkConfig) -> TimeoutConfig {
    let builder = aws.timeout_config().map(TimeoutConfig::to_builder).unwrap_or_default();
    builder.operation_attempt_timeout(ATTEMPT_MAX).operation_timeout(CALL_MAX).build()
}

/// That the item is still as it was seen.
struct Condition {
    expression: &'static str,
    names: HashMap<String, String>,
    values: Option<Item>,
}

impl Condition {
    fn of(seen: Option<&Claim>) -> Self {
        let names = |names: &[&str]| {
            names.iter().map(|&name| (format!("#{name}"), name.to_owned())).collect()
        };
        match seen {
            None => {
                Self { expression: "attribute_not_exists(#id)", names: names(&[ID]), values: None }
            }
            Some(seen) => Self {
                expression: "#owner = :owner AND #generation = :generation AND #state = :state",
                names: names(&[OWNER, GENERATION, STATE]),
                values: Some(HashMap::from([
                    (":owner".to_owned(), AttributeValue::S(seen.token.owner.clone())),
                    (":generation".to_owned(), number(seen.token.generation)),
                    (":state".to_owned(), AttributeValue::S(state(seen).to_owned())),
                ])),
            },
        }
    }
}

fn state(claim: &Claim) -> &'static str {
    match claim.state {
        State::Held { .. } => HELD,
        State::Done => DONE,
    }
}

fn number(number: impl ToString) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

fn item(key: &str, claim: &Claim) -> Item {
    let mut item = HashMap::from([
        (ID.to_owned(), AttributeValue::S(key.to_owned())),
        (OWNER.to_owned(), AttributeValue::S(claim.token.owner.clone())),
        (GENERATION.to_owned(), number(claim.token.generation)),
        (STATE.to_owned(), AttributeValue::S(state(claim).to_owned())),
        (EXPIRES_AT.to_owned(), number(claim.expires_at.timestamp())),
    ]);
    if let State::Held { until } = claim.state {
        item.insert(HELD_UNTIL.to_owned(), number(until.timestamp_millis()));
    }
    item
}

/// The claim that an item is; none where it is something else.
fn claim(item: &Item) -> Option<Claim> {
    let text = |name: &str| item.get(name)?.as_s().ok();
    let number = |name: &str| item.get(name)?.as_n().ok()?.parse::<i64>().ok();
    let state = match text(STATE)?.as_str() {
        DONE => State::Done,
        HELD => State::Held { until: Timestamp::from_timestamp_millis(number(HELD_UNTIL)?)? },
        _ => return None,
    };
    let generation = u32::try_from(number(GENERATION)?).ok()?;
    let token = Token { generation, owner: text(OWNER)?.clone() };
    let expires_at = Timestamp::from_timestamp(number(EXPIRES_AT)?, 0)?;
    Some(Claim { token, state, expires_at })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held() -> Claim {
        Claim {
            token: Token { generation: 7, owner: "request/3".to_owned() },
            state: State::Held { until: "2026-02-01T12:00:40.568Z".parse().unwrap() },
            expires_at: "2026-02-15T12:00:00Z".parse().unwrap(),
        }
    }

    #[test]
    fn a_claim_reads_back_as_it_was_written() {
        for written in [held(), held().done()] {
            assert_eq!(claim(&item("failed request", &written)), Some(written));
        }
    }

    #[test]
    fn an_item_of_another_program_is_no_claim() {
        for name in [OWNER, GENERATION, STATE, HELD_UNTIL, EXPIRES_AT] {
            let whole = item("failed request", &held());
            let mut lacking = whole.clone();
            lacking.remove(name);
            assert_eq!(claim(&lacking), None, "without {name}");
            let mut odd = whole;
            odd.insert(name.to_owned(), AttributeValue::S("else".to_owned()));
            assert!(name == OWNER || claim(&odd).is_none(), "with another {name}");
        }
    }
}
