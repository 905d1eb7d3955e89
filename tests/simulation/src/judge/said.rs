//! What an invocation says of its failure, and what that asks for.

use crate::plan::NEVER;

/// What an invocation left behind when it failed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    pub(crate) error_type: Option<String>,
    pub(crate) message: Option<String>,
}

impl Said {
    /// What a function's own dead-letter queue is told: no type; of what never ran, the condition.
    pub(super) fn bare(self, condition: &str) -> Self {
        let ran = condition == "RetriesExhausted";
        let message = if ran { self.message } else { Some(condition.to_owned()) };
        let carried = |c: &char| !(c.is_ascii_control() && *c != '\u{7f}') && *c != '\u{ffff}';
        let message = message.map(|text| text.chars().filter(carried).collect::<String>());
        Self { error_type: None, message: message.filter(|text| !text.is_empty()) }
    }

    /// Whether this is an error that never heals, for an owner who names these of [`NEVER`].
    pub(super) fn never_heals(&self, named: &[usize]) -> bool {
        self.error_type.as_deref().is_some_and(|error_type| {
            error_type == "PermanentFailure"
                || error_type.ends_with(".PermanentFailure")
                || named.iter().any(|&n| error_type == NEVER[n].1)
        })
    }

    /// For how many seconds the target asks to wait.
    pub(super) fn wish(&self) -> Option<u64> {
        let error_type = self.error_type.as_deref()?;
        if error_type != "RetryAfter" && !error_type.ends_with("::RetryAfter") {
            return None;
        }
        let message = self.message.as_deref()?;
        let digits = message.find(|c: char| !c.is_ascii_digit()).unwrap_or(message.len());
        let unit = match message[digits..].split([':', ' ']).next() {
            Some("s" | "") => 1,
            Some("m") => 60,
            Some("h") => 3600,
            Some("d") => 86_400,
            Some(_) | None => return None,
        };
        message[..digits].parse::<u64>().ok().map(|count| count * unit)
    }
}
