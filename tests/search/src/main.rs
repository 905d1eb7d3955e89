//! Searches small systems whole: every order of what their handlers, the queue, the targets and an operator may do.
//!
//! The handlers run the unmodified `flow` and `core` (`machine`). What is around them is a value (`world`), whose calls
//! `calls` answers, and what must hold is checked at every step (`invariants`). Each state is visited once. No step
//! leads back: each takes time, a message's receive, a handler's call, or something that may happen only so often. So a
//! search that ends has also shown that every event ends. The search itself is forty lines, so it needs no library.

mod calls;
mod invariants;
mod machine;
mod recall;
mod scopes;
mod script;
mod streams;
mod tell;
mod world;

use std::{
    collections::{BTreeSet, HashMap, VecDeque, hash_map::Entry},
    hash::{DefaultHasher, Hash, Hasher},
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use clap::Parser;
use recall::MUST_SEE;
use scopes::{Scope, scopes, swaps};
use world::{Broken, State, Step, World};

/// A search that ends sooner has tried nothing.
const STATES_MIN: usize = 20;

/// Searches small systems around the retry handler whole.
#[derive(Parser)]
struct Arguments {
    /// Searches the larger scopes, which takes minutes.
    #[arg(long)]
    whole: bool,
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Prints only a script with which the simulation plays how two events with equal payloads swap their attempts.
    #[arg(long)]
    swap: bool,
    /// Only the scopes whose names contain this.
    scope: Option<String>,
}

/// What a search has found.
struct Found {
    states: usize,
    steps: usize,
    /// The rare things that it has seen.
    seen: BTreeSet<&'static str>,
    /// The rule that does not hold, the steps to it, and a script of them.
    broken: Option<(Broken, Vec<String>, Result<String, String>)>,
}

/// The shortest swap, as a script that the simulation keeps. Its own lines say what it shows, and what must be seen.
const SWAP_SCRIPT: &str = include_str!("../../simulation/scripts/swapped.script");

fn main() -> ExitCode {
    let Arguments { whole, threads, swap, scope } = Arguments::parse();
    if swap {
        let script = swapped();
        print!("{script}");
        return if script == kept() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let is_wanted = |it: &Scope| scope.as_ref().is_none_or(|word| it.name.contains(word.as_str()));
    let wanted = Mutex::new(scopes(whole).into_iter().filter(is_wanted).collect::<VecDeque<_>>());
    let is_broken = AtomicBool::new(false);
    let all_seen = Mutex::new(BTreeSet::new());
    let next = || wanted.lock().ok()?.pop_front();
    let work = || {
        while let Some(scope) = next() {
            let Some(found) = search(scope, &is_broken) else { return };
            let Found { states, steps, seen, broken } = found;
            println!("{}: {states} states, {steps} steps", scope.name);
            if let Ok(mut all) = all_seen.lock() {
                all.extend(seen);
            }
            if let Some((Broken(rule, why), trace, script)) = broken {
                println!("{}: {rule}: {why}\n    {}", scope.name, trace.join("\n    "));
                match script {
                    Ok(script) => println!("A script for the simulation:\n{script}"),
                    Err(why) => println!("No script for the simulation: {why}"),
                }
            } else if states <= STATES_MIN {
                println!("{}: expected more than {STATES_MIN} states", scope.name);
                is_broken.store(true, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let all_seen = all_seen.into_inner().unwrap_or_default();
    let is_whole_run = scope.is_none() && !is_broken.load(Ordering::Relaxed);
    for missed in MUST_SEE.iter().filter(|it| is_whole_run && !all_seen.contains(*it)) {
        println!("expected the search to come by {missed}");
        is_broken.store(true, Ordering::Relaxed);
    }
    if is_whole_run && swapped() != kept() {
        println!("expected the steps of swapped.script to be the shortest swap: search --swap");
        is_broken.store(true, Ordering::Relaxed);
    }
    if is_broken.into_inner() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The script of the shortest swap.
fn swapped() -> String {
    let found = search(swaps(), &AtomicBool::new(false));
    let broken = found.and_then(|found| found.broken);
    broken.map_or_else(String::new, |(.., script)| script.unwrap_or_else(|why| why))
}

/// The lines of the kept script that the search has found.
fn kept() -> String {
    let is_found = |line: &&str| !line.starts_with('#') && !line.starts_with("see ");
    SWAP_SCRIPT.lines().filter(is_found).map(|line| format!("{line}\n")).collect()
}

fn print_of(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

/// Visits every state of a system, the nearest first. Returns nothing once another search has
/// found a broken rule.
fn search(scope: Scope, is_broken: &AtomicBool) -> Option<Found> {
    let mut world = World::new(scope);
    let initial = world.initial();
    // Each state that was visited, and the state before it.
    let mut seen = HashMap::from([(print_of(&initial), 0)]);
    let mut open = VecDeque::from([initial]);
    let mut taken = 0;
    while let Some(state) = open.pop_front() {
        if is_broken.load(Ordering::Relaxed) {
            return None;
        }
        let here = print_of(&state);
        for step in world.steps(&state) {
            taken += 1;
            match world.take(&state, &step) {
                Ok(next) => {
                    if let Entry::Vacant(entry) = seen.entry(print_of(&next)) {
                        entry.insert(here);
                        open.push_back(next);
                    }
                }
                Err(broken) => {
                    let mut steps = trace(&mut world, &seen, here);
                    steps.push((state, step));
                    is_broken.store(true, Ordering::Relaxed);
                    let told = steps.iter().map(|(state, step)| world.tell(state, step)).collect();
                    let broken = Some((broken, told, world.script(&steps)));
                    return Some(Found {
                        states: seen.len(),
                        steps: taken,
                        seen: world.seen,
                        broken,
                    });
                }
            }
        }
    }
    Some(Found { states: seen.len(), steps: taken, seen: world.seen, broken: None })
}

/// The steps to a state.
fn trace(world: &mut World, seen: &HashMap<u64, u64>, to: u64) -> Vec<(State, Step)> {
    let mut path = vec![to];
    while let Some(&before) =
        path.last().and_then(|print| seen.get(print)).filter(|before| **before != 0)
    {
        path.push(before);
    }
    let mut state = world.initial();
    let mut steps = Vec::new();
    for print in path.into_iter().rev().skip(1) {
        for step in world.steps(&state) {
            if let Some(next) =
                world.take(&state, &step).ok().filter(|next| print_of(next) == print)
            {
                steps.push((state, step));
                state = next;
                break;
            }
        }
    }
    steps
}
