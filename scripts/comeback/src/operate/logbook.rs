//! The logbook: each order of an operator leaves two items in the ledger's table, which the register's index lists.
//!
//! Nothing is ever changed here. An order begins only once its first item is written.

pub mod rules;

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use comeback_core::{
    Timestamp,
    settings::{contract::TABLE, values::Values},
    time::later,
};
use comeback_dynamodb::{
    ID, Item, RUN,
    register::{DUE_AT, INDEX, TARGET},
};

use crate::{
    account::{
        fault::{Answer, Clock as _, Fault},
        function::Function,
    },
    aws::{Aws, fault},
    failure::Failure,
    operate::logbook::rules::{Ended, Filter, Given, Keys, Stored, Through},
};

/// The value of the index's key in these items. It is no ARN.
const LISTED: &str = "history";
const SAYS: &str = "says";

/// The retry handler whose ledger has the logbook.
#[derive(Clone)]
pub struct Ledger {
    pub aws: Aws,
    pub handler: Function,
}

/// What an order is, for its first item.
pub struct Order {
    pub name: &'static str,
    pub through: Through,
    pub filter: Filter,
    pub planned: Option<u64>,
}

/// Shows that an order may begin: its first item is written, or there is no ledger. Only [`begin`] makes one.
pub struct Begun(Option<Written>);

struct Written {
    logbook: Logbook,
    keys: Keys,
}

/// Writes the first item of an order, if there is a ledger.
pub async fn begin(ledger: Option<Ledger>, order: Order) -> Result<Begun, Failure> {
    let Some(logbook) = ledger.and_then(Logbook::of) else { return Ok(Begun(None)) };
    let written = logbook.begin(order).await;
    let name = logbook.ledger.handler.name();
    let keys = written.map_err(|fault| {
        format!("no order is carried out without a record in the ledger of {name}, so nothing was changed: {fault}")
    })?;
    Ok(Begun(Some(Written { logbook, keys })))
}

impl Begun {
    /// Writes the second item.
    pub async fn end(self, ended: impl FnOnce(Timestamp) -> Ended) -> Result<(), Failure> {
        let Self(Some(Written { logbook, keys })) = self else { return Ok(()) };
        let stored = keys.ended(ended(logbook.ledger.aws.now()));
        logbook.add(&stored).await.map_err(|fault| {
            let text = format!("the order was carried out, but its record has no end: {fault}");
            Failure::Refused(text)
        })
    }
}

/// Why an order leaves no record, if it leaves none.
pub fn without(ledger: Option<Ledger>) -> Option<String> {
    match ledger {
        Some(ledger) if ledger.handler.ledger().is_some() => None,
        Some(ledger) => {
            Some(format!("{} has no ledger, so this order leaves no record", ledger.handler.name()))
        }
        None => Some("no retry handler belongs to this, so the order leaves no record".to_owned()),
    }
}

/// A ledger that exists, according to the handler's settings.
pub struct Logbook {
    ledger: Ledger,
    dynamodb: aws_sdk_dynamodb::Client,
    table: String,
}

impl Logbook {
    pub fn of(ledger: Ledger) -> Option<Self> {
        let table = ledger.handler.ledger()?.to_owned();
        let dynamodb = ledger.aws.dynamodb_of(&ledger.handler);
        Some(Self { ledger, dynamodb, table })
    }

    async fn begin(&self, order: Order) -> Answer<Keys> {
        const CALLER: &str = "sts:GetCallerIdentity";
        let Ledger { aws, handler } = &self.ledger;
        let caller =
            aws.sts.get_caller_identity().send().await.map_err(fault(CALLER, "the caller"))?;
        let (Some(who), Some(user)) = (caller.arn, caller.user_id) else {
            return Err(Fault::of(CALLER, "the caller", "NoIdentity", "there is no ARN"));
        };
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| {
            Fault::of("dynamodb:PutItem", &self.table, "NoRandomness", &error.to_string())
        })?;
        let given_at = aws.now();
        // Settings that the handler refuses don't keep an operator from mending them.
        let retention = handler.settings().map(|settings| settings.history_retention);
        let retention = retention.unwrap_or_else(|_| Values::default().history_retention);
        let keys = Keys {
            user,
            order: format!(
                "{:012x}-{:016x}",
                given_at.timestamp_millis(),
                u64::from_be_bytes(random)
            ),
            given_at,
            expires_at: later(given_at, retention),
        };
        let Order { name, through, filter, planned } = order;
        let given = Given { who, through, order: name.to_owned(), filter, planned };
        self.add(&keys.begun(given)).await?;
        Ok(keys)
    }

    /// Adds an item, which must not exist.
    async fn add(&self, stored: &Stored) -> Answer<()> {
        let call = self.dynamodb.put_item().table_name(&self.table).set_item(Some(item(stored)));
        let call = call.condition_expression("attribute_not_exists(#id)");
        let call = call.expression_attribute_names("#id", ID);
        call.send().await.map(drop).map_err(fault("dynamodb:PutItem", &self.table))
    }

    /// The items of all orders since a time, the latest first, until `goes_on` returns false, and whether these are
    /// all.
    pub async fn since(
        &self,
        from: Timestamp,
        goes_on: impl Fn(usize) -> bool,
    ) -> Answer<(Vec<Stored>, bool)> {
        let call = self
            .dynamodb
            .query()
            .table_name(&self.table)
            .index_name(INDEX)
            .key_condition_expression("#listed = :history AND #at >= :from")
            .expression_attribute_names("#listed", TARGET)
            .expression_attribute_names("#at", DUE_AT)
            .expression_attribute_values(":history", AttributeValue::S(LISTED.to_owned()))
            .expression_attribute_values(
                ":from",
                AttributeValue::N(from.timestamp_millis().to_string()),
            )
            .scan_index_forward(false);
        let mut items = call.into_paginator().items().send();
        let mut all = Vec::new();
        while let Some(item) = items.next().await {
            let item = item.map_err(fault("dynamodb:Query", &self.table))?;
            all.push(stored(&item));
            if !goes_on(all.len()) {
                return Ok((all, false));
            }
        }
        Ok((all, true))
    }
}

fn item(stored: &Stored) -> Item {
    let Stored { id, run, given_at_millis, expires_at_seconds, says } = stored;
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let number = |number: &i64| AttributeValue::N(number.to_string());
    let attributes = [
        (ID, text(id)),
        (RUN, text(run)),
        (TARGET, text(LISTED)),
        (DUE_AT, number(given_at_millis)),
        (TABLE.expiry, number(expires_at_seconds)),
        (SAYS, text(says)),
    ];
    HashMap::from(attributes.map(|(name, value)| (name.to_owned(), value)))
}

/// An item as it is, whoever has written it.
fn stored(item: &Item) -> Stored {
    let text =
        |name: &str| item.get(name).and_then(|it| it.as_s().ok()).cloned().unwrap_or_default();
    let number =
        |name: &str| item.get(name).and_then(|it| it.as_n().ok()?.parse().ok()).unwrap_or_default();
    Stored {
        id: text(ID),
        run: text(RUN),
        given_at_millis: number(DUE_AT),
        expires_at_seconds: number(TABLE.expiry),
        says: text(SAYS),
    }
}
