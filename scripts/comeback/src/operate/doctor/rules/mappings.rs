//! Examines the mappings of the handler.

use crate::{
    account::{
        function::Function, handlers::queue_targets, mapping::Mapping, names::last,
        setup::BATCH_SIZE,
    },
    operate::doctor::rules::{
        facts::Facts,
        finding::Examined,
        fix::{Fix, word},
        kinds,
        role::Role,
    },
    text::exact_span,
};

/// Examines the mappings of the handler, and reports queues without one.
pub fn mappings(facts: &Facts) -> Vec<Examined> {
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
        it.found(kinds::MAPPING_MISSING, format!("there is no mapping of {queue} to {handler}"))
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
            Role::Source => Some(taken(&facts.handler, last(&mapping.queue), &mapping.uuid)),
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
        it.found(kinds::MAPPING_DISABLED, format!("it is {}", state.to_lowercase())).fix(fix());
    }
    if !mapping.reports_failures {
        it.found(kinds::MAPPING_REPORTS_NOTHING, "ReportBatchItemFailures is off").fix(fix());
    }
    if mapping.is_filtered {
        it.found(kinds::MAPPING_FILTERED, "it has a filter").by_hand(format!(
            "aws lambda update-event-source-mapping --uuid {} --filter-criteria '{{}}'",
            mapping.uuid
        ));
    }
    if *batch_size != BATCH_SIZE {
        let says = format!("its batch size is {batch_size}, and not {BATCH_SIZE}");
        it.found(kinds::MAPPING_BATCH_SIZE, says).fix(fix());
    }
    if !window.is_zero() {
        it.found(
            kinds::MAPPING_WINDOW,
            format!("its batching window is {}, and not 0", exact_span(*window)),
        )
        .fix(fix());
    }
    if let Some(problem) = mapping.last_result.as_ref().filter(|it| it.starts_with("PROBLEM")) {
        it.found(kinds::MAPPING_FAILING, problem.clone());
    }
    it.good = format!(
        "enabled, batches of {batch_size}, no batching window, ReportBatchItemFailures is on"
    );
    it
}

/// Examines a mapping by which the handler receives from a queue that has a consumer of its own.
pub fn taken(handler: &Function, queue: &str, uuid: &str) -> Examined {
    let mut it = Examined::new(format!("mapping of {queue}"));
    let handler = handler.name();
    let says = format!("{handler} receives from {queue}, which is no retry queue");
    it.found(kinds::MAPPING_OF_SOURCE, says)
        .by_hand(format!("aws lambda delete-event-source-mapping --uuid {uuid}"));
    it
}
