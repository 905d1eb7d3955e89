//! The rules of a retry handler: what it may retry, and by which policy.

use std::{collections::BTreeMap, num::NonZeroU32};

use serde_json::value::RawValue;

use crate::{
    Attempt,
    arn::{FunctionArn, Home, QUEUE_PREFIX, QueueArn, is_function_name, is_queue_name},
    backoff::Jitter,
    contract::{Fault, JITTERS, Scope, names},
    duration,
    error_type::NonRetryable,
    json::{self, Object, Pointer},
    pattern::{self, list},
    policy::Policy,
    target::Target,
};

pub(crate) const FLAG: &str = "true or false";
const DURATION: &str = "a duration such as 90, 90s, 15m, 24h or 7d";

/// The settings that a decision depends on.
#[derive(Clone, Debug)]
pub struct Rules {
    pub targets: Targets,
    /// The targets that messages from each queue may name, if queues are bound to targets.
    pub queue_targets: Option<QueueTargets>,
    /// The function that messages of a function's own dead-letter queue belong to.
    pub dlq_target: Option<DlqTarget>,
    pub policies: Policies,
}

impl Rules {
    /// Whether the queue is bound to exactly this target, so that nobody else's failures belong there.
    pub(crate) fn is_bound(&self, target: &Target, queue: Option<&str>, home: &Home) -> bool {
        let queues = self.queue_targets.as_ref();
        match queues.and_then(|queues| queues.of(queue)) {
            Some(targets @ Targets::Listed(list)) => {
                let is_exact = |listed: &str| !listed.contains('*');
                list.len() == 1
                    && list.iter().all(|listed| is_exact(listed))
                    && targets.allow(target, home)
            }
            Some(Targets::Home) | None => false,
        }
    }

    /// Whether a message from this queue may cause a retry of this target. A function must be allowed by all settings.
    /// A queue must be named: its own name in the binding of the retry queue is enough.
    pub fn allow(&self, target: &Target, queue: Option<&str>, home: &Home) -> bool {
        let by_queue = self.queue_targets.as_ref();
        match target {
            Target::Function(_) => {
                self.targets.allow(target, home)
                    && by_queue.is_none_or(|queues| queues.allow(target, queue, home))
            }
            Target::Queue(source) => {
                let name = Some(source.name());
                let is_retry_queue =
                    name == queue || by_queue.is_some_and(|it| it.of(name).is_some());
                !is_retry_queue && self.of(queue).is_some_and(|it| it.allow(target, home))
            }
        }
    }

    /// Whether a queue is a target of this retry queue, so that messages which SQS moved there are those of a consumer.
    pub(crate) fn bind_a_queue(&self, queue: Option<&str>) -> bool {
        match self.of(queue) {
            Some(Targets::Listed(list)) => list.iter().any(|listed| names_queue(listed)),
            Some(Targets::Home) | None => false,
        }
    }

    /// The targets of this retry queue: those that it is bound to, or all if no queue is bound.
    fn of(&self, queue: Option<&str>) -> Option<&Targets> {
        match &self.queue_targets {
            Some(queues) => queues.of(queue),
            None => Some(&self.targets),
        }
    }

    /// Reports each target that is a retry queue or the dead-letter queue: its messages would go round for ever.
    pub(crate) fn refuse_loops(&self, urls: [Option<&str>; 2], faults: &mut Vec<Fault>) {
        let queues = || self.queue_targets.iter().flat_map(|queues| &queues.0);
        let is_ours = |name: &str| {
            let is_last = |url: &str| url.trim_end_matches('/').rsplit('/').next() == Some(name);
            queues().any(|(queue, _)| queue == name) || urls.into_iter().flatten().any(is_last)
        };
        let bound = queues().map(|(queue, list)| (format!("QUEUE_TARGETS.{queue}"), list));
        let all = std::iter::once(("TARGET_FUNCTIONS".to_owned(), &self.targets)).chain(bound);
        for (setting, targets) in all {
            let Targets::Listed(list) = targets else { continue };
            for listed in list.iter().filter(|it| names_queue(it)) {
                if listed.rsplit(':').next().is_some_and(is_ours) {
                    let expected = "another queue than the retry queues and the dead-letter queue";
                    faults.push(Fault::new(setting.clone(), expected, listed));
                }
            }
        }
    }
}

