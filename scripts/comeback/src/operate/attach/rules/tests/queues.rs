//! Plans for a queue.

use std::{collections::BTreeMap, time::Duration};

use comeback_core::arn::QueueArn;

use super::{
    DEAD,
    functions::{order, parts},
    queue,
};

use crate::{
    account::{
        function::tests::{function, with},
        mapping::{Mapping, tests::mapping_of},
        queue::{QueueAttributes, Redrive},
        setup::RETENTION,
    },
    operate::attach::rules::{
        order::Order,
        plan::Plan,
        queues::{QueueFacts, attach_queue, detach_queue, parse_source},
        refusal::Refusal,
        steps::Step,
    },
};

fn arn(name: &str) -> String {
    queue(name).arn
}

fn mapping(queue: &str, consumer: &str) -> Mapping {
    mapping_of(queue, &arn(queue), &function(consumer).arn)
}

/// A system with a retry queue for functions, and a queue `imports` that a function consumes.
fn facts() -> QueueFacts {
    let mappings = [("retry", "handler"), ("other", "other-handler"), ("imports", "importer")];
    let retry_queues = mappings[..2].iter().map(|(queue, it)| (arn(queue), (*it).to_owned()));
    QueueFacts {
        handler: with("handler", "DEAD_LETTER_QUEUE_URL", DEAD),
        handler_tags: BTreeMap::new(),
        retry_queues: retry_queues.collect(),
        mappings: mappings.map(|(queue, function)| mapping(queue, function)).to_vec(),
        source: QueueArn::parse(&arn("imports")).unwrap(),
        url: queue("imports").url,
        attributes: Some(QueueAttributes { retention: RETENTION, ..Default::default() }),
        tags: BTreeMap::new(),
        retry: queue("retry-imports"),
        exists: false,
        consumers: vec![("importer".to_owned(), Ok(false))],
        policy: Ok(None),
    }
}

fn apply(facts: &mut QueueFacts, step: &Step) {
    let source = facts.attributes.as_mut().unwrap();
    match step.clone() {
        Step::Tag { tags, .. } => facts.tags.extend(tags),
        Step::Untag { keys, .. } => facts.tags.retain(|key, _| !keys.contains(key)),
        Step::Allow { document, .. } => facts.policy = Ok(Some(document)),
        Step::Disallow { .. } => facts.policy = Ok(None),
        Step::QueuePolicy { policy, .. } => source.policy = Some(policy),
        Step::QueueAttribute { attribute, value, url } => {
            let of = if url == facts.url { source } else { &mut facts.retry.attributes };
            let set = QueueAttributes::read(&[(attribute.to_owned(), value)].into());
            match attribute {
                "RedrivePolicy" => of.redrive = set.redrive,
                _ => of.redrive_allow = set.redrive_allow,
            }
        }
        Step::Create { attributes, .. } => {
            let attributes = attributes.into_iter().map(|(name, it)| (name.to_owned(), it));
            facts.retry.attributes = QueueAttributes::read(&attributes.collect());
            facts.exists = true;
        }
        Step::Configure { environment, .. } => facts.handler.environment = environment,
        Step::Map { .. } => {
            facts.mappings.push(mapping("retry-imports", "handler"));
            facts.retry_queues.insert(arn("retry-imports"), "handler".to_owned());
        }
        Step::Unmap { uuid, queue } => {
            facts.mappings.retain(|it| it.uuid != uuid);
            facts.retry_queues.remove(&queue);
        }
        Step::Loop { allow, .. } => facts.consumers[0].1 = Ok(allow),
        Step::Invocations { .. }
        | Step::Notify { .. }
        | Step::Stream { .. }
        | Step::DeadLetters { .. } => panic!("a queue has none"),
    }
}

fn apply_all(facts: &mut QueueFacts, plan: &Plan) {
    plan.steps.iter().for_each(|planned| apply(facts, &planned.step));
}

fn attach(facts: &QueueFacts) -> Plan {
    attach_queue(facts, &Order::default()).unwrap()
}

fn redrive_of(facts: &QueueFacts) -> Option<Redrive> {
    facts.attributes.as_ref().unwrap().redrive.clone()
}

