//! The steps to a state, as a script with which the simulation plays them.
//!
//! A step of the search takes no time, and the next one may happen at the same moment. In the simulation, each step
//! gets a moment of its own, a few milliseconds after the one before, so that the order is the same. Only what the
//! simulation has can be told: one function, whose retries are answered at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use comeback_core::claim::Order;
use wire::Request;

use crate::{
    calls::Way,
    machine::Millis,
    scopes::{Kind, Roots},
    world::{State, Step, World},
};

/// From one step to the next.
const STEP: Millis = 5;

/// How much later a message is received than it could be.
const RECEIVE: Millis = 250;

/// The attempt of an event that has failed.
type Failed = (usize, u32);

/// A call of a run.
type Nth = (u16, usize);

/// What a call does, and when.
struct Fate {
    way: Way,
    at: Millis,
}

#[derive(Default)]
struct Teller {
    /// How often each name was asked for, and the lines.
    asked: BTreeMap<String, u32>,
    lines: Vec<String>,
}

impl Teller {
    /// The world makes this choice. Without a value, the plain one.
    fn choose(&mut self, of: &str, what: &str, value: Option<&str>) {
        let name = format!("{of}: {what}");
        let times = self.asked.entry(name.clone()).or_default();
        *times += 1;
        let Some(value) = value else { return };
        let mut line = format!("choose {name}");
        // Writing to a string can't fail.
        let _ = if *times > 1 { write!(line, " #{times}") } else { Ok(()) };
        let _ = if value.is_empty() { Ok(()) } else { write!(line, " = {value}") };
        self.lines.push(line);
    }

    fn happens(&mut self, of: &str, what: &str, happens: bool) {
        self.choose(of, what, happens.then_some(""));
    }

    fn until(&mut self, of: &str, what: &str, at: Millis) {
        self.choose(of, what, Some(&format!("until {at}")));
    }
}

fn of((event, attempt): Failed) -> String {
    format!("event {event}, attempt {attempt}")
}

/// When each step happens.
fn times(steps: &[(State, Step)]) -> Vec<Millis> {
    let mut late = 0;
    let at = |(state, step): &(State, Step)| {
        late += if matches!(step, Step::Deliver(_)) { RECEIVE } else { STEP };
        state.now + late
    };
    steps.iter().map(at).collect()
}

impl World {
    /// A script of these steps, or why there is none.
    pub fn script(&self, steps: &[(State, Step)]) -> Result<String, String> {
        let are_functions = self.scope.events.iter().all(|kind| *kind == Kind::Function);
        if !are_functions || self.scope.is_down || self.scope.is_crowded {
            return Err("only events of functions that are up can be told".to_owned());
        }
        let times = times(steps);
        let fates = fates(steps, &times);
        let mut teller = Teller::default();
        for event in 0..self.scope.events.len() {
            let of_event = format!("event {event}");
            teller.happens(&of_event, "equal", self.scope.is_equal);
            teller.happens(&of_event, "without a root", self.trace(event).is_none());
            teller.happens(&of_event, "shares its root", self.scope.roots == Roots::Equal);
            let first = of((event, 0));
            teller.happens(&first, "fails", true);
            teller.choose(&first, "runs for", Some("0"));
        }
        // Of which attempt each message is, whatever it is taken for.
        let mut failed: BTreeMap<u16, Failed> = BTreeMap::new();
        let mut submitted: BTreeSet<Nth> = BTreeSet::new();
        let mut retried: Option<Failed> = None;
        for (nth, (state, step)) in steps.iter().enumerate() {
            for message in &state.messages {
                let content = self.contents.get(message.content);
                let attempts = content.failure.attempts;
                let event = content.event;
                failed
                    .entry(message.number)
                    .or_insert_with(|| retried.unwrap_or((event, attempts)));
            }
            retried = None;
            self.submit(state, &failed, &fates, &mut submitted, &mut teller);
            let failed_of = |number: &u16| failed.get(number).copied().unwrap_or_default();
            match step {
                Step::Deliver(numbers) => {
                    let killed = killed_after(steps, nth);
                    let again = copied_at(steps, nth, &times);
                    let [number] = numbers.as_slice() else {
                        return Err("a batch of several messages can't be told".to_owned());
                    };
                    let of = of(failed_of(number));
                    teller.happens(&of, "Redelivery", again.is_some());
                    again.iter().for_each(|at| teller.until(&of, "delivered again after", *at));
                    teller.happens(&of, "KilledBefore", killed.is_some());
                    killed.iter().for_each(|it| {
                        teller.choose(&of, "killed after", Some(&it.to_string()));
                    });
                    teller.until(&of, "begins after", times[nth]);
                }
                Step::Call { handler, fails, way, .. } => {
                    let invokes = self.is_invocation(state, step);
                    let is_told = matches!(way, Way::Answered | Way::Lost | Way::Unsent);
                    if !is_told && (invokes || *way != Way::Repeated) {
                        return Err(format!("the simulation can't be told {step:?}"));
                    }
                    let run = state.handlers[*handler].as_ref();
                    let batch = run.and_then(|run| run.batch.first());
                    if let Some((number, ..)) = batch.filter(|_| invokes && way.takes()) {
                        let (event, attempt) = failed_of(number);
                        let next = of((event, attempt + 1));
                        let fails = *fails > 0;
                        teller.happens(&next, "fails", fails);
                        teller.choose(&next, "runs for", fails.then_some("0"));
                        retried = fails.then_some((event, attempt + 1));
                    }
                }
                Step::Copy(_)
                | Step::Report(_)
                | Step::Crash(_)
                | Step::Order(..)
                | Step::Pause(_)
                | Step::Time
                | Step::Late => {}
                Step::End(..) | Step::Redrive(_) => {
                    return Err(format!("the simulation can't be told {step:?}"));
                }
            }
            for key in self.listed(steps, nth) {
                let is_about = |number: &&u16| {
                    let message = state.messages.iter().find(|it| it.number == **number);
                    message.is_some_and(|it| self.contents.get(it.content).failure.key == key)
                };
                let failed = failed.keys().find(is_about).and_then(|number| failed.get(number));
                let of = format!("{}, operator", of(failed.copied().unwrap_or_default()));
                let order = self.ordered(steps, nth, key);
                teller.happens(&of, "seen by an operator", order.is_some());
                if let Some((order, at)) = order {
                    teller.until(&of, "operated after", times[at]);
                    let order = (order != Order::Retry).then(|| format!("{order:?}"));
                    teller.choose(&of, "order", order.as_deref());
                    teller.choose(&of, "ordered after", Some("0"));
                    teller.choose(&of, "shown after", Some("0"));
                }
            }
        }
        let pauses = pauses(steps, &times);
        Ok(format!("{}{pauses}{}\n", self.plan(), teller.lines.join("\n")))
    }

