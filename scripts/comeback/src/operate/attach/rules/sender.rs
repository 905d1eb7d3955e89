//! The options that name what delivers events.

use clap::Args;

use crate::account::sender::DEFAULT;

/// The options that name what delivers events.
#[derive(Clone, Debug, Default, Eq, PartialEq, Args)]
pub struct SenderArgs {
    /// The rule of EventBridge whose undelivered events are to come back.
    #[arg(long, value_name = "NAME", value_parser = name, conflicts_with_all = ["function", "schedule"])]
    pub rule: Option<String>,
    /// The id of the rule's target [default: its only one].
    #[arg(long, value_name = "ID", requires = "rule")]
    pub target: Option<String>,
    /// The event bus of the rule.
    #[arg(long, value_name = "NAME", requires = "rule", default_value = DEFAULT)]
    pub bus: String,
    /// The schedule of EventBridge Scheduler whose undelivered events are to come back.
    #[arg(long, value_name = "NAME", value_parser = name, conflicts_with = "function")]
    pub schedule: Option<String>,
    /// The group of the schedule.
    #[arg(long, value_name = "NAME", value_parser = name, requires = "schedule", default_value = DEFAULT)]
    pub group: String,
}

impl SenderArgs {
    pub fn is_some(&self) -> bool {
        self.rule.is_some() || self.schedule.is_some()
    }
}

/// Parses the name of a rule, a schedule or a group, which becomes a part of a path.
fn name(text: &str) -> Result<String, &'static str> {
    let is_good = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
    let is_name = (1..=64).contains(&text.len()) && text.chars().all(is_good);
    is_name.then(|| text.to_owned()).ok_or("expected at most 64 letters, digits, - _ and .")
}
