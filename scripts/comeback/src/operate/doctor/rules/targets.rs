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
        stream::Stream,
    },
    operate::doctor::rules::{
        buckets::queues_told,
        facts::{EARLIER, Facts, KnownBy, Target},
        finding::Examined,
        fix::Fix,
        kinds::{self, Kind},
        metric::Metric,
        running::{recursion, state},
    },
    text::{counted, exact_span},
};

/// The findings that say that failures go nowhere, or elsewhere.
const DESTINATIONS: [Kind; 3] =
    [kinds::DESTINATION_MISSING, kinds::DESTINATION_ELSEWHERE, kinds::CONSUMER_UNATTACHED];

/// With a shorter maximum event age, a few minutes of throttling use up attempts.
const AGE_MIN: Duration = Duration::from_mins(5);

pub fn examine_target(facts: &Facts, target: &Target) -> Examined {
    let settings = facts.handler.settings().ok();
    let name = &target.name;
    let mut it = Examined::new(format!("function {name}"));
    let Some((function, running)) = &target.function else {
        it.found(kinds::TARGET_MISSING, "there is no such function");
        return it;
    };
    state(&mut it, running, kinds::TARGET_INACTIVE);
    let by_letters = facts.has_queue(function.dead_letter_target.as_deref());
    match function.unsupported_by(settings.as_ref()) {
        Some(Unsupported::Durable) if by_letters => durable(&mut it, function, settings.as_ref()),
        Some(unsupported) => {
            it.found(kinds::TARGET_UNSUPPORTED, unsupported.to_string());
        }
        None => {}
    }
    if it.known(&running.may_loop) == Some(&false) {
        it.found(kinds::LOOP_STOPPED, "its RecursiveLoop is Terminate")
            .fix(Fix::Loop { function: name.clone() });
    }
    if it.known(&running.reserved) == Some(&Some(0)) {
        it.found(kinds::TARGET_PAUSED, "its reserved concurrency is 0")
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
        // A batch of a stream that comes back may succeed for Lambda although some of its records have failed.
        let reports = |it: &Stream| it.consumer() == name && it.reports_failures;
        let may_have_parts = facts.streams.iter().any(reports);
        for success in configs.iter().filter(|config| is_own(&config.on_success)) {
            let arn = success.on_success.as_deref().unwrap_or_default();
            if may_have_parts && bucket_name(arn).is_none() {
                continue;
            }
            let what = if bucket_name(arn).is_some() { "record bucket" } else { "retry queue" };
            let says = format!("its on-success destination is the {what} {}", last(arn));
            it.found(kinds::SUCCESSES_RETRIED, says);
        }
        for config in retried {
            examine_config(&mut it, facts, target, function, config);
        }
    }
    if let Some(arn) = function.dead_letter_target.as_deref().filter(|_| by_letters) {
        sending(&mut it, facts, target, function, arn);
    }
    if function.dead_letter_target.is_some() && !by_letters {
        it.found(kinds::OWN_DEAD_LETTERS, "it has a dead-letter queue or topic of its own");
    }
    if it.known(&target.may_be_invoked) == Some(&false) {
        let (role, arn) = (facts.handler.role_name(), &function.arn);
        let qualified = format!("{arn}:*");
        it.found(
            kinds::HANDLER_MAY_NOT_INVOKE,
            "the handler's role lacks lambda:InvokeFunction on it",
        )
        .allow(
            role,
            &format!("invoke-{name}"),
            &["lambda:InvokeFunction"],
            &[arn, &qualified],
        );
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
    it.found(kinds::TARGET_UNSUPPORTED, says);
}

/// Reports that a function doesn't send its failures to a retry queue.
fn destination(it: &mut Examined, facts: &Facts, target: &Target, configs: &[InvokeConfig]) {
    let elsewhere = configs.iter().find_map(|config| config.on_failure.as_deref());
    let (kind, says) = match elsewhere {
        None => (kinds::DESTINATION_MISSING, "it has no on-failure destination".to_owned()),
        Some(elsewhere) => (
            kinds::DESTINATION_ELSEWHERE,
            format!("its on-failure destination is {}", last(elsewhere)),
        ),
    };
    let finding = match target.known_by {
        KnownBy::Setting | KnownBy::Destination => it.found(kind, says),
        KnownBy::Consumes => {
            let says =
                "it receives from a queue that no setting names, and has no on-failure destination";
            it.found(kinds::CONSUMER_UNATTACHED, says);
            return;
        }
        KnownBy::Tag => it.found(kind, format!("{says}, and comeback attach has set one")),
        // Somebody may have detached it.
        KnownBy::Metrics => {
            let says =
                format!("{says}, and failures of it came back in the last {}", exact_span(EARLIER));
            it.found(kind, says)
                .only_warns()
                .why("If it was not detached on purpose, its failures are lost.")
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
        it.found(kinds::OWN_RETRIES, says)
            .fix(Fix::Retries { function: name.clone(), qualifier: qualifier.clone() });
    }
    if let Some(age) = age_max.filter(|age| *age < AGE_MIN) {
        let says = format!("Lambda drops events{of} that could not run for {}", exact_span(age));
        it.found(kinds::EVENT_AGE_SHORT, says);
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
            it.found(kinds::TARGET_NOT_ALLOWED, says);
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
            it.found(kinds::ROLE_MAY_NOT_SEND, says).grant(
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
            it.found(kinds::QUEUE_DENIES_TARGET, says);
        }
        Effect::Allow => {}
        Effect::Nothing => {
            let may_send = target.may_send.get(arn).and_then(|fact| it.known(fact));
            if may_send == Some(&false) {
                let role = function.role_name();
                it.found(
                    kinds::ROLE_MAY_NOT_SEND,
                    format!("its role lacks sqs:SendMessage on {queue}"),
                )
                .allow(role, &format!("send-{name}"), &["sqs:SendMessage"], &[arn]);
            }
        }
    }
}

fn count_target(it: &mut Examined, facts: &Facts, name: &str, has_bucket: bool) {
    if let Some(undelivered) = facts.counted(Metric::DELIVERY_FAILURES, name) {
        let undelivered = counted(undelivered, "failure");
        let says = format!("Lambda could not deliver {undelivered} of it in the last day");
        let finding = it.found(kinds::DELIVERIES_FAILED, says);
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
    let is_retried =
        it.findings.iter().all(|finding| DESTINATIONS.iter().all(|it| it.name != finding.name));
    if let Some(errors) = facts.counted(Metric::ERRORS, name)
        && facts.counted(Metric::ASYNC_EVENTS, name).is_some()
        && is_retried
        && !facts.has_metric(Metric::EVENT_AGES, name)
    {
        let says = format!(
            "{errors} of its invocations failed in the last day, and no failure of it reached the handler"
        );
        it.found(kinds::FAILURES_NOT_RETRIED, says);
    }
    if let Some(throttles) = facts.counted(Metric::THROTTLES, name) {
        let says = format!("{throttles} of its invocations were throttled in the last day");
        it.found(kinds::TARGET_THROTTLED, says);
    }
    if let Some(faults) = facts.counted(Metric::CONFIGURATION_FAULTS, name) {
        let faults = counted(faults, "time");
        let says = format!("the handler could not invoke it {faults} in the last day");
        it.found(kinds::CONFIGURATION_FAULTS, says);
    }
    if let Some(unsent) = facts.counted(Metric::LETTERS_NOT_SENT, name) {
        let says = format!("{unsent} of its dead letters could not be sent in the last day");
        it.found(kinds::DEAD_LETTERS_UNSENT, says);
    }
    recursion(it, facts, name);
}
