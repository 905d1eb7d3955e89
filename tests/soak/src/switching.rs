//! Switches retries without an envelope on and off while thousands of events wait. The function is down all the time,
//! so that nearly all events wait in the retry queue, and comes up at the end.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt, fs,
    sync::Arc,
    time::Duration,
};

use aws_sdk_lambda::types::Environment;
use chrono::{DateTime, Utc};
use comeback_local_client::journal::{Ending, Entry};
use end_to_end::{
    cloud::{Cloud, function},
    journal::{Journal, PATIENCE},
    retry_loop::{HANDLER, Plan, RetryLoop, TARGET},
};
use serde_json::Value;
use tokio::time::timeout;

use crate::{run::limited, table};

/// Before each switch, every event was run so often again.
const RUNS_EACH: usize = 2;

/// The settings that follow each other. The first retries have an envelope.
const SWITCHES: [bool; 3] = [true, false, true];

fn payload(event: usize) -> String {
    format!(r#"{{"id": {event}, "price": 10.10,"fails":256,"how":"ConnectionFailed"}}"#)
}

/// One run of the function.
struct Run {
    id: Arc<str>,
    started_at: DateTime<Utc>,
    ended_at: Option<DateTime<Utc>>,
    /// What its envelope says, if it has one.
    told: Option<Value>,
}

#[derive(Default)]
struct Runs {
    by_event: BTreeMap<usize, Vec<Run>>,
    running: HashMap<Arc<str>, usize>,
    succeeded: HashSet<usize>,
    faults: Vec<String>,
}

impl Runs {
    fn note(&mut self, entry: Entry) {
        let Some(id) = entry.request_id.filter(|_| *entry.function == *TARGET) else { return };
        if let Some(sent) = &entry.payload {
            let sent = sent.get();
            let read: Value = serde_json::from_str(sent).unwrap();
            let told = read.get("_retry_metadata").cloned();
            let original = read.get("_original_payload").unwrap_or(&read);
            let event = original["id"].as_u64().unwrap() as usize;
            if !sent.contains(&payload(event)) || (told.is_none() && sent != payload(event)) {
                self.faults.push(format!("event {event} came with {sent}"));
            }
            self.running.insert(Arc::clone(&id), event);
            let run = Run { id, started_at: entry.at, ended_at: None, told };
            self.by_event.entry(event).or_default().push(run);
        } else if let Some(outcome) = entry.outcome {
            let event = self.running.remove(&id).unwrap();
            let mut runs = self.by_event.get_mut(&event).unwrap().iter_mut();
            runs.find(|run| run.id == id).unwrap().ended_at = Some(entry.at);
            if outcome == Ending::Succeeded {
                self.succeeded.insert(event);
            }
        }
    }

    async fn until(&mut self, journal: &mut Journal, is_over: impl Fn(&Self) -> bool) {
        while !is_over(self) {
            let page = timeout(PATIENCE, journal.page(PATIENCE)).await.unwrap();
            page.into_iter().for_each(|entry| self.note(entry));
        }
    }
}

pub struct Switched {
    events: usize,
    /// How many events waited at each switch.
    pub waiting: Vec<u32>,
    runs: usize,
    succeeded: usize,
    /// The events that began with attempt 1 again when notes were no longer read.
    pub began_anew: usize,
    left: (u32, u32),
    faults: Vec<String>,
}

/// Sends this many events through a new system.
pub async fn soak(events: usize, backoff_seconds: i64) -> Switched {
    let cloud = Cloud::with_tables(60).await;
    let tables = table::create(&cloud.endpoint).await;
    let down = std::env::temp_dir().join(format!("comeback-{}-down", std::process::id()));
    fs::write(&down, "").unwrap();
    let backoff = format!("{backoff_seconds}s");
    let mut plan = Plan::quick(&[
        ("LEDGER_TABLE", table::NAME),
        ("BASE_BACKOFF", &backoff),
        ("MAX_BACKOFF", &backoff),
        ("JITTER", "none"),
    ]);
    plan.target = function(TARGET, "soak-target");
    plan.target.environment = vec![("DOWN_WHILE".to_owned(), down.display().to_string())];
    let retry_loop = limited(plan.deploy_in(cloud).await).await;
    let (mut journal, mut runs) = (retry_loop.cloud.journal(), Runs::default());
    let invoke = Arc::clone(&retry_loop);
    tokio::spawn(async move {
        for event in 0..events {
            invoke.invoke(&payload(event)).await;
        }
    });
    let mut waiting = Vec::new();
    for (nth, is_on) in SWITCHES.into_iter().enumerate() {
        let least = RUNS_EACH * (nth + 1);
        runs.until(&mut journal, |runs| {
            let by_event = &runs.by_event;
            by_event.len() == events && by_event.values().all(|runs| runs.len() >= least)
        })
        .await;
        waiting.push(switch(&retry_loop, is_on).await);
    }
    let least = RUNS_EACH * SWITCHES.len() + 1;
    runs.until(&mut journal, |runs| runs.by_event.values().all(|runs| runs.len() >= least)).await;
    fs::remove_file(&down).unwrap();
    runs.until(&mut journal, |runs| runs.succeeded.len() == events).await;
    // The local cloud has discarded the beginning of the journal by now, so only this reader can go on.
    let left = loop {
        let left = retry_loop.left().await;
        if left.0 == 0 && runs.running.is_empty() {
            break left;
        }
        journal.page(Duration::from_secs(1)).await.into_iter().for_each(|entry| runs.note(entry));
    };
    let notes = table::notes(&tables).await;
    let mut faults = std::mem::take(&mut runs.faults);
    let mut began_anew = 0;
    for (event, runs) in &runs.by_event {
        began_anew += usize::from(judge(*event, runs, backoff_seconds, &notes, &mut faults));
    }
    let succeeded = runs.succeeded.len();
    let runs = runs.by_event.values().map(Vec::len).sum();
    Switched { events, waiting, runs, succeeded, began_anew, left, faults }
}

/// Changes the handler's setting while it works. Returns how many events wait.
async fn switch(retry_loop: &RetryLoop, is_on: bool) -> u32 {
    let lambda = &retry_loop.cloud.lambda;
    let handler = lambda.get_function_configuration().function_name(HANDLER).send().await.unwrap();
    let variables = handler.environment.and_then(|it| it.variables);
    let mut variables = variables.unwrap_or_default();
    variables.insert("TRANSPARENT".to_owned(), is_on.to_string());
    let environment = Environment::builder().set_variables(Some(variables)).build();
    let (waiting, _) = retry_loop.left().await;
    let call = lambda.update_function_configuration().function_name(HANDLER);
    call.environment(environment).send().await.unwrap();
    waiting
}

/// Checks that each run comes a backoff after the one before, as the next attempt. Only the first one that has an
/// envelope after one without may be the first attempt again: returns whether it is.
fn judge(
    event: usize,
    runs: &[Run],
    backoff_seconds: i64,
    notes: &HashMap<String, Value>,
    faults: &mut Vec<String>,
) -> bool {
    let (mut began_anew, mut before) = (false, 0);
    let mut first = &runs[0];
    for pair in runs.windows(2) {
        let [last, run] = pair else { continue };
        let Some(said) = run.told.as_ref().or(notes.get(&*run.id)) else {
            faults.push(format!("event {event}: nothing says which attempt {} is", run.id));
            continue;
        };
        let attempt = said["attempt"].as_u64().unwrap_or_default();
        let is_anew = attempt == 1 && before > 0 && run.told.is_some() && last.told.is_none();
        if is_anew {
            began_anew = true;
            first = last;
        }
        let ended_at = last.ended_at.map_or(i64::MAX, |at| at.timestamp_millis());
        let waited = run.started_at.timestamp_millis().saturating_sub(ended_at);
        let since = first.ended_at.map(|at| at.timestamp());
        let is_right = (is_anew || attempt == before + 1)
            && said["request_id"].as_str() == Some(&first.id)
            && said["initial_timestamp"].as_i64() == since
            && waited + 1 >= 1000 * backoff_seconds;
        if !is_right {
            faults.push(format!("event {event}: {} is {said}, {waited} ms after attempt {before}, first {} failed at {since:?}", run.id, first.id));
        }
        before = attempt;
    }
    began_anew
}

impl Switched {
    /// Whether all events have succeeded, each attempt ran once, and nothing is left.
    pub fn is_good(&self) -> bool {
        self.succeeded == self.events && self.faults.is_empty() && self.left == (0, 0)
    }
}

impl fmt::Display for Switched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { events, waiting, runs, succeeded, began_anew, left, faults } = self;
        writeln!(f, "{succeeded:>7} succeeded of {events}, {left:?} left in the queues")?;
        writeln!(f, "{runs:>7} runs, each a backoff after the one before it")?;
        writeln!(f, "{waiting:?} events waited when the setting was switched on, off and on")?;
        writeln!(f, "{began_anew:>7} began with attempt 1 again when it was off")?;
        faults.iter().take(10).try_for_each(|fault| writeln!(f, "{fault}"))?;
        f.write_str(if self.is_good() { "good" } else { "NOT GOOD" })
    }
}
