//! The log of the retry handler, from which commands know the lives of events.

use comeback_core::Timestamp;

use crate::{
    account::fault::Answer,
    aws::{Aws, fault},
    shell::spinner,
};

/// Calls `visit` with each line of a log group since `from` that matches a filter pattern, until it returns false.
pub async fn log_lines(
    aws: &Aws,
    group: &str,
    pattern: &str,
    from: Timestamp,
    mut visit: impl FnMut(String) -> bool,
) -> Answer<()> {
    let mut pages = aws
        .logs
        .filter_log_events()
        .log_group_name(group)
        .start_time(from.timestamp_millis())
        .filter_pattern(pattern)
        .into_paginator()
        .send();
    while let Some(page) = pages.next().await {
        let page = page.map_err(fault("logs:FilterLogEvents", group))?;
        for event in page.events.unwrap_or_default() {
            if !visit(event.message.unwrap_or_default()) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Collects these lines until `goes_on` returns false, and shows their number on standard error meanwhile.
pub async fn collected_lines(
    aws: &Aws,
    group: &str,
    pattern: &str,
    from: Timestamp,
    what: &str,
    goes_on: impl Fn() -> bool,
) -> Answer<Vec<String>> {
    let spinner = spinner(what);
    let mut collected = Vec::new();
    let read = log_lines(aws, group, pattern, from, |line| {
        spinner.inc(1);
        collected.push(line);
        goes_on()
    });
    let read = read.await;
    spinner.finish_and_clear();
    read.map(|()| collected)
}
