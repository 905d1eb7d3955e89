//! Attaches functions that no template manages, so that their failures are retried, and detaches them again.
//!
//! The plan is a function of the [`Facts`]. Its steps only add what is still missing, so after an interruption a new
//! plan continues where the old one stopped. The destination is set last when a function is attached, and restored
//! first when it is detached, so no failure reaches the queue before everything is ready for it.
//!
//! Functions are only attached to existing retry queues. A new queue would need a policy, a mapping and permissions for
//! the handler, and could not be deleted without losing the events that wait in it. Creating one is a template's job. A
//! queue whose consumer fails gets a retry queue of its own, because only that queue may have messages moved there.

mod facts;
mod queues;
mod steps;
#[cfg(test)]
mod tests;

pub use facts::{Facts, Previous, RetryQueue};
pub use queues::{QueueFacts, attach_queue, detach_queue, parse_source};
pub use steps::{Planned, Step, carry_out};

use facts::{Tags, VariablesChange, settings_with, settings_without};

use comeback_core::{arn::FunctionArn, target::Target};
use serde_json::{Value, json};

use crate::operate::{
    doctor::rules::{ACTIONS_ON_KEY, InvokeConfig, WRAPPER, WRAPPER_VARIABLE, allow, policy_of},
    rules::{
        Answer, Fault, Function, Unsupported, counted, last,
        policies::{Effect, ask, exempt, unexempt},
        queue_targets,
    },
};

/// The name of a function, with its alias or version.
pub type QualifiedName = (String, Option<String>);

#[derive(Clone, Debug, Default, Eq, PartialEq, clap::Args)]
pub struct Order {
    /// The function, by its name or ARN, with an alias or a version if that is what is invoked.
    #[arg(value_name = "FUNCTION[:ALIAS]", value_parser = parse, required_unless_present = "queue")]
    pub function: Option<QualifiedName>,
    /// Without a function: the queue whose consumer fails, by its name or ARN. With a function: the retry queue, by its
    /// name, URL or ARN [default: the only one that functions share].
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// The retry queue of the queue, by its name, which is created if it doesn't exist [default: retry-QUEUE].
    #[arg(long, value_name = "NAME", conflicts_with = "function")]
    pub retry_queue: Option<String>,
    /// How often SQS lets a consumer of the queue try before it moves a message [default: 1].
    #[arg(long, value_name = "N", conflicts_with = "function", value_parser = clap::value_parser!(u64).range(1..=10))]
    pub max_receives: Option<u64>,
    /// Replace another on-failure destination, or the queue's dead-letter queue.
    #[arg(long)]
    pub replace: bool,
    /// Have this layer take the envelope off, so that the function gets its original payload in every attempt.
    #[arg(long, value_name = "LAYER_ARN", requires = "function")]
    pub transparent: Option<String>,
}

impl Order {
    /// The alias or version to attach; `None` is the function itself.
    fn qualifier(&self) -> Option<&str> {
        self.function.as_ref()?.1.as_deref()
    }
}

