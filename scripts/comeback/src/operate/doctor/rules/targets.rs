//! Examines the functions whose failures are retried.

use std::time::Duration;

use comeback_core::{arn::FunctionArn, settings::Settings};

use crate::{
    account::{
        bucket::{bucket_name, statements_to_put},
        function::{Function, InvokeConfig, Unsupported},
        names::last,
        policy::Effect,
        setup::ACTIONS_TO_PUT,
    },
    operate::doctor::rules::{
        buckets::queues_told,
        facts::{EARLIER, Facts, KnownBy, Target},
        finding::Examined,
        fix::Fix,
        metric::Metric,
        running::{recursion, state},
    },
    text::{counted, exact_span},
};

/// The findings that say that failures go nowhere, or elsewhere.
const DESTINATIONS: [&str; 3] =
    ["destination_missing", "destination_elsewhere", "consumer_unattached"];

/// With a shorter maximum event age, a few minutes of throttling use up attempts.
const AGE_MIN: Duration = Duration::from_mins(5);

pub fn examine_target(facts: &Facts, target: &Target) -> Examined {
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
    let is_own = |arn: &Option<String>| {
        facts.has_queue(arn.as_deref()) || facts.bucket(arn.as_deref()).is_some()
    };
    if let Some(configs) = it.known(&target.configs) {
        let retried: Vec<_> = configs.iter().filter(|config| is_own(&config.on_failure)).collect();
        if retried.is_empty() && !by_letters {
            destination(&mut it, facts, target, configs);
        }
        for success in configs.iter().filter(|config| is_own(&config.on_success)) {
            let arn = success.on_success.as_deref().unwrap_or_default();
            let what = if bucket_name(arn).is_some() { "record bucket" } else { "retry queue" };
            let says = format!("its on-success destination is the {what} {}", last(arn));
            it.bad("successes_retried", says).why("Each success becomes a dead letter.");
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
    let configs = target.configs.iter().flatten();
    let has_bucket = configs.clone().any(|it| facts.bucket(it.on_failure.as_deref()).is_some());
    count_target(&mut it, facts, name, has_bucket);
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
                format!("{says}, and failures of it came back in the last {}", exact_span(EARLIER));
            it.warn(name, says).why("If it was not detached on purpose, its failures are lost.")
        }
    };
    // Another bucket may be for records of another kind. That of an attachment has its own command.
    let bucket = elsewhere.and_then(bucket_name).map(|name| format!(" --records {name}"));
    let command = format!("attach {}{}", target.name, bucket.unwrap_or_default());
    finding.by_hand(facts.command(&command));
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
    let of = qualifier.as_ref().map(|it| format!(" of {it}")).unwrap_or_default();
    if *retries != Some(0) {
        let says = format!("Lambda's own retries{of} are {}, and not 0", retries.unwrap_or(2));
        it.warn("own_retries", says)
            .why("Each attempt runs up to three times, and its failure is known minutes later.")
            .fix(Fix::Retries { function: name.clone(), qualifier: qualifier.clone() });
    }
    if let Some(age) = age_max.filter(|age| *age < AGE_MIN) {
        let says = format!("Lambda drops events{of} that could not run for {}", exact_span(age));
        it.warn("event_age_short", says)
            .why("While the function is throttled, each of them uses an attempt up.");
    }
    let qualified = qualifier.as_deref().unwrap_or("$LATEST");
    let record = FunctionArn::parse(&format!("{}:{qualified}", function.arn));
    let record = record.map(comeback_core::target::Target::Function);
    let home = FunctionArn::parse(&facts.handler.arn).map(|arn| arn.home());
    let queues = match facts.bucket(Some(arn)) {
        Some(bucket) => queues_told(facts, bucket, name).collect(),
        None => vec![last(arn)],
    };
    if let (Ok(settings), Some(record), Some(home)) = (facts.handler.settings(), record, home) {
        let may = |queue: &&str| settings.rules.allow(&record, Some(*queue), &home);
        for queue in queues.iter().filter(|queue| !may(queue)) {
            let says =
                format!("TARGET_FUNCTIONS or QUEUE_TARGETS does not allow it{of} for {queue}");
            it.bad("target_not_allowed", says)
                .why("Its events are dead-lettered with the reason target_not_allowed.");
        }
    }
    sending(it, facts, target, function, arn);
}

/// Reports a function that may not send its failures to this queue or bucket.
fn sending(it: &mut Examined, facts: &Facts, target: &Target, function: &Function, arn: &str) {
    let (name, queue) = (&target.name, last(arn));
    if facts.bucket(Some(arn)).is_some() {
        let may_put = target.may_send.get(arn).and_then(|fact| it.known(fact));
        if may_put == Some(&false) {
            let says =
                format!("its role lacks {} on the bucket {queue}", ACTIONS_TO_PUT.join(" or "));
            let statements = statements_to_put(arn, &function.arn);
            it.bad("role_may_not_send", says).why("Its failures are lost.").grant(
                function.role_name(),
                &format!("put-{name}"),
                &statements,
            );
        }
        return;
    }
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

fn count_target(it: &mut Examined, facts: &Facts, name: &str, has_bucket: bool) {
    if let Some(undelivered) = facts.counted(Metric::DELIVERY_FAILURES, name) {
        let undelivered = counted(undelivered, "failure");
        let says = format!("Lambda could not deliver {undelivered} of it in the last day");
        let finding = it.bad("deliveries_failed", says);
        if has_bucket {
            finding.why(
                "They are lost. If they are from before its records went to the bucket, nothing is left to mend. \
                 Otherwise its role may lack a permission on the bucket or on its key.",
            );
        } else {
            finding
                .why(
                    "They are lost. Its role may lack a permission, or the records, which have the payload and the \
                     answer, are larger than 1 MiB: a bucket takes records of any size.",
                )
                .by_hand(facts.command(&format!("attach {name} --records BUCKET")));
        }
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
