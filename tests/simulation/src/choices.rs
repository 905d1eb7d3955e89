//! The choices of a world while it is played: drawn from its seed, or told by a script.
//!
//! A seed means another world after each change of the code, because each draw depends on all draws before it. So each
//! choice has a name: of whom it is, what is chosen, and for the how manyth time. A world that is told its choices gets
//! those that are named, and wherever nothing is named, the plain one: no fault, the shortest time, the first of
//! several. Names are only made for worlds that are told or recorded.

use std::{
    cell::Cell,
    collections::{BTreeMap, HashMap},
    fmt::{self, Debug, Display},
    ops::RangeInclusive,
    rc::Rc,
    time::Duration,
};

use comeback_core::{
    Timestamp,
    time::{between, later},
};

use crate::dice::Dice;

/// The value of a choice between yes and no that is yes.
const YES: &str = "";

/// Before a time of the world, in milliseconds from its beginning, at which a duration ends.
const UNTIL: &str = "until ";

/// When an event is sent, counted from the one before.
pub const SENT_AFTER: &str = "sent after";

/// The target of an event, or of a stranger's message.
pub const TARGET: &str = "target";

/// What is chosen, by name. A choice that is not here is the plain one.
pub type Told = BTreeMap<String, String>;

/// How choices are made.
pub enum How {
    Drawn,
    /// Drawn, and recorded.
    Recorded,
    /// Those that are told; all others are plain.
    Told(Told),
}

/// Of whom a choice is: of an event or a stranger's message, of a failure, or of a call for one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Of {
    whose: Whose,
    attempt: Option<u32>,
    call: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Whose {
    #[default]
    World,
    Event(u64),
    Stranger(u64),
    Handler(usize),
    Target(usize),
    Other(usize),
}

impl Of {
    /// The nth event that a client sends.
    pub fn event(nth: u64) -> Self {
        Self { whose: Whose::Event(nth), ..Self::default() }
    }

    pub fn stranger(nth: u64) -> Self {
        Self { whose: Whose::Stranger(nth), ..Self::default() }
    }

    pub fn handler(number: usize) -> Self {
        Self { whose: Whose::Handler(number), ..Self::default() }
    }

    pub fn target(number: usize) -> Self {
        Self { whose: Whose::Target(number), ..Self::default() }
    }

    /// An event that nobody has sent as it is.
    pub fn other(event: usize) -> Self {
        Self { whose: Whose::Other(event), ..Self::default() }
    }

    /// This attempt of an event, and what becomes of its failure.
    pub fn attempt(self, attempt: u32) -> Self {
        Self { attempt: Some(attempt), ..self }
    }

    /// A call that a handler makes for it.
    pub fn call(self, call: &'static str) -> Self {
        Self { call: Some(call), ..self }
    }
}

impl Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.whose {
            Whose::World => write!(f, "world")?,
            Whose::Event(nth) => write!(f, "event {nth}")?,
            Whose::Stranger(nth) => write!(f, "stranger {nth}")?,
            Whose::Handler(number) => write!(f, "handler {number}")?,
            Whose::Target(number) => write!(f, "target {number}")?,
            Whose::Other(event) => write!(f, "other {event}")?,
        }
        self.attempt.iter().try_for_each(|attempt| write!(f, ", attempt {attempt}"))?;
        self.call.iter().try_for_each(|call| write!(f, ", {call}"))
    }
}

/// Makes the choices of a world.
pub struct Choices {
    dice: Dice,
    began_at: Timestamp,
    clock: Rc<Cell<Timestamp>>,
    named: Option<Box<Named>>,
}

#[derive(Default)]
struct Named {
    told: Option<Told>,
    /// How often each name was asked for.
    asked: HashMap<String, u32>,
    /// The choices that were made and are not plain.
    made: Told,
    wrong: Vec<String>,
}

impl Named {
    fn name(&mut self, of: Of, what: impl Display) -> String {
        let name = format!("{of}: {what}");
        let times = self.asked.entry(name.clone()).or_default();
        *times += 1;
        if *times > 1 { format!("{name} #{times}") } else { name }
    }

    fn value_of(&mut self, name: &str) -> Option<String> {
        let told = self.told.as_ref()?.get(name)?.clone();
        self.made.insert(name.to_owned(), told.clone());
        Some(told)
    }

    fn expected(&mut self, name: &str, expected: &str, got: &str) {
        self.wrong.push(format!("{name}: expected {expected}, got {got:?}"));
    }
}

/// What became of the names of a world.
#[derive(Default)]
pub struct Outcome {
    /// The choices that were made and are not plain.
    pub made: Told,
    /// What a script says and nobody has asked for, or what it says wrongly.
    pub wrong: Vec<String>,
}

impl Choices {
    /// The world begins now.
    pub fn new(how: How, dice: Dice, clock: Rc<Cell<Timestamp>>) -> Self {
        let named = match how {
            How::Drawn => None,
            How::Recorded => Some(Box::default()),
            How::Told(told) => Some(Box::new(Named { told: Some(told), ..Named::default() })),
        };
        Self { dice, began_at: clock.get(), clock, named }
    }

    /// Whether choices need names.
    pub fn are_named(&self) -> bool {
        self.named.is_some()
    }

