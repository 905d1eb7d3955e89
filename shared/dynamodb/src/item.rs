//! A claim as the attributes of an item.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use comeback_core::{
    Timestamp,
    claim::{Claim, State, Token},
};

use crate::Item;

pub(crate) const ID: &str = "id";
const OWNER: &str = "owner";
const GENERATION: &str = "generation";
const STATE: &str = "state";
/// When the lease ends, in milliseconds since 1970.
const HELD_UNTIL: &str = "held_until";
/// In seconds since 1970, as DynamoDB's time to live requires.
const EXPIRES_AT: &str = "expires_at";

const HELD: &str = "held";
const DONE: &str = "done";

/// The item of a claim, with the caller's attributes.
pub(crate) fn write(key: &str, claim: &Claim, beside: Item) -> Item {
    let mut item = beside;
    item.extend([
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

/// Reads the claim in an item. Returns `None` if the item has no complete claim.
pub(crate) fn claim(item: &Item) -> Option<Claim> {
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

fn state(claim: &Claim) -> &'static str {
    match claim.state {
        State::Held { .. } => HELD,
        State::Done => DONE,
    }
}

fn number(number: impl ToString) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

/// The condition that the item still has the claim that was seen.
pub(crate) struct Condition {
    pub(crate) expression: &'static str,
    pub(crate) names: HashMap<String, String>,
    pub(crate) values: Option<Item>,
}

impl Condition {
    pub(crate) fn of(seen: Option<&Claim>) -> Self {
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
            assert_eq!(claim(&write("failed request", &written, Item::new())), Some(written));
        }
    }

    #[test]
    fn an_item_of_another_program_is_no_claim() {
        for name in [OWNER, GENERATION, STATE, HELD_UNTIL, EXPIRES_AT] {
            let whole = write("failed request", &held(), Item::new());
            let mut lacking = whole.clone();
            lacking.remove(name);
            assert_eq!(claim(&lacking), None, "without {name}");
            let mut odd = whole;
            odd.insert(name.to_owned(), AttributeValue::S("else".to_owned()));
            assert!(name == OWNER || claim(&odd).is_none(), "with another {name}");
        }
    }
}
