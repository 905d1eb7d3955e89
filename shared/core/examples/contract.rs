//! Prints the contract as JSON, for `infra/contract/generate.py`.

use comeback_core::{
    log_line::FIELDS,
    metric::Metric,
    reason::Reason,
    settings::contract::{LAST_CHANCE, SETTINGS, TABLE},
};
use serde_json::json;

fn main() -> Result<(), serde_json::Error> {
    let metrics = Metric::ALL.iter().map(|it| (it.name(), it.unit(), it.statistic(), it.meaning()));
    let reasons = Reason::ALL.iter().map(|it| (it.as_str(), it.may_succeed_later(), it.cause()));
    let (metrics, reasons): (Vec<_>, Vec<_>) = (metrics.collect(), reasons.collect());
    println!(
        "{}",
        json!({
            "settings": SETTINGS, "last_chance": LAST_CHANCE, "table": TABLE, "metrics": metrics, "reasons": reasons,
            "log_fields": FIELDS,
        })
    );
    Ok(())
}
