//! Runs concurrent executions of one charge step by step, in every possible order. All have the same key, and their
//! effect is outside of the store.
//!
//! A step is a call to the store or the effect of the operation. Before each step, an execution waits at its gate.

use std::{
    collections::{BTreeMap, BTreeSet},
    future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::Poll,
    time::Duration,
};

use comeback::idempotency::{Error, Memory, Record, ReplaceError, Request, State, Store};

use super::{Clock, Declined, charges, fault};

/// The stored key of the charge.
const KEY: &str = "charges#order 7";

/// Longer than any lease.
const LEASES_OVER: Duration = Duration::from_secs(100);

/// The maximum number of faults of each kind in one play.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    /// Executions that die at their gate.
    crashes: usize,
    /// Times at which every lease ends while its holder is still running.
    leases_over: usize,
    /// Calls to the store that fail with a [`Fault`].
    calls: usize,
    /// Operations that fail before their effect.
    operations: usize,
}

/// The fault of a call to the store.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// The call never arrives.
    Unmade,
    /// The call is made, but its response is lost.
    Unanswered,
    /// The response is lost, and the client repeats the call.
    Repeated,
}

const FAULTS: [Fault; 3] = [Fault::Unmade, Fault::Unanswered, Fault::Repeated];

impl Fault {
    /// Makes a call with this fault, if there is one. Returns `lost` if the request or response is lost.
    pub async fn strike<T, F>(fault: Option<Self>, lost: T, make: impl Fn() -> F) -> T
    where
        F: Future<Output = T>,
    {
        match fault {
            None => make().await,
            Some(Self::Unmade) => lost,
            Some(Self::Unanswered) => {
                make().await;
                lost
            }
            Some(Self::Repeated) => {
                make().await;
                make().await
            }
        }
    }
}

/// The next step of an execution.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    Call,
    Effect,
}

/// The point at which an execution stops before each step.
#[derive(Clone, Debug, Default)]
struct Gate(Arc<Mutex<Place>>);

/// The position of an execution.
#[derive(Debug, Default)]
enum Place {
    /// The execution is running, between two steps.
    #[default]
    Going,
    /// The execution waits at its gate before this step.
    Before(Step),
    /// The gate is open, and the next step has this fault.
    Free(Option<Fault>),
}

impl Gate {
    /// Waits until the gate opens. Returns the fault of the step, if it has one.
    async fn pass(&self, step: Step) -> Option<Fault> {
        future::poll_fn(|_| {
            let mut place = self.0.lock().unwrap();
            if let Place::Free(fault) = *place {
                *place = Place::Going;
                return Poll::Ready(fault);
            }
            *place = Place::Before(step);
            Poll::Pending
        })
        .await
    }

    fn open(&self, fault: Option<Fault>) {
        *self.0.lock().unwrap() = Place::Free(fault);
    }

    fn before(&self) -> Option<Step> {
        match *self.0.lock().unwrap() {
            Place::Before(step) => Some(step),
            Place::Going | Place::Free(_) => None,
        }
    }
}

/// The store as one execution sees it.
struct Gated {
    store: Memory,
    gate: Gate,
}

impl Store for Gated {
    async fn replace(
        &self,
        key: &str,
        seen: Option<&Record>,
        next: Option<&Record>,
    ) -> Result<(), ReplaceError> {
        let struck = self.gate.pass(Step::Call).await;
        let lost = Err(ReplaceError::Fault(fault(true)));
        Fault::strike(struck, lost, || self.store.replace(key, seen, next)).await
    }

    fn answer_max(&self) -> usize {
        self.store.answer_max()
    }
}

/// The result of an execution: the number of the execution that ran the operation.
type Answered = Result<usize, Error<Declined>>;

/// A running execution and its gate.
struct Execution {
    gate: Gate,
    future: Pin<Box<dyn Future<Output = Answered>>>,
}

