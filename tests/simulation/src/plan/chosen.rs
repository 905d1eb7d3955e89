//! Worlds that are chosen, not drawn: a day with many events, one without faults, and an outage.

use std::{collections::BTreeMap, time::Duration};

use super::{
    DAY, HOUR, HandlerPlan, IN_FLIGHT_MAX, Outage, Plan, QueuePlan, Spell, TargetPlan, draw::RATES,
};
use crate::{
    dice::Dice,
    faults::{Fault, Trouble},
    policy::Policy,
};

impl Plan {
    /// A single world with this many events in a day, and a little of every fault.
    pub fn day_of(events: u64, seed: u64) -> Self {
        let mut dice = Dice::seeded(seed);
        let general = Policy { max: 600, ..Policy::default() };
        let handler = HandlerPlan {
            name: "retry-handler-0".to_owned(),
            dead_letter_queue: "dead-letters-0".to_owned(),
            timeout: 30,
            reserved: None,
            skew: Duration::from_secs(5),
            general,
            lists_targets: false,
            binds_queues: false,
            has_ledger: true,
            has_register: false,
            probes: false,
            transparent: [false; 2],
            in_flight_max: [IN_FLIGHT_MAX; 2],
        };
        let queue =
            QueuePlan { name: "retry-0".to_owned(), handler: 0, batch: 10, concurrency: None };
        let target = |n: u64| TargetPlan {
            name: format!("target-{n}"),
            failing: 0.05,
            listed: true,
            bound: true,
            ..TargetPlan::default()
        };
        let outage = |number| {
            let from = Duration::from_hours(dice.number(1..=20));
            let until = Some(from + Duration::from_mins(20));
            Spell { trouble: Trouble::TargetDown, number, from, until }
        };
        let mut rates = BTreeMap::from(RATES.map(|(fault, _)| (fault, 0.001)));
        rates.insert(Fault::CallHung, 0.1);
        Self {
            seed,
            handlers: vec![handler],
            queues: vec![queue],
            targets: (0..4).map(target).collect(),
            events,
            sending: Duration::from_secs(DAY),
            strangers: 100,
            concurrency: 1000,
            rates,
            hopeless: 0.0005,
            spells: (0..4).map(outage).collect(),
            calm_after: Duration::from_secs(DAY),
            ..Self::default()
        }
    }

    /// The same world, in which only targets fail: briefly now and then, and the first one for the time `down`.
    pub fn flawless(mut self, down: Duration) -> Self {
        self.handlers.iter_mut().for_each(|handler| handler.skew = Duration::ZERO);
        let from = Duration::from_hours(2);
        let until = from + down;
        Self {
            flawless: true,
            failures_from: 30,
            rates: BTreeMap::new(),
            strangers: 0,
            hopeless: 0.0,
            spells: vec![Spell {
                trouble: Trouble::TargetDown,
                number: 0,
                from,
                until: Some(until),
            }],
            calm_after: self.calm_after.max(until),
            ..self
        }
    }

    pub fn of_outage(outage: Outage, seed: u64) -> Self {
        let until = outage.lasts();
        let events = (outage.rate + outage.neighbour) * outage.arrivals;
        let mut plan = Self::day_of(events, seed).flawless(until);
        plan.targets.truncate(2);
        plan.targets.iter_mut().for_each(|target| target.failing = 0.0);
        // Each function has a queue of its own.
        plan.targets[1].queue = 1;
        plan.queues = ["retry-0", "retry-1"]
            .map(|name| QueuePlan {
                name: name.to_owned(),
                handler: 0,
                batch: 10,
                concurrency: Some(outage.batches),
            })
            .into();
        let handler = &mut plan.handlers[0];
        handler.reserved = outage.reserved;
        handler.general.max = 12 * HOUR;
        handler.has_ledger = outage.probe || outage.register;
        (handler.probes, handler.has_register) = (outage.probe, outage.register);
        handler.in_flight_max = [outage.in_flight_max; 2];
        plan.spells[0].from = Duration::ZERO;
        plan.spells[0].until = Some(until);
        Self {
            sending: Duration::from_secs(outage.arrivals),
            calm_after: until,
            concurrency: outage.concurrency,
            outage: Some(outage),
            ..plan
        }
    }
}