    /// What was chosen. If the world has come to its end, everything that a script says must have been asked for.
    pub fn outcome(self, has_ended: bool) -> Outcome {
        let Named { told, made, mut wrong, .. } = self.named.map(|it| *it).unwrap_or_default();
        let unasked = told.unwrap_or_default().into_keys().filter(|name| !made.contains_key(name));
        wrong.extend(unasked.filter(|_| has_ended).map(|name| format!("{name}: nobody has asked")));
        Outcome { made, wrong }
    }

    /// A seed for another generator, or an id. These are no choices: nothing but names depends on them.
    pub fn seed(&mut self) -> u64 {
        self.dice.seed()
    }

    fn choose<T: PartialEq>(
        &mut self,
        (of, what): (Of, impl Display),
        plain: T,
        draw: impl FnOnce(&mut Dice) -> T,
        write: impl FnOnce(&T) -> String,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> T {
        let Some(named) = &mut self.named else { return draw(&mut self.dice) };
        let name = named.name(of, what);
        if named.told.is_none() {
            let value = draw(&mut self.dice);
            if value != plain {
                named.made.insert(name, write(&value));
            }
            return value;
        }
        let Some(told) = named.value_of(&name) else { return plain };
        read(&told).unwrap_or_else(|expected| {
            named.expected(&name, &expected, &told);
            plain
        })
    }

    /// Whether something of this probability happens.
    pub fn happens(&mut self, of: Of, what: impl Display, probability: f64) -> bool {
        let read = |told: &str| (told == YES).then_some(true).ok_or("no value".to_owned());
        let draw = |dice: &mut Dice| dice.happens(probability);
        self.choose((of, what), false, draw, |_| YES.to_owned(), read)
    }

    /// Whether this is so, however often it is asked. `drawn` has found it out in another way.
    pub fn is_so(&mut self, of: Of, what: impl Display, drawn: impl FnOnce() -> bool) -> bool {
        let Some(named) = &mut self.named else { return drawn() };
        let name = format!("{of}: {what}");
        let told = named.told.as_ref().map(|told| told.get(&name).is_some_and(|it| it == YES));
        let is_so = told.unwrap_or_else(drawn);
        if is_so {
            named.made.insert(name, YES.to_owned());
        }
        is_so
    }

    pub fn number(&mut self, of: Of, what: impl Display, range: RangeInclusive<u64>) -> u64 {
        let plain = *range.start();
        self.kind(of, what, range, plain)
    }

    /// A number that stands for something, of which this is the plain one.
    pub fn kind(
        &mut self,
        of: Of,
        what: impl Display,
        range: RangeInclusive<u64>,
        plain: u64,
    ) -> u64 {
        let expected = || format!("a number from {} to {}", range.start(), range.end());
        let is_in = |number: &u64| range.contains(number);
        let read = |told: &str| told.parse().ok().filter(is_in).ok_or_else(expected);
        let draw = |dice: &mut Dice| dice.number(range.clone());
        self.choose((of, what), plain, draw, ToString::to_string, read)
    }

    pub fn index(&mut self, of: Of, what: impl Display, length: usize) -> usize {
        self.number(of, what, 0..=length.saturating_sub(1) as u64) as usize
    }

    pub fn pick<T: Copy + Debug>(&mut self, of: Of, what: impl Display, choices: &[T]) -> T {
        let texts = || choices.iter().map(|it| format!("{it:?}"));
        let place = |text: &str| texts().position(|it| it == text);
        let read = |told: &str| {
            place(told).ok_or_else(|| format!("one of {}", texts().collect::<Vec<_>>().join(", ")))
        };
        let is_named = self.are_named();
        let draw = |dice: &mut Dice| {
            let index = dice.index(choices.len());
            // Equal values have the same text, so each counts as the first of them.
            if is_named { place(&format!("{:?}", choices[index])).unwrap_or(index) } else { index }
        };
        let write = |index: &usize| format!("{:?}", choices[*index]);
        choices[self.choose((of, what), 0, draw, write, read)]
    }

    /// A duration in whole milliseconds in this range. A script may also say `until` when it lasts, and any other.
    pub fn millis(&mut self, of: Of, what: impl Display, range: RangeInclusive<u64>) -> Duration {
        let plain = Duration::from_millis(*range.start());
        let (now, began_at) = (self.clock.get(), self.began_at);
        let read = |told: &str| {
            let millis = |text: &str| text.parse().ok().map(Duration::from_millis);
            let read = match told.strip_prefix(UNTIL) {
                Some(until) => millis(until).map(|until| between(now, later(began_at, until))),
                None => millis(told),
            };
            read.ok_or("milliseconds, or `until` and milliseconds".to_owned())
        };
        let draw = |dice: &mut Dice| dice.millis(range.clone());
        self.choose((of, what), plain, draw, |lasts| lasts.as_millis().to_string(), read)
    }

    /// A duration in whole milliseconds between these two.
    pub fn within(
        &mut self,
        of: Of,
        what: impl Display,
        low: Duration,
        high: Duration,
    ) -> Duration {
        let (low, high) = (low.as_millis() as u64, high.as_millis() as u64);
        self.millis(of, what, low..=high.max(low))
    }
}
