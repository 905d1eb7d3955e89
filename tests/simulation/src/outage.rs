//! One long outage of a function, and a healthy function beside it.
//!
//! Function A fails at a steady rate until it is mended, and function B fails now and then. No call fails and no
//! handler dies; only the number of events is extreme. Production's handler and the model's queues are in the middle.
//! Mappings and targets are simpler than in the worlds: a poller passes on at once what a receive returns, and a run
//! takes a fixed time and fails or succeeds. Only bodies are written as JSON, because there are millions of events.
//!
//! A call takes effect at once, and a batch keeps its handler busy for a fixed time. Time moves in steps of 20
//! milliseconds. SQS's count of messages in flight is one minute old.

mod handlers;
mod played;
mod target;
mod world;

use std::{collections::VecDeque, time::Duration};

use clap::{Args, ValueEnum};
use comeback_core::{arn::FunctionArn, time::later};
use comeback_local::model::{ACCOUNT, REGION};

use self::{
    handlers::{handle, settings},
    world::{Batch, World},
};
pub use self::{
    played::{DESIGNS_HEAD, KINDS_HEAD, Played, kind_row},
    target::Kind,
};
use wire::AwsHandler;

/// How long a handler is busy with a batch.
const BATCH_TAKES: Duration = Duration::from_millis(60);

/// After the outage, everything must have ended within this time.
const DRAINED_WITHIN: Duration = Duration::from_hours(30);

/// How the events of both functions wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Design {
    /// In one queue, all in flight.
    Shared,
    /// In one queue, in flight and as delays.
    SharedDelays,
    /// In a queue for each function, all in flight.
    Each,
    /// In a queue for each function, in flight and as delays. This is what is deployed.
    EachDelays,
}

impl Design {
    fn delays(self) -> bool {
        matches!(self, Self::SharedDelays | Self::EachDelays)
    }

    fn queue(self, target: usize) -> &'static str {
        match self {
            Self::Shared | Self::SharedDelays => "retry",
            Self::Each | Self::EachDelays => ["retry-a", "retry-b"][target],
        }
    }
}

/// The parameters of an outage.
#[derive(Args, Clone, Copy, Debug)]
#[group(skip)]
pub struct Outage {
    /// How many events of function A fail in a second.
    #[arg(long, default_value_t = 200)]
    pub rate: u64,
    /// How long the outage lasts.
    #[arg(long, default_value_t = 120)]
    pub minutes: u64,
    /// For how many seconds first invocations of A arrive. Without it, until 90 minutes after the outage.
    #[arg(long)]
    pub arrivals: Option<u64>,
    /// How many events of function B fail in a second.
    #[arg(long, default_value_t = 1)]
    pub neighbour: u64,
    /// The handler's IN_FLIGHT_MAX.
    #[arg(long, default_value_t = 100_000)]
    pub in_flight_max: u32,
    /// How many invocations function A can take in a second.
    #[arg(long, default_value_t = u64::MAX)]
    pub capacity: u64,
    /// Probe function A while it is down.
    #[arg(long)]
    pub probe: bool,
    /// List waiting events, so that they can be brought forward.
    #[arg(long)]
    pub register: bool,
    /// How events wait, how A fails, and the seed: one run has one of each.
    #[arg(skip = Design::EachDelays)]
    pub design: Design,
    #[arg(skip = Kind::Down)]
    pub kind: Kind,
    #[arg(skip)]
    pub seed: u64,
}

/// Plays an outage to its end.
pub fn play(outage: Outage) -> Played {
    run(World::new(outage))
}

