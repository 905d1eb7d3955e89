//! What a seed draws before its world begins: who is in it, by which rules, and what will go wrong.

use std::time::Duration;

use crate::{
    draw::Draw,
    rules::Rules,
    spell::{Spell, Trouble},
};

/// Names of error types that never heal, as an owner may configure them, and types that they cover.
pub(crate) const NEVER: [(&str, &str); 3] = [
    ("ValidationError", "app.errors.ValidationError"),
    ("*Forbidden", "http::Forbidden"),
    ("legacy.*", "legacy.Broken"),
];

/// A whole world, as its seed has it.
pub struct Plan {
    /// The seed that everything in the world is drawn from.
    pub seed: u64,
    pub(crate) handlers: Vec<HandlerPlan>,
    pub(crate) queues: Vec<QueuePlan>,
    pub(crate) targets: Vec<TargetPlan>,
    /// How many events are sent, and over which time.
    pub(crate) events: u64,
    pub(crate) sending: Duration,
    /// How many messages that no function wrote are put into the retry queues.
    pub(crate) strangers: u64,
    /// How many functions run at a time.
    pub(crate) concurrency: u32,
    pub(crate) rates: Rates,
    /// The share of events whose target never takes them, and of messages near the limit of size.
    pub(crate) stubborn: f64,
    pub(crate) large: f64,
    pub(crate) spells: Vec<Spell>,
    /// When faults stop.
    pub(crate) calm_after: Duration,
    /// Whether nothing at all goes wrong but for the targets.
    pub(crate) flawless: bool,
}

/// A retry handler: one function, its settings and its dead-letter queue.
pub(crate) struct HandlerPlan {
    pub(crate) name: String,
    pub(crate) dead_letter_queue: String,
    pub(crate) timeout: u32,
    /// How far the clocks of its environments may be off.
    pub(crate) skew: Duration,
    pub(crate) general: Rules,
    /// Whether it lists its targets, or takes any of its account.
    pub(crate) lists_targets: bool,
    /// Whether it claims each failure before it acts on it.
    pub(crate) has_ledger: bool,
}

/// A retry queue and its mapping.
pub(crate) struct QueuePlan {
    pub(crate) name: String,
    pub(crate) handler: usize,
    pub(crate) visibility: u32,
    pub(crate) batch: u32,
    pub(crate) window: u32,
    pub(crate) concurrency: Option<u32>,
}

/// How a target's failures reach the retry queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Form {
    /// By its on-failure destination.
    Record,
    /// By an SNS topic.
    Notification,
    /// By an EventBridge rule.
    EventBridge,
    /// By its own dead-letter queue.
    Bare,
}

/// A target.
pub(crate) struct TargetPlan {
    pub(crate) name: String,
    pub(crate) queue: usize,
    pub(crate) form: Form,
    /// Its own rules, where it has some; else its handler's.
    pub(crate) own: Option<Rules>,
    /// How often it fails where nothing is wrong with it.
    pub(crate) failing: f64,
    /// Whether its handler may invoke it.
    pub(crate) allowed: bool,
    /// Whether Lambda stops it in a loop.
    pub(crate) stopped_in_loops: bool,
    /// It comes to be when this target is renamed.
    pub(crate) successor_of: Option<usize>,
}

/// How often each fault happens, as a probability.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rates {
    /// A call is throttled or answered with a 5xx.
    pub(crate) refused: f64,
    /// A call never reaches its service.
    pub(crate) unsent: f64,
    /// A call takes effect, and its answer is lost.
    pub(crate) deaf: f64,
    /// A call takes effect minutes later.
    pub(crate) late: f64,
    /// A call takes effect twice, as the SDK repeats it.
    pub(crate) repeated: f64,
    /// Of the calls without an answer, those that don't even fail.
    pub(crate) hanging: f64,
    /// One entry of a call is refused.
    pub(crate) entry_refused: f64,
    /// An invocation is refused for good.
    pub(crate) rejected: f64,
    /// A person must mend why an invocation is refused.
    pub(crate) misconfigured: f64,
    /// A handler dies somewhere between its start and its answer.
    pub(crate) killed: f64,
    /// A handler's answer does not reach Lambda.
    pub(crate) answer_lost: f64,
    /// A batch reaches its handler late.
    pub(crate) slow_start: f64,
    /// A record is sent twice.
    pub(crate) copied: f64,
    /// A message is delivered again while it is with a handler.
    pub(crate) redelivered: f64,
    /// A receive count is wrong.
    pub(crate) miscounted: f64,
}

impl Rates {
    fn draw(draw: &mut Draw) -> Self {
        // Many worlds are spared a fault altogether, and few have much of it: only so do both a fault
        // alone and many of them together come up.
        let mut rate = |most: f64| if draw.happens(0.4) { 0.0 } else { most * draw.unit().powi(2) };
        Self {
            refused: rate(0.5),
            unsent: rate(0.3),
            deaf: rate(0.3),
            late: rate(0.1),
            repeated: rate(0.1),
            hanging: rate(1.0),
            entry_refused: rate(0.3),
            rejected: rate(0.03),
            misconfigured: rate(0.05),
            killed: rate(0.4),
            answer_lost: rate(0.2),
            slow_start: rate(0.1),
            copied: rate(0.2),
            redelivered: rate(0.1),
            miscounted: rate(0.5),
        }
    }
}

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// How long faults last at the most.
const FAULTS_MAX: u64 = DAY;