#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    #[error("the retry handler can't be attached to itself")]
    IsHandler,
    #[error("expected the name of a retry queue of {handler} in --queue, got {got}; it has {}", .queues.join(", "))]
    NoSuchQueue { handler: String, got: String, queues: Vec<String> },
    #[error("functions share no single retry queue, there is {}; choose a queue with --queue", if .0.is_empty() { "none".to_owned() } else { .0.join(", ") })]
    ChooseQueue(Vec<String>),
    #[error("{queue} is the retry queue of {handler}: detach the function there first")]
    OtherSystem { queue: String, handler: String },
    #[error(
        "the function's failures already go to {0}; pass --replace to send them to the retry queue"
    )]
    OtherDestination(String),
    #[error("{handler} would not start with these settings: {fault}")]
    BadSettings { handler: String, fault: String },
    #[error(
        "the settings of {handler} would still not allow it; set TARGET_FUNCTIONS or QUEUE_TARGETS by hand"
    )]
    NotAllowed { handler: String },
    #[error("the variables of {handler} would have {bytes} bytes, and Lambda takes 4096")]
    TooManyVariables { handler: String, bytes: usize },
    #[error(
        "the policy of {queue} denies {role} sqs:SendMessage, other than by a list of roles: change it by hand"
    )]
    ClosedQueue { queue: String, role: String },
    #[error(
        "--transparent has no effect on {0}: put the layer's extensions/comeback into the {place} as its bootstrap", place = if .0.as_str() == IMAGE { "image" } else { "code" }
    )]
    NoWrapper(String),
    #[error("the function runs on {own}, and {layer} on {architectures}: pass the layer for {own}")]
    OtherArchitecture { own: String, layer: String, architectures: String },
    #[error(
        "the function's code signing configuration refuses {layer}, which none of its profiles has signed: sign the layer's zip by {}, publish it, and pass that version", .signers.join(" or ")
    )]
    NotSigned { layer: String, signers: Vec<String> },
    #[error(
        "--transparent needs AWS_LAMBDA_EXEC_WRAPPER, which is {0}: set it to a script that runs both"
    )]
    OtherWrapper(String),
    #[error("--transparent needs a layer, and the function already has five")]
    TooManyLayers,
    #[error(
        "the function's on-failure destination has {0} characters, and a tag that keeps it has at most 256"
    )]
    LongDestination(usize),
    #[error("{0}")]
    Unsupported(Unsupported),
    #[error(
        "a FIFO queue can't take part: its dead-letter queue must be FIFO too, and backoff would break its order"
    )]
    Fifo,
    #[error("expected the name or the ARN of a queue, such as imports, got {0}")]
    NoQueueName(String),
    #[error(
        "{queue} is in another account or region than the handler, where SQS moves no messages to: attach {own}, or deploy a handler there"
    )]
    Elsewhere { queue: String, own: String },
    #[error("there is no queue {0}")]
    NoSource(String),
    #[error(
        "{0} is a retry queue or the dead-letter queue itself: attach the queue that a producer sends to"
    )]
    IsRetryQueue(String),
    #[error(
        "messages of {name} already go to {queue} after {}; pass --replace to let them come back instead: {queue} stays as it is, and comeback detach restores it", counted(*.receives, "receive")
    )]
    HasDeadLetters { name: String, queue: String, receives: u64 },
    #[error("{0} was not attached by comeback attach: it has no tag comeback:before")]
    QueueNotAttached(String),
    #[error("the function was not attached by comeback attach: it has no tag comeback:before")]
    NotAttached,
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// What has no runtime.
const IMAGE: &str = "an image";

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Plan {
    pub queue: String,
    pub steps: Vec<Planned>,
    pub warnings: Vec<String>,
    /// The number of messages that must leave the queue before the rest can be restored; 0 if the plan is complete.
    pub waiting: u64,
}

pub fn attach(facts: &Facts, order: &Order) -> Result<Plan, Refusal> {
    let Facts { handler, function, config, .. } = facts;
    let qualifier = order.qualifier();
    if function.arn == handler.arn {
        return Err(Refusal::IsHandler);
    }
    let settings = handler.settings().ok();
    if let Some(unsupported) = function.unsupported_by(settings.as_ref()) {
        return Err(Refusal::Unsupported(unsupported));
    }
    let queue = choose(facts, order)?;
    let destination = config.as_ref().and_then(|config| config.on_failure.as_ref());
    if let Some(other) = destination.filter(|arn| **arn != queue.arn) {
        if let Some(handler) = facts.others.get(other) {
            let (queue, handler) = (last(other).to_owned(), handler.clone());
            return Err(Refusal::OtherSystem { queue, handler });
        }
        if !order.replace {
            return Err(Refusal::OtherDestination(other.clone()));
        }
        if other.len() > facts::VALUE_MAX {
            return Err(Refusal::LongDestination(other.len()));
        }
    }
    let name = queue.name().to_owned();
    let mut plan = Plan { queue: name, warnings: warnings(facts, order, queue), ..Plan::default() };
    let policy = admission(function, queue)?;
    let record = format!("{}:{}", function.arn, qualifier.unwrap_or("$LATEST"));
    let not_allowed = || Refusal::NotAllowed { handler: handler.name().to_owned() };
    let failed = FunctionArn::parse(&record).map(Target::Function).ok_or_else(not_allowed)?;
    let settings = settings_with(handler, &failed, queue.name(), &[])?;
    let transparency = transparency(facts, order)?;
    if Previous::read(&facts.tags, qualifier).is_none() {
        let adds_layer = transparency.as_ref().is_some_and(|(layers, _)| layers.is_some());
        let before = Previous {
            queue: queue.name().to_owned(),
            had_config: config.is_some(),
            retries: config.as_ref().and_then(|config| config.retries),
            on_failure: destination.cloned(),
            may_loop: facts.may_loop.as_ref().ok().copied(),
            settings: settings.is_some(),
            policy: policy.is_some(),
            layer: order.transparent.clone().filter(|_| adds_layer),
            wrapper: transparency.is_some() && !function.environment.contains_key(WRAPPER_VARIABLE),
        };
        let tags = before.tags(qualifier);
        plan.add(Step::Tag { resource: function.arn.clone(), tags }, "no tag", before.to_string());
    }
    plan.allow(
        &facts.send_policy,
        &function.role,
        &policy_name("send", function.name(), qualifier),
        policy_of(&send_statements(function, queue)),
    )?;
    plan.admit(&queue.url, &function.role, policy);
    let arn = &function.arn;
    let invoke = allow(&["lambda:InvokeFunction"], &[arn, &format!("{arn}:*")]);
    let policy = policy_name("invoke", function.name(), qualifier);
    plan.allow(&facts.invoke_policy, &handler.role, &policy, invoke)?;
    plan.set(handler, settings);
    plan.allow_loop(function.name(), &facts.may_loop)?;
    if let Some((layers, environment)) = transparency {
        let becomes = format!(
            "{} and {WRAPPER_VARIABLE}={WRAPPER}",
            order.transparent.as_deref().unwrap_or_default()
        );
        let name = function.name().to_owned();
        plan.add(
            Step::Configure { function: name, environment, layers, revision: None },
            "envelopes reach it",
            becomes,
        );
    }
    plan.invocations(facts, order, queue);
    Ok(plan)
}

