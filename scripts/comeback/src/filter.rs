//! Filters on failures, as commands and the live page take them.

use comeback_core::{error_type, pattern, target::Target};

use crate::typed::{NONE, not_empty};

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

/// Why an order that can't be undone is refused if it selects everything and nobody said so.
pub const NEEDS_ALL: &str = "expected a filter, or --all for everything. Nothing was changed";

/// Filters on the last failure. All filters must match. A repeatable filter matches if one of its values does.
#[derive(Clone, Debug, Default, Eq, PartialEq, clap::Args)]
pub struct FailureFilter {
    /// A function, or a queue such as sqs:imports, by its name or ARN; * matches any characters; repeatable.
    #[arg(long = "function", value_name = "FUNCTION", value_parser = not_empty)]
    pub functions: Vec<String>,
    /// An error type, whole or its last segment, or none; * matches any characters; repeatable.
    #[arg(long = "error", value_name = "TYPE", value_parser = not_empty)]
    pub errors: Vec<String>,
    /// A part of the error message.
    #[arg(long, value_name = "TEXT", value_parser = not_empty)]
    pub message: Option<String>,
}

impl FailureFilter {
    pub fn matches(
        &self,
        target: Option<&Target>,
        error_type: Option<&str>,
        message: Option<&str>,
    ) -> bool {
        any(&self.functions, |wanted| target.map_or(wanted == NONE, |it| is_target(it, wanted)))
            && any(&self.errors, |wanted| is_error_of(error_type, wanted))
            && self.message.as_ref().is_none_or(|it| contains(message.unwrap_or_default(), it))
    }

    /// The options that mean it.
    pub fn options(&self) -> Vec<(&'static str, String)> {
        let Self { functions, errors, message } = self;
        let each = |name, values: &[String]| {
            values.iter().map(move |it| (name, it.clone())).collect::<Vec<_>>()
        };
        let message = message.iter().map(|it| ("message", it.clone()));
        [each("function", functions), each("error", errors)]
            .into_iter()
            .flatten()
            .chain(message)
            .collect()
    }

    /// Refuses a filter that matches everything, for an order that can't be undone: `$NAME*` is `*` if the variable is
    /// not set.
    pub fn refuse_everything(&self) -> Result<(), String> {
        let is_bare = |value: &&String| value.chars().all(|c| c == '*');
        for (filter, values) in [("function", &self.functions), ("error", &self.errors)] {
            if let Some(value) = values.iter().find(is_bare) {
                return Err(format!(
                    "the filter {filter} '{value}' matches everything: leave it out if that is what you mean"
                ));
            }
        }
        Ok(())
    }
}

/// Whether the error type, or its last segment, is the wanted one, in which `*` matches any characters. [`NONE`]
/// matches an unknown error type.
pub fn is_error_of(error: Option<&str>, wanted: &str) -> bool {
    error.map_or(wanted == NONE, |error| {
        error_type::names(error).iter().any(|name| pattern::matches(wanted, name))
    })
}

pub fn contains(text: &str, part: &str) -> bool {
    text.to_lowercase().contains(&part.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_matches_everything_is_refused() {
        let filter = |function: &str, error: &str| {
            let list = |value: &str| match value {
                "" => Vec::new(),
                value => vec!["orders".to_owned(), value.to_owned()],
            };
            FailureFilter { functions: list(function), errors: list(error), message: None }
        };
        for (function, error) in [("", ""), ("a*", "*.Down"), ("*a", "")] {
            assert_eq!(filter(function, error).refuse_everything(), Ok(()));
        }
        for (function, error, named) in [("*", "", "function '*'"), ("a", "**", "error '**'")] {
            let refused = filter(function, error).refuse_everything().unwrap_err();
            assert!(refused.contains(named), "{refused}");
        }
    }
}
