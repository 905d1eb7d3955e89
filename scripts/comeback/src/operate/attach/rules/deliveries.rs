//! Plans to attach what delivers events to a function or a queue, so that those that can't be delivered come back, and
//! to detach it.
//!
//! Its target gets a retry queue as dead-letter queue. That is set last when it is attached, and taken off first when
//! it is detached, so no event reaches the queue before the handler may deliver it.

use comeback_core::{
    arn::{FunctionArn, QueueArn},
    target::Target,
};
use serde_json::Value;

use crate::{
    account::{
        fault::Answer,
        function::Function,
        handlers::queue_targets,
        names::{last, role_name},
        policy::{self, Service, policy_of, statement},
        sender::{DEFAULT, Sender, change, dead_letters},
        setup::ACTIONS_ON_KEY,
        tags::Tags,
    },
    operate::attach::rules::{
        admission::{admission, policy_name, send_statements},
        choice,
        facts::{RetryQueue, managed},
        order::Order,
        plan::Plan,
        refusal::Refusal,
        settings::settings_with,
        steps::Step,
    },
};

#[derive(Clone, Debug)]
pub struct DeliveryFacts {
    pub handler: Function,
    pub handler_tags: Tags,
    pub queues: Vec<RetryQueue>,
    /// The retry queues of other handlers: the name of the handler by the ARN of the queue.
    pub others: Tags,
    pub sender: Sender,
    /// The ARN of the rule or the schedule.
    pub arn: String,
    /// The target, as AWS has it.
    pub target: Value,
    /// The ARNs of the dead-letter queues of the rule's other targets.
    pub dead_letters_of_others: Vec<String>,
    /// The queue that is the target, if it is one.
    pub target_queue: Option<RetryQueue>,
    /// The inline policy that lets the handler's role deliver to the target.
    pub deliver_policy: Answer<Option<String>>,
    /// The inline policy that lets the schedule's role send to the retry queue.
    pub send_policy: Answer<Option<String>>,
}

impl DeliveryFacts {
    /// The ARN of the dead-letter queue that the target has.
    fn dead_letters(&self) -> Option<&str> {
        dead_letters(&self.target)
    }

    fn role(&self) -> Option<&str> {
        match self.sender {
            Sender::Rule { .. } => None,
            Sender::Schedule { .. } => self.target["RoleArn"].as_str(),
        }
    }
}

/// The target of a rule with this id, or its only one.
pub fn target_of<'a>(
    rule: &str,
    targets: &'a [Value],
    id: Option<&str>,
) -> Result<&'a Value, Refusal> {
    let ids = targets.iter().map(|it| text(it, "Id").to_owned()).collect();
    let mut meant = targets.iter().filter(|it| id.is_none_or(|id| text(it, "Id") == id));
    match (meant.next(), meant.next()) {
        (Some(target), None) => Ok(target),
        _ => Err(Refusal::ChooseTarget { rule: rule.to_owned(), ids }),
    }
}

fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap_or_default()
}

/// The function or the queue that is delivered to, in the handler's account and region.
pub fn delivered_to(target: &Value, handler: &Function) -> Result<Target, Refusal> {
    let arn = text(target, "Arn");
    if arn.ends_with(".fifo") {
        return Err(Refusal::Fifo);
    }
    let found = Target::parse(arn).ok_or_else(|| Refusal::OtherTarget(arn.to_owned()))?;
    let home = match &found {
        Target::Function(function) => Some(function.home()),
        Target::Queue(queue) => queue.home(),
    };
    if home != FunctionArn::parse(&handler.arn).map(|it| it.home()) {
        let handler = handler.name().to_owned();
        return Err(Refusal::TargetElsewhere { target: arn.to_owned(), handler });
    }
    Ok(found)
}

/// The name of the inline policy of the handler that lets it deliver to this target.
pub fn deliver_policy(target: &Target) -> String {
    match target {
        Target::Function(function) => policy_name("deliver", function.name(), None),
        Target::Queue(queue) => policy_name("deliver-to", queue.name(), None),
    }
}