impl Plan {
    fn add(&mut self, step: Step, is: impl Into<String>, becomes: impl Into<String>) {
        self.steps.push(Planned::new(step, is, becomes));
    }

    /// The fact, or `None` with a warning if an emulator lacks its API: the steps that need it are left out.
    fn known<'a, T>(&mut self, fact: &'a Answer<T>) -> Answer<Option<&'a T>> {
        let fault = match fact {
            Ok(fact) => return Ok(Some(fact)),
            Err(fault) if fault.is_unsupported() => fault,
            Err(fault) => return Err(fault.clone()),
        };
        let warning = format!(
            "steps that need {} are left out, because this endpoint doesn't have that API",
            fault.action
        );
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
        Ok(None)
    }

    fn allow(
        &mut self,
        existing: &Answer<Option<String>>,
        role: &str,
        policy: &str,
        document: String,
    ) -> Answer<()> {
        let parsed = |text: &str| serde_json::from_str::<Value>(text).ok();
        let Some(existing) = self.known(existing)? else { return Ok(()) };
        if existing.as_deref().and_then(parsed) != parsed(&document) {
            let is = existing.as_deref().unwrap_or("no policy").to_owned();
            let (role, policy) = (role.to_owned(), policy.to_owned());
            self.add(Step::Allow { role, policy, document: document.clone() }, is, document);
        }
        Ok(())
    }

    fn disallow(
        &mut self,
        existing: &Answer<Option<String>>,
        role: &str,
        policy: String,
    ) -> Answer<()> {
        if let Some(Some(document)) = self.known(existing)? {
            let step = Step::Disallow { role: role.to_owned(), policy };
            self.add(step, document.clone(), "no policy");
        }
        Ok(())
    }

    /// Sets the policy of a queue that lets the role send.
    fn admit(&mut self, url: &str, role: &str, policy: Option<String>) {
        let Some(policy) = policy else { return };
        let step = Step::QueuePolicy { url: url.to_owned(), policy };
        self.add(step, "denies its role to send", format!("lets {role} send"));
    }

    /// Restores the policy of a queue that lets the role send.
    fn unadmit(&mut self, url: &str, role: &str, policy: Option<&str>) {
        let old = policy.unwrap_or_default();
        let new = unexempt(old, role, "sqs:SendMessage").filter(|new| new != old);
        if let Some(policy) = new {
            let step = Step::QueuePolicy { url: url.to_owned(), policy };
            self.add(step, format!("lets {role} send"), "does not");
        }
    }

    fn set(&mut self, handler: &Function, change: Option<VariablesChange>) {
        let Some((environment, is, becomes)) = change else { return };
        let (function, revision) = (handler.name().to_owned(), handler.revision.clone());
        self.add(Step::Configure { function, environment, layers: None, revision }, is, becomes);
    }

    fn allow_loop(&mut self, function: &str, may_loop: &Answer<bool>) -> Answer<()> {
        if self.known(may_loop)? == Some(&false) {
            let step = Step::Loop { function: function.to_owned(), allow: true };
            self.add(step, "Terminate", "Allow");
        }
        Ok(())
    }

    fn untag(&mut self, arn: &str, tags: &Tags, qualifier: Option<&str>, before: &Previous) {
        let keys = Previous::keys(qualifier).into_iter().filter(|key| tags.contains_key(key));
        let step = Step::Untag { resource: arn.to_owned(), keys: keys.collect() };
        self.add(step, before.to_string(), "no tag");
    }

    /// Turns Lambda's own retries off and sends failures to the queue. Other settings of the config stay unchanged.
    fn invocations(&mut self, facts: &Facts, order: &Order, queue: &RetryQueue) {
        let old = facts.config.clone().unwrap_or_default();
        let new =
            InvokeConfig { retries: Some(0), on_failure: Some(queue.arn.clone()), ..old.clone() };
        if facts.config.as_ref() == Some(&new) {
            return;
        }
        let (is, becomes) = (says(&old), says(&new));
        let function = facts.function.name().to_owned();
        let step = Step::Invocations {
            function,
            qualifier: order.qualifier().map(str::to_owned),
            config: Some(new),
        };
        self.add(step, is, becomes);
    }
}

