//! The ledger's requests to DynamoDB, and how it interprets the answers.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use aws_config::{retry::RetryConfig, timeout::TimeoutConfig};
use aws_sdk_dynamodb::{Client, types::AttributeValue};
use aws_smithy_runtime_api::client::{
    http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn},
    orchestrator::{HttpRequest, HttpResponse},
};
use aws_smithy_types::body::SdkBody;
use comeback_core::{
    Attempt, Timestamp,
    claim::{Claim, Order, State, Token},
    lineage::{Key, Write},
    register::{Waiting, target_key},
    time::at_millis,
};
use comeback_dynamodb::{primary, register};
use comeback_flow::ports::{
    Ledger, Listed, Listing, LookedUp, NotExchanged, NotReplaced, Stored, Wanted,
};
use moto::{create_register, create_table};
use retry_handler::DynamoLedger;
use serde_json::Value;
use tokio::time::Instant;

use super::{JSON, answering, ledger_of_moto, of_moto, response};

const TARGET: &str = "arn:aws:lambda:us-east-1:123456789012:function:orders:$LATEST";
const OTHER: &str = "arn:aws:lambda:us-east-1:123456789012:function:other:$LATEST";
const QUEUE: &str = "https://sqs.us-east-1.amazonaws.com/123456789012/retry";
const FAR: u64 = 4_000_000_000_000;

fn held(owner: &str, generation: u32) -> Claim {
    Claim {
        token: Token { generation, owner: owner.to_owned() },
        state: State::Held { until: "2026-02-01T12:00:40.568Z".parse().unwrap() },
        order: None,
        expires_at: "2026-02-15T12:00:00Z".parse().unwrap(),
    }
}

async fn register(table: &str) -> (Client, DynamoLedger) {
    let client = Client::new(&of_moto());
    create_register(&client, table).await;
    (client, ledger_of_moto(table))
}

fn waiting(due: u64, receipt_handle: Option<&str>) -> Waiting<'_> {
    Waiting {
        target: TARGET,
        queue_url: QUEUE,
        event_id: "first-request",
        attempt: Attempt::FIRST,
        due: at_millis(due),
        first_failure: Timestamp::UNIX_EPOCH,
        error_type: Some("Down"),
        error_message: None,
        policy: None,
        receipt_handle,
    }
}

fn key(run: &str) -> Key {
    Key { id: "arn/digest".to_owned(), run: run.to_owned() }
}

async fn replace(
    ledger: &DynamoLedger,
    run: &str,
    seen: Option<&Claim>,
    next: Option<&Claim>,
) -> Result<(), NotReplaced> {
    ledger.write(&key(run), &Write { seen, next, ..Write::default() }).await
}

async fn enter(
    ledger: &DynamoLedger,
    run: &str,
    seen: Option<&Claim>,
    next: &Claim,
    waiting: &Waiting<'_>,
) -> Result<(), NotReplaced> {
    let write = Write { seen, next: Some(next), waiting: Some(waiting), ..Write::default() };
    ledger.write(&key(run), &write).await
}

fn waits(seen: Option<&Claim>) -> Claim {
    Claim::waiting("handler/0".to_owned(), seen, at_millis(FAR))
}

#[tokio::test]
async fn the_item_of_an_event_that_waits_is_its_claim_with_what_an_operator_needs() {
    let (client, register) = register("items").await;
    enter(&register, "soon", None, &waits(None), &waiting(1, Some("handle"))).await.unwrap();
    let text = |value: &str| AttributeValue::S(value.to_owned());
    let number = |value: &str| AttributeValue::N(value.to_owned());
    let expected = HashMap::from([
        ("id", text("arn/digest")),
        ("run", text("soon")),
        ("state", text("waiting")),
        ("owner", text("handler/0")),
        ("generation", number("1")),
        ("expires_at", number("4000000000")),
        ("target", text(TARGET)),
        ("due_at", number("1")),
        ("queue", text(QUEUE)),
        ("event_id", text("first-request")),
        ("attempt", number("1")),
        ("first_failed_at", number("0")),
        ("error_type", text("Down")),
        ("receipt_handle", text("handle")),
    ]);
    let got = client.get_item().table_name("items").set_key(Some(primary(&key("soon"))));
    let got = got.send().await.unwrap();
    let item = got.item.unwrap();
    let item = item.iter().map(|(name, value)| (name.as_str(), value.clone()));
    assert_eq!(item.collect::<HashMap<_, _>>(), expected);
}