/// The name of the inline policy of a schedule's role that lets it send to the retry queue.
pub fn send_policy(sender: &Sender) -> String {
    match sender {
        Sender::Schedule { group, name } if group != DEFAULT => {
            policy_name("send", name, Some(group))
        }
        Sender::Schedule { name, .. } | Sender::Rule { name, .. } => {
            policy_name("send", name, None)
        }
    }
}

pub fn attach(facts: &DeliveryFacts, order: &Order) -> Result<Plan, Refusal> {
    let DeliveryFacts { handler, sender, target, queues, .. } = facts;
    let to = delivered_to(target, handler)?;
    if let Sender::Rule { .. } = sender
        && let Some(member) = change(target)
    {
        return Err(Refusal::Changed { sender: sender.to_string(), member });
    }
    let is_own = |arn: &str| queues.iter().any(|queue| queue.arn == arn);
    if is_own(to.as_str()) {
        return Err(Refusal::IsRetryQueue(last(to.as_str()).to_owned()));
    }
    let queue = choose(facts, order, &to)?;
    if let Some(other) = facts.dead_letters().filter(|arn| *arn != queue.arn) {
        if let Some(handler) = facts.others.get(other) {
            let (queue, handler) = (last(other).to_owned(), handler.clone());
            return Err(Refusal::OtherSystem { queue, handler });
        }
        let (sender, to) = (sender.to_string(), to.name().to_owned());
        return Err(Refusal::OtherDeadLetters { sender, queue: last(other).to_owned(), to });
    }
    let mut plan = Plan { queue: queue.name().to_owned(), ..Plan::default() };
    let changes = "changes of the handler's variables and of the queue's policy";
    plan.warnings.extend(managed(&facts.handler_tags, handler.name(), changes));
    let mapped: Vec<_> = queues.iter().map(RetryQueue::name).collect();
    let bind = Some(&mapped[..]);
    let settings = settings_with(handler, &to, queue.name(), bind, (None, None), None)?;
    let document = policy_of(&deliver(facts, &to)?);
    plan.allow(&facts.deliver_policy, &handler.role, &deliver_policy(&to), document)?;
    plan.set(handler, settings.variables);
    admit(&mut plan, facts, queue)?;
    if facts.dead_letters().is_none() {
        dead_letter_queue(&mut plan, facts, &queue.arn, true);
    }
    Ok(plan)
}

/// The retry queue that was named, that the target has, that is bound to it, or the only one that functions share.
fn choose<'a>(
    facts: &'a DeliveryFacts,
    order: &Order,
    to: &Target,
) -> Result<&'a RetryQueue, Refusal> {
    let DeliveryFacts { handler, queues, .. } = facts;
    if let Some(wanted) = &order.queue {
        return choice::named(handler, queues, wanted);
    }
    let bound = queue_targets(&handler.environment);
    let names = |queue: &RetryQueue| bound.get(queue.name());
    let has_it = |queue: &&RetryQueue| Some(queue.arn.as_str()) == facts.dead_letters();
    let is_bound = |queue: &&RetryQueue| {
        names(queue).is_some_and(|names| names.iter().any(|name| name == to.name()))
    };
    if let Some(queue) = queues.iter().find(has_it).or_else(|| queues.iter().find(is_bound)) {
        return Ok(queue);
    }
    if to.is_queue() {
        return Err(Refusal::UnboundQueue(to.name().to_owned()));
    }
    let is_shared =
        |queue: &&RetryQueue| names(queue).is_none_or(|names| names.iter().any(|it| it == "*"));
    let shared: Vec<_> = queues.iter().filter(is_shared).collect();
    choice::only(&shared)
}

/// What lets the handler's role deliver to the target.
fn deliver(facts: &DeliveryFacts, to: &Target) -> Result<Vec<Value>, Refusal> {
    let handler = &facts.handler;
    let queue = match to {
        Target::Function(function) => {
            let arn = function.unqualified();
            return Ok(vec![statement(&["lambda:InvokeFunction"], &[arn, &format!("{arn}:*")])]);
        }
        Target::Queue(queue) => queue,
    };
    let no_queue = || Refusal::NoSource(QueueArn::to_string(queue));
    let queue = facts.target_queue.as_ref().ok_or_else(no_queue)?;
    if admission(&handler.role, queue)?.is_some() {
        let (queue, role) = (queue.name().to_owned(), handler.role.clone());
        return Err(Refusal::ClosedQueue { queue, role });
    }
    Ok(send_statements(&handler.arn, queue))
}

