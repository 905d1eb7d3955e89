//! The effects of an outage of the target.

use std::{collections::BTreeMap, time::Duration};

use comeback_core::{
    Timestamp,
    decision::VISIBILITY_MAX,
    time::{between, later},
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    candidate::{Candidate, Life, START},
    cost::Dollars,
    scenario::Scenario,
};
use crate::quantiles::Quantiles;

/// The maximum number of steps to simulate. For larger outages, only every nth event is simulated and counts n times.
const STEPS_MAX: f64 = 4_000_000.0;

/// The number of events to simulate first, to estimate the number of steps.
const PILOTS: u64 = 8;

/// The number of slots in which retries are counted: two days in seconds. Longer outages have longer slots.
const SLOTS_MAX: u64 = 2 * 24 * 60 * 60;

const POINTS: usize = 240;

#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Outage {
    /// The number of events whose first run falls into the outage.
    pub events: u64,
    /// One in this many events was simulated, and counts for all of them.
    pub one_in: u64,
    pub succeeded: u64,
    pub given_up: BTreeMap<&'static str, u64>,
    pub retries: u64,
    pub retries_of_an_event: Quantiles,
    /// The time from the end of the outage until an event succeeds.
    pub recovered_after_seconds: Quantiles,
    pub retries_per_second_max: f64,
    /// The highest number of new events and retries per second.
    pub load_max: f64,
    pub waiting_max: u64,
    /// When this maximum is reached, in seconds from the beginning of the outage.
    pub waiting_max_at_seconds: f64,
    /// The maximum number of events in flight. If more wait, the longest waits are in flight, and the others delayed.
    pub in_flight_max: u32,
    pub dollars: Dollars,
    /// The retries and waiting events over time, from the beginning of the outage until the last event is done.
    pub timeline: Vec<Point>,
}

#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Point {
    /// The end of this part, in seconds from the beginning of the outage.
    pub seconds: f64,
    pub retries_per_second: f64,
    pub waiting: u64,
}

pub(super) fn simulate(candidate: &Candidate, scenario: &Scenario) -> Outage {
    simulate_sample(candidate, scenario, STEPS_MAX)
}

fn simulate_sample(candidate: &Candidate, scenario: &Scenario, steps_max: f64) -> Outage {
    let events = (scenario.events_per_second * scenario.outage.as_secs_f64()).round() as u64;
    let mut simulation = Simulation::new(candidate, scenario, 1);
    let pilots = PILOTS.min(events);
    for pilot in 0..pilots {
        simulation.event(events / PILOTS * pilot);
    }
    let steps = simulation.retries as f64 / pilots.max(1) as f64 * events as f64;
    let one_in = (steps / steps_max).ceil().max(1.0) as u64;
    let mut simulation = Simulation::new(candidate, scenario, one_in);
    // Start in the middle of the first `one_in` events, so that the sample is on average neither early nor late.
    let mut event = one_in / 2;
    while event < events {
        simulation.event(event);
        event += one_in;
    }
    simulation.outage(events)
}

struct Simulation<'a> {
    life: Life<'a>,
    candidate: &'a Candidate,
    scenario: &'a Scenario,
    end: Timestamp,
    one_in: u64,
    slot: Duration,
    /// For each slot, the retries in it and the change in the number of waiting events.
    slots: Vec<(u64, i64)>,
    retries: u64,
    hops: u64,
    of_events: Vec<f64>,
    recoveries: Vec<f64>,
    given_up: BTreeMap<&'static str, u64>,
}

impl<'a> Simulation<'a> {
    fn new(candidate: &'a Candidate, scenario: &'a Scenario, one_in: u64) -> Self {
        let policy = &candidate.policy;
        let horizon = scenario.outage + policy.longest().min(policy.max_age);
        Self {
            life: Life::new(candidate),
            candidate,
            scenario,
            end: later(START, scenario.outage),
            one_in,
            slot: Duration::from_secs(horizon.as_secs().div_ceil(SLOTS_MAX).max(1)),
            slots: Vec::new(),
            retries: 0,
            hops: 0,
            of_events: Vec::new(),
            recoveries: Vec::new(),
            given_up: BTreeMap::new(),
        }
    }

    fn event(&mut self, event: u64) {
        let arrival = Duration::from_secs_f64(event as f64 / self.scenario.events_per_second);
        self.life.begin(self.scenario.seed, event, later(START, arrival));
        let mut attempts = 0_u32;
        loop {
            let schedule = match self.life.plan() {
                Ok(schedule) => schedule,
                Err(reason) => {
                    *self.given_up.entry(reason.as_str()).or_default() += 1;
                    break;
                }
            };
            attempts += 1;
            self.wait(self.life.failure.failed_at, schedule.due);
            if schedule.due >= self.end {
                self.recoveries.push(between(self.end, schedule.due).as_secs_f64());
                break;
            }
            self.life.fail_again(&schedule);
        }
        self.retries += u64::from(attempts);
        self.of_events.push(attempts.into());
    }

    fn wait(&mut self, from: Timestamp, due: Timestamp) {
        self.hops += between(from, due).as_secs() / VISIBILITY_MAX.as_secs();
        let (begins, ends) = (self.slot(from), self.slot(due));
        if self.slots.len() <= ends {
            self.slots.resize(ends + 1, (0, 0));
        }
        self.slots[begins].1 += 1;
        self.slots[ends].1 -= 1;
        self.slots[ends].0 += 1;
    }

    fn slot(&self, at: Timestamp) -> usize {
        (between(START, at).as_secs() / self.slot.as_secs()) as usize
    }

