//! A script: a world as text, with its plan and its choices. What it does not say is plain.
//!
//! One line is one thing: a participant, a trouble, a choice, or what must be seen. So scripts can be compared line by
//! line, and read by people. Nothing in a script depends on the order in which the code asks for choices.

use std::{
    collections::BTreeSet,
    fmt::{self, Display},
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{
    choices::{How, Outcome, Told},
    judge::Judge,
    plan::{HandlerPlan, Plan, QueuePlan, Spell, TargetPlan},
    seen::Seen,
    world::{check_settings, play_as},
};

/// The members of a part that are not plain.
pub type Part = Map<String, Value>;

/// Between the name of a choice and its value.
const IS: &str = " = ";

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// What it shows, for a reader.
    pub about: Vec<String>,
    pub world: Part,
    pub handlers: Vec<Part>,
    pub queues: Vec<Part>,
    pub targets: Vec<Part>,
    pub spells: Vec<Part>,
    pub told: Told,
    /// What must be seen, so that the script can't become one in which nothing happens.
    pub seen: BTreeSet<String>,
}

/// A line that can't be read.
#[derive(Debug, PartialEq)]
pub struct BadLine {
    pub line: usize,
    pub expected: String,
    pub got: String,
}

impl Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: expected {}, got {}", self.line, self.expected, self.got)
    }
}

/// A world that was played by a script.
pub struct Played {
    pub judge: Judge,
    pub outcome: Outcome,
}

impl Script {
    /// The script of a world that was drawn, with the choices that were made.
    pub fn of(mut plan: Plan, told: Told) -> Self {
        // Whether there are any matters to rules, but nothing is drawn.
        let Plan { hopeless, equal, short_orders, undelivered, batches, .. } = &mut plan;
        for share in [hopeless, equal, short_orders, undelivered, batches] {
            *share = share.ceil();
        }
        let named = |kind: &str, mut part: Part, number: usize| {
            let is_usual = |of: &str, name: &Value| *name == format!("{of}-{number}");
            let names = [("name", kind), ("dead_letter_queue", "dead-letters")];
            for (member, of) in names {
                if part.get(member).is_some_and(|name| is_usual(of, name)) {
                    part.remove(member);
                }
            }
            part
        };
        let handlers = plan.handlers.iter().map(other_than_plain::<HandlerPlan>).enumerate();
        let queues = plan.queues.iter().map(other_than_plain::<QueuePlan>).enumerate();
        let targets = plan.targets.iter().map(other_than_plain::<TargetPlan>).enumerate();
        Self {
            world: differing(&plan, &Plan::plain()),
            handlers: handlers.map(|(n, part)| named("retry-handler", part, n)).collect(),
            queues: queues.map(|(n, part)| named("retry", part, n)).collect(),
            targets: targets.map(|(n, part)| named("target", part, n)).collect(),
            spells: plan.spells.iter().map(other_than_plain::<Spell>).collect(),
            told,
            ..Self::default()
        }
    }

    /// # Errors
    ///
    /// All lines that can't be read, and all that name something that is not there.
    pub fn parse(text: &str) -> Result<Self, Vec<BadLine>> {
        let mut script = Self::default();
        let mut bad = Vec::new();
        let mut lines = Lines::default();
        for (line, text) in text.lines().enumerate().map(|(nth, text)| (nth + 1, text.trim_end())) {
            if let Err((expected, got)) = script.read(text, line, &mut lines) {
                bad.push(BadLine { line, expected, got });
            }
        }
        if bad.is_empty() {
            let unfit = script.unfit();
            bad.extend(unfit.into_iter().map(|Unfit { part, expected, got }| {
                let line = lines.0.iter().find(|(of, _)| *of == part);
                BadLine { line: line.map_or(1, |(_, line)| *line), expected, got }
            }));
        }
        if bad.is_empty() { Ok(script) } else { Err(bad) }
    }

