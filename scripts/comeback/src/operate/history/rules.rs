//! Orders as the logbook has them: both items of each, and what has become of it.

use std::{collections::BTreeMap, time::Duration};

use comeback_core::{
    Timestamp,
    time::{between, rfc3339},
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    filter::contains,
    operate::logbook::rules::{Ended, Given, Outcome, Part, Stored, Through, Unreadable},
    text::count,
    untrusted,
};

/// An order without an end is taken for one that still runs for this long. Longer ones are rare: redrives at a low
/// rate.
const RUNS_MAX: Duration = Duration::from_hours(1);

/// What has become of an order.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Done,
    /// Some of what was selected could not be changed.
    Incomplete,
    Failed,
    /// The operator has stopped it.
    Stopped,
    Running,
    /// It has no end an hour after it began: the program was killed, or the order still runs.
    Interrupted,
    /// Its record can't be believed.
    Unreadable,
}

impl State {
    pub fn word(self) -> &'static str {
        match self {
            Self::Done => Outcome::Done.word(),
            Self::Incomplete => Outcome::Incomplete.word(),
            Self::Failed => Outcome::Failed.word(),
            Self::Stopped => Outcome::Stopped.word(),
            Self::Running => "running",
            Self::Interrupted => "interrupted",
            Self::Unreadable => "unreadable",
        }
    }
}

/// An order of the past, in the document of `--json`.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Past {
    #[schemars(with = "untrusted::Id")]
    pub id: String,
    pub given_at: String,
    pub state: State,
    /// The operator's unique id, for which IAM vouches; for a role, with the name of the session.
    #[schemars(with = "untrusted::Id")]
    pub user_id: String,
    /// The operator's ARN, as the program has written it.
    #[schemars(with = "Option<untrusted::Text>")]
    pub who: Option<String>,
    pub through: Option<Through>,
    /// The name of the order, such as `retry_now`.
    pub order: Option<String>,
    pub filter: Vec<FilterJson>,
    /// The number of items that its plan had, if there was a plan.
    pub planned: Option<u64>,
    pub ended_at: Option<String>,
    /// The number of items that were changed.
    pub done: Option<u64>,
    /// Why it failed.
    #[schemars(with = "Option<untrusted::Text>")]
    pub error: Option<String>,
    /// Why its record can't be believed.
    pub unreadable: Option<String>,
}

/// An option of an order, and its value.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct FilterJson {
    pub name: String,
    #[schemars(with = "untrusted::Text")]
    pub value: String,
}

impl Past {
    /// What the order was about, as options of a command line.
    pub fn about(&self) -> String {
        let option = |it: &FilterJson| format!("--{} {}", it.name, it.value);
        self.filter.iter().map(option).collect::<Vec<_>>().join(" ")
    }

    /// The name of the order, as commands have it.
    pub fn command(&self) -> String {
        self.order.as_deref().unwrap_or("unknown").replace('_', "-")
    }

    /// The operator's name, from the ARN.
    pub fn name(&self) -> &str {
        let who = self.who.as_ref().unwrap_or(&self.user_id);
        let name = who.rsplit_once(':').map_or(&**who, |(_, name)| name);
        name.strip_prefix("assumed-role/").unwrap_or(name)
    }

    /// How many items were changed, and of how many.
    pub fn numbers(&self) -> String {
        match (self.done, self.planned) {
            (Some(done), Some(planned)) if done != planned => {
                format!("{} of {}", count(done), count(planned))
            }
            (Some(number), _) => count(number),
            (None, Some(planned)) => format!("of {}", count(planned)),
            (None, None) => String::new(),
        }
    }

    /// What has become of it, with the reason if something is wrong.
    pub fn ending(&self) -> String {
        let why = self.unreadable.as_ref().or(self.error.as_ref());
        why.map_or_else(
            || self.state.word().to_owned(),
            |why| format!("{}: {why}", self.state.word()),
        )
    }

    pub fn is_of(&self, who: &str) -> bool {
        contains(&self.user_id, who) || self.who.as_ref().is_some_and(|arn| contains(arn, who))
    }
}

#[derive(Default)]
struct Items {
    given_at_millis: i64,
    begun: Option<Result<Given, Unreadable>>,
    ended: Option<Result<Ended, Unreadable>>,
    /// Whether there is an item too many.
    is_doubled: bool,
}

/// The orders of these items, the latest first.
pub fn orders(items: &[Stored], now: Timestamp) -> Vec<Past> {
    let mut by_order: BTreeMap<(&str, &str), Items> = BTreeMap::new();
    for stored in items {
        // The id of the table's item tells those apart that no order has.
        let user = if stored.user().is_empty() { &stored.id } else { stored.user() };
        let order = by_order.entry((stored.order(), user)).or_default();
        order.given_at_millis = order.given_at_millis.max(stored.given_at_millis);
        let (begun, ended) = match stored.part() {
            Part::Begun(given) => (Some(given), None),
            Part::Ended(ended) => (None, Some(ended)),
            Part::Unknown => (Some(Err(Unreadable::Foreign)), None),
        };
        order.is_doubled |= begun.is_some() && order.begun.is_some();
        order.is_doubled |= ended.is_some() && order.ended.is_some();
        order.begun = begun.or(order.begun.take());
        order.ended = ended.or(order.ended.take());
    }
    let mut orders: Vec<_> = by_order.into_iter().collect();
    orders
        .sort_by(|(one, a), (other, b)| (b.given_at_millis, other).cmp(&(a.given_at_millis, one)));
    orders.into_iter().map(|((id, user), items)| past(id, user, items, now)).collect()
}

