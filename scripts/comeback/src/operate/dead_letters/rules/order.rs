//! What an order does with each letter.

use std::borrow::Cow;

use comeback_core::{
    Timestamp,
    attribute::Attribute,
    envelope::RetryMetadata,
    settings::{Policies, policy::Policy},
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    letter::{ANY, Facts, Letter, Origin},
    pointer::PointerValue,
    selection::Selection,
};

use crate::account::names::{function_name, is_queue};

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Order {
    pub selection: Selection,
    /// When the order was given. Letters sent later stay: they may be about events that this order has redriven.
    pub given_at: Timestamp,
    pub action: Action,
    /// The policies of the retry handlers that send letters to the queue: where they find the tenant id in a payload,
    /// and which functions are durable.
    pub policies: Vec<Policies>,
}

/// A redrive invokes the letter's function with the payload, or sends the payload to the letter's queue. `to` names
/// another function or queue. The letter is deleted once Lambda or SQS has accepted its event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    Redrive { to: Option<String>, set: Vec<PointerValue>, payload: Option<String> },
    Purge,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Redrive {
    /// The name or the ARN of the function, with an optional qualifier, or of the queue.
    pub target: String,
    pub payload: String,
    pub call: Call,
}

/// How a letter's event is sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Call {
    /// Its function is invoked, with a tenant id if it has tenants, and a name of the execution if it is durable.
    Invoke { tenant_id: Option<String>, execution_name: Option<String> },
    /// Its queue is sent a message with these attributes.
    Send(Vec<Attribute<'static>>),
}

impl Default for Call {
    fn default() -> Self {
        Self::Invoke { tenant_id: None, execution_name: None }
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Step {
    /// The function is invoked or the queue is sent the message, then the letter is deleted.
    Redrive(Redrive),
    Delete,
    Leave(StayReason),
}

#[derive(Clone, Copy, Debug, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StayReason {
    NotSelected,
    Newer,
    NoFunction,
    NoPayload,
    NoAttributes,
    /// Its body was cut, because it left no room for the attributes.
    Cut,
    /// EventBridge Scheduler has kept only a part of the payload.
    Truncated,
    /// It is in a bucket that the operator can't read.
    InBucket,
    /// The retry handler was not allowed to retry its target or has not sent the letter, and the operator did not
    /// name the target.
    NotAllowed,
    NotSet,
    NoTenant,
    /// Several retry handlers send letters to this queue, and they would invoke the function in different ways.
    Ambiguous,
    Refused,
    Failed,
}

impl StayReason {
    /// Whether the order is about the letter.
    pub fn is_selected(self) -> bool {
        !matches!(self, Self::NotSelected | Self::Newer)
    }

    /// The reason as text, with what to do about it.
    pub fn text(self) -> &'static str {
        match self {
            Self::NotSelected => "not selected",
            Self::Newer => "sent after this command began",
            Self::NoFunction => "names no function or queue: pass --to",
            Self::NoPayload => "has no JSON payload",
            Self::NoAttributes => "its OriginalAttributes are not the attributes of a message",
            Self::Cut => "its body is not whole: the message was too large for a letter",
            Self::Truncated => {
                "EventBridge has kept only a part of its payload: send the whole event from where it came"
            }
            Self::InBucket => {
                "its payload is in a bucket that can't be read: see its payload_location, or use SQS's redrive"
            }
            Self::NotAllowed => {
                "the handler does not vouch for its target: name the target with --function or --to"
            }
            Self::NotSet => "its payload has no place for --set",
            Self::NoTenant => {
                "its payload has no tenant id that Lambda accepts at the place of TENANT_ID: pass --set"
            }
            Self::Ambiguous => {
                "the retry handlers of this queue have different TENANT_ID or DURABLE for its function: pass --handler"
            }
            Self::Refused => "Lambda or SQS refuses it",
            Self::Failed => "its function can't be invoked, or its queue can't be sent to",
        }
    }
}

impl Order {
    /// The facts about a letter, as the retry handler would read it.
    pub fn facts(&self, letter: &Letter) -> Facts {
        let to = match &self.action {
            Action::Redrive { to, .. } => to.as_deref(),
            Action::Purge => None,
        };
        match self.policies.first() {
            Some(policies) => letter.facts_by(policies, to.map_or(ANY, function_name)),
            None => letter.facts(),
        }
    }

