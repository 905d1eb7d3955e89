//! One soak, from the deployment to the end of the last event, and its figures.

use std::{fmt, sync::Arc, time::Duration};

use aws_sdk_lambda::types::ScalingConfig;
use end_to_end::{
    journal::{Entry, PATIENCE},
    processes::{self, Pid},
    retry_loop::{DeadLetter, HANDLER, Plan, RetryLoop},
};
use rand::{Rng as _, SeedableRng as _, rngs::Xoshiro256PlusPlus};
use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};

use crate::tally::{self, End, MAX_ATTEMPTS, Tally};

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
    /// Whether the target is durable.
    pub is_durable: bool,
    /// The number of messages left in the queues.
    pub left: u32,
}

/// Sends this many events through a new system, and waits until all have ended.
pub async fn soak(events: usize, seed: u64, is_durable: bool) -> Soaked {
    let attempts = MAX_ATTEMPTS.to_string();
    let mut plan = Plan::quick(&[("MAX_BACKOFF", "2s"), ("MAX_ATTEMPTS", &attempts)]);
    plan.target.durable = is_durable;
    let retry_loop = limited(plan.deploy().await).await;
    let room = Arc::new(Semaphore::new(UNDER_WAY_MAX));
    tokio::spawn(feed(Arc::clone(&retry_loop), events, Arc::clone(&room)));
    let left = async || {
        let (retry, dead) = retry_loop.left().await;
        retry + dead
    };
    let cloud = retry_loop.cloud.process.id().unwrap();
    let (mut memory, mut killed) = (Memory::default(), 0);
    let (tally, left) = tokio::select! {
        settled = settle(&retry_loop, Tally::new(is_durable), events, &room, left) => settled,
        () = kill_now_and_then(cloud, &[HANDLER], KILL_PAUSE, seed, |_| killed += 1) => {
            unreachable!()
        }
        () = watch(&mut memory, cloud) => unreachable!(),
    };
    Soaked { lost: tally.lost(events), tally, memory, killed, is_durable, left }
}

