//! Runs concurrent executions of one operation step by step, in every possible order.
//!
//! A step is a call to the store or the effect of the operation. Before each step, an execution waits at its gate.
//! A [`Play`] defines the operation.

use std::{
    collections::{BTreeMap, BTreeSet},
    future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::Poll,
    time::Duration,
};

use comeback::idempotency::{Claim, Error, ReplaceError, State, Store};

use super::{Clock, Declined};

/// Longer than any lease.
const LEASES_OVER: Duration = Duration::from_secs(100);

/// The maximum number of faults of each kind in one play.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Executions that die at their gate.
    pub crashes: usize,
    /// Times at which every lease ends while its holder is still running.
    pub leases_over: usize,
    /// Calls to the store that fail with a [`Fault`].
    pub calls: usize,
    /// Operations that fail before their effect.
    pub operations: usize,
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

/// The next step of an execution.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    Call,
    Effect,
}

/// The point at which an execution stops before each step.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<Mutex<Place>>);

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
    pub async fn pass(&self, step: Step) -> Option<Fault> {
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

    /// Makes a call to the store when the gate opens. Returns `lost` if the request or response is lost.
    pub async fn call<T, F: Future<Output = T>>(&self, lost: T, make: impl Fn() -> F) -> T {
        match self.pass(Step::Call).await {
            None => make().await,
            Some(Fault::Unmade) => lost,
            Some(Fault::Unanswered) => {
                make().await;
                lost
            }
            Some(Fault::Repeated) => {
                make().await;
                make().await
            }
        }
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

/// An operation that several executions run.
pub trait Play {
    /// Whether the effect and the mark are one write.
    const IS_ATOMIC: bool;

    /// Starts an execution that stops at this gate before each step. Its first step is a call.
    fn begin(&self, nth: usize, gate: Gate, clock: &Clock) -> Running;

    /// The claim in the end, and the executions that made the effect.
    async fn end(self) -> (Claim, Vec<usize>);
}

/// The result of an execution: the number of the execution that ran the operation.
pub type Answered = Result<usize, Error<Declined>>;

/// A running execution.
pub type Running = Pin<Box<dyn Future<Output = Answered>>>;

/// A running execution and its gate.
struct Execution {
    gate: Gate,
    future: Running,
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

/// A running play.
struct World<P> {
    play: P,
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

impl<P: Play> World<P> {
    /// Runs this many executions of one operation to their end, and another one after all leases have ended. Then
    /// asserts the rules.
    async fn play(play: P, executions: usize, faults: Faults, choices: &mut Choices) {
        let mut world = Self {
            play,
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
        let (claim, made_by) = self.play.end().await;
        assert_eq!(claim.state, State::Done, "in the end it is done");
        let is_owner = |nth: usize| claim.token.owner.starts_with(&format!("{nth}/"));
        let owner = (0..=self.last).find(|&nth| is_owner(nth)).unwrap();
        let is_answered = matches!(self.ended[&self.last], Ok(answer) if answer == owner);
        assert!(is_answered, "the last is answered");

        // The owner made the effect once. Another execution may only have made it if it died before it marked its
        // record or was late, and only if the mark is another write.
        let made = |nth: usize| made_by.iter().filter(|&&effect| effect == nth).count();
        assert_eq!(made(owner), 1, "{made_by:?}");
        for nth in made_by.iter().filter(|&&nth| nth != owner) {
            let is_excused = self.crashed.contains(nth) || self.late.contains(nth);
            assert!(!P::IS_ATOMIC && is_excused, "{made_by:?}");
        }
        let calls = self.faults.calls;
        for (&nth, end) in &self.ended {
            match end {
                Ok(answer) if *answer == owner => {}
                // It could not mark its record as done, and returns its own answer.
                Ok(answer) => assert!(!P::IS_ATOMIC && *answer == nth && calls > 0, "{nth}"),
                // Neither the transaction nor the release got a response.
                Err(Error::Store(_)) if P::IS_ATOMIC && calls > 1 => {}
                Err(Error::LostLease { .. }) => assert_eq!(made(nth), usize::from(!P::IS_ATOMIC)),
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

    /// Lets an execution take its next step. Starts the execution if it is new.
    async fn step(&mut self, nth: usize, fault: Option<Fault>) {
        if nth == self.begun {
            let gate = Gate::default();
            let future = self.play.begin(nth, gate.clone(), &self.clock);
            let mut execution = Execution { gate, future };
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
pub async fn every_order<P: Play>(
    executions: usize,
    faults: Faults,
    begin: impl Fn(usize) -> P,
) -> usize {
    let mut choices = Choices::default();
    let mut plays = 0;
    loop {
        World::play(begin(plays), executions, faults, &mut choices).await;
        plays += 1;
        if !choices.next() {
            return plays;
        }
    }
}

/// Reads a claim with a write that expects no record, and therefore fails with the current one.
pub async fn claim(store: &impl Store, key: &str) -> Claim {
    match store.replace(key, None, None).await {
        Err(ReplaceError::Changed(Some(there))) => there.claim,
        other => unreachable!("{other:?}"),
    }
}
