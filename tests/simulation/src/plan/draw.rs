//! Draws a world from its seed.

use std::{ops::RangeInclusive, time::Duration};

use comeback_core::backoff::Jitter;
use serde_json::json;

use super::{
    Attack, DAY, Form, HOUR, HandlerPlan, IN_FLIGHT_MAX, Notices, Plan, QueuePlan, Spell,
    TargetPlan,
};
use crate::{
    dice::Dice,
    faults::{Fault, Trouble},
    policy::Policy,
    world::BEGAN_AT,
};

/// The share of worlds in which functions are retried without an envelope.
const TRANSPARENT: f64 = 0.46;

/// The share of worlds in which failure records lie in buckets, and the share of functions there that have one.
const RECORDS: f64 = 0.3;
const BUCKETS: f64 = 0.6;

/// The share of worlds with events that could not be delivered, and the share of handlers there that may retry those.
const UNDELIVERED: f64 = 0.35;
const DELIVERING: f64 = 0.85;

/// The share of worlds in which streams have batches that were given up, if they have buckets.
const BATCHES: f64 = 0.7;

/// The longest time for which faults last, in seconds.
const FAULTS_MAX: u64 = DAY;

/// A trouble, its probability, and the most seconds that it lasts.
type Odds = (Trouble, f64, u64);
const OF_TARGETS: [Odds; 5] = [
    (Trouble::TargetDown, 0.25, 4 * HOUR),
    (Trouble::TargetFlaps, 0.1, 4 * HOUR),
    (Trouble::TargetPaused, 0.1, 3 * HOUR),
    (Trouble::TargetDeleted, 0.08, 3 * HOUR),
    (Trouble::AccessDenied, 0.08, 3 * HOUR),
];
const OF_REGISTERS: [Odds; 1] = [(Trouble::RetriesPaused, 0.25, 3 * HOUR)];
const OF_QUEUES: [Odds; 3] = [
    (Trouble::MappingOff, 0.08, HOUR / 2),
    (Trouble::QueueCrowded, 0.08, 2 * HOUR),
    (Trouble::SendDenied, 0.08, 3 * HOUR),
];
const OF_HANDLERS: [Odds; 2] =
    [(Trouble::HandlerThrottled, 0.12, HOUR / 2), (Trouble::BadDeploy, 0.1, HOUR)];
const OF_BUCKETS: [Odds; 1] = [(Trouble::BucketDenied, 0.2, 3 * HOUR)];
const OF_CALLS: [Odds; 1] = [(Trouble::CallsThrottled, 0.08, HOUR / 3)];

/// The highest probability of each fault. Some stand for two: a throttled call may get a 5xx instead, a misconfigured
/// invocation may be a write to the ledger, and a count that is too low may be too high.
pub(super) const RATES: [(Fault, f64); 18] = [
    (Fault::CallThrottled, 0.5),
    (Fault::CallUnsent, 0.3),
    (Fault::AnswerLost, 0.3),
    (Fault::CallLate, 0.1),
    (Fault::CallRepeated, 0.1),
    // The share of calls without an answer that don't even time out.
    (Fault::CallHung, 1.0),
    // Refusals of one entry of a visibility change, of dead letters or of messages that are sent again.
    (Fault::LetterRefused, 0.3),
    (Fault::InvokeRejected, 0.03),
    (Fault::Misconfigured, 0.05),
    (Fault::KilledBefore, 0.4),
    (Fault::KilledAfter, 0.2),
    (Fault::LateDelivery, 0.1),
    (Fault::Duplicate, 0.2),
    (Fault::Redelivery, 0.1),
    (Fault::CountTooLow, 0.5),
    (Fault::InFlightLate, 0.8),
    (Fault::InFlightWrong, 0.3),
    (Fault::CallRefused, 0.3),
];

