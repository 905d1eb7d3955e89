//! Tests of the plans for a function and for a queue, and of refusals.

use std::{cell::RefCell, collections::BTreeMap, time::Duration};

use comeback_core::time::between;
use futures_util::FutureExt as _;

use super::*;
use crate::operate::{
    doctor::rules::{Layer, QueueAttributes},
    rules::{Answer, Clock, tests::with},
    waiting::rules::stand_in::{StandIn, second},
};

const HOME: &str = "us-east-1:123456789012";
const LAYER: &str = "arn:aws:lambda:us-east-1:123456789012:layer:comeback:3";

fn queue(name: &str) -> RetryQueue {
    RetryQueue {
        arn: format!("arn:aws:sqs:{HOME}:{name}"),
        url: format!("https://sqs.us-east-1.amazonaws.com/123456789012/{name}"),
        attributes: QueueAttributes::default(),
    }
}

const DEAD: &str = "https://sqs.us-east-1.amazonaws.com/123456789012/dead";

/// A system with a shared queue, and a function that was never attached.
fn facts() -> Facts {
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
        layer: None,
        signers: None,
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
            queue.attributes.policy = Some(policy);
        }
        Step::Configure { function, environment, layers, .. } => {
            let is_handler = function == facts.handler.name();
            let function = if is_handler { &mut facts.handler } else { &mut facts.function };
            function.environment = environment;
            function.layers = layers.unwrap_or_else(|| function.layers.clone());
        }
        Step::Loop { allow, .. } => facts.may_loop = Ok(allow),
        Step::Invocations { config, .. } => facts.config = config,
        Step::QueueAttribute { .. }
        | Step::Create { .. }
        | Step::Map { .. }
        | Step::Unmap { .. } => panic!("only for a queue: {step:?}"),
    }
}

/// The facts after these steps.
fn after(facts: &Facts, steps: &[Planned]) -> Facts {
    let mut facts = facts.clone();
    steps.iter().for_each(|planned| apply(&mut facts, &planned.step));
    facts
}

fn policy_of<'a>(facts: &'a mut Facts, policy: &str) -> &'a mut Answer<Option<String>> {
    if policy.contains("-send-") { &mut facts.send_policy } else { &mut facts.invoke_policy }
}

fn parts(steps: &[Planned]) -> Vec<&str> {
    steps.iter().map(|planned| planned.what.as_str()).collect()
}

fn state(facts: &Facts) -> String {
    format!("{facts:?}")
}

fn set(facts: &mut Facts, name: &str, value: &str) {
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
fn close(facts: &mut Facts, action: &str, condition: Option<Value>) {
    let mut statement = json!({ "Effect": "Deny", "Principal": "*", "Action": action });
    statement["Condition"] = condition.unwrap_or(json!({}));
    facts.queues[0].attributes.policy = Some(json!({ "Statement": [statement] }).to_string());
}

type Change = fn(&mut Facts);

const VARIANTS: [(&str, Change); 10] = [
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
    ("a layer that is signed for it", |it| {
        it.layer = Some(layer("x86_64", Some("ours")));
        it.signers = Some(vec!["theirs".into(), "ours".into()]);
    }),
    ("a loop that is allowed", |it| it.may_loop = Ok(true)),
    ("layers of its own", |it| it.function.layers = vec!["arn:aws:lambda:x:1:layer:own:1".into()]),
];

fn order() -> Order {
    Order { replace: true, transparent: Some(LAYER.to_owned()), ..Order::default() }
}

#[test]
fn each_plan_can_stop_after_any_step_and_be_continued_and_a_detached_function_is_as_before() {
    for (name, change) in VARIANTS {
        let mut before = facts();
        change(&mut before);
        let plan = attach(&before, &order()).unwrap().steps;
        let end = after(&before, &plan);
        for stop in 0..=plan.len() {
            let stopped = after(&before, &plan[..stop]);
            let rest = attach(&stopped, &order()).unwrap().steps;
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

fn layer(architecture: &str, signer: Option<&str>) -> Layer {
    Layer { architectures: vec![architecture.to_owned()], signer: signer.map(str::to_owned) }
}

type Contradiction = fn(&mut Facts, &mut Order);

/// What `attach` refuses, each with a part of the reason.
const CONTRADICTIONS: [(Contradiction, &str); 18] = [
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
    (|it, _| it.function.runtime = Some("provided.al2023".into()), "no effect on provided.al2023"),
    (
        |it, _| {
            it.function.environment.insert(WRAPPER_VARIABLE.into(), "/opt/own".into());
        },
        "which is /opt/own",
    ),
    (|it, _| it.function.layers = vec!["x".into(); 5], "already has five"),
    (
        |it, _| it.function.runtime = None,
        "on an image: put the layer's extensions/comeback into the image",
    ),
    (
        |it, _| {
            it.function.architecture = "arm64".into();
            it.layer = Some(layer("x86_64", None));
        },
        "the function runs on arm64, and arn:aws:lambda:us-east-1:123456789012:layer:comeback:3 on x86_64: pass",
    ),
    (
        |it, _| {
            it.layer = Some(layer("x86_64", Some("other")));
            it.signers = Some(vec!["ours".into(), "theirs".into()]);
        },
        "sign the layer's zip by ours or theirs",
    ),
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
        "let live point to it",
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
        let statements = send_statements(&facts().function, &queue);
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
        let change = async |_: &Step| faults.borrow_mut().pop().map_or(Ok(()), Err);
        let ended = carry_out(&plan, &clock, change, |_| {}).now_or_never().unwrap();
        (ended.map_err(|stopped| stopped.done), between(second(0), clock.now()).as_secs())
    };
    let settling =
        || fault("InvalidParameterValueException", "does not have permissions to call SendMessage");
    assert_eq!(carried_out(Vec::new()), (Ok(()), 0));
    assert_eq!(carried_out(vec![settling(), fault("ResourceConflictException", "")]), (Ok(()), 6));
    assert_eq!(carried_out(vec![settling(); 30]), (Err(0), 60));
    assert_eq!(carried_out(vec![denied()]), (Err(0), 0));
}

mod of_queues {
    use comeback_core::arn::QueueArn;

    use super::*;
    use crate::operate::{
        doctor::rules::{Mapping, RETENTION, Redrive, tests::mapping_of},
        rules::tests::function,
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
            Step::Invocations { .. } => panic!("a queue has none"),
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
            assert_eq!(
                (parts(&plan.steps), plan.waiting),
                (vec!["queue imports: RedrivePolicy"], 2)
            );
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
}
