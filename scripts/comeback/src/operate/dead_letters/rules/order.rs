//! Decides what is done with each letter.

use std::collections::BTreeMap;

use comeback_core::Timestamp;
use serde::Serialize;

use crate::operate::{
    dead_letters::rules::{
        letter::{Facts, Letter},
        look::Redrive,
        selection::{PointerValue, Selection},
    },
    rules::{
        notice::{Notice, Tone, letters},
        systems::{is_queue, target_name},
    },
};

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Order {
    pub selection: Selection,
    /// When the order was given. Letters sent later stay: they may be about events that this order has redriven.
    pub given_at: Timestamp,
    pub action: Action,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// Invoke the letter's function with its payload, or send it to its queue. Then delete the letter once Lambda or
    /// SQS has accepted it.
    Redrive {
        /// The function or the queue that replaces the letter's own.
        to: Option<String>,
        set: Vec<PointerValue>,
        /// A payload that replaces the letter's own.
        payload: Option<String>,
    },
    Purge,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Step {
    /// The function is invoked or the queue is sent the message, then the letter is deleted.
    Redrive(Redrive),
    Delete,
    Leave(StayReason),
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StayReason {
    /// The operator did not select it.
    NotSelected,
    /// It was sent after the order was given.
    Newer,
    NoFunction,
    /// It has no JSON payload, which a function needs.
    NoPayload,
    /// The attributes of its queue's message can't be read.
    NoAttributes,
    /// Its body was cut, because it left no room for the attributes.
    Cut,
    /// The retry handler was not allowed to retry its target or has not sent the letter, and the operator did not
    /// name the target.
    NotAllowed,
    /// The payload has no place for a value that should be set.
    NotSet,
    Refused,
    /// The function can't currently be invoked, or the queue can't be sent to.
    Failed,
}

impl StayReason {
    /// The reason as text, with what to do about it.
    pub fn text(self) -> &'static str {
        match self {
            Self::NotSelected => "not selected",
            Self::Newer => "sent after this command began",
            Self::NoFunction => "names no function or queue: pass --to",
            Self::NoPayload => "has no JSON payload",
            Self::NoAttributes => "its OriginalAttributes are not the attributes of a message",
            Self::Cut => "its body is not whole: the message was too large for a letter",
            Self::NotAllowed => {
                "the handler does not vouch for its target: name the target with --function or --to"
            }
            Self::NotSet => "its payload has no place for --set",
            Self::Refused => "Lambda or SQS refuses it",
            Self::Failed => "its function can't be invoked, or its queue can't be sent to",
        }
    }
}

impl Order {
    pub fn step(&self, letter: &Letter, now: Timestamp) -> Step {
        let facts = letter.facts();
        if !self.selection.matches(letter, &facts, now) {
            return Step::Leave(StayReason::NotSelected);
        }
        if letter.sent_at.is_some_and(|sent_at| sent_at > self.given_at) {
            return Step::Leave(StayReason::Newer);
        }
        match &self.action {
            Action::Purge => Step::Delete,
            Action::Redrive { to, set, payload } => {
                let payload = payload.clone();
                let redrive = self.redrive(letter, facts, to.clone(), set, payload);
                redrive.map_or_else(Step::Leave, Step::Redrive)
            }
        }
    }

    fn redrive(
        &self,
        letter: &Letter,
        facts: Facts,
        to: Option<String>,
        set: &[PointerValue],
        payload: Option<String>,
    ) -> Result<Redrive, StayReason> {
        if to.is_none() && !self.selection.trusts(&facts) {
            return Err(StayReason::NotAllowed);
        }
        let own = || facts.target.map(|target| target.as_str().to_owned());
        let target = to.or_else(own).ok_or(StayReason::NoFunction)?;
        let is_queue = is_queue(&target);
        let original = is_queue.then(|| letter.original_attributes());
        let attributes = original.map(|it| it.ok_or(StayReason::NoAttributes)).transpose()?;
        let none =
            if facts.original_bytes.is_some() { StayReason::Cut } else { StayReason::NoPayload };
        let is_whole = is_queue && none == StayReason::NoPayload;
        let body = || is_whole.then(|| letter.body.clone());
        let payload = payload.or(facts.payload).or_else(body).ok_or(none)?;
        let set = set.iter().try_fold(payload, |payload, place| place.set(&payload));
        Ok(Redrive { target, payload: set.ok_or(StayReason::NotSet)?, attributes })
    }
}

/// The numbers of letters that an order would redrive, delete and leave.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Plan {
    /// The number of letters to redrive, by function or queue.
    pub redrive: BTreeMap<String, u64>,
    /// The number of letters to delete without a redrive.
    pub purge: u64,
    /// The number of letters that stay, by reason.
    pub leave: BTreeMap<StayReason, u64>,
}