/// Whether an entry of a list of targets is a queue: `sqs:NAME`, or its ARN.
fn names_queue(listed: &str) -> bool {
    let service = || listed.strip_prefix("arn:")?.split(':').nth(1);
    listed.starts_with(QUEUE_PREFIX) || service() == Some("sqs")
}

/// The name of a queue in settings, from that name or the queue's ARN.
fn queue_target(text: &str) -> Option<String> {
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

    fn allow(&self, target: &Target, queue: Option<&str>, home: &Home) -> bool {
        self.of(queue).is_some_and(|targets| targets.allow(target, home))
    }

    fn of(&self, queue: Option<&str>) -> Option<&Targets> {
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
        // A star stands for characters of a name, and in an ARN also for a region or an account.
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

/// The general policy, and those of the targets that have their own.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Policies {
    general: Policy,
    by_target: BTreeMap<String, Policy>,
}

impl Policies {
    pub fn of(&self, target: &str) -> &Policy {
        self.by_target.get(target).unwrap_or(&self.general)
    }

    /// The targets that have a policy of their own, with that.
    pub fn own(&self) -> impl Iterator<Item = (&str, &Policy)> {
        self.by_target.iter().map(|(target, policy)| (target.as_str(), policy))
    }

    pub(crate) fn read(lookup: &impl Fn(&str) -> Option<String>, faults: &mut Vec<Fault>) -> Self {
        let general = policy(&Policy::default(), "", lookup, faults);
        let by_target = lookup("POLICIES")
            .map(|text| Self::read_own(&text, &general, faults))
            .unwrap_or_default();
        Self { general, by_target }
    }

    fn read_own(text: &str, general: &Policy, faults: &mut Vec<Fault>) -> BTreeMap<String, Policy> {
        let Some(targets) = Object::read(text) else {
            let expected = r#"a JSON object such as {"orders":{"MAX_AGE":"7d"}}"#;
            faults.push(Fault::new("POLICIES", expected, text));
            return BTreeMap::new();
        };
        let mut policies = BTreeMap::new();
        for (target, values) in targets.members() {
            let prefix = format!("POLICIES.{target}");
            let queue = queue_target(target);
            if !is_function_name(target) && queue.is_none() {
                let expected = if names_queue(target) {
                    "an object whose keys name queues as sqs:NAME or by their ARNs, without *"
                } else {
                    "an object whose keys are function names, not ARNs or aliases"
                };
                faults.push(Fault::new("POLICIES", expected, target));
            }
            let Some(values) = Object::read(values.get()) else {
                let expected = r#"an object such as {"MAX_AGE":"7d"}"#;
                faults.push(Fault::new(prefix, expected, values.get()));
                continue;
            };
            let known: Vec<_> = names(Scope::Policy).collect();
            for (name, _) in values.members().filter(|(name, _)| !known.contains(name)) {
                let expected = format!("one of {}", known.join(", "));
                faults.push(Fault::new(prefix.clone(), expected, name));
            }
            for name in ["TENANT_ID", "DURABLE"] {
                if let Some(value) = values.get(name).filter(|_| queue.is_some()) {
                    let expected = "absent, because it is about functions only";
                    faults.push(Fault::new(format!("{prefix}.{name}"), expected, plain(value)));
                }
            }
            let own = |name: &str| values.get(name).map(plain);
            let own = policy(general, &format!("{prefix}."), &own, faults);
            policies.insert(queue.unwrap_or_else(|| target.to_owned()), own);
        }
        policies
    }
}

/// A value in `POLICIES` as text: a string or a number as it is, a list joined by commas.
fn plain(value: &RawValue) -> String {
    json::text(value)
        .map(Into::into)
        .or_else(|| Some(serde_json::from_str::<Vec<String>>(value.get()).ok()?.join(",")))
        .unwrap_or_else(|| value.get().to_owned())
}

/// The policy of `base`, overridden by the values that `lookup` finds. A fault that `base` also has is reported again
/// only if its value is overridden.
fn policy(
    base: &Policy,
    prefix: &str,
    lookup: &impl Fn(&str) -> Option<String>,
    faults: &mut Vec<Fault>,
) -> Policy {
    let mut read = Reader { prefix, lookup, faults };
    let mut policy = base.clone();
    read.value("BASE_BACKOFF", DURATION, duration::parse, &mut policy.backoff.base);
    read.value("MAX_BACKOFF", DURATION, duration::parse, &mut policy.backoff.max);
    read.value("MAX_AGE", DURATION, duration::parse, &mut policy.max_age);
    read.value("JITTER", "full, equal or none", jitter, &mut policy.backoff.jitter);
    read.max_attempts(&mut policy.max_attempts);
    let pointer = |text: &str| Pointer::parse(text).filter(|_| !text.is_empty()).map(Some);
    read.value("TENANT_ID", "a JSON pointer such as /tenant/id", pointer, &mut policy.tenant_id);
    read.value("DURABLE", FLAG, |text| text.parse().ok(), &mut policy.durable);
    if let Some(list) = lookup("NON_RETRYABLE_ERRORS") {
        policy.non_retryable = NonRetryable::parse(&list);
    }
    let inherited = base.faults();
    let is_own = |fault: &Fault| lookup(&fault.name).is_some() || !inherited.contains(fault);
    let own = policy.faults().into_iter().filter(is_own);
    faults.extend(own.map(|fault| fault.within(prefix)));
    policy
}

struct Reader<'a, L> {
    prefix: &'a str,
    lookup: &'a L,
    faults: &'a mut Vec<Fault>,
}

