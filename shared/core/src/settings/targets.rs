//! What a handler may retry: functions, and queues whose consumers failed.

use std::collections::BTreeMap;

use super::bad_settings::Fault;
use crate::{
    arn::{FunctionArn, Home, QUEUE_PREFIX, QueueArn, is_function_name, is_queue_name},
    json::Object,
    pattern::{self, list},
    target::Target,
};

/// Whether an entry of a list of targets is a queue: `sqs:NAME`, or its ARN.
pub(crate) fn names_queue(listed: &str) -> bool {
    let service = || listed.strip_prefix("arn:")?.split(':').nth(1);
    listed.starts_with(QUEUE_PREFIX) || service() == Some("sqs")
}

/// The name of a queue in settings, from that name or the queue's ARN.
pub(crate) fn queue_target(text: &str) -> Option<String> {
    match text.strip_prefix(QUEUE_PREFIX) {
        Some(name) => is_queue_name(name).then(|| text.to_owned()),
        None => Some(QueueArn::parse(text)?.target_name().to_owned()),
    }
}

/// The targets that messages from each queue may name. From any other queue, they may name none.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct QueueTargets(BTreeMap<String, Targets>);

impl QueueTargets {
    pub(crate) fn read(text: &str, faults: &mut Vec<Fault>) -> Self {
        const NAME: &str = "QUEUE_TARGETS";
        let mut queues = BTreeMap::new();
        let object = Object::read(text).filter(|queues| queues.members().next().is_some());
        let Some(object) = object else {
            let expected = r#"a JSON object such as {"retry-orders":["orders"]}"#;
            faults.push(Fault::new(NAME, expected, text));
            return Self(queues);
        };
        for (queue, functions) in object.members() {
            let name = format!("{NAME}.{queue}");
            if !is_queue_name(queue) {
                faults.push(Fault::new(
                    NAME,
                    "an object whose keys are queue names, not ARNs or URLs",
                    queue,
                ));
            }
            let list = serde_json::from_str::<Vec<String>>(functions.get()).ok();
            let list = list.filter(|list| !list.is_empty()).unwrap_or_else(|| {
                let expected = r#"a list of functions such as ["orders"], or of queues such as ["sqs:imports"]"#;
                faults.push(Fault::new(name.clone(), expected, functions.get()));
                Vec::new()
            });
            let expected = "a standard queue, as sqs:NAME or by its ARN, without *";
            let is_queue = |text: &str| queue_target(text).is_some();
            let targets = Targets::of(list, &name, (expected, is_queue), faults);
            if queues.insert(queue.to_owned(), targets).is_some() {
                faults.push(Fault::new(NAME, "an object that names each queue once", queue));
            }
        }
        Self(queues)
    }

    /// The queues with their targets.
    pub(crate) fn bindings(&self) -> impl Iterator<Item = (&String, &Targets)> {
        self.0.iter()
    }

    pub(crate) fn allow(&self, target: &Target, queue: Option<&str>, home: &Home) -> bool {
        self.of(queue).is_some_and(|targets| targets.allow(target, home))
    }

    pub(crate) fn of(&self, queue: Option<&str>) -> Option<&Targets> {
        self.0.get(queue?)
    }
}

/// The functions that may be re-invoked, and the queues that messages may be sent back to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Targets {
    /// All functions at home, and no queue.
    Home,
    /// Functions and queues that match one of these names or ARNs. A name means the handler's own account and region,
    /// where queues always are.
    Listed(Vec<String>),
}

impl Targets {
    pub(crate) fn read(list_of_patterns: &str, faults: &mut Vec<Fault>) -> Self {
        let patterns = list(list_of_patterns.split(','));
        if patterns.is_empty() {
            faults.push(Fault::new(
                "TARGET_FUNCTIONS",
                "a list that names a function",
                list_of_patterns,
            ));
        }
        let expected =
            "standard queues, as sqs:NAME or by their ARNs, in which * matches any characters";
        // In an ARN, a star may also stand for the region or the account.
        let is_queue = |text: &str| match text.strip_prefix(QUEUE_PREFIX) {
            Some(name) => is_queue_name(&name.replace('*', "x")),
            None => QueueArn::parse(text).is_some() || text.contains('*'),
        };
        Self::of(patterns, "TARGET_FUNCTIONS", (expected, is_queue), faults)
    }

    fn of(
        patterns: Vec<String>,
        setting: &str,
        (queue, is_queue): (&str, impl Fn(&str) -> bool),
        faults: &mut Vec<Fault>,
    ) -> Self {
        let name = |c: char| c.is_ascii_alphanumeric() || "-_*".contains(c);
        let is_name = |text: &str| !text.is_empty() && text.chars().all(name);
        for text in &patterns {
            if names_queue(text) {
                if !is_queue(text) {
                    faults.push(Fault::new(setting, queue, text));
                }
            } else if !text.starts_with("arn:") && !is_name(text) {
                let expected = "function names or ARNs, in which * matches any characters";
                faults.push(Fault::new(setting, expected, text));
            }
        }
        Self::Listed(patterns)
    }

    /// Whether this target may be retried by a handler that lives at `home`.
    pub fn allow(&self, target: &Target, home: &Home) -> bool {
        let at_home = target.is_at(home);
        match (self, target) {
            (Self::Home, Target::Function(_)) => at_home,
            (Self::Home, Target::Queue(_)) => false,
            (Self::Listed(patterns), Target::Function(function)) => patterns.iter().any(|listed| {
                if names_queue(listed) {
                    false
                } else if listed.starts_with("arn:") {
                    pattern::matches(listed, function.as_str())
                        || pattern::matches(listed, function.unqualified())
                } else {
                    at_home && pattern::matches(listed, function.name())
                }
            }),
            (Self::Listed(patterns), Target::Queue(queue)) => patterns.iter().any(|listed| {
                let name =
                    if listed.starts_with("arn:") { queue.as_str() } else { queue.target_name() };
                at_home && names_queue(listed) && pattern::matches(listed, name)
            }),
        }
    }
}

/// A function, by its ARN or by its name in the handler's own account and region.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DlqTarget(String);

impl DlqTarget {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_good = is_function_name(text) || FunctionArn::parse(text).is_some();
        is_good.then(|| Self(text.to_owned()))
    }

    /// The function's ARN, for a handler that lives at `home`.
    pub fn at(&self, home: &Home) -> Option<FunctionArn> {
        FunctionArn::parse(&self.0).or_else(|| home.function(&self.0))
    }
}