    fn read(&mut self, text: &str, line: usize, lines: &mut Lines) -> Result<(), (String, String)> {
        if let Some(comment) = text.strip_prefix('#') {
            self.about.push(comment.trim().to_owned());
            return Ok(());
        }
        let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
        let number = match kind {
            "" => return Ok(()),
            "world" if !self.world.is_empty() => {
                return Err(("one line for the world".to_owned(), "a second one".to_owned()));
            }
            "world" => {
                self.world = part::<Plan>(rest)?;
                0
            }
            "handler" => add(&mut self.handlers, part::<HandlerPlan>(rest)?),
            "queue" => add(&mut self.queues, part::<QueuePlan>(rest)?),
            "target" => add(&mut self.targets, part::<TargetPlan>(rest)?),
            "spell" => add(&mut self.spells, part::<Spell>(rest)?),
            "choose" => {
                let (name, value) = rest.split_once(IS).unwrap_or((rest, ""));
                if !name.contains(": ") {
                    let expected = "whose choice it is, a colon and what is chosen".to_owned();
                    return Err((expected, format!("{rest:?}")));
                }
                if self.told.insert(name.to_owned(), value.to_owned()).is_some() {
                    return Err(("each choice once".to_owned(), format!("{name:?} again")));
                }
                return Ok(());
            }
            "see" => {
                self.seen.insert(rest.to_owned());
                return Ok(());
            }
            _ => {
                let kinds = "world, handler, queue, target, spell, choose, see or #";
                return Err((kinds.to_owned(), format!("{text:?}")));
            }
        };
        let kind =
            ["world", "handler", "queue", "target", "spell"].into_iter().find(|it| *it == kind);
        lines.0.extend(kind.map(|kind| ((kind, number), line)));
        Ok(())
    }

    /// What does not fit to the rest of the script.
    pub fn unfit(&self) -> Vec<Unfit> {
        let plan = self.plan();
        let mut unfit = Vec::new();
        let mut fits = |part, what: &str, number: usize, count: usize| {
            if number >= count {
                let expected = format!("one of {count} {what}s, counted from 0");
                unfit.push(Unfit { part, expected, got: format!("{what} {number}") });
            }
        };
        let (handlers, queues, targets) =
            (plan.handlers.len(), plan.queues.len(), plan.targets.len());
        fits(("world", 0), "target", 0, targets);
        for (number, queue) in plan.queues.iter().enumerate() {
            fits(("queue", number), "handler", queue.handler, handlers);
        }
        for (number, target) in plan.targets.iter().enumerate() {
            fits(("target", number), "queue", target.queue, queues);
            target.successor_of.iter().for_each(|it| {
                fits(("target", number), "earlier target", *it, number);
            });
        }
        for (number, spell) in plan.spells.iter().enumerate() {
            let what = spell.trouble.part();
            let count = match what {
                "handler" => handlers,
                "queue" => queues,
                "target" => targets,
                _ => 1,
            };
            fits(("spell", number), what, spell.number, count);
        }
        plan.forging.iter().for_each(|it| fits(("world", 0), "target", *it, targets));
        if let Some(attack) = plan.attack {
            fits(("world", 0), "target", attack.by.max(attack.on), targets);
            fits(("world", 0), "queue", attack.open_queue, queues);
        }
        if unfit.is_empty() {
            for number in 0..handlers {
                unfit.extend(check_settings(&plan, number).err().map(|error| Unfit {
                    part: ("handler", number),
                    expected: "settings that a handler accepts".to_owned(),
                    got: error,
                }));
            }
        }
        unfit
    }

    /// All parts, in the order in which they are written.
    pub fn parts_mut(&mut self) -> Vec<&mut Part> {
        let Self { world, handlers, queues, targets, spells, .. } = self;
        let others = handlers.iter_mut().chain(queues).chain(targets).chain(spells);
        [world].into_iter().chain(others).collect()
    }

    pub fn plan(&self) -> Plan {
        let mut plan: Plan = whole(&Plan::plain(), &self.world);
        plan.handlers = self.handlers.iter().map(|it| whole(&HandlerPlan::default(), it)).collect();
        plan.queues = self.queues.iter().map(|it| whole(&QueuePlan::default(), it)).collect();
        plan.targets = self.targets.iter().map(|it| whole(&TargetPlan::default(), it)).collect();
        plan.spells = self.spells.iter().map(|it| whole(&Spell::default(), it)).collect();
        plan.name_all();
        plan
    }

