//! The register: the waiting events, and an operator's orders for them.
//!
//! Each waiting event has an item, which is an index, not the truth: a message that SQS delivers is handled with or
//! without one. Only the orders are nowhere else. `docs/design/register.md` describes the items.
//!
//! | order | what happens to the event |
//! |---|---|
//! | retry now | it is invoked when it comes back, although it is not due; the attempt counts like any other |
//! | cancel | it is dead-lettered with the reason `cancelled` |
//! | pause, for a target | due events wait again; no attempt is counted, but their age still grows |
//!
//! An order for an event overrides the pause of its target, so one event can be tried while the others wait. An order
//! to retry changes nothing for an event that would be invoked or given up anyway.

use std::time::Duration;

use crate::{
    Attempt, Timestamp,
    claim::Order,
    decision::{Decision, Settlement},
    failure::Failure,
    key::Key,
    reason::Reason,
    time::later,
};

/// How long an item is kept after its event should have come back.
const OVERDUE_MAX: Duration = Duration::from_hours(24);

/// The maximum lengths of an error's type and message, and of the name of its policy, in bytes. A write of up to a
/// kilobyte costs one write unit.
const ERROR_TYPE_MAX: usize = 100;
const ERROR_MESSAGE_MAX: usize = 200;
const POLICY_MAX: usize = 100;

/// The attributes of a waiting event's item.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Waiting<'a> {
    /// The function, as its record names it.
    pub target: &'a str,
    pub queue_url: &'a str,
    pub event_id: &'a str,
    pub attempt: Attempt,
    /// When the wait ends and the event comes back.
    pub due: Timestamp,
    pub first_failure: Timestamp,
    pub error_type: Option<&'a str>,
    pub error_message: Option<&'a str>,
    /// The name of the policy of its error, if it has one.
    pub policy: Option<&'a str>,
    /// SQS's handle of the message while it is in flight; a delayed message has none.
    pub receipt_handle: Option<&'a str>,
}

impl<'a> Waiting<'a> {
    /// The attributes of an event that waits until `due`.
    pub fn of(
        failure: &'a Failure<'_>,
        policy: Option<&'a str>,
        attempt: Attempt,
        due: Timestamp,
        queue_url: &'a str,
        receipt_handle: Option<&'a str>,
    ) -> Self {
        let beginning = |text: Option<&'a str>, max| {
            let text = text?;
            Some(&text[..text.floor_char_boundary(max)]).filter(|text| !text.is_empty())
        };
        Self {
            target: failure.target.as_str(),
            queue_url,
            event_id: failure.first_request_id().unwrap_or(&failure.request_id),
            attempt,
            due,
            first_failure: failure.first_failure(),
            error_type: beginning(failure.error.error_type.as_deref(), ERROR_TYPE_MAX),
            error_message: beginning(failure.error.message.as_deref(), ERROR_MESSAGE_MAX),
            policy: beginning(policy, POLICY_MAX),
            receipt_handle,
        }
    }

    /// When the item counts as absent, because its message must be gone by then.
    pub fn expires_at(&self) -> Timestamp {
        later(self.due, OVERDUE_MAX)
    }
}

/// A waiting event, as an operator sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    pub key: Key,
    pub target: String,
    pub queue_url: String,
    pub event_id: String,
    pub attempt: u32,
    pub due: Timestamp,
    pub first_failure: Timestamp,
    pub error_type: Option<String>,
    pub error_message: Option<String>,
    /// The name of the policy of its error, if it has one, possibly truncated.
    pub policy: Option<String>,
    /// SQS's handle of the message while it is in flight; a delayed message has none.
    pub receipt_handle: Option<String>,
    pub order: Option<Order>,
}

impl Entry {
    /// The request id of the run that failed, or the message id that takes its place.
    pub fn request_id(&self) -> &str {
        &self.key.run
    }