#[tokio::test]
async fn of_a_wait_and_an_order_the_first_write_wins() {
    let (client, register) = register("orders").await;
    let first = waits(None);
    enter(&register, "a", None, &first, &waiting(1, Some("handle"))).await.unwrap();
    let order = client.update_item().table_name("orders");
    let order = register::order(order, &key("a"), Order::Cancel, "operator", at_millis(FAR));
    order.clone().send().await.unwrap();
    let late = replace(&register, "a", Some(&first), Some(&held("handler/1", 2))).await;
    let Err(NotReplaced::Changed(Some(there))) = late else { panic!("{late:?}") };
    let there = there.claim;
    assert_eq!((there.state, there.order), (State::Waiting, Some(Order::Cancel)));
    replace(&register, "a", Some(&there), Some(&held("handler/1", 2))).await.unwrap();
    assert!(order.send().await.is_err(), "a handler acts by now");
}

#[tokio::test]
async fn one_call_reads_the_items_of_events_and_targets() {
    let (client, register) = register("read").await;
    enter(&register, "flying", None, &waits(None), &waiting(7, Some("handle"))).await.unwrap();
    enter(&register, "delayed", None, &waits(None), &waiting(7, None)).await.unwrap();
    replace(&register, "held", None, Some(&held("handler/1", 2))).await.unwrap();
    for (target, name) in [(TARGET, "paused_at"), (OTHER, "else")] {
        client
            .put_item()
            .table_name("read")
            .set_item(Some(primary(&target_key(target))))
            .item(name, AttributeValue::N("1".to_owned()))
            .send()
            .await
            .unwrap();
    }
    let foreign = client.put_item().table_name("read");
    foreign.set_item(Some(primary(&key("foreign")))).send().await.unwrap();
    let wanted = Wanted {
        runs: ["flying", "delayed", "held", "absent", "foreign"].map(key).into(),
        targets: HashSet::from([TARGET, OTHER]),
    };
    let LookedUp { runs, paused, .. } = register.look_up(&wanted).await.unwrap();
    assert_eq!(paused, HashSet::from([TARGET.to_owned()]));
    let found =
        |run: &str| runs.get(&key(run)).map(|it| (it.known.claim.clone(), it.delayed_until));
    assert_eq!(found("flying"), Some((waits(None), None)));
    assert_eq!(found("delayed"), Some((waits(None), Some(at_millis(7)))));
    assert_eq!(found("held"), Some((held("handler/1", 2), None)));
    assert_eq!(runs.len(), 3);
}

/// A table that gives these answers, and keeps the requests.
#[derive(Clone, Debug, Default)]
struct Answers {
    left: Arc<Mutex<VecDeque<String>>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl HttpConnector for Answers {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let body = request.body().bytes().unwrap_or_default();
        self.requests.lock().unwrap().push(String::from_utf8_lossy(body).into_owned());
        let answer = self.left.lock().unwrap().pop_front().unwrap();
        let status = 200.try_into().unwrap();
        HttpConnectorFuture::ready(Ok(HttpResponse::new(status, SdkBody::from(answer))))
    }
}

impl Answers {
    fn of(answers: impl IntoIterator<Item = String>) -> Self {
        let left = Arc::new(Mutex::new(answers.into_iter().collect()));
        Self { left, ..Self::default() }
    }