fn past(id: &str, user: &str, items: Items, now: Timestamp) -> Past {
    let at = Timestamp::from_timestamp_millis(items.given_at_millis).unwrap_or_default();
    let mut past = Past {
        id: id.to_owned(),
        given_at: rfc3339(at),
        state: State::Unreadable,
        user_id: user.to_owned(),
        who: None,
        through: None,
        order: None,
        filter: Vec::new(),
        planned: None,
        ended_at: None,
        done: None,
        error: None,
        unreadable: None,
    };
    let unreadable = match (&items.begun, &items.ended) {
        _ if items.is_doubled => Some("it has more items than an order has".to_owned()),
        (None, _) => Some("its beginning is missing".to_owned()),
        (Some(Err(why)), _) | (_, Some(Err(why))) => Some(why.to_string()),
        (Some(Ok(_)), None | Some(Ok(_))) => None,
    };
    if let Some(Ok(Given { who, through, order, filter, planned })) = items.begun {
        let filter = filter.into_iter().map(|(name, value)| FilterJson { name, value }).collect();
        past = Past {
            who: Some(who),
            through: Some(through),
            order: Some(order),
            filter,
            planned,
            ..past
        };
    }
    let ended = items.ended.and_then(Result::ok);
    let state = match ended.as_ref().map(|ended| ended.outcome) {
        _ if unreadable.is_some() => State::Unreadable,
        Some(Outcome::Done) => State::Done,
        Some(Outcome::Incomplete) => State::Incomplete,
        Some(Outcome::Failed) => State::Failed,
        Some(Outcome::Stopped) => State::Stopped,
        None if between(at, now) < RUNS_MAX => State::Running,
        None => State::Interrupted,
    };
    let (ended_at, done) =
        (ended.as_ref().map(|it| rfc3339(it.at)), ended.as_ref().map(|it| it.done));
    Past { state, ended_at, done, error: ended.and_then(|it| it.error), unreadable, ..past }
}

#[cfg(test)]
mod tests {
    use comeback_core::time::later;

    use super::*;
    use crate::operate::logbook::rules::Keys;

    const ALICE: &str = "arn:aws:sts::123456789012:assumed-role/on-call/alice";

    fn at(seconds: u64) -> Timestamp {
        later("2026-05-01T12:00:00Z".parse().unwrap(), Duration::from_secs(seconds))
    }

    fn keys(order: &str, seconds: u64) -> Keys {
        let user = "AROAEXAMPLE:alice".to_owned();
        Keys { user, order: order.to_owned(), given_at: at(seconds), expires_at: at(10_000) }
    }

    fn begun(keys: &Keys) -> Stored {
        let filter =
            vec![("error".to_owned(), "Down".to_owned()), ("id".to_owned(), "a".to_owned())];
        keys.begun(Given {
            who: ALICE.to_owned(),
            through: Through::Agent,
            order: "retry_now".to_owned(),
            filter,
            planned: Some(3),
        })
    }

    fn ended(keys: &Keys, outcome: Outcome, done: u64) -> Stored {
        let error = (outcome == Outcome::Failed).then(|| "no answer".to_owned());
        keys.ended(Ended { at: at(50), outcome, done, error })
    }

    #[test]
    fn an_order_is_what_its_two_items_say() {
        for (outcome, done, numbers, ending) in [
            (Outcome::Done, 3, "3", "done"),
            (Outcome::Incomplete, 2, "2 of 3", "incomplete"),
            (Outcome::Stopped, 1, "1 of 3", "stopped"),
            (Outcome::Failed, 0, "0 of 3", "failed: no answer"),
        ] {
            let keys = keys("1", 0);
            // In any order.
            let items = [ended(&keys, outcome, done), begun(&keys)];
            let [past] = &orders(&items, at(60))[..] else { panic!("one order") };
            assert_eq!((&*past.numbers(), &*past.ending()), (numbers, ending));
            assert_eq!((past.name(), &*past.command()), ("on-call/alice", "retry-now"));
            assert_eq!(past.about(), "--error Down --id a");
            assert_eq!(past.ended_at, Some(rfc3339(at(50))));
            assert!(past.is_of("ALICE") && past.is_of("aroaex") && !past.is_of("bob"));
        }
    }

    #[test]
    fn an_order_without_an_end_runs_until_that_would_take_too_long() {
        for (seconds, expected) in [(0, "running"), (3_599, "running"), (3_600, "interrupted")] {
            let [past] = &orders(&[begun(&keys("1", 0))], at(seconds))[..] else {
                panic!("one order")
            };
            assert_eq!((&*past.ending(), &*past.numbers()), (expected, "of 3"));
        }
    }

    #[test]
    fn items_that_cannot_be_believed_are_shown_as_such_beside_the_others() {
        let good = keys("1", 0);
        let [changed, doubled, headless] = [keys("2", 1), keys("3", 2), keys("4", 3)];
        let items = [
            begun(&good),
            ended(&good, Outcome::Done, 3),
            Stored { says: "{}".to_owned(), ..begun(&changed) },
            begun(&doubled),
            ended(&doubled, Outcome::Done, 3),
            ended(&doubled, Outcome::Done, 2),
            ended(&headless, Outcome::Done, 3),
            Stored {
                id: "target/orders".to_owned(),
                run: "target".to_owned(),
                ..Stored::default()
            },
        ];
        let said = orders(&items, at(60));
        let said: Vec<_> = said.iter().map(|past| (&*past.id, past.ending())).collect();
        let expected = [
            ("4", "unreadable: its beginning is missing"),
            ("3", "unreadable: it has more items than an order has"),
            ("2", "unreadable: it was changed after it was written"),
            ("1", "done"),
            ("target", "unreadable: this program did not write it"),
        ];
        assert_eq!(said, expected.map(|(id, ending)| (id, ending.to_owned())));
    }
}
