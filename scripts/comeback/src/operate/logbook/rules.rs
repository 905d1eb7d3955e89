//! What is written of an order, and what of it can be believed.
//!
//! An order has two items: one before it begins, and one at its end. IAM binds the key of an item to whoever writes it,
//! and lets operators only add. It can't forbid to overwrite an item with PutItem, so a key ends with a digest of its
//! item: one that was overwritten no longer fits its key.

use comeback_core::{Timestamp, settings::contract::TABLE};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};

use crate::text::shortened;

/// The most characters of a value of the filter, of an ARN, and of an error. With the most values, an item is smaller
/// than 16 KB in any case.
const VALUE_MAX: usize = 200;
const WHO_MAX: usize = 512;
const ERROR_MAX: usize = 500;
/// The most values of the filter. The last one says how many others there were.
const VALUES_MAX: usize = 20;
/// The most characters of a word of ours, such as the name of an order.
const WORD_MAX: usize = 20;

/// The part of a sort key that says which item of an order it is.
const BEGUN: &str = "begun";
const ENDED: &str = "ended";

/// Where an order was given.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Through {
    Terminal,
    Page,
    Agent,
}

impl Through {
    pub fn word(self) -> &'static str {
        match self {
            Self::Terminal => "terminal",
            Self::Page => "page",
            Self::Agent => "agent",
        }
    }
}

/// What an order selects: names of options, and their values.
pub type Filter = Vec<(String, String)>;

/// An order, before it begins.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Given {
    /// The operator's ARN, as STS says.
    pub who: String,
    pub through: Through,
    /// The name of the order, such as `retry_now`.
    pub order: String,
    pub filter: Filter,
    /// The number of items that its plan had, if there was a plan.
    pub planned: Option<u64>,
}

impl Given {
    /// The same, in bounds.
    pub fn bounded(self) -> Self {
        let mut filter: Filter = self.filter;
        let others = (filter.len() + 1).saturating_sub(VALUES_MAX);
        if filter.len() > VALUES_MAX {
            filter.truncate(VALUES_MAX - 1);
            filter.push(("others".to_owned(), others.to_string()));
        }
        for (_, value) in &mut filter {
            *value = shortened(value, VALUE_MAX);
        }
        Self { who: shortened(&self.who, WHO_MAX), filter, ..self }
    }

    /// Whether it has only what this program writes.
    fn is_ours(&self) -> bool {
        let is_word = |word: &str| {
            (1..=WORD_MAX).contains(&word.len())
                && word.bytes().all(|it| it.is_ascii_lowercase() || matches!(it, b'_' | b'-'))
        };
        is_word(&self.order)
            && self.filter.iter().all(|(name, _)| is_word(name))
            && *self == self.clone().bounded()
    }
}

/// How an order ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Done,
    /// Some of what was selected could not be changed.
    Incomplete,
    Failed,
    /// The operator has stopped it.
    Stopped,
}

impl Outcome {
    pub fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Incomplete => "incomplete",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Ended {
    pub at: Timestamp,
    pub outcome: Outcome,
    /// The number of items that were changed.
    pub done: u64,
    pub error: Option<String>,
}

impl Ended {
    pub fn bounded(self) -> Self {
        Self { error: self.error.map(|error| shortened(&error, ERROR_MAX)), ..self }
    }
}

/// An item: its keys, the time when the order was given, and what it says.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Stored {
    pub id: String,
    pub run: String,
    pub given_at_millis: i64,
    pub expires_at_seconds: i64,
    pub says: String,
}

/// The keys that the two items of an order have in common.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Keys {
    /// The operator's unique id, `aws:userid`.
    pub user: String,
    pub order: String,
    pub given_at: Timestamp,
    pub expires_at: Timestamp,
}

impl Keys {
    pub fn begun(&self, given: Given) -> Stored {
        self.item(BEGUN, &given.bounded())
    }

    pub fn ended(&self, ended: Ended) -> Stored {
        self.item(ENDED, &ended.bounded())
    }

    fn item(&self, part: &str, says: &impl Serialize) -> Stored {
        let stored = Stored {
            id: format!("{}{}", TABLE.history, self.user),
            run: String::new(),
            given_at_millis: self.given_at.timestamp_millis(),
            expires_at_seconds: self.expires_at.timestamp(),
            // All keys are strings, so it can be written.
            says: serde_json::to_string(says).unwrap_or_default(),
        };
        let run = format!("{}/{part}/{}", self.order, stored.digest());
        Stored { run, ..stored }
    }
}