    fn ledger(&self) -> DynamoLedger {
        let connector = SharedHttpConnector::new(self.clone());
        let aws = moto::config("http://127.0.0.1:1").to_builder();
        let aws = aws.http_client(http_client_fn(move |_, _| connector.clone()));
        DynamoLedger::new(&aws.build(), "claims".to_owned())
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// What the table `claims` answers to a read: the items that it has found, and those that it has not read.
fn answer(items: &str, left: &str) -> String {
    format!(r#"{{"Responses":{{"claims":{items}}},"UnprocessedKeys":{left}}}"#)
}

/// The keys that a request asks for.
fn keys_of(request: &str) -> Vec<String> {
    let request: Value = serde_json::from_str(request).unwrap();
    let keys = request["RequestItems"]["claims"]["Keys"].as_array().unwrap();
    keys.iter().map(Value::to_string).collect()
}

/// A call reads 100 items at most. The runs and the target are one more than three calls read.
#[tokio::test]
async fn a_pause_is_found_in_a_batch_of_any_size() {
    let paused = format!(
        r#"[{{"id":{{"S":"target/{TARGET}"}},"run":{{"S":"target"}},"paused_at":{{"N":"1"}}}}]"#
    );
    let answers = ["[]", "[]", "[]", &paused].map(|items| answer(items, "{}"));
    let answers = Answers::of(answers);
    let wanted = Wanted {
        runs: (0..300).map(|nth| key(&format!("event {nth}"))).collect(),
        targets: HashSet::from([TARGET]),
    };
    let LookedUp { runs, paused, .. } = answers.ledger().look_up(&wanted).await.unwrap();
    assert_eq!((runs.len(), paused), (0, HashSet::from([TARGET.to_owned()])));
    let asked: Vec<Vec<_>> = answers.requests().iter().map(|body| keys_of(body)).collect();
    assert!(asked.iter().all(|keys| keys.len() <= 100), "{asked:?}");
    let asked: HashSet<_> = asked.into_iter().flatten().collect();
    assert_eq!(asked.len(), 301);
}

#[tokio::test(start_paused = true)]
async fn items_that_dynamodb_leaves_out_are_read_again_until_it_seems_to_be_throttled_for_long() {
    let of = format!(r#""id":{{"S":"target/{TARGET}"}},"run":{{"S":"target"}}"#);
    let paused = format!(r#"[{{{of},"paused_at":{{"N":"1"}}}}]"#);
    let left = format!(r#"{{"claims":{{"Keys":[{{{of}}}]}}}}"#);
    let wanted = Wanted { runs: HashSet::from([key("waits")]), targets: HashSet::from([TARGET]) };
    let answers = Answers::of([answer("[]", &left), answer(&paused, "{}")]);
    let found = answers.ledger().look_up(&wanted).await.unwrap();
    assert_eq!(found.paused, HashSet::from([TARGET.to_owned()]));
    let requests = answers.requests();
    assert!(requests[0].contains("waits") && !requests[1].contains("waits"), "{requests:?}");
    let answers = Answers::of((0..4).map(|_| answer("[]", &left)));
    let fault = answers.ledger().look_up(&wanted).await.unwrap_err();
    assert!(fault.is_transient, "{fault}");
    assert_eq!(fault.message, "table claims: throttled, 1 items were not read");
}

#[tokio::test]
async fn events_are_listed_over_the_pages_of_a_query() {
    let page = |handles: &[&str], next: &str| {
        let text =
            |handle| format!(r#"{{"queue":{{"S":"q"}},"receipt_handle":{{"S":"{handle}"}}}}"#);
        let items = handles.iter().map(text).collect::<Vec<_>>().join(",");
        format!(r#"{{"Items":[{items}]{next}}}"#)
    };
    let next = r#","LastEvaluatedKey":{"id":{"S":"two"}}"#;
    for (second, count, expected) in
        [(page(&["three"], ""), 9, 3), (page(&["three", "four"], next), 4, 4)]
    {
        let answers = Answers::of([page(&["one", "two"], next), second]);
        let listed = answers.ledger().list(TARGET, at_millis(0), count).await.unwrap();
        assert_eq!(listed.in_flight.len(), expected);
        let requests = answers.requests();
        assert!(requests[1].contains(r#""ExclusiveStartKey":{"id":{"S":"two"}}"#), "{requests:?}");
        assert!(requests[0].contains(&format!(r#""Limit":{count}"#)), "{requests:?}");
        assert!(requests[1].contains(&format!(r#""Limit":{}"#, 4 * count)), "{requests:?}");
    }
}

fn stored(version: u64, text: &str) -> Stored {
    Stored { version, text: Some(text.to_owned()) }
}

async fn read(ledger: &DynamoLedger) -> Option<Stored> {
    let wanted = Wanted { targets: [TARGET].into(), ..Wanted::default() };
    ledger.look_up(&wanted).await.unwrap().circuits.remove(TARGET)
}

#[tokio::test]
async fn a_circuit_is_replaced_only_in_the_version_that_was_seen_and_a_pause_leaves_it_alone() {
    let (client, ledger) = register("circuits").await;
    let pause = client
        .update_item()
        .table_name("circuits")
        .set_key(Some(primary(&target_key(TARGET))))
        .update_expression("SET paused_at = :at")
        .expression_attribute_values(":at", AttributeValue::N("1".to_owned()));
    assert_eq!(read(&ledger).await, None);
    pause.clone().send().await.unwrap();
    assert_eq!(read(&ledger).await, Some(Stored::default()), "paused, and without a circuit");
    assert_eq!(ledger.exchange(TARGET, 0, "one").await, Ok(()));
    pause.send().await.unwrap();
    assert_eq!(read(&ledger).await, Some(stored(1, "one")));
    let changed = |version, text| Err(NotExchanged::Changed(stored(version, text)));
    assert_eq!(ledger.exchange(TARGET, 0, "late").await, changed(1, "one"));
    assert_eq!(ledger.exchange(TARGET, 1, "two").await, Ok(()));
    assert_eq!(ledger.exchange(TARGET, 1, "late").await, changed(2, "two"));
    let none = Err(NotExchanged::Changed(Stored::default()));
    assert_eq!(ledger.exchange("other", 3, "x").await, none);
    let wanted = Wanted { targets: [TARGET].into(), ..Wanted::default() };
    assert!(ledger.look_up(&wanted).await.unwrap().paused.contains(TARGET));
    assert_eq!(ledger.exchange(OTHER, 0, "one").await, Ok(()), "the first one of a target");
}

#[tokio::test]
async fn events_in_flight_are_listed_by_their_due_times_until_they_are_claimed() {
    let (_, ledger) = register("listed-in-flight").await;
    for (key, target, due, handle) in [
        ("late", TARGET, 9_000, Some("handle of late")),
        ("soon", TARGET, 5_000, Some("handle of soon")),
        ("delayed", TARGET, 6_000, None),
        ("past", TARGET, 4_000, Some("handle of past")),
        ("other", OTHER, 6_000, Some("handle of other")),
    ] {
        let waiting = Waiting { target, ..waiting(due, handle) };
        enter(&ledger, key, None, &waits(None), &waiting).await.unwrap();
    }
    let listed = |handles: &[&str], has_delays| {
        let listed = handles.iter().map(|&handle| Listed {
            queue_url: QUEUE.to_owned(),
            receipt_handle: handle.to_owned(),
        });
        Ok(Listing { in_flight: listed.collect(), has_delays })
    };
    let after = at_millis(4_000);
    let both = ["handle of soon", "handle of late"];
    assert_eq!(ledger.list(TARGET, after, 10).await, listed(&both, true));
    assert_eq!(ledger.list(TARGET, after, 2).await, listed(&both, true));
    assert_eq!(ledger.list(TARGET, after, 1).await, listed(&both[..1], false));
    assert_eq!(ledger.list(TARGET, at_millis(6_000), 1).await, listed(&both[1..], false));
    let claim = held("handler/1", 2);
    replace(&ledger, "soon", Some(&waits(None)), Some(&claim)).await.unwrap();
    assert_eq!(ledger.list(TARGET, after, 10).await, listed(&["handle of late"], true));
    let again = Waiting { due: at_millis(9_500), ..waiting(1, Some("handle of soon")) };
    enter(&ledger, "soon", Some(&claim), &waits(Some(&claim)), &again).await.unwrap();
    let both = ["handle of late", "handle of soon"];
    assert_eq!(ledger.list(TARGET, after, 10).await, listed(&both, true));
}

#[tokio::test]
async fn a_table_without_the_index_or_no_table_is_for_a_person_to_mend() {
    create_table(&Client::new(&of_moto()), "without-index", "id").await;
    let without_index = ledger_of_moto("without-index");
    let no_index = without_index.list(TARGET, at_millis(0), 1).await.unwrap_err();
    let missing = ledger_of_moto("missing");
    let Err(NotReplaced::Fault(no_claims)) =
        replace(&missing, "a", None, Some(&held("b", 1))).await
    else {
        panic!()
    };
    let Err(NotExchanged::Fault(no_circuits)) = missing.exchange(TARGET, 0, "one").await else {
        panic!()
    };
    let wanted = Wanted { targets: [TARGET].into(), ..Wanted::default() };
    let no_notes = missing.look_up(&wanted).await.unwrap_err();
    for fault in [no_index, no_claims, no_circuits, no_notes] {
        assert!(!fault.is_transient && fault.code.is_some(), "{fault:?}");
    }
}

#[tokio::test]
async fn a_table_of_an_earlier_version_is_named_with_what_to_do() {
    create_table(&Client::new(&of_moto()), "one-key", "id").await;
    let ledger = ledger_of_moto("one-key");
    let Err(NotReplaced::Fault(no_write)) = replace(&ledger, "a", None, Some(&held("b", 1))).await
    else {
        panic!()
    };
    assert!(
        !no_write.is_transient && no_write.message.contains("create a new table"),
        "{no_write:?}"
    );
}

/// DynamoDB names the table in the answer to a read even if it finds nothing.
#[tokio::test]
async fn an_answer_that_says_less_than_was_asked_is_a_fault_and_no_absence() {
    let wanted = Wanted { runs: HashSet::from([key("a")]), ..Wanted::default() };
    let fault = Answers::of(["{}".to_owned()]).ledger().look_up(&wanted).await.unwrap_err();
    assert!(fault.is_transient && fault.message.contains("Responses"), "{fault:?}");
    let empty = r#"{"Responses":{"claims":[]},"UnprocessedKeys":{}}"#.to_owned();
    assert!(Answers::of([empty]).ledger().look_up(&wanted).await.unwrap().runs.is_empty());
    let fault = Answers::of(["{}".to_owned()]).ledger().siblings(&key("a"), false).await;
    assert!(fault.unwrap_err().message.contains("Items"));
}

/// Makes a first write that DynamoDB answers with `answer`.
async fn answered(answer: String, next: Option<&Claim>) -> Result<(), NotReplaced> {
    let (endpoint, _asked) = answering(answer).await;
    let ledger = DynamoLedger::new(&moto::config(&endpoint), "claims".to_owned());
    replace(&ledger, "failed-request", None, next).await
}

#[tokio::test]
async fn an_item_of_another_program_is_for_a_person_to_mend() {
    let item = r#"{"id":{"S":"failed-request"},"order":{"N":"7"}}"#;
    let body = format!(
        r#"{{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","Item":{item}}}"#
    );
    for next in [Some(held("handler/0", 2)), None] {
        let result = answered(response(400, JSON, &body), next.as_ref()).await;
        let Err(NotReplaced::Fault(fault)) = result else { panic!("{result:?}") };
        assert!(!fault.is_transient);
        assert_eq!(
            fault.message,
            r#"table claims: expected an item with the attributes of a claim, got one with {"id", "order"}"#
        );
    }
}

/// A table that throttles every call, or never answers. It counts its calls.
#[derive(Clone, Debug, Default)]
struct Table {
    is_silent: bool,
    calls: Arc<AtomicU32>,
}

impl HttpConnector for Table {
    fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.is_silent {
            return HttpConnectorFuture::new(pending());
        }
        let body = r#"{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException"}"#;
        let status = 400.try_into().unwrap();
        HttpConnectorFuture::ready(Ok(HttpResponse::new(status, SdkBody::from(body))))
    }
}

impl Table {
    fn ledger(&self, attempts: u32, timeouts: TimeoutConfig) -> DynamoLedger {
        let connector = SharedHttpConnector::new(self.clone());
        let aws = moto::config("http://127.0.0.1:1")
            .to_builder()
            .timeout_config(timeouts)
            .retry_config(RetryConfig::standard().with_max_attempts(attempts))
            .http_client(http_client_fn(move |_, _| connector.clone()));
        DynamoLedger::new(&aws.build(), "claims".to_owned())
    }
}

#[tokio::test(start_paused = true)]
#[allow(clippy::disallowed_methods, reason = "the time is paused")]
async fn a_table_that_does_not_answer_is_given_up_sooner_than_other_services_are() {
    let others = TimeoutConfig::builder()
        .operation_attempt_timeout(Duration::from_secs(3))
        .operation_timeout(Duration::from_secs(6))
        .build();
    for (attempts, seconds) in [(1, 1), (9, 3)] {
        let silent = Table { is_silent: true, ..Table::default() };
        let ledger = silent.ledger(attempts, others.clone());
        let start = Instant::now();
        let claimed = replace(&ledger, "failed-request", None, Some(&held("handler/0", 2))).await;
        let Err(NotReplaced::Fault(fault)) = claimed else { panic!("{claimed:?}") };
        assert!(fault.is_transient, "{fault}");
        assert_eq!(start.elapsed().as_secs(), seconds, "{attempts} attempts");
    }
}

#[tokio::test(start_paused = true)]
#[allow(clippy::disallowed_methods, reason = "the time is paused")]
async fn a_throttled_table_delays_a_claim_and_never_an_event_that_only_has_to_be_listed() {
    let throttled = Table::default();
    let ledger = throttled.ledger(3, TimeoutConfig::disabled());
    let start = Instant::now();
    let listed =
        enter(&ledger, "failed-request", None, &held("handler/0", 2), &waiting(1, None)).await;
    assert!(matches!(listed, Err(NotReplaced::Fault(_))), "{listed:?}");
    assert_eq!((throttled.calls.swap(0, Ordering::Relaxed), start.elapsed()), (1, Duration::ZERO));
    let claimed = replace(&ledger, "failed-request", None, Some(&held("handler/0", 2))).await;
    assert!(matches!(claimed, Err(NotReplaced::Fault(_))), "{claimed:?}");
    assert_eq!(throttled.calls.load(Ordering::Relaxed), 3);
}
