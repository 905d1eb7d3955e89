//! Examines the retry handler, its mappings, and the functions whose failures are retried.

use std::time::Duration;

use comeback_core::{
    arn::FunctionArn,
    in_flight::QUOTA,
    pattern,
    settings::{Misspelt, Settings},
};

use crate::operate::{
    doctor::rules::{
        BATCH_SIZE, EARLIER, Examined, Facts, Fix, InvokeConfig, KnownBy, Mapping, Metric, Running,
        Target,
        sources::{self, Role},
        span, word,
    },
    rules::{
        Function, Unsupported, counted, is_queue, last, named_targets, policies::Effect,
        queue_targets,
    },
};

/// With a shorter time-out, the handler could not wait for any answer, because it reserves time for its last steps.
const TIMEOUT_MIN: Duration = Duration::from_secs(10);

pub(super) fn examine_handler(facts: &Facts) -> Examined {
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
        span(handler.timeout),
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
        return sources::is_named(handler, &handler.arn_of(target));
    }
    // A pattern of ARNs may mean functions of other accounts, which can't be listed here.
    let listed = handler.environment.get("TARGET_FUNCTIONS").map_or("", String::as_str).split(',');
    let mut foreign = listed.map(str::trim).filter(|it| it.starts_with("arn:") && !is_queue(it));
    facts.functions.contains(target)
        || named_targets(&handler.environment).contains(target)
        || foreign.any(|arn| pattern::matches(last(arn), target))
}

