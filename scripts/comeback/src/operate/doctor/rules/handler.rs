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
        kinds,
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
    state(&mut it, &facts.running, kinds::HANDLER_INACTIVE);
    if let Err(bad) = &settings {
        it.found(kinds::SETTINGS_BAD, bad.to_string());
    }
    for misspelt in Misspelt::among(handler.environment.keys().cloned()) {
        it.found(kinds::SETTING_MISSPELT, misspelt.to_string());
    }
    if let Ok(settings) = &settings {
        let max = settings.in_flight_max.get();
        if max > QUOTA {
            let says =
                format!("IN_FLIGHT_MAX is {max}, and SQS's quota is {QUOTA} unless AWS raised it");
            it.found(kinds::IN_FLIGHT_MAX_HIGH, says);
        }
        policies(&mut it, facts, settings);
        errors(&mut it, facts, settings);
    }
    code(&mut it, handler);
    network(&mut it, facts);
    if it.known(&facts.running.reserved) == Some(&Some(0)) {
        it.found(kinds::HANDLER_PAUSED, "its reserved concurrency is 0")
            .by_hand(format!("aws lambda delete-function-concurrency --function-name {name}"));
    }
    if it.known(&facts.running.may_loop) == Some(&false) {
        it.found(kinds::HANDLER_LOOP_STOPPED, "its RecursiveLoop is Terminate")
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
        it.found(
            kinds::POLICY_UNKNOWN,
            format!("POLICIES names {target}, and there is no such {what}"),
        );
    }
    let general = [("all targets without a policy of their own", policies.of(""))];
    for (of, policy) in general.into_iter().chain(policies.own()) {
        if policy.non_retryable.is_everything() {
            it.found(kinds::NOTHING_RETRIED, format!("NON_RETRYABLE_ERRORS is * for {of}"));
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
        it.found(kinds::HANDLER_RUNTIME, format!("its runtime is {}", runtime.unwrap_or_default()));
    }
    if handler.timeout < TIMEOUT_MIN {
        let (name, timeout) = (handler.name(), handler.timeout);
        let says = format!(
            "its time-out is {}, and {} are needed",
            exact_span(timeout),
            exact_span(TIMEOUT_MIN)
        );
        it.found(kinds::HANDLER_TIMEOUT_SHORT, says).by_hand(format!(
            "aws lambda update-function-configuration --function-name {name} --timeout 30"
        ));
    }
}

/// Reports a handler in a VPC that handles failures and retries none. Whether its subnets have a route can't be seen.
fn network(it: &mut Examined, facts: &Facts) {
    let any = |metric| facts.targets.iter().any(|target| facts.has_metric(metric, &target.name));
    if facts.handler.in_vpc && any(Metric::EVENT_AGES) && !any(Metric::INVOKED) {
        it.found(
            kinds::HANDLER_VPC,
            "it runs in a VPC, and none of its retries of the last day was accepted",
        );
    }
}

fn counts(it: &mut Examined, facts: &Facts, name: &str) {
    if let Some(errors) = facts.counted(Metric::ERRORS, name) {
        it.found(
            kinds::HANDLER_ERRORS,
            format!("{errors} of its invocations failed in the last day"),
        );
    }
    if let Some(throttles) = facts.counted(Metric::THROTTLES, name) {
        let says = format!("{throttles} of its invocations were throttled in the last day");
        it.found(kinds::HANDLER_THROTTLED, says);
    }
    recursion(it, facts, name);
}
