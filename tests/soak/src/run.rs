//! One soak, from the deployment to the moment when nothing is left to happen.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_lambda::types::ScalingConfig;
use end_to_end::journal::{Journal, PATIENCE};
use end_to_end::retry_loop::{HANDLER, Plan, RetryLoop};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::fate::{self, MAX_ATTEMPTS};
use crate::killer;
use crate::memory::Memory;
use crate::tally::Tally;

/// How many events may be under way at a time: enough that queues have a backlog, and few enough that
/// all of their story fits into the journal.
const UNDER_WAY_MAX: usize = 600;

/// How many batches may be with the handler at a time: each is a process.
const HANDLERS_MAX: i32 = 6;

/// How many events are sent in at a time.
const FEEDERS: usize = 4;

/// How often the processes' memory is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// What a soak came to.
pub struct Soaked {
    /// What became of the events.
    pub tally: Tally,
    /// What the processes used.
    pub memory: Memory,
    /// How many handlers were killed.
    pub killed: usize,
    /// How many messages the retry queue and the dead-letter queue were left with.
    pub left: (u32, u32),
}

/// Sends so many events through a system of their own, and waits until all is over.
pub async fn soak(events: usize, seed: u64) -> Soaked {
    let retry_loop = Arc::new(deploy().await);
    let cloud = retry_loop.cloud.process.id().unwrap();
    let (mut memory, mut killed) = (Memory::default(), 0);
    let settling = settle(&retry_loop, events);
    let (tally, left) = tokio::select! {
        settled = settling => settled,
        () = killer::kill_now_and_then(cloud, seed, || killed += 1) => unreachable!(),
        () = watch(&mut memory, cloud) => unreachable!(),
    };
    Soaked { tally, memory, killed, left }
}

async fn deploy() -> RetryLoop {
    let attempts = MAX_ATTEMPTS.to_string();
    let plan = Plan::quick(&[("MAX_BACKOFF", "2s"), ("MAX_ATTEMPTS", &attempts)]);
    let retry_loop = plan.deploy().await;
    let lambda = &retry_loop.cloud.lambda;
    let mappings = lambda.list_event_source_mappings().function_name(HANDLER).send().await.unwrap();
    let mapping = mappings.event_source_mappings.unwrap_or_default().remove(0);
    let scaling = ScalingConfig::builder().maximum_concurrency(HANDLERS_MAX).build();
    let call = lambda.update_event_source_mapping().uuid(mapping.uuid.unwrap());
    call.scaling_config(scaling).send().await.unwrap();
    retry_loop
}

async fn watch(memory: &mut Memory, cloud: u32) {
    loop {
        memory.look(cloud);
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// Feeds the events in and counts their ends, until every one has come to its end and nothing is left
/// anywhere, or until no event has come to one for long. Gives what is left in the two queues too.
async fn settle(retry_loop: &Arc<RetryLoop>, events: usize) -> (Tally, (u32, u32)) {
    let room = Arc::new(Semaphore::new(UNDER_WAY_MAX));
    let mut feeding = JoinSet::new();
    for first in 0..FEEDERS {
        let ids = (first..events).step_by(FEEDERS);
        feeding.spawn(feed(Arc::clone(retry_loop), ids, Arc::clone(&room)));
    }
    let mut tally = Tally::default();
    let mut journal = retry_loop.cloud.journal();
    loop {
        let settled = tally.settled();
        let progress = progress(retry_loop, events, &mut journal, &mut tally);
        let is_over = timeout(PATIENCE, progress).await.unwrap_or(true);
        if is_over {
            return (tally, retry_loop.left().await);
        }
        room.add_permits(tally.settled() - settled);
    }
}

/// Reads on until more events have come to their ends, or all is over; whether it is.
async fn progress(
    retry_loop: &RetryLoop,
    events: usize,
    journal: &mut Journal,
    tally: &mut Tally,
) -> bool {
    let settled = tally.settled();
    loop {
        for entry in journal.page(Duration::from_secs(1)).await {
            tally.note(&entry);
        }
        let letters = retry_loop.dead_letters().await;
        letters.iter().for_each(|letter| tally.buried(letter));
        if tally.settled() > settled {
            return false;
        }
        let all_ended = tally.settled() == events && tally.target_is_idle();
        if all_ended && retry_loop.left().await == (0, 0) {
            return true;
        }
    }
}

/// Invokes the target with these events, as fast as earlier ones come to their ends.
async fn feed(retry_loop: Arc<RetryLoop>, ids: impl Iterator<Item = usize>, room: Arc<Semaphore>) {
    for id in ids {
        room.acquire().await.unwrap().forget();
        retry_loop.invoke(&fate::payload(id)).await;
    }
}