impl Plan {
    pub fn of(seed: u64) -> Self {
        let dice = &mut Dice::seeded(seed);
        let flawless = dice.happens(0.08);
        let mut plan = Self { seed, flawless, concurrency: 1000, ..Self::default() };
        (0..dice.number(1..=2)).for_each(|n| plan.draw_handler(n, dice));
        (0..dice.number(1..=3)).for_each(|n| plan.draw_queue(n, dice));
        (0..dice.number(1..=4)).for_each(|n| plan.draw_target(n, dice));
        // A message in a function's own dead-letter queue names no function, and each handler knows at most one such
        // function.
        let mut known_to: Vec<usize> = Vec::new();
        for target in plan.targets.iter_mut().filter(|target| target.form == Form::Bare) {
            let handler = plan.queues[target.queue].handler;
            if known_to.contains(&handler) {
                target.form = Form::Record;
            }
            known_to.push(handler);
        }
        // Most worlds are small. In some, many events arrive at once; in a few, everything is near the limits.
        let sending;
        (plan.events, sending, plan.strangers, plan.large) = match dice.number(0..=199) {
            0..=2 => (dice.number(2..=6), 0, dice.number(4..=8), 0.6),
            3..=5 => (dice.number(50..=150), dice.number(0..=60), 0, 0.0),
            6..=11 => (dice.number(50..=150), dice.number(0..=20 * HOUR), 3, 0.0),
            12..=105 => (dice.number(1..=25), dice.number(0..=20 * HOUR), 0, 0.0),
            _ => (dice.number(1..=25), dice.number(0..=20 * HOUR), dice.number(1..=8), 0.0),
        };
        plan.sending = Duration::from_secs(sending);
        plan.calm_after = Duration::from_secs(dice.number(sending / 2..=FAULTS_MAX));
        plan.draw_source_queues();
        if !flawless {
            // Many worlds lack a given fault, and few have much of it. So some worlds have a single fault, and some
            // have many at the same time.
            let mut rate = |most| match dice.happens(0.4) {
                true => 0.0,
                false => most * dice.unit().powi(2),
            };
            plan.rates = RATES.map(|(fault, most)| (fault, rate(most))).into();
            plan.concurrency = if dice.happens(0.7) { 1000 } else { 10 };
        }
        // These come from a generator of their own, so that the other draws of a seed don't change.
        let mut apart = Dice::seeded(seed ^ 0x7072_6f62_6573);
        for handler in plan.handlers.iter_mut().filter(|handler| handler.has_ledger) {
            handler.probes = apart.happens(0.5);
            handler.has_register = handler.probes && apart.happens(0.5);
        }
        let mut slow = Dice::seeded(seed ^ 0x73_6c6f_7773);
        if !flawless && slow.happens(0.3) {
            plan.rates.insert(Fault::LedgerSlow, slow.unit());
        }
        plan.hopeless = if dice.happens(0.5) { 0.0 } else { 0.3 * dice.unit() };
        if !flawless {
            plan.draw_spells(dice);
        }
        plan.draw_registers(dice);
        if !flawless && apart.happens(0.1) {
            plan.draw_outage(&mut apart);
        } else if !flawless && apart.happens(0.15) {
            plan.draw_attack(&mut apart);
        } else if !flawless && apart.happens(0.1) {
            plan.draw_forgery(&mut apart);
        } else if !flawless && apart.happens(0.05) {
            plan.draw_long(&mut apart);
        } else if !flawless && apart.happens(0.03) {
            plan.draw_crowd(&mut apart);
        } else {
            plan.draw_errors();
        }
        plan.draw_transparent();
        plan.draw_records();
        plan.draw_undelivered();
        plan.draw_batches();
        plan.draw_circuits();
        plan
    }

    /// The circuits that exist when a world begins, as left by another handler or another program.
    fn draw_circuits(&mut self) {
        let dice = &mut Dice::seeded(self.seed ^ 0x6369_7263_7569_7473);
        for target in &mut self.targets {
            let began = BEGAN_AT as i64 - dice.millis(0..=600_000).as_millis() as i64;
            let later = began + dice.millis(0..=900_000).as_millis() as i64;
            let rate = dice.number(1..=20);
            let slice = json!({ "began": began, "rate": rate, "taken": 0, "failed": 0 });
            let probe = json!({ "of": { "event": "gone", "attempt": 1 }, "at": began });
            let cleared = json!({ "until": later, "ask_at": began });
            let counts = json!({ "since": began, "invoked": 30, "failed": 29 });
            let open = json!({ "since": began, "next_at": later, "interval_seconds": 60 });
            let probing = json!({ "since": began, "interval_seconds": 10, "probe": probe });
            let ramping = json!({ "since": began, "slice": slice, "mixed": 0, "probe": probe });
            let suspected = json!({ "since": began, "ask_at": later, "slice": slice });
            let phase = match dice.number(0..=7) {
                0 | 1 => json!({ "open": open }),
                2 => json!({ "probing": probing }),
                3 => json!({ "ramping": ramping }),
                4 => json!({ "suspected": suspected }),
                5 => json!({ "closed": { "counts": counts, "cleared": cleared } }),
                6 => json!("melted"),
                _ => continue,
            };
            let circuit = json!({ "by": "another", "patience_seconds": 20, "phase": phase });
            target.circuit = Some(circuit);
        }
    }

