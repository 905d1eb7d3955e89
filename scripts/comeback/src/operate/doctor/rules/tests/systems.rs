//! Healthy retry systems, and their parts.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use comeback_core::Timestamp;
use serde_json::json;

use crate::{
    account::{
        fault::Answer,
        function::{Function, InvokeConfig, Running, State, tests::function},
        mapping::{Mapping, tests::mapping_of},
        queue::{Queue, QueueAttributes, Redrive},
    },
    operate::doctor::rules::{
        diagnose,
        facts::{Consumer, Facts, Keys, KnownBy, Ledger, RetryQueue, Source, Table, Target},
        metric::Metric,
    },
};

pub const HOME: &str = "us-east-1:123456789012";

pub fn state(state: &str) -> Answer<State> {
    Ok(State { state: state.to_owned(), ..State::default() })
}

pub fn running() -> Running {
    Running { state: state("Active"), may_loop: Ok(true), reserved: Ok(None) }
}

pub fn queue(name: &str, redrive: Option<Redrive>) -> Queue {
    let attributes = QueueAttributes {
        visibility: Duration::from_mins(3),
        retention: Duration::from_hours(14 * 24),
        redrive,
        ..QueueAttributes::default()
    };
    let url = format!("https://sqs.us-east-1.amazonaws.com/123456789012/{name}");
    Queue { arn: format!("arn:aws:sqs:{HOME}:{name}"), url, attributes: Ok(Some(attributes)) }
}