impl Plan {
    /// The world of a seed.
    pub fn of(seed: u64) -> Self {
        let mut draw = Draw::seeded(seed);
        let flawless = draw.happens(0.08);
        let handlers: Vec<_> =
            (0..draw.number(1..=2)).map(|n| HandlerPlan::draw(n, flawless, &mut draw)).collect();
        let queues: Vec<_> = (0..draw.number(1..=3))
            .map(|n| QueuePlan::draw(n, &handlers, flawless, &mut draw))
            .collect();
        let mut targets: Vec<_> = (0..draw.number(1..=4))
            .map(|n| TargetPlan::draw(n, &queues, &handlers, flawless, &mut draw))
            .collect();
        // A message of a function's own dead-letter queue names no function, and a handler knows one.
        let mut known_to: Vec<usize> = Vec::new();
        for target in targets.iter_mut().filter(|target| target.form == Form::Bare) {
            let handler = queues[target.queue].handler;
            if known_to.contains(&handler) {
                target.form = Form::Record;
            }
            known_to.push(handler);
        }
        // Most worlds are small. In some a crowd comes at once, in a few everything is near the limits.
        let (events, sending, strangers, large) = match draw.number(0..=199) {
            0..=2 => (draw.number(2..=6), 0, draw.number(4..=8), 0.6),
            3..=5 => (draw.number(50..=150), draw.number(0..=60), 0, 0.0),
            6..=11 => (draw.number(50..=150), draw.number(0..=20 * HOUR), 3, 0.0),
            12..=105 => (draw.number(1..=25), draw.number(0..=20 * HOUR), 0, 0.0),
            _ => (draw.number(1..=25), draw.number(0..=20 * HOUR), draw.number(1..=8), 0.0),
        };
        let calm_after = draw.number(sending / 2..=FAULTS_MAX);
        let rates = if flawless { Rates::default() } else { Rates::draw(&mut draw) };
        let mut plan = Self {
            seed,
            handlers,
            queues,
            targets,
            events,
            sending: Duration::from_secs(sending),
            strangers,
            concurrency: if flawless || draw.happens(0.7) { 1000 } else { 10 },
            rates,
            stubborn: if draw.happens(0.5) { 0.0 } else { 0.3 * draw.unit() },
            large,
            spells: Vec::new(),
            calm_after: Duration::from_secs(calm_after),
            flawless,
        };
        if !flawless {
            plan.draw_spells(&mut draw);
        }
        plan
    }