    pub fn step(&self, letter: &Letter, now: Timestamp) -> Step {
        let facts = self.facts(letter);
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
        let original = is_queue.then(|| match facts.origin {
            // Those that it has are EventBridge's.
            Origin::Undelivered => Some(Vec::new()),
            Origin::GivenUp | Origin::Moved | Origin::Lambda | Origin::Unknown => {
                letter.original_attributes()
            }
        });
        let attributes = original.map(|it| it.ok_or(StayReason::NoAttributes)).transpose()?;
        let none = match (facts.original_bytes, &facts.payload_location) {
            _ if facts.is_truncated => StayReason::Truncated,
            (Some(_), _) => StayReason::Cut,
            (None, Some(_)) => StayReason::InBucket,
            (None, None) => StayReason::NoPayload,
        };
        let is_whole = is_queue && none == StayReason::NoPayload;
        let body = || is_whole.then(|| letter.body.clone());
        let payload = payload.or(facts.payload).or_else(body).ok_or(none)?;
        let set = set.iter().try_fold(payload, |payload, place| place.set(&payload));
        let payload = set.ok_or(StayReason::NotSet)?;
        let call = match attributes {
            Some(attributes) => Call::Send(attributes),
            None => self.invocation(letter, &target, &payload)?,
        };
        Ok(Redrive { target, payload, call })
    }

