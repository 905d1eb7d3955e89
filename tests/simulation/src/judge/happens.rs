//! What the judge sees happen, and shows to the promises.

use std::{sync::Arc, time::Duration};

use comeback_core::{
    dead_letter::DeadLetter,
    envelope::RetryMetadata,
    lineage::{Call, Key},
};
use comeback_flow::{ports::Listed, report::Report};
use comeback_local_model::sqs::Outgoing;
use wire::{Entry, Exchange, Invoke};

use super::known::{Concluded, Evidence, Phase, Place, Subject, Waits, Why};
use crate::policy::Millis;

/// Something that the judge sees happen. A number is that of a run, if nothing else is said, and no subject means that
/// no message fits.
#[derive(Clone, Copy)]
pub enum Happens<'a> {
    /// A run of a target, with this request id, has begun with this payload.
    Given(&'a str, &'a str),
    /// A handler's retry of this target was accepted, with this request id.
    Retried(&'a str, &'a Arc<str>),
    /// An invocation of this target with this request id has failed. It may be a retry.
    Failed(&'a str, &'a str),
    /// A message with this trace was received, of this case.
    Received(Option<usize>, &'a str),
    /// A run has received its batch.
    Delivered(u64),
    /// A run has so much time.
    Begun(u64, Duration),
    /// A handler begins to act on a message: it claims its failure, or retries it without a claim.
    Begins(Subject),
    /// A handler invokes a target at this time, by its own clock.
    Invokes(u64, Option<Subject>, Millis, &'a Invoke),
    /// A handler sends so many things of so many bytes in one call.
    Sends(usize, &'static str, usize),
    /// A handler puts a message back.
    Hides(u64, Option<Subject>),
    /// A handler sends this message to its own queue.
    SendsAgain(u64, Option<Subject>, &'a Outgoing),
    /// A handler lets a message wait.
    Waits(&'a Waits, Why),
    /// An invocation has shown when this case was due.
    ShowsDue(usize, Millis),
    /// A handler sends this dead letter at this time, by its own clock.
    GivesUp(u64, Option<Subject>, Millis, &'a DeadLetter<'a>),
    /// A dead letter without its payload points to this record.
    Points(usize, &'a [u8]),
    /// A handler reads the record that lies there.
    Reads(u64, Option<Subject>, &'a Place),
    /// A handler asks for the runs beside this one, to know of which run a message is a failure.
    LooksCloser(u64, Option<Subject>, &'a Key),
    /// The same, to know whether the failure was retried.
    Compares(u64, Option<Subject>, &'a Key),
    /// A handler looks these events and these targets up, at this time by its own clock.
    LooksUp(u64, Millis, &'a [Key], &'a [String]),
    /// A handler lists an event that waits.
    Lists(Subject, &'a Entry),
    /// A handler writes the item of a failure, or is told that another write was first.
    Writes(Subject),
    WritesInVain(Subject),
    /// A handler marks a failure, or gives its claim back.
    Concludes(Subject),
    /// Somebody has ordered something for this case, or the order has ended.
    Ordered(usize),
    OrderEnds(usize),
    /// A handler takes the failure of this case for that of a retry.
    Learns(usize, &'a RetryMetadata),
    /// A handler takes it for a first one, with a trace of this root. It could not read all runs, or could.
    TakesForFirst(usize, Option<&'a str>, bool),
    /// This run has taken a call.
    Takes(&'a str, &'a Call),
    /// This call without an envelope is claimed.
    Claims(usize),
    /// A handler has learned what became of this call: Lambda has refused it, or it may have started runs.
    ToldOfCall(usize, bool),
    /// The ledger has the last write about this call, and these calls are left in the item.
    Leaves(usize, &'a [Call]),
    /// Nothing goes wrong with the call about this message, so its handler will be told whether the act was accepted.
    WillBeTold(Subject),
    /// It is told.
    Told(Subject),
    /// A case may be acted on once more than before.
    MayRepeat(usize),
    /// A case was acted on, in this way.
    Acts(Subject, &'static str),
    /// A handler with an event of this target at hand has read its circuit, and no fault is left.
    Comes(&'a str, Millis),
    /// An event is held back, because this target is down.
    HeldBack(&'a str),
    /// A run writes a circuit.
    WritesCircuit(u64, &'a Exchange),
    /// A run does something with the circuit of this target.
    Circuit(u64, &'a str, Move<'a>),
    /// A run answers.
    Answers(u64, &'a Report),
    /// A run has no answer: its time is up, or it could not read its batch.
    TimeIsUp(u64),
    Fails(u64),
    /// A run is over.
    Ends(u64),
    /// No message can name this case any more. Its number is free.
    Forgets(usize),
    /// A dead letter was accepted.
    GivenUp,
    /// After so many steps there is still something to do.
    GoesOn(u64),
    /// Nothing is left to happen.
    Rests,
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
    Concludes(Concluded),
}

#[derive(Clone, Copy)]
pub struct Turn<'a> {
    pub was: &'a Phase,
    pub is: &'a Phase,
    pub text: &'a str,
    pub knows: Evidence,
}