    /// In some worlds, backoffs are listed, and errors have settings of their own. Queues have no errors.
    fn draw_errors(&mut self) {
        let dice = &mut Dice::seeded(self.seed ^ 0x6572_726f_7273);
        if !dice.happens(0.5) {
            return;
        }
        let general = self.handlers.iter_mut().map(|handler| (&mut handler.general, true));
        let own = self.targets.iter_mut().filter_map(|target| {
            let has_errors = !target.is_queue();
            Some((target.own.as_mut()?, has_errors))
        });
        for (policy, has_errors) in general.chain(own) {
            if dice.happens(0.3) {
                policy.draw_list(dice);
            }
            if has_errors && dice.happens(0.5) {
                policy.draw_errors(dice);
            }
        }
    }

    fn draw_handler(&mut self, n: u64, dice: &mut Dice) {
        let is_skewed = !self.flawless && dice.happens(0.6);
        self.handlers.push(HandlerPlan {
            name: format!("retry-handler-{n}"),
            dead_letter_queue: format!("dead-letters-{n}"),
            timeout: dice.pick(&[5, 10, 30, 30, 60]),
            reserved: None,
            skew: Duration::from_secs(if is_skewed { dice.number(1..=5) } else { 0 }),
            general: Policy::draw(dice),
            lists_targets: dice.happens(0.3),
            binds_queues: dice.happens(0.4),
            has_ledger: dice.happens(0.5),
            has_register: false,
            probes: false,
            transparent: [false; 2],
            in_flight_max: {
                let most = dice.pick(&[1, 20, 20, 300, IN_FLIGHT_MAX, IN_FLIGHT_MAX]);
                let mut draw = || if dice.happens(0.8) { most } else { IN_FLIGHT_MAX };
                [draw(), draw()]
            },
        });
    }

    fn draw_queue(&mut self, n: u64, dice: &mut Dice) {
        let handler = dice.index(self.handlers.len());
        let has_large_batches = !self.flawless && dice.happens(0.15);
        let is_bounded = !self.flawless && dice.happens(0.3);
        let sizes: &[u32] = if has_large_batches { &[40, 100] } else { &[1, 3, 10, 10] };
        self.queues.push(QueuePlan {
            name: format!("retry-{n}"),
            handler,
            batch: dice.pick(sizes),
            concurrency: is_bounded.then(|| dice.pick(&[2, 5])),
        });
    }

    fn draw_target(&mut self, n: u64, dice: &mut Dice) {
        let queue = dice.index(self.queues.len());
        let handler = &self.handlers[self.queues[queue].handler];
        // A target has its handler's setting wherever it has none of its own.
        let own = dice.happens(0.4).then(|| {
            let own = Policy::draw(dice);
            Policy { attempts: own.attempts.or(handler.general.attempts), ..own }
        });
        let record = Form::Record;
        let forms = [record, record, record, Form::Notification, Form::EventBridge, Form::Bare];
        self.targets.push(TargetPlan {
            name: format!("target-{n}"),
            queue,
            form: dice.pick(&forms),
            own,
            failing: dice.unit().powi(2),
            listed: !handler.lists_targets || dice.happens(0.9),
            bound: !handler.binds_queues || dice.happens(0.9),
            stopped_in_loops: !self.flawless && dice.happens(0.1),
            ..TargetPlan::default()
        });
    }

    /// In some worlds, some targets are queues. A handler retries them only if its settings name them.
    fn draw_source_queues(&mut self) {
        let dice = &mut Dice::seeded(self.seed ^ 0x7175_6575_6573);
        if !dice.happens(0.4) {
            return;
        }
        self.moves_anew = dice.happens(0.5);
        if dice.happens(0.4) {
            // Messages of several queues are due at the same time, and go back in one batch.
            self.events = self.events.max(dice.number(15..=40));
            self.sending = Duration::from_secs(dice.number(0..=30));
        }
        for target in &mut self.targets {
            if dice.happens(0.6) {
                let (tries, hidden) = (dice.number(1..=3) as u32, dice.pick(&[2, 2, 30, 300]));
                target.form = Form::Queue { tries, hidden };
                let handler = &mut self.handlers[self.queues[target.queue].handler];
                handler.lists_targets |= !handler.binds_queues;
                // A binding is enough.
                target.listed |= handler.binds_queues;
            }
        }
        if dice.happens(0.1) {
            self.large = 0.3;
        }
    }

