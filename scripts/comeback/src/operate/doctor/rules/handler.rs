//! Examines the retry handler and its mappings.

use std::time::Duration;

use comeback_core::{
    in_flight::QUOTA,
    settings::{BadSettings, Misspelt, Settings},
};

use crate::operate::{
    doctor::rules::{
        BATCH_SIZE, Examined, Facts, Fix, Mapping, Metric, Running, queue_targets, span, word,
    },
    rules::{Function, last},
};

/// With a shorter time-out, the handler could not wait for any answer, because it reserves time for its last steps.
const TIMEOUT_MIN: Duration = Duration::from_secs(10);

pub(super) fn examine(facts: &Facts, settings: Result<&Settings, &BadSettings>) -> Examined {
    let handler = &facts.handler;
    let name = handler.name();
    let mut it = Examined::new(format!("handler {name}"));
    state(&mut it, &facts.running, "handler_inactive");
    if let Err(bad) = settings {
        it.bad("settings_bad", bad.to_string())
            .why("The handler does not start, so no event comes back.");
    }
    for misspelt in Misspelt::among(handler.environment.keys().cloned()) {
        it.warn("setting_misspelt", misspelt.to_string())
            .why("The handler uses the default of that setting.");
    }
    if let Some(max) = settings.ok().map(|it| it.in_flight_max.get()).filter(|max| *max > QUOTA) {
        let says =
            format!("IN_FLIGHT_MAX is {max}, and SQS's quota is {QUOTA} unless AWS raised it");
        it.warn("in_flight_max_high", says)
            .why("At its quota a queue delivers nothing more, without an error.");
    }
    code(&mut it, handler);
    if it.known(&facts.running.reserved) == Some(&Some(0)) {
        it.bad("handler_paused", "its reserved concurrency is 0")
            .why("Nothing runs, so no event comes back.")
            .fix(Fix::ByHand(format!(
                "aws lambda delete-function-concurrency --function-name {name}"
            )));
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
        "active, {} on {}, time-out {}, {} settings{}",
        handler.runtime.as_deref().unwrap_or("an image"),
        handler.architecture,
        span(handler.timeout),
        handler.environment.len(),
        code.unwrap_or_default(),
    );
    it
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
            .fix(Fix::ByHand(format!(
                "aws lambda update-function-configuration --function-name {name} --timeout 30"
            )));
    }
}

fn counts(it: &mut Examined, facts: &Facts, name: &str) {
    let count = |metric| facts.metric(metric, name);
    let errors = count(Metric::Errors);
    if errors > 0.0 {
        it.warn("handler_errors", format!("{errors} of its invocations failed in the last day"))
            .why("Whole batches come again. Its log says why.");
    }
    let throttles = count(Metric::Throttles);
    if throttles > 0.0 {
        let says = format!("{throttles} of its invocations were throttled in the last day");
        it.warn("handler_throttled", says)
            .why("Retries come late, and each throttle counts as a receive of the message.");
    }
    recursion(it, count(Metric::RecursiveInvocationsDropped));
}

/// Reports invocations that Lambda's recursive-loop detection stopped.
pub(super) fn recursion(it: &mut Examined, stopped: f64) {
    if stopped > 0.0 {
        let says = format!("Lambda stopped {stopped} invocations as a loop in the last day");
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
        .fix(Fix::ByHand(format!(
            "aws lambda create-event-source-mapping --function-name {handler} --event-source-arn {} --batch-size \
             {BATCH_SIZE} --function-response-types ReportBatchItemFailures",
            word(arn)
        )));
        it
    });
    mappings.iter().map(examine_mapping).chain(missing).collect()
}

fn examine_mapping(mapping: &Mapping) -> Examined {
    let mut it = Examined::new(format!("mapping of {}", last(&mapping.queue)));
    let fix = || Fix::Mapping { uuid: mapping.uuid.clone() };
    let Mapping { batch_size, window, state, .. } = mapping;
    if matches!(state.as_str(), "Disabled" | "Disabling" | "Deleting") {
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
            .fix(Fix::ByHand(format!(
                "aws lambda update-event-source-mapping --uuid {} --filter-criteria '{{}}'",
                mapping.uuid
            )));
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
