//! One soak, from the deployment to the end of the last event.

use std::{sync::Arc, time::Duration};

use aws_sdk_lambda::types::ScalingConfig;
use end_to_end::{
    journal::{Journal, PATIENCE},
    processes,
    retry_loop::{HANDLER, Plan, RetryLoop},
};
use rand::{Rng as _, SeedableRng as _, rngs::Xoshiro256PlusPlus};
use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};

use crate::{
    report::Memory,
    tally::{self, MAX_ATTEMPTS, Tally},
};

/// The most events under way at the same time: enough for a backlog in the queues, and few enough that the journal
/// keeps all entries about them.
const UNDER_WAY_MAX: usize = 600;

/// The most batches handled at the same time, each in its own process.
const HANDLERS_MAX: i32 = 6;

/// The interval between two measurements of the processes' memory.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(500);

/// The shortest and the longest time between two kills, in milliseconds.
const KILL_PAUSE: [u64; 2] = [50, 450];

pub struct Soaked {
    /// The events that have not ended.
    pub lost: Vec<usize>,
    /// The outcomes of the events.
    pub tally: Tally,
    pub memory: Memory,
    pub killed: usize,
    /// The number of messages left in the retry queue and in the dead-letter queue.
    pub left: (u32, u32),
}

/// Sends this many events through a new system, and waits until all have ended.
pub async fn soak(events: usize, seed: u64) -> Soaked {
    let retry_loop = Arc::new(deploy().await);
    let cloud = retry_loop.cloud.process.id().unwrap();
    let (mut memory, mut killed) = (Memory::default(), 0);
    let settling = settle(&retry_loop, events);
    let (tally, left) = tokio::select! {
        settled = settling => settled,
        () = kill_now_and_then(cloud, &[HANDLER], KILL_PAUSE, seed, |_| killed += 1) => {
            unreachable!()
        }
        () = watch(&mut memory, cloud) => unreachable!(),
    };
    Soaked { lost: tally.lost(events), tally, memory, killed, left }
}

async fn deploy() -> RetryLoop {
    let attempts = MAX_ATTEMPTS.to_string();
    deploy_with(&[("MAX_BACKOFF", "2s"), ("MAX_ATTEMPTS", &attempts)]).await
}

/// Deploys the retry loop with these settings, and limits the handlers that run at the same time.
pub async fn deploy_with(settings: &[(&'static str, &str)]) -> RetryLoop {
    let retry_loop = Plan::quick(settings).deploy().await;
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
        memory.sample(cloud);
        sleep(SAMPLE_INTERVAL).await;
    }
}

/// Kills a random process of `cloud` with one of these names at random intervals, and calls `killed` each time with the
/// number of the name. The seed decides when, and which. What that process is doing then depends on the machine.
pub async fn kill_now_and_then(
    cloud: u32,
    names: &[&str],
    [least, most]: [u64; 2],
    seed: u64,
    mut killed: impl FnMut(usize),
) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    loop {
        sleep(Duration::from_millis(least + rng.next_u64() % (most - least))).await;
        let name = rng.next_u64() as usize % names.len();
        let processes = processes::descendants(cloud, names[name]);
        if !processes.is_empty() {
            let chosen = rng.next_u64() as usize % processes.len();
            if processes::kill(processes[chosen]) {
                killed(name);
            }
        }
    }
}

/// Sends the events and counts their ends, until all have ended and the queues are empty, or until no event has ended
/// for a long time. Also returns the number of messages left in the two queues.
async fn settle(retry_loop: &Arc<RetryLoop>, events: usize) -> (Tally, (u32, u32)) {
    let room = Arc::new(Semaphore::new(UNDER_WAY_MAX));
    tokio::spawn(feed(Arc::clone(retry_loop), events, Arc::clone(&room)));
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

/// Reads the journal until more events have ended. Returns whether everything has ended.
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
        letters.iter().for_each(|letter| tally.dead_lettered(letter));
        if tally.settled() > settled {
            return false;
        }
        let all_ended = tally.settled() == events && tally.target_is_idle();
        if all_ended && retry_loop.left().await == (0, 0) {
            return true;
        }
    }
}

/// Invokes the target with these events, as fast as earlier ones end.
async fn feed(retry_loop: Arc<RetryLoop>, events: usize, room: Arc<Semaphore>) {
    for id in 0..events {
        room.acquire().await.unwrap().forget();
        retry_loop.invoke(&tally::payload(id)).await;
    }
}
