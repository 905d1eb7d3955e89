//! A world: the model of the cloud, production's handlers in the middle, and what goes wrong.
//!
//! Time goes from one thing that happens to the next. What can happen is on the agenda, or due in the
//! cloud; between two steps nothing moves. Everything is drawn from the seed in the order in which it
//! happens, so that the same seed is the same world.

mod build;
mod clients;
mod handlers;
mod service;
mod spells;
mod targets;

use std::{cell::Cell, collections::BTreeMap, rc::Rc, sync::Arc, time::Duration};

use comeback_core::{Timestamp, claim::Claim, time::later};
use comeback_local::model::{
    Cloud,
    lambda::run::{Outcome, Run, RunId},
    sqs::{Outgoing, Received},
};

use crate::{
    agenda::Agenda,
    check::{Check, Violation},
    draw::Draw,
    judge::Judge,
    plan::Plan,
    spell::Trouble,
    story::Story,
    tally::Tally,
};
use handlers::{Environment, HandlerRun};
use service::{Arrival, Reply};

/// Every world covers at least this much of virtual time.
const DAY: Duration = Duration::from_hours(24);

/// How long after the last age is over everything has settled: room for the last waits, batches and
/// the events that wait in Lambda's own queue.
const SETTLING: Duration = Duration::from_hours(48);

/// A world that takes more steps than this for an event goes round in circles.
const STEPS_PER_EVENT_MAX: u64 = 20_000;

/// What came of a world.
pub struct Ended {
    /// The rule that did not hold, if there is one.
    pub violation: Option<Violation>,
    /// What there was of each kind.
    pub tally: Tally,
    /// What happened, where it was to be told.
    pub story: Story,
    /// How much virtual time it covered.
    pub covered: Duration,
}

/// Plays a world from its beginning to its end, or to the first rule that does not hold.
pub fn play(plan: Plan, telling: bool) -> Ended {
    World::new(plan, telling).play()
}

/// What can be on the agenda.
enum Step {
    /// The next event is sent.
    Send,
    /// A stranger puts a message into a retry queue.
    Strange,
    /// A batch reaches its handler.
    Begin(u64),
    /// A call reaches its service.
    Arrive(Box<Arrival>),
    /// An answer reaches its handler.
    Answer(u64, Reply),
    /// A handler is killed.
    Kill(u64),
    /// A handler's time is up.
    Cut(u64),
    /// A target's run ends.
    TargetEnds(RunId, Box<Outcome>),
    /// A message reaches a retry queue from a topic, a bus or a sender who sends twice.
    Forward(usize, Box<Outgoing>),
    /// A message that a handler has is delivered again.
    Redeliver(usize, String),
    /// A trouble begins or ends.
    Trouble(Trouble, bool),
    /// From now on all goes well.
    Calm,
}

struct World {
    plan: Rc<Plan>,
    now: Timestamp,
    /// The same, for the handlers.
    clock: Rc<Cell<Timestamp>>,
    began_at: Timestamp,
    cloud: Cloud,
    agenda: Agenda<Step>,
    draw: Draw,
    judge: Judge,
    /// What the handlers' ledgers have, by request id.
    ledger: BTreeMap<String, Claim>,
    runs: BTreeMap<u64, HandlerRun>,
    /// Environments that are free, by handler.
    idle: Vec<Vec<Environment>>,
    next_run: u64,
    /// Targets by their functions' names.
    targets: BTreeMap<Arc<str>, usize>,
    handlers: BTreeMap<Arc<str>, usize>,
    troubles: Vec<Trouble>,
    calm: bool,
    unsent: u64,
    strange: u64,
    steps: u64,
    /// Messages of queues that are no retry queues, and are read at once.
    dead_letters_read: u64,
}

impl World {
    fn new(plan: Plan, telling: bool) -> Self {
        // Any second would do; not a whole one, so that a fraction that is lost shows.
        let began_at = Timestamp::UNIX_EPOCH + Duration::from_millis(1_770_000_000_123);
        let mut draw = Draw::seeded(plan.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 1);
        let mut world = Self {
            now: began_at,
            clock: Rc::new(Cell::new(began_at)),
            began_at,
            cloud: Cloud::new(plan.concurrency, draw.seed()),
            agenda: Agenda::new(),
            judge: Judge::new(&plan, telling),
            ledger: BTreeMap::new(),
            runs: BTreeMap::new(),
            idle: plan.handlers.iter().map(|_| Vec::new()).collect(),
            next_run: 0,
            targets: BTreeMap::new(),
            handlers: BTreeMap::new(),
            troubles: Vec::new(),
            calm: false,
            unsent: plan.events,
            strange: plan.strangers,
            steps: 0,
            dead_letters_read: 0,
            plan: Rc::new(plan),
            draw,
        };
        world.build();
        world.plan_ahead();
        world
    }

