//! Converts claims to and from the attributes of an item.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use comeback_core::{
    Timestamp,
    claim::{Claim, Order, State, Token},
    lineage::Key,
    settings::contract::TABLE,
};

use crate::{Item, RUN};

pub const ID: &str = TABLE.key;
pub(crate) const OWNER: &str = "owner";
pub(crate) const GENERATION: &str = "generation";
pub(crate) const STATE: &str = "state";
pub(crate) const ORDER: &str = "order";
/// When the lease ends, in milliseconds since 1970.
const HELD_UNTIL: &str = "held_until";
/// When the item expires, in seconds since 1970, as DynamoDB's time to live requires.
pub(crate) const EXPIRES_AT: &str = TABLE.expiry;

pub(crate) const NOTED: &str = "noted";
pub(crate) const WAITING: &str = "waiting";
const HELD: &str = "held";
const DONE: &str = "done";

const RETRY: &str = "retry";
const CANCEL: &str = "cancel";

/// The key of an item of the ledger's table.
pub fn key_of(item: &Item) -> Option<Key> {
    let text = |name: &str| item.get(name)?.as_s().ok().cloned();
    Some(Key { id: text(ID)?, run: text(RUN)? })
}

/// Returns the item of a claim, with the caller's attributes `extra`.
pub(crate) fn write(key: &str, claim: &Claim, extra: Item) -> Item {
    let mut item = extra;
    item.insert(ID.to_owned(), text(key));
    let attributes = attributes(claim).into_iter();
    item.extend(attributes.filter_map(|(name, value)| Some((name.to_owned(), value?))));
    item
}

/// All attributes of a claim. An attribute without a value is absent.
pub(crate) fn attributes(claim: &Claim) -> [(&'static str, Option<AttributeValue>); 6] {
    let held_until = match claim.state {
        State::Held { until } => Some(number(until.timestamp_millis())),
        State::Noted | State::Waiting | State::Done => None,
    };
    [
        (OWNER, Some(text(&claim.token.owner))),
        (GENERATION, Some(number(claim.token.generation))),
        (STATE, Some(text(state(claim)))),
        (EXPIRES_AT, Some(number(claim.expires_at.timestamp()))),
        (ORDER, claim.order.map(|order| text(order_name(order)))),
        (HELD_UNTIL, held_until),
    ]
}

/// Reads the claim from an item. Returns `None` if a required attribute is missing or invalid.
pub fn claim(item: &Item) -> Option<Claim> {
    let text = |name: &str| item.get(name)?.as_s().ok();
    let number = |name: &str| item.get(name)?.as_n().ok()?.parse::<i64>().ok();
    let state = match text(STATE)?.as_str() {
        NOTED => State::Noted,
        WAITING => State::Waiting,
        DONE => State::Done,
        HELD => State::Held { until: Timestamp::from_timestamp_millis(number(HELD_UNTIL)?)? },
        _ => return None,
    };
    let generation = u32::try_from(number(GENERATION)?).ok()?;
    let token = Token { generation, owner: text(OWNER)?.clone() };
    let order = match text(ORDER).map(String::as_str) {
        Some(RETRY) => Some(Order::Retry),
        Some(CANCEL) => Some(Order::Cancel),
        _ => None,
    };
    let expires_at = Timestamp::from_timestamp(number(EXPIRES_AT)?, 0)?;
    Some(Claim { token, state, order, expires_at })
}

pub(crate) fn order_name(order: Order) -> &'static str {
    match order {
        Order::Retry => RETRY,
        Order::Cancel => CANCEL,
    }
}

fn state(claim: &Claim) -> &'static str {
    match claim.state {
        State::Noted => NOTED,
        State::Waiting => WAITING,
        State::Held { .. } => HELD,
        State::Done => DONE,
    }
}

pub(crate) fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

pub(crate) fn number(number: impl ToString) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

/// The condition that the item still has the `seen` claim, or does not exist if none was seen.
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
                    (":owner".to_owned(), text(&seen.token.owner)),
                    (":generation".to_owned(), number(seen.token.generation)),
                    (":state".to_owned(), text(state(seen))),
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
            order: None,
            expires_at: "2026-02-15T12:00:00Z".parse().unwrap(),
        }
    }

    #[test]
    fn a_claim_reads_back_as_it_was_written() {
        let waiting = Claim::waiting("request/4".to_owned(), Some(&held()), held().expires_at);
        let ordered =
            [Order::Retry, Order::Cancel].map(|order| Claim { order: Some(order), ..held() });
        for written in [held(), held().done(), waiting].into_iter().chain(ordered) {
            assert_eq!(claim(&write("failed request", &written, Item::new())), Some(written));
        }
    }

    #[test]
    fn an_item_with_missing_or_invalid_attributes_is_not_a_claim() {
        for name in [OWNER, GENERATION, STATE, HELD_UNTIL, EXPIRES_AT] {
            let whole = write("failed request", &held(), Item::new());
            let mut incomplete = whole.clone();
            incomplete.remove(name);
            assert_eq!(claim(&incomplete), None, "without {name}");
            let mut invalid = whole;
            invalid.insert(name.to_owned(), text("invalid"));
            assert!(name == OWNER || claim(&invalid).is_none(), "with an invalid {name}");
        }
    }
}
