//! The handler's log in CloudWatch Logs.

use comeback_core::Timestamp;
use comeback_operate::ports::Fault;

use super::aws::{Aws, fault};

/// The lines of a log group in this time that a filter pattern means, until `visit` returns false.
///
/// # Errors
///
/// If they can't be read.
pub async fn lines(
    aws: &Aws,
    group: &str,
    pattern: &str,
    from: Timestamp,
    mut visit: impl FnMut(String) -> bool,
) -> Result<(), Fault> {
    let pages = aws
        .logs
        .filter_log_events()
        .log_group_name(group)
        .start_time(from.timestamp_millis())
        .filter_pattern(pattern)
        .into_paginator()
        .send();
    let mut pages = pages;
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
