//! What happened in the local cloud: the events that the model and the host write for observers.

use std::sync::Arc;

use comeback_core::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Payload;

#[derive(Clone, Debug, Serialize)]
pub struct Event {
    pub at: Timestamp,
    pub function: Arc<str>,
    /// The id of the invocation, the same in all of Lambda's own attempts of one event.
    pub request_id: Option<Arc<str>>,
    #[serde(flatten)]
    pub what: What,
}

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type")]
#[non_exhaustive]
pub enum What {
    Accepted {
        /// The payload of the event. Readers count the member `payload` as a run.
        #[serde(rename = "event")]
        payload: Payload,
        /// The function that has invoked it, if one has.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
    },
    Started {
        payload: Payload,
    },
    Finished {
        outcome: Ending,
        response: Payload,
    },
    /// A durable function was invoked with the name and the payload of an execution that exists. Nothing was started.
    AlreadyStarted,
    /// A run was delayed or refused, because the function's concurrency was used up.
    Throttled,
    RecursionStopped,
    /// Lambda gave up an event. It is lost if there is neither a destination nor a dead-letter queue. Otherwise a
    /// journal event follows for each delivery.
    GivenUp {
        condition: &'static str,
        lost: bool,
    },
    /// A record was sent to a destination, or an event to a dead-letter queue.
    DestinationSent {
        destination: Arc<str>,
    },
    /// A record or event could not be sent.
    DestinationFailed {
        destination: Arc<str>,
        reason: String,
        /// Where AWS counts it: `DestinationDeliveryFailures` for a record, `DeadLetterErrors` for an event.
        metric: &'static str,
    },
    /// A rule or a schedule could not deliver an event to this function or queue. It is lost without a dead-letter
    /// queue.
    Undelivered {
        /// The rule's or the schedule's ARN.
        source: Arc<str>,
        reason: String,
        lost: bool,
    },
    Logged {
        line: String,
    },
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub enum Ending {
    Succeeded,
    Failed,
    /// Its process ended before it answered.
    Crashed,
    TimedOut,
    InitFailed,
}

impl Event {
    pub fn new(
        at: Timestamp,
        function: &Arc<str>,
        request_id: Option<&Arc<str>>,
        what: What,
    ) -> Self {
        Self { at, function: Arc::clone(function), request_id: request_id.cloned(), what }
    }

    /// The approximate memory of this event, in bytes.
    pub fn size(&self) -> usize {
        let text = match &self.what {
            What::Started { payload } => payload.get().len(),
            What::Finished { response, .. } => response.get().len(),
            What::Logged { line } => line.len(),
            What::DestinationFailed { reason, .. } | What::Undelivered { reason, .. } => {
                reason.len()
            }
            // The queued event and its run have the same payload.
            What::Accepted { .. }
            | What::AlreadyStarted
            | What::Throttled
            | What::RecursionStopped
            | What::GivenUp { .. }
            | What::DestinationSent { .. } => 0,
        };
        size_of::<Self>() + text
    }
}
