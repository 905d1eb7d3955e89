//! Makes the script of a world as short as it can, so that a person can read it.
//!
//! Parts of the plan and choices are left out, many at a time at first and then one by one, as long as the same rule
//! breaks, or the same is seen. What is left out is plain. A world with less asks for less, so choices that nobody asks
//! for any more go, too.

use std::{collections::BTreeSet, ops::Range};

use serde_json::Value;

use crate::{
    choices::{How, SENT_AFTER, TARGET, Told},
    judge::{Check, Judge},
    plan::Plan,
    script::{Part, Script},
    seen::Seen,
    world::play_as,
};

/// The most worlds that are played, and the most steps that these may take together.
const REPLAYS_MAX: u32 = 3_000;
const STEPS_MAX: u64 = 800_000;

/// In how many chunks choices are left out.
const CHUNKS_MAX: usize = 64;

/// What a shorter script must have in common with its world.
pub struct Shows {
    /// The rule that breaks. None if all rules hold.
    breaks: Option<Check>,
    /// What is seen.
    sees: BTreeSet<String>,
}

impl Shows {
    fn by(&self, judge: &Judge) -> bool {
        let is_seen =
            |what: &String| judge.known.tally.seen.keys().any(|it| it.to_string() == *what);
        judge.violation.as_ref().map(|it| it.check) == self.breaks && self.sees.iter().all(is_seen)
    }
}

/// A script of this world that breaks the same rule, or none, and in which the same is seen, as short as a bounded
/// search makes it. None if that is not seen.
pub fn shortest(plan: &Plan, sees: BTreeSet<String>) -> Option<Script> {
    let (judge, outcome) = play_as(plan.clone(), How::Recorded, false);
    let breaks = judge.violation.as_ref().map(|violation| violation.check);
    let shows = Shows { breaks, sees };
    if !shows.by(&judge) {
        return None;
    }
    let script = Script::of(plan.clone(), outcome.made);
    let mut shortening = Shortening { shows, script, replays: REPLAYS_MAX, steps: STEPS_MAX };
    // Ends when nothing more can be left out, or when the search has taken long enough.
    loop {
        let before = shortening.script.clone();
        shortening.leave_out_senders("event", "events");
        shortening.leave_out_senders("stranger", "strangers");
        shortening.leave_out_choices();
        shortening.leave_out_parts();
        shortening.leave_out_members();
        if shortening.script == before || shortening.is_over() {
            break;
        }
    }
    let Shortening { shows, mut script, .. } = shortening;
    script.about.extend(shows.breaks.map(|check| check.to_string()));
    script.seen = shows.sees;
    Some(script)
}

struct Shortening {
    shows: Shows,
    script: Script,
    replays: u32,
    steps: u64,
}

impl Shortening {
    fn is_over(&self) -> bool {
        self.replays == 0 || self.steps == 0
    }

    /// Takes this script if it shows the same.
    fn attempt(&mut self, script: Script) -> bool {
        if self.is_over() || script == self.script || !script.unfit().is_empty() {
            return false;
        }
        let played = script.play(false);
        let steps =
            played.judge.known.tally.seen.get(&Seen::Step("steps")).copied().unwrap_or_default();
        (self.replays, self.steps) = (self.replays - 1, self.steps.saturating_sub(steps));
        let is_same = self.shows.by(&played.judge);
        if is_same {
            self.script = Script { told: played.outcome.made, ..script };
        }
        is_same
    }

    fn without(&self, leaves_out: impl Fn(&str) -> bool) -> Script {
        let mut script = self.script.clone();
        script.told.retain(|name, _| !leaves_out(name));
        script
    }

    fn leave_out_choices(&mut self) {
        // What is chosen, whoever it is of: most times of a world say nothing.
        let what = |name: &str| {
            let (_, what) = name.split_once(": ").unwrap_or_default();
            what.split(" #").next().unwrap_or_default().to_owned()
        };
        let kinds: BTreeSet<_> = self.script.told.keys().map(|name| what(name)).collect();
        for kind in kinds {
            let script = self.without(|name| what(name) == kind);
            self.attempt(script);
        }
        let of = |name: &str| name.split(": ").next().unwrap_or_default().to_owned();
        let all: BTreeSet<_> = self.script.told.keys().map(|name| of(name)).collect();
        for one in all {
            let script = self.without(|name| of(name) == one);
            self.attempt(script);
        }
        let count = self.script.told.len();
        let mut size = count.div_ceil(2);
        // Of many choices, few are tried alone before there are fewer.
        while size > count / CHUNKS_MAX && !self.is_over() {
            let names: Vec<_> = self.script.told.keys().cloned().collect();
            for some in names.chunks(size) {
                let script = self.without(|name| some.iter().any(|it| it == name));
                self.attempt(script);
            }
            size /= 2;
        }
    }

