//! Stores records in a DynamoDB table.

use aws_sdk_dynamodb::{Client, primitives::Blob, types::AttributeValue};
use comeback_dynamodb::{ClaimTable, Found, Item, NotReplaced};

use super::{Answer, Record, ReplaceError, Store, StoreFault};

const FINGERPRINT: &str = "fingerprint";
const ANSWER: &str = "answer";
/// The reason why there is no answer.
const NOT_KEPT: &str = "not_kept";

/// DynamoDB's limit of an item, including the names of its attributes: "400 KB", taken as 400,000 bytes.
const ITEM_MAX: usize = 400_000;

/// Room for the item's other attributes: a key of at most 2,048 bytes, an owner of about 50, and less than 200 for
/// all others.
const OTHER_ATTRIBUTES_MAX: usize = 4_000;

/// A store in a DynamoDB table with the string partition key `id` and no sort key. Configure `expires_at` as the
/// time-to-live attribute, so that DynamoDB deletes old records.
///
/// The function needs `dynamodb:PutItem` and `dynamodb:DeleteItem` on the table. An answer may have up to 396,000
/// bytes of JSON. Store a larger result elsewhere, and return its location as the answer.
///
/// Requires the feature `dynamodb`.
#[derive(Clone, Debug)]
pub struct DynamoStore(pub(super) ClaimTable);

impl DynamoStore {
    /// Creates a store in the table with this name or ARN. If the client sets no timeouts, a call may take 3 s.
    pub fn new(client: &Client, table: impl Into<String>) -> Self {
        Self(ClaimTable::new(client, table.into()))
    }
}

impl Store for DynamoStore {
    async fn replace(
        &self,
        key: &str,
        seen: Option<&Record>,
        next: Option<&Record>,
    ) -> Result<(), ReplaceError> {
        let seen = seen.map(|record| &record.claim);
        let written = match next {
            Some(next) => self.0.put(key, seen, &next.claim, extra_attributes(next)).await,
            None => self.0.delete(key, seen).await,
        };
        written.map_err(not_replaced)
    }

    fn answer_max(&self) -> usize {
        ITEM_MAX - OTHER_ATTRIBUTES_MAX
    }
}

/// The attributes of a record that are not part of its claim.
pub(super) fn extra_attributes(record: &Record) -> Item {
    let fingerprint = AttributeValue::B(Blob::new(record.fingerprint.as_bytes()));
    let mut item = Item::from([(FINGERPRINT.to_owned(), fingerprint)]);
    if let Some(answer) = &record.answer {
        let (name, text) = match answer {
            Answer::Kept(json) => (ANSWER, json),
            Answer::NotKept(why) => (NOT_KEPT, why),
        };
        item.insert(name.to_owned(), AttributeValue::S(text.clone()));
    }
    item
}

pub(super) fn not_replaced(why: NotReplaced) -> ReplaceError {
    let found = match why {
        NotReplaced::Changed(found) => found,
        NotReplaced::Fault(fault) => return ReplaceError::Fault(fault),
    };
    match found.map(record).transpose() {
        Ok(there) => ReplaceError::Changed(there.map(Box::new)),
        Err(fault) => ReplaceError::Fault(fault),
    }
}

fn record(found: Found) -> Result<Record, StoreFault> {
    let Found { claim, mut item } = found;
    let fingerprint = item.get(FINGERPRINT).and_then(|value| value.as_b().ok());
    let Some(fingerprint) = fingerprint.and_then(|bytes| <[u8; 32]>::try_from(bytes.as_ref()).ok())
    else {
        let message =
            format!("expected an item with a {FINGERPRINT} of 32 bytes: another program's table?");
        return Err(StoreFault { is_transient: false, code: None, message });
    };
    let mut text = |name| match item.remove(name) {
        Some(AttributeValue::S(text)) => Some(text),
        _ => None,
    };
    let answer = text(ANSWER).map(Answer::Kept).or_else(|| text(NOT_KEPT).map(Answer::NotKept));
    Ok(Record { claim, fingerprint: fingerprint.into(), answer })
}