impl Execution {
    /// Runs the execution to its next gate, or to its end.
    async fn go_on(&mut self) -> Option<Answered> {
        future::poll_fn(|context| match self.future.as_mut().poll(context) {
            Poll::Ready(answered) => Poll::Ready(Some(answered)),
            Poll::Pending if self.gate.before().is_some() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
    }
}

/// An event that may happen next.
#[derive(Clone, Copy, Debug)]
enum Move {
    Step(usize, Option<Fault>),
    Crash(usize),
    LeasesOver,
}

/// Executions of one charge, with their store.
struct World {
    store: Memory,
    /// The executions that made the effect.
    made_by: Arc<Mutex<Vec<usize>>>,
    clock: Clock,
    /// The number of executions that have started.
    begun: usize,
    /// The running executions by number, each at its gate.
    living: BTreeMap<usize, Execution>,
    faults: Faults,
    /// The faults that may still happen.
    left: Faults,
    /// The last execution, which starts after all leases have ended, and without faults.
    last: usize,
    ended: BTreeMap<usize, Answered>,
    crashed: BTreeSet<usize>,
    /// The executions that outlived their lease.
    late: BTreeSet<usize>,
}

impl World {
    /// Runs this many executions to their end, and another one after all leases have ended. Then asserts the rules.
    async fn play(executions: usize, faults: Faults, choices: &mut Choices) {
        let mut world = Self {
            store: Memory::new(),
            made_by: Arc::default(),
            clock: Clock::new(),
            begun: 0,
            living: BTreeMap::new(),
            faults,
            left: faults,
            last: executions,
            ended: BTreeMap::new(),
            crashed: BTreeSet::new(),
            late: BTreeSet::new(),
        };
        loop {
            let moves = world.moves();
            let Some(next) = moves.get(choices.pick(moves.len().max(1))) else { break };
            world.carry_out(*next).await;
        }
        world.clock.advance(LEASES_OVER);
        while !world.ended.contains_key(&executions) {
            world.step(executions, None).await;
        }
        world.judge().await;
    }

    async fn judge(self) {
        // A write that expects no record fails with the one that is there.
        let found = self.store.replace(KEY, None, None).await;
        let Err(ReplaceError::Changed(Some(record))) = found else { unreachable!("{found:?}") };
        assert_eq!(record.claim.state, State::Done, "in the end it is done");
        let is_owner = |nth: usize| record.claim.token.owner.starts_with(&format!("{nth}/"));
        let owner = (0..=self.last).find(|&nth| is_owner(nth)).unwrap();
        let is_answered = matches!(self.ended[&self.last], Ok(answer) if answer == owner);
        assert!(is_answered, "the last is answered");

        // The owner made the effect once. Another execution may only have made it if it died before it marked its
        // record or was late.
        let made_by = self.made_by.lock().unwrap();
        let made = |nth: usize| made_by.iter().filter(|&&effect| effect == nth).count();
        assert_eq!(made(owner), 1, "{made_by:?}");
        for nth in made_by.iter().filter(|&&nth| nth != owner) {
            assert!(self.crashed.contains(nth) || self.late.contains(nth), "{made_by:?}");
        }
        for (&nth, end) in &self.ended {
            match end {
                Ok(answer) if *answer == owner => {}
                // It could not mark its record as done, and returns its own answer.
                Ok(answer) => assert!(*answer == nth && self.faults.calls > 0, "{nth}"),
                Err(Error::LostLease { .. }) => assert_eq!(made(nth), 1, "{nth}"),
                Err(
                    Error::Operation(_)
                    | Error::InProgress { .. }
                    | Error::Late { .. }
                    | Error::Store(_),
                ) => assert_eq!(made(nth), 0, "{nth}"),
                Err(other) => unreachable!("{nth}: {other}"),
            }
        }
    }

    /// The possible next events. Executions that have not started are alike, so only the first of them may start.
    fn moves(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        let next = (self.begun < self.last).then_some(self.begun);
        for nth in self.living.keys().copied().chain(next) {
            moves.push(Move::Step(nth, None));
            match self.before(nth) {
                Step::Call if self.left.calls > 0 => {
                    moves.extend(FAULTS.map(|fault| Move::Step(nth, Some(fault))));
                }
                Step::Effect if self.left.operations > 0 => {
                    moves.push(Move::Step(nth, Some(Fault::Unmade)));
                }
                Step::Call | Step::Effect => {}
            }
            if Some(nth) != next && self.left.crashes > 0 {
                moves.push(Move::Crash(nth));
            }
        }
        if self.left.leases_over > 0 && !self.living.is_empty() {
            moves.push(Move::LeasesOver);
        }
        moves
    }

    /// The next step of an execution. The first step is a call.
    fn before(&self, nth: usize) -> Step {
        let gate = self.living.get(&nth).map(|execution| &execution.gate);
        gate.and_then(Gate::before).unwrap_or(Step::Call)
    }

    async fn carry_out(&mut self, next: Move) {
        match next {
            Move::Step(nth, fault) => {
                let spent = usize::from(fault.is_some());
                match self.before(nth) {
                    Step::Call => self.left.calls -= spent,
                    Step::Effect => self.left.operations -= spent,
                }
                self.step(nth, fault).await;
            }
            Move::Crash(nth) => {
                self.left.crashes -= 1;
                self.crashed.insert(nth);
                self.living.remove(&nth);
            }
            Move::LeasesOver => {
                self.left.leases_over -= 1;
                self.late.extend(self.living.keys());
                self.clock.advance(LEASES_OVER);
            }
        }
    }

    /// Starts an execution. Its first step is a call.
    fn begin(&self, nth: usize) -> Execution {
        let gate = Gate::default();
        let store = Gated { store: self.store.clone(), gate: gate.clone() };
        let once = charges(store, &self.clock);
        let context = self.clock.context(&nth.to_string());
        let request = Request::new("order 7", "charge 100", &context).unwrap();
        let (at_gate, made_by) = (gate.clone(), Arc::clone(&self.made_by));
        let future = Box::pin(async move {
            let charge = async |_| {
                if at_gate.pass(Step::Effect).await.is_some() {
                    return Err(Declined);
                }
                made_by.lock().unwrap().push(nth);
                Ok(nth)
            };
            once.run(&request, charge).await
        });
        Execution { gate, future }
    }

    /// Lets an execution take its next step. Starts the execution if it is new.
    async fn step(&mut self, nth: usize, fault: Option<Fault>) {
        if nth == self.begun {
            let mut execution = self.begin(nth);
            assert!(execution.go_on().await.is_none(), "its first step is a call");
            self.living.insert(nth, execution);
            self.begun += 1;
        }
        let Some(execution) = self.living.get_mut(&nth) else { unreachable!("{nth} has ended") };
        execution.gate.open(fault);
        if let Some(answered) = execution.go_on().await {
            self.living.remove(&nth);
            self.ended.insert(nth, answered);
        }
    }
}

/// The choices of one play. They repeat those of the previous play up to the last choice that has another option.
#[derive(Default)]
struct Choices {
    /// The chosen option of each choice, and the number of its options.
    taken: Vec<(usize, usize)>,
    made: usize,
}

impl Choices {
    /// Picks one of this many options.
    fn pick(&mut self, options: usize) -> usize {
        assert!(options > 0, "there is nothing to choose from");
        if self.made == self.taken.len() {
            self.taken.push((0, options));
        }
        let (option, of) = self.taken[self.made];
        assert_eq!(of, options, "the same choices lead to the same options");
        self.made += 1;
        option
    }

    /// Prepares the next play. Returns false if there is none.
    fn next(&mut self) -> bool {
        self.made = 0;
        while let Some((option, options)) = self.taken.pop() {
            if option + 1 < options {
                self.taken.push((option + 1, options));
                return true;
            }
        }
        false
    }
}

/// Plays every order of this many executions and these faults, and returns the number of orders.
async fn every_order(executions: usize, faults: Faults) -> usize {
    let mut choices = Choices::default();
    let mut plays = 0;
    loop {
        World::play(executions, faults, &mut choices).await;
        plays += 1;
        if !choices.next() {
            return plays;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn in_every_order_the_operation_runs_once() {
    let none = Faults::default();
    let fail = Faults { operations: 2, ..none };
    // Leases end while their holders are still running, and one execution dies.
    let die = Faults { crashes: 1, leases_over: 2, ..none };
    let lose_calls = Faults { calls: 2, ..none };
    let all = Faults { crashes: 1, leases_over: 1, calls: 1, operations: 1 };
    for (faults, of_two, of_three) in [
        (none, 3, 6),
        (fail, 7, 19),
        (die, 461, 16_419),
        (lose_calls, 244, 1_407),
        (all, 2_757, 100_593),
    ] {
        for (executions, expected) in [(2, of_two), (3, of_three)] {
            let plays = every_order(executions, faults);
            assert_eq!(plays.await, expected, "{executions} with {faults:?}");
        }
    }
}