    /// Whether it is listed: its message may still come back, or an order waits for it. An item may be kept for longer,
    /// because it says more than that.
    pub fn is_listed(&self, now: Timestamp) -> bool {
        self.order.is_some() || now <= later(self.due, OVERDUE_MAX)
    }
}

/// The key of a target's item. That of a run begins with an ARN.
pub fn target_key(target: &str) -> Key {
    Key { id: format!("{TARGET}{target}"), run: "target".to_owned() }
}

/// The target whose item this is, if it is a target's.
pub fn target_of(id: &str) -> Option<&str> {
    id.strip_prefix(TARGET)
}

const TARGET: &str = "target/";

/// The decision about an event, given an operator's order for it.
pub fn apply_order(decision: Decision, order: Option<Order>) -> Decision {
    match (decision, order) {
        (_, Some(Order::Cancel)) => Decision::Settle(Settlement::DeadLetter(Reason::Cancelled)),
        (Decision::Settle(Settlement::Wait { .. }), Some(Order::Retry)) => Decision::Invoke,
        (decision, _) => decision,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn an_operators_order_changes_what_is_decided() {
        let wait = |minutes| Settlement::Wait { until: later(NOW, Duration::from_mins(minutes)) };
        let (waits, given_up) =
            (Decision::Settle(wait(60)), |reason| Decision::Settle(Settlement::DeadLetter(reason)));
        let (late, cancelled) = (given_up(Reason::MaxAgeExceeded), given_up(Reason::Cancelled));
        let (retry, cancel) = (Some(Order::Retry), Some(Order::Cancel));
        for (decision, order, expected) in [
            (waits, None, waits),
            (waits, retry, Decision::Invoke),
            (waits, cancel, cancelled),
            (Decision::Invoke, None, Decision::Invoke),
            (Decision::Invoke, retry, Decision::Invoke),
            (Decision::Invoke, cancel, cancelled),
            (late, None, late),
            (late, retry, late),
            (late, cancel, cancelled),
        ] {
            assert_eq!(apply_order(decision, order), expected, "{decision:?} {order:?}");
        }
    }

    #[test]
    fn an_item_says_what_waits_for_what_and_why() {
        let body = testing::record_of(&testing::envelope(4, 1_573_755_000, "first-id", "[1]"))
            .replace("\"errorMessage\"", r#""errorType":"Down","errorMessage""#);
        let message = testing::message(&body);
        let failure = testing::read(&message);
        let attempt = Attempt::FIRST.next();
        let waiting = Waiting::of(
            &failure,
            Some("Down of orders"),
            attempt,
            NOW,
            "https://sqs/1/retry",
            Some("handle"),
        );
        assert_eq!(waiting.target, failure.target.as_str());
        assert_eq!(waiting.event_id, "first-id");
        assert_eq!(waiting.first_failure.timestamp(), 1_573_755_000);
        assert_eq!(waiting.error_type, Some("Down"));
        assert_eq!(waiting.policy, Some("Down of orders"));
        assert_eq!(waiting.expires_at(), later(NOW, Duration::from_hours(24)));
        assert_eq!(target_of(&target_key(waiting.target).id), Some(failure.target.as_str()));
        assert_eq!(target_of(&failure.key().id), None);
    }

    #[test]
    fn long_errors_are_cut_between_characters() {
        let long = "ü".repeat(1000);
        let body = testing::record_of("1").replace(
            "\"errorMessage\":\"",
            &format!(r#""errorType":"{long}","errorMessage":"a{long}"#),
        );
        let message = testing::message(&body);
        let failure = testing::read(&message);
        let waiting = Waiting::of(&failure, Some(&long), Attempt::FIRST, NOW, "url", None);
        assert_eq!(waiting.policy.map(str::len), Some(100));
        assert_eq!(waiting.error_type.map(str::len), Some(100));
        assert_eq!(waiting.error_message.map(str::len), Some(199));
    }
}
