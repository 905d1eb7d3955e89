//! The writes of an operation and its mark, in one transaction.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem};
use comeback::{
    Failure,
    idempotency::{DynamoStore, Error, Idempotency, Request, Store, WRITES_MAX},
};
use serde::{Deserialize, Serialize};

use super::Table;
use crate::{Clock, Declined};

/// An answer that cannot be written as JSON.
#[derive(Debug, Deserialize, Serialize)]
struct Answer(HashMap<(u8, u8), u8>);

/// An operation that places an order.
struct Scene {
    table: Table,
    clock: Clock,
    once: Idempotency<DynamoStore>,
}

impl Scene {
    async fn new(table: &'static str) -> Self {
        let (table, clock) = (Table::new(table).await, Clock::new());
        let once = table.idempotency(&clock);
        Self { table, clock, once }
    }

    fn request(&self) -> Request {
        Request::new("order 7", "place", &self.clock.context("request")).unwrap()
    }

    /// Places an order, unless that was done before.
    async fn place(&self, writes: Vec<TransactWriteItem>) -> Result<String, Error<Declined>> {
        let request = self.request();
        self.once.run_in_transaction(&request, async |_| Ok(("placed".to_owned(), writes))).await
    }

    /// Repeats an operation that must not run again.
    async fn repeat(&self) -> Result<String, Error<Declined>> {
        let request = self.request();
        self.once.run_in_transaction(&request, async |_| unreachable!("it was run before")).await
    }

    /// A write of a new item with this name.
    fn write(&self, id: &str) -> TransactWriteItem {
        let put = Put::builder()
            .table_name(self.table.name)
            .item("id", AttributeValue::S(id.to_owned()))
            .condition_expression("attribute_not_exists(id)");
        TransactWriteItem::builder().put(put.build().unwrap()).build()
    }

    async fn has(&self, id: &str) -> bool {
        let id = AttributeValue::S(id.to_owned());
        let got = self.table.client.get_item().table_name(self.table.name).key("id", id);
        got.send().await.unwrap().item.is_some()
    }
}

#[tokio::test]
async fn the_writes_and_the_mark_take_two_calls_and_a_repetition_one() {
    let scene = Scene::new("transaction").await;
    let writes = ["line 1", "line 2"].map(|id| scene.write(id)).to_vec();
    assert_eq!(scene.place(writes).await.unwrap(), "placed");
    assert_eq!(scene.table.wire.sent(), 2);
    assert_eq!(scene.repeat().await.unwrap(), "placed");
    assert_eq!(scene.table.wire.sent(), 3);
    assert!(scene.has("line 1").await && scene.has("line 2").await);
}

#[tokio::test]
async fn a_refused_write_cancels_all_and_frees_the_key() {
    let scene = Scene::new("refused-write").await;
    scene.place(vec![scene.write("taken")]).await.unwrap();
    let request = Request::new("order 8", "place", &scene.clock.context("request")).unwrap();
    for _ in 0..2 {
        let writes = ["line 1", "taken", "line 2"].map(|id| scene.write(id)).to_vec();
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
            "it is not taken for the operation's own"
        );
        assert!(!scene.has("line 1").await && !scene.has("line 2").await);
    }
}

#[tokio::test]
async fn a_transaction_that_was_never_made_leaves_the_key_free() {
    let scene = Scene::new("never-made").await;
    let put = Put::builder().table_name("missing").item("id", AttributeValue::S("1".into()));
    let elsewhere = TransactWriteItem::builder().put(put.build().unwrap()).build();
    let error = scene.place(vec![elsewhere]).await.unwrap_err();
    assert!(matches!(&error, Error::Store(fault) if !fault.passes), "{error:?}");
    assert_eq!(scene.place(vec![scene.write("line 1")]).await.unwrap(), "placed");
}

#[tokio::test]
async fn the_key_is_free_after_a_failure_or_too_many_writes() {
    let scene = Scene::new("too-many").await;
    let request = scene.request();
    let failed = scene.once.run_in_transaction(&request, async |_| Err::<((), _), _>(Declined));
    assert!(matches!(failed.await, Err(Error::Operation(Declined))));
    let writes = |count: usize| (0..count).map(|nth| scene.write(&nth.to_string())).collect();
    let error = scene.place(writes(WRITES_MAX + 1)).await.unwrap_err();
    assert_eq!(
        Failure::from(error).to_string(),
        "PermanentFailure: the transaction is too large: expected at most 99 writes, got 100"
    );
    assert_eq!(scene.place(writes(WRITES_MAX)).await.unwrap(), "placed");
    assert!(scene.has("98").await);
}

#[tokio::test]
async fn an_answer_that_cannot_be_kept_cancels_the_writes_and_frees_the_key() {
    let scene = Scene::new("bad-answer").await;
    let request = scene.request();
    let no_json = Answer(HashMap::from([((1, 2), 3)]));
    let place = scene.once.run_in_transaction(&request, async |_| {
        Ok::<_, Declined>((no_json, vec![scene.write("line 1")]))
    });
    assert!(matches!(place.await, Err(Error::BadAnswer(_))));

    let large = "x".repeat(scene.table.store().answer_max() - 1);
    let place = async |answer: &str| {
        let prepared = (answer.to_owned(), vec![scene.write("line 1")]);
        scene.once.run_in_transaction(&request, async |_| Ok::<_, Declined>(prepared)).await
    };
    let failure = Failure::from(place(&large).await.unwrap_err());
    assert_eq!(
        failure.to_string(),
        "PermanentFailure: nothing was written, as the answer can't be kept: \
         expected at most 396000 bytes of JSON, got 396001"
    );
    assert!(!scene.has("line 1").await);
    assert_eq!(place(&large[1..]).await.unwrap(), large[1..]);
    assert!(scene.has("line 1").await);
}
