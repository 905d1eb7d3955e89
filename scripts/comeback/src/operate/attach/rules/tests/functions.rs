//! Plans for a function, and refusals.

use std::{cell::RefCell, collections::BTreeMap, future::ready, time::Duration};

use comeback_core::time::between;
use futures_util::FutureExt as _;
use serde_json::{Value, json};

use super::{DEAD, HOME, queue};

use crate::{
    account::{
        fault::{Answer, Clock, Fault},
        function::{InvokeConfig, Unsupported, tests::with},
    },
    operate::{
        attach::rules::{
            admission::send_statements,
            carry_out::carry_out,
            facts::Facts,
            functions::{attach, detach},
            order::{Order, parse},
            refusal::Refusal,
            steps::{Planned, Step},
        },
        waiting::rules::stand_in::{StandIn, second},
    },
};

/// A system with a shared queue, and a function that was never attached.
pub fn facts() -> Facts {
    Facts {
        handler: with("handler", "DEAD_LETTER_QUEUE_URL", DEAD),
        handler_tags: BTreeMap::new(),
        queues: vec![queue("retry")],
        others: BTreeMap::from([(format!("arn:aws:sqs:{HOME}:other"), "other-handler".to_owned())]),
        function: with("orders", "TABLE", "t"),
        tags: BTreeMap::new(),
        config: None,
        may_loop: Ok(false),
        send_policy: Ok(None),
        invoke_policy: Ok(None),
        records: None,
        streams: Vec::new(),
    }
}

fn apply(facts: &mut Facts, step: &Step) {
    match step.clone() {
        Step::Tag { tags, .. } => facts.tags.extend(tags),
        Step::Untag { keys, .. } => facts.tags.retain(|key, _| !keys.contains(key)),
        Step::Allow { policy, document, .. } => *policy_of(facts, &policy) = Ok(Some(document)),
        Step::Disallow { policy, .. } => *policy_of(facts, &policy) = Ok(None),
        Step::QueuePolicy { url, policy } => {
            let queue = facts.queues.iter_mut().find(|queue| queue.url == url).unwrap();
            queue.attributes.policy = Some(policy).filter(|policy| !policy.is_empty());
        }
        Step::Configure { environment, .. } => facts.handler.environment = environment,
        Step::Loop { allow, .. } => facts.may_loop = Ok(allow),
        Step::Notify { id, queue, prefix, .. } => {
            let bucket = facts.records.as_mut().unwrap();
            bucket.notifications = match prefix {
                Some(prefix) => bucket.notifications.with(&id, &queue, &prefix),
                None => bucket.notifications.without(&id),
            };
        }
        Step::Stream { uuid, to, retries, .. } => {
            let stream = facts.streams.iter_mut().find(|it| it.uuid == uuid).unwrap();
            stream.on_failure = Some(to).filter(|to| !to.is_empty());
            stream.is_endless = retries.map_or(stream.is_endless, |it| it < 0);
        }
        Step::Invocations { config, .. } => facts.config = config,
        Step::QueueAttribute { .. }
        | Step::Create { .. }
        | Step::Map { .. }
        | Step::DeadLetters { .. }
        | Step::Unmap { .. } => panic!("only for a queue: {step:?}"),
    }
}

/// The facts after these steps.
pub fn after(facts: &Facts, steps: &[Planned]) -> Facts {
    let mut facts = facts.clone();
    steps.iter().for_each(|planned| apply(&mut facts, &planned.step));
    facts
}

fn policy_of<'a>(facts: &'a mut Facts, policy: &str) -> &'a mut Answer<Option<String>> {
    if policy.contains("-send-") { &mut facts.send_policy } else { &mut facts.invoke_policy }
}

pub fn parts(steps: &[Planned]) -> Vec<&str> {
    steps.iter().map(|planned| planned.what.as_str()).collect()
}

pub fn state(facts: &Facts) -> String {
    format!("{facts:?}")
}

pub fn set(facts: &mut Facts, name: &str, value: &str) {
    facts.handler.environment.insert(name.to_owned(), value.to_owned());
}

