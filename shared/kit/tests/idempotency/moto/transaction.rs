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
async fn a_refused_write_cancels_all_and_frees_the_key() {
    let table = Table::new("refused-write").await;
    let scene = Scene::new(table.store());
    place(&scene, vec![table.write("taken")]).await.unwrap();
    let request = Request::new("order 8", "place", &scene.clock.context("request")).unwrap();
    for _ in 0..2 {
        let writes = ["line 1", "taken", "line 2"].map(|id| table.write(id)).to_vec();
        let run = scene.once.run_in_transaction(&request, async |_| Ok(((), writes)));
        let error: Error<Declined> = run.await.unwrap_err();
        let Error::Cancelled(cancelled) = &error else { unreachable!("{error:?}") };
        assert_eq!(cancelled.reasons()[1].code(), Some("ConditionalCheckFailed"));
        let failure = Failure::from(error);
        assert_eq!(
            (failure.error_type(), failure.message()),
            (
                "comeback::idempotency::Error",
                "the transaction was cancelled: write 2: ConditionalCheckFailed"
            ),
            "it is not reported as the operation's own error"
        );
        assert!(!table.has("line 1").await && !table.has("line 2").await);
    }
}

#[tokio::test]
async fn a_transaction_that_was_never_made_leaves_the_key_free() {
    let table = Table::new("never-made").await;
    let scene = Scene::new(table.store());
    let put = Put::builder().table_name("missing").item("id", AttributeValue::S("1".into()));
    let elsewhere = TransactWriteItem::builder().put(put.build().unwrap()).build();
    let error = place(&scene, vec![elsewhere]).await.unwrap_err();
    assert!(matches!(&error, Error::Store(fault) if !fault.passes), "{error:?}");
    assert_eq!(place(&scene, vec![table.write("line 1")]).await.unwrap(), "placed");
}

#[tokio::test]
async fn the_key_is_free_after_a_failure_or_too_many_writes() {
    let table = Table::new("too-many").await;
    let scene = Scene::new(table.store());
    let request = scene.request("place");
    let failed = scene.once.run_in_transaction(&request, async |_| Err::<((), _), _>(Declined));
    assert!(matches!(failed.await, Err(Error::Operation(Declined))));
    let writes = |count: usize| (0..count).map(|nth| table.write(&nth.to_string())).collect();
    let error = place(&scene, writes(WRITES_MAX + 1)).await.unwrap_err();
    assert_eq!(
        Failure::from(error).to_string(),
        "PermanentFailure: the transaction is too large: expected at most 99 writes, got 100"
    );
    assert_eq!(place(&scene, writes(WRITES_MAX)).await.unwrap(), "placed");
    assert!(table.has("98").await);
}

#[tokio::test]
async fn an_answer_that_cannot_be_kept_cancels_the_writes_and_frees_the_key() {
    let table = Table::new("bad-answer").await;
    let scene = Scene::new(table.store());
    let request = scene.request("place");
    let large = "x".repeat(table.store().answer_max() - 1);
    let place = async |answer: &str| {
        let prepared = (answer.to_owned(), vec![table.write("line 1")]);
        scene.once.run_in_transaction(&request, async |_| Ok::<_, Declined>(prepared)).await
    };
    let failure = Failure::from(place(&large).await.unwrap_err());
    assert_eq!(
        failure.to_string(),
        "PermanentFailure: nothing was written, as the answer can't be kept: \
         expected at most 396000 bytes of JSON, got 396001"
    );
    assert!(!table.has("line 1").await);
    assert_eq!(place(&large[1..]).await.unwrap(), large[1..]);
    assert!(table.has("line 1").await);
}