    fn draw_spells(&mut self, dice: &mut Dice) {
        let targets = self.targets.len();
        let kinds: [(usize, &[Odds]); 4] = [
            (targets, &OF_TARGETS),
            (self.queues.len(), &OF_QUEUES),
            (self.handlers.len(), &OF_HANDLERS),
            (1, &OF_CALLS),
        ];
        for (count, odds) in kinds {
            (0..count).for_each(|number| self.draw_spells_of(number, odds, dice));
        }
        for target in 0..targets {
            if dice.happens(0.05) {
                self.rename(target, dice);
            }
        }
    }

    fn draw_spells_of(&mut self, number: usize, odds: &[Odds], dice: &mut Dice) {
        for &(trouble, probability, longest) in odds {
            if dice.happens(probability) {
                let from = dice.within(Duration::ZERO, self.calm_after);
                let lasts = dice.millis(60_000..=longest * 1000);
                let until = Some((from + lasts).min(self.calm_after));
                self.spells.push(Spell { trouble, number, from, until });
            }
        }
    }

    /// In some worlds functions are retried without an envelope: all of them, or those whose policies say so. Some
    /// events have equal payloads, and some functions fail before their invocation is noted.
    fn draw_transparent(&mut self) {
        let dice = &mut Dice::seeded(self.seed ^ 0x6e_6f74_6573);
        if !dice.happens(TRANSPARENT) {
            return;
        }
        let turns = !self.flawless && dice.happens(0.25);
        self.turns_at = turns.then(|| dice.within(Duration::ZERO, self.calm_after));
        for handler in &mut self.handlers {
            handler.has_ledger = true;
            let is_general = dice.happens(0.6);
            handler.transparent = [is_general, is_general != (turns && dice.happens(0.8))];
        }
        for number in 0..self.targets.len() {
            let general = self.handler_of(number).transparent;
            let target = &mut self.targets[number];
            let differs = dice.happens(0.3);
            if !target.is_queue() {
                target.transparent = general.map(|is_general| is_general != differs);
            }
            if let Some(old) = target.successor_of {
                self.targets[number].transparent = self.targets[old].transparent;
            }
        }
        let function = self.targets.iter().position(|target| !target.is_queue());
        if let Some(function) =
            function.filter(|_| self.targets.iter().all(|it| !it.transparent[0]))
        {
            self.targets[function].transparent = [true; 2];
        }
        self.equal = dice.pick(&[0.1, 0.2, 0.4, 0.8]);
        self.fast = 0.5 * dice.unit();
        self.nested = if self.flawless { 0.3 } else { 0.1 };
        (self.rootless, self.shared) =
            (dice.pick(&[0.0, 0.0, 0.0, 0.3, 1.0]), dice.pick(&[0.0, 0.0, 0.5]));
        self.page = dice.happens(0.4).then(|| dice.number(2..=5) as usize);
        if self.flawless {
            return;
        }
        for (fault, most) in
            [(Fault::InvokeRepeated, 0.8), (Fault::RootChanged, 0.3), (Fault::RootLost, 0.3)]
        {
            if dice.happens(0.5) {
                self.rates.insert(fault, most * dice.unit().powi(2));
            }
        }
    }