    /// What is known from the beginning.
    fn plan_ahead(&mut self) {
        let plan = Rc::clone(&self.plan);
        for spell in &plan.spells {
            self.agenda.plan(later(self.began_at, spell.from), Step::Trouble(spell.trouble, true));
            if spell.until < Duration::MAX {
                let end = later(self.began_at, spell.until);
                self.agenda.plan(end, Step::Trouble(spell.trouble, false));
            }
        }
        self.agenda.plan(later(self.began_at, plan.calm_after), Step::Calm);
        if plan.events > 0 {
            self.plan_sending(plan.events, Step::Send);
        }
        if plan.strangers > 0 {
            self.plan_sending(plan.strangers, Step::Strange);
        }
    }

    fn play(mut self) -> Ended {
        let last = later(self.began_at, self.plan.sending.max(self.plan.calm_after));
        let end = later(later(last, self.plan.age_max()), SETTLING);
        let steps_max = (self.plan.events + self.plan.strangers + 1) * STEPS_PER_EVENT_MAX;
        while self.judge.violation.is_none() {
            self.advance_cloud();
            let due = self.agenda.next_at();
            let wakeup = self.cloud.next_wakeup(self.now);
            let Some(next) = [due, wakeup].into_iter().flatten().min() else { break };
            self.steps += 1;
            if next > end || self.steps > steps_max {
                let what = format!("after {} steps there is still something to do", self.steps);
                self.judge.violated(Check::Settles, self.now, None, what);
                break;
            }
            self.now = self.now.max(next);
            self.clock.set(self.now);
            if let Some(step) = self.agenda.take(self.now) {
                self.take(step);
            }
        }
        if self.judge.violation.is_none() {
            self.judge.at_rest(self.now);
            self.read_dead_letters();
        }
        self.judge.tally.counts.insert("steps", self.steps);
        let covered = comeback_core::time::between(self.began_at, self.now).max(DAY);
        let Judge { violation, tally, story, .. } = self.judge;
        Ended { violation, tally, story, covered }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Send => self.send(),
            Step::Strange => self.send_strange(),
            Step::Begin(run) => self.begin(run),
            Step::Arrive(arrival) => self.arrive(*arrival),
            Step::Answer(run, reply) => self.answer(run, reply),
            Step::Kill(run) => self.kill(run),
            Step::Cut(run) => self.cut(run),
            Step::TargetEnds(run, outcome) => self.target_ends(run, *outcome),
            Step::Forward(queue, message) => self.forward(queue, *message),
            Step::Redeliver(queue, handle) => self.redeliver(queue, &handle),
            Step::Trouble(trouble, begins) => self.trouble(trouble, begins),
            Step::Calm => self.calm_down(),
        }
    }

    /// Lets the cloud do what is due, and sees what has happened there.
    fn advance_cloud(&mut self) {
        let runs = self.cloud.advance(self.now);
        // First what has failed: its message may be in one of the batches.
        self.observe();
        runs.into_iter().for_each(|run| self.start(run));
        self.relay();
    }

    fn start(&mut self, run: Run) {
        match self.handlers.get(&run.configuration.name) {
            Some(&handler) => self.deliver(handler, run),
            None => self.run_target(&run),
        }
    }

    fn after(&self, delay: Duration) -> Timestamp {
        later(self.now, delay)
    }

    fn is(&self, trouble: Trouble) -> bool {
        self.troubles.contains(&trouble)
    }

    /// Reads a dead-letter queue to its end; what is there must have been sent by a handler.
    fn read_dead_letters(&mut self) {
        let plan = Rc::clone(&self.plan);
        for handler in &plan.handlers {
            self.drain(&handler.dead_letter_queue);
        }
        let (read, sent) = (self.dead_letters_read, self.judge.dead_letters());
        if read != sent {
            let what =
                format!("{read} messages are in dead-letter queues, and {sent} were sent there");
            self.judge.violated(Check::NothingUnexplained, self.now, None, what);
        }
    }

    fn drain(&mut self, queue: &str) {
        loop {
            let messages = self.receive_all(queue);
            if messages.is_empty() {
                return;
            }
            self.dead_letters_read += u64::try_from(messages.len()).unwrap_or_default();
        }
    }

    /// Takes messages out of a queue for good.
    fn receive_all(&mut self, queue: &str) -> Vec<Received> {
        let messages = self.cloud.sqs.receive(self.now, queue, 10, None).unwrap_or_default();
        for message in &messages {
            // It was just received: its handle is good.
            let _ = self.cloud.sqs.delete(self.now, queue, &message.receipt_handle);
        }
        messages
    }
}
