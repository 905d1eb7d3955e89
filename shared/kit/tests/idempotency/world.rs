//! Executions of one operation that go on step by step, in an order that is chosen, and the rules that must
//! hold in each.
//!
//! A step is a call to the store or the operation's effect. Before each an execution stops at its gate.

use std::{
    collections::{BTreeMap, BTreeSet},
    future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use comeback::{
    Timestamp,
    idempotency::{Error, Idempotency, NotReplaced, Record, Request, State, Store, StoreFault},
};

use super::{Clock, Declined, orders::Choices};

/// Longer than any lease.
const LEASES_OVER: Duration = Duration::from_secs(100);

/// What may go wrong in one play, and how often.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    /// An execution ends at its gate and is never heard of.
    pub crashes: usize,
    /// So much time passes that every lease is over, while all who hold one live on.
    pub leases_over: usize,
    /// A call to the store goes wrong, in one of the ways of [`Fault`].
    pub calls: usize,
    /// An operation fails before its effect.
    pub operations: usize,
}

/// How a call to the store goes wrong.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// It never arrives.
    Unmade,
    /// It is made, but its answer is lost.
    Unanswered,
    /// The same, and the client makes it again.
    Repeated,
}

const FAULTS: [Fault; 3] = [Fault::Unmade, Fault::Unanswered, Fault::Repeated];

/// What an execution is about to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    Call,
    Effect,
}

/// Where an execution stops before each of its steps.
#[derive(Clone, Default)]
struct Gate {
    open: Arc<AtomicBool>,
    before: Arc<Mutex<Option<Step>>>,
}

impl Gate {
    async fn pass(&self, step: Step) {
        future::poll_fn(|_| {
            if self.open.swap(false, Ordering::SeqCst) {
                *self.before.lock().unwrap() = None;
                return Poll::Ready(());
            }
            *self.before.lock().unwrap() = Some(step);
            Poll::Pending
        })
        .await;
    }

    fn before(&self) -> Option<Step> {
        *self.before.lock().unwrap()
    }
}

/// What all executions of one play have done.
#[derive(Default)]
struct History {
    /// The record that is there.
    there: Option<Record>,
    /// Which execution has made the effect.
    effects: Vec<usize>,
    /// What comes next goes wrong so.
    fault: Option<Fault>,
    fails: bool,
}

/// The store as one execution sees it.
struct Gated<S> {
    store: S,
    nth: usize,
    gate: Gate,
    clock: Clock,
    history: Arc<Mutex<History>>,
}

impl<S: Store + Sync> Store for Gated<S> {
    async fn replace(
        &self,
        key: &str,
        seen: Option<&Record>,
        next: Option<&Record>,
    ) -> Result<(), NotReplaced> {
        self.gate.pass(Step::Call).await;
        let fault = self.history.lock().unwrap().fault.take();
        let lost = StoreFault { passes: true, code: None, message: "no answer".to_owned() };
        match fault {
            Some(Fault::Unmade) => Err(NotReplaced::Fault(lost)),
            Some(Fault::Unanswered) => {
                let _ = self.made(key, seen, next).await;
                Err(NotReplaced::Fault(lost))
            }
            Some(Fault::Repeated) => {
                let _ = self.made(key, seen, next).await;
                self.made(key, seen, next).await
            }
            None => self.made(key, seen, next).await,
        }
    }

    fn answer_max(&self) -> usize {
        self.store.answer_max()
    }
}

impl<S: Store> Gated<S> {
    async fn made(
        &self,
        key: &str,
        seen: Option<&Record>,
        next: Option<&Record>,
    ) -> Result<(), NotReplaced> {
        let made = self.store.replace(key, seen, next).await;
        if made.is_ok() {
            let mut history = self.history.lock().unwrap();
            assert_lawful(self.nth, history.there.as_ref(), next, self.clock.now());
            history.there = next.cloned();
        }
        made
    }
}

