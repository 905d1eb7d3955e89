//! A world: the model of the cloud, production's handlers, and the faults.
//!
//! Time jumps from one event to the next, either on the agenda or due in the cloud, and nothing changes in between.
//! Everything is drawn from the seed in the order in which it happens, so the same seed makes the same world.

mod buckets;
mod build;
mod clients;
mod handlers;
mod metrics;
mod names;
mod service;
mod streams;
mod table;
mod troubles;
mod undelivered;
mod watched;

use std::{
    cell::Cell,
    collections::{BTreeMap, HashMap},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use comeback_core::{
    Timestamp,
    arn::Home,
    time::{at_millis, later},
};
use comeback_flow::ports::Stored;
use comeback_local_model::{Cloud, lambda::run::Run, sqs::Received};

use self::{
    handlers::{HandlerRun, Process},
    service::Call,
    table::Table,
    watched::Watched,
};
use wire::Reply;

use crate::{
    choices::{Choices, How, Of, Outcome},
    dice::Dice,
    faults::{Fault, Trouble},
    judge::{Happens, Judge},
    plan::{Plan, Spell},
    seen::Seen,
};

/// When every world begins. Any time would do, but it needs a fraction of a second, so that a lost fraction shows.
pub const BEGAN_AT: u64 = 1_770_000_000_123;

/// The time after the end of the last event's age within which everything must settle: enough for the last waits, for
/// batches, and for events in Lambda's own queue.
const SETTLING: Duration = Duration::from_hours(48);

/// A world with more steps per event than this will never end.
const STEPS_PER_EVENT_MAX: u64 = 40_000;

/// Plays a world from its beginning to its end, or to the first rule that does not hold.
pub fn play(plan: Plan, is_story_written: bool) -> Judge {
    play_as(plan, How::Drawn, is_story_written).0
}

/// The same, and also tells what was chosen.
pub fn play_as(plan: Plan, how: How, is_story_written: bool) -> (Judge, Outcome) {
    World::new(Rc::new(plan), how, is_story_written).play()
}

/// Whether this handler accepts its settings, in all processes.
///
/// # Errors
///
/// Why it refuses them.
pub fn check_settings(plan: &Plan, handler: usize) -> Result<(), String> {
    let all = [(0, false), (1, false), (0, true), (1, true)];
    let mut all =
        all.map(|(variant, is_turned)| build::settings(plan, handler, variant, is_turned));
    all.iter_mut().try_for_each(|it| it.as_ref().map(drop).map_err(|error| error.clone()))
}

enum Step {
    Answer(Rc<Call>, Reply),
    /// The time of a handler's run ends.
    TimeUp(u64),
    Other(Box<dyn FnOnce(&mut World)>),
}

struct World {
    plan: Rc<Plan>,
    now: Timestamp,
    /// The same time, shared with the handlers.
    clock: Rc<Cell<Timestamp>>,
    cloud: Watched,
    /// When something next happens in the cloud by itself, or a consumer receives something.
    cloud_wakes_at: Option<Timestamp>,
    /// The steps to come. Steps of the same time happen in the order in which they were planned.
    agenda: BTreeMap<(Timestamp, u64), Step>,
    planned: u64,
    choices: Choices,
    /// Of whom each event of the judge is, if choices need names.
    senders: HashMap<usize, Of>,
    judge: Judge,
    home: Rc<Home>,
    /// The last count of messages in flight that a handler asked for, by queue.
    counted: BTreeMap<String, (Timestamp, u64)>,
    /// The contents of the handlers' ledgers and registers.
    table: Table,
    /// The circuits of targets, by their ARNs.
    circuits: HashMap<String, Stored>,
    runs: BTreeMap<u64, HandlerRun>,
    /// Idle processes, by handler.
    idle: Vec<Vec<Process>>,
    next_run: u64,
    /// Whether each handler was deployed again.
    turned: Vec<bool>,
    /// The numbers of targets and of handlers, by the names of their functions.
    targets: BTreeMap<Arc<str>, usize>,
    handlers: BTreeMap<Arc<str>, usize>,
    troubles: Vec<(Trouble, usize)>,
    is_calm: bool,
    /// When each message was first received after SQS had moved it, by its id, if that counts.
    moved: HashMap<String, Timestamp>,
    /// What buckets will tell together: the records of notices and the traces of their failures, by target.
    held: BTreeMap<usize, Vec<(String, Arc<str>)>>,
    unsent: u64,
    strange: u64,
    dead_letters_read: u64,
    queues_published: Timestamp,
    /// The invocations and failures of the target of an outage in each minute, and its invocations in this second.
    minutes: BTreeMap<i64, (u32, u32)>,
    second: (i64, u64),
}

impl World {
    fn new(plan: Rc<Plan>, how: How, is_story_written: bool) -> Self {
        let began_at = at_millis(BEGAN_AT);
        let is_told = matches!(how, How::Told(_));
        let clock = Rc::new(Cell::new(began_at));
        let dice = Dice::seeded(plan.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 1);
        let mut choices = Choices::new(how, dice, Rc::clone(&clock));
        let mut world = Self {
            now: began_at,
            clock,
            cloud: Watched::new(Cloud::new(plan.concurrency, choices.seed())),
            cloud_wakes_at: None,
            agenda: BTreeMap::new(),
            planned: 0,
            judge: Judge::new(Rc::clone(&plan), is_story_written),
            home: build::home(),
            counted: BTreeMap::new(),
            // A script tells its faults, and has no rates.
            table: Table::new(is_told || plan.rates.contains_key(&Fault::InFlightLate)),
            circuits: build::circuits(&plan),
            runs: BTreeMap::new(),
            idle: plan.handlers.iter().map(|_| Vec::new()).collect(),
            next_run: 0,
            turned: vec![false; plan.handlers.len()],
            targets: BTreeMap::new(),
            handlers: BTreeMap::new(),
            troubles: Vec::new(),
            is_calm: false,
            moved: HashMap::new(),
            held: BTreeMap::new(),
            unsent: plan.events,
            strange: plan.strangers,
            dead_letters_read: 0,
            queues_published: began_at,
            minutes: BTreeMap::new(),
            second: (0, 0),
            plan: Rc::clone(&plan),
            choices,
            senders: HashMap::new(),
        };
        world.build();
        for spell in &plan.spells {
            let Spell { trouble, number, from, until } = *spell;
            world.after(from, move |world| world.trouble(trouble, number, true));
            let ends = move |world: &mut Self| world.trouble(trouble, number, false);
            until.into_iter().for_each(|until| world.after(until, ends));
        }
        world.after(plan.calm_after, Self::calm_down);
        for handler in 0..plan.handlers.len() {
            plan.turns_at.into_iter().for_each(|at| world.after(at, move |it| it.turn(handler)));
        }
        if plan.events > 0 {
            world.plan_sending(Of::event(0), plan.events, Self::send);
        }
        if plan.strangers > 0 {
            world.plan_sending(Of::stranger(0), plan.strangers, Self::send_strange);
        }
        world
    }

    fn play(mut self) -> (Judge, Outcome) {
        let last = self.plan.sending.max(self.plan.calm_after);
        // If its notes are not read any more, an event begins anew. And so does one that was never delivered before.
        let ages = 1 + u32::from(self.plan.equal > 0.0) + u32::from(self.plan.undelivered > 0.0);
        let end = later(
            at_millis(BEGAN_AT),
            last + ages * self.plan.age_max() + self.plan.stays() + SETTLING,
        );
        let steps_max = (self.plan.events + self.plan.strangers + 1) * STEPS_PER_EVENT_MAX;
        let mut steps = 0;
        while self.judge.violation.is_none() {
            if self.may_the_cloud_act() {
                self.let_the_cloud_act();
            }
            self.forget_void_steps();
            let due = self.agenda.first_key_value().map(|(&(at, _), _)| at);
            let Some(next) = [due, self.cloud_wakes_at].into_iter().flatten().min() else { break };
            steps += 1;
            if next > end || steps > steps_max {
                self.judge.shows(None, Happens::GoesOn(steps));
                break;
            }
            self.publish_queues(next);
            self.now = self.now.max(next);
            self.clock.set(self.now);
            self.judge.known.now = self.now;
            if due.is_some_and(|due| due <= self.now)
                && let Some((_, step)) = self.agenda.pop_first()
            {
                self.take(step);
            }
        }
        if self.judge.violation.is_none() {
            self.judge.at_rest();
            self.read_dead_letters();
        }
        self.judge.known.tally.seen.insert(Seen::Step("steps"), steps);
        let has_ended = self.judge.violation.is_none();
        (self.judge, self.choices.outcome(has_ended))
    }

    /// Whether the cloud may do something now. Most steps change nothing there, and a look at all of it costs as much
    /// as the step.
    fn may_the_cloud_act(&self) -> bool {
        self.cloud.is_touched()
            || self.cloud_wakes_at.is_some_and(|at| at <= self.now)
            || self.cloud.may_scale()
            || self.judge.known.figures.has_backlog()
    }

    /// Does what is due in the cloud, and whatever follows from that.
    fn let_the_cloud_act(&mut self) {
        let runs: Vec<Run> = self.cloud.unchanged().advance(self.now);
        self.cloud.is_looked_at();
        // Failures first: their messages may be in one of the batches.
        self.observe();
        for run in runs {
            match self.handlers.get(&run.configuration.name) {
                Some(&handler) => self.deliver(handler, run),
                None => self.run_target(&run),
            }
        }
        self.note_backlogs();
        self.relay();
        self.announce();
        self.consume();
        let wakeup = self.cloud.unchanged().next_wakeup(self.now);
        self.cloud_wakes_at = [wakeup, self.next_consumed()].into_iter().flatten().min();
    }

    /// Where attempts must be on time, tells the judge which mappings have no place for another batch.
    fn note_backlogs(&mut self) {
        let plan = Rc::clone(&self.plan);
        for (number, queue) in plan.queues.iter().enumerate().filter(|_| plan.flawless) {
            let is_behind = self.cloud.unchanged().is_behind(self.now, &queue.name);
            self.judge.known.figures.note_backlog(number, is_behind, self.now);
        }
    }

    fn after(&mut self, delay: Duration, step: impl FnOnce(&mut Self) + 'static) {
        self.plan_step(delay, Step::Other(Box::new(step)));
    }

    fn plan_step(&mut self, delay: Duration, step: Step) {
        self.planned += 1;
        self.agenda.insert((later(self.now, delay), self.planned), step);
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Answer(call, reply) => self.answer(&call, reply),
            Step::TimeUp(run) => self.time_up(run),
            Step::Other(step) => step(self),
        }
    }

    /// Removes the next steps if they would do nothing: answers that nobody waits for, and limits of runs that have
    /// ended. They are a quarter of all steps, and each would cost a look at the whole cloud.
    fn forget_void_steps(&mut self) {
        while let Some(next) = self.agenda.first_entry() {
            let is_void = match next.get() {
                Step::Answer(call, _) => !call.is_awaited(),
                Step::TimeUp(run) => !self.runs.contains_key(run),
                Step::Other(_) => false,
            };
            if !is_void {
                return;
            }
            next.remove();
        }
    }

    fn is(&self, trouble: Trouble, number: usize) -> bool {
        self.troubles.contains(&(trouble, number))
    }

    /// Reads the dead-letter queues to their ends: they must contain what handlers have sent there.
    fn read_dead_letters(&mut self) {
        let plan = Rc::clone(&self.plan);
        plan.handlers.iter().for_each(|handler| self.drain(&handler.dead_letter_queue));
        self.judge.shows(None, Happens::LettersRead(self.dead_letters_read));
    }

    fn drain(&mut self, queue: &str) {
        loop {
            match self.receive_all(queue).len() {
                0 => return,
                count => self.dead_letters_read += count as u64,
            }
        }
    }

    /// Takes messages out of a queue for good.
    fn receive_all(&mut self, queue: &str) -> Vec<Received> {
        let messages = self.cloud.sqs.receive(self.now, queue, 10, None).unwrap_or_default();
        for message in &messages {
            // It was just received, so its handle is valid.
            let _ = self.cloud.sqs.delete(self.now, queue, &message.receipt_handle);
        }
        messages
    }
}