/// Lets the rule, or the schedule's role, send to the retry queue.
fn admit(plan: &mut Plan, facts: &DeliveryFacts, queue: &RetryQueue) -> Result<(), Refusal> {
    let DeliveryFacts { handler, sender, .. } = facts;
    let key = queue.attributes.key.as_deref();
    if let Some(role) = facts.role() {
        let document = policy_of(&send_statements(&handler.arn, queue));
        plan.allow(&facts.send_policy, role, &send_policy(sender), document)?;
        plan.admit(&queue.url, role, admission(role, queue)?);
        return Ok(());
    }
    let service = Service::Events.principal();
    if key.is_some_and(|key| key.ends_with("alias/aws/sqs")) {
        return Err(Refusal::ClosedKey { queue: queue.name().to_owned(), service });
    }
    plan.warnings.extend(key.map(|key| {
        format!(
            "{} has the key {key}: its policy must let {service} use it ({}), or undelivered events are lost",
            queue.name(),
            ACTIONS_ON_KEY.join(", ")
        )
    }));
    let account = queue.arn.split(':').nth(4).unwrap_or_default();
    let old = queue.attributes.policy.as_deref().unwrap_or_default();
    if !policy::admits(old, Service::Events, &facts.arn, account)
        && let Some(policy) = policy::admit(old, &queue.arn, Service::Events, &facts.arn, account)
    {
        let step = Step::QueuePolicy { url: queue.url.clone(), policy };
        plan.add(step, "does not let the rule send", format!("lets {} send", last(&facts.arn)));
    }
    Ok(())
}

fn dead_letter_queue(plan: &mut Plan, facts: &DeliveryFacts, queue: &str, is_set: bool) {
    let step = Step::DeadLetters {
        sender: facts.sender.clone(),
        handler: facts.handler.arn.clone(),
        queue: queue.to_owned(),
        is_set,
    };
    let (none, name) = ("no dead-letter queue".to_owned(), last(queue).to_owned());
    let (is, becomes) = if is_set { (none, name) } else { (name, none) };
    plan.add(step, is, becomes);
}

/// Plans to detach what delivers events. What other rules and schedules of the same target need is kept.
pub fn detach(facts: &DeliveryFacts) -> Result<Plan, Refusal> {
    let DeliveryFacts { handler, sender, target, queues, .. } = facts;
    let to = delivered_to(target, handler)?;
    let own = queues.iter().find(|queue| Some(queue.arn.as_str()) == facts.dead_letters());
    let Some(queue) = own else {
        return Err(Refusal::SenderNotAttached(sender.to_string()));
    };
    let mut plan = Plan { queue: queue.name().to_owned(), ..Plan::default() };
    dead_letter_queue(&mut plan, facts, &queue.arn, false);
    let policy = queue.attributes.policy.as_deref();
    if let Some(role) = facts.role() {
        plan.disallow(&facts.send_policy, role, send_policy(sender))?;
        plan.unadmit(&queue.url, role, policy);
    } else if !facts.dead_letters_of_others.contains(&queue.arn)
        && let Some(policy) = policy.and_then(|it| policy::unadmit(it, Service::Events, &facts.arn))
    {
        let step = Step::QueuePolicy { url: queue.url.clone(), policy };
        plan.add(step, format!("lets {} send", last(&facts.arn)), "does not");
    }
    plan.warnings.push(format!(
        "events that wait in {0} are still delivered, and other rules and schedules may need that: when nothing does, take {1} out of QUEUE_TARGETS of {2}, and the policy {3} from its role {4}",
        queue.name(),
        to.name(),
        handler.name(),
        deliver_policy(&to),
        role_name(&handler.role),
    ));
    Ok(plan)
}
