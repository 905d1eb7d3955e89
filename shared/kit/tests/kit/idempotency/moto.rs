//! Tests the DynamoDB store against moto, an independent implementation of DynamoDB.

mod transaction;

use std::sync::OnceLock;

use aws_sdk_dynamodb::{Client, types::AttributeValue};
use comeback::idempotency::{
    Answer, Claim, DynamoStore, Fingerprint, Record, ReplaceError, State, Store, Token,
};
use moto::{Moto, create_table};

/// A test's table, on the moto server that all tests share.
struct Table {
    client: Client,
    name: &'static str,
}

impl Table {
    async fn new(name: &'static str) -> Self {
        static MOTO: OnceLock<Moto> = OnceLock::new();
        let client = Client::new(&moto::config(&MOTO.get_or_init(Moto::start).endpoint));
        create_table(&client, name, "id").await;
        Self { client, name }
    }

    fn store(&self) -> DynamoStore {
        DynamoStore::new(&self.client, self.name)
    }
}

fn held(owner: &str, generation: u32) -> Record {
    let until = "2026-02-01T12:00:40.568Z".parse().unwrap();
    Record {
        claim: Claim {
            token: Token { generation, owner: owner.to_owned() },
            state: State::Held { until },
            order: None,
            expires_at: "2026-02-15T12:00:00Z".parse().unwrap(),
        },
        fingerprint: Fingerprint::of("charge 100").unwrap(),
        answer: None,
    }
}

fn done(record: &Record, answer: Answer) -> Record {
    record.done(answer, record.claim.expires_at)
}

fn changed(record: &Record) -> Result<(), ReplaceError> {
    Err(ReplaceError::Changed(Some(Box::new(record.clone()))))
}

#[tokio::test]
async fn a_record_that_is_there_is_found_whole() {
    let table = Table::new("records").await;
    let store = table.store();
    let first = held("first", 1);
    for (key, there) in [
        ("held", first.clone()),
        ("done", done(&first, Answer::Kept(r#"{"charge":"ch_1 €"}"#.to_owned()))),
        ("mute", done(&first, Answer::NotKept("it has 400001 bytes".to_owned()))),
    ] {
        store.replace(key, None, Some(&first)).await.unwrap();
        if there != first {
            store.replace(key, Some(&first), Some(&there)).await.unwrap();
        }
        // A writer that saw another owner, generation or state can neither write nor remove.
        let of_other_state = if there == first {
            done(&first, Answer::NotKept(String::new()))
        } else {
            first.clone()
        };
        for seen in [&held("late", 1), &held("first", 7), &of_other_state] {
            for next in [Some(&first), None] {
                assert_eq!(store.replace(key, Some(seen), next).await, changed(&there));
            }
        }
        assert_eq!(store.replace(key, None, Some(&first)).await, changed(&there));
        assert_eq!(store.replace(key, Some(&there), None).await, Ok(()));
        let gone = Err(ReplaceError::Changed(None));
        assert_eq!(store.replace(key, Some(&there), None).await, gone);
    }
}

#[tokio::test]
async fn an_item_of_another_program_is_not_a_record() {
    let table = Table::new("foreign").await;
    let claim = held("handler", 1);
    table.store().replace("ledger", None, Some(&claim)).await.unwrap();
    let without = table.client.update_item().table_name(table.name);
    let id = AttributeValue::S("ledger".to_owned());
    without.key("id", id).update_expression("REMOVE fingerprint").send().await.unwrap();
    let replaced = table.store().replace("ledger", None, Some(&claim)).await;
    let Err(ReplaceError::Fault(fault)) = replaced else { unreachable!("{replaced:?}") };
    assert!(!fault.is_transient && fault.message.contains("fingerprint"), "{fault}");
}

#[tokio::test]
async fn the_largest_answer_fits_next_to_the_largest_key() {
    let table = Table::new("large").await;
    let store = table.store();
    let owner = "e4b46cbf-b738-4e5c-8880-a18cdf61200e/0123456789abcdef";
    let (key, first) = ("k".repeat(2048), held(owner, u32::MAX));
    let largest = done(&first, Answer::Kept("x".repeat(store.answer_max())));
    store.replace(&key, None, Some(&first)).await.unwrap();
    store.replace(&key, Some(&first), Some(&largest)).await.unwrap();
    assert_eq!(store.replace(&key, None, Some(&first)).await, changed(&largest));
    // DynamoDB's size of an item: the bytes of its names and texts, and at most 21 for each number.
    let id = AttributeValue::S(key);
    let got = table.client.get_item().table_name(table.name).key("id", id).send().await.unwrap();
    let size = |value: &AttributeValue| {
        let text = value.as_s().map(String::len);
        text.or_else(|_| value.as_b().map(|bytes| bytes.as_ref().len())).unwrap_or(21)
    };
    let all = got.item.unwrap();
    let bytes: usize = all.iter().map(|(name, value)| name.len() + size(value)).sum();
    assert!(bytes <= 400_000, "{bytes}");
}
