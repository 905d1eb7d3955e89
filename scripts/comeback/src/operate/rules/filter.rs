//! Comparisons that the filters of all commands share.

use comeback_core::{error_type, pattern, target::Target};

/// Whether any of the wanted values matches. An empty list matches everything.
pub fn any(wanted: &[String], matches: impl Fn(&str) -> bool) -> bool {
    wanted.is_empty() || wanted.iter().any(|wanted| matches(wanted))
}

/// Whether the function or queue has this name or ARN, in which `*` matches any characters.
pub fn is_target(target: &Target, wanted: &str) -> bool {
    let unqualified = match target {
        Target::Function(function) => function.unqualified(),
        Target::Queue(queue) => queue.as_str(),
    };
    let names = [target.name(), unqualified, target.as_str()];
    names.iter().any(|name| pattern::matches(wanted, name))
}

/// Whether the error type, or its last segment, is the wanted one, in which `*` matches any characters.
pub fn is_error(error: &str, wanted: &str) -> bool {
    error_type::names(error).iter().any(|name| pattern::matches(wanted, name))
}

/// The name for an unknown error type.
pub const NO_ERROR: &str = "none";

/// Like [`is_error`], but [`NO_ERROR`] matches an unknown error type.
pub fn is_error_of(error: Option<&str>, wanted: &str) -> bool {
    error.map_or(wanted == NO_ERROR, |error| is_error(error, wanted))
}

/// Whether a text contains this part, ignoring case.
pub fn contains(text: &str, part: &str) -> bool {
    text.to_lowercase().contains(&part.to_lowercase())
}