impl Plan {
    pub fn count(&mut self, step: &Step) {
        match step {
            Step::Redrive(redrive) => {
                *self.redrive.entry(redrive.target.clone()).or_default() += 1;
            }
            Step::Delete => self.purge += 1,
            Step::Leave(left) => *self.leave.entry(*left).or_default() += 1,
        }
    }

    /// The number of letters that leave the queue.
    pub fn letters(&self) -> u64 {
        self.redrive.values().sum::<u64>() + self.purge
    }

    pub fn notices(&self) -> Vec<Notice> {
        let line = |(target, number): (&String, &u64)| {
            Notice::plain(format!("{} to redrive to {}", letters(*number), target_name(target)))
        };
        let mut notices: Vec<_> = self.redrive.iter().map(line).collect();
        if self.purge > 0 {
            notices.push(Notice::plain(format!("{} to delete for good", letters(self.purge))));
        }
        if notices.is_empty() {
            notices.push(Notice::nothing_to_do());
        }
        notices.extend(staying(&self.leave));
        notices
    }
}

/// Lines about the letters that stay, with the reasons.
pub(super) fn staying(left: &BTreeMap<StayReason, u64>) -> impl Iterator<Item = Notice> {
    left.iter().map(|(left, number)| {
        let tone = match left {
            StayReason::NotSelected | StayReason::Newer => Tone::Faint,
            StayReason::NoFunction
            | StayReason::NoPayload
            | StayReason::NoAttributes
            | StayReason::Cut
            | StayReason::NotAllowed
            | StayReason::NotSet
            | StayReason::Refused
            | StayReason::Failed => Tone::Bad,
        };
        let verb = if *number == 1 { "stays" } else { "stay" };
        Notice { tone, text: format!("{} {verb}: {}", letters(*number), left.text()) }
    })
}

#[cfg(test)]
mod tests {
    use comeback_core::{
        attribute::{Attribute, Value},
        time,
    };

    use super::*;
    use crate::operate::dead_letters::rules::letter::tests::{
        IMPORTS, ORDERS, bare, given_up, of_queue,
    };

    fn redrive(selection: Selection, to: Option<&str>, set: &[&str]) -> Order {
        let set = set.iter().map(|text| PointerValue::parse(text).unwrap()).collect();
        let action = Action::Redrive { to: to.map(str::to_owned), set, payload: None };
        Order { selection, given_at: time::parse("2026-01-01T11:00:00Z").unwrap(), action }
    }

    fn step(order: &Order, letter: &Letter) -> Step {
        order.step(letter, order.given_at)
    }

    fn invoke(function: &str, payload: &str) -> Step {
        let (target, payload) = (function.to_owned(), payload.to_owned());
        Step::Redrive(Redrive { target, payload, attributes: None })
    }

