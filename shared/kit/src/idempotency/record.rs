//! What a store keeps of an operation.

use std::fmt;

use comeback_core::{
    Timestamp,
    claim::{Claim, State},
};

use super::Fingerprint;

/// What is kept under a key: who runs the operation or has run it, what it was asked for, and what it answered.
///
/// ```
/// use comeback::idempotency::{Answer, Claim, Fingerprint, Record, State, Token};
///
/// let held = Record {
///     claim: Claim {
///         token: Token { generation: 1, owner: "request/4711".to_owned() },
///         state: State::Held { until: "2026-02-01T12:00:40Z".parse().unwrap() },
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
    /// Who holds the operation, or held it when it was done.
    pub claim: Claim,
    /// What was asked for.
    pub fingerprint: Fingerprint,
    /// What came of it; none while it runs.
    pub answer: Option<Answer>,
}

impl Record {
    /// This record when its holder is done.
    #[must_use]
    pub fn done(&self, answer: Answer, expires_at: Timestamp) -> Self {
        let claim = Claim { expires_at, ..self.claim.done() };
        Self { claim, fingerprint: self.fingerprint, answer: Some(answer) }
    }
}

/// What every repetition of an operation is answered.
///
/// ```
/// use comeback::idempotency::Answer;
///
/// let kept = Answer::Kept(r#"{"charge":"ch_1"}"#.to_owned());
/// let too_large = Answer::NotKept("it has 400001 bytes".to_owned());
/// assert_ne!(kept, too_large);
/// assert_eq!(format!("{kept:?}"), "Kept(17 bytes)", "what was answered is for its caller alone");
/// ```
#[derive(Clone, Eq, PartialEq)]
pub enum Answer {
    /// This JSON.
    Kept(String),
    /// That it could not be kept, and why.
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

/// An operation's right to act, for a time.
///
/// It says until when nobody else acts. It is no fencing token for an outside system: nothing in it grows from
/// each holder to the next for ever, as an operation that has failed leaves no record to count on from.
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
///     assert!(SystemTime::from(lease.until()) > deadline, "it outlasts the invocation");
///     assert!(lease.owner().starts_with("e4b46cbf/"), "by the invocation's request id");
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
    pub(super) fn new(owner: String, until: Timestamp) -> Self {
        Self { owner, until }
    }

    /// The name of this execution, which no other has: the one in the log, and in
    /// [`Error::LostLease`](super::Error::LostLease).
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// From when on another may take over. Lambda has ended this invocation by then.
    pub fn until(&self) -> Timestamp {
        self.until
    }
}

/// A record that this execution has claimed.
pub(super) struct Held {
    pub(super) key: String,
    pub(super) record: Record,
    /// When Lambda ends this execution.
    pub(super) deadline: Timestamp,
}

impl Held {
    pub(super) fn lease(&self) -> Lease {
        let claim = &self.record.claim;
        let until = match claim.state {
            State::Held { until } => until,
            State::Done => claim.expires_at,
        };
        Lease::new(claim.token.owner.clone(), until)
    }
}