/// That one execution may write this over what is there, by rules that know nothing of how it decides.
fn assert_lawful(nth: usize, there: Option<&Record>, next: Option<&Record>, now: Timestamp) {
    let own = |record: &Record| record.claim.token.owner.starts_with(&format!("{nth}/"));
    match (there.map(|record| (record, record.claim.state)), next) {
        (None, None) => {}
        (None, Some(next)) => assert!(own(next) && next.claim.token.generation == 1),
        (Some((_, State::Done)), _) => unreachable!("{nth} writes over what is done"),
        (Some((held, State::Held { until })), next) => {
            assert!(own(held) || now >= until, "{nth} writes over a lease that holds");
            let Some(next) = next else {
                return assert!(own(held), "{nth} removes what is another's");
            };
            assert!(own(next));
            if own(held) {
                assert_eq!(next.claim.state, State::Done);
                assert_eq!(next.claim.token, held.claim.token);
            } else {
                assert!(matches!(next.claim.state, State::Held { .. }), "{nth} marks another's");
                assert_eq!(next.claim.token.generation, held.claim.token.generation + 1);
            }
        }
    }
}

type Answered = Result<usize, Error<Declined>>;

/// One execution on its way.
struct Execution {
    gate: Gate,
    future: Pin<Box<dyn Future<Output = Answered>>>,
}

