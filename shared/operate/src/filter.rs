//! How the filters of all commands compare.

use comeback_core::{arn::FunctionArn, error_type, pattern};

/// Whether one of these matches, or there are none.
pub fn any(wanted: &[String], matches: impl Fn(&str) -> bool) -> bool {
    wanted.is_empty() || wanted.iter().any(|wanted| matches(wanted))
}

/// Whether this is the function, by its name or ARN, in which `*` matches any characters.
pub fn is_function(function: &FunctionArn, wanted: &str) -> bool {
    let names = [function.name(), function.unqualified(), function.as_str()];
    names.iter().any(|name| pattern::matches(wanted, name))
}

/// Whether this is the error type, whole or its last segment; `*` matches any characters.
pub fn is_error(error: &str, wanted: &str) -> bool {
    error_type::names(error).iter().any(|name| pattern::matches(wanted, name))
}

/// The name for an unknown error type.
pub const NO_ERROR: &str = "none";

/// The same of an error that may have no type, which is meant by [`NO_ERROR`].
pub fn is_error_of(error: Option<&str>, wanted: &str) -> bool {
    error.map_or(wanted == NO_ERROR, |error| is_error(error, wanted))
}

/// Whether a text has this part, in upper or lower case.
pub fn contains(text: &str, part: &str) -> bool {
    text.to_lowercase().contains(&part.to_lowercase())
}
