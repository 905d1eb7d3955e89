//! The notes of retries without an envelope: what is being sent, and what was sent under which request id.
//!
//! | item | attributes |
//! |---|---|
//! | `note/FUNCTION/REQUEST_ID` | `metadata`: the retry metadata, as an envelope has them |
//! | `sending/FUNCTION/DIGEST` | one for each handler that sends this payload: `sender/` and its unique name, with what it sends |

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use aws_sdk_dynamodb::{
    config::AsyncSleep,
    error::BuildError,
    types::{AttributeValue, CancellationReason, Put, TransactWriteItem, Update},
};
use comeback_core::{
    claim::Claim,
    envelope::RetryMetadata,
    fault::{StoreFault, conflict_passes, store_fault_passes},
    note::{Change, Found, Keys, Sending},
};

use crate::{
    CONDITION_FAILED, ClaimTable, Item, NotCommitted, NotReplaced,
    item::{EXPIRES_AT, ID, number, text},
};

const METADATA: &str = "metadata";
const SENDER: &str = "sender/";

/// How often a transaction is tried while others conflict with it, and the pause before the second try, which doubles.
const ATTEMPTS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(20);

impl ClaimTable {
    /// Reads what there is for these failure records, in order, with as few consistent calls as possible.
    pub async fn recall(&self, keys: &[Keys]) -> Result<Vec<Found>, StoreFault> {
        let wanted: BTreeSet<_> = keys.iter().flat_map(|it| [&it.note, &it.sendings]).collect();
        let items = self.read_all(wanted.into_iter().cloned(), true).await?;
        let by_id = items.iter().filter_map(|item| Some((item.get(ID)?.as_s().ok()?, item)));
        let by_id: HashMap<_, _> = by_id.collect();
        let found = |keys: &Keys| Found {
            note: by_id.get(&keys.note).and_then(|it| metadata(it)),
            sendings: by_id.get(&keys.sendings).map_or_else(Vec::new, |it| sendings(it)),
        };
        Ok(keys.iter().map(found).collect())
    }

    /// Replaces a claim, by one with the caller's attributes `extra`, or removes it, and changes the notes, in one
    /// transaction.
    pub async fn replace_noting(
        &self,
        key: &str,
        seen: Option<&Claim>,
        next: Option<&Claim>,
        extra: Item,
        change: &Change<'_>,
    ) -> Result<(), NotReplaced> {
        let mut attempt = 1;
        loop {
            let writes = self.writes(change, false).map_err(NotReplaced::Fault)?;
            let written = self.replace_with(key, seen, next, extra.clone(), writes).await;
            let reasons = match written {
                Ok(()) => return Ok(()),
                Err(NotCommitted::NotReplaced(why)) => return Err(why),
                Err(NotCommitted::Cancelled(reasons)) => reasons,
            };
            if attempt == ATTEMPTS || !is_conflict(&reasons) {
                return Err(NotReplaced::Fault(self.cancelled(&reasons)));
            }
            self.pause(attempt).await;
            attempt += 1;
        }
    }

    /// Changes the notes, if the sending that this removes is still there. Returns whether it was.
    pub async fn adopt(&self, change: &Change<'_>) -> Result<bool, StoreFault> {
        match self.transact(self.writes(change, true)?).await? {
            None => Ok(true),
            Some(reasons) if reasons.iter().any(|it| it.code() == Some(CONDITION_FAILED)) => {
                Ok(false)
            }
            Some(reasons) => Err(self.cancelled(&reasons)),
        }
    }

    /// The writes of a change. If the sending `must_exist`, all of them fail without it.
    fn writes(
        &self,
        change: &Change<'_>,
        must_exist: bool,
    ) -> Result<Vec<TransactWriteItem>, StoreFault> {
        let unreadable = |error: BuildError| self.unreadable(&error.to_string());
        let expires_at = number(change.expires_at.timestamp());
        let update = Update::builder()
            .table_name(&self.table)
            .key(ID, text(change.sendings))
            .expression_attribute_names("#sender", format!("{SENDER}{}", change.sender))
            .expression_attribute_names("#expires_at", EXPIRES_AT)
            .expression_attribute_values(":expires_at", expires_at.clone())
            .set_condition_expression(must_exist.then(|| "attribute_exists(#sender)".to_owned()));
        let (set, update) = match &change.sending {
            Some(sending) => (
                "SET #expires_at = :expires_at, #sender = :sending",
                update.expression_attribute_values(":sending", text(&sending.to_json())),
            ),
            None => ("SET #expires_at = :expires_at", update),
        };
        let over = change.over.iter().enumerate();
        let over = over.map(|(nth, sender)| (format!("#over{nth}"), format!("{SENDER}{sender}")));
        let over: Vec<_> = over.collect();
        let sender = change.sending.is_none().then_some("#sender");
        let removed: Vec<_> = over.iter().map(|(name, _)| &**name).chain(sender).collect();
        let expression = match removed.is_empty() {
            true => set.to_owned(),
            false => format!("{set} REMOVE {}", removed.join(", ")),
        };
        let update = over
            .iter()
            .fold(update, |it, (name, sender)| it.expression_attribute_names(name, sender))
            .update_expression(expression);
        let mut writes =
            vec![TransactWriteItem::builder().update(update.build().map_err(unreadable)?).build()];
        if let Some((key, metadata)) = &change.note {
            let put = Put::builder()
                .table_name(&self.table)
                .item(ID, text(key))
                .item(METADATA, text(&metadata.to_json()))
                .item(EXPIRES_AT, expires_at);
            writes.push(TransactWriteItem::builder().put(put.build().map_err(unreadable)?).build());
        }
        Ok(writes)
    }

    async fn pause(&self, attempt: u32) {
        if let Some(sleep) = self.client.config().sleep_impl() {
            sleep.sleep(PAUSE * (1 << (attempt - 1))).await;
        }
    }

    fn cancelled(&self, reasons: &[CancellationReason]) -> StoreFault {
        let codes: Vec<_> = codes(reasons).collect();
        StoreFault {
            passes: codes.iter().all(|code| store_fault_passes(Some(code), Some(400))),
            code: codes.first().map(|&code| code.to_owned()),
            message: format!("table {}: the transaction was cancelled: {codes:?}", self.table),
        }
    }
}

fn codes(reasons: &[CancellationReason]) -> impl Iterator<Item = &str> {
    reasons.iter().filter_map(|it| it.code()).filter(|it| *it != "None")
}

/// Whether only other transactions were in the way: those for events with the same payload write the same item.
fn is_conflict(reasons: &[CancellationReason]) -> bool {
    codes(reasons).all(conflict_passes)
}

/// Reads a note. One that nobody of ours has written is none.
fn metadata(item: &Item) -> Option<RetryMetadata> {
    RetryMetadata::read(item.get(METADATA)?.as_s().ok()?)
}

fn sendings(item: &Item) -> Vec<Sending> {
    let sending = |(name, value): (&String, &AttributeValue)| {
        Sending::read(name.strip_prefix(SENDER)?, value.as_s().ok()?)
    };
    item.iter().filter_map(sending).collect()
}