    /// The failures whose events are listed anew by this step.
    fn listed(&self, steps: &[(State, Step)], nth: usize) -> Vec<u32> {
        let Some((next, _)) = steps.get(nth + 1) else { return Vec::new() };
        let (before, step) = &steps[nth];
        let is_written = matches!(step, Step::Call { .. });
        let is_new = |(key, item): &(&u32, &u32)| {
            before.items.get(key) != Some(item) && self.items.get(**item).waiting.is_some()
        };
        next.items.iter().filter(is_new).filter(|_| is_written).map(|(key, _)| *key).collect()
    }

    /// What an operator orders for a failure before it is listed again, and with which step.
    fn ordered(&self, steps: &[(State, Step)], listing: usize, key: u32) -> Option<(Order, usize)> {
        let is_listed = |nth: &usize| self.listed(steps, *nth).contains(&key);
        let mut later = (listing + 1..steps.len()).take_while(|nth| !is_listed(nth));
        later.find_map(|nth| {
            let Step::Order(of, order) = &steps[nth].1 else { return None };
            (*of == key).then_some((*order, nth))
        })
    }

    fn plan(&self) -> String {
        let (base, age) = (self.base / 1000, self.max_age / 1000);
        let (attempts, ledger, register) = (self.max_attempts, self.has_ledger(), self.registers());
        let (timeout, count) = (self.scope.timeout / 1000, self.scope.events.len());
        let transparent = self.is_transparent();
        let equal = if self.scope.is_equal { r#","equal":1.0"# } else { "" };
        format!(
            r#"world {{"events":{count}{equal}}}
handler {{"general":{{"base":{base},"age":{age},"attempts":{attempts},"jitter":"None"}},"has_ledger":{ledger},"has_register":{register},"timeout":{timeout},"transparent":[{transparent},{transparent}]}}
queue {{"batch":1}}
target {{"transparent":[{transparent},{transparent}]}}
"#
        )
    }

    fn is_invocation(&self, state: &State, step: &Step) -> bool {
        let Step::Call { handler, nth, .. } = step else { return false };
        let run = state.handlers[*handler].as_ref();
        let node = run.map(|run| self.machine.node(run.node));
        node.is_some_and(|node| {
            let call = node.calls.iter().find(|(other, ..)| other == nth);
            call.is_some_and(|(.., call)| matches!(call, Request::Invoke(_)))
        })
    }

    /// The handlers make the calls that are new in this state.
    fn submit(
        &self,
        state: &State,
        failed: &BTreeMap<u16, Failed>,
        fates: &BTreeMap<Nth, Fate>,
        submitted: &mut BTreeSet<Nth>,
        teller: &mut Teller,
    ) {
        for run in state.handlers.iter().flatten() {
            let first = run.batch.first().and_then(|(number, ..)| failed.get(number));
            let of_run = of(first.copied().unwrap_or_default());
            for (nth, _, call) in &self.machine.node(run.node).calls {
                if !submitted.insert((run.name, *nth)) {
                    continue;
                }
                let of = format!("{of_run}, {}", call.name());
                let never = Fate { way: Way::Unsent, at: Millis::from(u32::MAX) };
                let Fate { way, at } = fates.get(&(run.name, *nth)).unwrap_or(&never);
                tell_call(teller, &of, *way, *at);
            }
        }
    }
}

/// What the world asks about a call, in its order.
fn tell_call(teller: &mut Teller, of: &str, way: Way, at: Millis) {
    teller.until(of, "arrives after", at);
    teller.choose(of, "answered after", (way == Way::Answered).then_some("0"));
    teller.happens(of, "CallThrottled", false);
    teller.happens(of, "CallUnsent", way == Way::Unsent);
    if way != Way::Unsent {
        teller.happens(of, "AnswerLost", way == Way::Lost);
    }
    if matches!(way, Way::Unsent | Way::Lost) {
        teller.happens(of, "CallHung", false);
        teller.until(of, "times out after", at);
        return;
    }
    teller.happens(of, "CallLate", false);
    teller.happens(of, "CallRepeated", way == Way::Repeated);
    if way == Way::Repeated {
        teller.choose(of, "repeated after", Some("0"));
    }
}

/// What becomes of each call that is answered, or takes effect.
fn fates(steps: &[(State, Step)], times: &[Millis]) -> BTreeMap<Nth, Fate> {
    let fate = |((state, step), at): (&(State, Step), &Millis)| {
        let Step::Call { handler, nth, way, .. } = step else { return None };
        let run = state.handlers[*handler].as_ref()?.name;
        Some(((run, *nth), Fate { way: *way, at: *at }))
    };
    steps.iter().zip(times).filter_map(fate).collect()
}

/// The times for which the function is paused.
fn pauses(steps: &[(State, Step)], times: &[Millis]) -> String {
    let mut lines = String::new();
    let mut from = None;
    for ((_, step), at) in steps.iter().zip(times) {
        let Step::Pause(begins) = step else { continue };
        if *begins {
            from = Some(at);
        } else if let Some(from) = from.take() {
            lines += &pause(*from, &at.to_string());
        }
    }
    from.into_iter().for_each(|from| lines += &pause(*from, "null"));
    lines
}

fn pause(from: Millis, until: &str) -> String {
    let spell = r#""trouble":"RetriesPaused","number":0"#;
    format!("spell {{{spell},\"from\":{from},\"until\":{until}}}\n")
}

/// If the run that begins with this step dies: the number of arrivals and answers that it lives through.
fn killed_after(steps: &[(State, Step)], begin: usize) -> Option<usize> {
    let name = steps[begin].0.begun;
    let is_of_run = |state: &State, handler: usize| {
        state.handlers[handler].as_ref().is_some_and(|run| run.name == name)
    };
    let mut arrivals = 0;
    for (state, step) in &steps[begin + 1..] {
        if let Step::Call { handler, way, .. } = step
            && is_of_run(state, *handler)
        {
            arrivals += 1 + usize::from(way.takes()) + usize::from(*way == Way::Repeated);
        }
        if matches!(step, Step::Crash(handler) if is_of_run(state, *handler)) {
            return Some(arrivals);
        }
    }
    None
}

/// When the message that is received with this step is delivered again before it is due.
fn copied_at(steps: &[(State, Step)], begin: usize, times: &[Millis]) -> Option<Millis> {
    let Step::Deliver(numbers) = &steps[begin].1 else { return None };
    let is_it = |number: &u16| numbers.contains(number);
    let is_about = |step: &Step| {
        matches!(step, Step::Copy(number) if is_it(number))
            || matches!(step, Step::Deliver(others) if others.iter().any(is_it))
    };
    let mut next = (begin + 1..steps.len()).filter(|nth| is_about(&steps[*nth].1));
    next.next().filter(|nth| matches!(steps[*nth].1, Step::Copy(_))).map(|nth| times[nth])
}
