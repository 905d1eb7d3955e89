//! Tests an operation's writes in the transaction that marks it as done.

use super::Table;
use crate::{Declined, Scene};
use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem};
use comeback::{
    Failure,
    idempotency::{DynamoStore, Error, Request, Store, WRITES_MAX},
};

/// Places an order in one transaction, unless it was placed before.
async fn place(
    scene: &Scene<DynamoStore>,
    writes: Vec<TransactWriteItem>,
) -> Result<String, Error<Declined>> {
    let request = scene.request("place");
    scene.once.run_in_transaction(&request, async |_| Ok(("placed".to_owned(), writes))).await
}

impl Table {
    /// A write of a new item with this name.
    fn write(&self, id: &str) -> TransactWriteItem {
        let put = Put::builder()
            .table_name(self.name)
            .item("id", AttributeValue::S(id.to_owned()))
            .condition_expression("attribute_not_exists(id)");
        TransactWriteItem::builder().put(put.build().unwrap()).build()
    }

    async fn has(&self, id: &str) -> bool {
        let id = AttributeValue::S(id.to_owned());
        let got = self.client.get_item().table_name(self.name).key("id", id);
        got.send().await.unwrap().item.is_some()
    }
}

#[tokio::test]
async fn the_writes_and_the_mark_take_two_calls_and_a_repetition_one() {
    let table = Table::new("transaction").await;
    let scene = Scene::new(table.store());
    let writes = ["line 1", "line 2"].map(|id| table.write(id)).to_vec();
    assert_eq!(place(&scene, writes).await.unwrap(), "placed");
    assert_eq!(table.wire.sent(), 2);
    let request = scene.request("place");
    let repeat = async |_| -> Result<(String, _), Declined> { unreachable!("it was run before") };
    let repeated = scene.once.run_in_transaction(&request, repeat).await;
    assert_eq!(repeated.unwrap(), "placed");
    assert_eq!(table.wire.sent(), 3);
    assert!(table.has("line 1").await && table.has("line 2").await);
}

#[tokio::test]
async fn a_refused_transaction_writes_nothing_and_frees_the_key() {
    let table = Table::new("refused").await;
    let scene = Scene::new(table.store());
    let other = Request::new("order 8", "place", &scene.clock.context("request")).unwrap();
    let taken = async |_| Ok::<_, Declined>(((), vec![table.write("taken")]));
    scene.once.run_in_transaction(&other, taken).await.unwrap();

    let request = scene.request("place");
    let failed = scene.once.run_in_transaction(&request, async |_| Err::<((), _), _>(Declined));
    assert!(matches!(failed.await, Err(Error::Operation(Declined))));
    let put = Put::builder().table_name("missing").item("id", AttributeValue::S("1".into()));
    let elsewhere = TransactWriteItem::builder().put(put.build().unwrap()).build();
    let error = place(&scene, vec![elsewhere]).await.unwrap_err();
    assert!(matches!(&error, Error::Store(fault) if !fault.passes), "{error:?}");

    let writes = |ids: &[&str]| ids.iter().map(|id| table.write(id)).collect::<Vec<_>>();
    let many = |count: usize| (0..count).map(|nth| table.write(&nth.to_string())).collect();
    let error = place(&scene, writes(&["0", "taken", "1"])).await.unwrap_err();
    let Error::Cancelled(cancelled) = &error else { unreachable!("{error:?}") };
    assert_eq!(cancelled.reasons()[1].code(), Some("ConditionalCheckFailed"));
    // It is not reported as the operation's own error.
    let expected = "comeback::idempotency::Error: the transaction was cancelled: write 2: ConditionalCheckFailed";
    assert_eq!(Failure::from(error).to_string(), expected);
    let error = place(&scene, many(WRITES_MAX + 1)).await.unwrap_err();
    let expected =
        "PermanentFailure: the transaction is too large: expected at most 99 writes, got 100";
    assert_eq!(Failure::from(error).to_string(), expected);
    let large = "x".repeat(table.store().answer_max() - 1);
    let answer = async |answer: &str| {
        let prepared = (answer.to_owned(), many(WRITES_MAX));
        scene.once.run_in_transaction(&request, async |_| Ok::<_, Declined>(prepared)).await
    };
    let expected = "PermanentFailure: nothing was written, as the answer can't be kept: \
                    expected at most 396000 bytes of JSON, got 396001";
    assert_eq!(Failure::from(answer(&large).await.unwrap_err()).to_string(), expected);
    assert!(!table.has("0").await && !table.has("1").await);
    assert_eq!(answer(&large[1..]).await.unwrap(), large[1..]);
    assert!(table.has("0").await && table.has("98").await);
}
