//! Ways to break what delivers events.

use serde_json::{Value, json};

use super::systems::{Break, HOME, healthy, names, retry, source, with_queue};

use crate::{
    account::{
        fault::Fault,
        policy::{Service, admit},
        sender::Sender,
    },
    operate::doctor::rules::{
        diagnose,
        facts::{Delivery, Facts},
    },
};

/// A healthy system with a rule and a schedule that deliver to its function.
fn delivered() -> Facts {
    let mut facts = healthy();
    let queue = facts.queues[0].queue.arn.clone();
    let [rule, schedule] = [
        format!("arn:aws:events:{HOME}:rule/links"),
        format!("arn:aws:scheduler:{HOME}:schedule/default/nightly"),
    ];
    let function = format!("arn:aws:lambda:{HOME}:function:orders");
    let target = json!({ "Id": "main", "Arn": function, "DeadLetterConfig": { "Arn": queue } });
    retry(&mut facts).policy = admit("", &queue, Service::Events, &rule, "123456789012");
    let [bus, links, main, nightly] = ["default", "links", "main", "nightly"].map(str::to_owned);
    let of_rule = Sender::Rule { bus: bus.clone(), name: links, target: main };
    let of_schedule = Sender::Schedule { group: bus, name: nightly };
    let delivery =
        |sender, arn| Delivery { sender, arn, target: target.clone(), may_send: Ok(true) };
    facts.deliveries = Ok(vec![delivery(of_rule, rule), delivery(of_schedule, schedule)]);
    facts
}

fn delivery(facts: &mut Facts, nth: usize) -> &mut Delivery {
    &mut facts.deliveries.as_mut().unwrap()[nth]
}

/// Ways to break what delivers events, the only finding that each leads to, and a part of its remedy.
pub const BREAKS_OF_DELIVERIES: &[(&str, Break, &str)] = &[
    (
        "delivery_not_retried",
        |it| delivery(it, 0).target["DeadLetterConfig"] = Value::Null,
        "comeback attach --rule links --target main",
    ),
    (
        "delivery_not_retried",
        |it| delivery(it, 1).target["DeadLetterConfig"] = Value::Null,
        "comeback attach --schedule nightly",
    ),
    (
        "delivery_elsewhere",
        |it| delivery(it, 1).target["DeadLetterConfig"] = json!({ "Arn": "arn:x:failed" }),
        "comeback attach --schedule nightly",
    ),
    ("delivery_changed", |it| delivery(it, 0).target["InputPath"] = json!("$.detail"), ""),
    (
        "delivery_unbound",
        |it| {
            let other = format!("arn:aws:lambda:{HOME}:function:importer");
            delivery(it, 0).target["Arn"] = json!(other);
        },
        "comeback attach --rule links --target main",
    ),
    ("delivery_denied", |it| retry(it).policy = None, "attach --rule links"),
    ("delivery_denied", |it| delivery(it, 1).may_send = Ok(false), "attach --schedule nightly"),
    (
        "unchecked",
        |it| {
            it.deliveries =
                Err(Fault::of("events:ListRuleNamesByTarget", "*", "AccessDenied", "no"))
        },
        "",
    ),
];

#[test]
fn a_rule_or_a_schedule_whose_events_would_not_come_back_is_found() {
    assert_eq!(names(&delivered()), [""; 0]);
    for &(expected, change, remedy) in BREAKS_OF_DELIVERIES {
        let mut facts = delivered();
        change(&mut facts);
        assert_eq!(names(&facts), [expected]);
        let examined = diagnose(&facts);
        let finding = examined.iter().flat_map(|it| &it.findings).next().unwrap();
        let command = finding.fix.as_ref().map(|fix| fix.command()).unwrap_or_default();
        assert!(command.contains(remedy), "{expected}: {command}");
    }
    let mut input = delivered();
    delivery(&mut input, 1).target["Input"] = json!("{}");
    assert_eq!(names(&input), [""; 0], "a schedule's input is what it delivers");
    let mut theirs = delivered();
    theirs.queues_of_others.insert("arn:x:theirs".to_owned(), "other".to_owned());
    delivery(&mut theirs, 1).target["DeadLetterConfig"] = json!({ "Arn": "arn:x:theirs" });
    assert_eq!(names(&theirs), [""; 0], "the other system's finding");
    let mut unset = delivered();
    unset.handler.environment.remove("QUEUE_TARGETS");
    assert!(names(&unset).contains(&"delivery_unbound"));
}

#[test]
fn a_queue_that_is_bound_only_for_deliveries_needs_no_redrive_policy() {
    let mut facts = with_queue();
    source(&mut facts).redrive = None;
    assert_eq!(names(&facts), ["source_redrive_missing"]);
    let of_rule = delivered();
    let mut own = of_rule.deliveries.unwrap().remove(1);
    let bound = facts.sources[0].bound.first().unwrap();
    own.target["DeadLetterConfig"] = json!({ "Arn": bound });
    own.target["Arn"] = json!(facts.sources[0].queue.arn);
    facts.deliveries = Ok(vec![own]);
    assert_eq!(names(&facts), [""; 0]);
}