/// Which item of an order it is, and what it says, or why that can't be believed.
pub enum Part {
    Begun(Result<Given, Unreadable>),
    Ended(Result<Ended, Unreadable>),
    Unknown,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unreadable {
    #[error("it was changed after it was written")]
    Changed,
    #[error("it names somebody else than wrote it")]
    Forged,
    #[error("this program did not write it")]
    Foreign,
}

impl Stored {
    /// A digest of all but the sort key, which ends with it.
    fn digest(&self) -> String {
        let Self { id, given_at_millis, expires_at_seconds, says, .. } = self;
        let text = format!("{id}\n{given_at_millis}\n{expires_at_seconds}\n{says}");
        let digest = Sha256::digest(text.as_bytes());
        digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// The unique id of its writer, for which IAM vouches.
    pub fn user(&self) -> &str {
        self.id.strip_prefix(TABLE.history).unwrap_or_default()
    }

    /// The id of the order.
    pub fn order(&self) -> &str {
        self.run.split('/').next().unwrap_or_default()
    }

    pub fn part(&self) -> Part {
        let rest = self.run.split_once('/').map_or("", |(_, rest)| rest);
        let (part, digest) = rest.split_once('/').unwrap_or((rest, ""));
        let is_whole = digest == self.digest();
        match part {
            _ if self.user().is_empty() => Part::Unknown,
            BEGUN => Part::Begun(self.read(is_whole).and_then(|given: Given| match () {
                () if !given.is_ours() => Err(Unreadable::Foreign),
                () if !is_session_of(&given.who, self.user()) => Err(Unreadable::Forged),
                () => Ok(given),
            })),
            ENDED => Part::Ended(self.read(is_whole)),
            _ => Part::Unknown,
        }
    }

    fn read<T: DeserializeOwned>(&self, is_whole: bool) -> Result<T, Unreadable> {
        if !is_whole {
            return Err(Unreadable::Changed);
        }
        serde_json::from_str(&self.says).map_err(|_| Unreadable::Foreign)
    }
}

/// Whether an ARN is that of a user with this unique id, as far as they tell: both have the name of a role's session.
fn is_session_of(arn: &str, user: &str) -> bool {
    user.split_once(':').is_none_or(|(_, session)| arn.rsplit('/').next() == Some(session))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(user: &str) -> Keys {
        let at = |text: &str| text.parse().unwrap();
        let (given_at, expires_at) = (at("2026-05-01T12:00:00Z"), at("2027-06-05T12:00:00Z"));
        Keys { user: user.to_owned(), order: "01-a".to_owned(), given_at, expires_at }
    }

    fn given(who: &str) -> Given {
        Given {
            who: who.to_owned(),
            through: Through::Page,
            order: "retry_now".to_owned(),
            filter: vec![("error".to_owned(), "Down".to_owned())],
            planned: Some(3),
        }
    }

    const ALICE: &str = "arn:aws:sts::123456789012:assumed-role/on-call/alice";

    fn why(stored: &Stored) -> Option<Unreadable> {
        match stored.part() {
            Part::Begun(read) => read.err(),
            Part::Ended(read) => read.err(),
            Part::Unknown => Some(Unreadable::Foreign),
        }
    }

    #[test]
    fn an_item_reads_back_as_it_was_written_and_only_so() {
        let keys = keys("AROAEXAMPLE:alice");
        let begun = keys.begun(given(ALICE));
        assert!(matches!(begun.part(), Part::Begun(Ok(read)) if read == given(ALICE)));
        assert_eq!((begun.user(), begun.order()), ("AROAEXAMPLE:alice", "01-a"));
        let ended = Ended { at: keys.given_at, outcome: Outcome::Stopped, done: 2, error: None };
        assert!(matches!(keys.ended(ended.clone()).part(), Part::Ended(Ok(read)) if read == ended));
        let foreign = Stored { says: "{}".to_owned(), ..begun.clone() };
        let foreign = Stored { run: format!("01-a/begun/{}", foreign.digest()), ..foreign };
        for (stored, expected) in [
            (
                Stored { says: begun.says.replace("Down", "Up"), ..begun.clone() },
                Unreadable::Changed,
            ),
            (Stored { given_at_millis: 0, ..begun.clone() }, Unreadable::Changed),
            (Stored { expires_at_seconds: 0, ..begun.clone() }, Unreadable::Changed),
            (Stored { id: "history/other".to_owned(), ..begun.clone() }, Unreadable::Changed),
            (foreign, Unreadable::Foreign),
            (Stored { id: "target/orders".to_owned(), ..begun.clone() }, Unreadable::Foreign),
            (Stored { run: "target".to_owned(), ..begun.clone() }, Unreadable::Foreign),
            (Stored::default(), Unreadable::Foreign),
        ] {
            assert_eq!(why(&stored), Some(expected), "{stored:?}");
        }
    }

    #[test]
    fn nobody_can_write_in_the_name_of_another_session() {
        let bob = ALICE.replace("alice", "bob");
        for (user, who, expected) in [
            ("AROAEXAMPLE:alice", ALICE, None),
            ("AROAEXAMPLE:alice", &bob, Some(Unreadable::Forged)),
            // A user's unique id has no name.
            ("AIDAEXAMPLE", "arn:aws:iam::123456789012:user/alice", None),
        ] {
            assert_eq!(why(&keys(user).begun(given(who))), expected, "{user} {who}");
        }
    }

    #[test]
    fn what_a_person_types_is_kept_within_bounds() {
        let filter = vec![("id".to_owned(), "\u{1f980}".repeat(300)); 30];
        let long = Given { filter, ..given(&format!("arn:{}", "a".repeat(9_000))) };
        let stored = keys("AIDAEXAMPLE").begun(long);
        let Part::Begun(Ok(read)) = stored.part() else { panic!("{stored:?}") };
        assert_eq!(read.filter.len(), VALUES_MAX);
        assert_eq!(read.filter.last().unwrap(), &("others".to_owned(), "11".to_owned()));
        assert!(stored.says.len() < 20_000, "{} bytes", stored.says.len());
        let error = Some("e".repeat(9_000));
        let ended = Ended { at: Timestamp::default(), outcome: Outcome::Failed, done: 0, error };
        assert!(keys("a").ended(ended).says.len() < 1_000);
        let word = Given { order: "Delete all".to_owned(), ..given(ALICE) };
        assert_eq!(why(&keys("AIDAEXAMPLE").begun(word)), Some(Unreadable::Foreign));
    }
}
