//! What it costs to read a payload as `Enveloped<T>`, bare and in an envelope, beside `T` by itself.

use std::{hint::black_box, time::Duration};

use comeback::Enveloped;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

/// What a shop may send.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Order {
    order_id: String,
    customer: Customer,
    placed_at: String,
    currency: Currency,
    total_cents: u64,
    coupon: Option<String>,
    lines: Vec<Line>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Customer {
    id: u64,
    email: String,
    name: String,
    newsletter: bool,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
enum Currency {
    Eur,
    Usd,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Line {
    sku: String,
    title: String,
    quantity: u32,
    unit_cents: u64,
    weight_kg: f64,
    gift: bool,
    note: Option<String>,
    category: [u16; 3],
}

/// An order whose JSON has about this many bytes.
fn order_of(bytes: usize) -> String {
    let line = Line {
        sku: "TEA-GREEN-0250".to_owned(),
        title: "Green tea, \"first flush\", 250 g".to_owned(),
        quantity: 3,
        unit_cents: 1_290,
        weight_kg: 0.275,
        gift: false,
        note: Some("please no plastic".to_owned()),
        category: [4, 17, 233],
    };
    let customer = Customer {
        id: 9_007_199_254_740_993,
        email: "ada@example.com".to_owned(),
        name: "Ada Lovelace".to_owned(),
        newsletter: true,
    };
    let mut order = Order {
        order_id: "9e07af03-ce31-4ff3-a1b2-36dce652cb4f".to_owned(),
        customer,
        placed_at: "2019-11-14T18:16:05.568Z".to_owned(),
        currency: Currency::Eur,
        total_cents: 3_870,
        coupon: None,
        lines: Vec::new(),
    };
    let length = |order: &Order| json(order).len();
    let (around, each) = (length(&order), json(&line).len() + 1);
    order.lines = vec![line; bytes.saturating_sub(around).div_ceil(each)];
    json(&order)
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn read<T: DeserializeOwned>(event: &str) -> Option<T> {
    serde_json::from_slice(black_box(event.as_bytes())).ok()
}

fn compare<T: DeserializeOwned>(criterion: &mut Criterion, name: &str, kilobytes: usize) {
    let payload = order_of(kilobytes * 1024);
    let enveloped = format!(
        r#"{{"_retry_metadata":{{"attempt":2,"initial_timestamp":1643667670,"request_id":"e4b46cbf-b738-4a1b-8880-a18cdf61200e"}},"_original_payload":{payload}}}"#
    );
    assert!(read::<T>(&payload).is_some());
    assert!(read::<Enveloped<T>>(&payload).is_some_and(|event| event.retried.is_none()));
    assert!(read::<Enveloped<T>>(&enveloped).is_some_and(|event| event.retried.is_some()));

    let mut group = criterion.benchmark_group(format!("{name}/{kilobytes}KB"));
    group.throughput(Throughput::Bytes(payload.len() as u64));
    group.bench_function("T", |b| b.iter(|| read::<T>(&payload)));
    group.bench_function("Enveloped<T>, bare", |b| b.iter(|| read::<Enveloped<T>>(&payload)));
    group.bench_function("Enveloped<T>, retried", |b| {
        b.iter(|| read::<Enveloped<T>>(&enveloped));
    });
    group.finish();
}

fn envelopes(criterion: &mut Criterion) {
    for kilobytes in [1, 256] {
        compare::<Order>(criterion, "typed", kilobytes);
        compare::<Box<RawValue>>(criterion, "raw", kilobytes);
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().measurement_time(Duration::from_secs(3));
    targets = envelopes
}
criterion_main!(benches);
