//! Examines the rules and schedules that deliver events to functions and queues whose failures are retried.

use comeback_core::{arn::FunctionArn, target::Target};

use crate::{
    account::{
        names::{last, target_name},
        policy::{Service, admits},
        sender::{Sender, change, dead_letters},
    },
    operate::doctor::rules::{
        facts::{Delivery, Facts},
        finding::Examined,
        kinds,
    },
};

pub fn examine_delivery(facts: &Facts, delivery: &Delivery) -> Examined {
    let Delivery { sender, target, .. } = delivery;
    let to = target["Arn"].as_str().unwrap_or_default();
    let name = target_name(to);
    let attach = facts.command(&format!("attach {}", sender.arguments()));
    let mut it = Examined::new(sender.to_string());
    let Some(dead) = dead_letters(target) else {
        let says = format!("it delivers to {name}, and has no dead-letter queue");
        it.found(kinds::DELIVERY_NOT_RETRIED, says).by_hand(attach);
        return it;
    };
    let queue = last(dead);
    it.good = format!("what it can't deliver to {name} comes back by {queue}");
    if facts.queues_of_others.contains_key(dead) {
        return it;
    }
    if !facts.has_queue(Some(dead)) {
        let says = format!("it delivers to {name}, and its dead-letter queue is {queue}");
        it.found(kinds::DELIVERY_ELSEWHERE, says).by_hand(attach);
        return it;
    }
    if let (Sender::Rule { .. }, Some(member)) = (sender, change(target)) {
        let says = format!("{name} is given what its {member} makes of the event");
        it.found(kinds::DELIVERY_CHANGED, says);
    }
    if !is_bound(facts, to, queue) {
        let says = format!("QUEUE_TARGETS does not bind {queue} to {name}");
        it.found(kinds::DELIVERY_UNBOUND, says).by_hand(&*attach);
    }
    if !may_send(&mut it, facts, delivery, dead) {
        it.found(kinds::DELIVERY_DENIED, format!("it may not send to {queue}")).by_hand(attach);
    }
    it
}

/// Whether the handler delivers events of this queue to the target. If its settings are bad, that is another finding.
fn is_bound(facts: &Facts, to: &str, queue: &str) -> bool {
    let home = FunctionArn::parse(&facts.handler.arn).map(|arn| arn.home());
    let (Ok(settings), Some(home)) = (facts.handler.settings(), home) else { return true };
    let rules = &settings.rules;
    let allow = |target: Target| rules.allow(&target, Some(queue), &home);
    rules.queue_targets.is_some() && Target::parse(to).is_some_and(allow)
}

/// Whether the rule, or the schedule's role, may send to its dead-letter queue.
fn may_send(it: &mut Examined, facts: &Facts, delivery: &Delivery, dead: &str) -> bool {
    match delivery.sender {
        Sender::Schedule { .. } => it.known(&delivery.may_send) != Some(&false),
        Sender::Rule { .. } => {
            let queue = facts.queues.iter().find(|it| it.queue.arn == dead);
            let attributes = queue.and_then(|it| it.queue.attributes.as_ref().ok()?.as_ref());
            let Some(attributes) = attributes else { return true };
            let policy = attributes.policy.as_deref().unwrap_or_default();
            let account = dead.split(':').nth(4).unwrap_or_default();
            admits(policy, Service::Events, &delivery.arn, account)
        }
    }
}
