//! The soak of functions that are retried without an envelope: ten unchanged functions in Python, Node.js and Rust, of
//! which half of the events have an equal twin. Handlers are killed at any moment, and half of them between Lambda's
//! answer and the write of the note about it.
//!
//! Each event is sent with a trace of its own, which Lambda and the handler pass on, and each function prints the trace
//! of each run. So it is known of which event a run is, although the payload doesn't say. The notes in the ledger are
//! compared with that.

mod cutter;
mod events;
mod functions;
mod tally;

use std::{fmt, sync::Arc};

use aws_sdk_lambda::{primitives::Blob, types::InvocationType};
use end_to_end::{
    cloud::Cloud,
    retry_loop::{HANDLER, Plan, RetryLoop},
};
use tokio::sync::Semaphore;

use self::{
    cutter::Cutter,
    events::{MAX_ATTEMPTS, function_of, payload, trace},
    tally::{Judged, Tally},
};
use crate::{
    run::{kill_now_and_then, limited, settle},
    table,
};

/// The most events under way at the same time.
const UNDER_WAY_MAX: usize = 400;

/// The shortest and the longest time between two kills at any moment, in milliseconds.
const KILL_PAUSE: [u64; 2] = [200, 1400];

pub struct Soaked {
    events: usize,
    judged: Judged,
    /// The handlers that were killed at any moment, and those between Lambda's answer and the note about it.
    pub killed: [usize; 2],
    left: u32,
}

/// Sends this many events through a new system, and waits until all have ended.
pub async fn soak(events: usize, seed: u64) -> Soaked {
    let cloud = Cloud::with_tables(60).await;
    let tables = table::create(&cloud.endpoint).await;
    let process = cloud.process.id().unwrap();
    let cutter = Cutter::before(&cloud.endpoint, process, seed).await;
    let attempts = MAX_ATTEMPTS.to_string();
    let mut plan = Plan::quick(&[
        ("TRANSPARENT", "true"),
        ("LEDGER_TABLE", table::NAME),
        ("AWS_ENDPOINT_URL_DYNAMODB", &cutter.endpoint),
        ("MAX_BACKOFF", "2s"),
        ("MAX_ATTEMPTS", &attempts),
    ]);
    let (mut targets, _codes) = functions::all();
    plan.target = targets.remove(0);
    plan.others = targets;
    let retry_loop = limited(plan.deploy_in(cloud).await).await;
    let room = Arc::new(Semaphore::new(UNDER_WAY_MAX));
    tokio::spawn(feed(Arc::clone(&retry_loop), events, Arc::clone(&room)));
    let left = async || {
        let (retry, dead) = retry_loop.left().await;
        retry + dead
    };
    let mut killed = 0;
    let (tally, left) = tokio::select! {
        settled = settle(&retry_loop, Tally::default(), events, &room, left) => settled,
        () = kill_now_and_then(process, &[HANDLER], KILL_PAUSE, seed, |_| killed += 1) => {
            unreachable!()
        }
    };
    let killed = [killed, cutter.killed()];
    let judged = tally.judge(events, &table::notes(&tables).await);
    Soaked { events, judged, killed, left }
}

/// Invokes the targets with these events, as fast as earlier ones end.
async fn feed(retry_loop: Arc<RetryLoop>, events: usize, room: Arc<Semaphore>) {
    for event in 0..events {
        room.acquire().await.unwrap().forget();
        let call = retry_loop.cloud.lambda.invoke().function_name(function_of(event));
        let call = call.invocation_type(InvocationType::Event).payload(Blob::new(payload(event)));
        let trace = trace(event);
        let call = call.customize().mutate_request(move |request| {
            request.headers_mut().insert("x-amzn-trace-id", trace.clone());
        });
        call.send().await.unwrap();
    }
}

impl Soaked {
    /// Whether every event has ended as it must, with the right attempts and ages, and the queues are empty.
    pub fn is_good(&self) -> bool {
        self.judged.lost.is_empty() && self.judged.faults.is_empty() && self.left == 0
    }
}

impl fmt::Display for Soaked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { events, judged, killed: [any, cut], left } = self;
        writeln!(f, "{:>7} succeeded", judged.succeeded)?;
        for (reason, count) in &judged.dead {
            writeln!(f, "{count:>7} dead-lettered, {reason}")?;
        }
        writeln!(f, "{:>7} lost of {events}, {left} left in the queues", judged.lost.len())?;
        writeln!(f, "{:>7} events had an equal twin", judged.twins)?;
        let Judged { runs, doubles, duplicate_ends, crashed_batches, .. } = judged;
        writeln!(f, "{runs:>7} runs of the functions, with the original bytes")?;
        writeln!(
            f,
            "{doubles:>7} of them repeated an attempt, which ended {duplicate_ends} events again"
        )?;
        writeln!(f, "{:>7} notes had the exact attempt, age and event id", judged.exact)?;
        let all = any + cut;
        writeln!(
            f,
            "{all:>7} handlers killed, {crashed_batches} during a batch, {cut} of them between Lambda's answer and the note"
        )?;
        for event in judged.lost.iter().take(10) {
            writeln!(f, "event {event} has not ended")?;
        }
        judged.faults.iter().take(10).try_for_each(|fault| writeln!(f, "{fault}"))?;
        f.write_str(if self.is_good() { "good" } else { "NOT GOOD" })
    }
}
