//! What a store keeps of an operation.

use std::fmt;

use comeback_core::{
    Timestamp,
    claim::{Claim, Token},
};

use super::Fingerprint;

/// What is kept under a key: who runs the operation or has run it, what it was asked for, and what it
/// answered.
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
/// Its token fences: an outside system that remembers the highest generation it has seen under a key can
/// refuse one that is late. Generations count the holders of a record from 1, and begin anew when an
/// operation has failed or its record has expired, as then there is no record any more.
///
/// ```
/// # use comeback::idempotency::{Idempotency, Memory, Request};
/// # use lambda_runtime::Context;
/// # use std::time::{Duration, SystemTime};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let mut context = Context::default();
/// # let end = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)? + Duration::from_secs(60);
/// # context.deadline = end.as_millis() as u64;
/// # let idempotency = Idempotency::new("orders", Memory::new())?;
/// # let request = Request::new("order 7", "ship", &context)?;
/// let generation = idempotency
///     .run(&request, |lease| async move { Ok::<_, std::fmt::Error>(lease.generation()) })
///     .await?;
/// assert_eq!(generation, 1, "the first to hold it");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Lease {
    token: Token,
    until: Timestamp,
}

impl Lease {
    pub(super) fn new(token: Token, until: Timestamp) -> Self {
        Self { token, until }
    }

    /// How many have held the record, this one included.
    pub fn generation(&self) -> u32 {
        self.token.generation
    }

    /// The name of this execution, which no other has.
    pub fn owner(&self) -> &str {
        &self.token.owner
    }

    /// From when on another may take over. Lambda has ended this invocation by then.
    pub fn until(&self) -> Timestamp {
        self.until
    }
}
