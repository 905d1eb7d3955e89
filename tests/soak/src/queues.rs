//! The soak of queues: messages that a Python and a Node.js consumer fail on, while both and the handlers are killed.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::Arc,
};

use aws_sdk_sqs::types::{MessageAttributeValue, SendMessageBatchRequestEntry};
use end_to_end::{
    consumer::{self, Language},
    journal::{Ending, Entry},
    retry_loop::{DeadLetter, HANDLER, Plan, RetryLoop},
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::run::{Counts, kill_now_and_then, limited, settle};

/// The queues, whose consumers have the same names.
const QUEUES: [(&str, Language); 2] = [("python", Language::Python), ("node", Language::NodeJs)];

/// The processes to kill.
const NAMES: [&str; 3] = [HANDLER, "python", "node"];

/// The shortest and the longest time between two kills, in milliseconds: a consumer takes a while to start.
const KILL_PAUSE: [u64; 2] = [100, 700];

/// Longer than the visibility timeout, so that messages wait in the retry queue.
const BASE_BACKOFF_SECONDS: i64 = 6;
const VISIBILITY_SECONDS: u32 = 4;

/// A message that is not poison fails so often only if its consumers are killed.
const MAX_ATTEMPTS: u64 = 3;

/// The most messages under way at the same time, and in a call.
const UNDER_WAY_MAX: usize = 600;
const BATCH: usize = 10;

/// One message in twenty is poison, and one in four of the others fails until attempt 2.
fn body(id: usize) -> String {
    match id % 20 {
        0 => format!("poison {id}"),
        nth if nth % 4 == 1 => format!("{{\"heals\":{id}}}"),
        _ => format!("{{\"id\":{id}}}"),
    }
}

fn is_poison(id: usize) -> bool {
    id.is_multiple_of(20)
}

/// The number of the message with this body.
fn id_of(body: &str) -> usize {
    body.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

/// A message as a consumer was given it.
struct Run {
    id: usize,
    attempt: u64,
    message_id: String,
}

#[derive(Default)]
struct Tally {
    succeeded: BTreeSet<usize>,
    dead: BTreeSet<usize>,
    /// The batches that consumers are processing, by request id.
    running: HashMap<Arc<str>, Vec<Run>>,
    /// When each attempt of each message was first received, in milliseconds.
    received_at: BTreeMap<(usize, u64), i64>,
    /// How often a consumer was killed with each message in its batch.
    crashed: BTreeMap<usize, u64>,
    runs: usize,
    duplicate_runs: usize,
    duplicate_ends: usize,
    faults: Vec<String>,
}

impl Counts for Tally {
    fn note(&mut self, entry: &Entry) {
        if !QUEUES.iter().any(|(name, _)| *entry.function == **name) {
            return;
        }
        let Some(request_id) = entry.request_id.clone() else { return };
        match (&entry.payload, &entry.response) {
            (Some(payload), _) => {
                let event: Value = serde_json::from_str(payload.get()).unwrap();
                let records = event["Records"].as_array().unwrap().iter();
                let runs = records.map(|record| self.started(record)).collect();
                self.running.insert(request_id, runs);
            }
            (None, Some(response)) => {
                let response: Value = serde_json::from_str(response.get()).unwrap();
                let is_crash = entry.outcome != Some(Ending::Succeeded);
                for run in self.running.remove(&request_id).unwrap() {
                    self.finished(&run, is_crash, &response);
                }
            }
            (None, None) => {}
        }
    }

    fn dead_lettered(&mut self, letter: &DeadLetter) {
        let id = id_of(&letter.body);
        let kills = self.crashed.get(&id).copied().unwrap_or(0);
        let original = json!({ "number": { "type": "Number", "value": id.to_string() } });
        let own = letter.attributes.get("OriginalAttributes").map_or("", String::as_str);
        let is_right = letter.reason() == "max_attempts_exceeded"
            && letter.body == body(id)
            && (is_poison(id) || kills >= MAX_ATTEMPTS - 1)
            && serde_json::from_str::<Value>(own).ok() == Some(original);
        if !is_right {
            self.faults.push(format!("{id}, after {kills} kills: a wrong dead letter {letter:?}"));
        }
        let is_first = self.dead.insert(id) && !self.succeeded.contains(&id);
        self.duplicate_ends += usize::from(!is_first);
    }

    fn settled(&self) -> usize {
        self.succeeded.union(&self.dead).count()
    }

    fn is_idle(&self) -> bool {
        self.running.is_empty()
    }
}

impl Tally {
    fn started(&mut self, record: &Value) -> Run {
        let id = id_of(record["body"].as_str().unwrap());
        let metadata = &record["messageAttributes"]["_retry_metadata"]["stringValue"];
        let metadata: Value =
            serde_json::from_str(metadata.as_str().unwrap_or_default()).unwrap_or_default();
        let attempt = metadata["attempt"].as_u64().unwrap_or(0);
        let received_at = record["attributes"]["ApproximateFirstReceiveTimestamp"].as_str();
        let received_at: i64 = received_at.unwrap().parse().unwrap();
        self.runs += 1;
        self.duplicate_runs += usize::from(self.received_at.contains_key(&(id, attempt)));
        self.received_at.entry((id, attempt)).or_insert(received_at);
        let failed_at = attempt.checked_sub(1).map(|before| self.received_at.get(&(id, before)));
        match failed_at {
            Some(Some(failed_at)) if received_at < failed_at + 1000 * BASE_BACKOFF_SECONDS => {
                let waited = received_at - failed_at;
                self.faults.push(format!("{id}: attempt {attempt} came after {waited} ms"));
            }
            Some(None) => self.faults.push(format!("{id}: attempt {attempt} follows none")),
            Some(Some(_)) | None => {}
        }
        let own = &record["messageAttributes"]["number"]["stringValue"];
        if own.as_str().and_then(|own| own.parse().ok()) != Some(id) {
            self.faults.push(format!("{id}: its attribute is {own}"));
        }
        Run { id, attempt, message_id: record["messageId"].as_str().unwrap().to_owned() }
    }

    fn finished(&mut self, run: &Run, is_crash: bool, response: &Value) {
        let Run { id, attempt, message_id } = run;
        if is_crash {
            *self.crashed.entry(*id).or_default() += 1;
            return;
        }
        let failed = response["batchItemFailures"].as_array().into_iter().flatten();
        if failed.into_iter().any(|it| it["itemIdentifier"] == **message_id) {
            return;
        }
        if is_poison(*id) {
            self.faults.push(format!("{id}: attempt {attempt} of a poison message succeeds"));
        }
        let is_first = self.succeeded.insert(*id) && !self.dead.contains(id);
        self.duplicate_ends += usize::from(!is_first);
    }
}

pub struct Soaked {
    messages: usize,
    tally: Tally,
    /// The processes that were killed, by the number of their name.
    pub killed: [usize; NAMES.len()],
    /// The messages left in all queues.
    left: u32,
}

/// Sends this many messages to both queues, half to each, and waits until all have ended.
pub async fn soak(messages: usize, seed: u64) -> Soaked {
    let (base, attempts) = (format!("{BASE_BACKOFF_SECONDS}s"), MAX_ATTEMPTS.to_string());
    let plan = Plan::quick(&[
        ("QUEUE_TARGETS", r#"{"retry":["sqs:python","sqs:node"]}"#),
        ("BASE_BACKOFF", &base),
        ("MAX_BACKOFF", "8s"),
        ("MAX_ATTEMPTS", &attempts),
    ]);
    let retry_loop = limited(plan.deploy().await).await;
    let mut codes = Vec::new();
    for (name, language) in QUEUES {
        codes.push(consumer::deploy(&retry_loop, name, language, VISIBILITY_SECONDS).await);
    }
    let cloud = retry_loop.cloud.process.id().unwrap();
    let mut killed = [0; NAMES.len()];
    let room = Arc::new(Semaphore::new(UNDER_WAY_MAX));
    tokio::spawn(feed(Arc::clone(&retry_loop), messages, Arc::clone(&room)));
    let (tally, left) = tokio::select! {
        settled = settle(&retry_loop, Tally::default(), messages, &room, async || left(&retry_loop).await) => settled,
        () = kill_now_and_then(cloud, &NAMES, KILL_PAUSE, seed, |name| killed[name] += 1) => {
            unreachable!()
        }
    };
    Soaked { messages, tally, killed, left }
}

fn url(retry_loop: &RetryLoop, queue: &str) -> String {
    retry_loop.retry_queue.replace("/retry", &format!("/{queue}"))
}

async fn left(retry_loop: &RetryLoop) -> u32 {
    let (retry, dead) = retry_loop.left().await;
    let mut left = retry + dead;
    for (queue, _) in QUEUES {
        left += retry_loop.counts(&url(retry_loop, queue)).await.into_iter().sum::<u32>();
    }
    left
}

/// Sends messages, as fast as earlier ones end.
async fn feed(retry_loop: Arc<RetryLoop>, messages: usize, room: Arc<Semaphore>) {
    let ids: Vec<_> = (0..messages).collect();
    for (batch, ids) in ids.chunks(BATCH).enumerate() {
        room.acquire_many(ids.len() as u32).await.unwrap().forget();
        let entry = |id: &usize| {
            let number = MessageAttributeValue::builder().data_type("Number");
            let number = number.string_value(id.to_string()).build().unwrap();
            let entry = SendMessageBatchRequestEntry::builder().id(id.to_string());
            entry.message_body(body(*id)).message_attributes("number", number).build().unwrap()
        };
        let (queue, _) = QUEUES[batch % QUEUES.len()];
        let call = retry_loop.cloud.sqs.send_message_batch().queue_url(url(&retry_loop, queue));
        let sent = call.set_entries(Some(ids.iter().map(entry).collect())).send().await.unwrap();
        assert!(sent.failed().is_empty(), "{sent:?}");
    }
}

impl Soaked {
    /// Whether every message has ended as it must, and the queues are empty. A message ends twice only if a handler was
    /// killed after it had sent that message back.
    pub fn is_good(&self) -> bool {
        let Tally { faults, duplicate_ends, .. } = &self.tally;
        let is_complete = self.tally.settled() == self.messages && self.left == 0;
        is_complete && faults.is_empty() && *duplicate_ends <= BATCH * self.killed[0]
    }
}

impl fmt::Display for Soaked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { messages, tally, killed, left } = self;
        let (poison, others): (Vec<_>, Vec<_>) =
            tally.dead.iter().copied().partition(|id| is_poison(*id));
        writeln!(f, "{:>7} succeeded", tally.succeeded.len())?;
        writeln!(f, "{:>7} poison messages dead-lettered", poison.len())?;
        writeln!(f, "{:>7} others, whose consumers were killed too often", others.len())?;
        writeln!(f, "{:>7} lost, {left} left in the queues", messages - tally.settled())?;
        writeln!(f, "{:>7} runs of a message", tally.runs)?;
        let (runs, ends) = (tally.duplicate_runs, tally.duplicate_ends);
        writeln!(f, "{runs:>7} of them repeated an attempt, which ended {ends} messages again")?;
        let [handlers, python, node] = killed;
        writeln!(f, "{handlers:>7} handlers, {python} Python and {node} Node.js consumers killed")?;
        tally.faults.iter().take(10).try_for_each(|fault| writeln!(f, "{fault}"))?;
        f.write_str(if self.is_good() { "good" } else { "NOT GOOD" })
    }
}
