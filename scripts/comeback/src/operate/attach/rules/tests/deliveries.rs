//! Plans for what delivers events.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{DEAD, HOME, functions::parts, queue};

use crate::{
    account::{
        function::tests::with,
        handlers::queue_targets,
        policy::{Service, admits},
        queue::QueueAttributes,
        sender::Sender,
    },
    operate::attach::rules::{
        deliveries::{DeliveryFacts, attach, detach, target_of},
        order::Order,
        plan::Plan,
        steps::Step,
    },
};

fn function(name: &str) -> String {
    format!("arn:aws:lambda:{HOME}:function:{name}")
}

/// A system with one retry queue, and a rule that delivers to a function.
fn facts() -> DeliveryFacts {
    let [bus, name, target] = ["default", "links", "main"].map(str::to_owned);
    DeliveryFacts {
        handler: with("handler", "DEAD_LETTER_QUEUE_URL", DEAD),
        handler_tags: BTreeMap::new(),
        queues: vec![queue("retry")],
        others: [(queue("theirs").arn, "other".to_owned())].into(),
        sender: Sender::Rule { bus, name, target },
        arn: format!("arn:aws:events:{HOME}:rule/links"),
        target: json!({ "Id": "main", "Arn": function("orders"), "RetryPolicy": { "MaximumRetryAttempts": 3 } }),
        dead_letters_of_others: Vec::new(),
        target_queue: None,
        deliver_policy: Ok(None),
        send_policy: Ok(None),
    }
}

/// The same with a schedule.
fn schedule() -> DeliveryFacts {
    let mut facts = facts();
    facts.sender = Sender::Schedule { group: "default".to_owned(), name: "nightly".to_owned() };
    facts.arn = format!("arn:aws:scheduler:{HOME}:schedule/default/nightly");
    facts.target["RoleArn"] = json!("arn:aws:iam::123456789012:role/scheduler");
    facts.target["Input"] = json!("{}");
    facts
}

fn apply(facts: &mut DeliveryFacts, step: &Step) {
    match step.clone() {
        Step::Allow { role, document, .. } if role == facts.handler.role => {
            facts.deliver_policy = Ok(Some(document));
        }
        Step::Allow { document, .. } => facts.send_policy = Ok(Some(document)),
        Step::Disallow { .. } => facts.send_policy = Ok(None),
        Step::QueuePolicy { policy, .. } => {
            let read = QueueAttributes::read(&[("Policy".to_owned(), policy)].into());
            facts.queues[0].attributes.policy = read.policy;
        }
        Step::Configure { environment, .. } => facts.handler.environment = environment,
        Step::DeadLetters { queue, is_set, .. } => {
            let config = if is_set { json!({ "Arn": queue }) } else { Value::Null };
            facts.target["DeadLetterConfig"] = config;
        }
        Step::Tag { .. }
        | Step::Untag { .. }
        | Step::QueueAttribute { .. }
        | Step::Create { .. }
        | Step::Map { .. }
        | Step::Unmap { .. }
        | Step::Loop { .. }
        | Step::Notify { .. }
        | Step::Stream { .. }
        | Step::Invocations { .. } => panic!("not for what delivers events: {step:?}"),
    }
}

fn apply_all(facts: &mut DeliveryFacts, plan: &Plan) {
    plan.steps.iter().for_each(|planned| apply(facts, &planned.step));
}

fn refused(facts: &DeliveryFacts, order: &Order) -> String {
    attach(facts, order).unwrap_err().to_string()
}

#[test]
fn a_rule_gets_the_retry_queue_as_dead_letter_queue_last_and_loses_it_first() {
    let mut facts = facts();
    let plan = attach(&facts, &Order::default()).unwrap();
    let steps = [
        "role handler-role: policy comeback-deliver-orders",
        "handler: variables",
        "queue retry: policy",
        "target main of rule links: dead-letter queue",
    ];
    assert_eq!(parts(&plan.steps), steps);
    apply_all(&mut facts, &plan);
    assert_eq!(queue_targets(&facts.handler.environment)["retry"], ["*"]);
    assert!(facts.deliver_policy.as_ref().unwrap().as_ref().unwrap().contains(":function:orders"));
    let may_send = |facts: &DeliveryFacts, rule: &str| {
        let policy = facts.queues[0].attributes.policy.as_deref().unwrap_or_default();
        let rule = format!("arn:aws:events:{HOME}:rule/{rule}");
        admits(policy, Service::Events, &rule, "123456789012")
    };
    assert!(may_send(&facts, "links") && !may_send(&facts, "other"));
    assert_eq!(attach(&facts, &Order::default()).unwrap().steps, [], "nothing to do");

    let plan = detach(&facts).unwrap();
    assert_eq!(parts(&plan.steps), [steps[3], steps[2]]);
    assert!(plan.warnings[0].contains("take orders out of QUEUE_TARGETS of handler"), "{plan:?}");
    let mut shared = facts.clone();
    shared.dead_letters_of_others = vec![queue("retry").arn];
    assert_eq!(parts(&detach(&shared).unwrap().steps), [steps[3]], "another target needs the rest");
    apply_all(&mut facts, &plan);
    assert!(!may_send(&facts, "links"));
    let again = detach(&facts).unwrap_err().to_string();
    assert!(again.contains("target main of rule links has no retry queue"), "{again}");
}