    #[test]
    fn a_letter_is_redriven_to_its_function_with_its_payload() {
        let all = |to, set: &[&str]| redrive(Selection::default(), to, set);
        let letter = given_up("{ \"a\":1.0}", &[]);
        assert_eq!(step(&all(None, &[]), &letter), invoke(ORDERS, "{ \"a\":1.0}"));
        let changed = step(&all(Some("orders:live"), &["/a=2", "/b=x"]), &letter);
        assert_eq!(changed, invoke("orders:live", "{ \"a\":2,\"b\":\"x\"}"));
        let mut edited = all(None, &["/b=x"]);
        if let Action::Redrive { payload, .. } = &mut edited.action {
            *payload = Some("{}".to_owned());
        }
        assert_eq!(step(&edited, &letter), invoke(ORDERS, r#"{"b":"x"}"#));

        let record =
            bare(include_str!("../../../../../../shared/core/fixtures/failure_record.json"), &[]);
        let named = Selection { functions: vec!["my-*".to_owned()], ..Selection::default() };
        let named = redrive(named, None, &[]);
        let Step::Redrive(moved) = step(&named, &record) else { panic!("a moved record") };
        assert!(moved.target.ends_with(":my-function:$LATEST"));
        assert!(moved.payload.contains("ORDER_IDS") && !moved.payload.contains("requestPayload"));
    }

    #[test]
    fn a_queues_message_is_redriven_with_its_own_attributes() {
        let original = r#"{"key":{"type":"Binary.png","value":"AAH/"}}"#;
        let key = Attribute {
            name: "key".into(),
            data_type: "Binary.png".into(),
            value: Value::Binary(vec![0, 1, 255].into()),
        };
        let sent = |target: &str, attributes: &[Attribute<'static>]| {
            let (target, payload) = (target.to_owned(), "no JSON".to_owned());
            Step::Redrive(Redrive { target, payload, attributes: Some(attributes.to_vec()) })
        };
        let all = |to| redrive(Selection::default(), to, &[]);
        let letter = of_queue("no JSON", &[("OriginalAttributes", original)]);
        assert_eq!(step(&all(None), &letter), sent(IMPORTS, std::slice::from_ref(&key)));
        assert_eq!(step(&all(None), &of_queue("no JSON", &[])), sent(IMPORTS, &[]));
        assert_eq!(step(&all(Some("orders")), &letter), invoke("orders", "no JSON"));
        let broken = of_queue("no JSON", &[("OriginalAttributes", "{")]);
        assert_eq!(step(&all(None), &broken), Step::Leave(StayReason::NoAttributes));

        let refused = [("Reason", "target_not_allowed"), ("OriginalAttributes", original)];
        let refused = of_queue("no JSON", &refused);
        assert_eq!(step(&all(None), &refused), Step::Leave(StayReason::NotAllowed));
        let named = Selection { functions: vec!["sqs:imp*".to_owned()], ..Selection::default() };
        let named = redrive(named, None, &[]);
        assert_eq!(step(&named, &refused), sent(IMPORTS, std::slice::from_ref(&key)));

        let moved = Letter { typed: vec![key.clone()], ..bare("no JSON", &[]) };
        assert_eq!(step(&all(None), &moved), Step::Leave(StayReason::NotAllowed));
        assert_eq!(step(&all(Some("sqs:imports")), &moved), sent("sqs:imports", &[key]));
    }

    #[test]
    fn a_letter_that_can_not_be_redriven_stays_with_the_reason() {
        let all = redrive(Selection::default(), None, &[]);
        let table = [
            (given_up("{\"a\":", &[]), StayReason::NoPayload),
            (given_up("1", &[("FunctionArn", "orders")]), StayReason::NoFunction),
            (bare("1", &[("RequestID", "r-1")]), StayReason::NotAllowed),
            (bare("1", &[]), StayReason::NotAllowed),
            (
                given_up("1", &[("Reason", "payload_missing"), ("OriginalBodySize", "1048570")]),
                StayReason::Cut,
            ),
            (given_up("{}", &[("Reason", "unreadable")]), StayReason::NoPayload),
        ];
        for (letter, left) in table {
            assert_eq!(step(&all, &letter), Step::Leave(left), "{letter:?}");
        }
        let mut newer = given_up("1", &[]);
        newer.sent_at = time::parse("2026-01-01T11:00:00.001Z");
        assert_eq!(step(&all, &newer), Step::Leave(StayReason::Newer));
        let set = redrive(Selection::default(), None, &["/a/b=1"]);
        assert_eq!(step(&set, &given_up("[]", &[])), Step::Leave(StayReason::NotSet));
        let other = Selection { functions: vec!["mail".to_owned()], ..Selection::default() };
        let left = Step::Leave(StayReason::NotSelected);
        assert_eq!(step(&redrive(other, None, &[]), &given_up("1", &[])), left);
    }

    #[test]
    fn a_function_for_which_nobody_vouches_is_invoked_only_if_the_operator_names_it() {
        // Its sender wrote the attributes, and SQS moved it as it was.
        let forged = Letter { was_moved: true, ..given_up("1", &[]) };
        let record = include_str!("../../../../../../shared/core/fixtures/failure_record.json");
        let moved = record.replace("my-function", "orders").replace("us-east-2", "us-east-1");
        for letter in [
            forged,
            given_up("1", &[("Reason", "target_not_allowed")]),
            bare(&moved, &[]),
            bare("1", &[("FunctionArn", ORDERS)]),
        ] {
            let of = |functions: &[&str], reasons: &[&str]| Selection {
                functions: functions.iter().map(|&it| it.to_owned()).collect(),
                reasons: reasons.iter().map(|&it| it.to_owned()).collect(),
                ..Selection::default()
            };
            let is_invoked = |order: &Order| match step(order, &letter) {
                Step::Redrive(redrive) => redrive.target.contains(":orders"),
                Step::Delete | Step::Leave(_) => false,
            };
            assert!(is_invoked(&redrive(of(&["orders"], &[]), None, &[])), "{letter:?}");
            assert!(is_invoked(&redrive(Selection::default(), Some(ORDERS), &[])), "{letter:?}");
            for reasons in [&["target_not_allowed", "none"][..], &[]] {
                assert!(!is_invoked(&redrive(of(&[], reasons), None, &[])), "{letter:?}");
            }
        }
    }

    #[test]
    fn a_plan_counts_the_steps() {
        let order = redrive(Selection::default(), None, &[]);
        let purge = Order { action: Action::Purge, ..order.clone() };
        let (good, bad) = (given_up("1", &[]), given_up("", &[]));
        let mut plan = Plan::default();
        for (order, letter) in [(&order, &good), (&order, &good), (&order, &bad), (&purge, &bad)] {
            plan.count(&step(order, letter));
        }
        assert_eq!(plan.redrive, BTreeMap::from([(ORDERS.to_owned(), 2)]));
        assert_eq!((plan.purge, plan.letters()), (1, 3));
        assert_eq!(plan.leave, BTreeMap::from([(StayReason::NoPayload, 1)]));
    }
}