    /// Leaves out events or strangers. Those after them get their numbers, and are sent at the same times.
    fn leave_out_senders(&mut self, kind: &str, count: &str) {
        let number = |script: &Script| {
            let plain = if count == "events" { 1 } else { 0 };
            script.world.get(count).and_then(Value::as_u64).unwrap_or(plain)
        };
        let mut size = number(&self.script).div_ceil(2);
        while size > 0 && !self.is_over() {
            let mut from = 0;
            while from < number(&self.script) {
                let mut script = self.script.clone();
                let until = (from + size).min(number(&script));
                let rest = number(&script) - (until - from);
                script.world.insert(count.to_owned(), rest.into());
                script.told = shifted(&script, kind, from..until);
                if !self.attempt(script) {
                    from += size;
                }
            }
            size /= 2;
        }
    }

    fn leave_out_parts(&mut self) {
        let is_target = |name: &str| name.split_once(": ").is_some_and(|(_, what)| what == TARGET);
        for number in (0..self.script.spells.len()).rev() {
            let mut script = self.script.clone();
            script.spells.remove(number);
            self.attempt(script);
        }
        for number in (0..self.script.targets.len()).rev() {
            let mut script = self.script.clone();
            script.targets.remove(number);
            script.targets.iter_mut().for_each(|it| shift(it, "successor_of", number));
            shift(&mut script.world, "forging", number);
            // Events choose among the targets in the order of their names.
            for (name, value) in &mut script.told {
                let chosen = value.parse().ok().filter(|_| is_target(name));
                if let Some(chosen) = chosen.filter(|chosen: &usize| *chosen > number) {
                    *value = (chosen - 1).to_string();
                }
            }
            script.told.retain(|name, value| !(is_target(name) && value == "0"));
            shift_spells(&mut script, "target", number);
            self.attempt(script);
        }
        for number in (0..self.script.queues.len()).rev() {
            let mut script = self.script.clone();
            script.queues.remove(number);
            script.targets.iter_mut().for_each(|it| shift(it, "queue", number));
            shift_spells(&mut script, "queue", number);
            self.attempt(script);
        }
        for number in (0..self.script.handlers.len()).rev() {
            let mut script = self.script.clone();
            script.handlers.remove(number);
            script.queues.iter_mut().for_each(|it| shift(it, "handler", number));
            shift_spells(&mut script, "handler", number);
            self.attempt(script);
        }
    }

    /// Makes members plain, also those of members.
    fn leave_out_members(&mut self) {
        for part in 0..self.script.parts_mut().len() {
            let members = self.script.parts_mut()[part].clone();
            for (name, member) in members {
                let mut script = self.script.clone();
                script.parts_mut()[part].remove(&name);
                if self.attempt(script) {
                    continue;
                }
                for (inner, _) in member.as_object().into_iter().flatten() {
                    let mut script = self.script.clone();
                    let member = script.parts_mut().swap_remove(part).get_mut(&name);
                    member.and_then(Value::as_object_mut).map(|it| it.remove(inner));
                    self.attempt(script);
                }
            }
        }
    }
}

/// The number of a part is one less if one before it has gone.
fn shift(part: &mut Part, member: &str, gone: usize) {
    if let Some(number) = part.get_mut(member)
        && let Some(old) = number.as_u64().filter(|old| *old > gone as u64)
    {
        *number = (old - 1).into();
    }
}

/// The troubles of participants of this kind, after one that has gone.
fn shift_spells(script: &mut Script, kind: &str, gone: usize) {
    let troubles: Vec<_> = script.plan().spells.iter().map(|spell| spell.trouble).collect();
    for (spell, trouble) in script.spells.iter_mut().zip(troubles) {
        if trouble.part() == kind {
            shift(spell, "number", gone);
        }
    }
}

/// The choices without those of some events or strangers.
pub fn shifted(script: &Script, kind: &str, gone: Range<u64>) -> Told {
    let start = format!("{kind} ");
    // The number of the event or the stranger of whom a choice is, and the rest of its name.
    let read = |name: &str| -> Option<(u64, String)> {
        let rest = name.strip_prefix(&start)?;
        let end = rest.find(|it: char| !it.is_ascii_digit())?;
        Some((rest[..end].parse().ok()?, rest[end..].to_owned()))
    };
    let sent_after = |number: u64| -> u64 {
        let told = script.told.get(&format!("{start}{number}: {SENT_AFTER}"));
        told.and_then(|it| it.parse().ok()).unwrap_or_default()
    };
    let mut told = Told::new();
    for (name, value) in &script.told {
        match read(name) {
            None => drop(told.insert(name.clone(), value.clone())),
            Some((number, _)) if gone.contains(&number) => {}
            Some((number, rest)) => {
                let left =
                    if number < gone.start { number } else { number - (gone.end - gone.start) };
                told.insert(format!("{start}{left}{rest}"), value.clone());
            }
        }
    }
    let waited: u64 = (gone.start..=gone.end).map(sent_after).sum();
    if waited > 0 {
        told.insert(format!("{start}{}: {SENT_AFTER}", gone.start), waited.to_string());
    }
    told
}