#[test]
fn the_role_of_a_schedule_sends_its_dead_letters() {
    let mut facts = schedule();
    let closed = json!({ "Statement": [{ "Effect": "Deny", "Principal": "*", "Action": "sqs:SendMessage",
        "Condition": { "ArnNotEquals": { "aws:PrincipalArn": ["a"] } } }] });
    facts.queues[0].attributes.policy = Some(closed.to_string());
    let plan = attach(&facts, &Order::default()).unwrap();
    let steps = [
        "role handler-role: policy comeback-deliver-orders",
        "handler: variables",
        "role scheduler: policy comeback-send-nightly",
        "queue retry: policy",
        "schedule nightly: dead-letter queue",
    ];
    assert_eq!(parts(&plan.steps), steps);
    apply_all(&mut facts, &plan);
    assert_eq!(attach(&facts, &Order::default()).unwrap().steps, []);
    let plan = detach(&facts).unwrap();
    assert_eq!(parts(&plan.steps), [steps[4], steps[2], steps[3]]);
    apply_all(&mut facts, &plan);
    assert_eq!(facts.send_policy, Ok(None));
    let policy: Value =
        serde_json::from_str(facts.queues[0].attributes.policy.as_ref().unwrap()).unwrap();
    assert_eq!(policy, closed);
}

#[test]
fn a_queue_is_delivered_to_by_the_retry_queue_that_is_bound_to_it() {
    let mut facts = facts();
    facts.target["Arn"] = json!(queue("imports").arn);
    facts.target_queue = Some(queue("imports"));
    facts.queues.push(queue("retry-imports"));
    let why = refused(&facts, &Order::default());
    assert!(why.contains("no retry queue is bound to sqs:imports"), "{why}");
    let named = Order { queue: Some("retry-imports".to_owned()), ..Order::default() };
    let plan = attach(&facts, &named).unwrap();
    assert_eq!(parts(&plan.steps)[0], "role handler-role: policy comeback-deliver-to-imports");
    plan.steps.iter().take(2).for_each(|planned| apply(&mut facts, &planned.step));
    let bound = queue_targets(&facts.handler.environment);
    assert_eq!(
        (&*bound["retry"], &*bound["retry-imports"]),
        (&["*".to_owned()][..], &["*".to_owned(), "sqs:imports".to_owned()][..])
    );
    assert_eq!(attach(&facts, &Order::default()).unwrap().queue, "retry-imports");
}

#[test]
fn what_would_not_come_back_as_it_was_or_not_at_all_is_refused() {
    let of = |change: &dyn Fn(&mut DeliveryFacts)| {
        let mut facts = facts();
        change(&mut facts);
        refused(&facts, &Order::default())
    };
    let target = |arn: &str| of(&|it| it.target["Arn"] = json!(arn));
    let with = |name: &str, value: Value| of(&|it| it.target[name] = value.clone());
    for (why, part) in [
        (
            with("InputTransformer", json!({ "InputTemplate": "{}" })),
            "has InputTransformer, so its target is given something else",
        ),
        (with("InputPath", json!("$.detail")), "has InputPath"),
        (with("Input", json!("{}")), "remove Input"),
        (
            with("DeadLetterConfig", json!({ "Arn": queue("failed").arn })),
            "dead redrive --queue failed --function orders",
        ),
        (
            with("DeadLetterConfig", json!({ "Arn": queue("theirs").arn })),
            "theirs is the retry queue of other",
        ),
        (
            target("arn:aws:states:us-east-1:123456789012:stateMachine:x"),
            "only to a function or a standard queue",
        ),
        (target(&format!("{}.fifo", queue("x").arn)), "a FIFO queue can't take part"),
        (
            target(&function("orders").replace("us-east-1", "eu-west-1")),
            "another account or region",
        ),
        (
            target(&function("orders").replace("123456789012", "210987654321")),
            "another account or region",
        ),
        (target(&queue("retry").arn), "is a retry queue"),
        (
            of(&|it| it.queues[0].attributes.key = Some("alias/aws/sqs".to_owned())),
            "which events.amazonaws.com can't use",
        ),
        (of(&|it| it.queues.push(queue("retry-2"))), "choose a queue with --queue"),
    ] {
        assert!(why.contains(part), "{why}");
    }
    assert!(
        attach(&schedule(), &Order::default()).is_ok(),
        "a schedule's input is what it delivers"
    );
    let targets = ["a", "b"].map(|id| json!({ "Id": id }));
    assert_eq!(target_of("links", &targets, Some("b")), Ok(&targets[1]));
    for id in [None, Some("c")] {
        let why = target_of("links", &targets, id).unwrap_err().to_string();
        assert!(why.ends_with("it has a, b"), "{why}");
    }
}