    /// In some worlds the failure records of some functions lie in buckets. Objects may vanish, and what a bucket says
    /// may come late, twice, or not be believed.
    fn draw_records(&mut self) {
        let dice = &mut Dice::seeded(self.seed ^ 0x62_7563_6b65_7473);
        if !dice.happens(RECORDS) {
            return;
        }
        let is_small = self.events <= 25;
        for number in 0..self.targets.len() {
            let is_attacked = self.attack.is_some_and(|it| [it.by, it.on].contains(&number));
            let notices = dice.pick(&[Notices::Directly, Notices::EventBridge, Notices::Topic]);
            let (has_bucket, is_unlisted) = (dice.happens(BUCKETS), dice.happens(0.15));
            let target = &mut self.targets[number];
            if let Some(old) = target.successor_of {
                if let Form::Bucket(_) = self.targets[old].form {
                    let TargetPlan { form, is_bucket_unlisted, .. } = self.targets[old];
                    let target = &mut self.targets[number];
                    (target.form, target.is_bucket_unlisted) = (form, is_bucket_unlisted);
                }
            } else if has_bucket && !target.is_queue() && !is_attacked {
                target.form = Form::Bucket(notices);
                // Each of its events waits for as long as SQS keeps it, in a thousand receives.
                target.is_bucket_unlisted = is_unlisted && self.events <= 8 && !self.flawless;
                if target.is_bucket_unlisted {
                    let handler = self.queues[target.queue].handler;
                    self.handlers[handler].in_flight_max = [IN_FLIGHT_MAX; 2];
                }
            }
            if !self.flawless && self.targets[number].bucket().is_some() {
                self.draw_spells_of(number, &OF_BUCKETS, dice);
            }
        }
        if is_small && dice.happens(0.1) {
            self.large = 0.3;
        }
        if self.flawless {
            return;
        }
        for (fault, most) in [
            (Fault::NoticeLate, 0.5),
            (Fault::NoticeRepeated, 0.3),
            (Fault::RecordCut, 0.3),
            (Fault::RecordDenied, 0.1),
            (Fault::RecordGone, 0.2),
            (Fault::NoticesJoined, 0.8),
        ] {
            if dice.happens(0.6) {
                self.rates.insert(fault, most * dice.unit().powi(2));
            }
        }
    }

    /// In some worlds EventBridge or its Scheduler could not deliver some events. Only a queue that is bound to their
    /// target may say so.
    fn draw_undelivered(&mut self) {
        let dice = &mut Dice::seeded(self.seed ^ 0x6576_656e_7462_7573);
        if self.attack.is_some() || !dice.happens(UNDELIVERED) {
            return;
        }
        self.undelivered = dice.pick(&[0.1, 0.3, 0.3, 0.8]);
        for handler in &mut self.handlers {
            handler.binds_queues |= dice.happens(DELIVERING);
        }
        for number in 0..self.targets.len() {
            // A binding is enough.
            let is_bound = self.targets[number].is_queue() && self.handler_of(number).binds_queues;
            self.targets[number].listed |= is_bound;
        }
    }

    /// In some worlds with buckets, the mappings of streams put batches there that they have given up.
    fn draw_batches(&mut self) {
        let dice = &mut Dice::seeded(self.seed ^ 0x73_7472_6561_6d73);
        if self.attack.is_none() && dice.happens(BATCHES) {
            self.batches = dice.pick(&[0.2, 0.5, 0.8]);
        }
    }

    /// Which handlers with a ledger have a register, and what their operators do.
    fn draw_registers(&mut self, dice: &mut Dice) {
        let free = |handler: &&mut HandlerPlan| handler.has_ledger && !handler.probes;
        let free = self.handlers.iter_mut().filter(free);
        free.for_each(|handler| handler.has_register = dice.happens(0.7));
        if self.flawless || dice.happens(0.2) {
            return;
        }
        self.ordering = dice.unit().powi(2);
        for number in 0..self.targets.len() {
            if self.handler_of(number).has_register {
                self.draw_spells_of(number, &OF_REGISTERS, dice);
            }
        }
    }

    /// A target that is probed is down while many events come at once.
    fn draw_outage(&mut self, dice: &mut Dice) {
        let is_probed =
            |&number: &usize| self.handler_of(number).probes && !self.targets[number].is_queue();
        let Some(number) = (0..self.targets.len()).rfind(is_probed) else { return };
        let general = &self.handler_of(number).general;
        let (never, attempts) = (general.never.clone(), general.attempts.map(|_| 50));
        let age = 6 * HOUR;
        let own = Policy { max: 300, age, attempts, never, ..Policy::default() };
        let target = &mut self.targets[number];
        (target.own, target.failing) = (Some(own), 0.1 * dice.unit());
        (target.listed, target.bound, target.stopped_in_loops) = (true, true, false);
        let handler = self.queues[self.targets[number].queue].handler;
        let handler = &mut self.handlers[handler];
        if dice.happens(0.7) {
            // Only events that are listed and in flight can be brought forward.
            (handler.has_register, handler.in_flight_max) = (true, [IN_FLIGHT_MAX; 2]);
        }
        self.events = dice.number(50..=120);
        self.sending = Duration::from_secs(dice.number(0..=HOUR / 2));
        let until = dice.millis(600_000..=3_600_000);
        self.spells.push(Spell {
            trouble: Trouble::TargetDown,
            number,
            from: Duration::ZERO,
            until: Some(until),
        });
        self.calm_after = self.calm_after.max(until);
    }