    /// A single world in which so many events are sent in a day, with a little of every fault.
    pub fn day_of(events: u64, seed: u64) -> Self {
        let mut draw = Draw::seeded(seed);
        let rules = Rules { max: 600, age: DAY, ..Rules::default() };
        let handler = HandlerPlan {
            name: "retry-handler-0".to_owned(),
            dead_letter_queue: "dead-letters-0".to_owned(),
            timeout: 30,
            skew: Duration::from_secs(5),
            general: rules,
            lists_targets: false,
            has_ledger: true,
        };
        let queue = QueuePlan {
            name: "retry-0".to_owned(),
            handler: 0,
            visibility: 180,
            batch: 10,
            window: 0,
            concurrency: None,
        };
        let target = |n: u64| TargetPlan {
            name: format!("target-{n}"),
            queue: 0,
            form: Form::Record,
            own: None,
            failing: 0.05,
            allowed: true,
            stopped_in_loops: false,
            successor_of: None,
        };
        let rate = 0.001;
        let rates = Rates {
            refused: rate,
            unsent: rate,
            deaf: rate,
            late: rate,
            repeated: rate,
            hanging: 0.1,
            entry_refused: rate,
            rejected: rate,
            misconfigured: rate,
            killed: rate,
            answer_lost: rate,
            slow_start: rate,
            copied: rate,
            redelivered: rate,
            miscounted: rate,
        };
        let outage = |target, from: u64, minutes: u64| Spell {
            trouble: Trouble::TargetDown { target },
            from: Duration::from_secs(from * HOUR),
            until: Duration::from_secs(from * HOUR + minutes * 60),
        };
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
            stubborn: 0.0005,
            large: 0.0,
            spells: (0..4).map(|target| outage(target, draw.number(1..=20), 20)).collect(),
            calm_after: Duration::from_secs(DAY),
            flawless: false,
        }
    }

    /// The rules that a target's events go by.
    pub(crate) fn rules(&self, target: usize) -> &Rules {
        let target = &self.targets[target];
        target.own.as_ref().unwrap_or(&self.handlers[self.queues[target.queue].handler].general)
    }

    /// Whether the failures of a target are claimed before they are acted on.
    pub(crate) fn has_ledger(&self, target: usize) -> bool {
        self.handlers[self.queues[self.targets[target].queue].handler].has_ledger
    }

    /// The longest that an event of this world may be retried.
    pub(crate) fn age_max(&self) -> Duration {
        let ages = (0..self.targets.len()).map(|target| self.rules(target).age);
        Duration::from_secs(ages.max().unwrap_or_default())
    }

    fn draw_spells(&mut self, draw: &mut Draw) {
        let targets = 0..self.targets.len();
        let queues = 0..self.queues.len();
        let handlers = 0..self.handlers.len();
        let troubles = targets
            .flat_map(|target| {
                [
                    (0.25, Trouble::TargetDown { target }),
                    (0.1, Trouble::TargetFlaps { target }),
                    (0.1, Trouble::TargetPaused { target }),
                    (0.08, Trouble::TargetDeleted { target }),
                    (0.08, Trouble::AccessDenied { target }),
                ]
            })
            .chain(queues.flat_map(|queue| {
                [(0.08, Trouble::MappingOff { queue }), (0.08, Trouble::QueueCrowded { queue })]
            }))
            .chain(handlers.flat_map(|handler| {
                [
                    (0.12, Trouble::HandlerThrottled { handler }),
                    (0.1, Trouble::BadDeploy { handler }),
                ]
            }))
            .chain([(0.08, Trouble::CallsThrottled)]);
        for (probability, trouble) in troubles {
            if draw.happens(probability) {
                let from = draw.within(Duration::ZERO, self.calm_after);
                let lasts = draw.within(Duration::from_secs(60), trouble.longest());
                self.spells.push(Spell {
                    trouble,
                    from,
                    until: (from + lasts).min(self.calm_after),
                });
            }
        }
        for target in 0..self.targets.len() {
            if draw.happens(0.05) {
                self.rename(target, draw);
            }
        }
    }

    fn rename(&mut self, target: usize, draw: &mut Draw) {
        let old = &self.targets[target];
        let successor = TargetPlan {
            name: format!("{}-renamed", old.name),
            queue: old.queue,
            form: if old.form == Form::Bare { Form::Record } else { old.form },
            own: None,
            failing: old.failing,
            allowed: !self.handlers[self.queues[old.queue].handler].lists_targets,
            stopped_in_loops: false,
            successor_of: Some(target),
        };
        let from = draw.within(Duration::ZERO, self.calm_after);
        // For good: nobody brings the old name back.
        self.spells.push(Spell {
            trouble: Trouble::TargetRenamed { target },
            from,
            until: Duration::MAX,
        });
        self.targets.push(successor);
    }
}

impl HandlerPlan {
    fn draw(n: u64, flawless: bool, draw: &mut Draw) -> Self {
        let skewed = !flawless && draw.happens(0.6);
        Self {
            name: format!("retry-handler-{n}"),
            dead_letter_queue: format!("dead-letters-{n}"),
            timeout: *draw.pick(&[5, 10, 30, 30, 60]),
            skew: Duration::from_secs(if skewed { draw.number(1..=5) } else { 0 }),
            general: Rules::draw(draw),
            lists_targets: draw.happens(0.3),
            has_ledger: draw.happens(0.5),
        }
    }
}

impl QueuePlan {
    fn draw(n: u64, handlers: &[HandlerPlan], flawless: bool, draw: &mut Draw) -> Self {
        let handler = draw.index(handlers.len());
        let large = !flawless && draw.happens(0.15);
        let bounded = !flawless && draw.happens(0.3);
        Self {
            name: format!("retry-{n}"),
            handler,
            visibility: 6 * handlers[handler].timeout,
            batch: if large { *draw.pick(&[40, 100]) } else { *draw.pick(&[1, 3, 10, 10]) },
            window: u32::from(large),
            concurrency: bounded.then(|| *draw.pick(&[2, 5])),
        }
    }
}

impl TargetPlan {
    fn draw(
        n: u64,
        queues: &[QueuePlan],
        handlers: &[HandlerPlan],
        flawless: bool,
        draw: &mut Draw,
    ) -> Self {
        let queue = draw.index(queues.len());
        let handler = &handlers[queues[queue].handler];
        // What a target does not set for itself is as its handler has it.
        let own = draw.happens(0.4).then(|| {
            let own = Rules::draw(draw);
            Rules { attempts: own.attempts.or(handler.general.attempts), ..own }
        });
        Self {
            name: format!("target-{n}"),
            queue,
            form: *draw.pick(&[
                Form::Record,
                Form::Record,
                Form::Record,
                Form::Notification,
                Form::EventBridge,
                Form::Bare,
            ]),
            own,
            failing: draw.unit().powi(2),
            allowed: !handler.lists_targets || draw.happens(0.9),
            stopped_in_loops: !flawless && draw.happens(0.1),
            successor_of: None,
        }
    }
}
