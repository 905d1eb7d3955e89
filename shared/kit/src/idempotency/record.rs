//! The record that a store keeps of an operation.

use std::fmt;

use comeback_core::{
    Timestamp,
    claim::{Claim, State},
};

use super::Fingerprint;

/// The record of a key: the owner and state of its operation, its intent, and its answer.
///
/// ```
/// use comeback::idempotency::{Answer, Claim, Fingerprint, Record, State, Token};
///
/// let held = Record {
///     claim: Claim {
///         token: Token { generation: 1, owner: "request/4711".to_owned() },
///         state: State::Held { until: "2026-02-01T12:00:40Z".parse().unwrap() },
///         order: None,
///         expires_at: "2026-02-02T18:15:30Z".parse().unwrap(),
///     },
///     fingerprint: Fingerprint::of("charge 7").unwrap(),
///     answer: None,
/// };
/// let done = held.done(Answer::Kept("\"paid\"".to_owned()), held.claim.expires_at);
/// assert_eq!(done.claim.token, held.claim.token);
/// assert_eq!(done.claim.state, State::Done);
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Record {
    /// The owner and the state of the operation. Once it is done, the owner is the one that marked it as done.
    pub claim: Claim,
    /// The fingerprint of the intent.
    pub fingerprint: Fingerprint,
    /// The answer; `None` while the operation runs.
    pub answer: Option<Answer>,
}

impl Record {
    /// Returns this record, marked as done, with this answer and expiry time.
    #[must_use]
    pub fn done(&self, answer: Answer, expires_at: Timestamp) -> Self {
        let claim = Claim { expires_at, ..self.claim.done() };
        Self { claim, fingerprint: self.fingerprint, answer: Some(answer) }
    }
}

/// The answer to every repetition of an operation.
///
/// ```
/// use comeback::idempotency::Answer;
///
/// let kept = Answer::Kept(r#"{"charge":"ch_1"}"#.to_owned());
/// let too_large = Answer::NotKept("it has 400001 bytes".to_owned());
/// assert_ne!(kept, too_large);
/// assert_eq!(format!("{kept:?}"), "Kept(17 bytes)", "the answer may be confidential");
/// ```
#[derive(Clone, Eq, PartialEq)]
pub enum Answer {
    /// The answer as JSON.
    Kept(String),
    /// The answer could not be stored, for this reason.
    NotKept(String),
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept(json) => write!(f, "Kept({} bytes)", json.len()),
            Self::NotKept(why) => f.debug_tuple("NotKept").field(why).finish(),
        }
    }
}

/// The exclusive right of an execution to run the operation until a given time.
///
/// No other execution runs the operation before the lease ends. It is not a fencing token for other systems: the
/// record is removed after a failure, so no number in it grows from one holder to the next.
///
/// ```
/// # use comeback::idempotency::{Idempotency, Memory, Request};
/// # use std::time::{Duration, SystemTime};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let mut context = comeback::testing::context(std::time::Duration::from_secs(60));
/// # context.request_id = "e4b46cbf".to_owned();
/// # let deadline = SystemTime::UNIX_EPOCH + Duration::from_millis(context.deadline);
/// # let idempotency = Idempotency::new("orders", Memory::new())?;
/// # let request = Request::new("order 7", "ship", &context)?;
/// let shipped = idempotency.run(&request, |lease| async move {
///     assert!(SystemTime::from(lease.until()) > deadline, "the lease outlasts the invocation");
///     assert!(lease.owner().starts_with("e4b46cbf/"), "named after the request id");
///     Ok::<_, std::fmt::Error>(())
/// });
/// shipped.await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Lease {
    owner: String,
    until: Timestamp,
}

impl Lease {
    /// The unique name of this execution. Log lines and [`Error::LostLease`](super::Error::LostLease) contain it,
    /// too.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// When the lease ends and another execution may take over. By then, Lambda has ended this invocation.
    pub fn until(&self) -> Timestamp {
        self.until
    }
}

/// A record that this execution has claimed.
pub(super) struct Held {
    pub(super) key: String,
    pub(super) record: Record,
    /// When Lambda ends this invocation.
    pub(super) deadline: Timestamp,
}

impl Held {
    pub(super) fn lease(&self) -> Lease {
        let claim = &self.record.claim;
        let until = match claim.state {
            State::Held { until } => until,
            State::Waiting | State::Done => claim.expires_at,
        };
        Lease { owner: claim.token.owner.clone(), until }
    }
}