/// A healthy system of one function with its own queue and a ledger.
pub fn healthy() -> Facts {
    let dead_letters = queue("dead", None);
    let redrive = Redrive { queue: dead_letters.arn.clone(), receives_max: 1_000 };
    let retry = queue("retry", Some(redrive));
    let mut handler = function("handler");
    handler.runtime = Some("provided.al2023".to_owned());
    handler.environment = [
        ("DEAD_LETTER_QUEUE_URL", dead_letters.url.as_str()),
        ("QUEUE_TARGETS", r#"{"retry":["orders"]}"#),
        ("LEDGER_TABLE", "ledger"),
        ("REGISTER", "true"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let config = InvokeConfig {
        retries: Some(0),
        on_failure: Some(retry.arn.clone()),
        ..InvokeConfig::default()
    };
    let text = |texts: &[&str]| texts.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
    Facts {
        now: Timestamp::UNIX_EPOCH + Duration::from_hours(48),
        functions: ["handler", "orders", "importer"].map(str::to_owned).into(),
        queues_of_others: BTreeMap::new(),
        mappings: Ok(vec![mapping_of("0b1c", &retry.arn, &handler.arn)]),
        targets: vec![Target {
            name: "orders".to_owned(),
            function: Some((function("orders"), running())),
            known_by: KnownBy::Setting,
            configs: Ok(vec![config]),
            may_send: BTreeMap::from([(retry.arn.clone(), Ok(true))]),
            may_be_invoked: Ok(true),
        }],
        others: Ok(()),
        handler,
        running: running(),
        queues: vec![RetryQueue {
            queue: retry,
            denied: Ok(Vec::new()),
            other_consumers: Vec::new(),
            moved_from: Ok(Vec::new()),
        }],
        sources: Vec::new(),
        streams: Vec::new(),
        deliveries: Ok(Vec::new()),
        buckets: Vec::new(),
        keys: Vec::new(),
        dead_letters,
        dead_letters_denied: Ok(Vec::new()),
        ledger: Some(Ledger {
            name: "ledger".to_owned(),
            table: Ok(Some(Table {
                status: "ACTIVE".to_owned(),
                key: text(&["id S", "run S"]),
                waiting: Some(("ACTIVE".to_owned(), text(&["target S", "due_at N"]))),
            })),
            expiry: Ok(Some("expires_at".to_owned())),
            denied: Ok(Vec::new()),
        }),
        errors_decided: Ok(BTreeSet::new()),
        metrics: Ok(BTreeMap::new()),
    }
}

/// A healthy system that also retries the messages of a queue, which the function `importer` consumes.
pub fn with_queue() -> Facts {
    let mut facts = healthy();
    let targets = r#"{"retry":["orders"],"retry-imports":["sqs:imports"]}"#;
    facts.handler.environment.insert("QUEUE_TARGETS".to_owned(), targets.to_owned());
    let mut retry = facts.queues[0].clone();
    retry.queue.arn = retry.queue.arn.replace("retry", "retry-imports");
    let redrive = Redrive { queue: retry.queue.arn.clone(), receives_max: 1 };
    let imports = queue("imports", Some(redrive));
    let allow = json!({ "redrivePermission": "byQueue", "sourceQueueArns": [imports.arn] });
    let attributes = retry.queue.attributes.as_mut().unwrap().as_mut().unwrap();
    attributes.redrive_allow = Some(allow.to_string());
    retry.moved_from = Ok(vec!["imports".to_owned()]);
    let mut mapping = mapping(&mut facts).clone();
    mapping.queue = retry.queue.arn.clone();
    facts.mappings.as_mut().unwrap().push(mapping);
    let importer = function("importer");
    let consumer = Consumer {
        mapping: mapping_of("2d3e", &imports.arn, &importer.arn),
        function: Some((importer, running())),
    };
    facts.sources.push(Source {
        queue: imports,
        bound: BTreeSet::from([retry.queue.arn.clone()]),
        consumers: vec![consumer],
        denied: Ok(Vec::new()),
    });
    facts.queues.push(retry);
    facts
}

pub fn consumer(facts: &mut Facts) -> &mut Consumer {
    &mut facts.sources[0].consumers[0]
}

pub fn importer(facts: &mut Facts) -> &mut (Function, Running) {
    consumer(facts).function.as_mut().unwrap()
}

/// The handler receives from the queue of this ARN, as from a retry queue.
pub fn receive_from(facts: &mut Facts, queue: &Queue) {
    let handler = facts.handler.arn.clone();
    facts.mappings.as_mut().unwrap().push(mapping_of("4f5a", &queue.arn, &handler));
    facts.queues.push(RetryQueue { queue: queue.clone(), ..facts.queues[0].clone() });
}

pub fn source(facts: &mut Facts) -> &mut QueueAttributes {
    facts.sources[0].queue.attributes.as_mut().unwrap().as_mut().unwrap()
}

pub fn retry_of_source(facts: &mut Facts) -> &mut QueueAttributes {
    facts.queues[1].queue.attributes.as_mut().unwrap().as_mut().unwrap()
}

pub fn names(facts: &Facts) -> Vec<&'static str> {
    diagnose(facts).iter().flat_map(|it| &it.findings).map(|finding| finding.name).collect()
}

pub fn mapping(facts: &mut Facts) -> &mut Mapping {
    &mut facts.mappings.as_mut().unwrap()[0]
}

pub fn retry(facts: &mut Facts) -> &mut QueueAttributes {
    facts.queues[0].queue.attributes.as_mut().unwrap().as_mut().unwrap()
}

pub fn dead(facts: &mut Facts) -> &mut QueueAttributes {
    facts.dead_letters.attributes.as_mut().unwrap().as_mut().unwrap()
}

pub fn orders(facts: &mut Facts) -> &mut Function {
    &mut facts.targets[0].function.as_mut().unwrap().0
}

pub fn orders_run(facts: &mut Facts) -> &mut Running {
    &mut facts.targets[0].function.as_mut().unwrap().1
}

pub fn config(facts: &mut Facts) -> &mut InvokeConfig {
    &mut facts.targets[0].configs.as_mut().unwrap()[0]
}

pub fn ledger(facts: &mut Facts) -> &mut Ledger {
    facts.ledger.as_mut().unwrap()
}

pub fn table(facts: &mut Facts) -> &mut Table {
    ledger(facts).table.as_mut().unwrap().as_mut().unwrap()
}

pub fn set(facts: &mut Facts, name: &str, value: &str) {
    facts.handler.environment.insert(name.to_owned(), value.to_owned());
}

pub fn count(facts: &mut Facts, metric: Metric, of: &str, value: f64) {
    facts.metrics.as_mut().unwrap().insert((metric, of.to_owned()), value);
}

pub fn without_destination(facts: &mut Facts, known_by: KnownBy) {
    facts.targets[0].known_by = known_by;
    config(facts).on_failure = None;
}

/// A policy that denies an action to everyone except this role.
pub fn closed_to_all_but(action: &str, role: &str) -> Option<String> {
    let condition = serde_json::json!({ "ArnNotEquals": { "aws:PrincipalArn": role } });
    let statement = serde_json::json!({
        "Effect": "Deny", "Principal": "*", "Action": action, "Condition": condition,
    });
    Some(serde_json::json!({ "Statement": statement }).to_string())
}

pub fn for_everyone() -> Option<String> {
    let policy = r#"{"Statement":{"Effect":"Allow","Principal":"*","Action":"sqs:SendMessage"}}"#;
    Some(policy.to_owned())
}

/// A key that two roles use, the second of which lacks these actions.
pub fn key(denied: &[&str]) -> Keys {
    let arn = format!("arn:aws:kms:{HOME}:key/1234");
    let denied = denied.iter().map(|&it| it.to_owned()).collect();
    [("handler-role", Vec::new()), ("orders-role", denied)]
        .map(|(role, denied)| (arn.clone(), role.to_owned(), Ok(denied)))
        .into()
}

pub type Break = fn(&mut Facts);
