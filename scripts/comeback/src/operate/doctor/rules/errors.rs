//! Examines the policies of errors: those that can't decide, and those that did not although others did.

use comeback_core::{error_type::means, settings::Settings};

use crate::operate::doctor::rules::{facts::Facts, finding::Examined};

/// For how many days the handler's log is asked which policies have decided.
pub const DAYS: u32 = 7;

/// Types of Lambda's own errors, which a pattern that begins with `*` does not mean.
const LAMBDAS_OWN: [&str; 4] =
    ["Runtime.ExitError", "Sandbox.Timedout", "Extension.Crash", "Runtime<Errno>"];

pub fn errors(it: &mut Examined, facts: &Facts, settings: &Settings) {
    let all: Vec<_> = settings.rules.policies.of_errors().map(|own| &*own.name).collect();
    let decided = it.known(&facts.errors_decided).filter(|decided| !decided.is_empty());
    for (nth, name) in all.iter().enumerate() {
        if let Some(earlier) = all[..nth].iter().find(|earlier| hides(earlier, name)) {
            it.warn(
                "error_hidden",
                format!("{name} never decides, because {earlier} stands before it"),
            )
            .why("The first type in ERRORS that matches decides. Put the more special one first.");
        } else if decided.is_some_and(|decided| !decided.contains(*name)) {
            let says = format!(
                "{name} has decided nothing in {DAYS} days, and other policies of errors have"
            );
            it.warn("error_unmatched", says).why(
                "If such errors occur, its type is not as the runtime reports it: comeback waiting shows the types.",
            );
        }
    }
}

/// Whether each error that one policy is for is one that an earlier policy of the same functions is for. A `*` of the
/// later pattern can stand for anything, so only a `*` of the earlier one matches it.
fn hides(earlier: &str, later: &str) -> bool {
    let (Some((pattern, of)), Some((hidden, of_hidden))) =
        (earlier.rsplit_once(" of "), later.rsplit_once(" of "))
    else {
        return false;
    };
    let is_lambdas = LAMBDAS_OWN.iter().any(|own| means(hidden, own) && !means(pattern, own));
    of == of_hidden && means(pattern, hidden) && !is_lambdas
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let [earlier, later] = [earlier, later].map(|it| format!("{it} of orders"));
            assert_eq!(hides(&earlier, &later), expected, "{earlier}, {later}");
        }
        assert!(!hides("* of *", "Down of orders"), "a function's own errors come first");
    }
}
