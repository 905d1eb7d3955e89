//! The operator's filter for waiting events.

use comeback_core::{Timestamp, arn::FunctionArn, register::Entry};

use crate::operate::rules::filter::{any, contains, is_error_of, is_function};

/// A filter for events. All conditions that are set must be met. For a list, one matching entry is enough.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Selection {
    /// Event ids or the request ids of the latest failures, or prefixes of them.
    pub ids: Vec<String>,
    /// Names or ARNs of functions; `*` matches any characters.
    pub functions: Vec<String>,
    /// Error types, whole or their last segments, or `none`; `*` matches any characters.
    pub errors: Vec<String>,
    /// A part of the error message, ignoring case.
    pub message: Option<String>,
    /// The event is due before this time.
    pub due_before: Option<Timestamp>,
}

impl Selection {
    /// Whether this event meets all conditions.
    pub fn matches(&self, event: &Entry) -> bool {
        any(&self.ids, |id| event.event_id.starts_with(id) || event.request_id().starts_with(id))
            && any(&self.functions, |wanted| {
                FunctionArn::parse(&event.target)
                    .is_some_and(|function| is_function(&function, wanted))
            })
            && any(&self.errors, |wanted| is_error_of(event.error_type.as_deref(), wanted))
            && self.message.as_ref().is_none_or(|part| {
                contains(event.error_message.as_deref().unwrap_or_default(), part)
            })
            && self.due_before.is_none_or(|before| event.due < before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operate::waiting::rules::stand_in::{event, second};

    #[test]
    fn every_condition_that_is_set_must_be_met() {
        let list = |entry: &str| vec![entry.to_owned()];
        let all = Selection::default;
        let event = event("failed", 100);
        for (selection, expected) in [
            (all(), true),
            (Selection { ids: list("fai"), ..all() }, true),
            (Selection { ids: list("event-fai"), ..all() }, true),
            (Selection { ids: list("other"), ..all() }, false),
            (Selection { functions: list("orders"), ..all() }, true),
            (Selection { functions: list("ord*"), ..all() }, true),
            (Selection { functions: list(&event.target), ..all() }, true),
            (Selection { functions: list("payments"), ..all() }, false),
            (Selection { functions: vec!["payments".into(), "orders".into()], ..all() }, true),
            (Selection { errors: list("Down"), ..all() }, true),
            (Selection { errors: list("app.*"), ..all() }, true),
            (Selection { errors: list("Up"), ..all() }, false),
            (Selection { message: Some("NO ROUTE".into()), ..all() }, true),
            (Selection { message: Some("refused".into()), ..all() }, false),
            (Selection { due_before: Some(second(101)), ..all() }, true),
            (Selection { due_before: Some(second(100)), ..all() }, false),
            (Selection { ids: list("fai"), errors: list("Up"), ..all() }, false),
        ] {
            assert_eq!(selection.matches(&event), expected, "{selection:?}");
        }
    }
}