    fn outage(mut self, events: u64) -> Outage {
        let timeline = self.timeline();
        let most = timeline.iter().max_by_key(|point| point.waiting);
        let (waiting_max, waiting_max_at) = most.map_or((0, 0.0), |it| (it.waiting, it.seconds));
        let rates = timeline.iter().map(|point| point.retries_per_second);
        let retries_per_second_max = rates.fold(0.0, f64::max);
        // Scale by the number of events that were really simulated, so that the parts of a sample add up.
        let factor = events as f64 / self.of_events.len().max(1) as f64;
        let scaled = |count: u64| (count as f64 * factor).round() as u64;
        let given_up: BTreeMap<_, _> =
            self.given_up.iter().map(|(reason, count)| (*reason, scaled(*count))).collect();
        let retries = scaled(self.retries);
        let dead_letters = given_up.values().sum::<u64>();
        let hops = self.hops as f64 * factor;
        let run = self.scenario.run;
        Outage {
            events,
            one_in: self.one_in,
            succeeded: events - dead_letters.min(events),
            retries,
            retries_of_an_event: Quantiles::of(&mut self.of_events),
            recovered_after_seconds: Quantiles::of(&mut self.recoveries),
            retries_per_second_max,
            load_max: retries_per_second_max + self.scenario.events_per_second,
            waiting_max,
            waiting_max_at_seconds: waiting_max_at,
            in_flight_max: self.candidate.in_flight_max,
            dollars: Dollars::of(retries as f64, hops, dead_letters as f64, run),
            given_up,
            timeline,
        }
    }

    fn timeline(&self) -> Vec<Point> {
        let slots_of_a_point = self.slots.len().div_ceil(POINTS).max(1);
        let slot = self.slot.as_secs_f64();
        let mut waiting = 0;
        let point = |(index, slots): (usize, &[(u64, i64)])| {
            let (mut retries_max, mut waiting_max) = (0, 0);
            for (retries, change) in slots {
                waiting += change;
                waiting_max = waiting_max.max(waiting);
                retries_max = retries_max.max(*retries);
            }
            Point {
                seconds: (index * slots_of_a_point + slots.len()) as f64 * slot,
                retries_per_second: (retries_max * self.one_in) as f64 / slot,
                waiting: u64::try_from(waiting_max).unwrap_or_default() * self.one_in,
            }
        };
        self.slots.chunks(slots_of_a_point).enumerate().map(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operate::simulate::rules::{Of, Run};

    fn candidate(settings: &[(&str, &str)]) -> Candidate {
        Candidate::read("mine", Of::Error(None), |name| {
            let value = settings.iter().find(|(given, _)| *given == name);
            value.map(|(_, value)| (*value).to_owned())
        })
        .unwrap()
    }

    fn scenario(outage: u64, events_per_second: f64) -> Scenario {
        let run = Run { milliseconds: 100, memory_mb: 128 };
        Scenario { outage: Duration::from_secs(outage), events_per_second, run, seed: 1 }
    }

    #[test]
    fn every_event_of_an_outage_succeeds_after_it_or_is_given_up() {
        let none = [("JITTER", "none"), ("MAX_BACKOFF", "8s")];
        // An event that fails at 0 s is retried at 1, 3, 7, 15 and 23 s.
        let outage = simulate(&candidate(&none), &scenario(20, 0.05));
        assert_eq!((outage.events, outage.succeeded, outage.retries), (1, 1, 5));
        assert_eq!(outage.recovered_after_seconds.max, 3.0);
        assert_eq!((outage.waiting_max, outage.retries_per_second_max), (1, 1.0));
        assert_eq!(outage.timeline.len(), 24);

        let few = [("JITTER", "none"), ("MAX_ATTEMPTS", "3")];
        let outage = simulate(&candidate(&few), &scenario(20, 1.0));
        // The events of the last 7 s have an attempt after the outage.
        assert_eq!((outage.events, outage.succeeded), (20, 7));
        assert_eq!(outage.given_up, BTreeMap::from([("max_attempts_exceeded", 13)]));
    }

    #[test]
    fn all_events_of_an_outage_wait_at_its_end() {
        let outage = simulate(&candidate(&[]), &scenario(3600, 10.0));
        assert_eq!((outage.events, outage.succeeded), (36_000, 36_000));
        assert!((35_900..=36_000).contains(&outage.waiting_max), "{}", outage.waiting_max);
        let at = outage.waiting_max_at_seconds;
        assert!((3500.0..3900.0).contains(&at), "{at}");
        // Half the sum of twelve ceilings is an hour and eight minutes.
        let median = outage.retries_of_an_event.median;
        assert!((11.0..=13.0).contains(&median), "{median}");
    }

    #[test]
    fn a_sample_of_a_large_outage_gives_the_same_result() {
        let steady = candidate(&[("MAX_BACKOFF", "1m"), ("JITTER", "none")]);
        let sample = simulate_sample(&steady, &scenario(7200, 50.0), 1e6);
        assert!(sample.one_in > 10, "{}", sample.one_in);
        let whole = simulate(&steady, &scenario(7200, 5.0));
        assert_eq!(whole.one_in, 1);
        let ratio = sample.retries as f64 / whole.retries as f64;
        assert!((9.99..10.01).contains(&ratio), "{ratio}");
        let ratio = sample.waiting_max as f64 / whole.waiting_max as f64;
        assert!((9.9..10.1).contains(&ratio), "{ratio}");
        assert_eq!(sample.succeeded, sample.events);
    }

    #[test]
    fn no_event_fails_if_none_arrives() {
        let outage = simulate(&candidate(&[]), &scenario(60, 0.001));
        assert_eq!((outage.events, outage.retries, outage.timeline.len()), (0, 0, 0));
    }
}