    /// The invocation of a function, as the retry handler would make it. The execution of a durable function is named
    /// after the letter: if the letter is redriven twice, because the first redrive was killed, it is executed once.
    fn invocation(&self, letter: &Letter, target: &str, payload: &str) -> Result<Call, StayReason> {
        let name = function_name(target);
        let mut policies = self.policies.iter().map(|policies| policies.of(name));
        let Some(policy) = policies.next() else { return Ok(Call::default()) };
        let call = |policy: &Policy| (policy.tenant_id.clone(), policy.durable);
        if policies.any(|other| call(other) != call(policy)) {
            return Err(StayReason::Ambiguous);
        }
        let first = RetryMetadata::first(self.given_at, &letter.id);
        let execution_name = policy.durable.then(|| first.execution_name(&letter.id));
        let mut tenant_id = None;
        if policy.tenant_id.is_some() {
            let payload = serde_json::from_str(payload).map_err(|_| StayReason::NoTenant)?;
            let found = policy.tenant(payload).map_err(|_| StayReason::NoTenant)?;
            tenant_id = found.map(Cow::into_owned);
        }
        Ok(Call::Invoke { tenant_id, execution_name })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use comeback_core::{attribute::Value, record::SOURCE_ARN, settings::Settings, time};

    use super::*;

    use crate::{
        filter::FailureFilter,
        operate::dead_letters::rules::letter::tests::{
            IMPORTS, ORDERS, RECORD, RULE, bare, given_up, of_queue, undelivered,
        },
    };

    fn of(function: &str) -> Selection {
        let functions = vec![function.to_owned()];
        let failures = FailureFilter { functions, ..FailureFilter::default() };
        Selection { failures, ..Selection::default() }
    }

    fn redrive(selection: Selection, to: Option<&str>, set: &[&str]) -> Order {
        let set = set.iter().map(|text| PointerValue::parse(text).unwrap()).collect();
        let action = Action::Redrive { to: to.map(str::to_owned), set, payload: None };
        let given_at = time::parse("2026-01-01T11:00:00Z").unwrap();
        Order { selection, given_at, action, policies: Vec::new() }
    }

    fn step(order: &Order, letter: &Letter) -> Step {
        order.step(letter, order.given_at)
    }

    fn invoke(function: &str, payload: &str) -> Step {
        let (target, payload) = (function.to_owned(), payload.to_owned());
        Step::Redrive(Redrive { target, payload, call: Call::default() })
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

        let record = bare(RECORD, &[]);
        let named = redrive(of("my-*"), None, &[]);
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
            Step::Redrive(Redrive { target, payload, call: Call::Send(attributes.to_vec()) })
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
        let named = redrive(of("sqs:imp*"), None, &[]);
        assert_eq!(step(&named, &refused), sent(IMPORTS, std::slice::from_ref(&key)));

        let moved = Letter { attributes: vec![key.clone()], ..bare("no JSON", &[]) };
        assert_eq!(step(&all(None), &moved), Step::Leave(StayReason::NotAllowed));
        assert_eq!(step(&all(Some("sqs:imports")), &moved), sent("sqs:imports", &[key]));
    }

    #[test]
    fn an_event_that_was_never_delivered_is_sent_to_its_one_target_as_it_is() {
        let all = redrive(Selection::default(), None, &[]);
        let event =
            r#"{"_retry_metadata":{"attempt":1,"initial_timestamp":1},"_original_payload":7}"#;
        let source = [(SOURCE_ARN, RULE)];
        let sent = |payload: &str| {
            let (target, payload) = (IMPORTS.to_owned(), payload.to_owned());
            Step::Redrive(Redrive { target, payload, call: Call::Send(Vec::new()) })
        };
        assert_eq!(step(&all, &given_up(event, &source)), invoke(ORDERS, event));
        assert_eq!(step(&all, &of_queue("no JSON", &source)), sent("no JSON"));
        for (name, target, expected) in
            [("orders", ORDERS, invoke(ORDERS, event)), ("sqs:imports", IMPORTS, sent(event))]
        {
            // EventBridge's own message: anybody may have sent it.
            let letter = undelivered(event, target);
            assert_eq!(step(&all, &letter), Step::Leave(StayReason::NotAllowed));
            assert_eq!(step(&redrive(of(name), None, &[]), &letter), expected);
        }
    }

    #[test]
    fn a_part_of_a_payload_is_never_redriven_unless_somebody_writes_the_whole() {
        let cut = [("Reason", "payload_truncated"), (SOURCE_ARN, RULE)];
        let mut raw = undelivered("7", IMPORTS);
        raw.attributes.push(Attribute::text("IS_PAYLOAD_TRUNCATED", "true"));
        for letter in [given_up("7", &cut), of_queue("7", &cut), raw] {
            for (selection, to) in [(of("*"), None), (Selection::default(), Some("sqs:imports"))] {
                let mut order = redrive(selection, to, &[]);
                assert_eq!(step(&order, &letter), Step::Leave(StayReason::Truncated));
                if let Action::Redrive { payload, .. } = &mut order.action {
                    *payload = Some("[7]".to_owned());
                }
                let Step::Redrive(redrive) = step(&order, &letter) else { panic!("{letter:?}") };
                assert_eq!(redrive.payload, "[7]");
            }
        }
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
        let other = redrive(of("mail"), None, &[]);
        assert_eq!(step(&other, &given_up("1", &[])), Step::Leave(StayReason::NotSelected));
    }

    #[test]
    fn a_function_for_which_nobody_vouches_is_invoked_only_if_the_operator_names_it() {
        // Its sender wrote the attributes, and SQS moved it as it was.
        let forged = Letter { was_moved: true, ..given_up("1", &[]) };
        let moved = RECORD.replace("my-function", "orders").replace("us-east-2", "us-east-1");
        for letter in [
            forged,
            given_up("1", &[("Reason", "target_not_allowed")]),
            bare(&moved, &[]),
            bare("1", &[("FunctionArn", ORDERS)]),
        ] {
            let is_invoked = |selection, to| match step(&redrive(selection, to, &[]), &letter) {
                Step::Redrive(redrive) => redrive.target.contains(":orders"),
                Step::Delete | Step::Leave(_) => false,
            };
            assert!(is_invoked(of("orders"), None), "{letter:?}");
            assert!(is_invoked(Selection::default(), Some(ORDERS)), "{letter:?}");
            let reasons = ["target_not_allowed", "none"].map(str::to_owned).into();
            assert!(!is_invoked(Selection { reasons, ..Selection::default() }, None), "{letter:?}");
            assert!(!is_invoked(Selection::default(), None), "{letter:?}");
        }
    }

    /// The policies of a handler with these settings.
    fn policies(settings: &[(&str, &str)]) -> Policies {
        let dead_letters = ("DEAD_LETTER_QUEUE_URL", "https://sqs.us-east-1.amazonaws.com/1/dead");
        let all: BTreeMap<_, _> = settings.iter().copied().chain([dead_letters]).collect();
        let read = Settings::from_lookup(|name| all.get(name).map(|&it| it.to_owned()));
        read.unwrap().rules.policies
    }

    #[test]
    fn a_letter_of_a_tenant_is_redriven_with_the_tenant_id_that_the_handler_would_send() {
        let tenants = policies(&[("POLICIES", r#"{"orders":{"TENANT_ID":"/tenant/id"}}"#)]);
        let redrive = |to, set: &[&str], policies: &[&Policies]| {
            let policies = policies.iter().map(|&it| it.clone()).collect();
            Order { policies, ..redrive(Selection::default(), to, set) }
        };
        let invoked = |order: &Order, letter: &Letter| {
            let step = step(order, letter);
            if let Step::Leave(left) = step {
                return Err(left);
            }
            let Step::Redrive(Redrive { call: Call::Invoke { tenant_id, .. }, .. }) = step else {
                panic!("{step:?}");
            };
            Ok(tenant_id)
        };
        let blue = given_up(r#"{"tenant":{"id":"blue"}}"#, &[]);
        let none = given_up("{\"tenant\":{}}", &[]);
        let of = |tenant: &str| Ok(Some(tenant.to_owned()));
        let own = redrive(None, &[], &[&tenants]);
        assert_eq!(invoked(&own, &blue), of("blue"));
        assert_eq!(invoked(&own, &none), Err(StayReason::NoTenant));
        let set = redrive(None, &["/tenant/id=red"], &[&tenants]);
        assert_eq!((invoked(&set, &blue), invoked(&set, &none)), (of("red"), of("red")));
        for (to, expected) in [
            ("orders:live", of("blue")),
            ("123456789012:function:orders", of("blue")),
            ("arn:aws:lambda:us-east-1:123456789012:function:orders", of("blue")),
            ("mails", Ok(None)),
        ] {
            assert_eq!(invoked(&redrive(Some(to), &[], &[&tenants]), &blue), expected, "{to}");
        }
        let others = policies(&[]);
        assert_eq!(invoked(&redrive(None, &[], &[&tenants, &tenants]), &blue), of("blue"));
        let several = redrive(None, &[], &[&tenants, &others]);
        assert_eq!(invoked(&several, &blue), Err(StayReason::Ambiguous));
        // A payload that looks like the envelope of another tenant's event ran as its own tenant.
        let other =
            r#"{"attempt":1,"initial_timestamp":1},"_original_payload":{"tenant":{"id":"B"}}}"#;
        let envelope = format!(r#"{{"_retry_metadata":{other}"#);
        let forged = envelope.replacen('{', r#"{"tenant":{"id":"A"},"#, 1);
        let payload = format!(r#""requestPayload":{forged},"was""#);
        let record =
            RECORD.replace("my-function", "orders").replace("\"requestPayload\"", &payload);
        let moved = Letter { was_moved: true, ..bare(&record, &[]) };
        let lambdas = bare(&forged, &[("RequestID", "r-1")]);
        let to = redrive(Some("orders"), &[], &[&tenants]);
        for letter in [given_up(&forged, &[]), moved, lambdas] {
            assert_eq!(invoked(&to, &letter), of("A"), "{letter:?}");
        }
        assert_eq!(invoked(&own, &given_up(&envelope, &[])), of("B"));
        let text = of_queue("no JSON", &[]);
        let to_orders = redrive(Some("orders"), &[], &[&tenants]);
        assert_eq!(invoked(&to_orders, &text), Err(StayReason::NoTenant));
    }

    #[test]
    fn the_execution_of_a_durable_function_has_the_same_name_in_each_redrive_of_a_letter() {
        let durable = policies(&[("POLICIES", r#"{"orders":{"DURABLE":"true"}}"#)]);
        let order = |given_at| {
            let policies = vec![durable.clone()];
            Order { policies, given_at, ..redrive(Selection::default(), None, &[]) }
        };
        let name = |order: &Order, letter: &Letter| {
            let step = step(order, letter);
            let Step::Redrive(Redrive { call: Call::Invoke { execution_name, .. }, .. }) = step
            else {
                panic!("{step:?}");
            };
            execution_name
        };
        let times = ["2026-01-01T11:00:00Z", "2026-01-09T00:00:00Z"];
        let [first, again] = times.map(|at| order(time::parse(at).unwrap()));
        let letter = given_up("1", &[]);
        assert_eq!(name(&first, &letter).as_deref(), Some("message-1"));
        assert_eq!(name(&again, &letter), name(&first, &letter));
        let other = Letter { id: "other".to_owned(), ..letter };
        assert_ne!(name(&first, &other), name(&first, &given_up("1", &[])));
    }
}