#[allow(clippy::expect_used, reason = "it is the ARN of a function")]
fn run(mut world: World) -> Played {
    let settings = settings(world.outage);
    let arn = format!("arn:aws:lambda:{REGION}:{ACCOUNT}:function:retry-handler");
    let home = FunctionArn::parse(&arn).expect("the ARN of a function").home();
    let mut idle: Vec<AwsHandler> = Vec::new();
    let mut busy: VecDeque<Batch> = VecDeque::new();
    loop {
        let now = world.now;
        world.fail_new_events();
        world.end_runs();
        while let Some(batch) = busy.pop_front_if(|batch| batch.ends <= now) {
            world.finish(&batch);
            idle.push(batch.handler);
        }
        for poller in 0..world.pollers.len() {
            while let Some(event) = world.receive(poller) {
                let handler = idle.pop().unwrap_or_else(|| {
                    let has_ledger = settings.ledger_table.is_some();
                    world.environment().handler(settings.clone(), has_ledger)
                });
                let done = handle(&mut world, &handler, &home, event);
                busy.push_back(Batch { ends: later(now, BATCH_TAKES), poller, done, handler });
            }
        }
        world.count();
        let over = world.open == 0 && now >= world.mended;
        if over || now > later(world.mended, DRAINED_WITHIN) {
            return world.ended();
        }
        world.move_on(busy.front().map(|batch| batch.ends));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Outage = Outage {
        rate: 20,
        minutes: 20,
        arrivals: None,
        neighbour: 1,
        in_flight_max: 1_000,
        capacity: u64::MAX,
        probe: false,
        register: false,
        design: Design::EachDelays,
        kind: Kind::Down,
        seed: 0,
    };

    #[test]
    fn an_outage_larger_than_the_limit_delays_nobody_and_loses_nothing() {
        let played = play(SMALL);
        assert_eq!((played.lost, played.forks, played.letters), (0, 0, 0));
        // The last event of each function is sent at the end of the outage, and succeeds.
        assert_eq!(played.events, 25_198);
        assert!(played.in_flight_max <= SMALL.in_flight_max.into(), "{}", played.in_flight_max);
        assert!(played.delayed_max > 5_000, "{}", played.delayed_max);
        for target in [0, 1] {
            // SQS counts in whole seconds.
            let most = played.lateness(target, 1.0);
            assert!(most <= Duration::from_millis(1_200), "{most:?}");
        }
    }

    #[test]
    fn a_large_backlog_is_retried_as_fast_as_its_target_takes_it() {
        let capacity = 50;
        let played = play(Outage { capacity, minutes: 10, probe: true, register: true, ..SMALL });
        assert_eq!((played.lost, played.forks, played.letters), (0, 0, 0));
        assert_eq!((played.watched.non_probe_retries, played.watched.overlapping_probes), (0, 0));
        assert!(played.in_flight_max <= SMALL.in_flight_max.into(), "{}", played.in_flight_max);
        // First invocations continue, and take a part of the capacity.
        let alone = Duration::from_secs(played.backlog as u64 / (capacity - SMALL.rate));
        let most = played.most_after.unwrap();
        assert!(most <= alone + Duration::from_mins(5), "{most:?} instead of {alone:?}");
    }

    #[test]
    fn a_step_is_taken_within_ten_seconds_and_recovery_seen_within_seventy_however_events_arrive() {
        for (rate, arrivals) in [(1, 60), (2, 20), (2, 150), (5, 30), (20, 60), (20, 600)] {
            for register in [false, true] {
                let arrivals = Some(arrivals);
                let events = Outage { rate, arrivals, minutes: 6, neighbour: 0, ..SMALL };
                for seed in 0..3 {
                    let played = play(Outage { probe: true, register, seed, ..events });
                    let Outage { rate, arrivals, .. } = events;
                    let what =
                        format!("{rate} a second for {arrivals:?} s, {register}, seed {seed}");
                    assert!(played.is_good(), "{what}");
                    let late = played.watched.late_step;
                    assert!(late <= Duration::from_secs(10), "{what}: {late:?} late");
                    assert!(played.opened_after.is_some(), "{what}: no circuit has opened");
                    let first = played.first_after.unwrap();
                    assert!(first <= Duration::from_secs(70), "{what}: after {first:?}");
                }
            }
        }
    }

    #[test]
    fn without_delays_and_places_everything_is_late() {
        let mut world = World::new(Outage { design: Design::Shared, ..SMALL });
        world.sqs.limit_in_flight("retry", 1_000).unwrap();
        let played = run(world);
        assert!(played.lateness(1, 1.0) > Duration::from_mins(1));
    }
}
