//! Phrases that `comeback local` and `comeback demo` share.

use std::time::Duration;

use crate::{activity::Error, journal::Ending};

/// A duration, rounded to a tenth of a second.
pub fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// The name of a run. Attempt 0 is Lambda's own invocation.
pub fn run(attempt: u32) -> String {
    match attempt {
        0 => "the first run".to_owned(),
        attempt => format!("attempt {attempt}"),
    }
}

/// The failure of a run, as the predicate of a sentence.
pub fn failure(ending: Ending, error: &Error) -> String {
    let Error { kind, message } = error;
    match (ending, kind) {
        (Ending::Crashed, _) => format!("crashes: {message}"),
        (Ending::TimedOut, _) => "is killed at its time-out".to_owned(),
        (Ending::InitFailed, _) => format!("does not start: {message}"),
        (Ending::Failed | Ending::Succeeded, Some(kind)) if message.is_empty() => {
            format!("fails: {kind}")
        }
        (Ending::Failed | Ending::Succeeded, Some(kind)) => format!("fails: {kind}: {message}"),
        (Ending::Failed | Ending::Succeeded, None) if message.is_empty() => "fails".to_owned(),
        (Ending::Failed | Ending::Succeeded, None) => format!("fails: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phrase_for_a_failure_depends_on_its_kind() {
        let error = |kind: Option<&str>, message: &str| Error {
            kind: kind.map(str::to_owned),
            message: message.to_owned(),
        };
        for (ending, error, expected) in [
            (Ending::Failed, error(Some("Busy"), "503"), "fails: Busy: 503"),
            (Ending::Failed, error(Some("Busy"), ""), "fails: Busy"),
            (Ending::Failed, error(None, "503"), "fails: 503"),
            (Ending::Succeeded, error(None, ""), "fails"),
            (
                Ending::Crashed,
                error(Some("Runtime.ExitError"), "exit status 1"),
                "crashes: exit status 1",
            ),
            (
                Ending::TimedOut,
                error(Some("Sandbox.Timedout"), "timed out"),
                "is killed at its time-out",
            ),
            (Ending::InitFailed, error(None, "no settings"), "does not start: no settings"),
        ] {
            assert_eq!(failure(ending, &error), expected);
        }
    }
}
