//! What it costs to read a payload as `Enveloped<T>`, and as the layer `Unwrap` is given it, beside `T` by itself;
//! and in an envelope, which is more to read, beside a struct that takes it for granted.
//!
//! These are compared in turn, a few microseconds each, and of each the shortest time counts: what else the machine
//! does makes a run longer, never shorter, and lasts longer than a turn.
#![allow(clippy::disallowed_methods, reason = "what measures time reads the clock")]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use comeback::{Enveloped, Received};
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

/// An envelope, for those who are never given anything else.
#[derive(Deserialize)]
struct ByHand<T> {
    #[serde(rename = "_retry_metadata")]
    _retried: Retried,
    #[serde(rename = "_original_payload")]
    _payload: T,
}

#[derive(Deserialize)]
struct Retried {
    #[serde(rename = "attempt")]
    _attempt: u32,
    #[serde(rename = "initial_timestamp")]
    _initial_timestamp: i64,
    #[serde(rename = "request_id")]
    _request_id: String,
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

/// How long a run takes, at the least.
struct Least<'a> {
    run: &'a dyn Fn() -> bool,
    took: Duration,
}

impl<'a> Least<'a> {
    fn of(run: &'a dyn Fn() -> bool) -> Self {
        Self { run, took: Duration::MAX }
    }

    fn measure(&mut self) {
        let start = Instant::now();
        for _ in 0..RUNS_IN_TURN {
            assert!((self.run)(), "the event is not read as what it is");
        }
        self.took = self.took.min(start.elapsed() / RUNS_IN_TURN);
    }

    /// By how many hundredths it takes longer than another.
    fn over(&self, other: &Self) -> f64 {
        (self.took.as_secs_f64() / other.took.as_secs_f64() - 1.0) * 100.0
    }
}

const RUNS_IN_TURN: u32 = 8;

/// As long as each comparison may take.
const PATIENCE: Duration = Duration::from_secs(10);

fn compare<T: DeserializeOwned>(name: &str, kilobytes: usize) {
    let payload = order_of(kilobytes * 1024);
    let enveloped = format!(
        r#"{{"_retry_metadata":{{"attempt":2,"initial_timestamp":1643667670,"request_id":"e4b46cbf-b738-4a1b-8880-a18cdf61200e"}},"_original_payload":{payload}}}"#
    );
    let itself = || read::<T>(&payload).is_some();
    let bare = || read::<Enveloped<T>>(&payload).is_some_and(|event| event.retried.is_none());
    let layer = || read::<Received<T>>(&payload).is_some();
    let by_hand = || read::<ByHand<T>>(&enveloped).is_some();
    let retried = || read::<Enveloped<T>>(&enveloped).is_some_and(|event| event.retried.is_some());
    let runs: [&dyn Fn() -> bool; 5] = [&itself, &bare, &layer, &by_hand, &retried];
    let mut all = runs.map(Least::of);
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        all.iter_mut().for_each(Least::measure);
    }
    let [itself, bare, layer, by_hand, retried] = all;
    println!(
        "{name}, {kilobytes} KB: T {:.2?}, Enveloped<T> {:+.0} %, Unwrap {:+.0} %; retried: by hand {:+.0} %, \
         Enveloped<T> {:+.0} %",
        itself.took,
        bare.over(&itself),
        layer.over(&itself),
        by_hand.over(&itself),
        retried.over(&itself),
    );
}

fn main() {
    for kilobytes in [1, 256] {
        compare::<Order>("typed", kilobytes);
        compare::<Box<RawValue>>("raw", kilobytes);
    }
}
