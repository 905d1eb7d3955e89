//! A claim that an item holds, and the call that is made under it without an envelope.

use comeback_core::{
    Timestamp,
    claim::{Claim, State},
    lineage::Call,
};

use crate::ports::Invoked;

/// A claim that is written, and has to be marked or released.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) claim: Claim,
    /// What is sent without an envelope, if the target is invoked.
    pub(crate) call: Option<Call>,
    /// Whether the item of the run says nothing else.
    pub(crate) is_alone: bool,
    pub(crate) progress: Progress,
}

/// How far the call has come.
#[derive(Clone, Debug)]
pub(crate) enum Progress {
    /// Nothing was sent, or Lambda has refused it.
    NotAccepted,
    /// Lambda may have accepted so many calls, under request ids that nobody knows.
    Unanswered(u32),
    /// Lambda has accepted it.
    Accepted {
        /// The request id of the run.
        request_id: Option<String>,
        /// How many earlier calls Lambda may have accepted, too.
        unanswered: u32,
    },
}

impl Progress {
    pub(crate) fn of(invoked: &Invoked) -> Self {
        let unanswered = invoked.unanswered;
        match &invoked.answer {
            Ok(request_id) => Self::Accepted { request_id: request_id.clone(), unanswered },
            Err(_) if unanswered > 0 => Self::Unanswered(unanswered),
            Err(_) => Self::NotAccepted,
        }
    }
}

/// What becomes of the call with the last write under the claim.
pub(crate) struct After {
    pub(crate) calls: Vec<Call>,
    pub(crate) removed: Vec<String>,
}

impl Held {
    /// A call stays open if Lambda may have accepted it under an id that nobody knows.
    pub(crate) fn after(&self, now: Timestamp) -> After {
        let (mut calls, mut removed) = (Vec::new(), Vec::new());
        if let Some(call) = &self.call {
            match self.unanswered() {
                0 => removed.push(call.name.clone()),
                unanswered => {
                    calls = call.repeats(unanswered - 1, now);
                    calls.push(call.ended(now));
                }
            }
        }
        After { calls, removed }
    }

    /// How many runs there may be of which nobody knows the request id.
    fn unanswered(&self) -> u32 {
        match &self.progress {
            Progress::NotAccepted => 0,
            Progress::Unanswered(unanswered) => *unanswered,
            Progress::Accepted { unanswered, .. } => unanswered + 1,
        }
    }

    /// What the released claim becomes, or `None` if its item is removed: it says nothing else, and these calls don't
    /// stay in it. An operator's order has to stay for the invocation that acts next.
    pub(crate) fn released(&self, calls: &[Call]) -> Option<Claim> {
        let state = match self.claim.order {
            Some(_) => State::Waiting,
            None => State::Noted,
        };
        let is_needed = self.claim.order.is_some() || !self.is_alone || !calls.is_empty();
        is_needed.then(|| Claim { state, ..self.claim.clone() })
    }
}