#[test]
fn a_source_that_redrives_into_another_retry_queue_of_its_handler_is_attached_with_replace() {
    let mut facts = facts();
    let redrive = Redrive { queue: arn("retry"), receives_max: 1 };
    facts.attributes.as_mut().unwrap().redrive = Some(redrive);
    let refused = attach_queue(&facts, &Order::default()).unwrap_err().to_string();
    let part = "messages of imports already go to retry after 1 receive; pass --replace";
    assert!(refused.contains(part), "{refused}");
    let order = Order { replace: true, ..Order::default() };
    let plan = attach_queue(&facts, &order).unwrap();
    assert!(plan.warnings.iter().any(|it| it.contains("become dead letters")), "{plan:?}");
    apply_all(&mut facts, &plan);
    assert_eq!(redrive_of(&facts).unwrap().queue, arn("retry-imports"));
    // A queue of another handler is that handler's.
    facts.attributes.as_mut().unwrap().redrive =
        Some(Redrive { queue: arn("other"), receives_max: 1 });
    let refused = attach_queue(&facts, &order).unwrap_err();
    assert!(matches!(refused, Refusal::OtherSystem { .. }), "{refused}");
}

const ATTACHING: [&str; 7] = [
    "imports: tags",
    "queue retry-imports",
    "role handler-role: policy comeback-queue-imports",
    "handler: variables",
    "mapping of retry-imports",
    "importer: RecursiveLoop",
    "queue imports: RedrivePolicy",
];

#[test]
fn a_plan_that_was_interrupted_anywhere_is_continued_and_then_undone() {
    for done in 0..=ATTACHING.len() {
        let mut facts = facts();
        let before = (facts.attributes.clone(), facts.mappings.len());
        let plan = attach(&facts);
        assert_eq!(parts(&plan.steps), ATTACHING);
        plan.steps[..done].iter().for_each(|planned| apply(&mut facts, &planned.step));
        let rest = attach(&facts);
        assert_eq!(parts(&rest.steps), ATTACHING[done..]);
        apply_all(&mut facts, &rest);
        assert_eq!(attach(&facts).steps, []);
        let expected = Redrive { queue: arn("retry-imports"), receives_max: 1 };
        assert_eq!(redrive_of(&facts), Some(expected));
        assert_eq!(facts.retry.attributes.sources(), Some(vec![arn("imports")]));
        let policy = facts.policy.clone().unwrap().unwrap();
        for part in
            ["sqs:SendMessage", &arn("imports"), "sqs:ReceiveMessage", &arn("retry-imports")]
        {
            assert!(policy.contains(part), "{part}: {policy}");
        }

        facts.retry.attributes.in_flight = 2;
        let plan = detach_queue(&facts).unwrap();
        assert_eq!((parts(&plan.steps), plan.waiting), (vec!["queue imports: RedrivePolicy"], 2));
        apply_all(&mut facts, &plan);
        facts.retry.attributes.in_flight = 0;
        let plan = detach_queue(&facts).unwrap();
        apply_all(&mut facts, &plan);
        assert_eq!((facts.attributes, facts.mappings.len()), before);
        assert_eq!((facts.tags.len(), facts.policy), (0, Ok(None)));
    }
}