/// Limits the handlers that run at the same time.
pub async fn limited(retry_loop: RetryLoop) -> Arc<RetryLoop> {
    let lambda = &retry_loop.cloud.lambda;
    let mappings = lambda.list_event_source_mappings().function_name(HANDLER).send().await.unwrap();
    let mapping = mappings.event_source_mappings.unwrap_or_default().remove(0);
    let scaling = ScalingConfig::builder().maximum_concurrency(HANDLERS_MAX).build();
    let call = lambda.update_event_source_mapping().uuid(mapping.uuid.unwrap());
    call.scaling_config(scaling).send().await.unwrap();
    Arc::new(retry_loop)
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

/// What a soak counts.
pub trait Counts {
    fn note(&mut self, entry: &Entry);
    fn dead_lettered(&mut self, letter: &DeadLetter);
    /// How many events have ended.
    fn settled(&self) -> usize;
    /// Whether everything that was begun has ended.
    fn is_idle(&self) -> bool;
}

/// Counts the ends of events and makes room for others, until all have ended and the queues are empty, or until none
/// has ended for a long time. Also returns the number of messages left in the queues.
pub async fn settle<T: Counts>(
    retry_loop: &RetryLoop,
    mut tally: T,
    events: usize,
    room: &Semaphore,
    left: impl AsyncFn() -> u32,
) -> (T, u32) {
    let mut journal = retry_loop.cloud.journal();
    loop {
        let settled = tally.settled();
        let progress = async {
            loop {
                for entry in journal.page(Duration::from_secs(1)).await {
                    tally.note(&entry);
                }
                for letter in retry_loop.dead_letters().await {
                    tally.dead_lettered(&letter);
                }
                if tally.settled() == events && tally.is_idle() && left().await == 0 {
                    return true;
                }
                if tally.settled() > settled {
                    return false;
                }
            }
        };
        let is_over = timeout(PATIENCE, progress).await.unwrap_or(true);
        if is_over {
            return (tally, left().await);
        }
        room.add_permits(tally.settled() - settled);
    }
}

/// Invokes the target with these events, as fast as earlier ones end.
async fn feed(retry_loop: Arc<RetryLoop>, events: usize, room: Arc<Semaphore>) {
    for id in 0..events {
        room.acquire().await.unwrap().forget();
        retry_loop.invoke(&tally::payload(id)).await;
    }
}

/// The most lost events, and the most faults, that are printed.
const PRINTED_MAX: usize = 10;

/// The growth in KiB from the middle third of a run to the last that is still acceptable. Allocators and a journal
/// whose lines change in length need about this much. A leak of half a kilobyte per event exceeds it in a soak of
/// 20,000 events.
const GROWTH_MAX_KIB: u64 = 3 * 1024;

/// The samples of one kind of process, in KiB.
#[derive(Default)]
pub struct Samples(Vec<u64>);

#[derive(Default)]
pub struct Memory {
    pub cloud: Samples,
    pub handler: Samples,
}

impl Memory {
    /// Measures the local cloud with this process id and its handlers.
    pub fn sample(&mut self, cloud: u32) {
        let own = i32::try_from(cloud).ok().and_then(Pid::from_raw);
        self.cloud.0.extend(own.and_then(processes::resident_kib));
        let handlers = processes::descendants(cloud, HANDLER);
        self.handler.0.extend(handlers.into_iter().filter_map(processes::resident_kib).max());
    }
}

impl Samples {
    pub fn thirds(&self) -> [u64; 3] {
        let third = self.0.len().div_ceil(3).max(1);
        let mut medians = self.0.chunks(third).map(median);
        [(); 3].map(|()| medians.next().unwrap_or_default())
    }

    /// Whether memory has stopped growing. The first third is for warming up.
    pub fn is_flat(&self) -> bool {
        let [_, middle, end] = self.thirds();
        end <= middle + GROWTH_MAX_KIB
    }
}

fn median(samples: &[u64]) -> u64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

impl Soaked {
    /// Whether every event has ended as it must, and the queues are empty. No attempt of a durable function ran twice.
    pub fn nothing_is_lost(&self) -> bool {
        let runs_once = !self.is_durable || self.tally.duplicate_runs == 0;
        runs_once && self.lost.is_empty() && self.tally.faults.is_empty() && self.left == 0
    }

    /// Whether nothing is lost, and no process kept growing. The local cloud remembers all executions of a durable
    /// function.
    pub fn is_good(&self) -> bool {
        let cloud_is_flat = self.is_durable || self.memory.cloud.is_flat();
        self.nothing_is_lost() && cloud_is_flat && self.memory.handler.is_flat()
    }
}

impl fmt::Display for Soaked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lost, tally, memory, killed, is_durable, left } = self;
        writeln!(f, "{:>7} succeeded", tally.count(End::Succeeded))?;
        for reason in ["max_attempts_exceeded", "not_retryable"] {
            writeln!(f, "{:>7} dead-lettered, {reason}", tally.count(End::DeadLetter(reason)))?;
        }
        writeln!(f, "{:>7} lost", lost.len())?;
        writeln!(f, "{left:>7} left in the queues")?;
        writeln!(f, "{:>7} runs of the target", tally.runs)?;
        let (runs, ends) = (tally.duplicate_runs, tally.duplicate_ends);
        writeln!(f, "{runs:>7} of them repeated an attempt, which ended {ends} events again")?;
        if *is_durable {
            let repeated = tally.repeated_starts;
            writeln!(f, "{repeated:>7} starts repeated, of which Lambda started none")?;
        }
        let crashed = tally.crashed_batches;
        writeln!(f, "{killed:>7} handlers killed, {crashed} during a batch")?;
        writeln!(f, "resident memory, median of each third of the time, in MiB")?;
        write_memory(f, "comeback-local", &memory.cloud)?;
        write_memory(f, "largest retry-handler", &memory.handler)?;
        for id in lost.iter().take(PRINTED_MAX) {
            writeln!(f, "event {id} has not ended")?;
        }
        for fault in tally.faults.iter().take(PRINTED_MAX) {
            writeln!(f, "{fault}")?;
        }
        f.write_str(if self.is_good() { "good" } else { "NOT GOOD" })
    }
}

fn write_memory(f: &mut fmt::Formatter<'_>, name: &str, samples: &Samples) -> fmt::Result {
    let [start, middle, end] = samples.thirds().map(|kib| kib as f64 / 1024.0);
    let verdict = if samples.is_flat() { "flat" } else { "GROWING" };
    writeln!(f, "{start:>7.1} {middle:>7.1} {end:>7.1}  {name}, {verdict}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_warms_up_is_flat_and_memory_that_keeps_growing_is_not() {
        let noise = |n: u64| n * 7919 % 300;
        let warmed = Samples((0..300).map(|n| 40_000.min(5_000 + n * 500) + noise(n)).collect());
        assert!(warmed.is_flat(), "{:?}", warmed.thirds());
        let leaking = Samples((0..300).map(|n| 40_000 + n * 40).collect());
        assert_eq!(leaking.thirds(), [42_000, 46_000, 50_000]);
        assert!(!leaking.is_flat());
    }
}
