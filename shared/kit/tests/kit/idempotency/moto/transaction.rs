//! Tests an operation's writes in the transaction that marks it as done.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use aws_sdk_dynamodb::{
    Client,
    config::http::HttpResponse,
    types::{AttributeValue, Put, TransactWriteItem},
};
use aws_smithy_runtime_api::client::{
    http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn},
    orchestrator::HttpRequest,
    result::ConnectorError,
};
use aws_smithy_types::body::SdkBody;
use comeback::{
    Failure,
    idempotency::{DynamoStore, Error, Request, Store, WRITES_MAX},
};

use super::{
    super::{Declined, Scene, world::Fault},
    Table,
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

/// The faults of the next requests.
type Faults = Arc<Mutex<VecDeque<Option<Fault>>>>;

/// A connection to moto with faults.
#[derive(Clone, Debug)]
struct Lossy {
    http: reqwest::Client,
    faults: Faults,
}

impl Table {
    /// A store whose requests have these faults.
    fn losing(&self, faults: &Faults) -> DynamoStore {
        let (http, faults) = (reqwest::Client::new(), Arc::clone(faults));
        let lossy = SharedHttpConnector::new(Lossy { http, faults });
        let config = self.client.config().to_builder();
        let config = config.http_client(http_client_fn(move |_, _| lossy.clone()));
        DynamoStore::new(&Client::from_conf(config.build()), self.name)
    }
}

impl HttpConnector for Lossy {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let Self { http, faults } = self.clone();
        let fault = faults.lock().unwrap().pop_front().flatten();
        HttpConnectorFuture::new(async move {
            let lost = Err(ConnectorError::io("no answer".into()));
            Fault::strike(fault, lost, || async { Ok(sent(&http, &request).await) }).await
        })
    }
}

async fn sent(http: &reqwest::Client, request: &HttpRequest) -> HttpResponse {
    let body = request.body().bytes().unwrap().to_vec();
    let mut call = http.post(request.uri()).body(body);
    for (name, value) in request.headers() {
        call = call.header(name, value);
    }
    let answer = call.send().await.unwrap();
    let status = answer.status().as_u16().try_into().unwrap();
    HttpResponse::new(status, SdkBody::from(answer.bytes().await.unwrap()))
}

#[tokio::test]
async fn the_writes_and_the_mark_take_two_calls_and_a_repetition_one() {
    let table = Table::new("transaction").await;
    let next = Faults::new(Mutex::new([None; 9].into()));
    let scene = Scene::new(table.losing(&next));
    let writes = ["line 1", "line 2"].map(|id| table.write(id)).to_vec();
    assert_eq!(place(&scene, writes).await.unwrap(), "placed");
    assert_eq!(next.lock().unwrap().len(), 7);
    let request = scene.request("place");
    let repeat = async |_| -> Result<(String, _), Declined> { unreachable!("it was run before") };
    let repeated = scene.once.run_in_transaction(&request, repeat).await;
    assert_eq!(repeated.unwrap(), "placed");
    assert_eq!(next.lock().unwrap().len(), 6);
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
    assert!(matches!(&error, Error::Store(fault) if !fault.is_transient), "{error:?}");

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

#[tokio::test]
async fn whatever_is_lost_a_transaction_is_made_once() {
    use Fault::{Repeated, Unanswered, Unmade};

    for (name, transaction, release, is_told, is_free) in [
        ("repeated", Repeated, None, true, true),
        ("unanswered", Unanswered, None, true, true),
        ("unmade", Unmade, None, false, true),
        ("unmade-and-released", Unmade, Some(Unanswered), false, true),
        ("unanswered-at-all", Unanswered, Some(Unmade), false, true),
        ("unmade-at-all", Unmade, Some(Unmade), false, false),
    ] {
        let table = Table::new(name).await;
        let faults = Faults::new(Mutex::new([None, Some(transaction), release].into()));
        let scene = Scene::new(table.losing(&faults));
        let places = async || place(&scene, vec![table.write("line")]).await;
        match places().await {
            Ok(answer) => assert!(is_told && answer == "placed", "{name}"),
            Err(Error::Store(fault)) => assert!(!is_told && fault.is_transient, "{name}: {fault}"),
            Err(other) => unreachable!("{name}: {other}"),
        }
        // A second write of the line would be refused.
        match places().await {
            Ok(answer) => assert!(is_free && answer == "placed", "{name}"),
            Err(other) => assert!(!is_free && matches!(other, Error::InProgress { .. }), "{name}"),
        }
        scene.clock.advance(Duration::from_secs(70));
        assert_eq!(places().await.unwrap(), "placed", "{name}");
        assert!(table.has("line").await, "{name}");
    }
}

#[tokio::test]
async fn an_execution_that_lost_its_lease_writes_nothing() {
    let table = Table::new("late").await;
    let scene = Scene::new(table.store());
    let request = scene.request("place");
    let late = scene.once.run_in_transaction(&request, async |_| {
        scene.clock.advance(Duration::from_secs(70));
        place(&scene, vec![table.write("theirs")]).await.unwrap();
        Ok::<_, Declined>(("late".to_owned(), vec![table.write("late")]))
    });
    assert!(matches!(late.await, Err(Error::LostLease { there: Some(_) })));
    assert!(table.has("theirs").await && !table.has("late").await);
}