/// Plans to detach a function. As long as the queue has messages, the plan only restores the destination and Lambda's
/// own retries, so that no new failures arrive: waiting events still need the settings and permissions to come back.
/// With `now` it restores everything, and the function's waiting events are dead-lettered.
pub fn detach(facts: &Facts, qualifier: Option<&str>, now: bool) -> Result<Plan, Refusal> {
    let Facts { handler, function, queues, .. } = facts;
    let before = Previous::read(&facts.tags, qualifier).ok_or(Refusal::NotAttached)?;
    let mut plan = Plan { queue: before.queue.clone(), ..Plan::default() };
    restore_invocations(&mut plan, facts, qualifier, &before);
    let queue = queues.iter().find(|queue| queue.name() == before.queue);
    if let Some(queue) = queue.filter(|queue| queue.attributes.messages() > 0 && !now) {
        plan.waiting = queue.attributes.messages();
        return Ok(plan);
    }
    let is_elsewhere = Previous::is_elsewhere(&facts.tags, qualifier);
    if before.settings && !is_elsewhere {
        plan.set(handler, settings_without(handler, function.name(), &before.queue));
    }
    let policy = policy_name("invoke", function.name(), qualifier);
    plan.disallow(&facts.invoke_policy, &handler.role, policy)?;
    if let Some(queue) = queue.filter(|_| before.policy && !is_elsewhere) {
        plan.unadmit(&queue.url, &function.role, queue.attributes.policy.as_deref());
    }
    let policy = policy_name("send", function.name(), qualifier);
    plan.disallow(&facts.send_policy, &function.role, policy)?;
    if !is_elsewhere {
        function_itself(&mut plan, facts, &before);
    }
    plan.untag(&function.arn, &facts.tags, qualifier, &before);
    Ok(plan)
}

/// Restores Lambda's own retries and the destination, unless the destination was changed since.
fn restore_invocations(plan: &mut Plan, facts: &Facts, qualifier: Option<&str>, before: &Previous) {
    let Some(config) = &facts.config else { return };
    let queue = facts.queues.iter().find(|queue| queue.name() == before.queue);
    if config.on_failure.as_ref() != queue.map(|queue| &queue.arn) {
        let to = config.on_failure.as_deref().unwrap_or("no destination");
        if config.on_failure != before.on_failure {
            plan.warnings
                .push(format!("the function's failures now go to {to}; that is left unchanged"));
        }
        return;
    }
    let old = InvokeConfig {
        retries: before.retries,
        on_failure: before.on_failure.clone(),
        ..config.clone()
    };
    let is_empty = old.age_max.is_none() && old.on_success.is_none();
    let new = (before.had_config || !is_empty).then_some(old);
    let becomes = match &new {
        Some(config) => says(config),
        None => format!("Lambda's defaults: {}", says(&InvokeConfig::default())),
    };
    let (function, qualifier) = (facts.function.name().to_owned(), qualifier.map(str::to_owned));
    let is = says(&InvokeConfig { retries: Some(0), ..config.clone() });
    plan.add(Step::Invocations { function, qualifier, config: new }, is, becomes);
}

