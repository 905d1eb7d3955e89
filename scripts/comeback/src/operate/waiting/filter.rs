//! The filters on waiting events, which may count a due time from now.

use comeback_core::Timestamp;

use crate::{
    operate::waiting::rules::Selection,
    typed::{When, when},
};

/// Filters on events. All filters must match. A repeatable filter matches if one of its values does.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Filters")]
pub struct Filter {
    #[command(flatten)]
    pub selection: Selection,
    /// Due before this time, such as 15:30 or 2026-05-01T12:00:00Z in UTC, or within this duration, such as 15m.
    #[arg(long, value_name = "TIME|DURATION", value_parser = when)]
    pub due_before: Option<When>,
}

impl Filter {
    /// Whether every event matches.
    pub fn is_empty(&self) -> bool {
        self.selection == Selection::default() && self.due_before.is_none()
    }

    /// The selection, with durations counted from `now`.
    pub fn selection(&self, now: Timestamp) -> Selection {
        let due_before = self.due_before.map(|when| when.after(now));
        Selection { due_before, ..self.selection.clone() }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser};

    use super::*;
    use crate::operate::waiting::rules::stand_in::{event, second};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        filter: Filter,
    }

    #[test]
    fn every_filter_must_match_and_one_value_of_a_repeated_filter() {
        let event = event("failed", 100);
        for (options, expected) in [
            ("", true),
            ("--id fai", true),
            ("--id event-fai", true),
            ("--id other", false),
            ("--function payments", false),
            ("--function payments --function orders", true),
            ("--error Down --message ROUTE", true),
            ("--due-before 101s", true),
            ("--due-before 100s", false),
            ("--due-before 1970-01-01T00:01:41Z", true),
            ("--due-before 1970-01-01T00:01:40Z", false),
            ("--id fai --error Up", false),
        ] {
            let line = Line::parse_from(["waiting"].into_iter().chain(options.split_whitespace()));
            let selection = line.filter.selection(second(0));
            assert_eq!(selection.matches(&event), expected, "{options}");
        }
        assert!(Line::try_parse_from(["waiting", "--due-before", "soon"]).is_err());
        for filter in Line::command().get_arguments().filter_map(|it| it.get_long()) {
            let refused = Line::try_parse_from(["waiting", &format!("--{filter}"), ""]);
            assert!(refused.is_err(), "--{filter} is empty");
        }
    }
}