    pub fn play(&self, is_story_written: bool) -> Played {
        let how = How::Told(self.told.clone());
        let (judge, outcome) = play_as(self.plan(), how, is_story_written);
        Played { judge, outcome }
    }
}

impl Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.about.iter().try_for_each(|line| writeln!(f, "{}", format!("# {line}").trim_end()))?;
        writeln!(f, "world {}", Value::from(self.world.clone()))?;
        let kinds = [
            ("handler", &self.handlers),
            ("queue", &self.queues),
            ("target", &self.targets),
            ("spell", &self.spells),
        ];
        for (kind, parts) in kinds {
            parts.iter().try_for_each(|it| writeln!(f, "{kind} {}", Value::from(it.clone())))?;
        }
        let mut told: Vec<_> = self.told.iter().collect();
        told.sort_by_cached_key(|(name, _)| in_order(name));
        for (name, value) in told {
            match value.is_empty() {
                true => writeln!(f, "choose {name}")?,
                false => writeln!(f, "choose {name}{IS}{value}")?,
            }
        }
        self.seen.iter().try_for_each(|seen| writeln!(f, "see {seen}"))
    }
}

impl Played {
    /// What is wrong with the script: what was not asked for, and what was to be seen and was not.
    pub fn complaints(&self, script: &Script) -> Vec<String> {
        let tally = &self.judge.known.tally.seen;
        let is_seen = |what: &&String| tally.keys().map(Seen::to_string).any(|seen| seen == **what);
        let unseen = script.seen.iter().filter(|what| !is_seen(what));
        let unseen = unseen.map(|what| format!("expected to see {what:?}, got nothing of it"));
        self.outcome.wrong.iter().cloned().chain(unseen).collect()
    }
}

/// A part of a script, and its number among those of its kind.
type Place = (&'static str, usize);

/// The lines of all parts.
#[derive(Default)]
struct Lines(Vec<(Place, usize)>);

/// A part that does not fit to the others.
pub struct Unfit {
    part: Place,
    expected: String,
    got: String,
}

/// A name with its numbers so that 10 comes after 9.
fn in_order(name: &str) -> Vec<(String, u64)> {
    let parts = name.split_inclusive(|it: char| !it.is_ascii_digit() && it != ' ');
    let number = |part: &str| part.trim_matches(|it: char| !it.is_ascii_digit()).parse();
    let text = |part: &str| part.trim_matches(|it: char| it.is_ascii_digit()).to_owned();
    parts.map(|part| (text(part), number(part).unwrap_or_default())).collect()
}

fn add(parts: &mut Vec<Part>, part: Part) -> usize {
    parts.push(part);
    parts.len() - 1
}

/// The members in this text. They must be those of a `T`.
fn part<T: DeserializeOwned>(text: &str) -> Result<Part, (String, String)> {
    let json = || "members as a JSON object".to_owned();
    let part: Part = serde_json::from_str(text).map_err(|_| (json(), format!("{text:?}")))?;
    match serde_json::from_value::<T>(Value::from(part.clone())) {
        Ok(_) => Ok(part),
        Err(error) => Err(("members that it can have".to_owned(), error.to_string())),
    }
}

fn members(of: &impl Serialize) -> Part {
    match serde_json::to_value(of) {
        Ok(Value::Object(members)) => members,
        _ => Part::new(),
    }
}

fn differing<T: Serialize>(of: &T, plain: &T) -> Part {
    let plain = members(plain);
    let other = members(of).into_iter().filter(|(name, value)| plain.get(name) != Some(value));
    other.collect()
}

fn other_than_plain<T: Default + Serialize>(of: &T) -> Part {
    differing(of, &T::default())
}

/// All members, those of a part and plain ones. The members were read before, so they are right.
fn whole<T: Clone + DeserializeOwned + Serialize>(plain: &T, part: &Part) -> T {
    let mut all = members(plain);
    all.extend(part.clone());
    serde_json::from_value(Value::from(all)).unwrap_or_else(|_| plain.clone())
}