/// Reports a function that can't run, or whose last update failed.
pub(super) fn state(it: &mut Examined, running: &Running, name: &'static str) {
    let Some(state) = it.known(&running.state) else { return };
    let reason = state.reason.as_deref().unwrap_or("no reason given");
    match state.state.as_str() {
        "Active" | "" => {}
        "Failed" => {
            it.bad(name, format!("its state is Failed: {reason}")).why("Lambda does not run it.");
        }
        other => {
            it.warn(name, format!("its state is {other}: {reason}"))
                .why("Its first invocations fail until Lambda has prepared it.");
        }
    }
    if let Some(reason) = &state.failed_update {
        it.bad("update_failed", format!("its last change failed: {reason}"))
            .why("It still runs as it was before that change.");
    }
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
        let says =
            format!("its time-out is {}, and {} are needed", span(timeout), span(TIMEOUT_MIN));
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

/// Reports invocations that Lambda's recursive-loop detection stopped.
fn recursion(it: &mut Examined, facts: &Facts, name: &str) {
    if let Some(stopped) = facts.counted(Metric::LOOPS_STOPPED, name) {
        let stopped = counted(stopped, "invocation");
        let says = format!("Lambda stopped {stopped} as a loop in the last day");
        it.warn("loops_stopped", says)
            .why("The events are in the dead-letter queue, or on their way to it.");
    }
}

/// Examines the mappings of the handler, and reports queues without one.
pub(super) fn mappings(facts: &Facts) -> Vec<Examined> {
    let Ok(mappings) = &facts.mappings else {
        let mut it = Examined::new("mappings".to_owned());
        it.known(&facts.mappings);
        return vec![it];
    };
    let bound = queue_targets(&facts.handler.environment);
    let is_mapped = |queue: &str| mappings.iter().any(|mapping| last(&mapping.queue) == queue);
    let mut unmapped: Vec<_> = bound.keys().filter(|queue| !is_mapped(queue)).cloned().collect();
    if mappings.is_empty() && unmapped.is_empty() {
        unmapped.push("any queue".to_owned());
    }
    let missing = unmapped.into_iter().map(|queue| {
        let mut it = Examined::new(format!("mapping of {queue}"));
        let handler = facts.handler.name();
        let arn = facts.queues.iter().find(|it| it.queue.name() == queue);
        let arn = arn.map_or("QUEUE_ARN", |it| &it.queue.arn);
        it.bad("mapping_missing", format!("there is no mapping of {queue} to {handler}"))
            .why("Nothing receives from the queue, so its events don't come back.")
        .by_hand(format!(
            "aws lambda create-event-source-mapping --function-name {handler} --event-source-arn {} --batch-size \
             {BATCH_SIZE} --function-response-types ReportBatchItemFailures",
            word(arn)
        ));
        it
    });
    let examined = mappings.iter().filter_map(|mapping| {
        match Role::of(facts, &mapping.queue) {
            Role::Retry => Some(examine_mapping(mapping)),
            Role::Source => {
                Some(sources::taken(&facts.handler, last(&mapping.queue), &mapping.uuid))
            }
            // The queue itself has the finding.
            Role::DeadLetters | Role::Unbound => None,
        }
    });
    examined.chain(missing).collect()
}

fn examine_mapping(mapping: &Mapping) -> Examined {
    let mut it = Examined::new(format!("mapping of {}", last(&mapping.queue)));
    let fix = || Fix::Mapping { uuid: mapping.uuid.clone() };
    let Mapping { batch_size, window, state, .. } = mapping;
    if !mapping.is_enabled() {
        it.bad("mapping_disabled", format!("it is {}", state.to_lowercase()))
            .why("Nothing receives from the queue, so its events don't come back.")
            .fix(fix());
    }
    if !mapping.reports_failures {
        it.bad("mapping_reports_nothing", "ReportBatchItemFailures is off")
            .why("Lambda deletes messages that should wait, so their events are lost.")
            .fix(fix());
    }
    if mapping.is_filtered {
        it.bad("mapping_filtered", "it has a filter")
            .why("Lambda deletes messages that don't match the filter, so their events are lost.")
            .by_hand(format!(
                "aws lambda update-event-source-mapping --uuid {} --filter-criteria '{{}}'",
                mapping.uuid
            ));
    }
    if *batch_size != BATCH_SIZE {
        let says = format!("its batch size is {batch_size}, and not {BATCH_SIZE}");
        it.warn("mapping_batch_size", says)
            .why("Smaller batches cost more calls, and larger ones need a batching window.")
            .fix(fix());
    }
    if !window.is_zero() {
        it.warn("mapping_window", format!("its batching window is {}, and not 0", span(*window)))
            .why("Retries are up to 20 seconds late if the queue is quiet.")
            .fix(fix());
    }
    if let Some(problem) = mapping.last_result.as_ref().filter(|it| it.starts_with("PROBLEM")) {
        it.bad("mapping_failing", problem.clone())
            .why("Lambda can't receive, or can't invoke the handler.");
    }
    it.good = format!(
        "enabled, batches of {batch_size}, no batching window, ReportBatchItemFailures is on"
    );
    it
}

/// The variable that makes Lambda start managed runtimes through a wrapper script.
pub const WRAPPER_VARIABLE: &str = "AWS_LAMBDA_EXEC_WRAPPER";
/// The wrapper script in Comeback's layer, which removes envelopes.
pub const WRAPPER: &str = "/opt/comeback-exec";

/// The findings that say that failures go nowhere, or elsewhere.
const DESTINATIONS: [&str; 3] =
    ["destination_missing", "destination_elsewhere", "consumer_unattached"];

/// With a shorter maximum event age, a few minutes of throttling use up attempts.
const AGE_MIN: Duration = Duration::from_mins(5);

pub(super) fn examine_target(facts: &Facts, target: &Target) -> Examined {
    let settings = facts.handler.settings().ok();
    let name = &target.name;
    let mut it = Examined::new(format!("function {name}"));
    let Some((function, running)) = &target.function else {
        it.bad("target_missing", "there is no such function")
            .why("The handler's settings name it.");
        return it;
    };
    state(&mut it, running, "target_inactive");
    let by_letters = facts.has_queue(function.dead_letter_target.as_deref());
    match function.unsupported_by(settings.as_ref()) {
        Some(Unsupported::Durable) if by_letters => durable(&mut it, function, settings.as_ref()),
        Some(unsupported) => {
            it.bad("target_unsupported", unsupported.to_string())
                .why("Its retries are refused, or repeat what was done.");
        }
        None => {}
    }
    if it.known(&running.may_loop) == Some(&false) {
        it.bad("loop_stopped", "its RecursiveLoop is Terminate")
            .why("Lambda stops its retries after about 16 attempts.")
            .fix(Fix::Loop { function: name.clone() });
    }
    if it.known(&running.reserved) == Some(&Some(0)) {
        it.warn("target_paused", "its reserved concurrency is 0")
            .why("Its events wait until it may run again.")
            .by_hand(format!("aws lambda delete-function-concurrency --function-name {name}"));
    }
    let is_own = |arn: &Option<String>| facts.has_queue(arn.as_deref());
    if let Some(configs) = it.known(&target.configs) {
        let retried: Vec<_> = configs.iter().filter(|config| is_own(&config.on_failure)).collect();
        if retried.is_empty() && !by_letters {
            destination(&mut it, facts, target, configs);
        }
        for success in configs.iter().filter(|config| is_own(&config.on_success)) {
            let queue = last(success.on_success.as_deref().unwrap_or_default());
            it.bad(
                "successes_retried",
                format!("its on-success destination is the retry queue {queue}"),
            )
            .why("Each success becomes a dead letter.");
        }
        for config in retried {
            examine_config(&mut it, facts, target, function, config);
        }
    }
    if let Some(arn) = function.dead_letter_target.as_deref().filter(|_| by_letters) {
        sending(&mut it, facts, target, function, arn);
    }
    if function.dead_letter_target.is_some() && !by_letters {
        it.warn("own_dead_letters", "it has a dead-letter queue or topic of its own")
            .why("Lambda sends each failure there, too, whether its event comes back or not.");
    }
    if it.known(&target.may_be_invoked) == Some(&false) {
        let (role, arn) = (facts.handler.role_name(), &function.arn);
        let qualified = format!("{arn}:*");
        it.bad("handler_may_not_invoke", "the handler's role lacks lambda:InvokeFunction on it")
            .why("Its events wait until they are given up.")
            .allow(role, &format!("invoke-{name}"), &["lambda:InvokeFunction"], &[arn, &qualified]);
    }
    transparency(&mut it, target, function);
    count_target(&mut it, facts, name);
    let how =
        if by_letters { "by its own dead-letter queue" } else { "no retries of Lambda's own" };
    it.good = format!("its failures are retried, {how}, RecursiveLoop is Allow");
    it
}

/// Reports what a durable function lacks to be retried by its own dead-letter queue.
fn durable(it: &mut Examined, function: &Function, settings: Option<&Settings>) {
    let Some(settings) = settings else { return };
    let home = FunctionArn::parse(&function.arn).map(|arn| arn.home());
    let named = settings.rules.dlq_target.as_ref().zip(home).and_then(|(it, home)| it.at(&home));
    let named = named.filter(|named| named.unqualified() == function.arn);
    let says = match named {
        None => "it is a durable function, and the handler's DLQ_TARGET doesn't name it",
        Some(named) if named.as_str() == named.unqualified() => {
            "it is a durable function, and the handler's DLQ_TARGET names it without a version, an alias or $LATEST"
        }
        Some(_) if !settings.rules.policies.of(function.name()).durable => {
            "it is a durable function, and the handler's DURABLE is not true for it"
        }
        Some(_) => return,
    };
    it.bad("target_unsupported", says).why("Its retries are refused, or repeat what was done.");
}

/// Reports that a function doesn't send its failures to a retry queue.
fn destination(it: &mut Examined, facts: &Facts, target: &Target, configs: &[InvokeConfig]) {
    let elsewhere = configs.iter().find_map(|config| config.on_failure.as_deref());
    let (name, says, why) = match elsewhere {
        None => (
            "destination_missing",
            "it has no on-failure destination".to_owned(),
            "Its failures are lost.",
        ),
        Some(elsewhere) => (
            "destination_elsewhere",
            format!("its on-failure destination is {}", last(elsewhere)),
            "Its failures don't come back.",
        ),
    };
    let finding = match target.known_by {
        KnownBy::Setting | KnownBy::Destination => it.bad(name, says).why(why),
        KnownBy::Consumes => {
            let says =
                "it receives from a queue that no setting names, and has no on-failure destination";
            it.warn("consumer_unattached", says)
                .why(
                    "Messages that it can't process don't come back with backoff: attach the queue. Asynchronous events \
                     that fail are lost.",
                );
            return;
        }
        KnownBy::Tag => it.bad(name, format!("{says}, and comeback attach has set one")).why(why),
        // Somebody may have detached it.
        KnownBy::Metrics => {
            let says =
                format!("{says}, and failures of it came back in the last {}", span(EARLIER));
            it.warn(name, says).why("If it was not detached on purpose, its failures are lost.")
        }
    };
    finding.by_hand(facts.command(&format!("attach {}", target.name)));
}

fn examine_config(
    it: &mut Examined,
    facts: &Facts,
    target: &Target,
    function: &Function,
    config: &InvokeConfig,
) {
    let InvokeConfig { qualifier, retries, age_max, on_failure, .. } = config;
    let (name, arn) = (&target.name, on_failure.as_deref().unwrap_or_default());
    let queue = last(arn);
    let of = qualifier.as_ref().map(|it| format!(" of {it}")).unwrap_or_default();
    if *retries != Some(0) {
        let says = format!("Lambda's own retries{of} are {}, and not 0", retries.unwrap_or(2));
        it.warn("own_retries", says)
            .why("Each attempt runs up to three times, and its failure is known minutes later.")
            .fix(Fix::Retries { function: name.clone(), qualifier: qualifier.clone() });
    }
    if let Some(age) = age_max.filter(|age| *age < AGE_MIN) {
        let says = format!("Lambda drops events{of} that could not run for {}", span(age));
        it.warn("event_age_short", says)
            .why("While the function is throttled, each of them uses an attempt up.");
    }
    let qualified = qualifier.as_deref().unwrap_or("$LATEST");
    let record = FunctionArn::parse(&format!("{}:{qualified}", function.arn));
    let record = record.map(comeback_core::target::Target::Function);
    let home = FunctionArn::parse(&facts.handler.arn).map(|arn| arn.home());
    if let (Ok(settings), Some(record), Some(home)) = (facts.handler.settings(), record, home)
        && !settings.rules.allow(&record, Some(queue), &home)
    {
        let says = format!("TARGET_FUNCTIONS or QUEUE_TARGETS does not allow it{of} for {queue}");
        it.bad("target_not_allowed", says)
            .why("Its events are dead-lettered with the reason target_not_allowed.");
    }
    sending(it, facts, target, function, arn);
}

/// Reports a function that may not send its failures to this queue.
fn sending(it: &mut Examined, facts: &Facts, target: &Target, function: &Function, arn: &str) {
    let (name, queue) = (&target.name, last(arn));
    let attributes = facts.queues.iter().find(|it| it.queue.arn == arn);
    let attributes = attributes.and_then(|it| it.queue.attributes.as_ref().ok()?.as_ref());
    let effect = attributes.map(|it| it.effect(&function.role, "sqs:SendMessage"));
    match effect.unwrap_or(Effect::Nothing) {
        Effect::Deny => {
            let says = format!("the policy of {queue} denies its role sqs:SendMessage");
            it.bad("queue_denies_target", says).why("Its failures are lost.");
        }
        Effect::Allow => {}
        Effect::Nothing => {
            let may_send = target.may_send.get(arn).and_then(|fact| it.known(fact));
            if may_send == Some(&false) {
                let role = function.role_name();
                it.bad("role_may_not_send", format!("its role lacks sqs:SendMessage on {queue}"))
                    .why("Its failures are lost.")
                    .allow(role, &format!("send-{name}"), &["sqs:SendMessage"], &[arn]);
            }
        }
    }
}

fn is_wrapped(function: &Function) -> bool {
    function.environment.get(WRAPPER_VARIABLE).is_some_and(|it| it == WRAPPER)
}

/// Reports a wrapper variable without its layer, on a runtime that it has an effect on.
pub(super) fn lacks_layer(it: &mut Examined, function: &Function) {
    let is_managed = function.runtime.as_ref().is_some_and(|it| !it.starts_with("provided"));
    if is_wrapped(function) && is_managed && function.own_layer().is_none() {
        let says = format!("{WRAPPER_VARIABLE} is {WRAPPER}, and no layer of Comeback has it");
        it.bad("wrapper_without_layer", says)
            .why("The function does not start. Add the layer, or remove the variable.");
    }
}

/// Reports what keeps a layer from removing envelopes.
fn transparency(it: &mut Examined, target: &Target, function: &Function) {
    lacks_layer(it, function);
    let runtime = function.runtime.as_deref().unwrap_or("an image");
    if is_wrapped(function) && (function.runtime.is_none() || runtime.starts_with("provided")) {
        let says = format!("{WRAPPER_VARIABLE} has no effect on {runtime}");
        it.bad("wrapper_without_effect", says)
            .why("The function gets envelopes instead of its payloads.");
    } else if !is_wrapped(function) && function.own_layer().is_some() {
        let says = format!("it has Comeback's layer, and {WRAPPER_VARIABLE} is not {WRAPPER}");
        it.bad("layer_without_wrapper", says)
            .why("The function gets envelopes instead of its payloads.");
    }
    let layer = target.layer.as_ref().and_then(|layer| it.known(layer));
    if let Some(architectures) = layer.and_then(|layer| layer.unfit(function)) {
        let own = &function.architecture;
        it.bad(
            "layer_architecture",
            format!("it runs on {own}, and Comeback's layer on {architectures}"),
        )
        .why("The function does not start. Replace the layer by the one for its architecture.");
    }
}

fn count_target(it: &mut Examined, facts: &Facts, name: &str) {
    if let Some(undelivered) = facts.counted(Metric::DELIVERY_FAILURES, name) {
        let undelivered = counted(undelivered, "failure");
        let says = format!("Lambda could not deliver {undelivered} to the queue in the last day");
        it.bad("deliveries_failed", says)
            .why("They are lost. Its role may lack a permission, or payloads are close to 1 MiB.");
    }
    let is_retried = it.findings.iter().all(|finding| !DESTINATIONS.contains(&finding.name));
    if let Some(errors) = facts.counted(Metric::ERRORS, name)
        && facts.counted(Metric::ASYNC_EVENTS, name).is_some()
        && is_retried
        && !facts.has_metric(Metric::EVENT_AGES, name)
    {
        let says = format!(
            "{errors} of its invocations failed in the last day, and no failure of it reached the handler"
        );
        it.warn("failures_not_retried", says).why(
            "If asynchronous events failed, they were lost on the way: look for them in the destination of \
             the alias or version that was invoked.",
        );
    }
    if let Some(throttles) = facts.counted(Metric::THROTTLES, name) {
        let says = format!("{throttles} of its invocations were throttled in the last day");
        it.warn("target_throttled", says).why("Its events run later than they are due.");
    }
    if let Some(faults) = facts.counted(Metric::CONFIGURATION_FAULTS, name) {
        let faults = counted(faults, "time");
        let says = format!("the handler could not invoke it {faults} in the last day");
        it.bad("configuration_faults", says)
            .why("Its events wait until somebody fixes that. The handler's log says why.");
    }
    if let Some(unsent) = facts.counted(Metric::LETTERS_NOT_SENT, name) {
        let says = format!("{unsent} of its dead letters could not be sent in the last day");
        it.bad("dead_letters_unsent", says)
            .why("They stay in the retry queue. The handler's log says why.");
    }
    recursion(it, facts, name);
}