fn says(config: &InvokeConfig) -> String {
    let destination = config.on_failure.as_deref().unwrap_or("no destination");
    format!("{} retries, then {destination}", config.retries.unwrap_or(2))
}

/// Restores the settings that all aliases and versions of a function share.
fn function_itself(plan: &mut Plan, facts: &Facts, before: &Previous) {
    let function = &facts.function;
    if before.may_loop == Some(false) && facts.may_loop == Ok(true) {
        plan.add(
            Step::Loop { function: function.name().to_owned(), allow: false },
            "Allow",
            "Terminate",
        );
    }
    if before.layer.is_none() && !before.wrapper {
        return;
    }
    let mut environment = function.environment.clone();
    if before.wrapper {
        environment.remove(WRAPPER_VARIABLE);
    }
    let mut layers = function.layers.clone();
    layers.retain(|layer| Some(layer) != before.layer.as_ref());
    if environment != function.environment || layers != function.layers {
        let layers = (layers != function.layers).then_some(layers);
        let step = Step::Configure {
            function: function.name().to_owned(),
            environment,
            layers,
            revision: None,
        };
        plan.add(step, "envelopes are taken off", "envelopes reach it");
    }
}

/// The requested queue, the function's current one, or the only one that functions share.
fn choose<'a>(facts: &'a Facts, order: &Order) -> Result<&'a RetryQueue, Refusal> {
    let Facts { handler, queues, function, config, .. } = facts;
    let names = |queues: &[&RetryQueue]| queues.iter().map(|it| it.name().to_owned()).collect();
    if let Some(wanted) = &order.queue {
        let is_it =
            |queue: &&RetryQueue| [queue.name(), &queue.arn, &queue.url].contains(&wanted.as_str());
        return queues.iter().find(is_it).ok_or_else(|| Refusal::NoSuchQueue {
            handler: handler.name().to_owned(),
            got: wanted.clone(),
            queues: names(&queues.iter().collect::<Vec<_>>()),
        });
    }
    let destination = config.as_ref().and_then(|config| config.on_failure.as_ref());
    let before = Previous::read(&facts.tags, order.qualifier());
    let has = |queue: &&RetryQueue| {
        Some(&queue.arn) == destination
            || before.as_ref().is_some_and(|it| it.queue == queue.name())
    };
    if let Some(queue) = queues.iter().find(has) {
        return Ok(queue);
    }
    let bound = queue_targets(&handler.environment);
    let is_shared = |queue: &&RetryQueue| {
        let alone = bound.get(queue.name()).filter(|names| names.len() == 1);
        alone.is_none_or(|names| {
            names.iter().any(|name| name == function.name() || name.contains('*'))
        })
    };
    let shared: Vec<_> = queues.iter().filter(is_shared).collect();
    match shared[..] {
        [queue] => Ok(queue),
        _ => Err(Refusal::ChooseQueue(names(&shared))),
    }
}

/// The queue's policy with an exemption for the function's role, if the current policy denies it sending.
fn admission(function: &Function, queue: &RetryQueue) -> Result<Option<String>, Refusal> {
    const SEND: &str = "sqs:SendMessage";
    if queue.attributes.effect(&function.role, SEND) != Effect::Deny {
        return Ok(None);
    }
    let policy = queue.attributes.policy.as_deref().unwrap_or_default();
    let open = exempt(policy, &function.role, SEND);
    let open = open.filter(|policy| ask(policy, &function.role, SEND) != Effect::Deny);
    let closed =
        || Refusal::ClosedQueue { queue: queue.name().to_owned(), role: function.role.clone() };
    open.map(Some).ok_or_else(closed)
}

/// The layers of a function, if they change, and its variables, so that it no longer receives envelopes.
type Transparency = (Option<Vec<String>>, std::collections::BTreeMap<String, String>);