impl<L: Fn(&str) -> Option<String>> Reader<'_, L> {
    /// Stores a value in `place` if it is set. A bad value is reported, and `place` stays unchanged.
    fn value<T>(
        &mut self,
        name: &str,
        expected: &str,
        parse: fn(&str) -> Option<T>,
        place: &mut T,
    ) {
        if let Some(text) = (self.lookup)(name) {
            match parse(text.trim()) {
                Some(value) => *place = value,
                None => {
                    self.faults.push(Fault::new(format!("{}{name}", self.prefix), expected, text))
                }
            }
        }
    }

    fn max_attempts(&mut self, place: &mut Option<Attempt>) {
        const EXPECTED: &str = "a whole number from 1";
        let (mut attempts, mut retries) = (None, None);
        self.value("MAX_ATTEMPTS", EXPECTED, |text| whole(text).map(Some), &mut attempts);
        self.value("MAX_RETRIES", EXPECTED, |text| whole(text).map(Some), &mut retries);
        match (attempts, retries) {
            (Some(attempts), Some(retries)) if attempts != retries => {
                let expected = format!("the same as MAX_ATTEMPTS, {attempts}, whose alias it is");
                let name = format!("{}MAX_RETRIES", self.prefix);
                self.faults.push(Fault::new(name, expected, retries.to_string()));
            }
            _ => *place = attempts.or(retries).or(*place),
        }
    }
}

fn whole(text: &str) -> Option<Attempt> {
    Attempt::new(text.parse::<NonZeroU32>().ok()?.get())
}

fn jitter(text: &str) -> Option<Jitter> {
    let all = [Jitter::Full, Jitter::Equal, Jitter::None];
    JITTERS.into_iter().zip(all).find_map(|(name, jitter)| (name == text).then_some(jitter))
}
