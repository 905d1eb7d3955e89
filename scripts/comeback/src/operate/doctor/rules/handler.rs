//! Examines the retry handler.

use std::time::Duration;

use comeback_core::{
    in_flight::QUOTA,
    pattern,
    settings::{Misspelt, Settings},
};

use crate::{
    account::{
        function::Function,
        handlers::named_targets,
        names::{is_queue, last},
    },
    operate::doctor::rules::{
        errors::errors,
        facts::Facts,
        finding::Examined,
        fix::Fix,
        metric::Metric,
        role::is_named,
        running::{recursion, state},
    },
    text::exact_span,
};

/// The handler reserves time for its last steps. With a shorter time-out, it has no time to wait for an answer.
const TIMEOUT_MIN: Duration = Duration::from_secs(10);

pub fn examine_handler(facts: &Facts) -> Examined {
    let settings = facts.handler.settings();
    let handler = &facts.handler;
    let name = handler.name();
    let mut it = Examined::new(format!("handler {name}"));
    state(&mut it, &facts.running, "handler_inactive");
    if let Err(bad) = &settings {
        it.bad("settings_bad", bad.to_string())
            .why("The handler does not start, so no event comes back.");
    }
    for misspelt in Misspelt::among(handler.environment.keys().cloned()) {
        it.warn("setting_misspelt", misspelt.to_string())
            .why("The handler uses the default of that setting.");
    }
    if let Ok(settings) = &settings {
        let max = settings.in_flight_max.get();
        if max > QUOTA {
            let says =
                format!("IN_FLIGHT_MAX is {max}, and SQS's quota is {QUOTA} unless AWS raised it");
            it.warn("in_flight_max_high", says)
                .why("At its quota a queue delivers nothing more, without an error.");
        }
        policies(&mut it, facts, settings);
        errors(&mut it, facts, settings);
    }
    code(&mut it, handler);
    network(&mut it, facts);
    if it.known(&facts.running.reserved) == Some(&Some(0)) {
        it.bad("handler_paused", "its reserved concurrency is 0")
            .why("Nothing runs, so no event comes back.")
            .by_hand(format!("aws lambda delete-function-concurrency --function-name {name}"));
    }
    if it.known(&facts.running.may_loop) == Some(&false) {
        it.bad("handler_loop_stopped", "its RecursiveLoop is Terminate")
            .why("Lambda stops retries after about 16 invocations of a chain.")
            .fix(Fix::Loop { function: name.to_owned() });
    }
    it.known(&facts.metrics);
    it.known(&facts.others);
    counts(&mut it, facts, name);
    let code = handler.code.get(..12).map(|code| format!(", code {code}"));
    it.good = format!(
        "active, {} on {}{}, time-out {}, {} settings{}",
        handler.runtime.as_deref().unwrap_or("an image"),
        handler.architecture,
        if handler.in_vpc { " in a VPC" } else { "" },
        exact_span(handler.timeout),
        handler.environment.len(),
        code.unwrap_or_default(),
    );
    it
}

/// Reports policies of targets that don't exist, and policies by which no error is retried.
fn policies(it: &mut Examined, facts: &Facts, settings: &Settings) {
    let policies = &settings.rules.policies;
    for (target, _) in policies.own().filter(|(target, _)| !is_known(facts, target)) {
        let what = if is_queue(target) { "queue that settings name" } else { "function" };
        it.warn("policy_unknown", format!("POLICIES names {target}, and there is no such {what}"))
            .why("If it is misspelt, its events have the general policy. Correct or remove it.");
    }
    let general = [("all targets without a policy of their own", policies.of(""))];
    for (of, policy) in general.into_iter().chain(policies.own()) {
        if policy.non_retryable.is_everything() {
            it.bad("nothing_retried", format!("NON_RETRYABLE_ERRORS is * for {of}"))
                .why(
                    "Each event is dead-lettered after its first failure, unless the function crashes. Name the errors \
                     that a retry can't help, or remove the setting.",
                );
        }
    }
}

/// Whether a name of `POLICIES` is that of a function of the account, or of a target that the settings name.
fn is_known(facts: &Facts, target: &str) -> bool {
    let handler = &facts.handler;
    if is_queue(target) {
        return is_named(handler, &handler.arn_of(target));
    }
    // A pattern of ARNs may mean functions of other accounts, which can't be listed here.
    let listed = handler.environment.get("TARGET_FUNCTIONS").map_or("", String::as_str).split(',');
    let mut foreign = listed.map(str::trim).filter(|it| it.starts_with("arn:") && !is_queue(it));
    facts.functions.contains(target)
        || named_targets(&handler.environment).contains(target)
        || foreign.any(|arn| pattern::matches(last(arn), target))
}

fn code(it: &mut Examined, handler: &Function) {
    let runtime = handler.runtime.as_deref();
    if runtime.is_some_and(|runtime| !runtime.starts_with("provided.")) {
        it.bad("handler_runtime", format!("its runtime is {}", runtime.unwrap_or_default())).why(
            "The handler is an executable, which only provided.al2023 and provided.al2 start.",
        );
    }
    if handler.timeout < TIMEOUT_MIN {
        let (name, timeout) = (handler.name(), handler.timeout);
        let says = format!(
            "its time-out is {}, and {} are needed",
            exact_span(timeout),
            exact_span(TIMEOUT_MIN)
        );
        it.bad("handler_timeout_short", says)
            .why("Batches end before they are handled, and come again.")
            .by_hand(format!(
                "aws lambda update-function-configuration --function-name {name} --timeout 30"
            ));
    }
}

/// Reports a handler in a VPC that handles failures and retries none. Whether its subnets have a route can't be seen.
fn network(it: &mut Examined, facts: &Facts) {
    let any = |metric| facts.targets.iter().any(|target| facts.has_metric(metric, &target.name));
    if facts.handler.in_vpc && any(Metric::EVENT_AGES) && !any(Metric::INVOKED) {
        it.warn("handler_vpc", "it runs in a VPC, and none of its retries of the last day was accepted")
            .why(
                "If retries were due, its subnets have no route: they need a NAT gateway, or endpoints of Lambda and \
                 SQS, and of DynamoDB for a ledger, whose security groups let the handler in.",
            );
    }
}

fn counts(it: &mut Examined, facts: &Facts, name: &str) {
    if let Some(errors) = facts.counted(Metric::ERRORS, name) {
        it.warn("handler_errors", format!("{errors} of its invocations failed in the last day"))
            .why("Whole batches come again. Its log says why.");
    }
    if let Some(throttles) = facts.counted(Metric::THROTTLES, name) {
        let says = format!("{throttles} of its invocations were throttled in the last day");
        it.warn("handler_throttled", says)
            .why("Retries come late, and each throttle counts as a receive of the message.");
    }
    recursion(it, facts, name);
}