    /// A caller makes a target that is probed look down, by envelopes whose runs fail, beside many ordinary retries.
    fn draw_forgery(&mut self, dice: &mut Dice) {
        let is_probed =
            |&number: &usize| self.handler_of(number).probes && !self.targets[number].is_queue();
        let Some(number) = (0..self.targets.len()).rfind(is_probed) else { return };
        let general = &self.handler_of(number).general;
        let attempts = general.attempts.map(|_| 50);
        let own = Policy { max: 10, age: 6 * HOUR, attempts, ..Policy::default() };
        let target = &mut self.targets[number];
        (target.own, target.failing) = (Some(own), 0.25 + 0.15 * dice.unit());
        // A message in its own dead-letter queue would not say that a failure is permanent.
        target.form = if target.form == Form::Bare { Form::Record } else { target.form };
        (target.listed, target.bound, target.stopped_in_loops) = (true, true, false);
        // Too many of its retries must not fail, so that it is not down, and enough must be made in every minute.
        self.hopeless = 0.0;
        self.events = dice.number(400..=600);
        self.sending = Duration::from_secs(dice.number(90..=120));
        self.forging = Some(number);
    }

    /// One function is compromised, and its messages are hostile.
    fn draw_attack(&mut self, dice: &mut Dice) {
        let is_first = |target: &&TargetPlan| target.successor_of.is_none();
        let targets = self.targets.iter().filter(is_first).count();
        if targets < 2 {
            return;
        }
        let by = dice.index(targets);
        let on = (by + 1) % targets;
        let handler = self.queues[self.targets[by].queue].handler;
        let add_queue = |queues: &mut Vec<QueuePlan>, name: String| {
            queues.push(QueuePlan { name, handler, batch: 10, concurrency: None });
            queues.len() - 1
        };
        let attempts = self.handlers[handler].general.attempts;
        for number in [by, on] {
            let queue = add_queue(&mut self.queues, format!("retry-of-target-{number}"));
            let target = &mut self.targets[number];
            (target.queue, target.form) = (queue, Form::Record);
            (target.listed, target.bound) = (true, true);
            if let Some(own) = &mut target.own {
                own.attempts = own.attempts.or(attempts);
            }
        }
        let open_queue = add_queue(&mut self.queues, "redrive".to_owned());
        self.handlers[handler].binds_queues = true;
        for number in 0..self.targets.len() {
            let is_bound = self.targets[number].is_queue() && self.handler_of(number).binds_queues;
            self.targets[number].listed |= is_bound;
            if let Some(old) = self.targets[number].successor_of {
                self.targets[number] = self.successor(old);
            }
        }
        let is_queue_of =
            |target: &TargetPlan| target.is_queue() && self.queues[target.queue].handler == handler;
        if !self.targets.iter().any(is_queue_of) && dice.happens(0.5) {
            let name = format!("target-{}", self.targets.len());
            let queue = add_queue(&mut self.queues, format!("retry-of-{name}"));
            let form = Form::Queue { tries: 1, hidden: 2 };
            let (listed, bound) = (true, true);
            self.targets.push(TargetPlan {
                name,
                queue,
                form,
                listed,
                bound,
                ..TargetPlan::default()
            });
        }
        self.strangers = dice.number(5..=25);
        self.attack = Some(Attack { by, on, open_queue });
    }

