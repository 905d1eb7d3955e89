//! Examines the policies of errors: those that can't decide, and those that did not although others did.

use std::time::Duration;

use comeback_core::{
    error_type::means,
    settings::{Settings, policy::ErrorPolicy},
};

use crate::operate::doctor::rules::{facts::Facts, finding::Examined, kinds};

/// For how long the handler's log is asked which policies have decided.
pub const LOOKS_BACK: Duration = Duration::from_hours(24);

/// Types of Lambda's own errors, which a pattern that begins with `*` does not mean.
const LAMBDAS_OWN: [&str; 4] =
    ["Runtime.ExitError", "Sandbox.Timedout", "Extension.Crash", "Runtime<Errno>"];

pub fn errors(it: &mut Examined, facts: &Facts, settings: &Settings) {
    let all: Vec<_> = settings.rules.policies.of_errors().collect();
    let decided = it.known(&facts.errors_decided).filter(|decided| !decided.is_empty());
    for (nth, own) in all.iter().enumerate() {
        let name = &own.name;
        if let Some(earlier) = all[..nth].iter().find(|earlier| hides(earlier, own)) {
            let says = format!("{name} never decides, because {} stands before it", earlier.name);
            it.found(kinds::ERROR_HIDDEN, says);
        } else if decided.is_some_and(|decided| !decided.contains(name)) {
            let says =
                format!("{name} has decided nothing for a day, and other policies of errors have");
            it.found(kinds::ERROR_UNMATCHED, says);
        }
    }
}

/// Whether each error that a policy is for is one that an earlier policy of the same functions is for. A `*` of the
/// later pattern can stand for anything, so only a `*` of the earlier one matches it.
fn hides(earlier: &ErrorPolicy, later: &ErrorPolicy) -> bool {
    let (pattern, hidden) = (&earlier.pattern, &later.pattern);
    let is_lambdas = LAMBDAS_OWN.iter().any(|own| means(hidden, own) && !means(pattern, own));
    earlier.of == later.of && means(pattern, hidden) && !is_lambdas
}

#[cfg(test)]
mod tests {
    use comeback_core::settings::policy::Policy;

    use super::*;

    fn own(pattern: &str, of: &str) -> ErrorPolicy {
        let [pattern, of] = [pattern, of].map(str::to_owned);
        ErrorPolicy { name: format!("{pattern} of {of}"), pattern, of, policy: Policy::default() }
    }

    #[test]
    fn a_pattern_hides_what_it_matches_whatever_stands_for_the_stars() {
        for (earlier, later, expected) in [
            ("*", "Down", true),
            ("*", "*Down", true),
            ("Down*", "DownAgain*", true),
            ("Down", "Down*", false),
            ("DownAgain*", "Down*", false),
            ("*Down", "*", false),
            ("Down", "app.Down", true),
            ("app.Down", "Down", false),
            ("*", "Runtime.*", false),
            ("*", "Runtime.ExitError", false),
            ("Runtime.*", "Runtime.ExitError", true),
        ] {
            let [earlier, later] = [earlier, later].map(|it| own(it, "orders"));
            assert_eq!(hides(&earlier, &later), expected, "{earlier:?}, {later:?}");
        }
        assert!(!hides(&own("*", "*"), &own("Down", "orders")), "a function's own come first");
    }
}