fn going_to(destination: &str) -> Option<InvokeConfig> {
    Some(InvokeConfig { on_failure: Some(destination.to_owned()), ..InvokeConfig::default() })
}

fn aged(retries: Option<u32>, on_success: Option<&str>) -> Option<InvokeConfig> {
    let (age_max, on_success) = (Some(Duration::from_hours(1)), on_success.map(str::to_owned));
    Some(InvokeConfig { retries, age_max, on_success, ..InvokeConfig::default() })
}

/// Has the queue deny an action under this condition, or to everyone.
pub fn close(facts: &mut Facts, action: &str, condition: Option<Value>) {
    let mut statement = json!({ "Effect": "Deny", "Principal": "*", "Action": action });
    statement["Condition"] = condition.unwrap_or(json!({}));
    facts.queues[0].attributes.policy = Some(json!({ "Statement": [statement] }).to_string());
}

pub type Change = fn(&mut Facts);

pub const VARIANTS: [(&str, Change); 11] = [
    ("as it is", |_| {}),
    ("a destination on success", |it| it.config = aged(Some(1), Some("arn:aws:sns:x:1:done"))),
    ("an event age only", |it| it.config = aged(None, None)),
    ("another destination", |it| it.config = going_to("arn:aws:sns:x:1:failed")),
    ("a list of functions", |it| set(it, "TARGET_FUNCTIONS", "billing, mail-*")),
    ("queues that are bound", |it| set(it, "QUEUE_TARGETS", r#"{"retry":["billing","mail"]}"#)),
    ("a closed queue", |it| {
        let unless_a = json!({ "ArnNotEquals": { "aws:PrincipalArn": ["a"] } });
        close(it, "sqs:SendMessage", Some(unless_a));
    }),
    ("a loop that is allowed", |it| it.may_loop = Ok(true)),
    ("policies of others", |it| set(it, "POLICIES", r#"{"mail":{"MAX_AGE":"7d"}}"#)),
    ("a policy of its own", |it| {
        set(it, "POLICIES", r#"{"orders":{"TRANSPARENT":"false","MAX_AGE":"7d"}}"#)
    }),
    ("a ledger", |it| {
        set(it, "LEDGER_TABLE", "arn:aws:dynamodb:us-east-1:123456789012:table/ledger")
    }),
];

pub fn order() -> Order {
    Order { replace: true, ..Order::default() }
}

/// An order for a function without envelopes.
fn transparent() -> Order {
    Order { replace: true, transparent: true, ..Order::default() }
}

#[test]
fn each_plan_can_stop_after_any_step_and_be_continued_and_a_detached_function_is_as_before() {
    let enveloped = VARIANTS.map(|(name, change)| (name, change, order()));
    let noted = VARIANTS.map(|(name, change)| (name, change, transparent()));
    for (name, change, order) in enveloped.into_iter().chain(noted) {
        let mut before = facts();
        if order.transparent {
            set(&mut before, "LEDGER_TABLE", "ledger");
        }
        change(&mut before);
        let plan = attach(&before, &order).unwrap().steps;
        let end = after(&before, &plan);
        for stop in 0..=plan.len() {
            let stopped = after(&before, &plan[..stop]);
            let rest = attach(&stopped, &order).unwrap().steps;
            assert_eq!(parts(&rest), parts(&plan[stop..]), "{name}, stopped after {stop}");
            assert_eq!(state(&after(&stopped, &rest)), state(&end), "{name}, stopped after {stop}");
        }
        let back = detach(&end, None, false).unwrap().steps;
        for stop in 0..=back.len() {
            let mut facts = after(&end, &back[..stop]);
            if stop < back.len() {
                facts = after(&facts, &detach(&facts, None, false).unwrap().steps);
            }
            let list = facts.handler.environment.get_mut("TARGET_FUNCTIONS");
            // Ignore spaces in lists.
            list.into_iter().for_each(|list| *list = list.replace(',', ", "));
            assert_eq!(state(&facts), state(&before), "{name}, stopped after {stop}");
        }
    }
}

#[test]
fn waiting_events_keep_their_settings_and_permissions_until_the_queue_is_empty() {
    let mut facts = facts();
    set(&mut facts, "TARGET_FUNCTIONS", "billing");
    let mut facts = after(&facts, &attach(&facts, &Order::default()).unwrap().steps);
    facts.queues[0].attributes.visible = 3;
    let first = detach(&facts, None, false).unwrap();
    assert_eq!((parts(&first.steps), first.waiting), (vec!["orders: asynchronous invocations"], 3));
    let now = detach(&facts, None, true).unwrap();
    assert_eq!((now.steps.len(), now.waiting), (6, 0));
    let mut facts = after(&facts, &first.steps);
    facts.queues[0].attributes.visible = 0;
    let rest = detach(&facts, None, false).unwrap();
    assert_eq!((rest.steps.len(), rest.waiting), (5, 0));
}

#[test]
fn aliases_of_a_function_are_attached_and_detached_separately() {
    let live = Order { function: parse("orders:live").ok(), ..Order::default() };
    let facts = facts();
    let mut facts = after(&facts, &attach(&facts, &Order::default()).unwrap().steps);
    (facts.config, facts.send_policy, facts.invoke_policy) = (None, Ok(None), Ok(None));
    let plan = attach(&facts, &live).unwrap().steps;
    assert_eq!(parts(&plan)[1], "role orders-role: policy comeback-send-orders.live");
    let facts = after(&facts, &plan);
    let back = detach(&facts, None, false).unwrap().steps;
    assert!(!parts(&back).contains(&"orders: RecursiveLoop"), "the alias needs it: {back:#?}");
    assert_eq!(after(&facts, &back).tags.keys().collect::<Vec<_>>(), ["comeback:before:live"]);
}

#[test]
fn any_function_is_transparent_with_a_ledger_and_stays_as_it_is() {
    let changes: [(&str, Change); 3] = [
        ("managed", |_| {}),
        ("an image", |it| it.function.runtime = None),
        ("a custom runtime", |it| it.function.runtime = Some("provided.al2023".into())),
    ];
    for (name, change) in changes {
        let mut before = facts();
        set(&mut before, "LEDGER_TABLE", "ledger");
        change(&mut before);
        let end = after(&before, &attach(&before, &transparent()).unwrap().steps);
        assert_eq!(end.function, before.function, "{name}");
        let policies = end.handler.environment.get("POLICIES").map(String::as_str);
        assert_eq!(policies, Some(r#"{"orders":{"TRANSPARENT":"true"}}"#), "{name}");
        let may: Value =
            serde_json::from_str(end.invoke_policy.unwrap().as_deref().unwrap()).unwrap();
        let table = format!("arn:aws:dynamodb:{HOME}:table/ledger");
        let actions = ["UpdateItem", "DeleteItem", "BatchGetItem", "Query"];
        let actions = actions.map(|it| format!("dynamodb:{it}"));
        assert_eq!(may["Statement"][1]["Action"], json!(actions), "{name}");
        assert_eq!(may["Statement"][1]["Resource"], json!([table]), "{name}");
    }
}

#[test]
fn an_attached_function_becomes_transparent_later_and_is_as_before_when_it_is_detached() {
    let mut before = facts();
    set(&mut before, "LEDGER_TABLE", "ledger");
    set(&mut before, "TARGET_FUNCTIONS", "billing");
    let attached = after(&before, &attach(&before, &Order::default()).unwrap().steps);
    let plan = attach(&attached, &transparent()).unwrap();
    let expected =
        ["orders: tags", "role handler-role: policy comeback-invoke-orders", "handler: variables"];
    assert_eq!(parts(&plan.steps), expected);
    assert!(plan.warnings[0].contains("refuses TRANSPARENT in POLICIES"), "{:?}", plan.warnings);
    let end = after(&attached, &plan.steps);
    assert!(attach(&end, &Order::default()).unwrap().steps.is_empty(), "it stays transparent");
    let envelope = Order { envelope: true, ..Order::default() };
    let with_envelope = after(&end, &attach(&end, &envelope).unwrap().steps);
    assert_eq!(with_envelope.handler.environment, attached.handler.environment);
    let back = after(&with_envelope, &detach(&with_envelope, None, false).unwrap().steps);
    assert_eq!(state(&back), state(&before), "as if it had never been transparent");
    let mut general = attached;
    set(&mut general, "TRANSPARENT", "true");
    let with_envelope = after(&general, &attach(&general, &envelope).unwrap().steps);
    let policies = &with_envelope.handler.environment["POLICIES"];
    assert_eq!(policies, r#"{"orders":{"TRANSPARENT":"false"}}"#);
    let back = after(&end, &detach(&end, None, false).unwrap().steps);
    assert_eq!(state(&back), state(&before));
}

#[test]
fn a_value_that_somebody_changed_stays_when_the_function_is_detached() {
    let mut before = facts();
    set(&mut before, "LEDGER_TABLE", "ledger");
    let mut end = after(&before, &attach(&before, &transparent()).unwrap().steps);
    let changed = r#"{"orders":{"TRANSPARENT":"false"}}"#;
    set(&mut end, "POLICIES", changed);
    let back = after(&end, &detach(&end, None, false).unwrap().steps);
    assert_eq!(back.handler.environment["POLICIES"], changed);
}

#[test]
fn a_handler_without_a_ledger_has_no_transparent_functions_and_the_refusal_names_both_ways_out() {
    let refusal = attach(&facts(), &transparent()).unwrap_err().to_string();
    for part in ["handler has no LEDGER_TABLE: switch its ledger on", "or leave --transparent out"]
    {
        assert!(refusal.contains(part), "{part}: {refusal}");
    }
}

type Contradiction = fn(&mut Facts, &mut Order);

/// What `attach` refuses, each with a part of the reason.
const CONTRADICTIONS: [(Contradiction, &str); 12] = [
    (|it, _| it.function = it.handler.clone(), "the retry handler can't be attached to itself"),
    (|_, order| order.queue = Some("x".into()), "in --queue, got x; it has retry"),
    (|it, _| it.queues.clear(), "functions share no single retry queue, there is none"),
    (|it, _| it.queues.push(queue("b")), "there is retry, b; choose a queue with --queue"),
    (|it, _| set(it, "QUEUE_TARGETS", r#"{"retry":["billing"]}"#), "there is none; choose a queue"),
    (
        |it, order| {
            it.config = going_to("arn:aws:sns:x:1:y");
            order.replace = false;
        },
        "already go to arn:aws:sns:x:1:y; pass --replace",
    ),
    (
        |it, _| it.config = going_to("arn:aws:sqs:us-east-1:123456789012:other"),
        "other is the retry queue of other-handler",
    ),
    (|it, _| it.config = going_to(&"x".repeat(257)), "has 257 characters"),
    (|it, _| set(it, "MAX_AGE", "x"), "handler would not start with these settings"),
    (|it, _| set(it, "TARGET_FUNCTIONS", &"a,".repeat(2040)), "and Lambda takes 4096"),
    (|it, _| close(it, "sqs:*", None), "change it by hand"),
    (
        |it, _| it.send_policy = Err(denied()),
        "needs the permission iam:GetRolePolicy on orders-role",
    ),
];

#[test]
fn contradictions_are_refused() {
    for (change, part) in CONTRADICTIONS {
        let (mut facts, mut order) = (facts(), order());
        change(&mut facts, &mut order);
        let refusal = attach(&facts, &order).unwrap_err().to_string();
        assert!(refusal.contains(part), "{part} is not in {refusal}");
    }
    assert_eq!(detach(&facts(), None, false), Err(Refusal::NotAttached));
}

fn denied() -> Fault {
    fault("AccessDenied", "no")
}

fn fault(code: &str, message: &str) -> Fault {
    Fault::of("iam:GetRolePolicy", "orders-role", code, message)
}

#[test]
fn other_managers_and_omitted_steps_lead_to_warnings() {
    let mut facts = facts();
    facts.tags.insert("aws:cloudformation:stack-name".into(), "shop".into());
    facts.handler_tags.insert("managed-by".into(), "Terraform".into());
    facts.function.dead_letter_target = Some("arn:aws:sqs:x:1:y".into());
    facts.queues[0].attributes.key = Some("alias/own".into());
    facts.send_policy = Err(fault("UnsupportedOperation", ""));
    let order = Order { function: parse("orders:live").ok(), ..order() };
    let warnings = attach(&facts, &order).unwrap().warnings;
    let parts = [
        "the stack shop manages orders",
        "Terraform manages handler",
        "dead-letter queue of its own",
        "retry has the key alias/own: let orders-role use it (kms:GenerateDataKey, kms:Decrypt)",
        "steps that need iam:GetRolePolicy are left out",
    ];
    assert!(warnings.iter().zip(parts).all(|(it, part)| it.contains(part)), "{warnings:#?}");
    assert_eq!(warnings.len(), parts.len());
}

#[test]
fn a_function_of_a_kind_that_can_not_be_retried_is_refused_with_the_reason() {
    for unsupported in [Unsupported::TenantIsolation, Unsupported::Durable] {
        let mut facts = facts();
        facts.function.unsupported = Some(unsupported);
        assert_eq!(attach(&facts, &order()), Err(Refusal::Unsupported(unsupported)));
        facts.handler.environment.insert("TENANT_ID".to_owned(), "/tenant/id".to_owned());
        let is_durable = unsupported == Unsupported::Durable;
        assert_eq!(attach(&facts, &order()).is_err(), is_durable, "{unsupported}");
    }
}

#[test]
fn a_queue_with_a_key_needs_permissions_on_the_key() {
    for (key, expected) in [
        (None, None),
        (Some("alias/aws/sqs"), None),
        (Some("1234"), Some(format!("arn:aws:kms:{HOME}:key/1234"))),
        (Some("arn:aws:kms:x:1:key/2"), Some("arn:aws:kms:x:1:key/2".to_owned())),
    ] {
        let mut queue = queue("retry");
        queue.attributes.key = key.map(str::to_owned);
        let statements = send_statements(&facts().function.arn, &queue);
        let on_key = statements.get(1).map(|it| it["Resource"].as_str().unwrap().to_owned());
        assert_eq!(on_key, expected);
    }
}

#[test]
fn a_function_name_may_have_an_alias() {
    let arn = format!("arn:aws:lambda:{HOME}:function:orders");
    for (text, expected) in [
        ("orders", Some(("orders", None))),
        ("orders:live", Some(("orders", Some("live")))),
        ("orders:$LATEST", Some(("orders", None))),
        (arn.as_str(), Some(("orders", None))),
        (&format!("{arn}:7"), Some(("orders", Some("7")))),
        ("orders:", None),
        ("a b", None),
    ] {
        let expected = expected
            .map(|(name, it): (&str, Option<&str>)| (name.to_owned(), it.map(str::to_owned)));
        assert_eq!(parse(text).ok(), expected, "{text}");
    }
}

#[test]
fn a_plan_waits_for_new_permissions_and_stops_at_any_other_fault() {
    let plan = attach(&facts(), &Order::default()).unwrap().steps;
    let carried_out = |faults: Vec<Fault>| {
        let (faults, clock) = (RefCell::new(faults), StandIn::of([]));
        let change = |_: Step| ready(faults.borrow_mut().pop().map_or(Ok(()), Err));
        let ended = carry_out(&plan, &clock, change, |_| true).now_or_never().unwrap();
        (ended.map_err(|stopped| stopped.done), between(second(0), clock.now()).as_secs())
    };
    let settling =
        || fault("InvalidParameterValueException", "does not have permissions to call SendMessage");
    assert_eq!(carried_out(Vec::new()), (Ok(()), 0));
    assert_eq!(carried_out(vec![settling(), fault("ResourceConflictException", "")]), (Ok(()), 6));
    assert_eq!(carried_out(vec![settling(); 30]), (Err(0), 60));
    assert_eq!(carried_out(vec![denied()]), (Err(0), 0));
}