fn transparency(facts: &Facts, order: &Order) -> Result<Option<Transparency>, Refusal> {
    /// Lambda's limit for one function.
    const LAYERS_MAX: usize = 5;
    let Some(layer) = &order.transparent else { return Ok(None) };
    let function = &facts.function;
    let runtime = function.runtime.as_deref().unwrap_or(IMAGE);
    if function.runtime.is_none() || runtime.starts_with("provided") {
        return Err(Refusal::NoWrapper(runtime.to_owned()));
    }
    let wrapper = function.environment.get(WRAPPER_VARIABLE);
    if let Some(other) = wrapper.filter(|it| *it != WRAPPER) {
        return Err(Refusal::OtherWrapper(other.clone()));
    }
    let has_layer = function.layers.contains(layer);
    if !has_layer && function.layers.len() >= LAYERS_MAX {
        return Err(Refusal::TooManyLayers);
    }
    if let Some(architectures) = facts.layer.as_ref().and_then(|it| it.unfit(function)) {
        let (own, layer) = (function.architecture.clone(), layer.clone());
        return Err(Refusal::OtherArchitecture { own, layer, architectures });
    }
    let signer = facts.layer.as_ref().map(|layer| layer.signer.clone().unwrap_or_default());
    if let (Some(signer), Some(signers)) = (signer, &facts.signers)
        && !has_layer
        && !signers.contains(&signer)
    {
        return Err(Refusal::NotSigned { layer: layer.clone(), signers: signers.clone() });
    }
    if has_layer && wrapper.is_some() {
        return Ok(None);
    }
    let mut environment = function.environment.clone();
    environment.insert(WRAPPER_VARIABLE.to_owned(), WRAPPER.to_owned());
    let layers = function.layers.iter().chain([layer]).cloned();
    Ok(Some(((!has_layer).then(|| layers.collect()), environment)))
}

fn warnings(facts: &Facts, order: &Order, queue: &RetryQueue) -> Vec<String> {
    let Facts { handler, function, .. } = facts;
    let changes = "changes of the handler's variables and of the queue's policy";
    let managed = [
        facts::managed(&facts.tags, function.name(), "this"),
        facts::managed(&facts.handler_tags, handler.name(), changes),
    ];
    let mut warnings: Vec<_> = managed.into_iter().flatten().collect();
    if function.dead_letter_target.is_some() {
        warnings.push(format!(
            "{} has a dead-letter queue of its own, to which Lambda also sends each failure",
            function.name()
        ));
    }
    let key = queue.attributes.key.as_ref();
    if let Some(alias) =
        key.filter(|key| key.starts_with("alias/") && !key.starts_with("alias/aws/"))
    {
        warnings.push(format!(
            "{} has the key {alias}: let {} use it ({}), or its failures are lost",
            queue.name(),
            function.role_name(),
            ACTIONS_ON_KEY.join(", ")
        ));
    }
    if let (Some(_), Some(qualifier)) = (&order.transparent, order.qualifier()) {
        warnings.push(format!(
            "Lambda never changes a version: publish one with the layer, and let {qualifier} point to it"
        ));
    }
    warnings
}

/// What lets the function's role send to the queue and use the queue's key.
fn send_statements(function: &Function, queue: &RetryQueue) -> Vec<Value> {
    let send = json!({ "Effect": "Allow", "Action": ["sqs:SendMessage"], "Resource": [queue.arn] });
    let key = queue.attributes.key_arn(&function.arn).map(|key| {
        let actions = ["kms:Decrypt", "kms:GenerateDataKey"];
        json!({ "Effect": "Allow", "Action": actions, "Resource": key })
    });
    [send].into_iter().chain(key).collect()
}

/// The name of an inline policy. Functions may share a role, so the name contains the function and its qualifier.
pub fn policy_name(purpose: &str, function: &str, qualifier: Option<&str>) -> String {
    let qualifier = qualifier.map(|it| format!(".{it}")).unwrap_or_default();
    format!("comeback-{purpose}-{function}{qualifier}")
}

/// Parses a function's name or ARN into the name and the alias or version.
pub fn parse(text: &str) -> Result<QualifiedName, String> {
    let unqualified = |text: &str| (text != "$LATEST").then(|| text.to_owned());
    let named = if let Some(arn) = FunctionArn::parse(text) {
        let qualifier = text.strip_prefix(arn.unqualified()).unwrap_or_default();
        Some((arn.name().to_owned(), qualifier.strip_prefix(':').and_then(unqualified)))
    } else {
        let (name, qualifier) =
            text.split_once(':').map_or((text, None), |(name, it)| (name, Some(it)));
        let is_good = comeback_core::arn::is_function_name(name) && qualifier != Some("");
        is_good.then(|| (name.to_owned(), qualifier.and_then(unqualified)))
    };
    named.ok_or_else(|| "expected a function such as orders, orders:live or an ARN".to_owned())
}
