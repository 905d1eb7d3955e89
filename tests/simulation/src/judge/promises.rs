//! Promises with a state of their own. The judge shows all of them what happens, and each knows what it is about.

mod brings;
mod closes;
mod explained;
mod suspects;
mod turns;

use std::sync::Arc;

use comeback_core::Timestamp;
use comeback_flow::ports::Listed;

pub use self::turns::Phase;
use self::{
    brings::Brings, closes::Closes, explained::Explained, suspects::Suspects, turns::Turns,
};
use crate::{notes::Check, rules::Millis};

/// Something that the judge sees happen.
#[derive(Clone, Copy)]
pub enum Happens<'a> {
    /// A handler's retry of this target was accepted, with this request id.
    Retried(&'a str, &'a Arc<str>, Timestamp),
    /// An invocation of this target with this request id has failed. It may be a retry.
    Failed(&'a str, &'a str),
    /// A handler with an event of this target at hand has read its circuit, and no fault is left.
    Comes(&'a str, Millis),
    /// An event is held back, because this target is down.
    HeldBack(&'a str),
    /// A run does something with the circuit of this target.
    Circuit(u64, &'a str, Move<'a>),
    /// A run is over.
    Ends(u64),
    /// A dead letter was accepted.
    GivenUp,
    /// So many dead letters are there in the end.
    LettersRead(u64),
}

/// What a run does with a circuit.
#[derive(Clone, Copy)]
pub enum Move<'a> {
    Reads(&'a Phase),
    /// It begins to write this.
    Turns(&'a Phase),
    Turned(Turn<'a>),
    /// Another circuit was there.
    NotTurned(&'a Phase),
    /// It is told that this was written.
    ToldOfTurn(&'a str),
    /// It asks for up to so many events that wait in flight, to bring them forward.
    AsksFor(u32),
    /// The register has listed these to it.
    Lists(&'a [Listed]),
    /// The register has given it no answer, or not all that wait: it has found as many as were wanted, or has passed
    /// delays over.
    MoreWait,
    /// It has answered, and had time for all that it had to do. Its handler may have a register.
    Concludes(bool),
}

#[derive(Clone, Copy)]
pub struct Turn<'a> {
    pub was: &'a Phase,
    pub is: &'a Phase,
    pub text: &'a str,
    pub at: Timestamp,
    pub knows: Evidence,
}

/// What the writer of a circuit knows: that the target is down, or that its probe has ended.
#[derive(Clone, Copy)]
pub struct Evidence {
    pub is_told_down: bool,
    pub has_probe_ended: bool,
}

/// Whether a promise is kept, and otherwise what was seen.
pub type Kept = Result<(), (Check, String)>;

trait Promise {
    fn on(&mut self, happens: Happens<'_>) -> Kept;
}

/// All of them.
#[derive(Default)]
pub struct Promises {
    pub brings: Brings,
    suspects: Suspects,
    turns: Turns,
    closes: Closes,
    explained: Explained,
}

impl Promises {
    pub fn on(&mut self, happens: Happens<'_>) -> Kept {
        let Self { brings, suspects, turns, closes, explained } = self;
        let all: [&mut dyn Promise; _] = [brings, suspects, turns, closes, explained];
        all.into_iter().try_for_each(|promise| promise.on(happens))
    }
}

fn ensure(is_kept: bool, check: Check, what: impl FnOnce() -> String) -> Kept {
    if is_kept { Ok(()) } else { Err((check, what())) }
}