#[test]
fn the_first_binding_keeps_what_the_other_retry_queues_may_name() {
    for (list, kept) in [(None, r#"["*"]"#), (Some("orders, mail"), r#"["orders","mail"]"#)] {
        let mut facts = facts();
        let list = list.map(|list| ("TARGET_FUNCTIONS".to_owned(), list.to_owned()));
        facts.handler.environment.extend(list);
        let plan = attach(&facts);
        apply_all(&mut facts, &plan);
        let environment = &facts.handler.environment;
        let expected = format!(r#"{{"retry":{kept},"retry-imports":["sqs:imports"]}}"#);
        assert_eq!(environment["QUEUE_TARGETS"], expected);
        assert!(facts.handler.settings().is_ok());
    }
}

#[test]
fn a_dead_letter_queue_is_replaced_only_on_request_and_restored() {
    let mut facts = facts();
    let old = Redrive { queue: arn("imports-dead"), receives_max: 5 };
    facts.attributes.as_mut().unwrap().redrive = Some(old.clone());
    let refused = attach_queue(&facts, &Order::default()).unwrap_err().to_string();
    assert!(refused.contains("already go to imports-dead after 5 receives; pass --replace"));
    let plan = attach_queue(&facts, &Order { max_receives: Some(3), ..order() }).unwrap();
    assert!(plan.warnings[0].contains("redrive --queue imports-dead --to sqs:imports"));
    apply_all(&mut facts, &plan);
    let expected = Redrive { queue: arn("retry-imports"), receives_max: 3 };
    assert_eq!(redrive_of(&facts), Some(expected));
    assert_eq!(attach(&facts).steps, [], "it keeps its number of receives");
    let plan = detach_queue(&facts).unwrap();
    apply_all(&mut facts, &plan);
    assert_eq!(redrive_of(&facts), Some(old));
}

#[test]
fn a_queue_that_can_not_take_part_is_refused() {
    let handler = facts().handler;
    assert_eq!(parse_source("x.fifo", &handler), Err(Refusal::Fifo));
    assert_eq!(parse_source("a b", &handler), Err(Refusal::NoQueueName("a b".to_owned())));
    for elsewhere in
        ["arn:aws:sqs:eu-west-1:123456789012:x", "arn:aws:sqs:us-east-1:000000000000:x"]
    {
        let refused = parse_source(elsewhere, &handler);
        assert!(matches!(refused, Err(Refusal::Elsewhere { .. })), "{refused:?}");
    }
    for same in ["imports", "sqs:imports", &arn("imports")] {
        assert_eq!(parse_source(same, &handler).unwrap().as_str(), arn("imports"));
    }
    let refused = |change: &dyn Fn(&mut QueueFacts)| {
        let mut facts = facts();
        change(&mut facts);
        attach_queue(&facts, &order()).unwrap_err()
    };
    for name in ["retry", "other", "dead", "retry-imports"] {
        let source = |it: &mut QueueFacts| it.source = QueueArn::parse(&arn(name)).unwrap();
        assert_eq!(refused(&source), Refusal::IsRetryQueue(name.to_owned()));
    }
    let retry = refused(&|it| it.retry.arn = arn("other"));
    assert!(matches!(retry, Refusal::OtherSystem { .. }), "{retry}");
    let redrive = refused(&|it| {
        let redrive = Redrive { queue: arn("other"), receives_max: 1 };
        it.attributes.as_mut().unwrap().redrive = Some(redrive);
    });
    assert!(matches!(redrive, Refusal::OtherSystem { .. }), "{redrive}");
    assert_eq!(refused(&|it| it.attributes = None), Refusal::NoSource(arn("imports")));
}

#[test]
fn an_existing_retry_queue_accepts_one_more_queue_or_is_told_to_be_open() {
    let mut facts = facts();
    facts.exists = true;
    assert!(attach(&facts).warnings[0].contains("retry-imports accepts messages of any queue"));
    let allow = |sources: &[String]| Some(QueueAttributes::allowing(sources));
    facts.retry.attributes.redrive_allow = allow(&[arn("exports")]);
    let plan = attach(&facts);
    assert_eq!(parts(&plan.steps)[1], "queue retry-imports: RedriveAllowPolicy");
    apply_all(&mut facts, &plan);
    assert_eq!(facts.retry.attributes.redrive_allow, allow(&[arn("exports"), arn("imports")]));
}

#[test]
fn a_failure_that_is_seen_late_and_a_message_that_expires_are_told() {
    let mut facts = facts();
    let attributes = facts.attributes.as_mut().unwrap();
    attributes.visibility = Duration::from_hours(2);
    attributes.retention = Duration::from_hours(96);
    let warnings = attach(&facts).warnings;
    assert!(warnings[0].contains("visibility timeout of imports is 2 h"), "{warnings:?}");
    assert!(warnings[1].contains("keeps messages for 4 d"), "{warnings:?}");
}