impl Execution {
    /// Goes on until the next gate, or to the end.
    async fn go_on(&mut self) -> Option<Answered> {
        future::poll_fn(|context| match self.future.as_mut().poll(context) {
            Poll::Ready(answered) => Poll::Ready(Some(answered)),
            Poll::Pending if self.gate.before().is_some() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
    }

    async fn step(&mut self) -> Option<Answered> {
        *self.gate.before.lock().unwrap() = None;
        self.gate.open.store(true, Ordering::SeqCst);
        self.go_on().await
    }
}

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Move {
    Step(usize),
    StepWith(usize, Fault),
    Fail(usize),
    Crash(usize),
    LeasesOver,
}

/// One play.
pub struct World<S> {
    store: S,
    key: String,
    clock: Clock,
    history: Arc<Mutex<History>>,
    /// Those that live, by their number; each stands at a gate.
    living: BTreeMap<usize, Execution>,
    ended: BTreeMap<usize, Answered>,
    crashed: BTreeSet<usize>,
    /// Those that have outlived a lease.
    late: BTreeSet<usize>,
}

impl<S: Store + Clone + Sync + 'static> World<S> {
    /// Plays so many executions of one operation to their end, and one more when every lease is over; then
    /// judges what they have done.
    pub async fn play(
        store: S,
        key: String,
        executions: usize,
        faults: Faults,
        choices: &mut Choices,
    ) {
        let mut world = Self {
            store,
            key,
            clock: Clock::new(),
            history: Arc::default(),
            living: BTreeMap::new(),
            ended: BTreeMap::new(),
            crashed: BTreeSet::new(),
            late: BTreeSet::new(),
        };
        let mut left = faults;
        let mut waiting: Vec<usize> = (0..executions).rev().collect();
        loop {
            let moves = world.moves(waiting.last().copied(), left);
            let Some(next) = moves.get(choices.pick(moves.len().max(1))) else { break };
            if let Move::Step(nth) | Move::StepWith(nth, _) | Move::Crash(nth) | Move::Fail(nth) =
                *next
                && waiting.last() == Some(&nth)
            {
                waiting.pop();
                world.begin(nth).await;
            }
            world.carry_out(*next, &mut left).await;
        }
        world.clock.advance(LEASES_OVER);
        world.begin(executions).await;
        while world.living.contains_key(&executions) {
            world.step(executions).await;
        }
        world.judge(executions, faults);
    }

    /// What may happen next. Those that have not begun are alike, so that one of them may stand for all.
    fn moves(&self, next: Option<usize>, left: Faults) -> Vec<Move> {
        let mut moves = Vec::new();
        let living = self.living.iter().map(|(&nth, execution)| (nth, execution.gate.before()));
        for (nth, before) in living.chain(next.map(|nth| (nth, Some(Step::Call)))) {
            moves.push(Move::Step(nth));
            if before == Some(Step::Call) && left.calls > 0 {
                moves.extend(FAULTS.map(|fault| Move::StepWith(nth, fault)));
            }
            if before == Some(Step::Effect) && left.operations > 0 {
                moves.push(Move::Fail(nth));
            }
            if Some(nth) != next && left.crashes > 0 {
                moves.push(Move::Crash(nth));
            }
        }
        if left.leases_over > 0 && !self.living.is_empty() {
            moves.push(Move::LeasesOver);
        }
        moves
    }

    async fn carry_out(&mut self, next: Move, left: &mut Faults) {
        match next {
            Move::Step(nth) => self.step(nth).await,
            Move::StepWith(nth, fault) => {
                left.calls -= 1;
                self.history.lock().unwrap().fault = Some(fault);
                self.step(nth).await;
            }
            Move::Fail(nth) => {
                left.operations -= 1;
                self.history.lock().unwrap().fails = true;
                self.step(nth).await;
            }
            Move::Crash(nth) => {
                left.crashes -= 1;
                self.crashed.insert(nth);
                self.living.remove(&nth);
            }
            Move::LeasesOver => {
                left.leases_over -= 1;
                self.late.extend(self.living.keys());
                self.clock.advance(LEASES_OVER);
            }
        }
    }

    /// Brings an execution to its first gate.
    async fn begin(&mut self, nth: usize) {
        let gate = Gate::default();
        let (history, clock) = (Arc::clone(&self.history), self.clock.clone());
        let store = Gated {
            store: self.store.clone(),
            nth,
            gate: gate.clone(),
            clock: clock.clone(),
            history: Arc::clone(&history),
        };
        let request =
            Request::new(&self.key, "charge 100", &clock.context(&nth.to_string())).unwrap();
        let once = Idempotency::new("charges", store).unwrap().with_clock(move || clock.now());
        let effect_gate = gate.clone();
        let future = async move {
            let charge = async |_| {
                effect_gate.pass(Step::Effect).await;
                let mut history = history.lock().unwrap();
                if std::mem::take(&mut history.fails) {
                    return Err(Declined);
                }
                history.effects.push(nth);
                Ok(nth)
            };
            once.run(&request, charge).await
        };
        let mut execution = Execution { gate, future: Box::pin(future) };
        assert!(execution.go_on().await.is_none(), "its first step is a call");
        self.living.insert(nth, execution);
    }

    async fn step(&mut self, nth: usize) {
        let Some(execution) = self.living.get_mut(&nth) else { unreachable!("{nth} has ended") };
        if let Some(answered) = execution.step().await {
            self.living.remove(&nth);
            self.ended.insert(nth, answered);
        }
    }

    /// The rules of a whole play.
    fn judge(self, last: usize, faults: Faults) {
        let history = self.history.lock().unwrap();
        let there = history.there.as_ref().unwrap();
        assert_eq!(there.claim.state, State::Done, "in the end it is done");

        let marked = |nth: usize| there.claim.token.owner.starts_with(&format!("{nth}/"));
        let owner = (0..=last).find(|&nth| marked(nth)).unwrap();
        assert!(matches!(self.ended[&last], Ok(answer) if answer == owner), "the last is answered");

        let made = |nth: usize| history.effects.iter().filter(|&&effect| effect == nth).count();
        for (&nth, end) in &self.ended {
            match end {
                Ok(answer) if *answer == owner => {}
                // It could not write its mark, and answers for itself all the same.
                Ok(answer) => assert!(*answer == nth && faults.calls > 0, "{nth} answers {answer}"),
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

        // The effect was made once. Any other is that of one who died before the mark, or who came late.
        assert_eq!(made(owner), 1);
        for nth in history.effects.iter().filter(|&&nth| nth != owner) {
            assert!(self.crashed.contains(nth) || self.late.contains(nth), "{:?}", history.effects);
        }
    }
}