    /// A few events, and everything takes long: handlers run for up to 15 minutes, and their leases last as long.
    /// Messages wait for days, of queues also before they are moved, and handlers are off for days. Orders live to
    /// their expiry.
    fn draw_long(&mut self, dice: &mut Dice) {
        self.events = self.events.min(6);
        self.strangers = self.strangers.min(2);
        self.calm_after = Duration::from_secs(dice.number(6 * DAY..=12 * DAY));
        self.hopeless = 0.5;
        (self.ordering, self.short_orders) = (0.6, 0.5);
        self.moves_anew = dice.happens(0.7);
        for handler in &mut self.handlers {
            handler.timeout = dice.pick(&[300, 900, 900]);
            handler.has_ledger |= dice.happens(0.5);
            (handler.probes, handler.has_register) = (false, handler.has_ledger);
            // Days in hops of a quarter of an hour take many steps.
            handler.in_flight_max = [IN_FLIGHT_MAX; 2];
            handler.general = Policy {
                base: dice.pick(&[60, HOUR, 12 * HOUR]),
                max: 13 * DAY,
                age: dice.pick(&[20 * DAY, 60 * DAY]),
                jitter: dice.pick(&[Jitter::Full, Jitter::Equal, Jitter::None]),
                never: handler.general.never.clone(),
                ..Policy::default()
            };
        }
        for number in 0..self.targets.len() {
            let handler = &mut self.handlers[self.queues[self.targets[number].queue].handler];
            let target = &mut self.targets[number];
            target.own = None;
            if target.successor_of.is_none() && (target.is_queue() || dice.happens(0.3)) {
                let (tries, hidden) = (dice.number(1..=3) as u32, 12 * HOUR as u32);
                target.form = Form::Queue { tries, hidden };
                handler.lists_targets |= !handler.binds_queues;
                target.listed |= handler.binds_queues;
            }
        }
        for queue in 0..self.queues.len() {
            self.draw_days_off(queue, dice);
            self.draw_days_off(queue, dice);
        }
    }

    /// For some hours no event of a queue can be retried, so orders stay. Then its mapping is off for days.
    fn draw_days_off(&mut self, queue: usize, dice: &mut Dice) {
        let hours = |range: RangeInclusive<u64>, dice: &mut Dice| {
            Duration::from_secs(dice.number(range.start() * HOUR..=range.end() * HOUR))
        };
        let from = dice.within(Duration::ZERO, self.calm_after - Duration::from_hours(48));
        let off = from + hours(1..=6, dice);
        let until = Some((off + hours(30..=96, dice)).min(self.calm_after));
        let denied = (0..self.targets.len()).filter(|&number| self.targets[number].queue == queue);
        let denied = denied.map(|number| (Trouble::AccessDenied, number, from));
        let spells = denied.chain([(Trouble::MappingOff, queue, off)]);
        let spells = spells.map(|(trouble, number, from)| Spell { trouble, number, from, until });
        self.spells.extend(spells.collect::<Vec<_>>());
    }

    /// So many events are due at the same time, and calls are so slow, that a batch takes longer than its handler has.
    fn draw_crowd(&mut self, dice: &mut Dice) {
        (self.events, self.sending) = (dice.number(40..=100), Duration::from_secs(1));
        self.calm_after = Duration::from_hours(1);
        self.rates.insert(Fault::CallUnsent, 0.1 + 0.2 * dice.unit());
        self.rates.insert(Fault::CallHung, 0.0);
        for handler in &mut self.handlers {
            handler.timeout = dice.pick(&[5, 10, 30]);
            (handler.probes, handler.has_register) = (false, false);
            handler.general = Policy {
                base: 60,
                max: 600,
                age: HOUR,
                jitter: Jitter::None,
                ..handler.general.clone()
            };
        }
        self.targets.iter_mut().for_each(|target| target.own = None);
        for queue in &mut self.queues {
            (queue.batch, queue.concurrency) = (dice.pick(&[40, 100]), None);
        }
    }

    /// The target that gets this one's name.
    fn successor(&self, number: usize) -> TargetPlan {
        let old = &self.targets[number];
        TargetPlan {
            name: format!("{}-renamed", old.name),
            form: if old.form == Form::Bare { Form::Record } else { old.form },
            own: None,
            listed: !self.handler_of(number).lists_targets
                || old.is_queue() && self.handler_of(number).binds_queues,
            bound: !self.handler_of(number).binds_queues,
            stopped_in_loops: false,
            successor_of: Some(number),
            ..old.clone()
        }
    }

    fn rename(&mut self, number: usize, dice: &mut Dice) {
        let successor = self.successor(number);
        self.targets.push(successor);
        let from = dice.within(Duration::ZERO, self.calm_after);
        // The old name never works again.
        let until = None;
        self.spells.push(Spell { trouble: Trouble::TargetRenamed, number, from, until });
    }
}
